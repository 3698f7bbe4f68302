"""Several results side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.errors import InvalidParameter
from oddarms.plotting._style import (
    THRESHOLD_DASHES,
    THRESHOLD_LINE,
    Size,
    count_scale,
    drawing,
    finish,
    new_figure,
    set_legend,
    set_title,
)
from oddarms.plotting._text import drawable
from oddarms.search import Result

COMPLETE, INCOMPLETE = ("#0072b2", ""), ("#e69f00", "////")
SIDE_MARKERS = {"upper": "^", "lower": "v"}
NAME_CHARACTERS = 22
BESIDE_FROM = 6.0  # inches; narrower figures have the three below one another
LOGARITHMIC_FROM = 20  # times between the most and the fewest samples


def plot_comparison(
    results: Mapping[str, Result], path: str | Path | None = None, *, size: Size | None = None
) -> Any:
    """Draw several results side by side: samples, undecided arms, and the threshold's interval.

    Parameters
    ----------
    results
        Results by name, such as those of several algorithms on the same arms.
    path
        Where to save the picture; its ending gives the format.
    size
        Width and height in inches.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    if not results:
        raise InvalidParameter("results must be at least one but got none.")
    found = list(results.values())
    with drawing():
        figsize = size or (9.0, 1.7 + 0.36 * len(found))
        beside = {"ncols": 3} if figsize[0] >= BESIDE_FROM else {"nrows": 3}
        figure, axes = new_figure(**beside, sharey=True, figsize=figsize)
        _draw_pulls(axes[0], found)
        _draw_undecided(axes[1], found)
        _draw_thresholds(axes[2], found)
        names = [drawable(name, NAME_CHARACTERS) for name in results]
        axes[0].set_yticks(range(len(names)), names, parse_math=False)
        axes[0].set_ylim(len(names) - 0.5, -0.5)
        for axis in axes:
            axis.grid(axis="y", visible=False)
            axis.tick_params("y", length=0.0)
        set_title(figure, _title(found))
        set_legend(figure, _handles(found), column=2.6)
        return finish(figure, path)


def _title(results: Sequence[Result]) -> str:
    sizes = sorted({result.question.n for result in results})
    arms = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    many = "1 result" if len(results) == 1 else f"{len(results)} results"
    return f"{many} on {arms} arms"


def _bars(axis: Any, results: Sequence[Result], values: Sequence[int]) -> None:
    """Draw a bar for each result with its number behind it; those not complete are hatched."""
    left = axis.get_xlim()[0]
    for y, (result, value) in enumerate(zip(results, values, strict=True)):
        colour, hatch = COMPLETE if result.complete else INCOMPLETE
        end = max(float(value), left)
        axis.barh(y, end - left, 0.62, left, color=colour, hatch=hatch, edgecolor="white", lw=0)
        axis.annotate(
            f"{value:,}", (end, y), (3.0, 0.0), textcoords="offset points", va="center", size=8.5
        )


def _draw_pulls(axis: Any, results: Sequence[Result]) -> None:
    pulls = [result.pulls for result in results]
    least, most = min([p for p in pulls if p] or [1]), max(*pulls, 1)
    if most > LOGARITHMIC_FROM * least:
        low = max(least / 3.0, 1.0)
        count_scale(axis, "x", low, most * (most / low) ** 0.6, ticks=4)
    else:
        axis.set_xlim(0.0, 1.6 * most)
        _plain_ticks(axis)
    _bars(axis, results, pulls)
    axis.set_xlabel("samples")


def _draw_undecided(axis: Any, results: Sequence[Result]) -> None:
    undecided = [int((result.decisions == Decision.UNDECIDED).sum()) for result in results]
    axis.set_xlim(0.0, 1.6 * max(*undecided, 1))
    _bars(axis, results, undecided)
    _plain_ticks(axis)
    axis.set_xlabel("undecided arms")


def _plain_ticks(axis: Any) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))


def _draw_thresholds(axis: Any, results: Sequence[Result]) -> None:
    limits = _threshold_limits(results)
    axis.set_xlim(*limits)
    for y, result in enumerate(results):
        for i, (side, bound) in enumerate(result.thresholds.items()):
            height = y + 0.3 * (i - (len(result.thresholds) - 1) / 2.0)
            if not np.isfinite(bound).any():
                axis.text(np.mean(limits), height, "not known", ha="center", va="center", size=8.5)
                continue
            ends, dashes = np.clip(bound[1:], *limits), THRESHOLD_DASHES[side]
            axis.plot(ends, [height] * 2, color=THRESHOLD_LINE, ls=dashes, lw=2.0)
            axis.plot(bound.estimate, height, SIDE_MARKERS[side], color=THRESHOLD_LINE, ms=5.5)
    axis.set_xlabel("threshold, its interval")


def _threshold_limits(results: Sequence[Result]) -> tuple[float, float]:
    """Return limits around what is finite and not far outside of the bounds."""
    a = min(result.question.bounds[0] for result in results)
    b = max(result.question.bounds[1] for result in results)
    values = np.array([bound for result in results for bound in result.thresholds.values()])
    values = values[(values >= a - (b - a)) & (values <= b + (b - a))]
    low, high = (values.min(), values.max()) if values.size else (a, b)
    margin = 0.08 * max(high - low, 0.02 * (b - a))
    return float(low - margin), float(high + margin)


def _handles(results: Sequence[Result]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for name, (colour, hatch), there in (
        ("every arm decided", COMPLETE, any(result.complete for result in results)),
        ("stopped before that", INCOMPLETE, not all(result.complete for result in results)),
    ):
        if there:
            handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name))
    for side in dict.fromkeys(side for result in results for side in result.thresholds):
        marker = SIDE_MARKERS[side]
        dashes = THRESHOLD_DASHES[side]
        label = f"{side} threshold"
        handles.append(Line2D([], [], color=THRESHOLD_LINE, ls=dashes, marker=marker, label=label))
    return handles
