"""The time-uniform evidence: by hand, by finite differences, and against the wealth of samples.

How rarely it misleads is checked in test_crossing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from oddarms.problem import FloatArray
from oddarms.statistics.evidence import (
    BETS,
    beta_mixture_slope,
    degenerate_bound,
    log_beta_mixture,
    log_bets_below,
    log_mean_above,
    log_mean_below,
    log_mix,
    log_normal_mixture,
    mean_interval,
    normal_mixture_boundary,
    normal_mixture_slope,
    psi_exponential,
    wide_mean_interval,
)
from oddarms.statistics.totals import scatter_of


def moments(rewards: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return pulls, sums and squared deviations of samples along the last axis."""
    pulls, total = np.full(rewards.shape[:-1], float(rewards.shape[-1])), rewards.sum(-1)
    return pulls, total, ((rewards - (total / pulls)[..., None]) ** 2).sum(-1)


def tallies(seed: int, cases: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return N, S and the scatter of random samples of Beta rewards, and a level for each."""
    rng = np.random.default_rng(seed)
    rows = [rng.beta(*rng.uniform(0.2, 5.0, 2), rng.integers(1, 60)) for _ in range(cases)]
    pulls, total, scatter = np.array([[x.size, x.sum(), x.var() * x.size] for x in rows]).T
    return pulls, total, scatter, rng.uniform(0.02, 0.98, cases)


class TestByHand:
    def test_a_mixture_starts_at_one(self) -> None:
        # x = 0: log 2 + (1/2) log 1 + 0 + log Phi(0) = log 2 + log(1/2) = 0
        assert log_normal_mixture(0.0, 0.0, 0.7) == pytest.approx(0.0, abs=1e-15)

    def test_normal_mixture(self) -> None:
        # S = 3, V = 3, rho = 1: V + rho = 4, x = 3/2,
        # log 2 + (1/2) log(1/4) = 0, x^2 / 2 = 9/8, Phi(3/2) = 0.93319279873
        expected = 1.125 + math.log(0.9331927987311419)
        assert log_normal_mixture(3.0, 3.0, 1.0) == pytest.approx(expected, rel=1e-12)

    def test_normal_mixture_is_the_integral(self) -> None:
        S, V, rho = 1.7, 2.3, 0.6
        grid = np.linspace(0.0, 30.0, 300_001)
        density = 2.0 * np.sqrt(rho / (2.0 * np.pi)) * np.exp(-0.5 * rho * grid**2)
        integral = (density * np.exp(grid * S - 0.5 * grid**2 * V))[1:].sum() * grid[1]
        assert log_normal_mixture(S, V, rho) == pytest.approx(math.log(integral), abs=1e-4)

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

    def test_beta_mixture(self) -> None:
        # B(1/2, 1/2) = pi, B(3/2, 1/2) = pi/2, B(5/2, 1/2) = 3 pi/8, B(3/2, 3/2) = pi/8
        # N=1, S=1, q=1/2: (1/2) / (1/2) = 1
        assert log_beta_mixture(1.0, 1.0, 0.5) == pytest.approx(0.0, abs=1e-12)
        # N=2, S=2, q=1/2: (3/8) / (1/4) = 3/2
        assert log_beta_mixture(2.0, 2.0, 0.5) == pytest.approx(math.log(1.5), rel=1e-12)
        # N=2, S=1, q=1/2: (1/8) / (1/4) = 1/2
        assert log_beta_mixture(2.0, 1.0, 0.5) == pytest.approx(math.log(0.5), rel=1e-12)
        # N=1, S=0, q=1/4: (1/2) / (3/4) = 2/3
        assert log_beta_mixture(1.0, 0.0, 0.25) == pytest.approx(math.log(2.0 / 3.0), rel=1e-12)

    def test_beta_mixture_without_pulls(self) -> None:
        np.testing.assert_allclose(log_beta_mixture(np.zeros(3), np.zeros(3), 0.3), 0.0, atol=1e-12)

    def test_psi(self) -> None:
        # -log(1 - 1/2) - 1/2 = log 2 - 1/2, and -log(1 - 0) - 0 = 0
        expected = [0.0, math.log(2.0) - 0.5]
        np.testing.assert_allclose(psi_exponential(np.array([0.0, 0.5])), expected, atol=1e-15)
        assert np.isinf(psi_exponential(np.array([0.999, 1.0, 7.0]))).all()

    def test_wealth_after_one_zero(self) -> None:
        # X = 0, q = 1/3: 1 + l (1/3) / (2/3) = 1 + l/2
        value, _ = log_bets_below(*moments(np.zeros((1, 1))), np.array([1.0 / 3.0]))
        assert value[0] == pytest.approx(math.log((1.0 + BETS / 2.0).mean()), rel=1e-12)

    def test_wealth_after_a_zero_and_a_one(self) -> None:
        # q = 1/2: (1 + l) (1 - l) = 1 - l^2
        value, _ = log_bets_below(*moments(np.array([[0.0, 1.0]])), np.array([0.5]))
        assert value[0] == pytest.approx(math.log((1.0 - BETS**2).mean()), rel=1e-12)

    def test_wealth_of_two_values_in_between(self) -> None:
        # X = 1/4, 3/4: mean 1/2, variance 1/16. On 1 and v: share (1/16) / (1/16 + 1/4) = 1/5,
        # v = 1/2 - (1/16) / (1/2) = 3/8. At q = 1/2 the bound is
        # ((1 - l)^(1/5) (1 + l (1/2 - 3/8) / (1/2))^(4/5))^2 = (1 - l)^(2/5) (1 + l/4)^(8/5)
        value, _ = log_bets_below(*moments(np.array([[0.25, 0.75]])), np.array([0.5]))
        bound = (1.0 - BETS) ** 0.4 * (1.0 + BETS / 4.0) ** 1.6
        truth = 1.0 - BETS**2 / 4.0  # (1 + l/2) (1 - l/2)
        assert value[0] == pytest.approx(math.log(bound.mean()), rel=1e-12)
        assert (bound <= truth).all()

    def test_evidence_below_is_the_mean_of_both(self) -> None:
        tally, q = moments(np.array([[0.0, 0.25, 0.5]])), np.array([0.6])
        wealth = np.exp(log_bets_below(*tally, q)[0])
        mixture = np.exp(log_beta_mixture(tally[0], tally[1], q))
        np.testing.assert_allclose(np.exp(log_mean_below(*tally, q)[0]), (wealth + mixture) / 2)

    def test_evidence_above_mirrors_below(self) -> None:
        x, q = np.array([[0.1, 0.4, 0.9, 0.9]]), np.array([0.3])
        above, slope = log_mean_above(*moments(x), q)
        below, mirrored = log_mean_below(*moments(1.0 - x), 1.0 - q)
        np.testing.assert_allclose(above, below, rtol=1e-12)
        np.testing.assert_allclose(slope, -mirrored, rtol=1e-12)

    def test_log_mix(self) -> None:
        # log(1/4 + 3/4 e^2) and the weighted slope (1/4 * 5 + 3/4 e^2 * 1) / (1/4 + 3/4 e^2)
        logs = np.array([[math.log(0.25), math.log(0.75) + 2.0], [-np.inf, -np.inf]])
        value, slope = log_mix(logs[:1], np.array([[5.0, 1.0]]))
        total = 0.25 + 0.75 * math.e**2
        assert value[0] == pytest.approx(math.log(total))
        assert slope[0] == pytest.approx((1.25 + 0.75 * math.e**2) / total)
        assert log_mix(logs, np.ones((2, 2)))[0][1] == -np.inf

    @pytest.mark.parametrize("n", [2, 20, 1000])
    @pytest.mark.parametrize("alpha", [0.1, 1e-6])
    def test_degenerate_bound_at_the_optimum(self, n: int, alpha: float) -> None:
        kappa = 1.0 / (4.0 * math.sqrt(3 * 7))

        def objective(x: float) -> float:
            return kappa * (math.log(1 / alpha) - (n - 1) / 2 * math.log(1 - x * x)) / x

        best = minimize_scalar(objective, bounds=(1e-6, 1 - 1e-9), method="bounded").fun
        found = degenerate_bound(n, 3, 7, alpha)
        assert best * (1 - 1e-9) <= found <= best * 1.01

    def test_degenerate_bound_of_one_dimension(self) -> None:
        # n = 2, m = 1: kappa = 1/4. At x = 1/2: (1/4) (log 10 + (1/2) log(4/3)) / (1/2)
        at_half = 0.5 * (math.log(10.0) + 0.5 * math.log(4.0 / 3.0))
        assert degenerate_bound(2, 1, 1, 0.1) <= at_half


class TestSlopesAndConvexity:
    @pytest.mark.parametrize("function", [log_bets_below, log_mean_below, log_mean_above])
    def test_slopes_are_derivatives(self, function: Callable[..., Any]) -> None:
        *tally, q = tallies(seed=1, cases=200)
        h = 1e-6
        difference = (function(*tally, q + h)[0] - function(*tally, q - h)[0]) / (2 * h)
        np.testing.assert_allclose(function(*tally, q)[1], difference, rtol=1e-4, atol=1e-4)

    def test_beta_mixture_slope(self) -> None:
        pulls, total, _, q = tallies(seed=2, cases=200)
        h = 1e-6
        higher, lower = (log_beta_mixture(pulls, total, q + s) for s in (h, -h))
        difference = (higher - lower) / (2 * h)
        np.testing.assert_allclose(
            beta_mixture_slope(pulls, total, q), difference, rtol=1e-4, atol=1e-4
        )

    def test_normal_mixture_slope(self) -> None:
        S, h = np.linspace(-30.0, 30.0, 61), 1e-5
        for V, rho in ((0.1, 1.0), (5.0, 0.2), (100.0, 30.0)):
            difference = (log_normal_mixture(S + h, V, rho) - log_normal_mixture(S - h, V, rho)) / (
                2 * h
            )
            np.testing.assert_allclose(
                normal_mixture_slope(S, V, rho), difference, rtol=1e-5, atol=1e-7
            )

    @pytest.mark.parametrize("function", [log_bets_below, log_mean_below, log_mean_above])
    def test_convex_in_the_level(self, function: Callable[..., Any]) -> None:
        *tally, _ = tallies(seed=3, cases=100)
        levels = np.linspace(0.01, 0.99, 99)
        values = np.array([function(*tally, np.full(100, q))[0] for q in levels])
        assert (np.diff(values, 2, axis=0) >= -1e-9 * (1 + np.abs(values[1:-1]))).all()

    def test_normal_mixture_is_convex_and_rises(self) -> None:
        values = log_normal_mixture(np.linspace(-20.0, 40.0, 400), 3.0, 1.0)
        assert (np.diff(values) > 0).all()
        assert (np.diff(values, 2) >= -1e-9).all()

    def test_normal_mixture_falls_with_the_variance(self) -> None:
        for S in (-2.0, 0.0, 4.0):
            assert (np.diff(log_normal_mixture(S, np.linspace(0.0, 30.0, 200), 1.0)) <= 0).all()

    def test_bets_rise_with_the_level(self) -> None:
        *tally, q = tallies(seed=4, cases=200)
        assert (log_bets_below(*tally, q)[1] >= -1e-9).all()


class TestWealthBound:
    def true_wealth(self, x: FloatArray, q: float) -> float:
        steps = 1.0 + BETS[:, None] * (q - x) / (1.0 - q)
        return float(np.log(np.prod(steps, axis=1).mean()))

    def test_below_the_wealth_of_every_sample(self) -> None:
        rng = np.random.default_rng(5)
        for _ in range(300):
            x, q = rng.beta(*rng.uniform(0.2, 5.0, 2), rng.integers(1, 30)), rng.uniform(0.05, 0.95)
            bound = log_bets_below(*moments(x[None]), np.array([q]))[0][0]
            assert bound <= self.true_wealth(x, q) + 1e-9

    def test_exact_for_zeros_and_ones(self) -> None:
        rng = np.random.default_rng(6)
        for _ in range(100):
            x, q = (rng.random(20) < rng.random()).astype(float), rng.uniform(0.05, 0.95)
            bound = log_bets_below(*moments(x[None]), np.array([q]))[0][0]
            assert bound == pytest.approx(self.true_wealth(x, q), abs=1e-9)

    @pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-8, 1e-12, 1e-40])
    def test_rewards_that_are_tiny_against_their_bounds(self, scale: float) -> None:
        """Bets on a mean above q win by what is tiny: prod (1 + l (X - q)/q), at any scale."""
        rng = np.random.default_rng(18)
        for _ in range(100):
            x = scale * rng.exponential(0.02, int(rng.integers(1, 60))).clip(0.0, 1.0)
            q = np.array([scale * rng.uniform(0.005, 0.04)])
            count, total = np.array([float(x.size)]), np.array([x.sum()])
            scatter = scatter_of(count, total, np.array([(x * x).sum()]))
            wealth = np.prod(1.0 + BETS[:, None] * (x - q) / q, axis=1).mean()
            mixture = math.exp(float(log_beta_mixture(count, total, q)[0]))
            most = math.log(0.5 * (wealth + mixture))
            assert log_mean_above(count, total, scatter, q)[0][0] <= most + 1e-9

    @pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-8, 1e-12])
    def test_rewards_that_are_near_one(self, scale: float) -> None:
        """The same seen in a mirror: 1 - X has lost digits, and no wealth may come of it."""
        rng = np.random.default_rng(19)
        for _ in range(100):
            gap = scale * rng.exponential(0.02, int(rng.integers(1, 60))).clip(0.0, 1.0)
            x, room = 1.0 - gap, scale * rng.uniform(0.005, 0.04)
            count, total = np.array([float(x.size)]), np.array([x.sum()])
            scatter = scatter_of(count, total, np.array([(x * x).sum()]))
            wealth = np.prod(1.0 + BETS[:, None] * (gap - room) / room, axis=1).mean()
            bound = log_bets_below(count, total, scatter, 1.0 - np.array([room]))[0][0]
            slack = x.size * 2e-16 / room  # of the level itself
            assert bound <= math.log(wealth) + slack + 1e-9

    def test_a_small_variance_pays(self) -> None:
        q, steady, coin = np.array([0.5]), np.full((1, 100), 0.4), np.zeros((1, 100))
        coin[0, :40] = 1.0
        assert log_bets_below(*moments(steady), q)[0] > log_bets_below(*moments(coin), q)[0] + 5.0


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
            for function in (log_mean_below, log_mean_above, log_bets_below):
                value, slope = function(N, mean * pulls, scatter, q)
                assert np.isfinite(value).all()
                assert np.isfinite(slope).all()
            low, high = mean_interval(N, mean * pulls, scatter, 1e-6)
            assert ((low >= 0.0) & (low <= mean) & (mean <= high) & (high <= 1.0)).all()
            if pulls == 1e9:
                assert (high - low < 2e-3).all()

    def test_levels_at_the_ends(self) -> None:
        # log(level) = -inf times no pulls is 0, and against a level the rewards exclude, infinite
        assert log_beta_mixture(3.0, 0.0, 0.0) == pytest.approx(math.log(5 / 16))
        assert log_beta_mixture(3.0, 3.0, 1.0) == pytest.approx(math.log(5 / 16))
        assert log_beta_mixture(3.0, 1.0, 0.0) == np.inf
        assert log_beta_mixture(3.0, 1.0, 1.0) == np.inf

    def test_a_clear_case_grows_with_the_pulls(self) -> None:
        # KL(0 | 1/2) = log 2 a pull, less (1/2) log(pi N) and the log 2 of the mixture
        N = np.array([1e9])
        value, _ = log_mean_below(N, np.zeros(1), np.zeros(1), np.array([0.5]))
        expected = 1e9 * math.log(2.0) - 0.5 * math.log(math.pi * 1e9) - math.log(2.0)
        assert value[0] == pytest.approx(expected, rel=1e-12)

    def test_normal_mixture_far_out(self) -> None:
        values = log_normal_mixture(np.array([-1e9, 0.0, 1e9]), 2.5e8, 1.0)
        assert np.isfinite(values).all()
        assert np.isfinite(normal_mixture_slope(np.array([-1e5, 0.0, 1e9]), 2.5e8, 1.0)).all()

    def test_shapes(self) -> None:
        *tally, q = (x.reshape(4, 5) for x in tallies(seed=7, cases=20))
        flat = [x.ravel() for x in tally]
        for function in (log_bets_below, log_mean_below, log_mean_above):
            value, slope = function(*tally, q)
            assert value.shape == slope.shape == (4, 5)
            np.testing.assert_allclose(value.ravel(), function(*flat, q.ravel())[0], rtol=1e-12)
        assert log_beta_mixture(tally[0], tally[1], q).shape == (4, 5)
        assert log_beta_mixture(10.0, 3.0, np.array([0.1, 0.2])).shape == (2,)
        assert psi_exponential(np.zeros((2, 3))).shape == (2, 3)
        low, high = mean_interval(*flat, 0.1)
        assert low.shape == high.shape == (20,)


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

    def test_more_steps_only_narrow(self) -> None:
        *tally, _ = tallies(seed=9, cases=50)
        coarse, fine = mean_interval(*tally, 0.1, steps=4), mean_interval(*tally, 0.1, steps=30)
        assert (coarse[0] <= fine[0]).all()
        assert (coarse[1] >= fine[1]).all()

    def test_without_pulls(self) -> None:
        low, high = mean_interval(np.array([0.0, 4.0]), np.zeros(2), np.zeros(2), 0.1)
        assert (low[0], high[0]) == (0.0, 1.0)
        assert high[1] < 1.0

    def test_the_wide_intervals_contain_the_others(self) -> None:
        pulls, total, scatter, _ = tallies(seed=17, cases=200)
        pulls, total, scatter = (np.append(x, 0.0) for x in (pulls, total, scatter))
        for alpha in (0.5, 1e-5):
            low, high = mean_interval(pulls, total, scatter, alpha, steps=40)
            wide_low, wide_high = wide_mean_interval(pulls, total, alpha)
            assert (wide_low <= low).all()
            assert (wide_high >= high).all()
            assert (wide_low[-1], wide_high[-1]) == (0.0, 1.0)


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
