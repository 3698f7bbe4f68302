"""Searches: ask and tell, `find` around every kind of source, and progress."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from oddarms import Progress, Question, Search, Status, find
from oddarms.algorithms import Algorithm, Pulls, Threshold
from oddarms.arms import Bernoulli
from oddarms.errors import InvalidParameter, ProtocolError, RewardRejected
from oddarms.problem import FloatArray, IntArray
from oddarms.search import ProgressLine
from oddarms.testing import Streams, drive

MEANS = [0.1, 0.9, 0.0, 0.2]
EASY: dict[str, Any] = {"k": 0.5, "delta": 0.1, "algorithm": "rr", "batch": 20, "rng": 1}


class Endless(Algorithm):
    """Asks for 2^48 pulls at a time, and never decides."""

    def propose(self, limit: int) -> Pulls:  # noqa: ARG002
        return Pulls(np.arange(1), np.array([2**48]))

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:  # noqa: ARG002
        self._count(pulls, sums)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        return np.zeros(self.n), np.ones(self.n)

    def threshold(self) -> Threshold:
        return Threshold(0.5, 0.0, 1.0)


@pytest.mark.parametrize("budget", [None, 2**60, 10**30])
def test_no_search_has_more_than_2_to_the_50_pulls(budget: int | None) -> None:
    search = Search(2, algorithm=Endless, budget=budget)
    for _ in range(4):
        assert search.status is Status.RUNNING
        pulls = search.ask_step()
        search.tell_step_totals(0.5 * pulls.counts, 0.25 * pulls.counts)
    assert search.pulls == 2**50
    assert search.status is Status.BUDGET


class TestAskAndTell:
    @pytest.mark.parametrize("kind", [list, tuple, np.array])
    def test_rewards_in_any_sequence(self, kind: Any) -> None:
        search = Search(2, k=0, delta=0.1, algorithm="rr", batch=2)
        search.ask_step()
        search.tell_step(kind([0, 1, 1, 1]))
        assert search.result().means.tolist() == [0.5, 1.0]

    def test_a_result_at_any_time(self) -> None:
        search = Search(["a", "b"], k=0, delta=0.1, algorithm="rr")
        before = search.result()
        assert (before.status, before.pulls, before.undecided) == ("running", 0, ["a", "b"])
        search.ask_step()
        search.tell_step([0.0, 1.0])
        after = search.result()
        assert (after.pulls, after.round, after.trace[-1].pulls) == (2, 1, 2)
        assert before.pulls == 0  # results do not change after the fact

    def test_tell_without_ask(self) -> None:
        search = Search(2, algorithm="rr")
        for _ in range(2):
            with pytest.raises(
                ProtocolError, match=r"tell_step\(\) was called without calling ask_"
            ):
                search.tell_step([0.0])
            drive(search, Streams([0.1, 0.9]), steps=1)

    def test_ask_after_the_end(self) -> None:
        decided = Search(4, **EASY)
        drive(decided, Streams(MEANS))
        with pytest.raises(ProtocolError, match=r"after the search stopped.* decided"):
            decided.ask_step()
        stopped = Search(4, **EASY)
        stopped.stop(Status.INTERRUPTED)
        with pytest.raises(ProtocolError, match="interrupted"):
            stopped.ask_step()

    @pytest.mark.parametrize("algorithm", ["rr", "spade"])
    def test_bad_rewards_are_rejected_whole_and_the_search_goes_on(self, algorithm: str) -> None:
        words: dict[str, Any] = {"k": 0.5, "rng": 1, "budget": 300, "algorithm": algorithm}
        search = Search(4, **words)
        drive(search, Streams(MEANS), steps=2)
        total = search.ask_step().total
        good = [0.5] * total
        before = search.result().to_dict()
        for rewards, rule in (
            (good[:-1], f"one reward per pull.* got {total - 1}"),
            ([*good, 0.5], f"one reward per pull.* got {total + 1}"),
            ([good], "one reward per pull.* shape"),
            ([*good[:-1], float("nan")], r"bounds \[0, 1\].* nan"),
            ([*good[:-1], 1.5], r"bounds \[0, 1\].* 1.5"),
            ([*good[:-1], -0.1], r"bounds \[0, 1\].* -0.1"),
            (["many"] * total, "numbers"),
        ):
            with pytest.raises(RewardRejected, match=rule) as caught:
                search.tell_step(rewards)
            assert caught.value.result.to_dict() == before
            assert search.result().to_dict() == before
        rejected, plain = Search(4, **words), Search(4, **words)
        with pytest.raises(RewardRejected):
            rejected.tell_step([2.0] * rejected.ask_step().total)
        results = [drive(one, Streams(MEANS)).to_dict() for one in (rejected, plain)]
        assert results[0] == results[1]

    def test_budget_zero(self) -> None:
        result = find(Bernoulli(MEANS), k=0.5, budget=0, bounds=(-3, 5), rng=1)
        assert (result.pulls, result.status, result.undecided) == (0, "budget", [0, 1, 2, 3])
        assert np.isnan(result.means).all()
        assert (result.intervals == [-3.0, 5.0]).all()

    def test_totals_must_fit_the_request(self) -> None:
        search = Search(["a", "b"], k=0, delta=0.1, algorithm="rr", batch=3)
        with pytest.raises(ProtocolError, match=r"tell_step_totals\(\) was called without"):
            search.tell_step_totals([1, 2], [1, 2])
        search.ask_step()
        with pytest.raises(
            RewardRejected, match="takes 2 sums, and as many of squares, one per entry asked for"
        ):
            search.tell_step_totals([1.0], [1.0])
        with pytest.raises(RewardRejected, match=r"3 rewards of arm 'b' add up to 3.5"):
            search.tell_step_totals([1.0, 3.5], [1.0, 3.5])
        with pytest.raises(RewardRejected, match="add up to nan"):
            search.tell_step_totals([np.nan, 1.0], [1.0, 1.0])
        assert search.result().pulls == 0

    def test_totals_in_other_units(self) -> None:
        for side in ("upper", "lower"):
            one = Search(2, k=0, delta=0.1, algorithm="rr", batch=3, bounds=(-3, 5), side=side)
            two = Search(2, k=0, delta=0.1, algorithm="rr", batch=3, bounds=(-3, 5), side=side)
            rewards = np.array([[-3.0, 5.0, 1.0], [4.0, 4.5, 5.0]])
            one.ask_step()
            one.tell_step(rewards.ravel())
            two.ask_step()
            two.tell_step_totals(rewards.sum(axis=1), (rewards**2).sum(axis=1))
            np.testing.assert_allclose(one.result().means, [1.0, 4.5])
            np.testing.assert_allclose(two.result().means, [1.0, 4.5])

    def test_out_of_bounds_names_the_arm_and_keeps_the_other_rewards(self) -> None:
        search = Search(["a", "b"], k=0, delta=0.1, algorithm="rr", bounds=(0, 10))
        search.ask_step()
        with pytest.raises(
            RewardRejected, match=r"within the bounds \[0, 10\] but arm 'b' gave 10.5"
        ) as caught:
            search.tell_step([3.0, 10.5])
        assert caught.value.unabsorbed == [("a", 3.0)]
        assert caught.value.result.pulls == 0


class TestFind:
    def test_parameters_are_checked_before_the_first_pull(self) -> None:
        pulled = []
        arms = [lambda: pulled.append(1) or 0.0] * 2  # type: ignore[func-returns-value]
        for wrong in ({"delta": 0}, {"k": np.nan}, {"bounds": (1, 0)}, {"budget": -1}):
            with pytest.raises(InvalidParameter):
                find(arms, **{"k": 1, "delta": 0.1, **wrong})
        with pytest.raises(TypeError, match=r"must be those of RR \(batch\) but got 'bach'"):
            find(arms, algorithm="rr", bach=10)
        assert pulled == []

    def test_arms_with_their_own_generator_keep_it(self) -> None:
        own = [find(Bernoulli(MEANS, rng=7), **{**EASY, "rng": seed}) for seed in (1, 2)]
        assert own[0].to_dict() == own[1].to_dict()

    def test_batches_are_drawn_as_totals(self) -> None:
        class Counting(Bernoulli):
            calls: list[str] = []  # noqa: RUF012

            def pull(self, indices: IntArray, counts: IntArray) -> Any:
                self.calls.append("pull")
                return super().pull(indices, counts)

        assert find(Counting(MEANS), **EASY).complete
        assert Counting.calls == []


class TestDefaults:
    def test_two_standard_deviations_and_a_twentieth(self) -> None:
        """The same in a question, a search and `find`."""
        asked = [
            Question(6),
            Search(6).question,
            find([lambda: 0.0] * 6, budget=0).question.but(budget=None).numbered(),
        ]
        assert all(question == asked[0] for question in asked)
        assert (asked[0].k, asked[0].delta, asked[0].algorithm) == (2.0, 0.05, "spade")
        assert asked[0].margin == 0.05


class TestHistory:
    """Rewards from before the search."""

    def test_rr_takes_them_as_the_next_places(self) -> None:
        search = Search(["a", "b"], k=0, delta=0.1, algorithm="rr")
        assert search.add_history({"a": [0.25], "b": [0.5, 0.75]}) == 3
        result = search.result()
        assert (result.pulls, result.history, result.unused) == (0, 3, 1)
        assert result.means[0] == 0.25
        assert search.ask_step().indices.tolist() == [0]

    @pytest.mark.parametrize("algorithm", ["spade", "ade", "rr", "wrr", "calibrated", "lucb"])
    def test_none_is_counted_twice(self, algorithm: str) -> None:
        """A sample was made or imported: what was told is the pulls, and the trace ends there."""
        search = Search(4, k=1.0, delta=0.2, algorithm=algorithm, budget=60, rng=4)
        search.add_history({arm: [0.0, 1.0] * (5 + arm) for arm in range(4)})
        drive(search, Streams([0.2, 0.4, 0.3, 0.8]))
        result = search.result()
        assert result.history == 52
        assert result.pulls == search.pulls == search.told <= 60
        assert result.pulls == result.trace[-1].pulls
        assert 0 <= result.threshold_pulls <= result.pulls


class TestTrace:
    def test_it_is_short_and_ends_with_the_result(self) -> None:
        result = find(Bernoulli(MEANS), **{**EASY, "batch": 1, "budget": 3_000})
        assert result.round > 1_000
        assert len(result.trace) < 200
        last = result.trace[-1]
        assert (last.pulls, last.round) == (result.pulls, result.round)
        assert last.undecided == len(result.undecided)
        assert last[3:6] == result.thresholds["upper"]


class TestProgress:
    def test_a_callback_after_each_step(self) -> None:
        seen: list[Progress] = []
        result = find(Bernoulli(MEANS), **EASY, progress=seen.append)
        assert len(seen) == result.round
        assert seen[-1].pulls == result.pulls
        assert seen[-1].undecided == 0
        assert all(p.n == 4 and p.threshold_lower <= p.threshold_upper for p in seen)
        assert [p.pulls for p in seen] == sorted(p.pulls for p in seen)

    def _progress(self, **changes: Any) -> Progress:
        values = {
            "pulls": 12_345,
            "round": 9,
            "n": 1000,
            "undecided": 17,
            "threshold_lower": 0.25,
            "threshold_upper": 0.75,
            "pulls_needed": None,
        }
        return Progress(**{**values, **changes})

    def test_a_file_gets_whole_lines_and_not_too_many(self) -> None:
        stream = io.StringIO()
        with ProgressLine(stream, wait=0.0) as line:
            line(self._progress(pulls_needed=2e6))
            line(self._progress())  # the next is due in ten seconds
        assert stream.getvalue() == (
            "12,345 pulls, 17 of 1,000 arms undecided, about 2,000,000 to go,"
            " threshold 0.25 to 0.75\n"
        )

    def test_a_terminal_gets_one_line_that_is_cleared(self) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        stream = Terminal()
        with ProgressLine(stream, wait=0.0) as line:
            line(self._progress())
        shown, cleared = stream.getvalue().split("\r")[1:3]
        assert shown.startswith("12,345 pulls")
        assert cleared == "\x1b[K"


def test_a_request_cannot_be_written_to() -> None:
    search = Search(4, k=0.5, delta=0.1, algorithm="ade", rng=1)
    for array in search.ask_step():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_budget_below_one_round_is_spent_and_may_become_larger() -> None:
    means = [0.1, 0.1, 0.1, 0.9, 0.1]
    for budget in (1, 4):
        result = find(Bernoulli(means), k=1, delta=0.1, budget=budget, rng=1)
        assert (result.pulls, result.status) == (budget, "budget")
        assert result.pulls_per_arm.tolist() == [1] * budget + [0] * (5 - budget)
        assert len(result.undecided) == 5
        assert "samples: " in repr(result)
    search = Search(5, k=1, delta=0.1, budget=4, rng=1)
    rng = np.random.default_rng(1)

    def go_on() -> None:
        while not search.done:
            asked = search.ask_step()
            search.tell_step(
                rng.random(asked.total)
                < np.repeat(means, np.bincount(asked.indices, asked.counts, 5).astype(int))
            )

    go_on()
    assert search.result().pulls == 4
    search.raise_budget(None)
    go_on()
    assert search.result().outliers == [3]


@pytest.mark.parametrize(("algorithm", "budget"), [("spade", 0), ("rr", 2)])
def test_history_is_used_where_the_budget_allows_no_step(algorithm: str, budget: int) -> None:
    search = Search("abcd", k=1, delta=0.1, budget=budget, algorithm=algorithm)
    assert search.status is Status.BUDGET
    rewards = np.random.default_rng(0).random(20_000)
    rates = {"a": 0.1, "b": 0.2, "c": 0.1, "d": 0.9}
    search.add_history({label: (rewards < rate) * 1.0 for label, rate in rates.items()})
    assert search.status is Status.DECIDED
    assert search.result().outliers == ["d"]
