"""The benchmark compares on the same instances, and its figures are what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks._compare import BASELINES, SPADE, Effort, compare, instance_limit
from benchmarks._fresh import fresh_families
from benchmarks._instances import held_out_families, instance_families
from benchmarks._tables import samples_json, samples_table
from oddarms.arms import Bernoulli, Beta
from oddarms.experiments import Grid, Setting
from oddarms.theory import gaps, outliers

EFFORT = Effort(runs=3, baseline_runs=2, budget=10_000)
FRESH = fresh_families()
FAMILIES = {family.name: family for family in [*instance_families(), *held_out_families(), *FRESH]}
PLANTED, QUIET = FAMILIES["19+1 planted, k=2"], FAMILIES["48+2 Beta(50), k=2"]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_the_others_meet_the_first_of_spades_instances(family: Setting) -> None:
    spade = list(Grid([EFFORT.of_spade(family)], [SPADE]).cells(rng=1))
    others = list(Grid([EFFORT.of_baselines(family)], BASELINES[:1]).cells(rng=1))
    assert (len(spade), len(others)) == (3, 2)
    for ours, theirs in zip(spade, others, strict=False):
        np.testing.assert_array_equal(ours.arms.means, theirs.arms.means)
        assert (ours.seed, ours.task.question.budget) == (theirs.seed, None)
        assert theirs.task.question.budget == (500 if isinstance(theirs.arms, Beta) else 10_000)


@pytest.mark.parametrize(("name", "batch"), [("figure 2a, n=100", 1), ("figure 2a, n=1000", 1000)])
def test_batches_are_the_papers_where_there_are_many_arms(name: str, batch: int) -> None:
    grid = Grid([EFFORT.of_baselines(FAMILIES[name])], BASELINES)
    batches = {
        cell.contender.name: cell.task.question.options.get("batch", 1)
        for cell in grid.cells(rng=0)
    }
    assert batches == {"ADE": 1, "ADE shared": 1, "RR": batch, "WRR": batch}


def test_fresh_families_are_of_many_kinds() -> None:
    arms = {family: family.draw(seed=1) for family in FRESH}
    assert [one.means.size for one in arms.values()] == [12, 25, 30, 60, 120, 240, 400, 800]
    assert {family.k for family in FRESH} == {1.0, 2.0, 2.5, 3.0}
    assert [one.concentration for one in arms.values() if isinstance(one, Beta)] == [20.0]
    for family, one in arms.items():
        assert gaps(one.means, family.k).min() >= 0.015
        assert outliers(one.means, family.k).size > 0


def test_no_two_families_share_a_name() -> None:
    """Instances follow from the name, so two of one name would be drawn alike."""
    assert len(FAMILIES) == len(instance_families()) + len(held_out_families()) + len(FRESH)


def test_fewer_runs_than_baseline_runs() -> None:
    assert EFFORT.with_runs(1) == Effort(runs=1, baseline_runs=1, budget=10_000)
    assert EFFORT.with_runs(50) == Effort(runs=50, baseline_runs=2, budget=10_000)


def test_limit_by_hand() -> None:
    """n = 2 arms are never outliers for k >= 1; for k = 0 the better one is, at mu = theta.

    Gaps of 0.3, c = (1/2, 1/2), so only y_1 - y_2 matters: (s_1 + s_2)^2 / (2 * 0.3)^2 * 2 pulls
    per nat, with s^2 = 0.8 * 0.2 for both, and 1/51 of it for Beta rewards of concentration 50.
    """
    per_nat = 2.0 * (0.4 + 0.4) ** 2 / 0.6**2
    expected = per_nat * math.log(2 / 0.1)
    means = [0.2, 0.8]
    assert instance_limit(Bernoulli(means), 0.0, 0.1) == pytest.approx(expected)
    assert instance_limit(Beta(means, 50.0), 0.0, 0.1) == pytest.approx(expected / 51.0)


def test_rows_tables_and_json() -> None:
    said: list[str] = []
    rows = compare([PLANTED, QUIET], EFFORT, seed=3, jobs=1, report=said.append)
    assert said[0] == "SPADE: 0 of 6 runs"
    assert said[-1] == "the others: 16 of 16 runs"
    for row, family in zip(rows, [PLANTED, QUIET], strict=True):
        assert row.setting is family
        pulls = [outcome.pulls for outcome in row.spade]
        assert row.summaries["SPADE"].mean == pytest.approx(np.mean(pulls))
        for name in ("ADE", "ADE shared", "RR", "WRR"):
            others = row.summaries[name]
            assert row.ratio_to(name) == pytest.approx(others.mean / np.mean(pulls[:2]))
        assert row.summaries["ADE"].unfinished == 2
        arms = [family.draw(outcome.instance_seed) for outcome in row.spade]
        limits = [instance_limit(one, 2.0, 0.1) for one in arms]
        assert row.limit == pytest.approx(np.mean(limits))
        assert all(gaps(one.means, 2.0).min() >= 0.02 for one in arms)
    json = samples_json(rows)
    assert [entry["family"] for entry in json] == [PLANTED.name, QUIET.name]
    assert [entry["n"] for entry in json] == [20, 50]
    assert json[0]["algorithms"]["ADE"]["runs"] == 2
    assert json[0]["algorithms"]["SPADE"]["over_spade_on_the_same_instances"] == 1.0
    first = samples_table(rows).splitlines()[2]
    assert first.startswith("| 19+1 planted, k=2 | 20 | ")
    assert " | > 1e+04 | " in first
