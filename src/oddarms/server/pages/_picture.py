"""The interval picture as data: arms sorted by mean, in as many columns as there are pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.reports._figures import is_known
from oddarms.server.pages._view import KINDS, View

LEAST_WIDTH, MOST_WIDTH = 50, 4_000
LABELLED = 400
"""Up to so many arms the picture has their labels, too."""
MARKED = (Decision.UNDECIDED, Decision.LOW, Decision.HIGH)
"""Kinds whose means are marked one by one; the later over the earlier."""


def interval_columns(view: View, width: int) -> dict[str, Any]:
    """Return what a canvas of so many pixels has to draw, in plain values.

    Each column stands for one arm or several that are next to each other by mean: `lower` and
    `upper` are the outermost ends of their intervals, `least` and `most` their means, `counts` how
    many there are of each kind, and `marks` the outermost means of the kinds that are marked. A
    column's first arm has the place `starts` in the order of the means.
    """
    result, order = view.result, view.order("mean")
    columns = min(view.n, min(max(width, LEAST_WIDTH), MOST_WIDTH))
    starts = np.linspace(0, view.n, columns + 1).astype(np.int64)[:-1]
    means, decisions = result.means[order], result.decisions[order]
    lower, upper = (view.intervals[order, end] for end in (0, 1))
    low, high = np.minimum.reduceat(lower, starts), np.maximum.reduceat(upper, starts)
    thresholds = {
        side: _numbers(np.clip(bound, *view.question.bounds))
        for side, bound in result.thresholds.items()
        if is_known(bound)
    }
    kinds = {kind: decisions == decision for decision, kind in KINDS.items()}
    return {
        "n": view.n,
        "pulls": result.pulls,
        "starts": starts.tolist(),
        "lower": _numbers(low),
        "upper": _numbers(high),
        "least": _numbers(np.fmin.reduceat(means, starts)),
        "most": _numbers(np.fmax.reduceat(means, starts)),
        "counts": {
            name: np.add.reduceat(mask, starts, dtype=np.int64).tolist()
            for name, mask in kinds.items()
        },
        "marks": {KINDS[kind]: _marks(means, kinds[KINDS[kind]], starts) for kind in MARKED},
        "thresholds": thresholds,
        "range": _numbers(np.array(_range(view, low, high))),
        "labels": _labels(view, order.tolist()) if view.n <= LABELLED else None,
        "arms": order.tolist() if view.n <= LABELLED else None,
    }


def _labels(view: View, arms: list[int]) -> list[str]:
    view.look_at(arms)
    return [view.label(arm) for arm in arms]


def _marks(means: FloatArray, mask: BoolArray, starts: IntArray) -> dict[str, Any]:
    """Return the columns that have arms of a kind, with their smallest and largest mean."""
    low = np.minimum.reduceat(np.where(mask, np.nan_to_num(means, nan=np.inf), np.inf), starts)
    high = np.maximum.reduceat(np.where(mask, np.nan_to_num(means, nan=-np.inf), -np.inf), starts)
    there = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    return {"at": there.tolist(), "low": _numbers(low[there]), "high": _numbers(high[there])}


def _range(view: View, low: FloatArray, high: FloatArray) -> tuple[float, float]:
    """Return what the vertical axis shows: intervals and thresholds, but no further than bounds."""
    a, b = view.question.bounds
    ends = [x for bound in view.result.thresholds.values() for x in bound if math.isfinite(x)]
    least, most = min([float(low.min()), *ends]), max([float(high.max()), *ends])
    edge = 0.02 * max(most - least, 1e-9 * (b - a))
    return max(least - edge, a), min(most + edge, b)


def _numbers(values: FloatArray) -> list[float | None]:
    """Return numbers with the digits that a pixel shows; None for what is not one."""
    return [float(f"{x:.5g}") if math.isfinite(x) else None for x in values.tolist()]
