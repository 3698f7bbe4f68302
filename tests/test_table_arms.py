"""Recorded rewards are used once: pulls, the end of a search, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddarms import Search, Status, create_study, find, simulate
from oddarms.arms import Bernoulli, FiniteSource, Table
from oddarms.errors import InvalidParameter, ProtocolError, PullFailed
from oddarms.experiments import Grid, Setting
from oddarms.problem import FloatArray, IntArray
from oddarms.search import drive
from oddarms.statistics.binomial import most_errors
from oddarms.testing import assert_error_rate

QUICKLY = settings(derandomize=True, deadline=None, max_examples=40)
LEFT = {"a": [0.0, 0.25, 0.5, 0.75], "b": [1.0], "c": [0.125, 0.375, 0.625]}


def numbered(n: int, rows: int) -> dict[int, list[float]]:
    """Return rows that are all different."""
    return {i: ((i * rows + np.arange(rows)) / (n * rows)).tolist() for i in range(n)}


def coins(rng: np.random.Generator, rates: list[float], rows: int) -> dict[int, FloatArray]:
    return {i: (rng.random(rows) < rate) * 1.0 for i, rate in enumerate(rates)}


class TestPulls:
    @QUICKLY
    @given(
        st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1), min_size=1),
        st.integers(0, 99),
    )
    def test_every_row_is_used_once(self, steps: list[list[tuple[int, int]]], seed: int) -> None:
        """Whatever is asked for, in any order, also of one arm several times in a step."""
        rows = numbered(3, 20)
        table = Table(rows, rng=seed)
        given: dict[int, list[float]] = {0: [], 1: [], 2: []}
        for step in steps:
            indices, counts = (np.array(column) for column in zip(*step, strict=True))
            wanted = np.bincount(indices, counts, minlength=3)
            left = table.rewards_left
            assert left is not None
            assert left.tolist() == [20 - len(given[i]) for i in range(3)]
            if (wanted > left).any():
                with pytest.raises(PullFailed, match="must not be pulled more often than it has"):
                    table.pull(indices, counts)
                assert table.rewards_left.tolist() == left.tolist()
                continue
            rewards = table.pull(indices, counts).tolist()
            for arm in np.repeat(indices, counts).tolist():
                given[arm].append(rewards.pop(0))
        for arm, rewards in given.items():
            assert len(set(rewards)) == len(rewards)
            assert set(rewards) <= set(rows[arm])

    def test_all_rows_come_in_the_end(self) -> None:
        table = Table(LEFT, rng=3)
        rewards = table.pull(np.arange(3), table.sizes)
        assert sorted(rewards[:4]) == LEFT["a"]
        assert rewards[4] == 1.0
        assert sorted(rewards[5:]) == LEFT["c"]
        assert table.rewards_left is not None
        assert table.rewards_left.tolist() == [0, 0, 0]

    def test_a_seed_decides_the_order_whatever_is_asked_first(self) -> None:
        one, two = (Table(numbered(2, 9), rng=5) for _ in range(2))
        first = one.pull([0], [9]).tolist()
        two.pull([1], [4])
        assert [two.pull([0], [1])[0] for _ in range(9)] == first
        assert Table(numbered(2, 9), rng=6).pull([0], [9]).tolist() != first

    def test_all_orders_are_alike_probable(self) -> None:
        """Each of 3 rows comes first in a third of 1500 orders; false alarm 1e-6 for either end."""
        runs = 1_500
        first = [
            Table({0: [0.0, 0.5, 1.0], 1: [1.0]}, rng=i).pull([0], [1])[0] for i in range(runs)
        ]
        for value in (0.0, 0.5, 1.0):
            assert first.count(value) <= most_errors(runs, 1 / 3)
            assert runs - first.count(value) <= most_errors(runs, 2 / 3)

    def test_too_many_in_words(self) -> None:
        table = Table(LEFT, rng=1)
        table.pull([0], [3])
        with pytest.raises(PullFailed, match="of its 4 rows 3 are used and 2 more") as caught:
            table.pull([0], [2])
        assert caught.value.label == "a"
        assert "replay=True" in str(caught.value)

    def test_replay_has_no_end(self) -> None:
        table = Table(LEFT, replay=True, rng=1)
        assert table.rewards_left is None
        assert table.endless
        assert not Table(LEFT).endless
        assert table.pull([1], [1_000]).tolist() == [1.0] * 1_000

    def test_replay_says_what_it_is_for(self) -> None:
        said = Table.__doc__ or ""
        assert "This is\n        for simulations" in said
        assert "It proves nothing about the arms" in said

    def test_columns_carry_it_all(self) -> None:
        columns = ["b", "a", "b"], [1.0, 0.0, 0.5]
        assert Table.from_columns(*columns).rewards_left is not None
        assert Table.from_columns(*columns, replay=True).endless
        rows = Table.from_columns(*columns, population="rows")
        assert (rows.population, rows.sizes.tolist()) == ("rows", [1, 2])

    def test_a_search_begins_with_all_rows(self) -> None:
        """Neither does a search use up the table it is given, nor what was pulled before count."""
        for table in (Table(LEFT), Table(LEFT, rng=4)):
            table.pull([0], [2])
            again = table.seeded(np.random.default_rng(0))
            assert again.rewards_left is not None
            assert again.rewards_left.tolist() == [4, 1, 3]
            again.pull([0], [4])
            assert table.rewards_left is not None
            assert table.rewards_left.tolist() == [2, 1, 3]

    def test_a_generator_of_its_own_keeps_its_order(self) -> None:
        table = Table(numbered(2, 30), rng=4)
        orders = [table.seeded(np.random.default_rng(i)).pull([0], [30]).tolist() for i in range(2)]
        assert orders[0] == orders[1] == table.pull([0], [30]).tolist()
        free = Table(numbered(2, 30))
        one, two = (free.seeded(np.random.default_rng(i)).pull([0], [30]) for i in range(2))
        assert one.tolist() != two.tolist()


class TestSearches:
    def test_three_rows_prove_nothing(self) -> None:
        result = find(Table({"a": [0], "b": [0], "c": [1]}), k=1, rng=1)
        assert result.status is Status.ENDED
        assert result.undecided == ["c", "a", "b"]  # the most suspicious first
        assert result.pulls + result.imported == 3
        assert "ended: there are no more rewards" in str(result)

    def test_enough_rows_do_not_all_get_used(self) -> None:
        table = Table(coins(np.random.default_rng(1), [0.1] * 9 + [0.95], 2_000))
        result = find(table, k=2, rng=1)
        assert result.outliers == [9]
        assert result.status is Status.DECIDED
        assert 0 < result.pulls < 2_000
        assert result.imported == 0

    @pytest.mark.parametrize("algorithm", ["spade", "ade", "rr", "wrr"])
    def test_no_row_counts_twice(self, algorithm: str) -> None:
        sizes = [40, 3, 25, 60]
        records = {i: [i % 2] * size for i, size in enumerate(sizes)}
        result = find(Table(records), k=1, rng=2, algorithm=algorithm)
        assert result.status is Status.ENDED
        assert result.pulls + result.imported == sum(sizes)
        assert (result.pulls_per_arm + result.imported_per_arm == sizes).all()
        if algorithm == "spade":
            assert result.unused == 0
        else:  # which have no use for rewards that they did not ask for
            assert result.unused == result.imported > 0

    def test_what_is_left_is_used(self) -> None:
        """An arm runs out at 20 rows, and the rest of the others decide."""
        records = coins(np.random.default_rng(3), [0.05] * 9 + [0.8], 400)
        records[0] = records[0][:20]
        result = find(Table(records), k=2, rng=1)
        assert result.outliers == [9]
        assert result.imported > 0
        assert result.status is Status.DECIDED

    def test_a_budget_holds_for_what_is_left_too(self) -> None:
        records = {**coins(np.random.default_rng(1), [0.3, 0.4, 0.5], 200), 3: [0.0, 1.0, 0.0]}
        for budget in (0, 5, 12, 100, 602):
            result = find(Table(records), k=1, rng=1, budget=budget)
            assert result.pulls + result.imported <= budget
        assert find(Table(records), k=1, rng=1, budget=603).imported > 0

    def test_the_order_of_rows_does_not_matter(self) -> None:
        """Sorted rows, ones first, would mislead a search that took them as they come."""
        records = {i: [1] * 20 + [0] * 380 for i in range(9)} | {9: [0] * 40 + [1] * 360}
        assert find(Table(records), k=2, rng=1).outliers == [9]

    def test_a_seed_decides_the_search(self) -> None:
        table = Table(coins(np.random.default_rng(1), [0.2, 0.3, 0.9, 0.2], 300))
        one, two, other = (find(table, k=1, rng=seed) for seed in (1, 1, 2))
        assert one.to_dict() == two.to_dict() != other.to_dict()

    @QUICKLY
    @given(st.integers(0, 2**32), st.sampled_from([2, 10, 60]), st.sampled_from([0.0, 1.0]))
    def test_rows_are_never_exceeded(self, seed: int, rows: int, k: float) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, rows + 1, 4)
        records = {i: rng.integers(0, 2, size) for i, size in enumerate(sizes.tolist())}
        result = find(Table(records), k=k, rng=seed)
        assert (result.pulls_per_arm + result.imported_per_arm <= sizes).all()

    def test_replaying_few_rows_proves_what_is_not_so(self) -> None:
        """Arms of rate 1/2 with 8 rows each: all are on the threshold, and none is normal."""
        rng, replayed = np.random.default_rng(5), 0
        for run in range(6):
            records, words = coins(rng, [0.5] * 4, 8), {"k": 0.5, "delta": 0.3, "rng": run}
            assert find(Table(records), **words).normal == []
            replayed += find(Table(records, replay=True), budget=2_000, **words).normal != []
        assert replayed >= 4

    @pytest.mark.long
    def test_few_rows_mislead_rarely(self) -> None:
        """The same arms, up to 40 rows: with a false alarm of 1e-6; 0.54 would be found out."""
        rng, runs, wrong = np.random.default_rng(6), 200, 0
        for run in range(runs):
            records = coins(rng, [0.5] * 4, int(rng.integers(1, 41)))
            wrong += find(Table(records), k=0.5, delta=0.3, rng=run).normal != []
        assert_error_rate(wrong, runs, 0.3)


class Deck:
    """A source of one's own that has five rewards of each arm."""

    labels = ("a", "b", "c")

    def __init__(self) -> None:
        self.rewards_left: IntArray = np.full(3, 5)

    def pull(self, indices: IntArray, counts: IntArray) -> FloatArray:
        self.rewards_left = self.rewards_left - np.bincount(indices, counts, minlength=3).astype(
            int
        )
        assert (self.rewards_left >= 0).all()
        rewards: FloatArray = np.repeat(indices, counts) / 4.0
        return rewards


class TestFiniteSources:
    def test_a_source_of_ones_own(self) -> None:
        deck = Deck()
        assert isinstance(deck, FiniteSource)
        result = find(deck, k=1)
        assert result.status is Status.ENDED
        assert deck.rewards_left.tolist() == [0, 0, 0]
        assert result.means.tolist() == [0.0, 0.25, 0.5]

    def test_ending_a_search_by_hand(self) -> None:
        search = Search(["a", "b"], k=0, algorithm="rr", batch=4)
        search.ask_step()
        search.end({"a": [0.0, 1.0]})
        assert search.status is Status.ENDED
        assert search.result().unused == 2
        search = Search(["a", "b"], k=0)
        ticket = search.ask()[0]
        with pytest.raises(ProtocolError, match="while tickets are out"):
            search.end({})
        search.skip(ticket)
        search.end({"a": [0.0] * 200, "b": [1.0] * 200})
        assert search.result().outliers == ["b"]
        assert search.status is Status.DECIDED

    def test_no_storage(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidParameter, match="storage must be left out"):
            find(Table(LEFT), storage=tmp_path / "t.db")
        assert not list(tmp_path.iterdir())
        replayed = find(
            Table(LEFT, replay=True), k=0.5, budget=50, storage=tmp_path / "t.db", rng=1
        )
        assert replayed.pulls <= 50

    def test_no_study(self, tmp_path: Path) -> None:
        study = create_study("s", list("abc"), storage=tmp_path / "s.db")
        with pytest.raises(InvalidParameter, match="must not come to an end where several"):
            drive(study.desk(), Deck())


class TestSimulations:
    @pytest.mark.parametrize("words", [{}, {"population": "rows"}, {"rng": 1}])
    def test_they_refuse_rows_that_are_used_once(self, words: dict[str, Any]) -> None:
        table = Table(LEFT, **words)
        with pytest.raises(InvalidParameter, match=r"used once: Table\(records, replay=True\)"):
            simulate(table, k=1)
        with pytest.raises(InvalidParameter, match=r"used once: Table\(records, replay=True\)"):
            list(Grid([Setting("t", table)]).cells())

    def test_they_replay(self) -> None:
        records = {0: [0, 0, 1], 1: [1, 0, 0], 2: [1, 1], 3: [0, 1, 0]}
        found = simulate(Table(records, replay=True), k=1, delta=0.1, runs=2, rng=1)
        assert found.outliers == [[2]] * 2
        assert (found.pulls > 11).all()
        assert Bernoulli([0.1, 0.2]).endless
