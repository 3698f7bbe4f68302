"""What must hold for every input, searched by hypothesis (derandomised: the same every time)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers import VARIANTS
from oddarms import find
from oddarms.arms import Resampled
from oddarms.statistics.round_robin import (
    harmonic_mean_of_pulls,
    moments_of,
    plug_in_threshold,
    replace_arm,
)
from oddarms.theory import gaps, hardness, outliers, threshold

means_lists = st.lists(st.integers(0, 100).map(lambda x: x / 100), min_size=2, max_size=9)
ks = st.floats(-3, 3).map(lambda x: round(x, 2))
seeds = st.integers(0, 2**32 - 1)
variants = st.sampled_from(sorted(VARIANTS))


@given(means_lists, ks, st.floats(-50, 50), st.floats(0.01, 100))
def test_shifting_and_scaling_means(means: list[float], k: float, a: float, R: float) -> None:
    assume(gaps(means, k).min() > 1e-6)
    moved = a + R * np.array(means)
    assert threshold(moved, k) == pytest.approx(a + R * threshold(means, k), abs=1e-9 * (R + 50))
    assert outliers(moved, k).tolist() == outliers(means, k).tolist()
    assert hardness(moved, k).smallest_gap == pytest.approx(
        R * hardness(means, k).smallest_gap, rel=1e-5
    )


@given(means_lists, ks)
def test_the_lower_side_mirrors_the_upper(means: list[float], k: float) -> None:
    assume(min(gaps(means, k).min(), gaps(means, -k).min()) > 1e-9)
    mirrored = 1.0 - np.array(means)
    assert outliers(mirrored, k, "lower").tolist() == outliers(means, k).tolist()
    both = set(outliers(means, k).tolist()) | set(outliers(means, k, "lower").tolist())
    assert set(outliers(means, k, "both").tolist()) == both


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.9, 1.0]), min_size=2, max_size=7),
    variants,
    st.sampled_from([0.0, 0.4]),
    st.randoms(use_true_random=False),
    seeds,
)
@settings(max_examples=6)
def test_permuting_arms_permutes_the_answer(
    means: list[float], variant: str, k: float, random: Any, seed: int
) -> None:
    """Rewards from recorded tables, permuted along with the arms; whole searches."""
    algorithm, options = VARIANTS[variant]
    if algorithm == "ade":
        k = 0.0  # a few thousand pulls
    assume(gaps(means, k).min() > 0.2)
    order = list(range(len(means)))
    random.shuffle(order)
    records = {i: [0.0] * round(10 * (1 - y)) + [1.0] * round(10 * y) for i, y in enumerate(means)}

    def answer(labels: list[int]) -> dict[Any, str]:
        result = find(
            Resampled({i: records[i] for i in labels}),
            k=k,
            delta=0.01,
            algorithm=algorithm,
            rng=seed,
            **options,
        )
        assert result.complete
        return {row["label"]: row["decision"] for row in result.to_dict()["arms"]}

    straight = answer(list(range(len(means))))
    assert answer(order) == straight
    assert {i for i, d in straight.items() if d == "high"} == set(outliers(means, k).tolist())


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=20),
    st.lists(st.tuples(st.integers(0, 19), st.floats(0, 1)), max_size=60),
    ks,
)
def test_updated_moments_are_fresh_moments(
    means: list[float], updates: list[tuple[int, float]], k: float
) -> None:
    y, m = np.array(means), np.ones(len(means), dtype=np.int64)
    moments = moments_of(y, m)
    for i, mean in ((i % len(means), mean) for i, mean in updates):
        moments = replace_arm(moments, y[i], mean, m[i], m[i] + 3)
        y[i], m[i] = mean, m[i] + 3
    fresh = moments_of(y, m)
    assert harmonic_mean_of_pulls(moments) == pytest.approx(harmonic_mean_of_pulls(fresh))
    # rounding of 1e-16 in the variance is 1e-8 in the standard deviation where that is 0
    assert plug_in_threshold(moments, k) == pytest.approx(plug_in_threshold(fresh, k), abs=1e-6)
