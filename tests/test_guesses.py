"""The order of suspicion where nothing is proven."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oddarms.statistics.guesses import padded_variance, suspicion


class TestPaddedVariance:
    def test_by_hand(self) -> None:
        """Rewards 1, 1, 0.5 with a 0 and a 1: mean 3.5/5, squares 3.25/5."""
        (found,) = padded_variance(np.array([3.0]), np.array([2.5]), np.array([2.25]))
        assert found == pytest.approx(3.25 / 5 - 0.7**2)
        assert found == pytest.approx(np.var([1.0, 1.0, 0.5, 0.0, 1.0]))

    @pytest.mark.parametrize("reward", [0.0, 0.3, 0.5, 1.0])
    def test_rewards_all_alike_have_a_variance(self, reward: float) -> None:
        """N/2 + 1 over (N + 2)^2 where all rewards are 1/2, and more for others."""
        pulls = np.array([1.0, 10.0, 1e6, 1e12])
        found = padded_variance(pulls, pulls * reward, pulls * reward**2)
        assert (found >= 0.5 / (pulls + 2.0)).all()
        if reward == 0.5:
            np.testing.assert_allclose(found, 0.5 / (pulls + 2.0))

    def test_a_mirror_changes_nothing(self) -> None:
        pulls, total, squares = np.array([7.0]), np.array([2.0]), np.array([1.1])
        mirrored = padded_variance(pulls, pulls - total, pulls - 2.0 * total + squares)
        np.testing.assert_allclose(padded_variance(pulls, total, squares), mirrored)


MEANS = np.array([0.2, 0.5, 0.8])
PULLS = np.array([10.0, 20.0, 40.0])
VARIANCES = np.array([0.1, 0.2, 0.05])


def noise_of(i: int) -> float:
    """Return s^2/N of an arm, written out."""
    n, m, v = float(PULLS[i]), float(MEANS[i]), float(VARIANCES[i])
    square = (n * (v + m * m) + 1.0) / (n + 2.0) - ((n * m + 1.0) / (n + 2.0)) ** 2
    return square / n


class TestSuspicion:
    def test_by_hand(self) -> None:
        influence = np.array([0.5, -0.25, 0.75])
        found = suspicion(MEANS, VARIANCES, PULLS, influence, 0.45)
        assert (found > 0.0).tolist() == [False, True, True]
        variance = (
            0.25 * noise_of(0) + 1.25**2 * noise_of(1) + 0.75**2 * noise_of(2)
        )  # (1 - c)^2 for the arm itself, c^2 for the others
        assert found[1] == pytest.approx(0.05 / math.sqrt(variance))

    def test_a_fixed_threshold_leaves_the_arm_s_own_noise(self) -> None:
        found = suspicion(MEANS, VARIANCES, PULLS, np.zeros(3), 0.4)
        for i in range(3):
            assert found[i] == pytest.approx((MEANS[i] - 0.4) / math.sqrt(noise_of(i)))

    def test_an_arm_without_pulls(self) -> None:
        pulls, means = np.array([0.0, 20.0, 40.0]), np.array([np.nan, 0.5, 0.8])
        found = suspicion(means, VARIANCES, pulls, np.zeros(3), 0.4)
        assert found[0] == 0.0
        assert (found[1:] > 0.8).all()
        whole = suspicion(means, VARIANCES, pulls, np.full(3, 1.0 / 3.0), 0.4)
        assert whole.tolist() == [0.0] * 3  # the threshold depends on it

    def test_no_estimate_of_the_threshold(self) -> None:
        assert not suspicion(MEANS, VARIANCES, PULLS, np.zeros(3), math.nan).any()

    def test_rewards_that_are_all_alike(self) -> None:
        means = np.array([0.0, 0.0, 1.0])
        found = suspicion(means, np.zeros(3), np.full(3, 5.0), np.zeros(3), 0.5)
        assert (found > 0.0).tolist() == [False, False, True]
        assert np.isfinite(found).all()
