"""The benchmark compares on the same instances, and its figures are what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import benchmarks.__main__ as command
from benchmarks import pictures
from benchmarks._compare import (
    BASELINES,
    SPADE,
    Effort,
    compare,
    instance_limit,
    repeated,
)
from benchmarks._delta import DELTAS, falling_delta
from benchmarks._fixed import lists
from benchmarks._instances import fresh_families, held_out_families, instance_families
from benchmarks._tables import TABLES
from oddarms.arms import Bernoulli, Beta
from oddarms.experiments import Grid, Setting
from oddarms.theory import gaps, spade_pulls_bound

EFFORT = Effort(runs=3, baseline_runs=2, budget=10_000)
FRESH = fresh_families()
FAMILIES = {family.name: family for family in [*instance_families(), *held_out_families(), *FRESH]}
PLANTED, QUIET = FAMILIES["19+1 planted, k=2"], FAMILIES["48+2 Beta(50), k=2"]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_the_others_meet_the_first_of_spades_instances(family: Setting) -> None:
    spade = list(Grid([repeated(family, 3)], [SPADE]).cells(rng=1))
    others = list(Grid([EFFORT.of_baselines(family)], BASELINES[:1]).cells(rng=1))
    assert (len(spade), len(others)) == (3, 2)
    for ours, theirs in zip(spade, others, strict=False):
        np.testing.assert_array_equal(ours.arms.means, theirs.arms.means)
        assert (ours.seed, ours.task.question.budget) == (theirs.seed, None)
        assert theirs.task.question.budget == (500 if isinstance(theirs.arms, Beta) else 10_000)


def test_no_two_families_share_a_name() -> None:
    """Instances follow from the name, so two of one name would be drawn alike."""
    assert len(FAMILIES) == len(instance_families()) + len(held_out_families()) + len(FRESH)


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
        assert row.summaries["ADE"].unfinished == 2
        arms = [family.draw(outcome.instance_seed) for outcome in row.spade]
        limits = [instance_limit(one, 2.0, 0.1) for one in arms]
        assert row.limits == pytest.approx(limits)
        assert all(gaps(one.means, 2.0).min() >= 0.02 for one in arms)
    entries = [row.to_dict() for row in rows]
    assert [entry["family"] for entry in entries] == [PLANTED.name, QUIET.name]
    assert [entry["n"] for entry in entries] == [20, 50]
    assert entries[0]["algorithms"]["ADE"]["runs"] == 2
    kept = entries[0]["spade_runs"]
    assert kept["pulls"] == [outcome.pulls for outcome in rows[0].spade]
    assert np.mean(kept["limits"]) == pytest.approx(entries[0]["limit"])
    assert kept["wrong"] == [i for i, outcome in enumerate(rows[0].spade) if not outcome.correct]
    first = TABLES["samples"]({"samples": entries}).splitlines()[2]
    assert first.startswith("| 19+1 planted, k=2 | ")
    assert " | > 1e+04 | " in first


def test_the_usual_ways_by_hand() -> None:
    """Median 0.2, MAD 0.1; mean 0.34 and sd 0.287 put the threshold at 0.628 for k = 1."""
    found = np.array([0.1, 0.1, 0.2, 0.4, 0.9])
    assert [way.tolist() for way in lists(found, 100, 1.0)] == [[4], [3, 4], [4]]
    assert [way.tolist() for way in lists(found, 10, 1.0)] == [[4], [3, 4], []]


def test_delta_falls_on_the_same_instances() -> None:
    rows = list(
        falling_delta(
            [PLANTED], 2, seed=3, jobs=1, report=lambda _: None, deltas=(0.1, 1e-3, 1e-12)
        )
    )
    assert [row["delta"] for row in rows] == [0.1, 1e-3, 1e-12]
    effort = replace(EFFORT, runs=2)
    (beside,) = compare([PLANTED], effort, seed=3, jobs=1, report=lambda _: None, baselines=())
    assert rows[0]["pulls"] == [outcome.pulls for outcome in beside.spade]
    assert rows[0]["over_log_n_over_delta"] == pytest.approx(beside.to_dict()["spade_over_limit"])
    for row in rows:
        assert row["mean_pulls"] == pytest.approx(np.mean(row["pulls"]))
        assert (row["family"], row["n"], row["runs"], row["wrong"]) == (PLANTED.name, 20, 2, 0)
    assert rows[0]["mean_pulls"] < rows[1]["mean_pulls"] < rows[2]["mean_pulls"]
    table = TABLES["delta"]({"delta": rows}).splitlines()
    assert table[2].startswith(f"| SPADE / limit | {rows[0]['over_log_n_over_delta']:.2f} | ")


def test_the_command_reports_fixed_runs_and_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "QUICK", EFFORT)
    options = ["--quick", "--parts", "samples", "delta", "--match", "19+1 planted, k=2"]
    path = tmp_path / "benchmark.json"
    assert command.main([*options, "--runs", "1", "--jobs", "1", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "## Fixed runs\n\n| family | n | 10 each | " in printed
    assert "## Delta\n\n| delta | 0.1 | 0.01 | " in printed
    report = json.loads(path.read_text())
    assert [row["runs_each"] for row in report["fixed_runs"][:4]] == [10, 30, 50, 100]
    assert [row["delta"] for row in report["delta"]] == list(DELTAS)
    monkeypatch.setattr(pictures, "find", lambda *_, **__: None)  # of a crowd: takes long
    monkeypatch.setattr(pictures, "plot_intervals", lambda *_, **__: None)
    pictures.draw_all(tmp_path)
    assert (tmp_path / "algorithms.png").read_bytes()[:4] == b"\x89PNG"


def test_the_command_without_families(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    options = ["--quick", "--parts", "delta", "--json", str(report), "--match"]
    assert command.main([*options, "2a"]) == 0
    assert "delta" not in json.loads(report.read_text())
    with pytest.raises(SystemExit, match="2"):
        command.main([*options, "k=9"])
    assert "no family has that in its name" in capsys.readouterr().err


def test_errors_false_discoveries_and_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors at two values of delta, e-BH with the same rewards, the theorems' bounds."""
    path = tmp_path / "report.json"
    options = ["--quick", "--match", "19+1 planted, k=2", "--runs", "3", "--jobs", "1", "--seed"]
    parts = ["samples", "errors", "fdr", "bounds", "beside"]
    words = [*options, "3", "--only-spade", "--json", str(path), "--parts", *parts]
    assert command.main(words) == 0
    report, printed = json.loads(path.read_text()), capsys.readouterr().out
    (row,) = compare([PLANTED], EFFORT, seed=3, jobs=1, report=print, baselines=())
    pulls = [outcome.pulls for outcome in row.spade]
    assert [(one["delta"], one["runs"]) for one in report["errors"]] == [(0.1, 3), (0.5, 3)]
    assert report["errors"][0]["mean_pulls"] == pytest.approx(np.mean(pulls))
    (fdr,) = report["fdr"]
    assert fdr["fwer"] == pulls
    assert "1 families of the benchmark, 3 instances each" in printed
    beside = [*report["equal"], *report["calibrated_beside"]]
    assert [(one["family"], one["runs"]) for one in beside] == [(PLANTED.name, 3)] * 2
    (bounds,) = report["bounds"]
    means = [PLANTED.draw(outcome.instance_seed).means for outcome in row.spade]
    expected = np.mean([spade_pulls_bound(y, k=2.0, delta=0.1) for y in means])
    assert bounds["SPADE"] == pytest.approx(expected)
    ratio = f"{expected / np.mean(pulls):,.0f}"
    million = f"{float(f'{expected / 1e6:.2g}'):g} million"
    assert f"| 20 | {np.mean(pulls):,.0f} | {million} | {ratio} | " in printed


def test_errors_beyond_delta_are_reported() -> None:
    row = {"family": "x", "delta": 0.1, "wrong": 3, "runs": 2000}
    found = TABLES["errors"]({"errors": [row, row | {"delta": 0.5, "wrong": 0}]})
    said = "1 families: 3 of 2,000 answers were wrong at delta = 0.1 and 0 of 2,000 answers were"
    assert found.startswith(said)
    assert "; no family has more than allowed" in found
    bad = TABLES["errors"]({"errors": [row | {"wrong": 400}]})
    assert bad.endswith("; MORE THAN ALLOWED ON x (exact binomial bound).")
