"""Totals of rewards: whatever was rounded, no variance is understated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from oddarms.problem import FloatArray
from oddarms.statistics.totals import (
    mean_error,
    mirrored_totals,
    possible_totals,
    relative_error,
    scaled_totals,
    scatter_of,
)


def one_by_one(values: FloatArray) -> float:
    """Return the sum as a loop makes it, which rounds most."""
    total = 0.0
    for value in values.tolist():
        total += value
    return total


def exact_scatter(values: FloatArray, width: float = 1.0) -> Fraction:
    """Return sum (x - mean)^2 / width^2 without rounding."""
    x = [Fraction(value) for value in values.tolist()]
    mean = sum(x) / len(x)
    return sum((value - mean) ** 2 for value in x) / Fraction(width) ** 2


def samples(seed: int) -> list[FloatArray]:
    """Return rewards in [0, 1]: wide, tiny, near 1, alike, nearly alike, rare."""
    rng = np.random.default_rng(seed)
    return [
        np.clip(rewards, 0.0, 1.0)
        for size in (1, 2, 7, 300)
        for rewards in (
            rng.random(size),
            rng.exponential(1e-9, size),
            rng.exponential(1e-40, size),
            1.0 - rng.exponential(1e-9, size),
            np.full(size, 0.1),
            0.3 + 1e-12 * rng.random(size),
            (rng.random(size) < 0.1) * 1.0,
            np.zeros(size),
        )
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_scatter_is_never_understated(seed: int) -> None:
    for x in samples(seed):
        found = scatter_of(float(x.size), one_by_one(x), one_by_one(x * x))
        truth = exact_scatter(x)
        assert Fraction(float(found)) >= truth
        assert float(found) <= float(truth) + 1e-12 * x.size * float((x * x).sum())


@pytest.mark.parametrize("seed", range(5))
def test_nor_is_it_in_a_mirror(seed: int) -> None:
    for x in samples(seed):
        count = np.array([float(x.size)])
        sums, squares = mirrored_totals(
            count, np.array([one_by_one(x)]), np.array([one_by_one(x * x)])
        )
        assert sums[0] == pytest.approx(float((1.0 - x).sum()))
        assert squares[0] == pytest.approx(float(((1.0 - x) ** 2).sum()), abs=1e-9)
        assert squares[0] <= max(sums[0], sums[0] ** 2 / x.size)
        assert Fraction(float(scatter_of(count, sums, squares)[0])) >= exact_scatter(x)


BOUNDS = [(0.0, 1.0), (0.0, 1e9), (-3.0, 5.0), (1e6, 1e6 + 1.0), (-1e8, -1e8 + 0.5), (-1.0, 0.0)]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_bounds_far_from_zero(bounds: tuple[float, float], mirrored: bool) -> None:
    """The sum as exact as the digits allow, the scatter at least the true one, both possible."""
    a, b = bounds
    for unscaled in samples(6):
        x = np.clip(a + (b - a) * unscaled, a, b)
        count = np.array([float(x.size)])
        given = np.array([one_by_one(x)]), np.array([one_by_one(x * x)])
        sums, squares = scaled_totals(count, *given, bounds, mirrored=mirrored)
        scaled = (b - x if mirrored else x - a) / (b - a)
        assert abs(sums[0] / x.size - scaled.mean()) <= mean_error(x.size, bounds) / (b - a)
        assert 0.0 <= sums[0] <= x.size
        assert squares[0] <= max(sums[0], sums[0] ** 2 / x.size)
        found = Fraction(float(scatter_of(count, sums, squares)[0]))
        most = Fraction(float(sums[0] * (1.0 - sums[0] / x.size)))
        assert found >= min(exact_scatter(x, b - a), most)
        assert possible_totals(count, *given, bounds).all()


def test_digits_that_are_not_there() -> None:
    """Rewards 0.4 and 0.6 above 10^8: their squares round to those of equal rewards."""
    a = 1e8
    x = np.tile([a + 0.4, a + 0.6], 50)
    totals = np.array([x.sum()]), np.array([(x * x).sum()])
    sums, squares = scaled_totals(np.array([100.0]), *totals, (a, a + 1.0))
    assert squares[0] - sums[0] ** 2 / 100.0 >= 100.0 * 0.01
    assert squares[0] == pytest.approx(sums[0])  # so the largest variance there can be


@pytest.mark.parametrize(
    ("total", "square"), [(-0.1, 0.0), (4.1, 4.1), (2.0, 2.1), (2.0, 0.9), (2.0, np.nan)]
)
def test_impossible_totals(total: float, square: float) -> None:
    """Of four rewards in [0, 1]; those of 0, 0, 1 and 1 are possible, and of four times 1/2."""
    counts = np.array([4, 4, 4])
    sums, squares = np.array([2.0, total, 2.0]), np.array([2.0, square, 1.0])
    assert possible_totals(counts, sums, squares, (0.0, 1.0)).tolist() == [True, False, True]


@pytest.mark.parametrize("order", ["rising", "falling", "as drawn"])
def test_the_bound_on_rounding(order: str) -> None:
    """0.1 and its like, added in the worst orders."""
    x: Any = np.concatenate([np.full(20_000, 0.1), np.random.default_rng(8).random(20_000)])
    x = {"rising": np.sort(x), "falling": np.sort(x)[::-1], "as drawn": x}[order]
    truth = sum(Fraction(value) for value in x.tolist())
    assert abs(Fraction(one_by_one(x)) - truth) <= truth * Fraction(float(relative_error(x.size)))
