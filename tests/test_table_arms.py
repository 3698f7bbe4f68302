"""Arms that draw from recorded rewards: every row once, or with replacement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddarms import find, simulate
from oddarms.arms import Resampled
from oddarms.errors import InvalidParameter, PullFailed
from oddarms.experiments import Grid, Setting
from oddarms.problem import FloatArray
from oddarms.statistics.binomial import most_errors

QUICKLY = settings(derandomize=True, deadline=None, max_examples=40)
ROWS = {"a": [0.0, 0.25, 0.5, 0.75], "b": [1.0], "c": [0.125, 0.375, 0.625]}


def once(records: object, rng: int | None = None) -> Resampled:
    return Resampled(records, replace=False, rng=rng)  # type: ignore[arg-type]


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
        arms = once(rows, seed)
        given: dict[int, list[float]] = {0: [], 1: [], 2: []}
        for step in steps:
            indices, counts = (np.array(column) for column in zip(*step, strict=True))
            wanted = np.bincount(indices, counts, minlength=3)
            if any(wanted[i] > 20 - len(given[i]) for i in range(3)):
                with pytest.raises(PullFailed, match="has no rows left"):
                    arms.pull(indices, counts)
                continue
            rewards = arms.pull(indices, counts).tolist()
            for arm in np.repeat(indices, counts).tolist():
                given[arm].append(rewards.pop(0))
        for arm, rewards in given.items():
            assert len(set(rewards)) == len(rewards)
            assert set(rewards) <= set(rows[arm])

    def test_all_rows_come_in_the_end(self) -> None:
        arms = once(ROWS, 3)
        rewards = arms.pull(np.arange(3), arms.sizes)
        assert [sorted(part) for part in np.split(rewards, [4, 5])] == list(ROWS.values())
        with pytest.raises(PullFailed) as caught:
            arms.pull(np.array([1]), np.array([1]))
        assert caught.value.label == "b"

    def test_all_orders_are_alike_probable(self) -> None:
        """Each of 3 rows comes first in a third of 1500 orders; false alarm 1e-6 for either end."""
        runs, one = 1_500, np.ones(1, dtype=np.int64)
        records = {0: [0.0, 0.5, 1.0], 1: [1.0]}
        first = [once(records, seed).pull(0 * one, one)[0] for seed in range(runs)]
        for value in (0.0, 0.5, 1.0):
            assert first.count(value) <= most_errors(runs, 1 / 3)
            assert runs - first.count(value) <= most_errors(runs, 2 / 3)

    def test_a_generator_of_its_own_keeps_its_order(self) -> None:
        arm, rows = np.array([0]), np.array([30])

        def orders(arms: Resampled) -> list[list[float]]:
            generators = map(np.random.default_rng, range(2))
            return [arms.seeded(rng).pull(arm, rows).tolist() for rng in generators]

        own = once(numbered(2, 30), 4)
        one, other = orders(own)
        assert one == other == own.pull(arm, rows).tolist()
        one, other = orders(once(numbered(2, 30)))
        assert one != other

    @pytest.mark.parametrize("rows", [[], [0.0, float("nan")], [float("inf")]])
    def test_rows_that_are_none(self, rows: list[float]) -> None:
        with pytest.raises(InvalidParameter, match="records of arm 'b' must be finite numbers"):
            Resampled({"a": [0.0], "b": rows})


class TestFinitePopulations:
    def test_the_order_of_rows_does_not_matter(self) -> None:
        """Sorted rows, ones first, would mislead a search that took them as they come."""
        records = {i: [1] * 20 + [0] * 380 for i in range(9)} | {9: [0] * 40 + [1] * 360}
        assert find(once(records), k=2, rng=1).outliers == [9]

    @QUICKLY
    @given(st.integers(0, 2**32), st.sampled_from([2, 10, 60]), st.sampled_from([0.5, 1.0]))
    def test_rows_are_never_exceeded(self, seed: int, rows: int, k: float) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, rows + 1, 4)
        records = {i: rng.integers(0, 2, size) for i, size in enumerate(sizes.tolist())}
        result = find(once(records), k=k, rng=seed)
        assert (result.pulls_per_arm <= sizes).all()
        assert not result.undecided


class TestSimulations:
    @pytest.mark.parametrize("rng", [None, 1])
    def test_they_refuse_rows_that_are_used_once(self, rng: int | None) -> None:
        arms = once(ROWS, rng)
        with pytest.raises(InvalidParameter, match="draws rows with replacement"):
            simulate(arms, k=1)
        with pytest.raises(InvalidParameter, match="draws rows with replacement"):
            list(Grid([Setting("t", arms)]).cells())
