"""How often each arm was sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oddarms.plotting._arms import (
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
    GREY,
    THRESHOLD_DASHES,
    THRESHOLD_LINE,
    WIDE,
    Mark,
    Size,
    count_scale,
    drawing,
    finish,
    new_figure,
    set_legend,
    set_title,
)
from oddarms.problem import IntArray
from oddarms.search import Result

LOGARITHMIC_FROM = 5.0  # times between the most and the fewest pulls of an arm


def plot_pulls(result: Result, path: str | Path | None = None, *, size: Size | None = None) -> Any:
    """Draw how often each arm was pulled, arms in the order of their means.

    The scale is logarithmic where the numbers differ much. A vertical line stands where the
    threshold lies among the means: arms near it are hard, and take the most pulls.

    Parameters
    ----------
    result
        A result of `oddarms.find`.
    path
        Where to save the picture; its ending gives the format.
    size
        Width and height in inches.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    with drawing():
        figure, axis = new_figure(figsize=size or WIDE)
        row = row_of(result)
        _set_scale(axis, result)
        for mark, places in kinds(result.decisions, row):
            _draw_kind(axis, result, row, mark, places)
        handles = [
            handle(mark, places.size, in_band(axis, row, places))
            for mark, places in kinds(result.decisions, row)
        ]
        handles += _draw_guides(axis, result, row)
        name_arms(axis, row, result)
        axis.set_ylabel("samples of the arm")
        set_title(figure, _title(result))
        set_legend(figure, handles, column=2.1)
        return finish(figure, path)


def _title(result: Result) -> str:
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


def _draw_kind(axis: Any, result: Result, row: Row, mark: Mark, places: IntArray) -> None:
    x, pulls = row.centres[places], result.pulls_per_arm[row.arms[places]].astype(np.float64)
    if in_band(axis, row, places):
        draw_band(axis, x, pulls, pulls, pulls, mark)
        return
    width = column_points(axis, row, places)
    line = float(np.clip(0.5 * width, 0.6, 3.5))
    axis.vlines(x, axis.get_ylim()[0], pulls, mark.colour, lw=line, alpha=0.6)
    draw_marks(axis, x, pulls, mark, width)


def _draw_guides(axis: Any, result: Result, row: Row) -> list[Any]:
    """Draw the average, and where the thresholds lie; return their entries of the legend."""
    if not result.pulls:
        return []
    average = result.pulls / result.question.n
    label = f"average: {average:,.0f}" if average >= 10.0 else f"average: {average:.1f}"
    guides = [axis.axhline(average, color=GREY, ls=":", lw=1.3, label=label)]
    for side, bound in result.thresholds.items():
        if np.isfinite(bound.estimate):
            x = row.place_of(bound.estimate, result.means)
            dashes = THRESHOLD_DASHES[side]
            label = f"{side} threshold"
            guides.append(axis.axvline(x, color=THRESHOLD_LINE, ls=dashes, lw=1.3, label=label))
    return guides
