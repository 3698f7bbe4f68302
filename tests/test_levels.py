"""How the error probability is shared among arms, against the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oddarms.problem import FloatArray
from oddarms.statistics.levels import EVEN, POWER, WIDTH, closeness, log_weight


def weights_of(gammas: FloatArray) -> FloatArray:
    """Return w_i of a world, from the distances of the means from their thresholds."""
    h = (1.0 + gammas / WIDTH) ** -POWER
    weights: FloatArray = EVEN / gammas.size + (1.0 - EVEN) * h / h.sum()
    return weights


def added(near: FloatArray, steepness: FloatArray, slack: float) -> FloatArray:
    """Return what the weights add to the evidence of every arm."""
    found: FloatArray = log_weight(near.size, near.sum() - near, steepness, slack)
    return found


def random_gaps(rng: np.random.Generator, n: int) -> FloatArray:
    """Return distances of very different sizes, some of them 0."""
    gaps = np.exp(rng.uniform(math.log(1e-5), 0.0, n))
    return np.where(rng.random(n) < 0.2, 0.0, gaps)


def test_closeness_by_hand() -> None:
    # a gap of one width: (1 + 1)^-3 = 1/8; none, or one not known to be positive: 1
    found = closeness(np.array([0.0, -0.3, WIDTH]))
    np.testing.assert_allclose(found, [1.0, 1.0, 1.0 / 8.0])


@pytest.mark.parametrize("slack", [0.0, 0.003, 0.1, 5.0])
@pytest.mark.parametrize("n", [2, 3, 30])
def test_never_more_than_in_any_world_that_errs(n: int, slack: float) -> None:
    """At most log(n w_i) + s e, where arm i is slack + e on the wrong side and others no nearer."""
    rng = np.random.default_rng(2)
    beyond = np.concatenate([[0.0], np.geomspace(1e-5, 2.0, 40)])
    for _ in range(8):
        known = random_gaps(rng, n)  # from below
        steepness = np.exp(rng.uniform(-3.0, 9.0, n)) * (rng.random(n) < 0.9)
        found = added(closeness(known), steepness, slack)
        for i in rng.choice(n, 2, replace=False):
            for farther in (np.zeros(n), random_gaps(rng, n)):
                world = known + farther
                for e in beyond:
                    world[i] = slack + e
                    exact = math.log(n * weights_of(world)[i]) + steepness[i] * e
                    assert found[i] <= exact + 1e-12


def test_exact_where_the_others_are_known_and_evidence_is_steep() -> None:
    """Nothing but h_i <= 1 is lost there: arm i is on its threshold in the worst world."""
    rng, n = np.random.default_rng(3), 12
    gaps = random_gaps(rng, n)
    found = added(closeness(gaps), np.full(n, 1e6), 0.0)
    for i in range(n):
        world = gaps.copy()
        world[i] = 0.0
        assert found[i] == pytest.approx(math.log(n * weights_of(world)[i]), abs=1e-12)


def test_arms_near_the_threshold_get_more() -> None:
    gaps = np.array([0.001, 0.4, 0.4, 0.4])
    first, *rest = added(closeness(gaps), np.full(4, 500.0), 0.0)
    assert first > 0.5
    assert max(rest) < first


def test_without_steepness_every_arm_has_its_even_share() -> None:
    found = added(np.ones(5), np.zeros(5), 0.0)
    np.testing.assert_allclose(found, math.log(EVEN), atol=1e-12)
