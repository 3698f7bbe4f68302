"""LUCB: any rule, any side, right as often as promised, and within its budget.

Statistical checks are seeded and fail above the exact binomial bound of `assert_error_rate`, with a
false alarm of 1e-6 each at a rate of exactly delta. There are fewer than 20, so the module raises a
false alarm with probability below 2e-5, once and for all. What each would find out is tested too.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from helpers import quick_and_long
from oddarms import Question, Result, Search, simulate
from oddarms.algorithms import Decision, create
from oddarms.algorithms._base import UNLIMITED
from oddarms.algorithms._lucb import FIRST_PULLS, GROWTH, LARGEST_GROWTH, LUCB, counts_of_step
from oddarms.arms import Bernoulli, Gaussian, SimulatedArms, Uniform
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray
from oddarms.rules import Absolute, Control, Mad, Quantile, Rule, Tukey
from oddarms.simulation import run_search
from oddarms.statistics.evidence import mean_interval, sub_gaussian_interval
from oddarms.statistics.totals import Totals
from oddarms.testing import assert_error_rate
from our_conformance import ever_wrong

SPREAD = [0.05, 0.2, 0.35, 0.5, 0.97]
GROUPS = [0.0, 0.1, 0.1, 0.2, 0.9, 0.95]

CASES: dict[str, tuple[list[float], dict[str, Any], list[int]]] = {
    # median 0.35, MAD 0.15: 0.725
    "mad": (SPREAD, {"rule": "mad", "k": 2.5}, [4]),
    # Q1 = 0.2, Q3 = 0.5: 0.5 + 0.5 * 0.3 = 0.65
    "tukey": (SPREAD, {"rule": "tukey", "k": 0.5}, [4]),
    "quantile": (GROUPS, {"rule": "quantile", "quantile": 0.67}, [4, 5]),
    "control": (GROUPS, {"rule": "control", "control": 3, "margin": 0.3}, [4, 5]),
    "absolute": (GROUPS, {"rule": "absolute", "floor": 0.5}, [4, 5]),
    "absolute, below": (GROUPS, {"rule": "absolute", "floor": 0.5, "side": "lower"}, [0, 1, 2, 3]),
    # 0.1 + 0.4; median + k MAD alone is 0.1 + 0.1, the mean of an arm
    "margin": (GROUPS, {"rule": "mad", "k": 1.0, "margin": 0.4}, [4, 5]),
    "both": ([0.02, 0.5, 0.55, 0.45, 0.98], {"rule": "mad", "k": 4.0, "side": "both"}, [0, 4]),
    "sigma": ([0.0, 0.1, 0.05, 0.0, 1.0], {"rule": "sigma", "k": 1.0}, [4]),
}


def found_in(arms: Any, rng: int = 0, **words: Any) -> Result:
    """Return the result of a whole search."""
    source = arms if isinstance(arms, SimulatedArms) else Bernoulli(arms)
    options = {word: words.pop(word) for word in ("sd", "indifference") if word in words}
    question = Question(source.means.size, options=options, **words)
    return run_search(question, source, np.random.default_rng(rng))


@pytest.mark.parametrize("case", CASES)
def test_every_rule_is_answered(case: str) -> None:
    means, words, outliers = CASES[case]
    result = found_in(means, 3, delta=0.1, algorithm="lucb", budget=200_000, **words)
    assert result.complete
    assert sorted(result.outliers) == outliers
    lower, upper = result.intervals.T
    assert ((lower <= means) & (means <= upper)).all()
    assert result.arm_pulls + result.threshold_pulls == result.pulls


def test_both_sides_cost_no_more_delta() -> None:
    """Intervals are those of a search of one side: at delta/n, not at delta/(2 n)."""
    options: dict[str, Any] = {"delta": 0.1, "rng": np.random.default_rng(0)}
    machines = [
        create("lucb", 3, rule=Mad(k=1.0), side=side, **options)
        for side in ("upper", "both")  # type: ignore[arg-type]
    ]
    for machine in machines:
        pulls = machine.propose(UNLIMITED)
        machine.absorb(pulls, np.array([0.0, 2.0, 4.0]), np.array([0.0, 2.0, 4.0]))
    assert machines[0].intervals()[1].tolist() == machines[1].intervals()[1].tolist()
    assert set(machines[1].thresholds()) == {"upper", "lower"}


def test_a_control_is_normal_and_is_pulled() -> None:
    machine = create("lucb", 3, rule=Control(index=1), delta=0.1, rng=np.random.default_rng(0))
    assert machine.decisions.tolist() == [0, Decision.NORMAL, 0]
    result = found_in([0.0, 0.5, 1.0], rule="control", control=1, side="both")
    assert (result.low, result.normal, result.high) == ([0], [1], [2])
    assert result.pulls_per_arm[1] > result.pulls_per_arm[2]
    assert result.threshold_pulls == result.pulls_per_arm[1]


class TestBudget:
    def test_a_step_keeps_to_its_limit(self) -> None:
        machine = create("lucb", 5, rule=Mad(k=2.0), delta=0.1, rng=np.random.default_rng(0))
        rng, means = np.random.default_rng(1), np.array(SPREAD)
        for _ in range(12):
            free = machine.propose(UNLIMITED).total
            for limit in (1, 2, 3, 7, free - 1, free, free + 1):
                assert machine.propose(limit).total == min(limit, free)
            pulls = machine.propose(UNLIMITED)
            sums = rng.binomial(pulls.counts, means[pulls.indices]).astype(np.float64)
            machine.absorb(pulls, sums, sums)

    @pytest.mark.parametrize("budget", [0, 3, 100, 1000])
    def test_it_is_used_up_and_no_more(self, budget: int) -> None:
        result = found_in(SPREAD, rule="mad", k=2.5, budget=budget)
        assert result.pulls == budget
        assert set(result.outliers) <= {4}
        assert 4 not in result.normal


class TestIndifference:
    def test_an_arm_on_the_threshold_stays_open(self) -> None:
        arms = Uniform([0.25, 0.5, 0.75], 0.0)
        result = found_in(arms, rule="absolute", floor=0.5, budget=20_000)
        assert (result.normal, result.undecided, result.outliers) == ([0], [1], [2])

    def test_it_may_be_called_either_way(self) -> None:
        arms = Uniform([2.5, 5.0, 7.5], 0.0, bounds=(0, 10))
        result = found_in(
            arms, rule="absolute", floor=5.0, bounds=(0, 10), budget=20_000, indifference=1.0
        )
        assert result.complete
        assert result.pulls < 2_000
        assert 2 in result.outliers
        assert 0 in result.normal

    def test_far_ones_are_called_right(self) -> None:
        words: dict[str, Any] = {"rule": "mad", "k": 2.5, "delta": 0.2, "indifference": 0.1}
        found = simulate(SPREAD, runs=2, rng=1, **words)
        without = simulate(SPREAD, runs=2, rng=1, **{**words, "indifference": 0.0})
        assert found.correct.all()
        assert found.pulls.mean() < 0.7 * without.pulls.mean()


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"sd": 0.0}, "sd must be positive and finite but got 0.0"),
            ({"sd": "much"}, "sd must be a number but got 'much'"),
            ({"indifference": -1.0}, "indifference must be at least 0"),
        ],
    )
    def test_they_are_checked(self, options: dict[str, Any], sentence: str) -> None:
        with pytest.raises(InvalidParameter, match=sentence):
            Search(3, rule="mad", **options)

    def test_other_algorithms_cannot_take_the_rule(self) -> None:
        with pytest.raises(
            InvalidParameter,
            match=r"rule must be 'sigma' for the algorithm SPADE but got 'tukey': choose"
            r" algorithm='lucb'.$",
        ):
            Search(3, rule="tukey", algorithm="spade")


class TestKnownDeviation:
    def test_normal_rewards_within_wide_bounds(self) -> None:
        arms = Gaussian([0.0, 0.5, 1.0, 1.5, 4.0], sd=0.5)
        result = found_in(arms, 1, rule="mad", k=3.0, bounds=(-10, 10), sd=0.5)
        assert result.outliers == [4]
        (below, above), (_, unknown) = result.intervals[4], result.intervals[3]
        assert below < 4.0 < above < below + 1.0
        assert unknown < 2.0

    def test_it_is_in_units_of_the_rewards(self) -> None:
        search = Search(2, rule="absolute", floor=2.0, bounds=(0, 4), sd=1.0)
        assert isinstance(search.algorithm, LUCB)
        assert search.algorithm.sd == 0.25

    def test_the_radius_by_hand(self) -> None:
        # V = 100/4, rho = 32/4: sqrt(2 * 33 log(sqrt(33/8) / 0.1 + 1)) / 100
        low, high = sub_gaussian_interval(
            np.array([100.0]), np.array([50.0]), np.array([40.0]), 0.5, 0.1
        )
        radius = np.sqrt(66.0 * np.log(np.sqrt(33.0 / 8.0) / 0.1 + 1.0)) / 100.0
        assert low[0] == pytest.approx(0.5 - radius)
        assert high[0] == pytest.approx(0.5 + radius)


class TestSteps:
    def test_the_gain_a_pull_becomes_the_same(self) -> None:
        """worth/pulls^(3/2) at a radius that goes with pulls^(-1/2): levelled from above."""
        pulls, worth = np.full(50, 1000.0), np.ones(50)
        worth[:2] = 1.2, 1.4
        counts = counts_of_step(pulls, worth)
        level = worth / pulls * (pulls / (pulls + counts)) ** 1.5
        assert np.ptp(level[counts > 0]) < 0.01 * level.max()
        alike = counts_of_step(pulls, np.ones(50))
        assert len(set(alike.tolist())) == 1
        assert alike.sum() == pytest.approx(GROWTH * 50_000, rel=0.02)

    def test_nothing_goes_to_arms_that_gain_little(self) -> None:
        """The best arm is pulled up to its largest growth, and no other for want of more."""
        pulls, worth = np.full(50, 1000.0), np.full(50, 0.01)
        worth[7] = 1.0
        counts = counts_of_step(pulls, worth)
        assert np.flatnonzero(counts).tolist() == [7]
        assert counts[7] == LARGEST_GROWTH * 1000

    def test_a_floor_that_hides_the_threshold_is_no_trap(self) -> None:
        """The second arm lies between the floor and median + k MAD, whose lower bound must rise."""
        means = [0.1, 0.5, 0.3, 0.2, 0.98]
        result = found_in(means, rule="mad", k=2.0, floor=0.4, delta=0.1, budget=300_000)
        assert result.outliers == [4]
        assert result.complete

    def test_what_is_needed_is_told_in_time(self) -> None:
        """Halfway through the guess is right to a factor of five in all."""
        search, rng, means = Search(5, rule="mad", k=2.5), np.random.default_rng(2), SPREAD
        guesses = []
        while not search.done:
            pulls = search.ask_step()
            sums = rng.binomial(pulls.counts, np.array(means)[pulls.indices]).astype(float)
            search.tell_step_totals(sums, sums)
            needed = search.algorithm.pulls_needed()
            assert needed is not None
            guesses.append((search.pulls, float(needed.sum())))
        assert guesses[-1][1] == 0.0
        assert search.pulls > 1000
        assert search.result().round < 80  # few looks
        for pulled, needed_now in guesses:
            if 0.2 < pulled / search.pulls < 0.6:
                assert 0.2 < (pulled + needed_now) / search.pulls < 5.0


def test_a_history_is_used() -> None:
    search = Search(3, rule="absolute", floor=0.5)
    search.add_history({0: [0.0, 1.0], 2: [0.0, 1.0, 0.0, 1.0]})
    pulls = search.ask_step()
    assert (pulls.indices.tolist(), pulls.counts.tolist()) == (
        [0, 1],
        [FIRST_PULLS - 2, FIRST_PULLS],
    )
    search.add_history({arm: [float(arm > 0)] * 80 for arm in range(3)})
    assert search.done
    assert (search.result().outliers, search.result().pulls) == ([1, 2], 0)


class TestGuarantee:
    """Intervals miss no mean at any time, and thresholds lie within bounds, up to delta."""

    RUNS = 40
    DELTA = 0.3
    LONG_RULES = (Tukey(k=0.5), Control(index=0, margin=0.1), Absolute(floor=0.5))

    def misses(self, rule: Rule, means: FloatArray, sd: float | None, narrower: float = 1.0) -> int:
        """Return in how many runs an interval or a decision is ever wrong."""
        missed = 0
        for rng in np.random.default_rng(8).spawn(self.RUNS):
            machine = LUCB(means.size, rule=rule, delta=self.DELTA, rng=rng, sd=sd)
            honest = machine._intervals

            def intervals(totals: Totals, honest: Any = honest) -> tuple[FloatArray, FloatArray]:
                low, high = honest(totals)
                middle, radius = (low + high) / 2.0, narrower * (high - low) / 2.0
                return middle - radius, middle + radius

            machine._intervals = intervals  # type: ignore[method-assign]
            missed += ever_wrong(machine, means, rng)
        return missed

    @pytest.mark.parametrize(
        ("rule", "sd"),
        quick_and_long(
            [(Mad(k=1.0), None), (Quantile(share=0.7), 0.5)],
            [(Mad(k=1.0), 0.5), (Quantile(share=0.7), None), *product(LONG_RULES, (None, 0.5))],
        ),
        ids=repr,
    )
    def test_it_holds(self, rule: Rule, sd: float | None) -> None:
        misses = self.misses(rule, np.array([0.1, 0.4, 0.6]), sd)
        assert_error_rate(misses, self.RUNS, self.DELTA)

    @pytest.mark.parametrize("sd", [None, 0.5])
    def test_intervals_of_half_the_width_are_found_out(self, sd: float | None) -> None:
        misses = self.misses(Mad(k=1.0), np.array([0.1, 0.4, 0.6]), sd, narrower=0.4)
        with pytest.raises(AssertionError, match="errors in 40 runs"):
            assert_error_rate(misses, self.RUNS, self.DELTA)


class TestSubGaussianIntervals:
    """At the truth they are left at any time with probability at most alpha, each."""

    ALPHA, RUNS = 0.2, 1500

    def crossings(self, rewards: FloatArray, mean: float, narrower: float = 1.0) -> int:
        """Return how many of the rows ever leave their interval."""
        totals, squares = rewards.cumsum(axis=1), (rewards**2).cumsum(axis=1)
        pulls = np.broadcast_to(np.arange(1.0, rewards.shape[1] + 1.0), rewards.shape)
        low, high = sub_gaussian_interval(pulls, totals, squares, 0.5, self.ALPHA)
        middle, radius = (low + high) / 2.0, narrower * (high - low) / 2.0
        return int((np.abs(middle - mean) > radius).any(axis=1).sum())

    def test_normal_rewards(self) -> None:
        rewards = np.random.default_rng(1).normal(-3.0, 0.5, (self.RUNS, 1000))
        assert_error_rate(self.crossings(rewards, -3.0), self.RUNS, self.ALPHA)

    def test_coins(self) -> None:
        rewards = np.random.default_rng(2).integers(0, 2, (self.RUNS, 1000)).astype(float)
        assert_error_rate(self.crossings(rewards, 0.5), self.RUNS, self.ALPHA)

    def test_an_interval_that_is_too_narrow_is_found_out(self) -> None:
        rewards = np.random.default_rng(1).normal(-3.0, 0.5, (self.RUNS, 1000))
        with pytest.raises(AssertionError, match="errors in 1500 runs"):
            assert_error_rate(self.crossings(rewards, -3.0, 0.8), self.RUNS, self.ALPHA)


def test_intervals_are_those_of_the_evidence_at_delta_over_n() -> None:
    machine = create("lucb", 2, rule=Absolute(floor=0.5), delta=0.1, rng=np.random.default_rng(0))
    sums = np.array([1.0, 3.0])
    machine.absorb(machine.propose(UNLIMITED), sums, sums)
    totals = Totals(np.array([4.0, 4.0]), sums, sums)
    expected = mean_interval(totals.pulls, totals.total, totals.scatter, 0.05)
    np.testing.assert_array_equal(machine.intervals(), expected)


def test_an_indifference_is_a_distance_from_the_threshold() -> None:
    """Not from the cutoffs that tell ranks: a single arm above all others is an outlier."""
    search = Search(10, rule="quantile", quantile=0.9, indifference=0.05, delta=0.1, rng=1)
    few, many = [0.0, 0.0, 0.0, 0.4], [0.9] * 5000
    search.add_history({**dict.fromkeys(range(9), few), 9: many})
    assert search.result().undecided.count(9) == 1 or search.result().outliers == [9]
