"""What an algorithm knows, in the user's units and on the user's side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oddarms.algorithms import Algorithm, Decision, Decisions, Threshold
from oddarms.problem import FloatArray, IntArray
from oddarms.search._result import Snapshot, TracePoint
from oddarms.search._rewards import Rewards

FindRows = Callable[[IntArray], FloatArray]


def snapshot(algorithm: Algorithm, rewards: Rewards) -> Snapshot:
    """Return all intervals at this moment."""
    lower, upper = _in_units(algorithm.intervals(), rewards)
    return Snapshot(
        round=algorithm.round,
        means=rewards.in_units(algorithm.means),
        lower=lower,
        upper=upper,
        decisions=decisions(algorithm, rewards),
        thresholds=thresholds(algorithm, rewards),
    )


def _in_units(
    ends: tuple[FloatArray, FloatArray], rewards: Rewards
) -> tuple[FloatArray, FloatArray]:
    lower, upper = map(rewards.in_units, ends)
    return (upper, lower) if rewards.mirrored else (lower, upper)


def later_intervals(algorithm: Algorithm, rewards: Rewards) -> FindRows:
    """Return what finds the intervals of this moment for some arms, a row of ends each."""
    find = algorithm.later_intervals()
    return lambda arms: np.column_stack(_in_units(find(arms), rewards))


def decisions(algorithm: Algorithm, rewards: Rewards) -> Decisions:
    """Return what is decided of each arm."""
    return on_side(algorithm.decisions.copy(), rewards)


def on_side(found: Decisions, rewards: Rewards) -> Decisions:
    """Return decisions or guesses on the user's side."""
    if rewards.mirrored:
        found[found == Decision.HIGH] = Decision.LOW
    return found


def thresholds(algorithm: Algorithm, rewards: Rewards) -> dict[str, Threshold]:
    """Return the threshold of each side."""
    found: dict[str, Threshold] = {}
    for side, (estimate, lower, upper) in algorithm.thresholds().items():
        if rewards.mirrored:
            found["lower"] = Threshold(*map(rewards.in_units, (estimate, upper, lower)))
        else:
            found[side] = Threshold(*map(rewards.in_units, (estimate, lower, upper)))
    return found


def centre(algorithm: Algorithm, rewards: Rewards) -> tuple[float, float]:
    """Return the interval of the centre of the means."""
    low, high = (float(rewards.in_units(end)) for end in algorithm.centre())
    return min(low, high), max(low, high)


def trace_point(algorithm: Algorithm, rewards: Rewards, pulls: int) -> TracePoint:
    """Return this moment as a point of the trace."""
    bound = next(iter(thresholds(algorithm, rewards).values()))
    return TracePoint(
        pulls,
        algorithm.round,
        int(algorithm.undecided.sum()),
        *bound,
        *_quartiles(algorithm.evidence()),
    )


def _quartiles(evidence: FloatArray | None) -> list[float]:
    """Return the least and the quartiles of what is there; each is the value of an arm."""
    if evidence is None:
        return []
    places = [(evidence.size - 1) * quarter // 4 for quarter in range(4)]
    found: list[float] = np.partition(evidence, places)[places].tolist()
    return found
