"""The minimum of convex functions is never overstated."""

from __future__ import annotations

import numpy as np
import pytest

from oddarms.algorithms._spade_certificates import convex_minimum
from oddarms.problem import FloatArray


class TestConvexMinimum:
    """Random convex functions a (q - c)^2 + log(e^(s q) + e^(t (1 - q)))."""

    def functions(self, seed: int, size: int = 200) -> tuple[FloatArray, ...]:
        rng = np.random.default_rng(seed)
        return (
            rng.uniform(0.5, 200.0, size),
            rng.uniform(-0.5, 1.5, size),
            rng.uniform(0.0, 20.0, size),
            rng.uniform(0.0, 20.0, size),
        )

    def check(self, seed: int, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        a, c, s, t = self.functions(seed)

        def function(q: FloatArray) -> tuple[FloatArray, FloatArray]:
            value = a * (q - c) ** 2 + np.logaddexp(s * q, t * (1 - q))
            share = 1.0 / (1.0 + np.exp(t * (1 - q) - s * q))
            return value, 2 * a * (q - c) + s * share - t * (1 - share)

        grid = np.linspace(0.0, 1.0, 20_001)[:, None]
        values = function(grid)[0]
        bound, at = convex_minimum(function, low, high)
        assert (bound <= values.min(axis=0) + 1e-9).all()
        assert ((low <= at) & (at <= high)).all()
        return bound, values.min(axis=0)

    def test_anywhere(self) -> None:
        bound, truth = self.check(1, np.full(200, 1e-6), np.full(200, 1 - 1e-6))
        np.testing.assert_allclose(bound, truth, atol=1e-2)

    def test_wherever_it_is_expected(self) -> None:
        rng = np.random.default_rng(2)
        for seed in range(3, 10):
            low = rng.uniform(0.0, 0.9, 200)
            self.check(seed, low, np.minimum(low + rng.uniform(0.0, 0.5, 200), 1.0))

    def test_expected_too_far_left_or_right(self) -> None:
        self.check(10, np.zeros(200), np.full(200, 0.01))
        self.check(11, np.full(200, 0.99), np.ones(200))

    def test_expected_at_a_point(self) -> None:
        self.check(12, np.full(200, 0.4), np.full(200, 0.4))

    def test_a_flat_function(self) -> None:
        def flat(q: FloatArray) -> tuple[FloatArray, FloatArray]:
            return np.ones_like(q), np.zeros_like(q)

        assert convex_minimum(flat, np.array([0.2]), np.array([0.7]))[0][0] == pytest.approx(1.0)
