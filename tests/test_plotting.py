"""Pictures are drawn for every kind of result, and stay readable."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import quick_and_long
from oddarms import Result, Search, find
from oddarms.algorithms import Decision, Threshold
from oddarms.arms import Bernoulli, simulated_crowd
from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.plotting import (
    file_content,
    new_figure,
    plot_evidence,
    plot_intervals,
    plot_pulls,
    save,
)
from oddarms.plotting._arms import row_of
from oddarms.plotting._style import drawable
from oddarms.problem import Question
from oddarms.search import Status

MEANS = [0.1, 0.2, 0.1, 0.3, 0.95]
STRANGE = ["a\nb", "$x_1$", "日本 😀", "L" * 10_000, "", "\x00\ud800\u202e"]
PHONE = (4.2, 4.8)


def made(n: int, *, outliers: int = 0, undecided: int = 0, side: str = "upper") -> Result:
    """Return a result as a search of n arms may end, without the search."""
    rng = np.random.default_rng(n)
    means = np.sort(rng.uniform(0.1, 0.4, n))
    decisions = np.full(n, Decision.NORMAL, dtype=np.int8)
    if outliers:
        means[-outliers:] += 0.5
        decisions[-outliers:] = Decision.HIGH
    decisions[:undecided] = Decision.UNDECIDED
    thresholds = {"upper": Threshold(0.6, 0.57, 0.64)}
    if side == "both":
        thresholds["lower"] = Threshold(0.05, 0.01, 0.07)
    return Result(
        question=Question(n, k=2, delta=0.05, side=side),  # type: ignore[arg-type]
        status=Status.BUDGET if undecided else Status.DECIDED,
        decisions=decisions,
        pulls_per_arm=rng.integers(20, 5_000, n),
        means=means,
        intervals=np.column_stack([means - 0.1, means + 0.1]),
        thresholds=thresholds,
        round=10,
        threshold_pulls=0,
        history_per_arm=np.zeros(n, dtype=np.int64),
    )


def without_numbers() -> Result:
    """Return a result whose intervals are infinite, and means unknown."""
    result = made(40, outliers=2, undecided=3)
    result.means[:20] = np.nan
    result.intervals[:] = [-np.inf, np.inf]
    result.intervals[5] = np.nan
    result.pulls_per_arm[:20] = 0
    result.thresholds["upper"] = Threshold(math.nan, -math.inf, math.inf)
    return result


CASES: dict[str, Callable[[], Result]] = {
    "upper": lambda: find(Bernoulli(MEANS), k=1, delta=0.1, rng=1),
    "lower": lambda: find(Bernoulli(MEANS), k=1, delta=0.1, rng=1, side="lower", budget=500),
    "both, bounds": lambda: find(
        Bernoulli(MEANS * 9), k=1.5, delta=0.1, rng=1, side="both", bounds=(-20, 300), budget=9_000
    ),
    "strange labels": lambda: find(
        Bernoulli([*MEANS, 0.1], labels=STRANGE), k=1, delta=0.1, algorithm="ade", rng=1, budget=99
    ),
    "not begun": lambda: Search(5, k=1, delta=0.1).result(),
    "decided without a sample": lambda: find(Bernoulli(MEANS), k=3, delta=0.1),
    "all normal": lambda: find(simulated_crowd(1), k=3, delta=0.05, rng=1),
    "undecided": lambda: find(simulated_crowd(1), k=2, delta=0.05, rng=1, budget=20_000),
    "no numbers": without_numbers,
    "many": lambda: made(100_000, outliers=12, undecided=300),
    "many undecided": lambda: made(100_000, outliers=3, undecided=90_000, side="both"),
}
PLOTS = [plot_intervals, plot_pulls, plot_evidence]


@cache
def case(name: str) -> Result:
    return CASES[name]()


def texts_of(figure: Any) -> list[Any]:
    """Return every text that is seen."""
    from matplotlib.text import Text

    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def assert_texts_inside(figure: Any) -> None:
    figure.draw_without_rendering()
    canvas = figure.bbox.padded(1.0)
    outside = _ticks_outside(figure)
    for text in texts_of(figure):
        box = text.get_window_extent()
        if text.get_clip_on() or text in outside:
            continue
        corners = [(box.x0, box.y0), (box.x1, box.y1)]
        assert all(canvas.contains(*corner) for corner in corners), text.get_text()


def _ticks_outside(figure: Any) -> set[Any]:
    """Return the labels of ticks beyond the limits, which are not drawn."""
    found: set[Any] = set()
    for axis in figure.axes:
        for name in ("x", "y"):
            low, high = sorted(getattr(axis, f"get_{name}lim")())
            for tick in getattr(axis, f"{name}axis").get_major_ticks():
                if not low <= tick.get_loc() <= high:
                    found |= {tick.label1, tick.label2}
    return found


MORE = ("lower", "decided without a sample", "all normal", "undecided", "many undecided")
"""Cases that show little that others do not."""
FOR_ALL = ("strange labels", "no numbers", "many")
"""Cases that show something in every picture; the rest do in that of the intervals."""


@pytest.mark.parametrize(
    ("name", "plot"),
    [
        pytest.param(name, plot, marks=() if usual else pytest.mark.long)
        for name in CASES
        for plot in PLOTS
        for usual in [name in FOR_ALL or (name not in MORE and plot is plot_intervals)]
    ],
)
def test_every_result_is_drawn_readably_on_a_phone(name: str, plot: Callable[..., Any]) -> None:
    figure = plot(case(name), size=PHONE)
    assert_texts_inside(figure)
    assert 5_000 < len(file_content(figure)) < 500_000


@pytest.mark.parametrize(
    "name", quick_and_long(["strange labels", "many"], ["upper", "both, bounds", "undecided"])
)
def test_both_rounds_are_drawn_if_asked_for(name: str) -> None:
    figure = plot_intervals(case(name), first_round=True)
    first, last = figure.axes
    assert first.get_title(loc="left").startswith("First round")
    assert last.get_title(loc="left").startswith("Last round")
    assert_texts_inside(figure)


@pytest.mark.parametrize("side", quick_and_long(["both"], ["upper", "lower"]))
def test_the_legend_names_the_thresholds_and_counts_the_arms(side: str) -> None:
    result = find(Bernoulli(MEANS), k=1, delta=0.1, rng=1, side=side, budget=2_000)
    names = [text.get_text() for text in plot_intervals(result).legends[0].get_texts()]
    assert len([name for name in names if " threshold: " in name]) == len(result.thresholds)
    assert f"normal ({len(result.normal)})" in names


def test_names_of_outliers_do_not_overlap() -> None:
    figure = plot_intervals(made(5_000, outliers=20))
    names = [text for text in figure.axes[0].texts if text.get_text()]
    assert len(names) == 20
    boxes = [name.get_window_extent() for name in names]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert not plot_intervals(made(5_000, outliers=26)).axes[0].texts  # no room for so many


def test_few_arms_have_their_names_along_the_axis() -> None:
    names = [
        tick.get_text() for tick in plot_pulls(case("strange labels")).axes[0].get_xticklabels()
    ]
    assert set(names) == {drawable(label) for label in STRANGE}
    assert max(map(len, names)) <= 22


def test_outliers_of_many_arms_have_columns_wide_enough_to_be_seen() -> None:
    result = made(100_000, outliers=12, undecided=50_000)
    row = row_of(result)
    widths = np.diff(row.edges)
    assert widths.sum() == pytest.approx(1.0)
    assert (widths > 0.0).all()
    assert widths[result.decisions[row.arms] == Decision.HIGH].min() > 0.01
    assert (np.diff(result.means[row.arms]) >= 0.0).all()


def test_pulls_are_on_a_logarithmic_scale_only_where_they_differ_much() -> None:
    assert plot_pulls(made(50)).axes[0].get_yscale() == "log"
    equal = find(Bernoulli(MEANS), k=1, delta=0.1, rng=1, algorithm="rr", budget=500)
    assert plot_pulls(equal).axes[0].get_yscale() == "linear"
    assert equal.trace[-1].evidence_median is None  # so there is no panel for it
    assert len(plot_evidence(equal).axes) == 2


def test_evidence_over_time_is_that_of_the_arms() -> None:
    result = find(Bernoulli(MEANS), k=1, delta=0.1, rng=1)
    assert result.evidence is not None
    last = result.trace[-1]
    least, quartiles = result.evidence.min(), np.quantile(result.evidence, [0.25, 0.5, 0.75])
    assert last[6:] == (least, *quartiles)  # of five arms each quartile is one of them
    assert least > math.log(5 / 0.1)
    assert len(plot_evidence(result).axes) == 3


class TestFiles:
    @pytest.mark.parametrize("plot", quick_and_long([plot_intervals], [plot_pulls, plot_evidence]))
    def test_the_same_result_gives_the_same_file(self, plot: Callable[..., Any]) -> None:
        result = made(300, outliers=5)
        figure = plot(result)
        assert file_content(figure) == file_content(figure) == file_content(plot(result))
        assert file_content(figure, "png") == file_content(plot(result), "png")

    @pytest.mark.parametrize("ending", quick_and_long(["pdf", "PNG"], ["svg", "png"]))
    def test_a_path_is_written_with_its_folders(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / "new" / f"picture.{ending}"
        figure = plot_pulls(case("upper"), path)
        assert path.stat().st_size > 3_000
        assert figure.canvas.manager is None  # no window
        for name in ("picture", "picture.xyz"):
            with pytest.raises(InvalidParameter, match="must end in one of"):
                save(figure, tmp_path / name)


class TestSurroundings:
    def test_nothing_global_changes_and_nothing_global_matters(self) -> None:
        import matplotlib

        plain = file_content(plot_intervals(case("upper")))
        with matplotlib.rc_context({"axes.facecolor": "black", "savefig.bbox": "tight"}):
            before = dict(matplotlib.rcParams)
            assert file_content(plot_intervals(case("upper"))) == plain
            assert dict(matplotlib.rcParams) == before

    def test_without_matplotlib_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        for draw in (lambda: plot_pulls(case("upper")), new_figure):
            with pytest.raises(MissingExtra, match=r"oddarms\[plot\]"):
                draw()
