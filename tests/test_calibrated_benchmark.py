"""What the benchmark measures of rules that are not proven is what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import benchmarks.__main__ as command
from benchmarks import _budget
from benchmarks._budget import (
    SHARES,
    WAYS,
    budget_families,
    budget_runs,
)
from benchmarks._calibrated import (
    DELTAS,
    STREAM,
    calibrated_families,
    calibrated_runs,
    is_outlier,
    pull_once,
)
from benchmarks._compare import SPADE, instance_limit, repeated, with_few_arms
from benchmarks._instances import instance_families
from benchmarks._tables import TABLES
from oddarms.algorithms import Decision
from oddarms.algorithms._base import UNLIMITED
from oddarms.algorithms._calibrated import Calibrated
from oddarms.experiments import Grid
from oddarms.rules import Sigma
from oddarms.theory import gaps

OWN = {family.name: family for family in calibrated_families()}
PLANTED = next(one for one in instance_families() if one.name == "19+1 planted, k=2")
SMALL = OWN["22 U(.6,.9) + 2 U(.1,.2), k=-1.5"]


def test_families() -> None:
    sizes = {name: family.draw(seed=1).means.size for name, family in OWN.items()}
    assert len(OWN) == 16
    assert (min(sizes.values()), max(sizes.values())) == (2, 500)
    near = OWN["one of 30 at .002 from theta, k=2"]
    distances = [gaps(near.draw(seed).means, 2.0).min() for seed in range(20)]
    assert 0.001 <= min(distances) <= max(distances) <= 0.002
    assert not {family.name for family in with_few_arms(instance_families(), 200)} & set(OWN)
    assert all(one.draw(0).means.size <= 200 for one in with_few_arms(instance_families(), 200))
    spent = {family.name for family in budget_families(list(OWN.values()))}
    assert SMALL.name in spent
    assert "15+1 Beta(30), k=2" not in spent
    assert "2 at 1e-7 from their mean, k=0" not in spent
    assert "one of 8 at .0003 from theta, k=1" not in spent


def test_one_run_says_where_each_delta_stops() -> None:
    rows = list(calibrated_runs([PLANTED], 3, seed=1, report=lambda _: None))
    cells = list(Grid([repeated(PLANTED, 3)], [SPADE]).cells(1))
    assert [row["delta"] for row in rows] == list(DELTAS)
    for row in rows:
        pulls, wrong = [], 0
        for cell in cells:
            rng = np.random.default_rng([cell.seed, STREAM])
            machine = Calibrated(20, rule=Sigma(k=2.0), delta=row["delta"], rng=rng)
            arms = cell.arms.seeded(rng)
            while not machine.done:
                pull_once(machine, arms, UNLIMITED)
            pulls.append(int(machine.pulls.sum()))
            truth = is_outlier(cell.arms.means, 2.0)
            wrong += not np.array_equal(machine.decisions == Decision.HIGH, truth)
        limits = [instance_limit(cell.arms, 2.0, row["delta"]) for cell in cells]
        assert row["pulls"] == pytest.approx(np.mean(pulls))
        assert row["limit"] == pytest.approx(np.mean(limits))
        assert (row["n"], row["runs"], row["wrong"], row["unfinished"]) == (20, 3, wrong, 0)
    first = TABLES["calibrated"]({"calibrated": rows}).splitlines()[2]
    assert f" | {rows[0]['pulls'] / rows[0]['limit']:.2f} | " in first


APT = np.array([0.2, 0.5, 0.9]), 1.0, np.array([3, 4, 50])


@pytest.mark.long  # compiling takes seconds
def test_apt_is_the_same_compiled() -> None:
    compiled = _budget._apt()(*APT, np.random.default_rng(1))
    np.testing.assert_array_equal(compiled, _budget._apt_loop(*APT, np.random.default_rng(1)))


def test_apt_pulls_the_arm_with_the_least_index() -> None:
    pulls, sums = _budget._apt_loop(*APT, np.random.default_rng(1))
    assert pulls.sum(1).tolist() == [3.0, 4.0, 50.0]
    index = np.abs(sums[0] - sums[0].mean() - sums[0].std())
    assert (pulls[1] - pulls[0]).argmax() == index.argmin()


@pytest.fixture
def without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_budget, "_apt", lambda: _budget._apt_loop)


@pytest.mark.usefixtures("without_compiling")
def test_every_way_spends_every_budget() -> None:
    rows = budget_runs([SMALL], 2, seed=2, report=lambda _: None)
    assert [(row["way"], row["share"]) for row in rows] == [(w, s) for w in WAYS for s in SHARES]
    cells = list(Grid([repeated(SMALL, 2)], [SPADE]).cells(2))
    limits = [instance_limit(cell.arms, SMALL.k, 0.1) for cell in cells]
    for row in rows:
        runs = 1 if row["way"] == "SPADE" else 2
        expected = [max(round(row["share"] * limit), 48) for limit in limits[:runs]]
        assert (row["runs"], row["pulls"]) == (runs, np.mean(expected))
        assert 0.0 <= row["any_wrong"] <= min(row["wrong_arms"], 1.0)
    table = TABLES["budget"]({"budget": rows})
    assert len(table.splitlines()) == 2 + len(SHARES)


@pytest.mark.usefixtures("without_compiling")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "benchmark.json"
    options = ["--parts", "calibrated", "budget", "--match", "19+1 planted, k=2"]
    assert command.main([*options, "--runs", "1", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "## Calibrated\n\n| delta | families | " in printed
    assert "## Budget\n\n| budget / limit | " in printed
    report = json.loads(path.read_text())
    assert [row["delta"] for row in report["calibrated"]] == list(DELTAS)
    assert len(report["budget"]) == len(WAYS) * len(SHARES)


def test_means_over_families() -> None:
    row = {"share": 0.1, "way": "rows", "any_wrong": 0.5, "wrong_arms": 1.0}
    others = [
        {**row, "way": way, "share": share}
        for family in ("a", "b")
        for way in WAYS
        for share in SHARES
        if (way, share, family) != ("rows", 0.1, "b")
    ]
    rows = [*others, {**row, "any_wrong": 0.0, "wrong_arms": 0.0}]
    table = TABLES["budget"]({"budget": rows})
    half = " | ".join(["0.50 (1.00)"] * 3)
    assert table.splitlines()[2] == f"| 0.1 | {half} | 0.25 (0.50) |"
