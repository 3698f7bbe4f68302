"""Guesses and doubts where nothing is proven."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from oddarms.problem import FloatArray
from oddarms.statistics.doubts import guess_and_doubt, padded_variance
from oddarms.testing import assert_error_rate
from oddarms.theory import outliers, threshold
from oddarms.theory._first_order import threshold_gradient


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


class TestGuessAndDoubt:
    def test_by_hand(self) -> None:
        influence = np.array([0.5, -0.25, 0.75])
        guess = guess_and_doubt(MEANS, VARIANCES, PULLS, influence, 0.45)
        assert guess.odd.tolist() == [False, True, True]
        variance = (
            0.25 * noise_of(0) + 1.25**2 * noise_of(1) + 0.75**2 * noise_of(2)
        )  # (1 - c)^2 for the arm itself, c^2 for the others
        assert guess.doubt[1] == pytest.approx(norm.sf(0.05 / math.sqrt(variance)))

    def test_a_fixed_threshold_leaves_the_arm_s_own_noise(self) -> None:
        guess = guess_and_doubt(MEANS, VARIANCES, PULLS, np.zeros(3), 0.4)
        for i in range(3):
            expected = norm.sf(abs(MEANS[i] - 0.4) / math.sqrt(noise_of(i)))
            assert guess.doubt[i] == pytest.approx(expected)

    def test_on_the_threshold_nobody_is_guessed_an_outlier(self) -> None:
        guess = guess_and_doubt(MEANS, VARIANCES, PULLS, np.zeros(3), 0.5)
        assert not guess.odd[1]
        assert guess.doubt[1] == 0.5
        assert guess.doubt.max() == 0.5

    def test_an_arm_without_pulls(self) -> None:
        pulls, means = np.array([0.0, 20.0, 40.0]), np.array([np.nan, 0.5, 0.8])
        guess = guess_and_doubt(means, VARIANCES, pulls, np.zeros(3), 0.4)
        assert guess.odd.tolist() == [False, True, True]
        assert guess.doubt[0] == 0.5
        assert (guess.doubt[1:] < 0.2).all()
        whole = guess_and_doubt(means, VARIANCES, pulls, np.full(3, 1.0 / 3.0), 0.4)
        assert whole.doubt.tolist() == [0.5] * 3  # the threshold depends on it

    def test_no_estimate_of_the_threshold(self) -> None:
        guess = guess_and_doubt(MEANS, VARIANCES, PULLS, np.zeros(3), math.nan)
        assert guess.doubt.tolist() == [0.5] * 3
        assert not guess.odd.any()

    def test_rewards_that_are_all_alike(self) -> None:
        means = np.array([0.0, 0.0, 1.0])
        guess = guess_and_doubt(means, np.zeros(3), np.full(3, 5.0), np.zeros(3), 0.5)
        assert guess.odd.tolist() == [False, False, True]
        assert ((guess.doubt > 0.0) & (guess.doubt < 0.1)).all()

    def test_doubts_hold_on_equal_pulls(self) -> None:
        """Of arms in a bin of doubts no more are wrong than the bin's upper end; seeded.

        30 pulls of each arm, 1,500 runs. The arms of a run share their threshold, so each run gives
        one arm: the most doubtful one of the bin. False alarm 1e-6 a bin, by the exact binomial
        bound; 100 arms in a bin find twice its upper end from 0.15 on.
        """
        y, k, rng = np.array([0.2, 0.25, 0.3, 0.35, 0.4, 0.75]), 1.5, np.random.default_rng(0)
        truth = np.isin(np.arange(y.size), outliers(y, k))
        edges = (0.0, 0.01, 0.05, 0.15, 0.3, 0.5)
        said: list[FloatArray] = []
        errs = []
        for _ in range(1500):
            means = rng.binomial(30, y) / 30.0
            influence = threshold_gradient(means, k)
            guess = guess_and_doubt(
                means, means * (1.0 - means), np.full(6, 30.0), influence, threshold(means, k)
            )
            said.append(guess.doubt)
            errs.append(guess.odd != truth)
        doubts, wrong = np.array(said), np.array(errs)
        for low, high in pairwise(edges):
            inside = np.where((doubts > low) & (doubts <= high), doubts, -1.0)
            runs = np.flatnonzero(inside.max(1) > 0.0)
            assert runs.size >= 50
            worst = inside[runs].argmax(1)
            assert_error_rate(int(wrong[runs, worst].sum()), runs.size, high)
