"""Pictures of a search over time, and of several rules."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Decision
from oddarms.plotting._style import (
    GREY,
    MARKS,
    THRESHOLD_BAND,
    THRESHOLD_LINE,
    WIDE,
    Size,
    count_scale,
    drawing,
    finish,
    new_figure,
    pale,
    set_legend,
    set_title,
)
from oddarms.problem import UNIT, FloatArray, Question, check_means
from oddarms.rules import rule_of, true_outliers
from oddarms.search import Result, TracePoint

# A search over time

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


# The same arms under several rules

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
"""Colours of Okabe and Ito with dashes, repeated after six rules."""
RULE_CHARACTERS = 26
"""Characters in a line of a name."""
LINE_HEIGHT = 0.15
"""Inches between lines of a name."""


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
    """Draw known means in ascending order, and a line for the threshold of each rule.

    Parameters
    ----------
    means
        The arms' means.
    questions
        Words of a `Question` for each line, such as ``{"rule": "mad", "k": 3}``; by default
        mean + 2 sd, median + 3 MAD, Q3 + 1.5 IQR and the 0.9 quantile.
    bounds
        Of the rewards.

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
    name = textwrap.fill(question.threshold_text(side), RULE_CHARACTERS)
    return _Line(value, f"{name}\n{value:.3g}, {arms}", colour, dashes)


def _dot(n: int) -> float:
    return float(np.clip(240.0 / n, 2.0, 6.0))


def _write_names(axis: Any, lines: Sequence[_Line]) -> None:
    """Write the names at the right of the lines, without overlaps."""
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
    """Return places near the wanted ones, in their order, that do not overlap.

    They are pushed up one by one; then all move down by half of the largest shift.
    """
    order = np.argsort(wanted, kind="stable")
    placed = wanted.copy()
    for before, after in pairwise(order):
        room = 0.5 * (heights[before] + heights[after])
        placed[after] = max(placed[after], placed[before] + room)
    return placed - 0.5 * float((placed - wanted).max())
