"""The same arms under several rules: where each puts its threshold."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddarms.plotting._style import (
    GREY,
    WIDE,
    Size,
    drawing,
    finish,
    new_figure,
    set_title,
)
from oddarms.problem import UNIT, FloatArray, Question, check_means
from oddarms.rules import rule_of, true_outliers

USUAL: tuple[Mapping[str, Any], ...] = (
    {"rule": "sigma", "k": 2.0},
    {"rule": "mad", "k": 3.0},
    {"rule": "tukey", "k": 1.5},
    {"rule": "quantile", "quantile": 0.9},
)
LINES = (
    ("#0072b2", "-"),
    ("#d55e00", "--"),
    ("#009e73", "-."),
    ("#b85c93", ":"),
    ("#56b4e9", (0, (8, 2))),
    ("#000000", (0, (1, 1))),
)
"""Colours of Okabe and Ito and dashes, from the beginning again after six rules."""
LONGEST = 26
"""Characters of a name in a line."""
LINE_HEIGHT = 0.15
"""Inches that a line of a name takes."""


class _Line(NamedTuple):
    value: float
    text: str
    colour: str
    dashes: Any


def plot_rules(
    means: npt.ArrayLike,
    path: str | Path | None = None,
    *,
    questions: Sequence[Mapping[str, Any]] = USUAL,
    bounds: tuple[float, float] = UNIT,
    size: Size | None = None,
) -> Any:
    """Draw known means in their order, and a line for the threshold of each rule.

    Parameters
    ----------
    means
        The arms' means.
    path
        Where to save the picture; its ending gives the format.
    questions
        Words of a `Question` for each line, such as ``{"rule": "mad", "k": 3}``; by default
        mean + 2 sd, median + 3 MAD, Q3 + 1.5 IQR and the 0.9 quantile.
    bounds
        Of the rewards.
    size
        Width and height in inches.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> figure = plot_rules([0.1, 0.2, 0.15, 0.1, 0.2, 0.9], questions=[{"k": 2}, {"rule": "mad"}])
    >>> [text.get_text().splitlines() for text in figure.axes[0].texts]
    [['mean + 2 sd', '0.84, 1 arm'], ['median + 3 MAD', '0.5, 1 arm']]
    """
    values = check_means(means)
    lines = [_line(values, words, bounds, number) for number, words in enumerate(questions)]
    with drawing():
        figure, axis = new_figure(figsize=size or WIDE)
        axis.plot(
            np.arange(1, values.size + 1), np.sort(values), "o", color=GREY, ms=_dot(values.size)
        )
        for line in lines:
            axis.axhline(line.value, color=line.colour, ls=line.dashes, lw=1.6)
        axis.margins(y=0.08)
        _write_names(axis, lines)
        axis.set_xlabel("arms, in the order of their means")
        axis.set_ylabel("mean")
        axis.grid(axis="x", visible=False)
        set_title(figure, f"The same {values.size:,} arms under {len(lines)} rules")
        return finish(figure, path)


def _line(
    means: FloatArray, words: Mapping[str, Any], bounds: tuple[float, float], number: int
) -> _Line:
    question = Question(means.size, bounds=bounds, **{"margin": 0.0, **words})
    side = question.sides[0]
    a, b = question.bounds
    lower = side == "lower"
    scaled = rule_of(question).threshold((b - means if lower else means - a) / (b - a))
    value = b - (b - a) * scaled if lower else a + (b - a) * scaled
    found = int(true_outliers(question, means)[side].sum())
    arms = f"{found:,} arm" if found == 1 else f"{found:,} arms"
    colour, dashes = LINES[number % len(LINES)]
    name = textwrap.fill(question.threshold_text(side), LONGEST)
    return _Line(value, f"{name}\n{value:.3g}, {arms}", colour, dashes)


def _dot(n: int) -> float:
    return float(np.clip(240.0 / n, 2.0, 6.0))


def _write_names(axis: Any, lines: Sequence[_Line]) -> None:
    """Write each line's name to the right of it, apart from one another."""
    low, high = axis.get_ylim()
    axis.set_ylim(low, high)
    wanted = np.array([(line.value - low) / (high - low) for line in lines])
    inches = 0.75 * float(axis.figure.get_figheight())
    heights = np.array([LINE_HEIGHT * (line.text.count("\n") + 1.5) / inches for line in lines])
    for line, at, place in zip(lines, wanted, _apart(wanted, heights), strict=True):
        shape = {"transform": axis.transAxes, "color": line.colour, "clip_on": False}
        axis.plot([1.0, 1.025, 1.03], [at, place, place], lw=0.9, **shape)
        axis.text(1.04, place, line.text, va="center", fontsize=9.0, parse_math=False, **shape)


def _apart(wanted: FloatArray, heights: FloatArray) -> FloatArray:
    """Return places in the order of the wanted ones, with room between, as near as it goes.

    Pushed up one by one from below, then the whole pile is moved down by half of what it grew.
    """
    order = np.argsort(wanted, kind="stable")
    placed = wanted.copy()
    for before, after in pairwise(order):
        room = 0.5 * (heights[before] + heights[after])
        placed[after] = max(placed[after], placed[before] + room)
    return placed - 0.5 * float((placed - wanted).max())
