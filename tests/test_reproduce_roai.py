"""Figure 1(b) of ROAI again: the instance, the comparison, the files and the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms.cli import main
from oddarms.experiments import (
    Contender,
    Grid,
    RoaiReproduction,
    Setting,
    reproduce_roai,
    run,
)
from oddarms.experiments._roai import (
    BOUNDS,
    CONTENDERS,
    DISTANCES,
    PUBLISHED,
    K,
    compared,
    instance,
    settings,
)
from oddarms.rules import Mad

FAST: dict[str, Any] = {"quick": True, "runs": 2, "budget": 300, "jobs": 1}


class TestInstance:
    def test_the_threshold_by_hand(self) -> None:
        """Ninth of 17: the median is 8/7; of distances 0, 1, 1, ..., 4, 4 sevenths MAD is 4/7."""
        for distance in DISTANCES:
            means = instance(distance).means
            assert means.size == 17
            theta = Mad(k=K).threshold(means)
            assert theta == pytest.approx(8 / 7 + 2 * 1.4826 * 4 / 7)
            assert np.flatnonzero(Mad(k=K).outliers(means)).tolist() == [15, 16]
            assert np.abs(means - theta).min() == pytest.approx(distance)

    def test_bounds_hold_all_rewards(self) -> None:
        """The means are at least 16 standard deviations inside."""
        means = instance(0.6).means
        assert min(means.min() - BOUNDS[0], BOUNDS[1] - means.max()) >= 16 * 0.5

    def test_a_cell_knows_gap_and_outliers(self) -> None:
        cells = list(Grid(settings(DISTANCES, 1, None), CONTENDERS).cells())
        assert [cell.smallest_gap for cell in cells[::3]] == pytest.approx(DISTANCES)
        assert {cell.outliers for cell in cells} == {2}
        assert {cell.task.question.rule for cell in cells} == {"mad"}


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory: pytest.TempPathFactory) -> RoaiReproduction:
    return reproduce_roai(folder=tmp_path_factory.mktemp("roai"), **FAST)


class TestReproduction:
    def test_the_files(self, reproduction: RoaiReproduction) -> None:
        names = [path.name for path in reproduction.files]
        assert names == ["report.html", "report.md", "roai.png", "roai.svg", "results.csv"]
        assert all(path.stat().st_size > 0 for path in reproduction.files)
        assert len(reproduction.files[-1].read_text().splitlines()) == 1 + len(
            reproduction.outcomes
        )

    def test_the_table(self, reproduction: RoaiReproduction) -> None:
        lines = str(reproduction).splitlines()[2:-2]
        assert lines[0].split() == [
            "D",
            "algorithm",
            "published",
            "pulls",
            "95",
            "%",
            "share",
            "wrong",
        ]
        assert len(lines) == 1 + 2 * 3
        assert lines[2].split()[:4] == ["0.6", "ROAI-LUCB", "13,422", ">"]

    def test_shares_are_of_the_published(self, reproduction: RoaiReproduction) -> None:
        for row in reproduction.rows:
            best = PUBLISHED["ROAI-LUCB"][row.distance]
            assert row.share == pytest.approx(row.summary.mean / (row.published or best))

    def test_the_report_says_where_it_is_from(self, reproduction: RoaiReproduction) -> None:
        text = reproduction.files[1].read_text()
        assert "that of the authors' code" in text
        assert "one arm at a time" in text
        assert "| 0.4 | ROAI-Elim | 58,830 |" in text

    def test_another_time_gives_the_same_bytes(
        self, reproduction: RoaiReproduction, tmp_path: Path
    ) -> None:
        again = reproduce_roai(folder=tmp_path, **FAST)
        for one, two in zip(reproduction.files, again.files, strict=True):
            assert one.read_bytes() == two.read_bytes()


class TestCommand:
    def test_it_writes_and_says_where(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["--quick", "--runs", "1", "--budget", "300", "--jobs", "1"]
        assert main(["reproduce", "roai", "--out", str(tmp_path), *options]) == 0
        said = capsys.readouterr().out
        assert "ROAI-Elim" in said
        assert "that of the authors' code" in said
        assert f"Report: {tmp_path / 'roai' / 'report.html'} (and 4 other files" in said

    def test_it_is_not_one_of_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr("oddarms.experiments.reproduce", lambda *_, **__: asked.append("ade"))
        monkeypatch.setattr(
            "oddarms.cli._reproduce.reproduce_roai", lambda **_: asked.append("roai")
        )
        main(["reproduce", "all", "--quiet"])
        assert asked == ["ade"]
        main(["reproduce", "roai", "--quiet"])
        assert asked == ["ade", "roai"]
        main(["reproduce", "all", "roai", "--quiet"])
        assert asked == ["ade", "roai", "ade", "roai"]


def test_words_of_a_setting_are_the_question_s() -> None:
    words = {"rule": "quantile", "quantile": 0.8}
    grid = Grid([Setting("top", [0.1, 0.2, 0.1, 0.2, 0.9], words=words)], [Contender.of("lucb")])
    (row,) = run(grid, jobs=1)
    assert (row.correct, row.outliers) == (True, 1)
    assert row.smallest_gap == pytest.approx(0.35)


@pytest.mark.long
def test_pulls_are_those_of_the_paper_and_ours_a_third() -> None:
    """ROAI-Elim takes the published pulls; ROAI-LUCB, which draws otherwise, up to 1.4 times.

    Ten runs have a standard error of 3 %: six of them are allowed for.
    """
    outcomes = run(Grid(settings((0.6, 0.4), 10, None), CONTENDERS), rng=1)
    assert all(row.complete and row.correct for row in outcomes)
    shares = {(row.distance, row.algorithm): row.share for row in compared(outcomes)}
    for distance in (0.6, 0.4):
        assert shares[distance, "LUCB"] < 1 / 3
        assert 0.82 < shares[distance, "ROAI-Elim"] < 1.18
        assert 1.0 < shares[distance, "ROAI-LUCB"] < 1.4
