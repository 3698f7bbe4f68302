"""A comparison declared as a grid: its cells, their seeds and their keys."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms import simulate
from oddarms.algorithms import _registry
from oddarms.arms import Bernoulli, Uniform
from oddarms.errors import InvalidParameter, UnknownAlgorithm, UnknownOption
from oddarms.experiments import Contender, Grid, Outcome, Setting, UniformMeans, run
from oddarms.experiments._grid import Cell, CellTask, code_fingerprint
from oddarms.problem import FloatArray
from oddarms.theory import gaps, outliers

MEANS = [0.0, 0.1, 0.0, 0.1, 1.0]


def one_high(rng: np.random.Generator) -> FloatArray:
    return np.append(rng.uniform(0.0, 0.1, 4), 1.0)


FIXED = Setting("fixed", MEANS, k=1.0, budget=3000, runs=2, figure="one")
DRAWN = Setting("drawn", one_high, k=1.0, budget=3000, instances=2, figure="two")
ALGORITHMS = ("spade", "rr", "ade")


@pytest.fixture
def _fresh_fingerprints() -> Iterator[None]:
    code_fingerprint.cache_clear()
    yield
    code_fingerprint.cache_clear()


def place(cell: Cell) -> tuple[Any, ...]:
    return (
        cell.setting.figure,
        cell.setting.name,
        cell.instance,
        cell.contender.name,
        cell.run,
        cell.seed,
        cell.instance_seed,
        tuple(cell.arms.means.tolist()),
    )


def places(*settings: Setting, algorithms: Any = ALGORITHMS, seed: int = 0) -> list[Any]:
    return [place(cell) for cell in Grid(settings, algorithms).cells(seed)]


def one_task(
    setting: Setting = FIXED, contender: str | Contender = "rr", seed: int = 0
) -> CellTask:
    return next(Grid([setting], [contender]).cells(seed)).task


class TestCells:
    def test_one_per_setting_instance_algorithm_and_run(self) -> None:
        found = [row[:5] for row in places(FIXED, DRAWN)]
        assert found == [
            *(("one", "fixed", 0, name, run) for name in ALGORITHMS for run in range(2)),
            *(("two", "drawn", i, name, 0) for i in range(2) for name in ALGORITHMS),
        ]

    def test_every_drawn_instance_is_another_and_all_algorithms_meet_it(self) -> None:
        cells = list(Grid([DRAWN], ALGORITHMS).cells())
        of_instance = [{tuple(c.arms.means) for c in cells if c.instance == i} for i in range(2)]
        assert [len(means) for means in of_instance] == [1, 1]
        assert of_instance[0] != of_instance[1]
        assert len({cell.seed for cell in cells}) == 2

    def test_an_instance_is_what_its_seed_draws(self) -> None:
        for cell in Grid([DRAWN]).cells(rng=4):
            again = DRAWN.draw(cell.instance_seed)
            assert isinstance(again, Bernoulli)
            assert again.means.tolist() == cell.arms.means.tolist()
            assert cell.smallest_gap == gaps(again.means, 1.0).min()
            assert cell.outliers == outliers(again.means, 1.0).size


class TestSeeds:
    def test_a_subset_gives_the_same_rows(self) -> None:
        every = places(FIXED, DRAWN)
        assert places(DRAWN, FIXED, algorithms=["ade"]) == [
            row
            for figure in ("two", "one")
            for row in every
            if row[0] == figure and row[3] == "ade"
        ]
        fewer = replace(FIXED, runs=1)
        assert places(fewer) == [row for row in every if row[0] == "one" and row[4] == 0]
        first = replace(DRAWN, instances=1)
        assert places(first) == [row for row in every if row[0] == "two" and row[2] == 0]

    def test_everything_else_changes_them(self) -> None:
        settings = [FIXED, replace(FIXED, figure="other"), replace(FIXED, name="other"), DRAWN]
        seeds = {cell.seed for seed in (0, 1) for cell in Grid(settings).cells(seed)}
        assert len(seeds) == 16
        assert all(0 <= seed < 2**63 for seed in seeds)

    def test_simulate_repeats_a_row(self) -> None:
        algorithm = "spade"
        grid = Grid([FIXED, DRAWN], [Contender("it", algorithm)])
        rows: list[Outcome] = list(run(grid, rng=5, jobs=1))
        for cell, row in zip(grid.cells(rng=5), rows, strict=True):
            question = {"k": row.k, "delta": row.delta, "algorithm": algorithm, "budget": 3000}
            again = simulate(cell.arms.means, rng=row.seed, **question)
            assert again.pulls.tolist() == [row.pulls]
            assert again.rounds.tolist() == [row.rounds]
            assert again.threshold_pulls.tolist() == [row.threshold_pulls]
            assert again.correct.tolist() == [row.correct]


class TestOptions:
    def test_those_of_a_setting_replace_the_contenders_own(self) -> None:
        own = Contender("WRR", "wrr", {"batch": 7, "rho": 2.0})
        other = replace(FIXED, options={"WRR": {"batch": 3}, "someone else": {"batch": 4}})
        assert one_task(other, own).question.options == {"batch": 3}
        assert one_task(FIXED, own).question.options == {"batch": 7, "rho": 2.0}

    def test_unknown_ones_are_refused_before_anything_runs(self) -> None:
        with pytest.raises(UnknownOption, match=r"those of RR .* but got 'rho'"):
            Grid([FIXED], [Contender("RR", "rr", {"rho": 2.0})])
        with pytest.raises(UnknownOption, match=r"those of RR .* but got 'rho'"):
            Grid([FIXED, replace(DRAWN, options={"RR": {"rho": 2.0}})], [Contender("RR", "rr")])
        with pytest.raises(UnknownAlgorithm, match="'best'"):
            Grid([FIXED], ["spade", "best"])


class TestNames:
    def test_settings_are_unique_within_a_figure(self) -> None:
        Grid([FIXED, replace(FIXED, figure="other")])
        with pytest.raises(InvalidParameter, match=r"unique names but \('one', 'fixed'\) appears"):
            Grid([FIXED, replace(FIXED, k=2.0)])


class TestMisuse:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"delta": 1.0}, "delta must be strictly between 0 and 1"),
            ({"runs": 0}, "runs must be a whole number of at least 1"),
            ({"instances": 0}, "instances must be a whole number of at least 1"),
            ({"instances": 2}, "instances=2 requires a function as instance"),
        ],
    )
    def test_settings(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            replace(FIXED, **changes)

    def test_means(self) -> None:
        with pytest.raises(InvalidParameter, match=r"within \[0, 1\] but means\[1\] is 1.2"):
            list(Grid([replace(FIXED, instance=[0.1, 1.2])]).cells())

    def test_arms_with_a_generator_of_their_own(self) -> None:
        arms = Bernoulli(MEANS, rng=1)
        with pytest.raises(InvalidParameter, match="Leave out the rng of these arms"):
            list(Grid([replace(FIXED, instance=arms)]).cells())


KEY_IN_ANOTHER_PROCESS = """
from oddarms.experiments import Contender, Grid, Setting, UniformMeans
grid = Grid([Setting("s", UniformMeans(9, 2.0), k=2.0)], [Contender("a", "wrr", {"batch": 5})])
print(*(cell.task.key for cell in grid.cells(rng=8)))
"""


class TestKeys:
    def test_every_input_changes_them(self) -> None:
        changes: list[dict[str, Any]] = [
            {"instance": [0.0, 0.1, 0.0, 0.1, 0.9]},
            {"instance": Uniform(MEANS, 0.0)},
            {"instance": Bernoulli(MEANS, labels="abcde")},
            {"k": 1.25},
            {"delta": 0.2},
            {"bounds": (0.0, 2.0)},
            {"budget": 10**6},
            {"options": {"rr": {"batch": 2}}},
            {"name": "another seed"},
            {},
        ]
        keys = {one_task(replace(FIXED, **change)).key for change in changes}
        keys |= {one_task(contender="ade").key, one_task(seed=1).key}
        assert len(keys) == 12

    def test_labels_and_the_order_of_options_do_not(self) -> None:
        (cell, *_) = Grid([FIXED], ["rr"]).cells()
        renamed = replace(
            cell,
            setting=replace(FIXED, name="new", figure="new", data="new", runs=9),
            contender=Contender("new", "rr"),
            instance=5,
        )
        assert renamed.task.key == cell.task.key
        one, two = ({"batch": 2, "rho": 1.5}, {"rho": 1.5, "batch": 2})
        keys = {one_task(contender=Contender("a", "wrr", options)).key for options in (one, two)}
        assert len(keys) == 1

    def test_another_process_finds_the_same(self) -> None:
        command = [sys.executable, "-c", KEY_IN_ANOTHER_PROCESS]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        grid = Grid(
            [Setting("s", UniformMeans(9, 2.0), k=2.0)], [Contender("a", "wrr", {"batch": 5})]
        )
        assert said.split() == [cell.task.key for cell in grid.cells(rng=8)]

    @pytest.mark.usefixtures("_fresh_fingerprints")
    def test_an_edit_of_a_foreign_algorithm_changes_its_own_only(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        file = tmp_path / "foreign.py"
        file.write_text("from oddarms.algorithms._round_robin import RR\n\nclass Mine(RR): pass\n")
        spec = importlib.util.spec_from_file_location("foreign", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "foreign", module)
        spec.loader.exec_module(module)
        monkeypatch.setitem(_registry._registered, "mine", module.Mine)
        before = {name: one_task(contender=name).key for name in ("mine", "rr")}
        file.write_text(file.read_text() + "# edited\n")
        code_fingerprint.cache_clear()
        assert one_task(contender="mine").key != before["mine"]
        assert one_task(contender="rr").key == before["rr"]


class TestExpectedCost:
    def test_it_is_n_over_the_squared_gap(self) -> None:
        """Mean 0.24, variance (1 + 2 * 0.01) / 5 - 0.24^2 = 0.1464: theta = 0.622623."""
        (cell, *_) = Grid([FIXED]).cells()
        assert cell.expected_cost == pytest.approx(5 / (1.0 - 0.622623) ** 2, rel=1e-4)
