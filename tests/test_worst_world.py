"""What a bet can cost at most along an unknown direction, against a search over all of them."""

from __future__ import annotations

import numpy as np
import pytest

from oddarms.problem import FloatArray
from oddarms.statistics.worst_world import largest_costs


def value(z: FloatArray, y: FloatArray, k: float, stake: float, price: FloatArray) -> FloatArray:
    """Return s (<c, y> - theta(y)) + sum_j c_j^2 p_j of directions z, of the m arms given."""
    c = (1.0 + k * z) / y.size
    found: FloatArray = stake * (c @ y - y.mean() - k * y.std()) + c**2 @ price
    return found


def on_sphere(z: FloatArray) -> FloatArray:
    """Return directions of length sqrt(m) that sum to 0; those without one are left out."""
    for _ in range(2):  # the second time for what rounding left
        scale = np.abs(z).max(axis=1)
        z = z - z.mean(axis=1, keepdims=True)
        length = np.sqrt((z**2).mean(axis=1))
        known = length > 1e-9 * scale
        z = z[known] / length[known, None]
    return z


def highest_value(
    rng: np.random.Generator, y: FloatArray, k: float, stake: float, price: FloatArray
) -> float:
    """Return the most that a search finds: ascent from many points.

    The function is convex, so the point of the sphere that is farthest along the gradient is
    never worse than the one before.
    """
    m = y.size
    starts = [rng.normal(size=(8, m)), np.eye(m), -np.eye(m), y[None], -y[None], price[None]]
    z = on_sphere(np.concatenate(starts))
    reached = [value(z, y, k, stake, price).max()]
    for _ in range(60):
        gradient = stake * k / m * y + 2.0 * k / m**2 * price * (1.0 + k * z)
        z = on_sphere(gradient)
        if z.size == 0:
            break
        reached.append(value(z, y, k, stake, price).max())
    return float(max(reached))


def compare(
    rng: np.random.Generator, y: FloatArray, k: float, stakes: FloatArray, prices: FloatArray
) -> FloatArray:
    """Return the bound over what a search finds, per stake and arm; assert that it is a bound."""
    arms = np.arange(y.size)
    found, thresholds = largest_costs(arms, y, k, stakes, prices)
    others = [np.delete(y, i) for i in arms]
    expected = [one.mean() + k * one.std() for one in others]
    np.testing.assert_allclose(thresholds, expected, rtol=1e-12)
    assert np.isfinite(found).all()
    best = np.empty(found.shape)
    for row in range(stakes.size):
        for i in arms:
            others = np.delete(y, i), k, float(stakes[row]), np.delete(prices[row], i)
            best[row, i] = highest_value(rng, *others)
    assert (found >= best - 1e-9 * (np.abs(best) + prices.max())).all()
    return found / best


def nearly_reached(loss: FloatArray, k: float) -> None:
    """Assert that a bound is within some thousandths, or a few hundredths where k is steep."""
    assert np.median(loss) < (0.002 if k < 10.0 else 0.03)
    assert loss.max() < (0.03 if k < 10.0 else 0.1)


def stakes_for(prices: FloatArray) -> FloatArray:
    """Return small, middling and large stakes: prices alone, both, and the means alone decide."""
    stakes: FloatArray = np.array([0.01, 1.0, 100.0]) * np.median(prices) / prices.shape[1]
    return stakes


@pytest.mark.parametrize("k", [0.01, 0.7, 3.0, 100.0])
@pytest.mark.parametrize("n", [3, 5])
class TestLargestCosts:
    @pytest.mark.parametrize("one_price", [1.0, 1e4])
    def test_a_bound_that_is_nearly_reached(self, n: int, k: float, one_price: float) -> None:
        rng = np.random.default_rng(1)
        y, prices = rng.random(n), rng.uniform(0.5, 1.5, (3, n))
        prices[:, 1] *= one_price
        loss = compare(rng, y, k, stakes_for(prices), prices) - 1.0
        nearly_reached(loss, k)

    def test_equal_means(self, n: int, k: float) -> None:
        rng = np.random.default_rng(3)
        for level in (0.0, 0.1):
            prices = rng.uniform(0.5, 1.5, (3, n))
            loss = compare(rng, np.full(n, level), k, stakes_for(prices), prices) - 1.0
            nearly_reached(loss, k)

    def test_equal_means_and_prices(self, n: int, k: float) -> None:
        """All directions cost the same, the known (1 + k^2)/m times the price."""
        for price in (1e-9, 0.7, 1e9):
            prices = np.full((2, n), price)
            stakes = np.array([1.0, 9.0])
            found = largest_costs(np.arange(n), np.full(n, 0.1), k, stakes, prices)[0]
            np.testing.assert_allclose(
                found, price * (1.0 + k * k) / (n - 1.0), rtol=1e-6, atol=1e-14 * k
            )
            noise = 1e-15 * k * 9.0  # of the means' deviations from their mean
            assert (found >= price * (1.0 + k * k) / (n - 1.0) * (1.0 - 1e-12) - noise).all()

    def test_no_price(self, n: int, k: float) -> None:
        """The direction of y costs nothing, and every other one less."""
        y = np.random.default_rng(4).random(n)
        found = largest_costs(np.arange(n), y, k, np.array([1.0, 1e4]), np.zeros((2, n)))[0]
        np.testing.assert_allclose(found, 0.0, atol=1e-7 * k)


@pytest.mark.parametrize("k", [0.3, 1.0, 50.0])
def test_of_two_others_there_are_two_directions(k: float) -> None:
    """c = (1 + k)/2 and (1 - k)/2, one way or the other."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        y, price, stake = rng.random(3), rng.exponential(1.0, 3), float(rng.exponential(2.0))
        found = largest_costs(np.array([0]), y, k, np.array([stake]), price[None])[0][0, 0]
        both = value(np.array([[1.0, -1.0], [-1.0, 1.0]]), y[1:], k, stake, price[1:])
        assert both.max() - 1e-12 <= found <= both.max() + 1e-6 * (both.max() + price.max() * k * k)


@pytest.mark.parametrize("k", [1e-9, 1e-150, 1e-160, 1e-200, 1e-300, 5e-324, 0.0])
def test_a_tiny_k_costs_what_none_does(k: float) -> None:
    """Nothing overflows, though powers of 1/k would; pytest makes errors of warnings."""
    prices = np.array([[1.0, 2.0, 4.0]])
    for y in (np.array([0.1, 0.5, 0.7]), np.full(3, 0.3)):
        for scale in (1e-30, 1.0, 1e30):
            found = largest_costs(np.arange(3), y, k, np.ones(1), scale * prices)[0]
            expected = scale * np.array([[6.0, 5.0, 3.0]]) / 4.0
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=k)


def test_two_arms() -> None:
    """The other arm is the threshold: c = 1."""
    y, stakes, prices = np.array([0.2, 0.9]), np.array([1.0, 7.0]), np.array([[2.0, 3.0]] * 2)
    found = largest_costs(np.arange(2), y, 0.0, stakes, prices)[0]
    np.testing.assert_allclose(found, [[3.0, 2.0], [3.0, 2.0]], rtol=1e-9)
