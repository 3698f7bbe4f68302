"""Bad input and bad luck: each with its message, and nothing that was paid for is lost."""

from __future__ import annotations

import builtins
import inspect
import pickle
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oddarms import SearchInterrupted, errors, find
from oddarms.errors import (
    InvalidParameter,
    MissingExtra,
    OddarmsError,
    PullFailed,
    RewardRejected,
    SearchError,
)
from oddarms.problem import IntArray

QUESTION: dict[str, Any] = {"k": 0.5, "delta": 0.1, "algorithm": "rr", "budget": 1_000}


class After:
    """A function that returns `before` some times and then does something else."""

    def __init__(self, calls: int, then: Callable[[], Any], before: float = 0.25) -> None:
        self.left, self.then, self.before = calls, then, before

    def __call__(self) -> Any:
        self.left -= 1
        return self.before if self.left >= 0 else self.then()


def raising(error: BaseException) -> Callable[[], float]:
    """Return a function that raises."""

    def function() -> float:
        raise error

    return function


def arms(failing: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    return {"ann": lambda: 0.5, "bob": failing, "eve": lambda: 0.75}


class OwnSource:
    """A source whose answer is made by a function of the number of rewards asked for."""

    labels = ("ann", "bob", "eve")

    def __init__(self, answer: Callable[[int], Any], calls: int = 4) -> None:
        self.answer, self.left = answer, calls

    def pull(self, indices: IntArray, counts: IntArray) -> Any:
        self.left -= 1
        total = int(np.sum(counts))
        assert len(indices) == len(counts)
        return [0.5] * total if self.left >= 0 else self.answer(total)


class TestTree:
    def test_every_error_is_one_of_ours(self) -> None:
        classes = [c for _, c in inspect.getmembers(errors, inspect.isclass)]
        ours = [
            c for c in classes if c.__module__ == errors.__name__ and not c.__name__.startswith("_")
        ]
        assert len(ours) == 16
        assert [c for c in ours if not issubclass(c, OddarmsError)] == [errors.SearchInterrupted]
        assert not issubclass(errors.SearchInterrupted, Exception)  # which a loop may retry

    def test_and_also_the_builtin_of_the_docstring(self) -> None:
        pairs = re.findall(r"(\w+) \((\w+)\) ", errors.__doc__ or "")
        assert len(pairs) == 13
        for ours, builtin in pairs:
            assert issubclass(getattr(errors, ours), getattr(builtins, builtin))

    def test_a_failure_of_a_storage_says_whether_it_passes(self) -> None:
        lasting = errors.StorageFailed("a.db: it is damaged.")
        assert (lasting.passing, lasting.untold, lasting.errno) == (False, [], None)
        passing = errors.StorageFailed("a.db: the disk is full.", passing=True)
        passing.untold = [(7, 0.5)]
        again = pickle.loads(pickle.dumps(passing))
        assert (str(again), again.passing) == ("a.db: the disk is full.", True)
        assert again.untold == [(7, 0.5)]


class TestFunctionThatRaises:
    def test_the_error_names_the_arm_and_keeps_the_samples(self) -> None:
        cause = OSError("no answer")
        with pytest.raises(PullFailed, match="arm 'bob': OSError: no answer") as caught:
            find(arms(After(3, raising(cause))), **QUESTION)
        error = caught.value
        assert error.label == "bob"
        assert error.__cause__ is cause
        assert error.result.status == "failed"
        # turns ann bob eve, ann, bob, eve, ann, bob, eve, ann: then bob fails, alone in its step
        assert error.result.pulls_per_arm.tolist() == [4, 3, 3]
        assert error.result.means.tolist() == [0.5, 0.25, 0.75]
        assert error.unabsorbed == []


class TestFunctionThatReturnsNoReward:
    @pytest.mark.parametrize("value", ["many", None, [1, 2], object])
    def test_not_a_number(self, value: Any) -> None:
        with pytest.raises(PullFailed, match=r"arm 'bob': reward must be a number but") as caught:
            find(arms(lambda: value), **QUESTION)
        assert caught.value.label == "bob"
        assert isinstance(caught.value.__cause__, RewardRejected)

    @pytest.mark.parametrize(("value", "shown"), [(float("nan"), "nan"), (1.5, "1.5"), (-2, "-2")])
    def test_out_of_bounds(self, value: float, shown: str) -> None:
        with pytest.raises(
            PullFailed, match=rf"arm 'bob': rewards must lie within .*\[0, 1\] but got {shown}"
        ) as caught:
            find(arms(After(3, lambda: value)), **QUESTION)
        assert caught.value.result.pulls_per_arm.tolist() == [4, 3, 3]
        assert caught.value.result.status == "failed"


class TestSourceThatMisbehaves:
    @pytest.mark.parametrize(
        ("answer", "rule"),
        [
            (lambda _: [], r"one reward per pull asked for, 1 in all, but got 0\."),
            (lambda _: [0.5] * 2, r"one reward per pull asked for, 1 in all, but got 2\."),
            (lambda total: [[0.5] * total], r"an array of shape \(1, 1\)"),
            (lambda total: ["x"] * total, "rewards must be numbers"),
            (lambda total: [np.nan] * total, "arm 'ann' gave nan"),
        ],
    )
    def test_what_are_no_rewards(self, answer: Callable[[int], Any], rule: str) -> None:
        with pytest.raises(RewardRejected, match=rule) as caught:
            find(OwnSource(answer), **QUESTION)
        assert caught.value.result.pulls == 6

    def test_an_exception_is_chained(self) -> None:
        with pytest.raises(PullFailed, match="arm 'ann' raised KeyError: 'x'") as caught:
            find(OwnSource(lambda total: {}["x"]), **QUESTION)  # noqa: ARG005
        assert isinstance(caught.value.__cause__, KeyError)
        assert caught.value.label == "ann"
        assert caught.value.result.pulls == 6

    def test_a_step_of_several_arms_has_no_single_culprit(self) -> None:
        with pytest.raises(PullFailed, match="a step of 3 pulls raised KeyError") as caught:
            find(OwnSource(lambda total: {}[total], calls=0), **QUESTION)
        assert caught.value.label is None

    def test_totals_that_are_no_pair(self) -> None:
        class Totals(OwnSource):
            def pull_totals(self, indices: Any, counts: Any) -> Any:
                return [0.5] * (len(indices) + counts.sum())

        with pytest.raises(RewardRejected, match="must return sums and sums of squares") as caught:
            find(Totals(lambda total: [0.5] * total), **QUESTION)
        assert caught.value.result.status == "failed"


class TestProgressThatFails:
    def test_the_samples_are_kept(self) -> None:
        source = OwnSource(lambda total: [0.5] * total)
        with pytest.raises(SearchError, match="the search failed: ZeroDivisionError") as caught:
            find(source, **QUESTION, progress=lambda progress: 1 / 0)  # noqa: ARG005
        assert caught.value.result.pulls == 3
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_it_must_be_a_function(self) -> None:
        with pytest.raises(InvalidParameter, match="progress must be True, False or a function"):
            find(arms(lambda: 0.25), **QUESTION, progress="yes")


def test_a_bad_reward_ends_the_step_at_once() -> None:
    calls: list[int] = []
    with pytest.raises(PullFailed, match=r"arm 0: rewards must lie within .* but got 2"):
        find([lambda: 2.0, lambda: calls.append(1) or 0.5], k=0.5, delta=0.1, rng=0)  # type: ignore[func-returns-value]
    assert calls == []


class TestInterrupt:
    def test_ctrl_c_in_a_function(self) -> None:
        with pytest.raises(SearchInterrupted, match="interrupted after 10 pulls") as caught:
            find(arms(After(3, raising(KeyboardInterrupt()))), **QUESTION)
        assert caught.value.result.status == "interrupted"
        assert caught.value.result.pulls_per_arm.tolist() == [4, 3, 3]
        assert not caught.value.result.complete

    def test_ctrl_c_elsewhere(self) -> None:
        with pytest.raises(SearchInterrupted) as caught:
            find(
                OwnSource(lambda total: [0.5] * total),
                **QUESTION,
                progress=lambda progress: raising(KeyboardInterrupt())() and progress,
            )
        assert caught.value.result.pulls == 3


class TestMissingExtras:
    def test_a_frame_without_pandas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        result = find(arms(lambda: 0.25), **{**QUESTION, "budget": 10})
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtra, match=r"to_frame\(\) needs .* 'oddarms\[frame\]'"):
            result.to_frame()
