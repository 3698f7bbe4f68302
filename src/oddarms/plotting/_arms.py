"""Arms along an axis, in the order of their means, from five to a hundred thousand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddarms.algorithms import Decision, Decisions
from oddarms.plotting._style import MARKS, Mark, width_of, wrapped
from oddarms.plotting._text import drawable_names
from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.search import Result

NAMED_UP_TO = 30  # arms; their names stand along the axis
EVEN_UP_TO = 60  # arms have columns of one width; beyond, outliers and open arms are drawn wider
WIDEST, LARGEST_SHARE = 1.0 / 50.0, 0.45  # of the axis: for one arm, and for all that stand out
SINGLE_UP_TO = 200  # arms of one kind are drawn one by one; beyond, as a band
THINNEST = 1.0  # points that such an arm has at least
COLUMNS = 240  # of a band


@dataclass(frozen=True, eq=False)
class Row:
    """The arms in order along an axis from 0 to 1.

    Attributes
    ----------
    arms
        Indices of the arms, by mean; those without one come first.
    edges
        Where the column of each begins, and where the last one ends.
    """

    arms: IntArray
    edges: FloatArray

    @property
    def centres(self) -> FloatArray:
        """The middle of each column."""
        middle: FloatArray = (self.edges[1:] + self.edges[:-1]) / 2.0
        return middle

    @property
    def even(self) -> bool:
        """True if all columns have the same width."""
        return bool(np.ptp(np.diff(self.edges)) < 1e-9)

    def place_of(self, value: float, means: FloatArray) -> float:
        """Return where along the axis a value lies among the arms' means."""
        sorted_means = np.nan_to_num(means[self.arms], nan=-np.inf)
        return float(self.edges[np.searchsorted(sorted_means, value)])


def row_of(result: Result, *, even: bool = False) -> Row:
    """Return the arms in the order of their means; what stands out of a great many is wider.

    Unless all are to be of one width, as where rounds are compared in which other arms stand out.
    """
    means = np.where(np.isnan(result.means), -np.inf, result.means)
    arms = np.argsort(means, kind="stable")
    widths = _widths(_stands_out(result.decisions)[arms] & (not even))
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    return Row(arms, edges / edges[-1])


def _stands_out(decisions: Decisions) -> BoolArray:
    """Return which arms are of a kind, other than normal, that has few of them."""
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
    """Give each kind of decision there is, with the places of its arms in the row."""
    for decision, mark in MARKS.items():
        places = np.flatnonzero(decisions[row.arms] == decision)
        if places.size:
            yield mark, places


def column_points(axis: Any, row: Row, places: IntArray) -> float:
    """Return the width of the columns at these places, in points."""
    share = float(np.diff(row.edges)[places].min())
    return 72.0 * 0.85 * width_of(axis) * share


def in_band(axis: Any, row: Row, places: IntArray) -> bool:
    """Return whether the arms at these places are too many to be drawn one by one."""
    return places.size > SINGLE_UP_TO or column_points(axis, row, places) < THINNEST


def draw_marks(axis: Any, x: FloatArray, y: FloatArray, mark: Mark, width: float) -> None:
    """Draw a marker for each arm; `width` is that of a column in points."""
    axis.plot(
        x,
        y,
        mark.marker,
        color=mark.colour,
        mfc=mark.colour if mark.filled else "white",
        mew=0.8,
        ms=float(np.clip(1.1 * width, 2.2, 6.0)),
    )


def draw_band(
    axis: Any, x: FloatArray, low: FloatArray, middle: FloatArray, high: FloatArray, mark: Mark
) -> None:
    """Draw many arms as a band, from the lowest to the highest of neighbours, and their median."""
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
    """Return the entry of the legend for a kind of arm: a band, if it is drawn as one."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    label = f"{mark.name} ({count:,})" if count else f"{mark.name} at first"
    if band:
        return Patch(facecolor=mark.pale, edgecolor=mark.colour, hatch=mark.hatch, label=label)
    face = mark.colour if mark.filled else "white"
    return Line2D([], [], color=mark.colour, marker=mark.marker, mfc=face, label=label)


def name_arms(axis: Any, row: Row, result: Result) -> None:
    """Set the axis of the arms: their names if they are few, else only what it is."""
    axis.set_xlim(0.0, 1.0)
    axis.grid(axis="x", visible=False)
    if row.arms.size > NAMED_UP_TO:
        axis.set_xticks([])
        wider = "" if row.even else "; outliers and open arms are drawn wider"
        axis.set_xlabel(wrapped(width_of(axis), f"arms, in the order of their means{wider}"))
        return
    names = drawable_names([result.labels[arm] for arm in row.arms])
    upright = sum(map(len, names)) * 0.09 > 0.7 * width_of(axis)
    axis.set_xticks(row.centres, names, rotation=90.0 if upright else 0.0, parse_math=False)
    axis.tick_params("x", length=0.0, labelsize=9.0)
    axis.set_xlabel("arms, in the order of their means")
