"""Whole runs on known means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oddarms import Question, simulate
from oddarms.algorithms import _registry, get_algorithm
from oddarms.arms import Bernoulli, Beta, Resampled, Uniform
from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.simulation import Simulation, _simulate, _task
from oddarms.simulation._task import Run, Task
from oddarms.theory import outliers

MEANS = [0.1, 0.2, 0.9, 0.05]
QUESTION: dict[str, Any] = {"k": 0.5, "delta": 0.1, "algorithm": "rr", "runs": 6, "rng": 1}


def same(one: Simulation, two: Simulation) -> bool:
    names = ("pulls", "correct", "complete", "decisions", "pulls_per_arm", "rounds", "threshold")
    return all(getattr(one, name).tolist() == getattr(two, name).tolist() for name in names)


def test_one_entry_per_run() -> None:
    found = simulate(MEANS, **QUESTION)
    for name in ("pulls", "correct", "complete", "rounds", "threshold_pulls", "threshold"):
        assert getattr(found, name).shape == (6,)
    assert found.decisions.shape == found.pulls_per_arm.shape == (6, 4)
    assert found.outliers == [outliers(MEANS, 0.5).tolist()] * 6
    assert found.error_rate == 0.0
    assert found.pulls.tolist() == found.pulls_per_arm.sum(axis=1).tolist()
    assert len(set(found.pulls.tolist())) > 1
    assert f"rr, 6 runs on 4 arms, {found.pulls.mean():,.0f} pulls on average" in repr(found)


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where an algorithm is registered in this process only."""
    monkeypatch.setattr(_registry, "_registered", {"mine": get_algorithm("rr")})
    question = {**QUESTION, "k": 0.0, "runs": 3, "batch": 50}
    one = simulate(MEANS, **question)
    assert same(one, simulate(MEANS, **question, compiled=False))
    assert same(one, simulate(MEANS, **{**question, "algorithm": "mine"}, jobs=2))
    assert same(one, simulate(MEANS, **{**question, "rng": np.random.default_rng(1)}))
    assert not same(one, simulate(MEANS, **{**question, "rng": 2}))


def test_runs_do_not_depend_on_how_many_there_are() -> None:
    few, many = simulate(MEANS, **{**QUESTION, "runs": 2}), simulate(MEANS, **QUESTION)
    assert few.pulls.tolist() == many.pulls[:2].tolist()


def test_a_question_instead_of_its_words() -> None:
    words = {"margin": 0, **{name: QUESTION[name] for name in ("k", "delta", "algorithm")}}
    assert same(
        simulate(MEANS, Question("abcd", **words), runs=6, rng=1), simulate(MEANS, **QUESTION)
    )
    with pytest.raises(InvalidParameter, match="about the instance's 4 arms but is about 3"):
        simulate(MEANS, Question(3))
    with pytest.raises(InvalidParameter, match="complete: leave out k"):
        simulate(MEANS, Question(4), k=1)


def test_both_sides_go_through_find() -> None:
    found = simulate(MEANS, **{**QUESTION, "runs": 1, "batch": 500}, side="both")
    # mean 0.3125, sd 0.3435: thresholds 0.4843 and 0.1407
    assert found.decisions.tolist() == [[3, 1, 2, 3]]
    assert found.correct.all()


def test_a_budget_leaves_arms_undecided_and_not_wrong() -> None:
    found = simulate(MEANS, **QUESTION, budget=50)
    assert (found.pulls <= 50).all()
    assert not found.complete.any()
    assert found.correct.all()
    assert "6 incomplete" in repr(found)


def test_a_wrong_decision_is_seen() -> None:
    """Runs made up by hand: right, undecided, a missed outlier, a false one."""
    task = Task(Bernoulli(MEANS), Question(4, k=0.5, algorithm="rr"), compiled=False)
    made_up = [[1, 1, 2, 1], [0, 1, 0, 0], [1, 1, 1, 1], [0, 2, 2, 1]]
    runs = [Run(np.array(d, np.int8), np.ones(4, np.int64), 1, 0, 0.5, 0.1) for d in made_up]
    found = _simulate._collect(task, runs)
    assert found.correct.tolist() == [True, True, False, False]
    assert found.complete.tolist() == [True, False, True, False]
    assert found.error_rate == 0.5
    assert found.outliers == [[2], [], [], [1, 2]]
    assert "2 wrong, 2 incomplete" in repr(found)


class TestArms:
    def test_arms_are_as_good_as_their_means(self) -> None:
        assert same(simulate(Bernoulli(MEANS), **QUESTION), simulate(MEANS, **QUESTION))
        beta = simulate(MEANS, **QUESTION, family="beta", concentration=4.0)
        assert same(simulate(Beta(MEANS, 4.0), **QUESTION), beta)

    def test_a_table_on_other_bounds(self) -> None:
        """Rewards of 1 to 5; all but one arm have the same two."""
        records = {"a": [1, 2], "b": [1, 2], "c": [4, 5], "d": [1, 2], "e": [1, 2]}
        table = Resampled(records)
        found = simulate(table, k=1.5, delta=0.1, runs=3, rng=0, bounds=(1, 5))
        assert found.outliers == [[2]] * 3
        assert found.correct.all()

    def test_uniform_arms_beyond_the_unit_interval_are_not_compiled(self) -> None:
        wide = Uniform([0.0, 0.1, 0.0, 2.0], 0.2, bounds=(-1, 3))
        question = {**QUESTION, "runs": 1, "bounds": (-1, 3), "batch": 100}
        assert simulate(wide, **question).outliers == [[3]]
        with pytest.raises(InvalidParameter, match="compiled must be left out"):
            simulate(wide, **question, compiled=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 1.5}, "runs must be a whole number of at least 1 but got 1.5"),
        ({"jobs": 0}, "jobs must be a whole number of at least 1 but got 0"),
        ({"family": "normal"}, "family must be one of bernoulli, beta, uniform but got"),
        ({"compiled": True, "side": "both"}, "compiled must be left out for 'rr'"),
        ({"family": "beta", "concentration": -1}, "concentration must be positive"),
        ({"width": 0.1}, r"must be those of RR \(batch\) but got 'width'"),
        ({"instance": [0.1, 1.2]}, r"within \[0, 1\] but means\[1\] is 1.2"),
        ({"instance": [0.1]}, "At least 2 arms are needed"),
        ({"instance": Bernoulli(MEANS, rng=1)}, "no generator of its own"),
    ],
)
def test_misuse(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidParameter, TypeError), match=message):
        simulate(**{"instance": MEANS, **QUESTION, **changes})


class TestWithoutNumba:
    @pytest.fixture(autouse=True)
    def _no_numba(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_task, "find_spec", lambda name: None)  # noqa: ARG005

    def test_the_same_runs_more_slowly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slow = simulate(MEANS, **{**QUESTION, "runs": 2, "batch": 10})
        monkeypatch.undo()
        assert same(slow, simulate(MEANS, **{**QUESTION, "runs": 2, "batch": 10}))

    def test_insisting_says_what_is_missing(self) -> None:
        with pytest.raises(MissingExtra, match=r"compiled=True needs .* 'oddarms\[simulate\]'"):
            simulate(MEANS, **QUESTION, compiled=True)


def test_a_call_within_the_indifference_is_not_wrong() -> None:
    means = [0.1] * 4 + [0.5] * 2 + [0.9] * 4  # k = 0: two arms exactly on the threshold
    found = simulate(means, k=0, delta=0.1, runs=5, rng=3, indifference=0.15)
    assert found.complete.all()
    assert found.correct.all()
    assert (found.decisions[:, 4:6] == 1).any()
