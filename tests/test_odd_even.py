"""The interval of the threshold from two halves of the sweeps."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from oddarms.problem import FloatArray
from oddarms.statistics.evidence import degenerate_bound, normal_mixture_boundary
from oddarms.statistics.sweeps import SWEEPS_AHEAD, OddEven
from oddarms.theory import threshold


def centred(x: FloatArray) -> FloatArray:
    """Return P x."""
    return x - x.mean()


def test_the_identity_of_the_halves() -> None:
    """T = |Py|^2 + 2 |Py| <v*, e> + <P e_A, e_B>, and what the two bounds make of it."""
    rng = np.random.default_rng(1)
    for n in (2, 5, 60):
        y, odd, even = rng.random((3, n))
        e_odd, e_even = odd - y, even - y
        e, size = 0.5 * (e_odd + e_even), np.linalg.norm(centred(y))
        along = centred(y) @ e / size
        T, degenerate = centred(odd) @ centred(even), centred(e_odd) @ e_even
        assert pytest.approx(size**2 + 2 * size * along + degenerate) == T
        assert T - abs(degenerate) <= (size + along) ** 2 + 1e-12
        assert (size + along) ** 2 <= T + abs(degenerate) + along**2 + 1e-12
        # and mu_hat + k (|Py| + <v*, e>)/sqrt(n) = theta + <c*, e>
        k = 1.7
        c = 1 / n + k * centred(y) / size / math.sqrt(n)
        plugged = 0.5 * (odd + even).mean() + k * (size + along) / math.sqrt(n)
        assert plugged == pytest.approx(threshold(y, k) + c @ e)


def test_one_reading_by_hand() -> None:
    """Two arms, two sweeps, with means 0 and 1 seen in both: A = B = (0, 1)."""
    ends = OddEven(2, 1.0, end_delta=0.1, degenerate_delta=0.1)
    ends.absorb(1, np.array([0.0, 1.0]))
    assert (ends.low, ends.high) == (-math.inf, math.inf)
    assert not ends.balanced
    ends.absorb(1, np.array([0.0, 1.0]))
    assert ends.balanced
    # mu_hat = 1/2, T = 1/2, sigma_hat = 1/2, v0 = (1 + 1)/(4 * 2) = 1/4, m = 2; D is far above T,
    # so there is no lower end yet
    radius = normal_mixture_boundary(0.5, 0.1, SWEEPS_AHEAD / 4.0) / 2.0
    assert degenerate_bound(2, 1, 1, 0.1 / 4.0) > 0.5
    assert ends.low == -math.inf
    assert ends.high == pytest.approx(0.5 + 0.5 + radius)


def test_unbiased_end_by_hand() -> None:
    """The same with a thousand sweeps in each half: now D and a^2 are below T = 1/2."""
    ends = OddEven(2, 1.0, end_delta=0.1, degenerate_delta=0.1)
    for _ in range(2):
        ends.absorb(1000, np.array([0.0, 1000.0]))
    m = 2000.0
    radius = normal_mixture_boundary(m / 4.0, 0.1, SWEEPS_AHEAD / 4.0) / m
    D = degenerate_bound(2, 1000, 1000, 0.1 / 4.0)
    assert ends.low == pytest.approx(0.5 + math.sqrt((0.5 - D) / 2.0) - radius)
    assert ends.high == pytest.approx(1.0 + radius)


def test_the_interval_only_shrinks() -> None:
    rng = np.random.default_rng(2)
    ends = OddEven(50, 2.0, end_delta=0.05, degenerate_delta=0.05)
    y = rng.random(50)
    seen = []
    for sweep in range(200):
        size = 1 + sweep // 2
        ends.absorb(size, rng.binomial(size, y).astype(float))
        seen.append((ends.low, ends.high))
    low, high = np.array(seen).T
    assert (low[1:] >= low[:-1]).all()
    assert (high[1:] <= high[:-1]).all()
    assert high[-1] - low[-1] < 0.05
    assert low[-1] < threshold(y, 2.0) < high[-1]


def test_the_bound_on_products_over_all_pairs_of_sweeps() -> None:
    """Three arms, one sweep of 0/1 rewards in each half: the moments of Lemma 10 (b), exactly."""
    points, y = np.array(list(product((0, 1), repeat=3))), np.array([0.2, 0.5, 0.9])
    chances = np.prod(np.where(points == 1, y, 1.0 - y), axis=1)
    errors = points - y
    products = (errors - errors.mean(1, keepdims=True)) @ errors.T
    for x in (-0.99, -0.5, -0.1, 0.1, 0.5, 0.99):
        assert chances @ np.exp(4.0 * x * products) @ chances <= (1.0 - x * x) ** -1.0
    D = degenerate_bound(3, 1.0, 1.0, 0.1)
    assert chances @ (np.abs(products) > D) @ chances <= 0.2
