"""Uniform means given a window for the smallest gap."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import stats

from helpers import quick_and_long, uniform_means_with_gap
from oddarms.errors import InvalidParameter
from oddarms.experiments import UniformMeans, _grid
from oddarms.theory import gaps, threshold

FALSE_ALARM = 1e-6
"""The probability with which one test of this module fails although the laws are the same."""


@pytest.mark.parametrize(
    ("n", "k", "window"),
    [
        (900, 2.0, (0.059, 0.061)),
        (900, 2.0, (0.119, 0.121)),  # the rarest of the paper
        (100, -2.5, (0.1, 0.2)),
        (5, 1.0, (0.0, 0.05)),
        (8, 1.5, (0.22, math.inf)),
        (20_000, 2.0, (0.0, 0.2)),  # more means than a batch has numbers
    ],
)
def test_window_holds(n: int, k: float, window: tuple[float, float]) -> None:
    rng = np.random.default_rng(11)
    for _ in range(3):
        y = UniformMeans(n, k, window)(rng)
        assert y.shape == (n,)
        assert 0.0 <= y.min() <= y.max() <= 1.0
        assert window[0] <= gaps(y, k).min() <= window[1]


@pytest.mark.parametrize(
    ("n", "k", "window"),
    quick_and_long([(10, 1.5, (0.12, 0.3))], [(10, 1.5, (0.2, 0.3)), (30, 2.5, (0.25, 0.4))]),
)
def test_same_law_as_one_at_a_time(n: int, k: float, window: tuple[float, float]) -> None:
    """The first of a batch that fits is as good as the first at all."""
    rng = np.random.default_rng(12)
    draw = UniformMeans(n, k, window)
    found = [draw(rng) for _ in range(500)]
    expected = [uniform_means_with_gap(rng, n, k, *window) for _ in range(500)]
    functionals = {
        "smallest gap": lambda y: gaps(y, k).min(),
        "theta": lambda y: threshold(y, k),
        "max": lambda y: y.max(),
        "first arm": lambda y: y[0],
    }
    for name, functional in functionals.items():
        same = stats.ks_2samp([*map(functional, found)], [*map(functional, expected)])
        assert same.pvalue > FALSE_ALARM / len(functionals), name


def test_unconditioned_means_are_uniform() -> None:
    y = np.concatenate([UniformMeans(10, 2.0)(np.random.default_rng(seed)) for seed in range(200)])
    assert stats.kstest(y, "uniform").pvalue > FALSE_ALARM


def test_same_seed_same_instance_here_and_after_pickling() -> None:
    draw = UniformMeans(200, 2.0, (0.16, 0.17))
    shipped = pickle.loads(pickle.dumps(draw))
    assert shipped == draw
    assert hash(shipped) == hash(draw) == hash(UniformMeans(200, 2, [0.16, 0.17]))  # type: ignore[arg-type]
    first = draw(np.random.default_rng(15))
    assert np.array_equal(first, shipped(np.random.default_rng(15)))
    assert not np.array_equal(first, draw(np.random.default_rng(16)))


@pytest.mark.parametrize(
    ("n", "k", "window", "message"),
    [
        (1, 2.0, None, "n must be a whole number of at least 2 but got 1"),
        (10, math.nan, None, "k must be a finite number but got nan"),
        (10, 2.0, (0.2, 0.1), r"smallest_gap must have 0 <= low < high but got \(0.2, 0.1\)"),
        (10, 2.0, (-0.1, 0.1), "smallest_gap must have 0 <= low < high"),
        (10, 2.0, (0.1, math.nan), "smallest_gap must have 0 <= low < high"),
        (10, 2.0, 0.1, r"smallest_gap must be two numbers \(low, high\) but got 0.1"),
        (10, 2.0, ("0.1", 0.2), "smallest_gap must be two numbers"),
        (10, 2.0, (0.1, 0.2, 0.3), "smallest_gap must be two numbers"),
    ],
)
def test_invalid_parameters(n: int, k: float, window: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        UniformMeans(n, k, window)  # type: ignore[arg-type]


def test_window_without_instances_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two means with k = 1 have theta = max y, hence no gap at all."""
    monkeypatch.setattr(_grid, "_MAX_CANDIDATES", 20_000)
    with pytest.raises(InvalidParameter, match="None of 20,000 instances with n = 2 and"):
        UniformMeans(2, 1.0, (0.1, 0.2))(np.random.default_rng(17))
