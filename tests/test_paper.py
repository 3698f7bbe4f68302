"""The paper's experiments: its settings, the pictures and the report."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import DATA, quick_and_long
from oddarms import __version__
from oddarms.arms import Bernoulli, Resampled, crowd_error_rates
from oddarms.documents import to_markdown
from oddarms.errors import InvalidParameter, MissingExtra, UnknownAlgorithm
from oddarms.experiments import (
    Crowd,
    Grid,
    Outcome,
    Outcomes,
    Reproduction,
    Setting,
    UniformMeans,
    _figures,
    _reproduce,
    read_crowd,
    reproduce,
)
from oddarms.experiments._crowd import STAND_IN
from oddarms.experiments._figures import PRINT
from oddarms.experiments._grid import Cell
from oddarms.experiments._outcomes import Measured, short_number
from oddarms.experiments._paper import CONTENDERS, FIGURES, figure_settings
from oddarms.experiments._reproduce import report_blocks
from oddarms.plotting import drawing
from oddarms.theory import gaps, outliers, threshold

Write = Callable[[str], Path]
STANDING_IN = Crowd.stand_in()
NAMES = tuple(CONTENDERS)


def settings_of(figure: str, runs: int = 10, quick: bool = False) -> list[Setting]:
    return figure_settings(figure, runs=runs, quick=quick, crowd=STANDING_IN, budget=None)


@lru_cache
def cells_of(figure: str, algorithms: tuple[str, ...] = NAMES, runs: int = 3) -> list[Cell]:
    contenders = [CONTENDERS[name] for name in algorithms]
    return list(Grid(settings_of(figure, runs), contenders).cells())


def made_up(
    pulls: Callable[[Outcome], float],
    *figures: str,
    algorithms: tuple[str, ...] = NAMES,
    runs: int = 3,
    **changes: Any,
) -> Outcomes:
    """Return outcomes of the paper's settings with pulls that a function of the row makes up."""
    base = replace(Measured(1, 0, 1, complete=True, correct=True), **changes)
    cells = [cell for figure in figures for cell in cells_of(figure, algorithms, runs)]
    rows = [Outcome.of(cell, base) for cell in cells]
    return Outcomes(cells, [replace(base, pulls=round(pulls(row))) for row in rows])


class TestSettings:
    def test_figure_1(self) -> None:
        (setting,) = settings_of("fig1")
        assert (setting.k, setting.delta, setting.instances, setting.runs) == (1.0, 0.1, 1, 1)
        (cell, *_) = cells_of("fig1")
        assert outliers(cell.arms.means, 1.0).tolist() == list(range(34, 40))

    def test_figure_2a(self) -> None:
        settings = settings_of("fig2a")
        assert [setting.instance for setting in settings] == [
            UniformMeans(n, 2.5, (0.1, 0.2)) for n in (100, 200, 400, 600, 800, 1000)
        ]
        for setting in settings:
            assert (setting.k, setting.delta, setting.instances, setting.runs) == (2.5, 0.1, 10, 1)
        assert [setting.name for setting in settings_of("fig2a", quick=True)] == [
            "n = 100",
            "n = 400",
            "n = 1000",
        ]

    def test_figure_3(self) -> None:
        settings = settings_of("fig3")
        assert [(setting.name, setting.k) for setting in settings] == [
            ("k = 2", 2.0),
            ("k = 3", 3.0),
        ]
        for setting in settings:
            assert (setting.delta, setting.instances, setting.runs) == (0.1, 1, 10)
            assert setting.draw(0).means.tolist() == crowd_error_rates().tolist()

    def test_rr_and_wrr_pull_1000_times_a_turn_but_in_figure_1(self) -> None:
        for figure in FIGURES:
            options = {cell.contender.name: cell.task.question.options for cell in cells_of(figure)}
            batch = {} if figure == "fig1" else {"batch": 1000}
            assert options == {"ADE": {}, "RR": batch, "WRR": batch, "SPADE": {}}

    def test_instances_are_in_their_windows(self) -> None:
        for cell in cells_of("fig2a"):
            assert 0.1 <= cell.smallest_gap <= 0.2
        for cell in cells_of("fig2b"):
            assert abs(cell.smallest_gap - float(cell.setting.name.removeprefix("gap "))) <= 0.001


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a table."""

    def write_table(text: str) -> Path:
        path = tmp_path / "crowd.csv"
        path.write_text(text)
        return path

    return write_table


class TestCrowd:
    def test_a_stand_in_says_so(self) -> None:
        assert not STANDING_IN.real
        assert STANDING_IN.description == "synthetic stand-in for HyunCatherines"
        assert {row.data for row in made_up(lambda _: 1, "fig3")} == {STAND_IN}

    def test_rewards(self, write: Write) -> None:
        crowd = read_crowd(write("arm,reward,mean\nb,1,9\na,0,9\nb,0.5,9\n"))
        assert isinstance(crowd.arms, Resampled)  # drawn again from the record
        assert crowd.arms.means.tolist() == [0.75, 0.0]
        assert (crowd.description, crowd.real) == ("crowd.csv", True)
        assert isinstance(read_crowd(write("arm,reward\nb,1\na,0\nb,0\n")).arms, Bernoulli)

    def test_responses_with_gold(self, write: Write) -> None:
        text = "worker,item,label,gold\nann,1,1,1.0\nbob,1,no,yes\nann,2,yes,no\nann,3,1,\n"
        crowd = read_crowd(write(text))
        assert isinstance(crowd.arms, Bernoulli)
        assert (crowd.arms.means.tolist(), crowd.left_out) == ([0.5, 1.0], 1)

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("worker,label,gold\na,1,\nb,1,\n", "must have gold labels, but the column gold is"),
            ("arm,mean\na,0.5\nb,0.5\na,0.5\n", "the arm 'a' has two means"),
            ("arm,reward\na,1\na,0\n", "at least 2 arms but has only 'a'"),
            ("name,value\n1,2\n", "must have the columns arm,reward or arm,mean or worker,label"),
            ("worker item label\na 1 1\n", "but its columns are 'worker item label'"),
        ],
    )
    def test_tables_that_do_not_fit(self, write: Write, text: str, rule: str) -> None:
        with pytest.raises(InvalidParameter, match=rule):
            read_crowd(write(text))

    def test_stdin_is_refused(self) -> None:
        with pytest.raises(InvalidParameter, match="data must be a file, not stdin"):
            read_crowd("-")

    @pytest.mark.skipif(not DATA.exists(), reason=f"no data in {DATA}")
    @pytest.mark.parametrize("name", ["hyuncatherines.csv", "hyuncatherines_arms.csv"])
    def test_the_papers_workers(self, name: str) -> None:
        crowd = read_crowd(DATA / name)
        means = crowd.arms.means
        assert (means.size, crowd.left_out, type(crowd.arms)) == (722, 0, Bernoulli)
        assert outliers(means, 2.0).size == 63
        assert threshold(means, 2.0) == pytest.approx(0.91257, abs=5e-6)
        assert outliers(means, 3.0).size == 0


def test_numbers_of_pulls_in_words() -> None:
    assert short_number(41_234_567) == "41.2 million"
    assert short_number(7300.4) == "7,300"


def jitter(row: Outcome) -> float:
    return 1.0 + 0.001 * row.instance + 0.001 * row.run


def as_in_figure_2b(row: Outcome) -> float:
    ratio = {"ADE": 1.0, "RR": 1.3, "WRR": 2.0, "SPADE": 0.01}[row.algorithm]
    return 1e5 * ratio / row.smallest_gap**2 * jitter(row)


def anything(row: Outcome) -> float:
    return 1e6 * jitter(row) * (0.001 if row.algorithm == "SPADE" else 1.0)


def all_made_up(*algorithms: str, runs: int = 3) -> Outcomes:
    return made_up(anything, *FIGURES, algorithms=algorithms, runs=runs)


def drawn(outcomes: Outcomes, crowd: Crowd = STANDING_IN) -> dict[str, Any]:
    with drawing(PRINT):
        return _figures.figures_of(outcomes, crowd)


def texts_of(figure: Any) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]


def assert_nothing_clipped(name: str, figure: Any) -> None:
    figure.canvas.draw()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 >= 0.0, name
    assert box.y0 >= 0.0, name
    assert box.x1 <= width, name
    assert box.y1 <= height, name


class TestPictures:
    def test_nothing_is_clipped_and_the_stand_in_is_named(self) -> None:
        for name, figure in drawn(all_made_up(*NAMES)).items():
            assert_nothing_clipped(name, figure)
            assert any(STAND_IN in text for text in texts_of(figure)) == name.startswith("fig3")

    def test_one_run_and_that_unfinished(self) -> None:
        changes = {"runs": 1, "complete": False, "algorithms": ("ade",)}
        for name, figure in drawn(made_up(lambda _: 0, *FIGURES, **changes)).items():
            assert_nothing_clipped(name, figure)

    def test_labels_meet_neither_each_other_nor_markers(self) -> None:
        from matplotlib.text import Annotation

        outcomes = made_up(lambda row: 40.5e6 * jitter(row), "fig3")
        with drawing(PRINT):
            figure = _figures._figure_3(outcomes, 2.0, STANDING_IN)
        figure.canvas.draw()
        axis = figure.axes[0]
        boxes = [label.get_window_extent() for label in axis.findobj(Annotation)]
        assert len(boxes) == 4
        assert not any(one.overlaps(two) for i, one in enumerate(boxes) for two in boxes[:i])
        points = [bars.lines[0].get_xydata()[0] for bars in axis.containers]
        for x, y in axis.transData.transform(points):
            assert not any(box.padded(5.0).contains(x, y) for box in boxes)

    @pytest.mark.parametrize("name", quick_and_long(["a$b_{$.csv"], ["x" * 200 + ".csv"]))
    def test_any_file_name_can_be_drawn(self, name: str) -> None:
        crowd = replace(STANDING_IN, description=name)
        figures = drawn(all_made_up("spade"), crowd)
        for figure in ("fig3a", "fig3c"):
            assert_nothing_clipped(figure, figures[figure])

    def test_axes_are_logarithmic_and_legends_complete(self) -> None:
        figures = drawn(all_made_up(*NAMES))
        for name in ("fig2a", "fig2b", "fig3a", "fig3b"):
            assert figures[name].axes[0].get_yscale() == "log"
        for name in ("fig2a", "fig2b"):
            (legend,) = figures[name].legends
            assert [text.get_text() for text in legend.get_texts()] == ["ADE", "RR", "WRR", "SPADE"]
        assert [tick.get_text() for tick in figures["fig3a"].axes[0].get_xticklabels()] == [
            "ADE",
            "RR",
            "WRR",
            "SPADE",
        ]

    @pytest.mark.parametrize(
        ("pulls", "lowest"),
        [((100, 101, 160), 34.988), ((1, 10, 1000), 33.7)],
        ids=["above 0", "below 0"],
    )
    def test_wide_intervals(self, pulls: tuple[int, ...], lowest: float) -> None:
        """Means 120.333 and 337; half widths 4.302653 sd / sqrt(3) of 85.345 and 1426."""
        outcomes = made_up(lambda row: pulls[row.instance], "fig2b", algorithms=("ade",))
        (bars,) = _figures.figures_of(outcomes, STANDING_IN)["fig2b"].axes[0].containers
        (segments,) = bars.lines[2]
        assert segments.get_segments()[0][0, 1] == pytest.approx(lowest, abs=0.01)


def markdown_of(outcomes: Outcomes, crowd: Crowd = STANDING_IN) -> str:
    figures = list(dict.fromkeys(row.figure for row in outcomes))
    pictures = [name for figure in figures for name in pictures_of(figure)]
    return to_markdown(report_blocks(outcomes, pictures, crowd, 3, "Made by us."))


def pictures_of(figure: str) -> list[str]:
    more = {"fig1": ["fig1_spade"], "fig3": ["fig3a", "fig3b", "fig3c"]}
    return more.get(figure, [figure])


class TestReport:
    def test_a_section_for_each_figure_that_was_run(self) -> None:
        text = markdown_of(all_made_up(*NAMES))
        headings = re.findall("^## (.*)", text, re.MULTILINE)
        assert [heading[:9] for heading in headings] == [
            "Figure 1:", "Figure 2a", "Figure 2b", "Figure 3:", "Worth kno",
        ]  # fmt: skip
        assert "3 instances a setting" in text
        assert "3 runs a setting" in text
        alone = markdown_of(made_up(anything, "fig1"))
        assert "Figure 1" in alone
        assert not re.search("Figures? [23]", alone)

    def test_a_stand_in_is_called_one(self) -> None:
        text = markdown_of(made_up(anything, "fig3"))
        assert "**These are not the paper's data** but a synthetic stand-in" in text
        assert STAND_IN in text
        assert "stand-in" not in markdown_of(made_up(anything, "fig2a", "fig2b"))

    def test_means_with_intervals(self) -> None:
        text = markdown_of(made_up(lambda row: 1000 + row.run, "fig3", algorithms=("rr",)))
        # 1000, 1001, 1002: mean 1001, sd 1, half width 4.3027 / sqrt(3) = 2.48
        assert "| k = 2 | 1,001 ± 2 |" in text

    def test_wrong_and_unfinished_runs_are_not_hidden(self) -> None:
        changes = {"complete": False, "correct": False, "algorithms": ("rr",)}
        text = markdown_of(made_up(lambda _: 5, "fig3", **changes))
        assert "> 5 ± 0, 3 of 3 wrong, 3 stopped by the budget" in text
        assert "The budget ended 6 runs" in text


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    return reproduced(tmp_path_factory.mktemp("paper"))


def reproduced(folder: Path, **options: Any) -> Reproduction:
    fast = {"algorithms": ["spade"], "quick": True, "runs": 2, "budget": 3000, "jobs": 1}
    return reproduce(folder=folder, **{**fast, **options})


class TestReproduce:
    def test_the_files(self, reproduction: Reproduction) -> None:
        assert [path.name for path in reproduction.files] == [
            "report.html",
            "report.md",
            *(
                f"{name}.{kind}"
                for name in ("fig1_spade", "fig2a", "fig2b", "fig3a", "fig3b", "fig3c")
                for kind in ("png", "svg")
            ),
            "results.csv",
            "fig3c_gaps.csv",
        ]
        (folder,) = {path.parent for path in reproduction.files}
        assert {path.name for path in folder.iterdir()} == {
            *(path.name for path in reproduction.files),
            "cells.db",
        }

    def test_a_row_per_run_with_its_data(self, reproduction: Reproduction) -> None:
        (path,) = (path for path in reproduction.files if path.name == "results.csv")
        assert path.read_text() == reproduction.outcomes.to_csv()
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 1 + 3 * 2 + 3 * 2 + 2 * 2
        assert {(row["figure"], row["data"]) for row in rows} == {
            ("fig1", "34 means uniform on [0, 0.3], 6 uniform on [0.9, 1]"),
            ("fig2a", "means uniform on [0, 1]"),
            ("fig2b", "means uniform on [0, 1]"),
            ("fig3", STAND_IN),
        }

    def test_the_gaps(self, reproduction: Reproduction) -> None:
        with reproduction.files[-1].open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["data"] for row in rows} == {STAND_IN}
        means = crowd_error_rates()
        assert [float(row["gap"]) for row in rows] == [
            gap for k in (2.0, 3.0) for gap in gaps(means, k).tolist()
        ]

    def test_figure_1_shows_the_runs_of_the_table(self, reproduction: Reproduction) -> None:
        grid = Grid(figure_settings("fig1", runs=1, quick=True, crowd=STANDING_IN, budget=3000))
        found = _reproduce._runs_of_figure_1(grid, 0)
        assert found["spade"].pulls == reproduction.outcomes[0].pulls
        assert found["spade"].round == reproduction.outcomes[0].rounds

    def test_links_of_the_report_lead_somewhere(self, reproduction: Reproduction) -> None:
        report = reproduction.files[1]
        links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", report.read_text())
        assert len(links) == 6
        assert all((report.parent / link).is_file() for link in links)

    def test_the_page_is_by_itself(self, reproduction: Reproduction) -> None:
        page = reproduction.files[0].read_text()
        assert '<html lang="en">' in page
        assert not re.search(r"https?://|file:|url\(|<link|<script", page)
        sources = re.findall(r'<img src="([^"]{30})[^"]*" alt="([^"]+)"', page)
        assert len(sources) == page.count("<img") == 6
        assert all(source.startswith("data:image/svg+xml;base64,") for source, _ in sources)
        assert STAND_IN in page
        assert (
            f"Made by <code>oddarms.experiments.reproduce</code> of oddarms {__version__}" in page
        )
        assert "A quick look, with fewer sizes" in page

    @pytest.mark.long
    def test_another_time_gives_the_same_bytes(
        self, reproduction: Reproduction, tmp_path: Path
    ) -> None:
        again = reproduced(tmp_path)
        for one, two in zip(reproduction.files, again.files, strict=True):
            assert one.read_bytes() == two.read_bytes(), one.name

    def test_one_figure_alone_has_the_same_rows(
        self, reproduction: Reproduction, tmp_path: Path
    ) -> None:
        alone = reproduced(tmp_path, figures=["fig2a"])
        assert list(alone.outcomes) == [
            row for row in reproduction.outcomes if row.figure == "fig2a"
        ]
        for path in (file for file in alone.files if file.name.startswith("fig")):
            (same,) = (file for file in reproduction.files if file.name == path.name)
            assert path.read_bytes() == same.read_bytes(), path.name

    def test_real_workers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_reproduce, "draw_figures", lambda *_: {})
        rates = np.array([0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 1.0])
        crowd = Crowd(Bernoulli(rates), "mine.csv")
        found = reproduced(tmp_path, figures=["fig3"], data=crowd)
        assert {(row.data, row.n) for row in found.outcomes} == {("mine.csv", 10)}
        assert [row.outliers for row in found.outcomes] == [1, 1, 0, 0]
        assert "mine.csv" in (tmp_path / "report.md").read_text()

    def test_misuse(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidParameter, match="figures must be some of fig1, fig2a"):
            reproduced(tmp_path, figures=["fig4"])
        with pytest.raises(UnknownAlgorithm, match="'best'"):
            reproduced(tmp_path, algorithms=["best"])
        assert not list(tmp_path.iterdir())

    def test_without_matplotlib_nothing_is_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtra, match=r"pip install 'oddarms\[plot\]'"):
            reproduced(tmp_path)
        assert list(tmp_path.iterdir()) == []


def planned(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Grid:
    """Return what `reproduce` would run."""
    grids: list[Grid] = []

    def stop(grid: Grid, **_: Any) -> None:
        grids.append(grid)
        raise KeyboardInterrupt

    monkeypatch.setattr(_reproduce, "run", stop)
    monkeypatch.setattr(_reproduce, "writable_folder", lambda _, folder: folder)
    with pytest.raises(KeyboardInterrupt):
        reproduce(folder="nowhere", **options)
    (grid,) = grids
    return grid


class TestPlan:
    @pytest.mark.parametrize(("quick", "runs", "sizes"), [(False, 10, 6), (True, 3, 3)])
    def test_ten_instances_are_the_default(
        self, monkeypatch: pytest.MonkeyPatch, quick: bool, runs: int, sizes: int
    ) -> None:
        grid = planned(monkeypatch, quick=quick)
        assert [contender.name for contender in grid.contenders] == ["ADE", "RR", "WRR", "SPADE"]
        found = [setting.instances * setting.runs for setting in grid.settings]
        assert found == [1, *[runs] * (sizes + 5)]

    def test_figures_come_in_the_papers_order_and_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grid = planned(monkeypatch, figures=["fig3", "fig1", "fig3"], runs=4, budget=77)
        assert [setting.figure for setting in grid.settings] == ["fig1", "fig3", "fig3"]
        assert [setting.runs for setting in grid.settings] == [1, 4, 4]
        assert {setting.budget for setting in grid.settings} == {77}
