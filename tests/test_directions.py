"""Tallies, and the directions in which the threshold moves with the means."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers import KS, left_out, tally_of
from oddarms.problem import FloatArray
from oddarms.statistics.directions import (
    SMALLEST_SD,
    forecast,
    lean_of,
    leave_one_out_k,
    thresholds_without_one,
)
from oddarms.theory import threshold


def direction(y: FloatArray, k: float, error: FloatArray | float = 0.0) -> FloatArray:
    """Return the coefficients along which the threshold of means y grows."""
    return (1.0 + k * lean_of(y, error)) / y.size


class TestDirections:
    @pytest.mark.parametrize("k", KS)
    def test_the_threshold_is_the_largest_linear_function(self, k: float) -> None:
        rng = np.random.default_rng(4)
        y, n = rng.random(12), 12
        assert direction(y, k) @ y == pytest.approx(threshold(y, k))
        for _ in range(200):
            v = rng.normal(size=n)
            v -= v.mean()
            v /= np.linalg.norm(v)
            c = 1.0 / n + k * v / math.sqrt(n)
            assert c @ y <= threshold(y, k) + 1e-12
            assert c @ c == pytest.approx((1.0 + k * k) / n)
            guessed = direction(rng.random(n), k, rng.random(n) * rng.choice([0.0, 0.1]))
            assert guessed @ y <= threshold(y, k) + 1e-12

    @pytest.mark.parametrize("k", KS)
    def test_leaving_one_out_keeps_the_side(self, k: float) -> None:
        rng = np.random.default_rng(5)
        for n in (11, 12, 40):
            for _ in range(100):
                y = rng.beta(0.5, 3.0, n)
                others = left_out(y, k)
                found = thresholds_without_one(y, leave_one_out_k(n, k))
                np.testing.assert_allclose(found, others, rtol=1e-9)
                clear = np.abs(y - threshold(y, k)) > 1e-9
                assert (np.sign(y - threshold(y, k)) == np.sign(y - others))[clear].all()

    @pytest.mark.parametrize("k", [0.5, 0.999, 1.0 - 1e-6, 1.0 - 1e-12, 1.0 - 1e-15])
    def test_of_two_arms_the_other_one_is_the_threshold(self, k: float) -> None:
        rng = np.random.default_rng(7)
        assert leave_one_out_k(2, k) == 0.0
        for y in (rng.random(2), np.array([0.3, 0.3]), np.array([1e-9, 1.0])):
            found = thresholds_without_one(y, leave_one_out_k(2, k))
            np.testing.assert_allclose(found, y[::-1], rtol=1e-12, atol=1e-15)

    def test_an_error_shrinks_the_lean(self) -> None:
        # deviations -0.1 and 0.1, squares 0.01; with errors of 0.03 the sd is 0.2
        y = np.array([0.4, 0.6])
        np.testing.assert_allclose(lean_of(y), [-1.0, 1.0])
        np.testing.assert_allclose(lean_of(y, 0.03), [-0.5, 0.5])
        np.testing.assert_allclose(lean_of(y, np.array([0.06, 0.0])), [-0.5, 0.5])

    @pytest.mark.parametrize("spread", [1e-3, 1e-5, 1e-9, 1e-13, 0.0])
    @pytest.mark.parametrize("n", [2, 3, 6, 200])
    def test_directions_are_directions_however_near_the_means(self, n: int, spread: float) -> None:
        """c adds up to 1 within k/sqrt(n) of (1/n, ..., 1/n), so it is below the threshold."""
        rng, k = np.random.default_rng(9), 2.2
        for _ in range(20):
            y = 0.5 + spread * rng.normal(size=n)
            for means in (y, np.append(y[1:], 0.9)):
                for error in (0.0, spread * spread):
                    c = direction(means, k, error)
                    assert c.sum() == pytest.approx(1.0, abs=1e-9)
                    assert c @ c <= (1.0 + k * k) / n * (1.0 + 1e-9)
                    assert c @ c >= (1.0 - 1e-9) / n

    def test_what_is_below_the_smallest_sd_leans_little(self) -> None:
        y = 0.3 + 0.01 * SMALLEST_SD * np.array([-1.0, 0.0, 1.0])
        assert np.abs(lean_of(y)).max() == pytest.approx(0.01, rel=1e-6)
        np.testing.assert_array_equal(lean_of(np.full(7, 0.1)), 0.0)

    @pytest.mark.parametrize(("n", "k"), [(5, 2.0), (26, 5.0), (10, 3.0), (401, 20.0)])
    def test_the_steepest_k_is_exact(self, n: int, k: float) -> None:
        """k~^2 = n k^2/(n - 1 - k^2), where the difference has hardly any digits."""
        just_below = math.nextafter(k, 0.0)  # k - u, so n - 1 - k^2 = 2 k u, nearly
        expected = k * math.sqrt(n / (2.0 * k * (k - just_below)))
        assert leave_one_out_k(n, just_below) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("k", [0.0, 1.0, 1e4])
    def test_equal_means(self, k: float) -> None:
        for y in (np.full(8, 0.5), np.full(8, 0.1), np.zeros(8), np.ones(8)):
            found = thresholds_without_one(y, k)
            np.testing.assert_allclose(found, y, atol=k * 1e-8 + 1e-15)

    def test_forecast_is_finite_at_the_ends(self) -> None:
        tally = tally_of(np.concatenate([np.zeros((5, 3)), np.ones((2, 3))]))
        guess = forecast(tally)
        for part in guess:
            assert np.isfinite(part).all()
        assert ((guess.centre >= 0.0) & (guess.centre <= 1.0)).all()
        assert ((guess.shrunk >= 0.0) & (guess.shrunk <= 1.0)).all()
        assert (guess.variance > 0.0).all()
        assert (guess.error > 0.0).all()
