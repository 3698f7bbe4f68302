"""The time-uniform evidence: by hand, by finite differences, and against the wealth of samples.

How rarely it misleads is checked in test_crossing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from oddarms.problem import FloatArray
from oddarms.statistics.evidence import (
    BETA_SHARE,
    BETS,
    LOG_SHARES,
    degenerate_bound,
    log_bets,
    log_evidence,
    log_jeffreys,
    log_mean_above,
    log_mean_below,
    log_mix,
    mean_interval,
    normal_mixture_boundary,
    psi_exponential,
    sample_above,
    sample_below,
    square_boundary,
    surely_above,
    surely_below,
    wide_mean_interval,
)
from oddarms.statistics.totals import scatter_of

Three = tuple[FloatArray, FloatArray, FloatArray]
FRACTIONS = BETS[:, 0]
SHARES = np.exp(LOG_SHARES[:, 0])


def moments(rewards: FloatArray) -> Three:
    """Return pulls, sums and squared deviations of samples along the last axis."""
    pulls, total = np.full(rewards.shape[:-1], float(rewards.shape[-1])), rewards.sum(-1)
    return pulls, total, ((rewards - (total / pulls)[..., None]) ** 2).sum(-1)


def tallies(seed: int, cases: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return N, S and the scatter of random samples of Beta rewards, and a level for each."""
    rng = np.random.default_rng(seed)
    rows = [rng.beta(*rng.uniform(0.2, 5.0, 2), rng.integers(1, 60)) for _ in range(cases)]
    pulls, total, scatter = np.array([[x.size, x.sum(), x.var() * x.size] for x in rows]).T
    return pulls, total, scatter, rng.uniform(0.02, 0.98, cases)


def wealth_below(tally: Three, level: float) -> FloatArray:
    """Return the wealth of each bet on one arm's mean being below a level."""
    logs = log_bets(sample_below(*tally), np.array([1.0 - level])) - LOG_SHARES
    wealth: FloatArray = np.exp(logs[:, 0])
    return wealth


def jeffreys(pulls: float, total: float, level: float) -> float:
    """Return the Jeffreys mixture of one arm, the same from either side."""
    tally = np.array([pulls]), np.array([total]), np.zeros(1)
    above = log_jeffreys(sample_above(*tally), np.array([level]))
    below = log_jeffreys(sample_below(*tally), np.array([1.0 - level]))
    np.testing.assert_allclose(above, below, rtol=1e-12, atol=1e-12)
    return float(np.exp(above[0]))


def log_normal_mixture(S: FloatArray, V: FloatArray, rho: float) -> FloatArray:
    """Return the log of the mixture of exp(l S - l^2 V / 2) over l ~ |N(0, 1/rho)|."""
    x = S / np.sqrt(V + rho)
    log: FloatArray = math.log(2.0) + 0.5 * np.log(rho / (V + rho)) + x * x / 2.0 + norm.logcdf(x)
    return log


class TestByHand:
    def test_normal_mixture_boundary(self) -> None:
        # V = 3, rho = 1, alpha = 1/2: sqrt(2 * 4 * log(sqrt(4) / 1 + 1)) = sqrt(8 log 3)
        expected = math.sqrt(8.0 * math.log(3.0))
        assert normal_mixture_boundary(3.0, 0.5, 1.0) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("alpha", [0.5, 0.1, 1e-3, 1e-9])
    def test_the_boundary_is_at_least_the_inverse(self, alpha: float) -> None:
        V = np.geomspace(1e-3, 1e6, 50)
        at_boundary = log_normal_mixture(normal_mixture_boundary(V, alpha, 0.3), V, 0.3)
        assert (at_boundary >= -math.log(alpha)).all()
        assert (at_boundary <= -math.log(alpha) + 0.6).all()  # and hardly more
        assert (np.diff(normal_mixture_boundary(V, alpha, 0.3)) > 0).all()

    def test_square_boundary_at_one_moment(self) -> None:
        sums = 3.0 * np.random.default_rng(1).normal(size=(50_000, 6))
        assert ((sums**2).sum(1) > square_boundary(6, 9.0, 0.05)).mean() < 0.05

    def test_jeffreys_mixture(self) -> None:
        # B(1/2, 1/2) = pi, B(3/2, 1/2) = pi/2, B(5/2, 1/2) = 3 pi/8, B(3/2, 3/2) = pi/8
        # N=1, S=1, q=1/2: (1/2) / (1/2) = 1
        assert jeffreys(1.0, 1.0, 0.5) == pytest.approx(1.0, rel=1e-12)
        # N=2, S=2, q=1/2: (3/8) / (1/4) = 3/2
        assert jeffreys(2.0, 2.0, 0.5) == pytest.approx(1.5, rel=1e-12)
        # N=2, S=1, q=1/2: (1/8) / (1/4) = 1/2
        assert jeffreys(2.0, 1.0, 0.5) == pytest.approx(0.5, rel=1e-12)
        # N=1, S=0, q=1/4: (1/2) / (3/4) = 2/3
        assert jeffreys(1.0, 0.0, 0.25) == pytest.approx(2.0 / 3.0, rel=1e-12)

    def test_psi(self) -> None:
        # -log(1 - 1/2) - 1/2 = log 2 - 1/2, and -log(1 - 0) - 0 = 0
        expected = [0.0, math.log(2.0) - 0.5]
        np.testing.assert_allclose(psi_exponential(np.array([0.0, 0.5])), expected, atol=1e-15)
        assert np.isinf(psi_exponential(np.array([0.999, 1.0, 7.0]))).all()

    def test_psi_of_small_bets_is_at_least_the_series(self) -> None:
        x = np.geomspace(1e-12, 0.01, 200)
        series = sum(x**power / power for power in range(2, 12))
        assert (psi_exponential(x) >= series * (1.0 - 1e-9)).all()
        assert (psi_exponential(x) <= series * (1.0 + 1e-6)).all()

    def test_the_weights_of_the_bets_add_up(self) -> None:
        assert SHARES.sum() + BETA_SHARE == pytest.approx(1.0, abs=1e-12)
        assert ((FRACTIONS > 0.0) & (FRACTIONS < 1.0)).all()

    def test_wealth_of_two_values_in_between(self) -> None:
        # X = 1/4, 3/4: mean 1/2, variance 1/16. On 1 and v: share (1/16) / (1/16 + 1/4) = 1/5,
        # v = 1/2 - (1/16) / (1/2) = 3/8. At q = 1/2 the bound is
        # ((1 - l)^(1/5) (1 + l (1/2 - 3/8) / (1/2))^(4/5))^2 = (1 - l)^(2/5) (1 + l/4)^(8/5)
        bound = (1.0 - FRACTIONS) ** 0.4 * (1.0 + FRACTIONS / 4.0) ** 1.6
        wealth = wealth_below(moments(np.array([[0.25, 0.75]])), 0.5)
        np.testing.assert_allclose(wealth, bound, rtol=1e-12)
        assert (bound <= 1.0 - FRACTIONS**2 / 4.0).all()  # (1 + l/2) (1 - l/2), the truth

    def test_evidence_is_the_mixture_of_both(self) -> None:
        tally, q = moments(np.array([[0.0, 0.25, 0.5]])), 0.6
        expected = SHARES @ wealth_below(tally, q) + BETA_SHARE * jeffreys(3.0, 0.75, q)
        found = np.exp(log_mean_below(*tally, np.array([q]))[0])
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_evidence_above_mirrors_below(self) -> None:
        x, q = np.array([[0.1, 0.4, 0.9, 0.9]]), np.array([0.3])
        above, slope = log_mean_above(*moments(x), q)
        below, mirrored = log_mean_below(*moments(1.0 - x), 1.0 - q)
        np.testing.assert_allclose(above, below, rtol=1e-12)
        np.testing.assert_allclose(slope, -mirrored, rtol=1e-12)

    def test_log_mix(self) -> None:
        # log(1/4 + 3/4 e^2) and the weighted slope (1/4 * 5 + 3/4 e^2 * 1) / (1/4 + 3/4 e^2)
        # a bet that is lost for certain counts for nothing
        logs = np.array([[math.log(0.25)], [math.log(0.75) + 2.0], [-np.inf]])
        value, slope = log_mix(logs, np.array([[5.0], [1.0], [7.0]]))
        total = 0.25 + 0.75 * math.e**2
        assert value[0] == pytest.approx(math.log(total))
        assert slope[0] == pytest.approx((1.25 + 0.75 * math.e**2) / total)

    @pytest.mark.parametrize("n", [2, 20, 1000])
    @pytest.mark.parametrize("alpha", [0.1, 1e-6])
    def test_degenerate_bound_at_the_optimum(self, n: int, alpha: float) -> None:
        kappa = 1.0 / (4.0 * math.sqrt(3 * 7))

        def objective(x: float) -> float:
            return kappa * (math.log(1 / alpha) - (n - 1) / 2 * math.log(1 - x * x)) / x

        best = minimize_scalar(objective, bounds=(1e-6, 1 - 1e-9), method="bounded").fun
        found = degenerate_bound(n, 3, 7, alpha)
        assert best * (1 - 1e-9) <= found <= best * 1.01


class TestSlopesAndConvexity:
    @pytest.mark.parametrize("function", [log_mean_below, log_mean_above])
    def test_slopes_are_derivatives(self, function: Callable[..., Any]) -> None:
        *tally, q = tallies(seed=1, cases=200)
        h = 1e-6
        difference = (function(*tally, q + h)[0] - function(*tally, q - h)[0]) / (2 * h)
        np.testing.assert_allclose(function(*tally, q)[1], difference, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("side", [sample_below, sample_above])
    def test_convex_in_the_level_with_every_part(self, side: Callable[..., Any]) -> None:
        *tally, _ = tallies(seed=4, cases=100)
        sample = side(*tally)
        rooms = [np.full(100, room) for room in np.linspace(0.01, 0.99, 99)]
        bets = np.array([log_bets(sample, room) for room in rooms])
        mixtures = np.array([log_jeffreys(sample, room) for room in rooms])
        together = np.array([log_evidence(sample, room)[0] for room in rooms])
        assert (np.diff(bets, axis=0) <= 1e-9).all()  # and a bet gains as the room falls
        for values in (bets, mixtures, together):
            assert (np.diff(values, 2, axis=0) >= -1e-9 * (1 + np.abs(values[1:-1]))).all()


class TestWealthBound:
    def true_wealth(self, x: FloatArray, q: float) -> FloatArray:
        steps = 1.0 + BETS * (q - x) / (1.0 - q)
        wealth: FloatArray = np.prod(steps, axis=1)
        return wealth

    def test_below_the_wealth_of_every_sample(self) -> None:
        rng = np.random.default_rng(5)
        for _ in range(300):
            x, q = rng.beta(*rng.uniform(0.2, 5.0, 2), rng.integers(1, 30)), rng.uniform(0.05, 0.95)
            assert (wealth_below(moments(x[None]), q) <= self.true_wealth(x, q) * (1 + 1e-9)).all()

    def test_exact_for_zeros_and_ones(self) -> None:
        rng = np.random.default_rng(6)
        for _ in range(100):
            x, q = (rng.random(20) < rng.random()).astype(float), rng.uniform(0.05, 0.95)
            wealth = wealth_below(moments(x[None]), q)
            np.testing.assert_allclose(wealth, self.true_wealth(x, q), rtol=1e-9)
            above = log_bets(sample_above(*moments(1.0 - x[None])), np.array([1.0 - q]))
            np.testing.assert_allclose(np.exp(above - LOG_SHARES)[:, 0], wealth, rtol=1e-9)

    def test_more_scatter_and_less_gap_never_pay(self) -> None:
        """As the docstring proves; rounding moves both in that direction."""
        pulls, total, scatter, q = tallies(seed=7, cases=200)
        sure = log_bets(sample_below(pulls, total, scatter), 1.0 - q)
        for more, higher in ((1.01, 0.0), (1.0, 0.01), (3.0, 0.1)):
            shifted = np.minimum(total + higher * pulls, pulls)
            doubtful = log_bets(sample_below(pulls, shifted, more * scatter), 1.0 - q)
            assert (doubtful <= sure + 1e-9).all()

    @pytest.mark.parametrize(
        ("scale", "near_one"),
        [(1e-40, False), *product([1.0, 1e-4, 1e-8, 1e-12], [False, True])],
    )
    def test_rewards_that_are_tiny_against_their_bounds(self, scale: float, near_one: bool) -> None:
        """Bets on a mean above q win by what is tiny: prod (1 + l (X - q)/q), at any scale.

        Seen in a mirror 1 - X has lost digits, and no wealth may come of it.
        """
        rng = np.random.default_rng(18)
        for _ in range(100):
            x = scale * rng.exponential(0.02, int(rng.integers(1, 60))).clip(0.0, 1.0)
            q = np.array([scale * rng.uniform(0.005, 0.04)])
            seen = 1.0 - x if near_one else x
            count, total = np.array([float(x.size)]), np.array([seen.sum()])
            scatter = scatter_of(count, total, np.array([(seen * seen).sum()]))
            truth = np.log(np.prod(1.0 + BETS * (x - q) / q, axis=1))
            sample = (sample_below if near_one else sample_above)(count, total, scatter)
            slack = x.size * 2e-16 / q[0] if near_one else 0.0  # of the level itself
            assert ((log_bets(sample, q) - LOG_SHARES)[:, 0] <= truth + slack + 1e-9).all()
            mixture = float(np.exp(log_jeffreys(sample, q)[0]))
            most = math.log(SHARES @ np.exp(truth + slack) + BETA_SHARE * mixture)
            assert log_evidence(sample, q)[0][0] <= most + 1e-9

    def test_a_small_variance_pays(self) -> None:
        q, steady, coin = np.array([0.5]), np.full((1, 100), 0.4), np.zeros((1, 100))
        coin[0, :40] = 1.0
        assert log_mean_below(*moments(steady), q)[0] > log_mean_below(*moments(coin), q)[0] + 5.0


class TestStability:
    @pytest.mark.parametrize("pulls", [1.0, 1e3, 1e9])
    def test_no_nan_for_any_mean(self, pulls: float) -> None:
        mean, q = map(
            np.ravel,
            np.meshgrid(
                [0.0, 1 / pulls, 1e-9, 0.3, 0.5, 1 - 1e-9, 1.0], [1e-9, 1e-3, 0.5, 0.999, 1 - 1e-9]
            ),
        )
        N = np.full(mean.size, pulls)
        for scatter in (mean * (1.0 - mean) * pulls, 0.0 * N):  # 0/1 rewards, and constant ones
            for function in (log_mean_below, log_mean_above):
                value, slope = function(N, mean * pulls, scatter, q)
                assert np.isfinite(value).all()
                assert np.isfinite(slope).all()
            low, high = mean_interval(N, mean * pulls, scatter, 1e-6)
            assert ((low >= 0.0) & (low <= mean) & (mean <= high) & (high <= 1.0)).all()
            if pulls == 1e9:
                assert (high - low < 2e-3).all()

    def test_a_clear_case_grows_with_the_pulls(self) -> None:
        # KL(0 | 1/2) = log 2 a pull, less (1/2) log(pi N) and the log of the mixture's weight
        N = np.array([1e9])
        value, _ = log_mean_below(N, np.zeros(1), np.zeros(1), np.array([0.5]))
        expected = 1e9 * math.log(2.0) - 0.5 * math.log(math.pi * 1e9) + math.log(BETA_SHARE)
        assert value[0] == pytest.approx(expected, rel=1e-12)


class TestMeanInterval:
    def test_ends_of_tiny_means(self) -> None:
        """A lower end is found as well at 1e-9 as at 1e-2, and an upper one is no lower."""
        x = np.random.default_rng(20).exponential(0.01, (20, 200)).clip(0.0, 1.0)
        widest = mean_interval(*moments(x), 0.1)
        for scale in (1e-4, 1e-7, 1e-30):
            low, high = mean_interval(*moments(scale * x), 0.1)
            np.testing.assert_allclose(low / scale, widest[0], rtol=0.02)
            assert (low <= scale * x.mean(axis=1)).all()
            assert (high > scale * x.mean(axis=1)).all()

    def test_never_narrower_than_the_exact_inversion(self) -> None:
        pulls, total, scatter, _ = tallies(seed=8, cases=100)
        alpha = 0.05
        low, high = mean_interval(pulls, total, scatter, alpha)
        target = math.log(2.0 / alpha)
        for i in range(pulls.size):
            tally = pulls[i : i + 1], total[i : i + 1], scatter[i : i + 1]

            def excess(q: float, function: Any, tally: Any = tally) -> float:
                return float(function(*tally, np.array([q]))[0][0]) - target

            mean = total[i] / pulls[i]
            ends = [
                (log_mean_above, 1e-9, mean, 0.0),
                (log_mean_below, 1.0 - 1e-9, mean, 1.0),
            ]
            exact = [
                brentq(excess, *sorted((outer, inner)), args=(function,))
                if excess(outer, function) > 0.0
                else edge
                for function, outer, inner, edge in ends
            ]
            assert low[i] <= exact[0] + 1e-9
            assert high[i] >= exact[1] - 1e-9
            assert exact[0] - low[i] < 2.0**-11
            assert high[i] - exact[1] < 2.0**-11

    def test_without_pulls(self) -> None:
        low, high = mean_interval(np.array([0.0, 4.0]), np.zeros(2), np.zeros(2), 0.1)
        assert (low[0], high[0]) == (0.0, 1.0)
        assert high[1] < 1.0

    def test_the_wide_intervals_contain_the_others(self) -> None:
        pulls, total, scatter, _ = tallies(seed=17, cases=200)
        pulls, total, scatter = (np.append(x, 0.0) for x in (pulls, total, scatter))
        for alpha in (0.5, 1e-5):
            low, high = mean_interval(pulls, total, scatter, alpha)
            wide_low, wide_high = wide_mean_interval(pulls, total, alpha)
            assert (wide_low <= low).all()
            assert (wide_high >= high).all()
            assert (wide_low[-1], wide_high[-1]) == (0.0, 1.0)

    @pytest.mark.parametrize("level", [1e-3, 0.05, 0.3, 0.5, 0.9, 0.999])
    @pytest.mark.parametrize("alpha", [0.5, 1e-5])
    def test_which_side_of_a_level_they_lie_on(self, level: float, alpha: float) -> None:
        """It is told from the evidence at the level, also of arms that are skipped by a bound."""
        pulls, total, scatter, _ = tallies(seed=18, cases=2000)
        mean, target, levels = total / pulls, math.log(2.0 / alpha), np.full(pulls.size, level)
        below = surely_below(pulls, total, scatter, level, alpha)
        above = surely_above(pulls, total, scatter, level, alpha)
        evidence = log_mean_below(pulls, total, scatter, levels)[0]
        assert (below == (mean < level) & (evidence >= target)).all()
        evidence = log_mean_above(pulls, total, scatter, levels)[0]
        assert (above == (mean > level) & (evidence >= target)).all()
        low, high = mean_interval(pulls, total, scatter, alpha)
        assert below[high < level].all()
        assert above[low >= level].all()

    def test_no_level_is_beyond_the_ends(self) -> None:
        arms = np.array([0.0, 9.0, 9.0]), np.array([0.0, 0.0, 9.0]), np.zeros(3)
        for level, below, above in ((1.1, True, False), (-0.1, False, True), (0.0, False, True)):
            assert (surely_below(*arms, level, 0.1) == below).all()
            assert (surely_above(*arms, level, 0.1) == above).all()
        assert not surely_below(*arms, math.nan, 0.1).any()
        assert not surely_above(*arms, math.nan, 0.1).any()
        assert surely_below(*arms, 1.0, 0.1).tolist() == [False, True, False]


def test_seen_variance_exactly() -> None:
    """E exp(l (X - EX) - psi(l) (X - h)^2) <= 1 for every 0/1 reward, by its two terms."""
    p, h, bet = np.meshgrid(
        np.linspace(0, 1, 41), np.linspace(0, 1, 21), np.linspace(0, 0.99, 34), indexing="ij"
    )
    psi = psi_exponential(bet)
    for sign in (1.0, -1.0):
        one = np.exp(sign * bet * (1 - p) - psi * (1 - h) ** 2)
        zero = np.exp(-sign * bet * p - psi * h**2)
        assert (p * one + (1 - p) * zero <= 1.0 + 1e-12).all()
