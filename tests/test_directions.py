"""Tallies, and the directions in which the threshold moves with the means."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers import KS, left_out, tally_of, totals_of
from oddarms.statistics.directions import Directions, Tally, forecast, leave_one_out_k
from oddarms.statistics.totals import Totals
from oddarms.theory import threshold


class TestTally:
    def test_mirrored(self) -> None:
        x = np.random.default_rng(1).random((4, 9))
        mirrored = Tally.seen(totals_of(x), mirrored=True)
        for mine, expected in zip(mirrored, tally_of(1.0 - x), strict=True):
            np.testing.assert_allclose(mine, expected)

    def test_plus_and_of(self) -> None:
        x = np.random.default_rng(3).random((4, 9))
        both = totals_of(x[:, :4]).plus(totals_of(x[:, 4:])).plus(Totals.empty(4))
        arms = np.array([2, 0])
        for mine, expected in zip(both.of(arms), totals_of(x[arms]), strict=True):
            np.testing.assert_allclose(mine, expected)
        for mine, expected in zip(Tally.seen(both).of(arms), tally_of(x[arms]), strict=True):
            np.testing.assert_allclose(mine, expected)


class TestDirections:
    @pytest.mark.parametrize("k", KS)
    def test_the_threshold_is_the_largest_linear_function(self, k: float) -> None:
        rng = np.random.default_rng(4)
        y, n = rng.random(12), 12
        at_best = Directions(y, k, leave_one_out=False)
        assert at_best.theta[0] == pytest.approx(threshold(y, k))
        assert at_best.dot(y)[0] == pytest.approx(threshold(y, k))
        for _ in range(200):
            v = rng.normal(size=n)
            v -= v.mean()
            v /= np.linalg.norm(v)
            c = 1.0 / n + k * v / math.sqrt(n)
            assert c @ y <= threshold(y, k) + 1e-12
            assert c @ c == pytest.approx((1.0 + k * k) / n)
            assert Directions(rng.random(n), k, leave_one_out=False).dot(y)[0] <= at_best.theta[0]

    @pytest.mark.parametrize("k", KS)
    def test_leaving_one_out_keeps_the_side(self, k: float) -> None:
        rng = np.random.default_rng(5)
        for n in (11, 12, 40):
            for _ in range(100):
                y = rng.beta(0.5, 3.0, n)
                others = left_out(y, k)
                np.testing.assert_allclose(Directions(y, k, leave_one_out=True).theta, others)
                clear = np.abs(y - threshold(y, k)) > 1e-9
                assert (np.sign(y - threshold(y, k)) == np.sign(y - others))[clear].all()

    @pytest.mark.parametrize("leave_one_out", [True, False])
    @pytest.mark.parametrize("k", KS)
    def test_against_brute_force(self, k: float, leave_one_out: bool) -> None:
        rng = np.random.default_rng(6)
        n = 14
        y, x, d, w = rng.random(n), rng.random(n), rng.random(n), rng.uniform(1.0, 9.0, n)
        directions = Directions(y, k, leave_one_out=leave_one_out)
        steep = k / math.sqrt(1.0 - (1.0 + k * k) / n) if leave_one_out else k
        assert directions.k == pytest.approx(steep)
        for i in range(n if leave_one_out else 1):
            keep = np.arange(n) != i if leave_one_out else np.full(n, True)
            z = y[keep]
            c = (1.0 + steep * (z - z.mean()) / z.std()) / z.size
            assert directions.sum(x)[i] == pytest.approx(x[keep].sum())
            assert directions.dot(x)[i] == pytest.approx(c @ x[keep])
            assert directions.quadratic(d)[i] == pytest.approx(c**2 @ d[keep])
            assert directions.largest(w)[i] == pytest.approx((np.abs(c) / w[keep]).max())
            assert directions.norm == pytest.approx(c @ c)

    @pytest.mark.parametrize("k", [0.5, 0.999, 1.0 - 1e-6, 1.0 - 1e-12, 1.0 - 1e-15])
    def test_of_two_arms_the_other_one_is_the_threshold(self, k: float) -> None:
        rng = np.random.default_rng(7)
        for y in (rng.random(2), np.array([0.3, 0.3]), np.array([1e-9, 1.0])):
            directions = Directions(y, k, leave_one_out=True)
            d = rng.random(2)
            np.testing.assert_allclose(directions.quadratic(d), d[::-1], rtol=1e-12)
            np.testing.assert_allclose(directions.dot(d), d[::-1], rtol=1e-12)
            np.testing.assert_allclose(directions.largest(np.ones(2)), 1.0, rtol=1e-12)
            np.testing.assert_allclose(directions.theta, y[::-1], rtol=1e-12)

    @pytest.mark.parametrize("below", [1e-2, 1e-6, 1e-9, 1e-12])
    @pytest.mark.parametrize("n", [3, 5, 8, 30])
    def test_others_that_coincide(self, n: int, below: float) -> None:
        """With n just above 1 + k^2, k~ is large, and of equal others every c is 1/m."""
        k, m = math.sqrt(n - 1.0) * (1.0 - below), n - 1
        rng, d = np.random.default_rng(8), np.linspace(0.5, 1.5, n)
        for other in (0.0, 0.1, 1.0 / 3.0, 0.7, *rng.random(5)):
            y = np.full(n, other)
            y[0] = 0.9
            directions = Directions(y, k, leave_one_out=True)
            assert directions.sum(y)[0] == pytest.approx(m * other, rel=1e-12)
            assert directions.theta[0] == pytest.approx(other, abs=1e-9)
            assert directions.dot(d)[0] == pytest.approx(d[1:].mean(), rel=1e-9)
            assert directions.quadratic(d)[0] == pytest.approx(d[1:].sum() / m**2, rel=1e-9)
            assert directions.largest(np.ones(n))[0] == pytest.approx(1.0 / m, rel=1e-9)

    @pytest.mark.parametrize("spread", [1e-3, 1e-5, 1e-9, 1e-13])
    def test_directions_are_directions_however_near_the_means(self, spread: float) -> None:
        """c adds up to 1 within k/sqrt(m) of (1/m, ..., 1/m), so it is below the threshold."""
        rng = np.random.default_rng(9)
        for _ in range(20):
            y = 0.5 + spread * rng.normal(size=6)
            y[0] = 0.9
            for leave_one_out in (True, False):
                d = Directions(y, 2.2, leave_one_out=leave_one_out)
                np.testing.assert_allclose(d.dot(np.ones(6)), 1.0, rtol=1e-9)
                longest = (1.0 + d.k**2) / d.size
                assert (d.quadratic(np.ones(6)) <= longest * (1.0 + 1e-9)).all()
                assert (d.quadratic(np.ones(6)) >= (1.0 - 1e-9) / d.size).all()

    def test_the_steepest_k_is_exact(self) -> None:
        """k~^2 = n k^2/(n - 1 - k^2), where the difference has hardly any digits."""
        k = math.nextafter(2.0, 0.0)  # 2 - 2^-52, so 4 - k^2 = 2^-50 (1 - 2^-54)
        assert leave_one_out_k(5, k) == pytest.approx(2.0 * math.sqrt(5.0 * 2.0**50), rel=1e-12)

    def test_equal_means(self) -> None:
        directions = Directions(np.full(8, 0.5), 1.0, leave_one_out=True)
        assert np.isfinite(directions.theta).all()
        assert np.isfinite(directions.dot(np.full(8, 0.5))).all()

    def test_forecast_is_finite_at_the_ends(self) -> None:
        tally = tally_of(np.concatenate([np.zeros((5, 3)), np.ones((2, 3))]))
        guess = forecast(tally)
        for part in guess:
            assert np.isfinite(part).all()
        assert ((guess.centre >= 0.0) & (guess.centre <= 1.0)).all()
        assert ((guess.shrunk >= 0.0) & (guess.shrunk <= 1.0)).all()
        assert (guess.variance > 0.0).all()
