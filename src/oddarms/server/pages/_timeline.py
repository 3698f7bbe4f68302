"""What happened when, counted in pulls: decisions, open arms, the threshold, the evidence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.problem import IntArray
from oddarms.server.pages._view import KINDS, NAMES, SYMBOLS, View, plural

MOMENTS = 12
"""Of decisions that are listed, the latest first."""
NAMED = 4
"""Arms that are named at a moment."""
POINTS = 400
"""Of a line in a picture."""


def moments(view: View, most: int = MOMENTS) -> list[dict[str, Any]]:
    """Return the latest moments at which arms were decided, and which arms, outliers first."""
    after = view.result.decided_after
    if after is None:
        return []
    times = np.unique(after[after >= 0])[::-1][:most]
    arms = [np.flatnonzero(after == time) for time in times]
    return [_moment(view, int(time), those) for time, those in zip(times, arms, strict=True)]


def _moment(view: View, pulls: int, arms: IntArray) -> dict[str, Any]:
    decisions = view.result.decisions[arms]
    kinds = []
    for decision, kind in KINDS.items():
        those = arms[decisions == decision]
        if those.size:
            view.look_at(those[:NAMED].tolist())
            kinds.append(
                {
                    "kind": kind,
                    "name": plural(NAMES[kind], those.size),
                    "symbol": SYMBOLS[kind],
                    "count": f"{those.size:,}",
                    "arms": [{"arm": i, "label": view.label(i)} for i in those[:NAMED].tolist()],
                    "more": f"{those.size - NAMED:,}" if those.size > NAMED else "",
                }
            )
    return {"pulls": f"{pulls:,}", "kinds": kinds}


def decided_series(view: View) -> dict[str, Any]:
    """Return how many arms were outliers and normal after how many pulls: a line of steps."""
    result = view.result
    after = result.decided_after
    if after is None:
        return {"pulls": [], "outliers": [], "normal": []}
    odd, normal = (
        np.sort(after[mask & (after >= 0)])
        for mask in (result.decisions >= Decision.HIGH, result.decisions == Decision.NORMAL)
    )
    pulls = _thinned(np.unique(np.concatenate([[0], odd, normal, [result.pulls]])))
    return {
        "pulls": pulls.tolist(),
        "outliers": np.searchsorted(odd, pulls, side="right").tolist(),
        "normal": np.searchsorted(normal, pulls, side="right").tolist(),
    }


def _thinned(values: IntArray) -> IntArray:
    """Return at most `POINTS` of them, the first and the last among them."""
    if values.size <= POINTS:
        return values
    return values[np.unique(np.linspace(0, values.size - 1, POINTS).astype(np.int64))]


def study_series(view: View) -> dict[str, Any]:
    """Return open arms, the threshold's interval and the evidence as functions of the pulls.

    From `Result.trace`, which every process that reads the log has alike. The threshold is that of
    the first side; evidence is a logarithm to the base 10 here, so that 3 is a bet won 1000 to 1.
    """
    trace = view.result.trace
    a, b = view.question.bounds
    return {
        "pulls": [point.pulls for point in trace],
        "open": [point.undecided for point in trace],
        "threshold": [within(point.threshold, a, b) for point in trace],
        "lower": [within(point.threshold_lower, a, b) for point in trace],
        "upper": [within(point.threshold_upper, a, b) for point in trace],
        "least": [_tens(point.evidence_least) for point in trace],
        "quarter": [_tens(point.evidence_lower_quartile) for point in trace],
        "median": [_tens(point.evidence_median) for point in trace],
        "three_quarters": [_tens(point.evidence_upper_quartile) for point in trace],
        "bounds": [a, b],
    }


def plain_number(value: float | None) -> float | None:
    """Return a number with the digits that a plot needs; None where there is none."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def within(value: float, a: float, b: float) -> float | None:
    """Return a number moved to the nearest within bounds."""
    return None if math.isnan(value) else plain_number(min(max(value, a), b))


def _tens(log: float | None) -> float | None:
    return None if log is None else plain_number(log / math.log(10.0))
