"""One arm over time: its rewards, their average with an interval, and the evidence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.problem import FloatArray, IntArray
from oddarms.server.pages._timeline import plain_number, within
from oddarms.server.pages._view import View
from oddarms.statistics.evidence import log_mean_above, log_mean_below, mean_interval

POINTS = 300
"""At which interval and evidence are found."""
REWARDS = 1_500
"""Single rewards that are drawn: the latest."""


def arm_series(view: View, arm: int, rewards: FloatArray) -> dict[str, Any]:
    """Return an arm's rewards that are used, in the order of recording, and what they say.

    The interval is one that holds at all times for all n arms together with probability 1 - delta,
    found from this arm's rewards alone. The evidence is that of the rewards so far for the side of
    the threshold that the arm is on, or seems to be on, with the threshold as it is estimated now:
    a logarithm to the base 10.
    """
    a, b = view.question.bounds
    places = _places(rewards.size)
    scaled = (np.clip(rewards, a, b) - a) / (b - a)
    counts, sums, scatter = _running(scaled, places)
    low, high = mean_interval(counts, sums, scatter, view.question.delta / view.n)
    first = max(rewards.size - REWARDS, 0)
    return {
        "total": int(rewards.size),
        "places": places.tolist(),
        "mean": _numbers(a + (b - a) * sums / counts),
        "lower": _numbers(a + (b - a) * low),
        "upper": _numbers(a + (b - a) * high),
        "evidence": _evidence(view, arm, (counts, sums, scatter)),
        "first": first + 1,
        "rewards": _numbers(rewards[first:]),
        "thresholds": {
            side: within(t.estimate, a, b) for side, t in view.result.thresholds.items()
        },
        "bounds": [a, b],
    }


def _places(total: int) -> IntArray:
    """Return after how many rewards to look: all of few, and of many evenly on a log scale."""
    if total <= POINTS:
        return np.arange(1, total + 1)
    return np.unique(np.geomspace(1, total, POINTS).round().astype(np.int64))


def _running(scaled: FloatArray, places: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return count, sum and sum of squared deviations of the first rewards, at some places."""
    counts = places.astype(np.float64)
    sums, squares = np.cumsum(scaled)[places - 1], np.cumsum(scaled**2)[places - 1]
    return counts, sums, np.maximum(squares - sums**2 / counts, 0.0)


def _evidence(
    view: View, arm: int, tally: tuple[FloatArray, FloatArray, FloatArray]
) -> list[float | None] | None:
    """Return the evidence that the arm's mean is on its side of the nearest threshold."""
    a, b = view.question.bounds
    estimates = [t.estimate for t in view.result.thresholds.values() if math.isfinite(t.estimate)]
    if not estimates or not tally[0].size:
        return None
    mean = float(view.result.means[arm])
    nearest = min(estimates, key=lambda estimate: abs(estimate - mean))
    level = np.full(tally[0].size, min(max((nearest - a) / (b - a), 1e-9), 1.0 - 1e-9))
    decision = Decision(int(view.result.decisions[arm]))
    above = (
        mean >= nearest
        if decision in (Decision.UNDECIDED, Decision.NORMAL)
        else (decision is Decision.HIGH)
    )
    with np.errstate(all="ignore"):
        logs, _ = (log_mean_above if above else log_mean_below)(*tally, level)
    counts, sums, _ = tally
    there = (sums >= level * counts) == above  # else it is evidence for the other side
    return _numbers(np.where(there, logs, np.minimum(logs, 0.0)) / math.log(10.0))


def _numbers(values: FloatArray) -> list[float | None]:
    return [plain_number(value) for value in values.tolist()]
