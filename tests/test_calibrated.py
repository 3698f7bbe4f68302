"""The calibrated rule: its formulas, its rows, and what it answers."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import binom, norm

from helpers import left_out
from oddarms import Search
from oddarms.algorithms import Decision
from oddarms.algorithms._base import UNLIMITED
from oddarms.algorithms._calibrated import Calibrated
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, IntArray
from oddarms.rules import Sigma
from oddarms.statistics.calibrated import (
    FIRST_ROWS,
    SHIFT,
    STEEPEST,
    Conditions,
    Look,
    Part,
    Rows,
    clock,
    estimates,
    look,
    next_counts,
    rounded_counts,
    sigma2_of_others,
    stated_error,
    steepness,
    threshold_bound,
    verdict,
)
from oddarms.statistics.guesses import padded_variance
from oddarms.statistics.totals import Totals
from oddarms.testing import assert_error_rate
from oddarms.theory import outliers, threshold
from our_conformance import ANSWERS, JOBS, Ours, long


def rows_of(
    n: int, seed: int, number: int = 9, means: Any = None
) -> tuple[Totals, Rows, list[tuple[float, IntArray, FloatArray]]]:
    """Return rows of rewards with three levels, 0, 1/2 and 1: added up, and one by one."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(0.1, 0.9, n) if means is None else np.asarray(means)
    totals, rows, kept = Totals.empty(n), Rows.none(n), []
    for b in range(number):
        weight = 1.0 if b < FIRST_ROWS else 2.0
        counts = rng.integers(1, 5, n) if b >= FIRST_ROWS else np.ones(n, dtype=np.int64)
        wins, halves = rng.binomial(counts, y), np.zeros(n)
        halves[0] = counts[0] - wins[0]
        sums, squares = wins + 0.5 * halves, wins + 0.25 * halves
        totals = totals.plus(Totals(counts.astype(np.float64), sums, squares))
        rows = rows.plus(weight, counts, sums)
        kept.append((weight, counts, sums))
    return totals, rows, kept


class TestEstimates:
    def test_unbiased_though_counts_depend_on_rewards(self) -> None:
        """Exactly, over all outcomes of two rows; a 1 in the first makes it three pulls more."""
        y, weights = np.array([0.2, 0.5, 0.9]), (1.0, 2.5)
        average, spread, others, certain = np.zeros(3), 0.0, np.zeros(3), 0.0
        for first in product((0, 1), repeat=3):
            counts = np.array([4 if x else 1 for x in first])
            before = np.prod(np.where(first, y, 1.0 - y))
            for second in product(*(range(count + 1) for count in counts)):
                chance = float(before * np.prod(binom.pmf(second, counts, y)))
                rows = Rows.none(3).plus(weights[0], np.ones(3, dtype=int), np.array(first) / 1.0)
                rows = rows.plus(weights[1], counts, np.array(second) / 1.0)
                certain += chance
                average += chance * rows.A / rows.W
                spread += chance * estimates(rows, np.ones(3)).sigma2
                others += chance * sigma2_of_others(rows)
        assert certain == pytest.approx(1.0)
        np.testing.assert_allclose(average, y)
        assert spread == pytest.approx(y.var())
        np.testing.assert_allclose(others, [np.delete(y, i).var() for i in range(3)])

    def test_variances_are_those_of_repeated_rows(self) -> None:
        """Of 2,000 repetitions, seeded: within four standard deviations of what was counted.

        A variance of so many is known to 3.2 %, a correlation to 0.022.
        """
        y, rng = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9]), np.random.default_rng(4)
        counts, found, stated = np.array([40, 30, 30, 40, 50, 60]), [], []
        for _ in range(2_000):
            rows = Rows.none(6)
            for b in range(3):
                rows = rows.plus(1.0 + b, counts, rng.binomial(counts, y).astype(float))
            known = estimates(rows, y * (1.0 - y))
            found.append((known.mean, known.sigma2))
            stated.append((known.mean_variance, known.sigma2_variance, known.covariance))
        covariance = np.cov(np.array(found).T)
        mean, sigma2, both = np.mean(stated, axis=0)
        assert mean == pytest.approx(covariance[0, 0], rel=0.12)
        assert sigma2 == pytest.approx(covariance[1, 1], rel=0.12)
        assert both == pytest.approx(covariance[0, 1], abs=0.08 * math.sqrt(mean * sigma2))


def own_by_hand(totals: Totals, i: int, f: float) -> float:
    """Return the variance of a mixture of an arm's rewards and an end of [0, 1], over N."""
    m, s2 = float(totals.total[i] / totals.pulls[i]), float(padded_variance(*totals)[i])
    theta = min(max(m - f, 0.0), 1.0)
    end = 1.0 if theta > m else 0.0
    share = SHIFT * abs(theta - m) / abs(end - m)
    mixed = share * end + (1.0 - share) * m
    square = share * end**2 + (1.0 - share) * (s2 + m**2)
    return (square - mixed**2) / float(totals.pulls[i])


def z_by_hand(totals: Totals, rows: Rows, i: int, k: float) -> tuple[float, float]:
    """Return z and its variance against the sigma part, arm by arm and in words of the module."""
    n = totals.pulls.size
    s2 = padded_variance(*totals)
    m = totals.total / totals.pulls
    rest = np.arange(n) != i
    y, e = (rows.A / rows.W)[rest], (s2 * rows.G / rows.W**2)[rest]
    h, d = n - 1.0, y - y.mean()
    Vm, Cv = e.sum() / h**2, 2.0 * (e * d).sum() / h**2
    Vs = max(4.0 * (e * d * d).sum() - 2.0 * (e * e).sum(), 2.0 * (e * e).sum()) / h**2
    k_others = k / math.sqrt(1.0 - (1.0 + k * k) / n)
    sd = math.sqrt(max(float(sigma2_of_others(rows)[i]), math.sqrt(Vs)))
    x = m[i] - y.mean()
    b = k_others / (sd + max(x / k_others, 0.0)) if k else 0.0
    f = x - k_others * sd
    v = own_by_hand(totals, i, f) + max(Vm + b * b * Vs + 2.0 * b * Cv, 0.05 * (Vm + b * b * Vs))
    return f / math.sqrt(v), v


class TestLook:
    @pytest.mark.parametrize("k", [0.0, 0.5, 2.0, -1.0])
    def test_sigma_part_by_hand(self, k: float) -> None:
        totals, rows, _ = rows_of(9, seed=2)
        (part,) = look(totals, rows, Conditions(k)).parts
        for i in range(9):
            z, v = z_by_hand(totals, rows, i, k)
            assert part.z[i] == pytest.approx(z)
            assert part.variance[i] == pytest.approx(v)

    def test_a_planted_arm(self) -> None:
        """Many pulls: f is the distance to the threshold of the others, its sign the truth."""
        y = np.array([0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.9])
        totals, rows = Totals.empty(7), Rows.none(7)
        counts = np.full(7, 1_000_000)
        for _ in range(4):  # without noise
            totals = totals.plus(Totals(counts / 1.0, counts * y, counts * y))
            rows = rows.plus(1.0, counts, counts * y)
        (part,) = look(totals, rows, Conditions(1.5)).parts
        np.testing.assert_allclose(part.z * np.sqrt(part.variance), y - left_out(y, 1.5))
        assert np.flatnonzero(part.z >= 0.0).tolist() == outliers(y, 1.5).tolist() == [6]
        assert np.abs(part.z).min() > 100.0

    def test_margin_and_floor_by_hand(self) -> None:
        totals, rows, _ = rows_of(5, seed=3)
        found = look(totals, rows, Conditions(1.0, 0.125, 0.4))
        assert len(found.parts) == 3
        m, y = totals.total / totals.pulls, rows.A / rows.W
        e = padded_variance(*totals) * rows.G / rows.W**2
        _, margin, floor = found.parts
        for i in range(5):
            f = m[i] - np.delete(y, i).mean() - 0.125 * 5.0 / 4.0
            assert margin.z[i] * math.sqrt(margin.variance[i]) == pytest.approx(f)
            expected = own_by_hand(totals, i, f) + np.delete(e, i).sum() / 16.0
            assert margin.variance[i] == pytest.approx(expected)
            assert floor.z[i] * math.sqrt(floor.variance[i]) == pytest.approx(m[i] - 0.4)
            assert floor.variance[i] == pytest.approx(own_by_hand(totals, i, m[i] - 0.4))

    @pytest.mark.parametrize("k", [0.0, 0.7, 2.0])
    def test_rewards_mirrored_with_minus_k(self, k: float) -> None:
        totals, rows, kept = rows_of(6, seed=5)
        mirrored, again = Rows.none(6), totals.pulls - totals.total
        for weight, counts, sums in kept:
            mirrored = mirrored.plus(weight, counts, counts - sums)
        other = Totals(totals.pulls, again, totals.pulls - 2.0 * totals.total + totals.squares)
        (part,), (back,) = (
            look(totals, rows, Conditions(k)).parts,
            look(other, mirrored, Conditions(-k)).parts,
        )
        np.testing.assert_allclose(back.z, -part.z)
        np.testing.assert_allclose(back.variance, part.variance)
        np.testing.assert_allclose(back.influence2, part.influence2)

    def test_n_of_one_plus_k_squared_tests_for_any_spread(self) -> None:
        """Five arms, k = 2: z is about -U/sqrt(Vs), no more than noise where means are equal."""
        assert steepness(5, 2.0) == STEEPEST
        assert steepness(5, -2.0) == -STEEPEST
        apart = look(*rows_of(5, 6, 300, [0.1, 0.2, 0.5, 0.8, 0.9])[:2], Conditions(2.0)).parts[0]
        assert (apart.z < -4.0).all()
        equal = look(*rows_of(5, 6, 300, [1.0] * 5)[:2], Conditions(2.0)).parts[0]
        np.testing.assert_allclose(equal.z, -1.0, rtol=1e-3)  # no z is below 1, see `spread_sd`


@pytest.mark.parametrize(
    ("rule", "n", "reachable", "binds"),
    [
        (Conditions(2.0), 5, True, (True, False, False)),
        (Conditions(2.0), 4, False, (True, False, False)),
        (Conditions(-2.0), 4, True, (False, False, False)),  # all are outliers
        (Conditions(-2.0, floor=0.3), 4, True, (False, False, True)),
        (Conditions(0.0, 0.1), 4, True, (False, True, False)),  # which implies y_i >= mu
        (Conditions(1.0, 0.75), 4, True, (True, True, False)),  # one 1 among zeros
        (Conditions(1.0, 0.76, 0.2), 4, False, (True, True, True)),
        (Conditions(1.0, 0.0, 0.0), 4, True, (True, False, False)),
        (Conditions(1.0, 0.0, 1.1), 4, False, (True, False, True)),
    ],
)
def test_what_can_be(rule: Conditions, n: int, reachable: bool, binds: tuple[bool, ...]) -> None:
    assert rule.reachable(n) is reachable
    assert rule.binds(n) == binds


def look_of(*z: list[float]) -> Look:
    """Return parts with these z, unit variances and equal influence."""
    n = len(z[0])
    parts = [Part(np.array(one), np.ones(n), np.full(n, 1.0 / n**2)) for one in z]
    return Look(tuple(parts), np.full(n, 0.25))


class TestVerdict:
    def test_outliers_need_all_parts_and_normal_arms_one(self) -> None:
        found = verdict(look_of([3.0, -2.0, -1.0, 2.0], [1.5, 2.0, -2.5, -3.0]))
        assert found.odd.tolist() == [True, False, False, False]
        assert found.deciding.tolist() == [1, 0, 1, 1]
        expected = [norm.sf(3.0) + norm.sf(1.5), norm.sf(2.0), norm.sf(2.5), norm.sf(3.0)]
        np.testing.assert_allclose(found.tail, expected)
        densities = [z * norm.pdf(z) for z in (3.0, 1.5, 2.0, 2.5, 3.0)]
        np.testing.assert_allclose(found.density, [densities[0] + densities[1], *densities[2:]])

    def test_stated_error_by_hand(self) -> None:
        """z of 3 and -0.5 after 40 and 10 pulls: clocks log 10 and log(50/8), n/h = 2."""
        found = verdict(look_of([3.0, -0.5]))
        pulls = np.array([40.0, 10.0])
        np.testing.assert_allclose(clock(pulls), [math.log(10.0), math.log(50.0 / 8.0)])
        assert clock(np.array([1.0, 2.0])).tolist() == [0.0, 0.0]  # before the first rows
        prices = [
            (1.0 + math.log(10.0)) * 3.0 * norm.pdf(3.0),
            (1.0 + math.log(6.25)) * norm.pdf(1.0),
        ]
        assert stated_error(pulls, found) == pytest.approx(
            norm.sf(3.0) + norm.sf(0.5) + max(prices)
        )


class TestCounts:
    def test_whole_numbers_with_the_total(self) -> None:
        """Right on average, and equal ones where nothing is above one."""
        wanted = np.array([1.0, 1.25, 2.5, 3.25])
        found = [rounded_counts(wanted, 8, (i + 0.5) / 100.0) for i in range(100)]
        np.testing.assert_allclose(np.mean(found, axis=0), wanted, atol=0.011)
        for total in (4, 8, 1_000):
            counts = rounded_counts(wanted, total, 0.3)
            assert counts.sum() == total
            assert counts.min() >= 1
        assert rounded_counts(np.ones(4), 8, 0.2).tolist() == [2, 2, 2, 2]

    def test_next_row(self) -> None:
        """About the total, at least 1 each, more for arms in doubt; better than equal counts."""
        totals, rows, _ = rows_of(30, 8, 40, np.append(np.linspace(0.1, 0.3, 29), 0.6))
        found = look(totals, rows, Conditions(2.0))
        judged = verdict(found)
        counts = next_counts(totals, rows, found, judged, 10.0, 300)
        assert counts.sum() == pytest.approx(300.0, rel=1e-4)
        assert counts.min() >= 1.0
        doubtful = np.argsort(judged.tail)[-3:]
        assert counts[doubtful].min() > np.median(counts)
        after = _doubt_after(totals, rows, found, counts)
        assert after < _doubt_after(totals, rows, found, np.full(30, 10.0))

    def test_as_many_pulls_as_there_may_be(self) -> None:
        """A row of a tenth of 2e16 pulls is asked for, not of one each."""
        pulls, wins = np.full(2, 1e16), np.array([5e15, 5e15 + 1e8])
        totals = Totals(pulls, wins, wins)
        rows = Rows.none(2)
        for _ in range(2):
            rows = rows.plus(5e15, np.full(2, 5 * 10**15), wins / 2.0)
        found = look(totals, rows, Conditions(0.0))
        counts = next_counts(totals, rows, found, verdict(found), 1e15, 2 * 10**15)
        assert counts.sum() == pytest.approx(2e15, rel=1e-4)

    def test_a_threshold_that_outliers_must_reach_is_pulled_for(self) -> None:
        """The floor decides, but the tail of the other part counts, too: all arms get pulls."""
        z, v = np.array([-9.0, -9.0, 2.2]), np.full(3, 0.01)
        against_sigma = Part(z, v, np.full(3, 1.0 / 9.0))
        against_floor = Part(z - 0.2, v, np.zeros(3))
        found = Look((against_sigma, against_floor), np.full(3, 0.25))
        judged = verdict(found)
        assert judged.deciding.tolist() == [1, 1, 1]
        pulls = np.full(3, 100.0)
        rows = Rows.none(3)._replace(W=100.0, W2=1_000.0)
        counts = next_counts(Totals(pulls, pulls, pulls), rows, found, judged, 10.0, 30)
        assert counts[:2].min() > 1.5
        alone = found._replace(parts=(against_floor,))
        counts = next_counts(Totals(pulls, pulls, pulls), rows, alone, verdict(alone), 10.0, 30)
        assert counts[:2].tolist() == [1.0, 1.0]


def _doubt_after(totals: Totals, rows: Rows, found: Look, counts: FloatArray) -> float:
    """Return the sum of tails if a row of weight 10 changed nothing but the variances."""
    (part,) = found.parts
    share = 10.0 / (rows.W + 10.0)
    before = found.variance * rows.G / rows.W**2
    after = before * (1.0 - share) ** 2 + found.variance * share**2 / counts
    own = found.variance / totals.pulls - found.variance / (totals.pulls + counts)
    shared = float((part.influence2 * (before - after)).sum())
    f = part.z * np.sqrt(part.variance)
    return float(norm.sf(np.abs(f) / np.sqrt(part.variance - own - shared)).sum())


class TestThresholdBound:
    def test_the_largest_part_counts(self) -> None:
        totals, rows, _ = rows_of(6, seed=9)
        plain = threshold_bound(totals, rows, Conditions(1.0), 0.1)
        assert plain.low < plain.estimate < plain.high
        floor = threshold_bound(totals, rows, Conditions(1.0, floor=2.0), 0.1)
        assert floor == (2.0, 2.0, 2.0)
        margin = threshold_bound(totals, rows, Conditions(1.0, margin=0.9), 0.1)
        assert margin.estimate == pytest.approx(float((rows.A / rows.W).mean()) + 0.9)
        wider = threshold_bound(totals, rows, Conditions(1.0), 1e-6)
        assert wider.low < plain.low
        assert wider.high > plain.high

    def test_it_covers_the_threshold(self) -> None:
        """In 300 runs of four rows, at delta = 0.1; false alarm 1e-6, finds a rate of 0.25."""
        y, rng, missed = np.linspace(0.2, 0.8, 8), np.random.default_rng(1), 0
        for _ in range(300):
            totals, rows = Totals.empty(8), Rows.none(8)
            for _ in range(4):
                wins = rng.binomial(20, y).astype(float)
                totals = totals.plus(Totals(np.full(8, 20.0), wins, wins))
                rows = rows.plus(1.0, np.full(8, 20), wins)
            bound = threshold_bound(totals, rows, Conditions(1.0), 0.1)
            missed += not bound.low <= threshold(y, 1.0) <= bound.high
        assert_error_rate(missed, 300, 0.1)


def machine_of(n: int, **options: Any) -> Calibrated:
    """Return a fresh state machine."""
    words = {word: options.pop(word) for word in ("k", "margin", "floor") if word in options}
    rule = Sigma(**{"k": 2.0, **words})
    settings = {"delta": 0.1, "rng": np.random.default_rng(0), **options}
    return Calibrated(n, rule=rule, **settings)


def run(machine: Calibrated, means: Any, budget: int = UNLIMITED, seed: int = 0) -> Calibrated:
    """Answer a machine with 0/1 rewards until it is done or the budget ends."""
    rng, y, made = np.random.default_rng([seed, 1]), np.asarray(means), 0
    while not machine.done:
        pulls = machine.propose(budget - made)
        assert pulls.indices.tolist() == list(range(machine.n))
        if pulls.total > budget - made:
            break
        wins = rng.binomial(pulls.counts, y).astype(float)
        machine.absorb(pulls, wins, wins)
        made += pulls.total
    assert made == machine.pulls.sum()
    return machine


def errors(means: Any, *, k: float, delta: float, runs: int) -> int:
    """Return how many runs have a wrong answer."""
    truth = np.isin(np.arange(len(means)), outliers(means, k))
    wrong = 0
    for seed in range(runs):
        machine = machine_of(len(means), k=k, delta=delta, rng=np.random.default_rng([seed, 2]))
        found = run(machine, means, seed=seed).decisions == Decision.HIGH
        wrong += bool((found != truth).any())
    return wrong


EASY = [*np.linspace(0.1, 0.3, 11).tolist(), 0.9]


class TestSure:
    @pytest.mark.parametrize(
        ("means", "options"),
        [
            (EASY, {}),
            (1.0 - np.array(EASY), {"k": -2.0}),
            ([0.1, 0.2, 0.6, 0.9], {"k": 0.5}),
            ([0.2, 0.8], {"k": 0.0}),
            (EASY, {"k": 1.0, "floor": 0.5}),
            ([0.3] * 10, {"k": 2.0, "margin": 0.2}),  # equal means end
            ([0.3] * 9 + [0.7], {"k": -1.0, "margin": 0.2}),
            ([0.1, 0.1, 0.9, 0.9], {"k": -3.0, "floor": 0.4}),
        ],
    )
    def test_right_answers(self, means: Any, options: dict[str, Any]) -> None:
        machine = run(machine_of(len(means), **options), means)
        y, rule = np.asarray(means), machine.rule
        theta = max(threshold(y, rule.k), rule.floor)
        if rule.margin:
            theta = max(theta, y.mean() + rule.margin)
        expected = np.where(y >= theta, Decision.HIGH, Decision.NORMAL)
        assert machine.decisions.tolist() == expected.tolist()
        assert machine.error_estimate <= 0.1
        assert machine.guesses().decisions.tolist() == expected.tolist()
        assert machine.propose(100).total == 0

    def test_nothing_is_decided_before_the_end(self) -> None:
        machine = machine_of(12)
        rng, rounds = np.random.default_rng(0), 0
        assert machine.guesses().decisions.tolist() == [Decision.UNDECIDED] * 12
        assert machine.error_estimate == 1.0
        assert machine.pulls_needed() is None
        while not machine.done:
            assert (machine.decisions == Decision.UNDECIDED).all()
            assert machine.error_estimate > 0.1
            pulls = machine.propose(UNLIMITED)
            assert pulls.counts.min() >= 1
            wins = rng.binomial(pulls.counts, EASY).astype(float)
            machine.absorb(pulls, wins, wins)
            rounds += 1
            needed = machine.pulls_needed()
            assert needed is None or machine.done or (needed >= 1.0).all()
        assert rounds == machine.round >= FIRST_ROWS
        assert machine.pulls_needed().tolist() == [0.0] * 12

    @pytest.mark.parametrize(
        ("options", "decision"),
        [
            ({"k": 2.0}, Decision.NORMAL),
            ({"k": -2.0}, Decision.HIGH),
            ({"k": 1.0, "margin": 0.8}, Decision.NORMAL),
            ({"k": 1.0, "floor": 1.5}, Decision.NORMAL),
        ],
    )
    def test_no_pull_where_nothing_is_open(
        self, options: dict[str, Any], decision: Decision
    ) -> None:
        machine = machine_of(4, **options)
        assert machine.decisions.tolist() == [decision] * 4
        assert machine.propose(100).total == 0
        assert machine.error_estimate == 0.0

    def test_a_budget_in_the_way(self) -> None:
        """The last row is as small as the budget; then one pull each is asked for in vain."""
        full = run(machine_of(12), EASY)
        pulls = int(full.pulls.sum())
        same = run(machine_of(12), EASY, budget=pulls)
        assert same.done
        assert same.pulls.tolist() == full.pulls.tolist()
        short = run(machine_of(12), EASY, budget=pulls - 5)
        assert short.pulls.sum() == pulls - 5
        assert short.round == full.round
        assert machine_of(12).propose(11).total == 12

    def test_a_row_is_planned_once(self) -> None:
        """The same limit gives the same row, without another random number."""
        machine = run(machine_of(12, delta=1e-9), EASY, budget=100)
        one = machine.propose(UNLIMITED)
        state = machine.rng.bit_generator.state
        assert one.total > 13
        assert next(machine.outlook()).counts.tolist() == one.counts.tolist()
        assert machine.propose(UNLIMITED).counts.tolist() == one.counts.tolist()
        assert machine.rng.bit_generator.state == state
        assert machine.propose(13).total == 13

    def test_errors_are_no_more_than_delta_explains(self) -> None:
        """100 runs at delta = 0.3, false alarm 1e-6: they find out a rate of 0.65."""
        assert_error_rate(errors([0.2, 0.8, 0.3, 0.75], k=0.5, delta=0.3, runs=100), 100, 0.3)

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("means", "k"),
        [
            ([0.499, 0.501], 0.0),
            ([0.1, 0.3, 0.4, 0.5, 0.62], 1.0),
            ([*np.linspace(0.3, 0.5, 20), 0.59], 2.0),
        ],
    )
    def test_errors_of_many_runs(self, means: Any, k: float) -> None:
        """400 runs at delta = 0.2, an arm near the threshold; false alarm 1e-6, they find 0.35."""
        assert_error_rate(errors(means, k=k, delta=0.2, runs=400), 400, 0.2)


class TestBudget:
    @pytest.mark.parametrize("budget", [5, 12, 23, 24, 47, 48, 333, 1_000])
    def test_the_budget_is_spent_to_the_last_pull(self, budget: int) -> None:
        machine = run(machine_of(12, goal="budget"), EASY, budget)
        assert machine.pulls.sum() == (budget if budget >= 12 else 0)
        assert (machine.decisions == Decision.UNDECIDED).all()
        guesses = machine.guesses()
        assert 0.0 <= machine.error_estimate <= 1.0
        if budget < 12:  # less than one row
            assert (guesses.decisions == Decision.UNDECIDED).all()
        if budget == 1_000:
            assert np.flatnonzero(guesses.decisions == Decision.HIGH).tolist() == [11]
            assert guesses.suspicion.argmax() == 11
            assert machine.error_estimate < 0.05

    def test_a_margin_is_a_length(self) -> None:
        search = Search(5, k=1, bounds=(0, 10), algorithm=Calibrated, margin=2.5)
        assert search.algorithm.rule.margin == 0.25

    def test_it_needs_a_budget(self) -> None:
        with pytest.raises(InvalidParameter, match="requires a budget: give a number of pulls"):
            machine_of(12, goal="budget").propose(UNLIMITED)


@long(ANSWERS, JOBS)  # see TestSure
class TestConformance(Ours):
    """The suite for all algorithms."""

    algorithm = "calibrated"
    delta = 0.3
    runs: ClassVar = 20
