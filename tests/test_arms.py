"""Sources of rewards: their means, their bounds, their seeds, and what they refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from helpers import DATA
from oddarms import find
from oddarms.arms import (
    BatchFunction,
    Bernoulli,
    Beta,
    Callables,
    CalledSource,
    Function,
    Gaussian,
    Resampled,
    SeededSource,
    SimulatedArms,
    Source,
    TotalsSource,
    Uniform,
    crowd_error_rates,
    simulated_crowd,
)
from oddarms.errors import InvalidParameter, PullFailed

MEANS = [0.1, 0.5, 0.8]
PULLS = 20_000

FAMILIES: dict[str, tuple[Any, tuple[float, float]]] = {
    "bernoulli": (lambda rng: Bernoulli(MEANS, rng=rng), (0, 1)),
    "beta": (lambda rng: Beta(MEANS, 2.0, rng=rng), (0, 1)),
    "uniform": (lambda rng: Uniform([-2, 0, 3], 2.0, bounds=(-3, 5), rng=rng), (-3, 5)),
    "gaussian": (lambda rng: Gaussian(MEANS, 0.5, rng=rng), (-10, 10)),
    "resampled": (
        lambda rng: Resampled({0: [0, 0.5], 1: [1], 2: [0.25, 0.5, 1]}, rng=rng),
        (0, 1),
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
class TestEveryFamily:
    def test_rewards_have_the_stated_means_and_bounds(self, family: str) -> None:
        make, (a, b) = FAMILIES[family]
        arms: SimulatedArms = make(41)
        rewards = np.asarray(arms.pull(np.arange(3), np.full(3, PULLS))).reshape(3, PULLS)
        assert rewards.min() >= a
        assert rewards.max() <= b
        # Hoeffding: P(any of 3 means is off by r) <= 6 exp(-2 PULLS r^2 / (b - a)^2) = 1e-6
        radius = (b - a) * np.sqrt(np.log(6e6) / (2 * PULLS))
        np.testing.assert_allclose(rewards.mean(axis=1), arms.means, atol=radius)

    def test_a_seed_decides_the_rewards(self, family: str) -> None:
        make, _ = FAMILIES[family]
        one, two, other = make(5), make(5), make(6)
        request = np.array([2, 0, 2]), np.array([4, 1, 3])
        assert one.pull(*request).tolist() == two.pull(*request).tolist()
        assert one.pull(*request).tolist() != other.pull(*request).tolist()

    def test_a_generator_is_given_once(self, family: str) -> None:
        make, _ = FAMILIES[family]
        rng = np.random.default_rng(1)
        seeded = make(5)
        assert seeded.seeded(rng) is seeded
        unseeded = make(None)
        assert unseeded.seeded(rng).rng is rng
        assert unseeded.rng is not rng

    def test_it_is_a_seeded_source(self, family: str) -> None:
        make, _ = FAMILIES[family]
        assert isinstance(make(1), Source)
        assert isinstance(make(1), SeededSource)
        assert repr(make(1)).endswith("(3 arms)")


def test_rewards_come_in_the_order_asked() -> None:
    arms = Bernoulli([0.0, 1.0])
    asked = np.array([1, 0, 1]), np.array([2, 1, 1])
    assert arms.pull(*asked).tolist() == [1.0, 1.0, 0.0, 1.0]


def test_bernoulli_totals() -> None:
    arms = Bernoulli([0.0, 1.0, 0.5], rng=3)
    assert isinstance(arms, TotalsSource)
    assert not isinstance(Beta([0.1, 0.2]), TotalsSource)
    sums, squares = arms.pull_totals(np.array([0, 1, 2, 1]), np.array([5, 7, 10_000, 1]))
    assert sums.tolist() == squares.tolist()
    assert sums[[0, 1, 3]].tolist() == [0.0, 7.0, 1.0]
    # 5000 +- 5 standard deviations of 50
    assert 4_750 < sums[2] < 5_250


def test_spread() -> None:
    # variance y (1 - y) / (c + 1) = 0.25 / 4 for y = 1/2, c = 3
    rewards = Beta([0.5, 0.5], 3.0, rng=4).pull(np.array([0]), np.array([PULLS]))
    assert rewards.var() == pytest.approx(0.25 / 4, rel=0.05)
    rewards = Uniform([0.5, 0.4], 0.2, rng=4).pull(np.array([0]), np.array([PULLS]))
    assert (rewards.min(), rewards.max()) == pytest.approx((0.4, 0.6), abs=1e-3)


def test_gaussian_totals_have_the_law_of_single_rewards() -> None:
    arms = Gaussian([1.0, -2.0], 0.5, rng=5)
    arm, count = np.zeros(PULLS, dtype=np.int64), np.full(PULLS, 3)
    sums, squares = arms.pull_totals(arm, count)
    singly = arms.pull(arm, count).reshape(PULLS, 3)
    # E S = 3, var S = 3/4; E Q = 3 (1 + 1/4), var Q = 3 (2/16 + 4/4); five standard errors
    for found in (sums, singly.sum(axis=1)):
        assert found.mean() == pytest.approx(3.0, abs=5 * np.sqrt(0.75 / PULLS))
        assert found.var() == pytest.approx(0.75, rel=0.05)
    for found in (squares, (singly**2).sum(axis=1)):
        assert found.mean() == pytest.approx(3.75, abs=5 * np.sqrt(3.375 / PULLS))
        assert found.var() == pytest.approx(3.375, rel=0.07)
    assert (squares >= sums**2 / 3 * (1 - 1e-12)).all()
    one_sum, one_square = arms.pull_totals(np.array([1]), np.array([1]))
    assert one_square[0] == pytest.approx(one_sum[0] ** 2)
    with pytest.raises(InvalidParameter, match="sd must be positive and finite but got -1"):
        Gaussian([0.0, 1.0], -1.0)


class TestResampled:
    def test_each_row_once(self) -> None:
        rows = {"ann": [0.1, 0.2, 0.3], "bob": [0.7, 0.8]}
        arms = Resampled(rows, replace=False, rng=1)
        drawn = arms.pull(np.array([0, 1, 0]), np.array([2, 2, 1]))
        assert sorted([*drawn[:2], drawn[4]]) == rows["ann"]
        assert sorted(drawn[2:4]) == rows["bob"]
        with pytest.raises(PullFailed, match="arm 'bob' has no rows left"):
            arms.pull(np.array([1]), np.array([1]))
        again = Resampled(rows, rng=1).pull(np.array([0, 1]), np.array([50, 50]))
        assert (set(again[:50]), set(again[50:])) == (set(rows["ann"]), set(rows["bob"]))

    def test_bad_records(self) -> None:
        for records in ({"a": [1.0], "b": []}, {"a": [0.0], "b": [1.0, np.nan]}):
            with pytest.raises(InvalidParameter, match="records of arm 'b' must be finite numbers"):
                Resampled(records)

    def test_the_crowd_of_the_paper(self) -> None:
        """The means that the paper's own data give, where the file is at hand."""
        path = DATA / "hyuncatherines.csv"
        if not path.exists():
            pytest.skip("hyuncatherines.csv is not beside this checkout")
        columns = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(2, 3))
        workers = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=0, dtype=str)
        wrong = (columns[:, 0] != columns[:, 1]).astype(float)
        arms = Resampled({worker: wrong[workers == worker] for worker in np.unique(workers)})
        assert len(arms.labels) == 722
        assert arms.means.mean() == pytest.approx(0.32775, abs=1e-5)
        assert arms.means.std() == pytest.approx(0.29241, abs=1e-5)


class TestCrowd:
    def test_its_summary_figures(self) -> None:
        rates = crowd_error_rates()
        assert rates.size == 722
        assert (rates == 0).sum() == pytest.approx(200, abs=10)
        assert (rates == 1).sum() == pytest.approx(60, abs=5)
        assert round(float(rates.mean()), 3) == 0.328
        assert round(float(rates.std()), 3) == 0.292
        assert rates.min() >= 0
        assert rates.max() <= 1
        assert simulated_crowd().means.tolist() == rates.tolist()
        assert len(set(simulated_crowd().labels)) == 722


class TestCallables:
    def test_the_task_of_a_label_calls_its_function(self) -> None:
        calls: list[str] = []
        arms = Callables({x: lambda x=x: calls.append(x) or 0.5 for x in "ab"})
        assert isinstance(arms, CalledSource)
        assert not isinstance(arms, Source)
        for label in "bba":
            function, argument = arms.task(label)
            assert function(argument) == 0.5
        assert calls == ["b", "b", "a"]
        assert not arms.is_async
        arms.stop()

    def test_a_sequence_is_numbered(self) -> None:
        arms = Callables([lambda: 0.25, lambda: 0.75])
        assert list(arms.labels) == [0, 1]
        function, argument = arms.task(1)
        assert function(argument) == 0.75

    def test_one_asynchronous_function_makes_all_of_them_awaited(self) -> None:
        async def later() -> float:
            return 0.75

        arms = Callables({"now": lambda: 0.25, "later": later})
        assert arms.is_async
        for label, reward in (("now", 0.25), ("later", 0.75)):
            function, argument = arms.task(label)
            assert asyncio.run(function(argument)) == reward


class TestFunction:
    def test_it_is_called_with_the_label(self) -> None:
        arms = Function({"a": 0.0, "b": 0.0, "c": 1.0}.__getitem__, "abc")
        assert isinstance(arms, CalledSource)
        assert arms.labels == ("a", "b", "c")
        assert find(arms, k=1, delta=0.1).outliers == ["c"]

    def test_it_may_be_asynchronous(self) -> None:
        async def later(label: int) -> float:
            return float(label == 2)

        arms = Function(later, range(3))
        assert arms.is_async
        assert find(arms, k=1, delta=0.1).outliers == [2]

    def test_an_object_that_is_called_may_be_stopped(self) -> None:
        class Probe:
            stopped = False

            async def __call__(self, label: str) -> float:
                return float(label == "b")

            def stop(self) -> None:
                self.stopped = True

        probe = Probe()
        arms = Function(probe, "ab")
        assert arms.is_async
        arms.stop()
        assert probe.stopped
        Function(len, "ab").stop()


class TestBatchFunction:
    def test_it_is_called_with_a_label_for_each_pull(self) -> None:
        calls: list[list[str]] = []

        def rewards(labels: list[str]) -> list[float]:
            calls.append(labels)
            return [float(label == "c") for label in labels]

        arms = BatchFunction(rewards, "abc")
        assert isinstance(arms, Source)
        assert not isinstance(arms, CalledSource)
        assert arms.pull(np.array([2, 0, 2]), np.array([1, 2, 1])) == [1.0, 0.0, 0.0, 1.0]
        assert calls == [["c", "a", "a", "c"]]
        assert find(arms, k=1, delta=0.1).outliers == ["c"]
        assert len(calls) < 20  # whole steps


class TestMisuse:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Callables([lambda: 1.0]), "At least 2 arms are needed, but got 1"),
            (lambda: BatchFunction(len, "aa"), "'a' appears twice"),
            (lambda: Function(5, "ab"), "function must be callable, but is 5"),
            (lambda: Function(len, "aa"), "'a' appears twice"),
            (lambda: Bernoulli([0.1, 1.5]), r"within \[0, 1\] but means\[1\] is 1.5"),
            (lambda: Bernoulli([0.1, np.nan]), r"means\[1\] is nan"),
            (lambda: Bernoulli([0.1]), "At least 2 arms are needed, but got 1"),
            (lambda: Bernoulli([0.1, 0.2], labels=["a"] * 2), "'a' appears twice"),
            (lambda: Bernoulli([0.1, 0.2], labels="abc"), r"one per mean \(2\) but got 3"),
            (lambda: Beta([0.0, 0.5]), "strictly between 0 and 1"),
            (lambda: Beta([0.1, 0.5], 0.0), "concentration must be positive but got 0.0"),
            (lambda: Uniform([0.1, 0.5], 2.0), "width must be between 0 and 1 but got 2.0"),
            (lambda: Uniform([0.01, 0.5], 0.1), r"within \[0.05, 0.95\] but means\[0\] is 0.01"),
            (lambda: Uniform([0.1, 0.5], bounds=(1, 0)), "bounds must be finite with a < b"),
        ],
    )
    def test_message(self, make: Any, message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            make()
