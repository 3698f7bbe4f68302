"""SPADE: what it answers, how it steps, and what it reports."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

from helpers import quick_and_long
from oddarms import Result, Search, find, simulate
from oddarms.algorithms import Decision, Pulls
from oddarms.algorithms._spade import SPADE
from oddarms.algorithms._spade_certificates import (
    HYBRID_UP_TO,
    JOINT_UP_TO,
    IntervalCertificate,
    JointCertificate,
)
from oddarms.algorithms._spade_plans import LONGEST_FOCUS
from oddarms.arms import Bernoulli
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, Side
from oddarms.rules import Sigma
from oddarms.statistics.directions import Tally, forecast
from oddarms.testing import assert_error_rate
from oddarms.theory import outliers, threshold

EASY = [*np.linspace(0.1, 0.2, 10).tolist(), 0.95]
MANY = [0.1] * 510 + [0.9] * 10
VERY_MANY = [0.1] * 1090 + [0.9] * 10
TO_GUESS = [[0.1] * 19 + [0.6], [0.1] * 12 + [0.8]]
SLOW = [*np.linspace(0.2, 0.45, 12).tolist(), 0.8]


def search_of(means: Any, k: float = 2.0, **arguments: Any) -> Search:
    """Return a search with SPADE on some arms."""
    return Search(len(means), k=k, delta=0.1, algorithm="spade", rng=1, **arguments)


def run_of(means: Any, k: float = 2.0, seed: int = 1, **arguments: Any) -> Result:
    """Return the result of SPADE on Bernoulli arms."""
    return find(
        Bernoulli(means), k=k, **{"delta": 0.1, "algorithm": "spade", "rng": seed, **arguments}
    )


def steps(search: Search, means: Any, seed: int = 2) -> Iterator[Pulls]:
    """Answer a search with 0/1 rewards until it is done, and yield each request before."""
    rng, y = np.random.default_rng(seed), np.asarray(means)
    while not search.done:
        pulls = search.ask_step()
        yield pulls
        ones = rng.binomial(pulls.counts, y[pulls.indices]).astype(float)
        search.tell_step_totals(ones, ones)


def answer(search: Search, means: Any, seed: int = 2) -> Result:
    """Run a search to its end."""
    for _ in steps(search, means, seed):
        pass
    return search.result()


def history_of(counts: list[int], means: Any, seed: int = 3) -> dict[int, FloatArray]:
    """Return 0/1 rewards of each arm with some."""
    rng = np.random.default_rng(seed)
    lists = zip(counts, means, strict=True)
    rewards = [(rng.random(count) < mean).astype(float) for count, mean in lists]
    return {i: x for i, x in enumerate(rewards) if x.size}


class TestDecisions:
    @pytest.mark.parametrize(
        ("means", "k"),
        [
            (EASY, 2.0),
            ([*EASY, 0.9], 1.5),
            (np.linspace(0.4, 0.6, 12), 3.0),  # none
            ([0.1, 0.9, 0.1, 0.9, 0.2], 0.0),
            ([0.05] + [0.9] * 9, -1.5),  # all but one
            ([0.0] * 9 + [1.0], 2.0),
            ([0.2, 0.8], 0.0),
            (MANY, 2.0),
            pytest.param(1.0 - np.array(MANY), -2.0, marks=pytest.mark.long),
        ],
        ids=["one", "two", "none", "k=0", "k<0", "constant", "n=2", "many", "many, k<0"],
    )
    def test_easy_instances(self, means: Any, k: float) -> None:
        result = run_of(means, k)
        assert result.complete
        assert result.outliers == outliers(means, k).tolist()
        lower, upper = result.intervals.T
        assert ((lower <= means) & (means <= upper)).all()
        low, high = result.threshold_interval
        assert low <= threshold(means, k) <= high
        assert low <= result.threshold <= high

    def test_negative_k_is_the_complement_of_the_lower_side(self) -> None:
        means = [0.05] + [0.9] * 9
        above = run_of(means, -1.5, seed=4)
        lower = run_of(means, 1.5, seed=4, side="lower", margin=0)
        assert set(above.outliers) == set(lower.normal)
        assert set(above.normal) == set(lower.outliers) == {0}
        assert above.pulls == lower.pulls

    @pytest.mark.parametrize("n", [2, 5, 9])
    def test_too_few_arms_for_an_outlier(self, n: int) -> None:
        means = np.linspace(0.1, 0.9, n)
        for k, expected in ((3.5, []), (-3.5, list(range(n)))):
            result = run_of(means, k)
            assert result.complete
            assert result.pulls == 0
            assert result.outliers == expected == outliers(means, k).tolist()
        for side in ("lower", "both"):
            assert run_of(means, 3.5, side=side).normal == list(range(n))

    def test_just_enough_arms_for_an_outlier(self) -> None:
        """Of n = 1 + k^2 arms one may lie on the threshold, and cannot be told from below it."""
        result = run_of([0.1, 0.1, 0.1, 0.1, 0.9], 2.0, budget=3000)
        assert result.status == "budget"
        assert 4 in result.undecided

    def test_both_sides_share_their_pulls(self) -> None:
        means = [0.02, 0.98] + [0.5] * 10
        both = run_of(means, 1.5, side="both")
        assert both.high == [1]
        assert both.low == [0]
        assert both.normal == list(range(2, 12))
        alone = [run_of(means, 1.5, side=side, delta=0.05).pulls for side in ("upper", "lower")]
        assert both.pulls < 0.9 * sum(alone)
        assert set(both.thresholds) == {"upper", "lower"}
        assert both.odds.min() > len(means) / 0.1  # a union over the arms
        for side, sign in (("upper", 1.5), ("lower", -1.5)):
            _, low, high = both.thresholds[side]
            assert low <= threshold(means, sign) <= high

    @pytest.mark.parametrize("n", quick_and_long([1200], [12, len(MANY)]))
    def test_lower_is_upper_on_mirrored_rewards(self, n: int) -> None:
        means = np.array([0.1] * (n - n // 12) + [0.9] * (n // 12))
        upper, lower = search_of(means, 1.5), search_of(means, 1.5, side="lower")
        rng = np.random.default_rng(5)
        while not upper.done:
            one, two = upper.ask_step(), lower.ask_step()
            assert one.indices.tolist() == two.indices.tolist()
            assert one.counts.tolist() == two.counts.tolist()
            ones = rng.binomial(one.counts, means[one.indices]).astype(float)
            upper.tell_step_totals(ones, ones)
            lower.tell_step_totals(one.counts - ones, one.counts - ones)
        assert lower.done
        assert lower.result().low == upper.result().high == outliers(means, 1.5).tolist()

    def test_unusual_parameters_are_refused(self) -> None:
        for options in ({"indifference": -0.1}, {"indifference": np.nan}, {"max_step": 0}):
            with pytest.raises(InvalidParameter):
                search_of(EASY, **options)

    def test_an_arm_beyond_both_thresholds_is_called_high(self) -> None:
        """With k < 0 the two outlier sets overlap; all algorithms report such an arm as high."""
        means = [0.05, 0.2, 0.5, 0.8, 0.95]
        for algorithm, options in (("spade", {}), ("rr", {"batch": 100})):
            found = simulate(
                means, k=-0.5, delta=0.1, algorithm=algorithm, runs=3, rng=1, side="both", **options
            )
            assert found.correct.all()
            assert (found.decisions[:, 2] == Decision.HIGH).all()

    @pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
    def test_two_arms_need_few_pulls(self, k: float) -> None:
        """The threshold of one other arm has no direction to learn."""
        found = simulate([0.1, 0.9], k=k, delta=0.1, algorithm="spade", runs=10, rng=1)
        assert found.correct.all()
        assert found.pulls.mean() < 100

    @pytest.mark.parametrize("k", [1e-300, 1e-18])
    def test_a_k_below_rounding_takes_what_a_tiny_one_takes(self, k: float) -> None:
        few, same = (run_of([0.1, 0.2, 0.15, 0.9], size, budget=5_000) for size in (k, 1e-12))
        assert few.complete
        assert few.pulls_per_arm.tolist() == same.pulls_per_arm.tolist()


class TestSteps:
    @pytest.mark.parametrize("max_step", [1, 7, 100])
    def test_parts_are_no_larger_than_asked(self, max_step: int) -> None:
        search = search_of(EASY, max_step=max_step)
        assert max(pulls.total for pulls in steps(search, EASY)) <= max_step
        assert search.result().outliers == [10]

    @pytest.mark.parametrize("means", [EASY, MANY, VERY_MANY], ids=["joint", "hybrid", "interval"])
    def test_parts_do_not_change_the_plan(self, means: Any) -> None:
        """With rewards that do not depend on the order, the same pulls and the same verdicts."""
        y = (np.asarray(means) > 0.5).astype(float)  # constant rewards
        whole, parts = search_of(y), search_of(y, max_step=max(50, y.size // 3))
        assert answer(whole, y).pulls_per_arm.tolist() == answer(parts, y).pulls_per_arm.tolist()
        assert whole.algorithm.decisions.tolist() == parts.algorithm.decisions.tolist()
        assert whole.algorithm.round == parts.algorithm.round

    @pytest.mark.parametrize(
        "means",
        quick_and_long([SLOW], [np.linspace(0.3, 0.7, 300), np.linspace(0.3, 0.7, 520)]),
        ids=len,
    )
    def test_steps_grow_geometrically(self, means: Any) -> None:
        search = search_of(means, 2.5 if len(means) >= 300 else 2.0, indifference=0.02)
        sizes = np.array([pulls.total for pulls in steps(search, means)])
        pulls = sizes.sum()
        # at least +1/20 of all, but for single arms in focus and the first steps
        assert sizes.size < 40.0 * np.log(pulls)
        assert sizes.max() < 0.3 * pulls

    @pytest.mark.parametrize("means", [EASY, MANY, VERY_MANY], ids=["joint", "hybrid", "interval"])
    def test_a_budget_is_never_exceeded(self, means: Any) -> None:
        n = len(means)
        truth = set(outliers(means, 2.0).tolist())
        for budget in (0, 1, n - 1, n, 2 * n - 1, 3 * n, 7 * n + 3, 15 * n):
            result = run_of(means, budget=budget)
            assert result.pulls <= budget
            assert set(result.outliers) <= truth
            assert not set(result.normal) & truth
            assert result.status == ("budget" if result.undecided else "decided")
            if budget < n:
                assert result.pulls == budget

    def test_a_budget_is_used(self) -> None:
        """A budget too small for a row goes to the undecided arms."""
        result = run_of(SLOW, budget=400)
        assert result.status == "budget"
        assert result.pulls > 400 - len(SLOW)
        assert np.isfinite(result.evidence).all()
        assert result.evidence.max() > 1.0

    @pytest.mark.parametrize(
        "means", quick_and_long([SLOW], [np.linspace(0.3, 0.7, n) for n in (300, 520)]), ids=len
    )
    def test_the_threshold_is_never_starved(self, means: Any) -> None:
        search = search_of(means, 1.5, budget=3000 * len(means))
        assert isinstance(search.algorithm, SPADE)
        rows, since = 0, 0
        for pulls in steps(search, means):
            since = since + 1 if search.algorithm.steps.rows == rows else 0
            rows = search.algorithm.steps.rows
            assert since <= LONGEST_FOCUS + 1
            assert pulls.total > 0
        assert rows > 5

    @pytest.mark.parametrize("n", quick_and_long([6_000], [20_000]))
    def test_memory_grows_with_the_arms_only(self, n: int) -> None:
        """A search of 20,000 arms, far from 20,000^2 numbers of 8 bytes (3.2 GB).

        And of 6,000 arms in less than 30 MB, far from 6,000^2 numbers (288 MB).
        """
        arms = Bernoulli(np.where(np.arange(n) % 100 == 0, 0.9, 0.05))
        tracemalloc.start()
        try:
            result = find(arms, k=3.0, delta=0.1, rng=11)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert result.outliers == list(range(0, n, 100))
        assert peak < 5_000 * n


class TestReports:
    def test_an_unfinished_step_is_reported(self) -> None:
        search = search_of(EASY, max_step=5)
        search.tell_step([1.0] * search.ask_step().counts.sum())
        result = search.result()
        assert result.pulls == 5
        assert np.isfinite(result.means[result.pulls_per_arm > 0]).all()
        assert (result.intervals == [0.0, 1.0]).all()  # decisions rest on whole steps

    def test_a_step_beyond_the_budget_is_not_begun(self) -> None:
        assert run_of(EASY, max_step=5, budget=9).pulls == 9  # but for the first
        assert run_of(EASY, max_step=5, budget=2 * len(EASY) - 2).pulls == len(EASY)

    @pytest.mark.parametrize("means", [SLOW, MANY, VERY_MANY], ids=["joint", "hybrid", "interval"])
    def test_on_the_way_intervals_hold_and_decided_arms_have_the_evidence(self, means: Any) -> None:
        search, y = search_of(means), np.asarray(means)
        algorithm = search.algorithm
        assert isinstance(algorithm, SPADE)
        level = algorithm.views["upper"].certificate.rules.log_level
        for _ in steps(search, means):
            evidence = algorithm.evidence()
            assert (evidence[~algorithm.undecided] >= level).all()
            assert (evidence[algorithm.undecided] < level).all()
            lower, upper = algorithm.intervals()
            assert ((lower <= y) & (y <= upper)).all()
            _, low, high = algorithm.threshold()
            assert low <= threshold(means, 2.0) <= high
        result = search.result()
        assert level > np.log(len(means) / 0.1)  # a union over the arms
        np.testing.assert_allclose(result.odds, np.exp(np.minimum(result.evidence, 700.0)))
        assert (result.odds > len(means) / 0.1).all()

    @pytest.mark.parametrize("means", quick_and_long([SLOW], [MANY]), ids=len)
    def test_pulls_needed(self, means: Any) -> None:
        search, seen = search_of(means), []
        for _ in steps(search, means):
            needed = search.algorithm.pulls_needed()
            if needed is not None:
                assert np.isfinite(needed).all()
                assert (needed[search.algorithm.undecided] >= 1.0).all()
                seen.append((search.pulls, needed.sum()))
        assert search.algorithm.pulls_needed().sum() == 0.0
        half = seen[len(seen) // 2 :]
        in_all = [pulls + needed for pulls, needed in half]
        assert search.pulls / 3.0 < np.median(in_all) < 3.0 * search.pulls

    @pytest.mark.long
    def test_pulls_needed_are_mostly_right_to_a_factor_of_three(self) -> None:
        """Of searches that are stopped half-way or later: the guess over what it then takes."""
        ratios: dict[float, list[float]] = {0.5: [], 0.8: []}
        for means, seed in product(TO_GUESS, range(4)):
            search, seen = search_of(means, margin=0.05), []
            for number, _ in enumerate(steps(search, means, seed)):
                needed = search.algorithm.pulls_needed() if number % 2 else None
                seen += [] if needed is None else [(search.pulls, float(needed.sum()))]
            for part, found in ratios.items():
                made, guess = [one for one in seen if one[0] <= part * search.pulls][-1]
                found.append(guess / (search.pulls - made))
        assert all(0.7 < np.median(found) < 1.7 for found in ratios.values())
        right = [np.mean([1 / 3 < x < 3 for x in found]) for found in ratios.values()]
        assert right[0] >= 0.75
        assert right[1] >= 0.9

    def test_what_is_looked_ahead_comes_in_pairs_of_rows(self) -> None:
        """Between the halves of a pair as well: after the second one arms may be pulled alone."""
        search = search_of(MANY)
        for _ in steps(search, MANY):
            if search.algorithm.steps.rows == 7:
                break
        ahead = islice(search.algorithm.outlook(), 100)
        plans = [np.count_nonzero(pulls.counts) for pulls in ahead]
        assert min(plans) < len(MANY)


class TestIndifference:
    @pytest.mark.parametrize("n", quick_and_long([10], [300, len(MANY)]))
    def test_an_arm_on_the_threshold_ends(self, n: int) -> None:
        """k = 0 and means 1/2 -+ 0.4 leave the arms at 1/2 exactly on the threshold."""
        means = [0.1] * (n // 2 - 1) + [0.5] * 2 + [0.9] * (n // 2 - 1)
        without = run_of(means, 0.0, margin=0.0, budget=300 * n)
        assert {n // 2 - 1, n // 2} & set(without.undecided)
        result = run_of(means, 0.0, margin=0.0, indifference=0.15)
        assert result.complete
        clear = [i for i in result.outliers if means[i] != 0.5]
        assert clear == list(range(n // 2 + 1, n))

    @pytest.mark.parametrize("k", [pytest.param(0.0, marks=pytest.mark.long), 1.0])
    def test_only_arms_nearby_are_called_either_way(self, k: float) -> None:
        means = np.array([0.1, 0.2, 0.4, 0.5, 0.55, 0.6, 0.9])
        epsilon, delta, runs = 0.18, 0.3, 60
        theta = threshold(means, k)
        found = simulate(means, k=k, delta=delta, runs=runs, rng=12, indifference=epsilon)
        assert found.complete.all()
        called_out = (found.decisions == Decision.HIGH) & (means <= theta - epsilon)
        called_normal = (found.decisions == Decision.NORMAL) & (means >= theta + epsilon)
        assert_error_rate(int((called_out | called_normal).any(axis=1).sum()), runs, delta)

    @pytest.mark.long
    def test_a_threshold_beyond_the_bounds_makes_no_outlier(self) -> None:
        """theta = 1.024 is out of reach: arm 0, always 1, lies further than epsilon below it.

        The verdict must hold at every mean in [0, 1] of the arm, with the threshold shifted
        against it; shifting the arm instead would leave means near 1 out.
        """
        means = [1.0] + [0.75] * 9 + [0.3] * 10
        epsilon, delta, runs = 0.0192, 0.05, 40
        assert threshold(means, 2.0) - epsilon > 1.0
        found = simulate(means, k=2.0, delta=delta, runs=runs, rng=14, indifference=epsilon)
        assert_error_rate(int((found.decisions == Decision.HIGH).any(axis=1).sum()), runs, delta)

    @pytest.mark.parametrize(
        ("k", "seeds"),
        quick_and_long([(0.5, range(2))], [(0.5, range(2, 6)), (0.0, range(6))]),
        ids=str,
    )
    def test_the_evidence_is_that_of_the_side_that_decides(self, k: float, seeds: range) -> None:
        """Arms near the threshold are looked at on both of its sides."""
        for seed in seeds:
            result = run_of([0.45, 0.5, 0.5, 0.55], k=k, seed=seed, indifference=0.2)
            certificate = search_of(result.means, k=k).algorithm.views["upper"].certificate
            assert result.complete
            assert result.evidence is not None
            assert (result.evidence >= certificate.rules.log_level).all()

    def test_it_is_in_units_of_the_rewards_and_saves_pulls(self) -> None:
        wide = search_of(SLOW, bounds=(0.0, 100.0), indifference=10.0).algorithm
        assert isinstance(wide, SPADE)
        assert wide.indifference == pytest.approx(0.1)
        assert run_of(SLOW, indifference=0.1).pulls < run_of(SLOW).pulls


SHAPES = ("even", "uneven", "some missing")


@cache
def answer_without_history(means: tuple[float, ...]) -> Result:
    return answer(search_of(means), means)


class TestHistories:
    @pytest.mark.parametrize(
        ("means", "shape"),
        quick_and_long(
            [(SLOW, shape) for shape in SHAPES],
            [(MANY, shape) for shape in SHAPES],
        ),
        ids=lambda given: given if isinstance(given, str) else str(len(given)),
    )
    def test_before_the_start(self, means: Any, shape: str) -> None:
        n = len(means)
        without = answer_without_history(tuple(means))
        rng = np.random.default_rng(14)
        counts = {
            "even": np.full(n, 60),
            "uneven": rng.integers(20, 200, n),
            "some missing": np.where(np.arange(n) % 5 == 0, 0, 150),
        }[shape].tolist()
        search = search_of(means)
        search.add_history(history_of(counts, means))
        result = answer(search, means)
        assert result.outliers == without.outliers == outliers(means, 2.0).tolist()
        assert result.history == sum(counts)
        assert result.pulls == result.pulls_per_arm.sum() == search.pulls
        assert result.pulls < without.pulls

    @pytest.mark.parametrize(
        ("means", "when"),
        quick_and_long(
            [*((SLOW, when) for when in (1, 2, 12)), (MANY, 3)],
            [(SLOW, 3), (SLOW, 5), *((MANY, when) for when in (1, 2, 5, 12))],
        ),
        ids=lambda given: str(given if isinstance(given, int) else len(given)),
    )
    def test_in_the_middle(self, means: Any, when: int) -> None:
        n = len(means)
        search = search_of(means)
        requests = steps(search, means)
        for _ in range(when):
            next(requests)
        pulls = next(requests)  # `when` answers are in, the next is asked for
        ones = np.random.default_rng(1).binomial(pulls.counts, np.asarray(means)[pulls.indices])
        search.tell_step_totals(ones.astype(float), ones.astype(float))
        made, counts = search.pulls, [30 + i % 7 for i in range(n)]
        search.add_history(history_of(counts, means))
        assert search.pulls == search.result().pulls == made
        assert search.result().history == sum(counts)
        assert answer(search, means, seed=4).outliers == outliers(means, 2.0).tolist()

    def test_a_history_can_be_enough(self) -> None:
        search = search_of(EASY)
        search.add_history(history_of([2000] * len(EASY), EASY))
        assert search.done
        assert search.status == "decided"
        assert search.result().pulls == 0
        assert search.result().outliers == [10]

    def test_budgets_count_pulls_only(self) -> None:
        search = search_of(SLOW, budget=200)
        search.add_history(history_of([50] * len(SLOW), SLOW))
        result = answer(search, SLOW)
        assert result.pulls <= 200
        assert result.history == 650
        assert result.pulls > 0


class TestTinyRewards:
    """Rewards that are tiny against their bounds: the digits of a variance must not be lost."""

    MEANS = np.array([1.0, 1.0, 1.0, 1.0, 3.0])

    @pytest.mark.parametrize(
        ("k", "side", "top"),
        quick_and_long(
            [(1.0, "lower", 1e12)],
            [
                (k, side, top)
                for k, side in ((1.0, "upper"), (-1.0, "upper"))
                for top in (1e9, 1e12)
            ],
        ),
    )
    def test_intervals_hold(self, top: float, k: float, side: Side) -> None:
        """All intervals together cost 0.05 delta; a rate of 0.4 is found out."""
        runs, delta, missed = 24, 0.1, 0
        for rng in np.random.default_rng(11).spawn(runs):
            search = Search(5, k=k, delta=delta, bounds=(0.0, top), side=side, margin=0, rng=1)
            rewards = np.minimum(rng.exponential(self.MEANS, (100, 5)), top)
            search.add_history(dict(enumerate(rewards.T)))
            lower, upper = search.result().intervals.T
            missed += not ((lower <= self.MEANS) & (upper >= self.MEANS)).all()
        assert_error_rate(missed, runs, 0.05 * delta)


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_without_an_interval_of_the_threshold_no_arm_is_held_against_it(reward: float) -> None:
    """An unknown end is no level near 0 or 1, however often the arms gave just that."""
    certificate = IntervalCertificate(300, Sigma(k=2.0), 0.1, 0.0)
    tally = Tally(np.full(300, 1e12), np.full(300, reward * 1e12), np.zeros(300))
    certificate.decide(np.arange(300), tally, forecast(tally))
    assert certificate.standing[2:4] == (-np.inf, np.inf)
    assert (certificate.standing.verdicts == 0).all()


def test_all_forms_are_tested() -> None:
    assert len(EASY) <= JOINT_UP_TO < len(MANY) <= HYBRID_UP_TO < len(VERY_MANY)


def test_rewards_that_are_all_alike_are_no_trouble() -> None:
    """No arm differs from another, so nothing can be decided; nothing is divided by zero either."""
    for n in (20, 300, 2000):
        search = Search(n, k=1, delta=0.1, budget=30 * n)
        while not search.done:
            pulls = search.ask_step()
            search.tell_step(np.full(pulls.total, 0.5))
        assert search.status == "budget"


def test_a_bound_that_is_not_a_number_excludes_nothing() -> None:
    tally = Tally(np.ones(4), np.ones(4), np.zeros(4))
    for low, excluded in ((math.nan, False), (1.0, False), (1.1, True)):
        certificate = JointCertificate(4, Sigma(k=1.0), 0.1, 0.0)
        certificate.standing = certificate.standing._replace(low=low)
        certificate.settle(np.arange(4), tally)
        assert (certificate.standing.verdicts == 1).all() == excluded
