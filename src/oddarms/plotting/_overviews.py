"""Pictures of a search over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.plotting._style import (
    GREY,
    MARKS,
    THRESHOLD_BAND,
    THRESHOLD_LINE,
    Size,
    count_scale,
    drawing,
    finish,
    new_figure,
    pale,
    set_legend,
    set_title,
)
from oddarms.problem import FloatArray
from oddarms.search import Result, TracePoint

EVIDENCE_COLOUR = "#007f5c"  # Okabe and Ito's green, darker
LINEAR_UP_TO = 30  # arms; beyond, the last few are seen on a logarithmic scale only


def plot_evidence(
    result: Result, path: str | Path | None = None, *, size: Size | None = None
) -> Any:
    """Draw the search over time: arms still open, the threshold's interval, the arms' evidence.

    The evidence, if the algorithm has any, is the log e-value of each arm: its quartiles and its
    minimum. An arm is decided when its evidence is a little above log(n/delta).
    """
    with drawing():
        panels = [_draw_open, _draw_interval]
        if any(point.evidence_median is not None for point in result.trace):
            panels.append(_draw_evidence)
        figure, axes = new_figure(
            nrows=len(panels),
            sharex=True,
            squeeze=False,
            figsize=size or (9.0, 2.2 * len(panels) + 0.6),
        )
        for axis, draw in zip(axes[:, 0], panels, strict=True):
            if result.trace:
                draw(axis, result)
            else:
                axis.set_yticks([])
        _set_time(axes[-1, 0], result.trace)
        figure.align_ylabels()
        set_title(figure, _search_title(result))
        set_legend(
            figure,
            [h for axis in axes[:, 0] for h in axis.get_legend_handles_labels()[0]],
            column=2.9,
        )
        return finish(figure, path)


def _search_title(result: Result) -> str:
    open_, n = len(result.undecided), result.question.n
    if not result.trace:
        return "The search over time: no samples were taken"
    left = "every arm decided" if not open_ else f"{open_:,} of {n:,} arms undecided"
    return f"The search over time: {left} after {result.pulls:,} samples"


def _set_time(axis: Any, trace: Sequence[TracePoint]) -> None:
    axis.set_xlabel("samples taken")
    if trace:
        first, last = max(trace[0].pulls, 1), max(trace[-1].pulls, 1)
        count_scale(axis, "x", max(first / 1.15, 1.0), last * 1.15)
    else:
        axis.set_xticks([])


def _of(result: Result, name: str) -> FloatArray:
    """Return a column of the trace, with NaN for missing and infinite numbers."""
    values = [getattr(point, name) for point in result.trace]
    array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


def _draw_open(axis: Any, result: Result) -> None:
    n, mark = result.question.n, MARKS[Decision.UNDECIDED]
    pulls, undecided = _of(result, "pulls"), _of(result, "undecided")
    axis.plot(pulls, undecided, color=mark.colour, drawstyle="steps-post", lw=1.6)
    axis.plot(pulls[-1:], undecided[-1:], mark.marker, color=mark.colour, mfc="white", ms=5.0)
    if n > LINEAR_UP_TO:
        count_scale(axis, "y", -0.35, 1.8 * n)
    else:
        axis.set_ylim(-0.03 * n, 1.05 * n)
    axis.set_ylabel("undecided arms")


def _draw_interval(axis: Any, result: Result) -> None:
    a, b = result.question.bounds
    side, last = next(iter(result.thresholds.items()))
    ends = [end for end in last if math.isfinite(end)]
    low, high = min([a, *ends]), max([b, *ends])
    margin = 0.06 * (high - low)
    axis.set_ylim(low - margin, high + margin)
    pulls = _of(result, "pulls")
    lower, upper = (
        np.where(np.isnan(values), end, values)
        for values, end in (
            (_of(result, "threshold_lower"), low - margin),
            (_of(result, "threshold_upper"), high + margin),
        )
    )
    label = f"interval of the {side} threshold"
    axis.fill_between(pulls, lower, upper, color=pale(THRESHOLD_BAND), lw=0, label=label)
    for end in (lower, upper):
        axis.plot(pulls, end, color=THRESHOLD_LINE, lw=0.6)
    estimate = _of(result, "threshold")
    axis.plot(pulls, estimate, ".-", ms=3.0, color=THRESHOLD_LINE, label="its estimate")
    axis.set_ylabel("threshold")


def _draw_evidence(axis: Any, result: Result) -> None:
    pulls = _of(result, "pulls")
    low, middle, high = (
        _of(result, f"evidence_{name}") for name in ("lower_quartile", "median", "upper_quartile")
    )
    colour = EVIDENCE_COLOUR
    axis.fill_between(
        pulls, low, high, color=pale(colour, 0.25), lw=0, label="evidence: middle half of arms"
    )
    axis.plot(pulls, middle, color=colour, label="median arm")
    axis.plot(pulls, _of(result, "evidence_least"), "--", color=colour, lw=1.2, label="weakest arm")
    question = result.question  # half of delta for each of two sides
    level = math.log(question.n * len(result.thresholds) / question.delta)
    label = f"needed of each: more than {level:.1f}"
    axis.axhline(level, color=GREY, ls=":", lw=1.5, label=label)
    axis.set_ylabel("log evidence")
    axis.margins(y=0.12)
