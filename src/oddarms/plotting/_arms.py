"""Arms in the order of their means: their intervals, and how often each was sampled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddarms.algorithms import Decision, Decisions, Threshold
from oddarms.documents import number_text
from oddarms.plotting._style import (
    GREY,
    MARKS,
    THRESHOLD_BAND,
    THRESHOLD_DASHES,
    THRESHOLD_LINE,
    WIDE,
    Mark,
    Size,
    count_scale,
    drawable,
    drawing,
    finish,
    new_figure,
    pale,
    set_legend,
    set_title,
    width_of,
    wrapped,
)
from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.search import Result, Snapshot

NAMED_UP_TO = 30  # up to so many arms have names along the axis
EVEN_UP_TO = 60  # beyond, outliers and open arms are drawn wider
WIDEST, LARGEST_SHARE = 1.0 / 50.0, 0.45  # of the axis: one such arm, and all of them
SINGLE_UP_TO = 200  # beyond, arms of one kind are drawn as a band
THINNEST = 1.0  # points of an arm that is not drawn as a band
COLUMNS = 240  # of a band


class Row(NamedTuple):
    """The arms by mean, those without a mean first, and the edges of their columns in [0, 1]."""

    arms: IntArray
    edges: FloatArray

    @property
    def centres(self) -> FloatArray:
        """The middle of each column."""
        middle: FloatArray = (self.edges[1:] + self.edges[:-1]) / 2.0
        return middle


def row_of(result: Result, *, even: bool = False) -> Row:
    """Return the arms in the order of their means; of many, those that stand out are wider.

    `even` gives all one width, to compare rounds in which different arms stand out.
    """
    means = np.where(np.isnan(result.means), -np.inf, result.means)
    arms = np.argsort(means, kind="stable")
    widths = _widths(_stands_out(result.decisions)[arms] & (not even))
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    return Row(arms, edges / edges[-1])


def _stands_out(decisions: Decisions) -> BoolArray:
    """Return the arms of kinds, other than normal, that are rare."""
    counts = np.bincount(decisions, minlength=len(Decision))
    few: BoolArray = (decisions != Decision.NORMAL) & (counts[decisions] <= SINGLE_UP_TO)
    return few


def _widths(stands_out: BoolArray) -> FloatArray:
    n, many = stands_out.size, int(stands_out.sum())
    if n <= EVEN_UP_TO or many in (0, n):
        return np.full(n, 1.0 / n)
    each = max(1.0 / n, min(WIDEST, LARGEST_SHARE / many))
    widths: FloatArray = np.where(stands_out, each, (1.0 - many * each) / (n - many))
    return widths


def kinds(decisions: Decisions, row: Row) -> Iterator[tuple[Mark, IntArray]]:
    """Yield each kind of decision with the places of its arms in the row."""
    for decision, mark in MARKS.items():
        places = np.flatnonzero(decisions[row.arms] == decision)
        if places.size:
            yield mark, places


def column_points(axis: Any, row: Row, places: IntArray) -> float:
    """Return the width of the columns at these places, in points."""
    share = float(np.diff(row.edges)[places].min())
    return 72.0 * 0.85 * width_of(axis) * share


def in_band(axis: Any, row: Row, places: IntArray) -> bool:
    """Return whether the arms at these places are drawn as a band."""
    return places.size > SINGLE_UP_TO or column_points(axis, row, places) < THINNEST


def draw_band(
    axis: Any, x: FloatArray, low: FloatArray, middle: FloatArray, high: FloatArray, mark: Mark
) -> None:
    """Draw neighbouring arms as a band from the lowest to the highest value, with the median."""
    from matplotlib.collections import PolyCollection

    column = np.minimum((x * COLUMNS).astype(np.int64), COLUMNS - 1)
    present, starts = np.unique(column, return_index=True)
    bottom = np.minimum.reduceat(low, starts)
    top = np.maximum.reduceat(high, starts)
    centre = np.array([_median(part) for part in np.split(middle, starts[1:])])
    runs = np.split(np.arange(present.size), np.flatnonzero(np.diff(present) > 1) + 1)
    shapes = []
    for run in runs:
        sides = np.repeat(np.append(present[run], present[run[-1]] + 1) / COLUMNS, 2)[1:-1]
        upper, lower = np.repeat(top[run], 2), np.repeat(bottom[run], 2)
        shapes.append(np.column_stack([np.r_[sides, sides[::-1]], np.r_[upper, lower[::-1]]]))
    band = PolyCollection(shapes, facecolor=mark.pale, edgecolor=mark.colour, lw=0.5)
    band.set_hatch(mark.hatch)
    axis.add_collection(band)
    axis.hlines(centre, present / COLUMNS, (present + 1) / COLUMNS, mark.colour, lw=1.4)


def _median(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else float("nan")


def handle(mark: Mark, count: int, band: bool) -> Any:
    """Return the entry of the legend for a kind of arm."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    label = f"{mark.name} ({count:,})" if count else f"{mark.name} at first"
    if band:
        return Patch(facecolor=mark.pale, edgecolor=mark.colour, hatch=mark.hatch, label=label)
    face = mark.colour if mark.filled else "white"
    return Line2D([], [], color=mark.colour, marker=mark.marker, mfc=face, label=label)


def name_arms(axis: Any, row: Row, result: Result) -> None:
    """Label the axis of the arms, with their names if they are few."""
    axis.set_xlim(0.0, 1.0)
    axis.grid(axis="x", visible=False)
    if row.arms.size > NAMED_UP_TO:
        axis.set_xticks([])
        even = np.ptp(np.diff(row.edges)) < 1e-9
        wider = "" if even else "; outliers and open arms are drawn wider"
        axis.set_xlabel(wrapped(width_of(axis), f"arms, in the order of their means{wider}"))
        return
    names = [drawable(result.labels[arm]) for arm in row.arms]
    upright = sum(map(len, names)) * 0.09 > 0.7 * width_of(axis)
    axis.set_xticks(row.centres, names, rotation=90.0 if upright else 0.0, parse_math=False)
    axis.tick_params("x", length=0.0, labelsize=9.0)
    axis.set_xlabel("arms, in the order of their means")


MOST_NAMES = 25


def plot_intervals(
    result: Result,
    path: str | Path | None = None,
    *,
    first_round: bool = False,
    size: Size | None = None,
) -> Any:
    """Draw the intervals of all arms and of the threshold, arms in the order of their means.

    Of thousands of arms the bulk is drawn as a band from the lowest to the highest end of
    neighbouring intervals, with the median of their means.

    Parameters
    ----------
    first_round
        Draw the first round beside the last one: Figure 1 of the ADE paper.
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
            _name_outliers(axes[0, -1], result, row)
        return finish(figure, path)


def _moments(result: Result, first_round: bool) -> list[tuple[str, Snapshot]]:
    """Return the snapshots to draw, each with a title."""
    if not first_round:
        return [("", result.last)]
    first, last = result.first or result.last, result.last
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
    """Return limits of the axis that contain all but thresholds far outside of the bounds."""
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
        arms = row.arms[places]
        _draw_kind(axis, row, places, mark, lower[arms], moment.means[arms], upper[arms])
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
    from matplotlib.patches import Patch

    a, b = result.question.bounds
    return Patch(
        facecolor=pale(THRESHOLD_BAND),
        edgecolor=THRESHOLD_LINE,
        ls=THRESHOLD_DASHES[side],
        label=f"{side} threshold: {number_text(bound.estimate, b - a)}",
    )


def _name_outliers(axis: Any, result: Result, row: Row) -> None:
    """Write the names of few outliers upright beside them, without overlaps."""
    places = np.flatnonzero(result.decisions[row.arms] >= Decision.HIGH)
    if not 0 < places.size <= MOST_NAMES:
        return
    axis.figure.draw_without_rendering()
    high = result.decisions[row.arms[places]] == Decision.HIGH
    ends = np.clip(result.intervals[row.arms[places]], *axis.get_ylim())
    taken: list[Any] = []
    for i in np.argsort(np.where(high, -ends[:, 1], ends[:, 0]), kind="stable"):
        arm = row.arms[places[i]]
        for below in (high[i], not high[i]):
            text = axis.annotate(
                drawable(result.labels[arm]),
                (row.centres[places[i]], ends[i, 0 if below else 1]),
                (0.0, -5.0 if below else 5.0),
                textcoords="offset points",
                rotation=90.0,
                ha="center",
                va="top" if below else "bottom",
                fontsize=8.0,
                color=MARKS[Decision(result.decisions[arm])].colour,
                parse_math=False,
                bbox={"facecolor": "white", "alpha": 0.75, "lw": 0.0, "pad": 0.6},
            )
            text.set_in_layout(False)
            box = text.get_window_extent().padded(0.5)
            inside = axis.bbox.contains(*box.min) and axis.bbox.contains(*box.max)
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


LOGARITHMIC_FROM = 5.0  # times between the most and the fewest pulls of an arm


def plot_pulls(result: Result, path: str | Path | None = None, *, size: Size | None = None) -> Any:
    """Draw the number of pulls of each arm, arms in the order of their means.

    The scale is logarithmic if the numbers differ much. A vertical line marks the threshold among
    the means: arms near it are hard, and take the most pulls.
    """
    with drawing():
        figure, axis = new_figure(figsize=size or WIDE)
        row = row_of(result)
        _set_scale(axis, result)
        for mark, places in kinds(result.decisions, row):
            pulls = result.pulls_per_arm[row.arms[places]].astype(np.float64)
            _draw_kind(axis, row, places, mark, np.zeros_like(pulls), pulls, pulls)
        handles = [
            handle(mark, places.size, in_band(axis, row, places))
            for mark, places in kinds(result.decisions, row)
        ]
        handles += _draw_guides(axis, result, row)
        name_arms(axis, row, result)
        axis.set_ylabel("samples of the arm")
        set_title(figure, _pulls_title(result))
        set_legend(figure, handles, column=2.1)
        return finish(figure, path)


def _pulls_title(result: Result) -> str:
    if not result.pulls:
        return "No samples were taken"
    fewest, most = int(result.pulls_per_arm.min()), int(result.pulls_per_arm.max())
    each = f"{fewest:,} of each arm" if fewest == most else f"{fewest:,} to {most:,} of an arm"
    return f"{result.pulls:,} samples, {each}"


def _set_scale(axis: Any, result: Result) -> None:
    pulls = result.pulls_per_arm
    fewest, most = int(pulls.min()), int(pulls.max())
    if most <= LOGARITHMIC_FROM * max(fewest, 1):
        axis.set_ylim(0.0, 1.08 * max(most, 1))
        axis.yaxis.get_major_locator().set_params(integer=True)
    else:
        count_scale(axis, "y", 0.0 if fewest == 0 else max(fewest / 1.6, 1.0), 1.6 * most)


def _draw_kind(
    axis: Any,
    row: Row,
    places: IntArray,
    mark: Mark,
    low: FloatArray,
    middle: FloatArray,
    high: FloatArray,
) -> None:
    """Draw a line and a marker for each arm of a kind, or a band."""
    x = row.centres[places]
    if in_band(axis, row, places):
        draw_band(axis, x, low, middle, high, mark)
        return
    width = column_points(axis, row, places)
    line = float(np.clip(0.5 * width, 0.6, 3.5))
    axis.vlines(x, np.maximum(low, axis.get_ylim()[0]), high, mark.colour, lw=line, alpha=0.75)
    size, face = float(np.clip(1.1 * width, 2.2, 6.0)), mark.colour if mark.filled else "white"
    axis.plot(x, middle, mark.marker, color=mark.colour, mfc=face, mew=0.8, ms=size)


def _draw_guides(axis: Any, result: Result, row: Row) -> list[Any]:
    """Draw the average and the thresholds; return their entries of the legend."""
    if not result.pulls:
        return []
    average = result.pulls / result.question.n
    label = f"average: {average:,.0f}" if average >= 10.0 else f"average: {average:.1f}"
    guides = [axis.axhline(average, color=GREY, ls=":", lw=1.3, label=label)]
    for side, bound in result.thresholds.items():
        if np.isfinite(bound.estimate):
            means = np.nan_to_num(result.means[row.arms], nan=-np.inf)
            x = row.edges[np.searchsorted(means, bound.estimate)]
            dashes = THRESHOLD_DASHES[side]
            label = f"{side} threshold"
            guides.append(axis.axvline(x, color=THRESHOLD_LINE, ls=dashes, lw=1.3, label=label))
    return guides
