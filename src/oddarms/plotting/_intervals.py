"""The intervals of all arms and of the threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oddarms.algorithms import Decision, Threshold
from oddarms.documents import number_text
from oddarms.plotting._arms import (
    NAMED_UP_TO,
    Row,
    column_points,
    draw_band,
    draw_marks,
    handle,
    in_band,
    kinds,
    name_arms,
    row_of,
)
from oddarms.plotting._style import (
    MARKS,
    THRESHOLD_BAND,
    THRESHOLD_DASHES,
    THRESHOLD_LINE,
    WIDE,
    Size,
    drawing,
    finish,
    new_figure,
    pale,
    set_legend,
    set_title,
)
from oddarms.plotting._text import Note, drawable, write_notes
from oddarms.search import Result, Snapshot

MOST_NAMES = 25


def plot_intervals(
    result: Result,
    path: str | Path | None = None,
    *,
    first_round: bool = False,
    size: Size | None = None,
) -> Any:
    """Draw the intervals of all arms and of the threshold, arms in the order of their means.

    Of thousands of arms the bulk is drawn as a band, from the lowest to the highest end of
    neighbouring intervals, with the median of their means; outliers and undecided arms stay apart.

    Parameters
    ----------
    result
        A result of `oddarms.find`.
    path
        Where to save the picture; its ending gives the format.
    first_round
        Draw the first round beside the last one: Figure 1 of the ADE paper.
    size
        Width and height in inches.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    with drawing():
        moments = _moments(result, first_round)
        figure, axes = new_figure(
            ncols=len(moments), sharey=True, squeeze=False, figsize=size or WIDE
        )
        row = row_of(result, even=first_round)
        limits = _limits(result, [moment for _, moment in moments])
        for axis, (name, moment) in zip(axes[0], moments, strict=True):
            axis.set_ylim(*limits)
            _draw_moment(axis, moment, row)
            name_arms(axis, row, result)
            axis.set_title(name, loc="left")
        axes[0, 0].set_ylabel("mean and its interval")
        set_title(figure, _title(result))
        set_legend(figure, _handles(axes[0, -1], result, row, moments[0][1]), column=2.1)
        if row.arms.size > NAMED_UP_TO:
            write_notes(axes[0, -1], _notes(axes[0, -1], result, row), MOST_NAMES)
        return finish(figure, path)


def _moments(result: Result, first_round: bool) -> list[tuple[str, Snapshot]]:
    """Return what to draw, each with a title."""
    last = result.last or Snapshot(
        round=result.round,
        means=result.means,
        lower=result.intervals[:, 0],
        upper=result.intervals[:, 1],
        decisions=result.decisions,
        thresholds=result.thresholds,
    )
    if not first_round:
        return [("", last)]
    first = result.first or last
    return [
        (f"{name} round ({moment.round:,})", moment)
        for name, moment in (("First", first), ("Last", last))
    ]


def _title(result: Result) -> str:
    found, n = len(result.outliers), result.question.n
    many = f"{found:,} outlier" if found == 1 else f"{found:,} outliers"
    left = f", {len(result.undecided):,} undecided" if result.undecided else ""
    return f"{many} among {n:,} arms{left}, {result.pulls + result.history:,} samples"


def _limits(result: Result, moments: list[Snapshot]) -> tuple[float, float]:
    """Return limits that hold everything but thresholds far outside of the bounds."""
    a, b = result.question.bounds
    ends = [end for moment in moments for end in (moment.lower, moment.upper, moment.means)]
    values = np.concatenate([*ends, *(list(t) for m in moments for t in m.thresholds.values())])
    values = values[np.isfinite(values)]
    values = values[(values >= a - (b - a)) & (values <= b + (b - a))]
    low, high = (values.min(), values.max()) if values.size else (a, b)
    margin = 0.05 * max(high - low, 0.02 * (b - a))
    return float(low - margin), float(high + margin)


def _draw_moment(axis: Any, moment: Snapshot, row: Row) -> None:
    bottom, top = axis.get_ylim()
    lower = np.clip(np.where(np.isnan(moment.lower), bottom, moment.lower), bottom, top)
    upper = np.clip(np.where(np.isnan(moment.upper), top, moment.upper), bottom, top)
    for mark, places in kinds(moment.decisions, row):
        arms, x = row.arms[places], row.centres[places]
        if in_band(axis, row, places):
            draw_band(axis, x, lower[arms], moment.means[arms], upper[arms], mark)
            continue
        width = column_points(axis, row, places)
        line = float(np.clip(0.5 * width, 0.6, 3.5))
        axis.vlines(x, lower[arms], upper[arms], mark.colour, lw=line, alpha=0.75)
        draw_marks(axis, x, moment.means[arms], mark, width)
    for side, bound in moment.thresholds.items():
        _draw_threshold(axis, side, bound)


def _draw_threshold(axis: Any, side: str, bound: Threshold) -> None:
    low, high = np.clip(bound[1:], *axis.get_ylim())
    if np.isfinite(bound.lower) or np.isfinite(bound.upper):
        axis.axhspan(low, high, color=pale(THRESHOLD_BAND), lw=0, zorder=0.8)
        for end in (low, high):  # seen over a band of arms as well
            axis.axhline(end, color=THRESHOLD_LINE, ls=THRESHOLD_DASHES[side], lw=0.5)
    if np.isfinite(bound.estimate):
        axis.axhline(bound.estimate, color=THRESHOLD_LINE, ls=THRESHOLD_DASHES[side], lw=1.3)


def _handles(axis: Any, result: Result, row: Row, first: Snapshot) -> list[Any]:
    """Return the legend: every kind of arm there is, with how many in the end, and thresholds."""
    last = dict(kinds(result.decisions, row))
    seen = dict(kinds(first.decisions, row)) | last
    found = [
        handle(mark, last[mark].size if mark in last else 0, in_band(axis, row, seen[mark]))
        for mark in MARKS.values()
        if mark in seen
    ]
    return found + [
        _threshold_handle(side, bound, result)
        for side, bound in result.thresholds.items()
        if np.isfinite(bound).any()
    ]


def _threshold_handle(side: str, bound: Threshold, result: Result) -> Any:
    """Return the entry of the legend for a threshold, with its estimate."""
    from matplotlib.patches import Patch

    a, b = result.question.bounds
    return Patch(
        facecolor=pale(THRESHOLD_BAND),
        edgecolor=THRESHOLD_LINE,
        ls=THRESHOLD_DASHES[side],
        label=f"{side} threshold: {number_text(bound.estimate, b - a)}",
    )


def _notes(axis: Any, result: Result, row: Row) -> list[Note]:
    """Return the names of the outliers, the most extreme first."""
    notes = []
    for place in np.flatnonzero(result.decisions[row.arms] >= Decision.HIGH):
        arm = row.arms[place]
        decision = Decision(result.decisions[arm])
        low, high = np.clip(result.intervals[arm], *axis.get_ylim())
        x, text = float(row.centres[place]), drawable(result.labels[arm])
        notes.append(Note(text, x, low, high, decision == Decision.HIGH, MARKS[decision].colour))
    return sorted(notes, key=lambda note: -note.high if note.below else note.low)
