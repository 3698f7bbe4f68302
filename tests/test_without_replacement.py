"""Evidence about the mean of finitely many rewards that are seen in a random order.

The martingale property is checked by exact enumeration: in whole numbers for rewards 0 and 1, and
over all orders of small populations for other rewards. Crossings are judged as in
`test_crossing.py`, with a false alarm of 5e-6 a check: 24 checks, so 1.2e-4 for the
module, once and for all, as the seeds are fixed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom

from oddarms.problem import FloatArray
from oddarms.statistics.binomial import most_errors
from oddarms.statistics.totals import relative_error
from oddarms.statistics.without_replacement import Evidence, mean_interval
from oddarms.testing import assert_error_rate

FALSE_ALARM = 5e-6
RUNS = 1500
ALPHAS = (0.2, 0.02)


def rising(start: Fraction, factors: int) -> Fraction:
    """Return start (start + 1) ... of so many factors."""
    return math.prod((start + i for i in range(factors)), start=Fraction(1))


def exact_evidence(N: int, t: int, S: int, M: int) -> Fraction:
    """Return E_t(M) for rewards 0 and 1: B(S + 1/2, F + 1/2)/pi is (1/2)_S (1/2)_F / t!."""
    half = Fraction(1, 2)
    mixture = rising(half, S) * rising(half, t - S) / math.factorial(t)
    return mixture * math.comb(N, M) / math.comb(N - t, M - S)


def evidence(N: float, t: float, S: float, M: float) -> float:
    rows, seen, total, level = (np.array([float(x)]) for x in (N, t, S, M))
    return math.exp(Evidence.of(rows, seen, total).at(level)[0])


class TestRewardsOfZeroAndOne:
    @pytest.mark.parametrize("N", [1, 2, 7])
    def test_it_is_a_martingale(self, N: int) -> None:
        """The next reward is 1 with probability (M - S)/(N - t); whole numbers, no rounding."""
        for M in range(N + 1):
            assert exact_evidence(N, 0, 0, M) == 1
            for t in range(N):
                for S in range(max(0, M - (N - t)), min(M, t) + 1):
                    p = Fraction(M - S, N - t)
                    now = exact_evidence(N, t, S, M)
                    after = sum(
                        chance * exact_evidence(N, t + 1, S + x, M)
                        for x, chance in ((1, p), (0, 1 - p))
                        if chance
                    )
                    # where all that are left are alike, the next one is no news, and costs
                    assert after == now if 0 < p < 1 else after < now

    @pytest.mark.parametrize("N", [1, 4, 9])
    def test_the_function_is_that_martingale(self, N: int) -> None:
        for M in range(N + 1):
            for t in range(N + 1):
                for S in range(max(0, M - (N - t)), min(M, t) + 1):
                    exact = float(exact_evidence(N, t, S, M))
                    assert evidence(N, t, S, M) == pytest.approx(exact, rel=1e-12)

    def test_it_is_the_ratio_of_prior_and_posterior(self) -> None:
        """As Waudby-Smith and Ramdas have it: beta-binomial probabilities of M, and of M - S."""
        from scipy.stats import betabinom

        prior = betabinom.pmf(30, 100, 0.5, 0.5)
        posterior = betabinom.pmf(30 - 9, 100 - 20, 9.5, 11.5)
        assert evidence(100, 20, 9, 30) == pytest.approx(prior / posterior, rel=1e-9)

    @pytest.mark.parametrize(
        ("N", "t", "S", "M"), [(20_000, 7_000, 3_000, 9_000), (5_000, 4_999, 1, 2), (9, 0, 0, 4)]
    )
    def test_the_error_bound_holds(self, N: int, t: int, S: int, M: int) -> None:
        exact = exact_evidence(N, t, S, M)
        log = math.log(exact.numerator) - math.log(exact.denominator)
        rows, seen, total, level = (np.array([float(x)]) for x in (N, t, S, M))
        found = Evidence.of(rows, seen, total)
        assert abs(found.at(level)[0] - log) <= found.error[0] < 1e-7


class TestRewardsBetweenZeroAndOne:
    @pytest.mark.parametrize(
        "population",
        [
            (0.2, 0.7, 1.0, 0.0, 0.45),
            (0.5, 0.5, 0.5, 0.5),
            (0.0, 0.0, 0.0, 0.3),
            (0.999, 1.0, 0.001),
        ],
    )
    def test_it_is_a_supermartingale_in_all_orders(self, population: tuple[float, ...]) -> None:
        """After every beginning, the average over what may come next is no more."""
        N, M = len(population), sum(population)
        fell = False
        for t in range(N):
            for begun in set(permutations(range(N), t)):
                S = sum(population[i] for i in begun)
                left = [population[i] for i in range(N) if i not in begun]
                now = evidence(N, t, S, max(M, S))
                after = sum(evidence(N, t + 1, S + x, max(M, S + x)) for x in left) / len(left)
                assert after <= now * (1.0 + 1e-12)
                fell = fell or after < now * (1.0 - 1e-3)
        assert fell  # it is no martingale: the chord lies above


POPULATIONS: dict[str, FloatArray] = {
    "coins": np.repeat([0.0, 1.0], 30),
    "rare ones": np.repeat([0.0, 1.0], [190, 10]),
    "many": np.repeat([0.0, 1.0], [700, 300]),
    "few": np.array([0.0, 0.0, 1.0, 1.0, 1.0]),
    "fractions": np.linspace(0.0, 1.0, 41) ** 2,
    "alike": np.full(50, 0.3),
}


@pytest.fixture(scope="module", params=POPULATIONS)
def paths(request: pytest.FixtureRequest) -> tuple[FloatArray, FloatArray]:
    """Return a population and the sums of all its beginnings, in many random orders."""
    population = POPULATIONS[request.param]
    rng = np.random.default_rng([8, *request.param.encode()])
    orders = rng.permuted(np.broadcast_to(population, (RUNS, population.size)), axis=1)
    return population, orders.cumsum(axis=1)


class TestCrossings:
    @pytest.mark.parametrize(("alpha", "detected"), [(0.2, 0.3), (0.02, 0.06)])
    def test_power(self, alpha: float, detected: float) -> None:
        """A process that crosses in 3 of 10 runs, or 6 of 100, is found out in 98 of 100 cases."""
        assert binom.sf(most_errors(RUNS, alpha, FALSE_ALARM), RUNS, detected) > 0.98

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_the_truth_is_rarely_excluded(
        self, paths: tuple[FloatArray, FloatArray], alpha: float
    ) -> None:
        population, sums = paths
        N, M = population.size, math.fsum(population)
        seen = np.broadcast_to(np.arange(1.0, N), (RUNS, N - 1)).ravel()
        total = np.minimum(sums[:, :-1].ravel(), M)
        found = Evidence.of(np.full(seen.size, float(N)), seen, total)
        value = found.at(np.full(seen.size, M))
        crossed = (value >= -math.log(alpha)).reshape(RUNS, -1).any(axis=1)
        assert_error_rate(int(crossed.sum()), RUNS, alpha, FALSE_ALARM)


def intervals(N: int, t: int, S: float, alpha: float, doubt: float = 0.0) -> tuple[float, float]:
    low, high = mean_interval(*(np.array([float(x)]) for x in (N, t, S, doubt)), alpha)
    return float(low[0]), float(high[0])


class TestIntervals:
    @pytest.mark.parametrize("N", [1, 7, 16])
    @pytest.mark.parametrize("alpha", [0.3, 0.01])
    def test_they_are_the_sums_that_are_not_excluded(self, N: int, alpha: float) -> None:
        for t in range(N + 1):
            for S in range(t + 1):
                low, high = intervals(N, t, S, alpha)
                possible = range(S, N - (t - S) + 1)
                kept = [M for M in possible if exact_evidence(N, t, S, M) * Fraction(alpha) < 1]
                assert low * N <= kept[0] < low * N + 1.0 + 1e-9
                assert high * N - 1.0 - 1e-9 < kept[-1] <= high * N
                assert low >= S / N - 1e-15
                assert high <= 1.0 - (t - S) / N + 1e-15

    def test_nothing_seen_and_all_seen(self) -> None:
        assert intervals(9, 0, 0.0, 0.1) == (0.0, 1.0)
        low, high = intervals(9, 9, 4.0, 0.1)
        assert low < 4 / 9 < high
        assert high - low < 1e-15

    def test_they_are_mirrored_with_the_rewards(self) -> None:
        low, high = intervals(60, 25, 7.3, 0.05)
        other_low, other_high = intervals(60, 25, 25 - 7.3, 0.05)
        assert (other_low, other_high) == pytest.approx((1.0 - high, 1.0 - low), abs=1e-12)

    def test_doubt_widens_them(self) -> None:
        sharp, vague = intervals(60, 25, 7.3, 0.05), intervals(60, 25, 7.3, 0.05, 0.01)
        assert vague[0] < sharp[0]
        assert sharp[1] < vague[1]
        all_seen = intervals(60, 60, 7.3, 0.05, 0.01)
        assert all_seen == pytest.approx((7.29 / 60, 7.31 / 60), abs=1e-12)

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_they_miss_rarely(self, paths: tuple[FloatArray, FloatArray], alpha: float) -> None:
        """At a dozen times of every run, with the sums as rounding left them."""
        population, sums = paths
        N = population.size
        times = np.unique(np.linspace(1, N, 12).astype(int))
        total = sums[:, times - 1].ravel()
        seen = np.broadcast_to(times.astype(float), (RUNS, times.size)).ravel()
        doubt = relative_error(seen) * seen
        low, high = mean_interval(np.full(seen.size, float(N)), seen, total, doubt, alpha)
        mean = math.fsum(population) / N
        missed = ((low > mean) | (high < mean)).reshape(RUNS, -1).any(axis=1)
        assert_error_rate(int(missed.sum()), RUNS, alpha, FALSE_ALARM)
