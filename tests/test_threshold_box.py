"""The threshold over a box of means: bounds that hold and are near, verdicts, exact ties."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddarms.problem import FloatArray
from oddarms.statistics.threshold_box import bounds_over_box, known_outliers, verdicts
from oddarms.theory import threshold

QUICKLY = settings(derandomize=True, deadline=None, max_examples=40)
KS = [-3.0, -1.0, -0.2, 0.0, 0.5, 1.0, 2.0, 3.0]


def thetas(means: FloatArray, k: float) -> FloatArray:
    result: FloatArray = means.mean(axis=1) + k * means.std(axis=1)
    return result


def box(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    middle, half = rng.random(n), rng.random(n) * rng.choice([0.0, 0.001, 0.05, 0.5])
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def points(rng: np.random.Generator, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return all corners of a box and points inside."""
    corners = np.array(list(product(*zip(low, high, strict=True))))
    return np.vstack([corners, low + (high - low) * rng.random((200, low.size))])


class TestBounds:
    @pytest.mark.parametrize("k", KS)
    def test_they_hold_in_the_whole_box(self, k: float) -> None:
        rng = np.random.default_rng(1)
        for _ in range(40):
            low, high = box(rng, int(rng.integers(2, 8)))
            inside = points(rng, low, high)
            theta, bounds = thetas(inside, k), bounds_over_box(low, high, k)
            assert bounds.least <= theta.min()
            assert bounds.most >= theta.max()
            for i in range(low.size):
                assert bounds.most_at_low[i] >= theta[inside[:, i] == low[i]].max()
                assert bounds.least_at_high[i] <= theta[inside[:, i] == high[i]].min()

    @pytest.mark.parametrize("k", KS)
    def test_a_point_is_a_box(self, k: float) -> None:
        means = np.array([0.1, 0.2, 0.05, 0.9])
        bounds = bounds_over_box(means, means, k)
        theta = threshold(means, k)
        assert bounds.least <= theta <= bounds.most
        assert bounds.most - bounds.least < 1e-12 * (1.0 + abs(k))

    @pytest.mark.parametrize("k", KS)
    def test_they_are_near_where_the_box_is_small(self, k: float) -> None:
        """Off by a hundredth of the range of the threshold, if means are told apart."""
        rng = np.random.default_rng(2)
        means = np.array([0.1, 0.3, 0.5, 0.2, 0.9])
        low, high = means - 0.01, means + 0.01
        theta, bounds = thetas(points(rng, low, high), k), bounds_over_box(low, high, k)
        assert theta.min() - bounds.least < 0.01 * np.ptp(theta)
        assert bounds.most - theta.max() < 0.01 * np.ptp(theta)

    def test_no_number_is_too_large(self) -> None:
        for k in (1.7e308, -1e300, 1e150, 5e-324):
            least, most, at_high, at_low = bounds_over_box(np.zeros(3), np.ones(3), k)
            assert least <= most
            assert not np.isnan([*at_high, *at_low]).any()


class TestVerdicts:
    @QUICKLY
    @given(
        st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6),
        st.floats(0.0, 0.2),
        st.sampled_from(KS),
        st.integers(0, 2**32 - 1),
    )
    def test_no_means_in_the_box_contradict_them(
        self, means: list[float], half: float, k: float, seed: int
    ) -> None:
        rng = np.random.default_rng(seed)
        low, high = np.clip(np.array(means) - half, 0, 1), np.clip(np.array(means) + half, 0, 1)
        found, inside = verdicts(low, high, k), points(rng, low, high)
        theta = thetas(inside, k)[:, None]
        assert not (found.odd & found.normal).any()
        assert (inside >= theta - 1e-12)[:, found.odd].all()
        assert (inside < theta + 1e-12)[:, found.normal].all()

    def test_the_arm_itself_moves_the_threshold(self) -> None:
        """One of ten arms at 0.9: the bounds for the whole box reach beyond its interval."""
        means = np.array([0.9, *np.linspace(0.0, 0.2, 9)])
        low, high = np.clip(means - 0.15, 0, 1), np.clip(means + 0.15, 0, 1)
        assert bounds_over_box(low, high, 2.0).most > low[0]
        assert verdicts(low, high, 2.0).odd.tolist() == [True] + [False] * 9

    def test_out_of_reach(self) -> None:
        """Among 4 arms none lies sqrt(3) sd out: all are normal if two are known to differ."""
        low, high = np.array([0.0, 0.0, 0.3, 0.0]), np.array([0.2, 1.0, 1.0, 1.0])
        assert verdicts(low, high, 1.74).normal.all()
        assert not verdicts(low, np.ones(4), 1.74).normal.any()
        assert verdicts(np.zeros(4), np.ones(4), -1.74).odd.all()


def known(k: float, totals: list[float], rows: list[int], doubt: float = 0.0) -> list[bool]:
    arrays = np.array(totals, dtype=float), np.array(rows, dtype=float)
    found: list[bool] = known_outliers(*arrays, np.full(len(rows), doubt), k).tolist()
    return found


class TestKnownMeans:
    @QUICKLY
    @given(
        st.lists(
            st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
            min_size=2,
            max_size=6,
        ),
        st.sampled_from([*KS, math.sqrt(2.0), 0.75]),
    )
    def test_whole_numbers_decide(self, arms: list[tuple[int, int]], k: float) -> None:
        """y_i - mu >= k sigma by the squares of both sides and their signs, in fractions."""
        means = [Fraction(total, rows) for total, rows in arms]
        mu = sum(means) / len(means)
        variance = sum((y - mu) ** 2 for y in means) / len(means)
        wall = Fraction(k) ** 2 * variance
        truth = [
            y >= mu and (y - mu) ** 2 >= wall if k >= 0 else y >= mu or (y - mu) ** 2 <= wall
            for y in means
        ]
        assert known(k, [total for total, _ in arms], [rows for _, rows in arms]) == truth

    def test_ties(self) -> None:
        # 0, 0, 0, 0, 1: mu + 2 sigma = 1/5 + 2 * 2/5 = 1, the last one
        assert known(2.0, [0, 0, 0, 0, 3], [3] * 5) == [False] * 4 + [True]
        assert known(np.nextafter(2.0, 3.0), [0, 0, 0, 0, 3], [3] * 5) == [False] * 5
        assert known(np.nextafter(2.0, 1.0), [0, 0, 0, 0, 3], [3] * 5) == [False] * 4 + [True]
        # thirds, which floating point does not have: mu is 1/3, where two of them lie
        assert known(0.0, [1, 2, 0, 4], [3, 6, 3, 6]) == [True, True, False, True]

    @pytest.mark.parametrize("k", KS)
    def test_equal_means_are_on_the_threshold(self, k: float) -> None:
        assert known(k, [1, 2, 3], [3, 6, 9]) == [True] * 3
        assert known(k, [0.1 + 0.2, 0.3], [2, 2], doubt=1e-14) == [True] * 2

    def test_what_rounding_hides_counts_as_a_tie(self) -> None:
        arms = [0.3, 0.3 - 1e-12, 0.3 + 1e-12]
        assert known(0.0, arms, [1] * 3, doubt=1e-14) == [True, False, True]
        assert known(0.0, arms, [1] * 3, doubt=1e-11) == [True] * 3
