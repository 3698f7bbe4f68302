"""Threshold, outliers, gaps and hardness on means small enough to check by hand."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from oddarms.errors import InvalidParameter
from oddarms.theory import Hardness, gaps, hardness, outliers, threshold

# mean 0.5; deviations -0.3, -0.1, -0.1, 0.5; squares 0.09 + 0.01 + 0.01 + 0.25 = 0.36;
# population variance 0.36 / 4 = 0.09, sd 0.3 (the sample sd would be sqrt(0.12) = 0.346)
MEANS = [0.2, 0.4, 0.4, 1.0]


def test_threshold_uses_the_population_standard_deviation() -> None:
    assert threshold(MEANS, k=1) == pytest.approx(0.5 + 0.3)
    assert threshold(MEANS, k=1.5) == pytest.approx(0.5 + 0.45)


def test_other_k() -> None:
    assert threshold(MEANS, k=0) == pytest.approx(0.5)
    assert outliers(MEANS, k=0).tolist() == [3]
    assert threshold(MEANS, k=-0.5) == pytest.approx(0.5 - 0.15)
    assert outliers(MEANS, k=-0.5).tolist() == [1, 2, 3]


def test_outliers_of_each_side() -> None:
    assert outliers(MEANS, k=0.9).tolist() == [3]  # 0.5 + 0.27 = 0.77
    assert outliers(MEANS, k=0.9, side="lower").tolist() == [0]  # 0.5 - 0.27 = 0.23
    assert outliers(MEANS, k=0.9, side="both").tolist() == [0, 3]
    assert outliers(MEANS, k=2).tolist() == []


def test_an_arm_on_the_threshold_is_an_outlier() -> None:
    # means 0 and 1: mean 1/2, sd 1/2, so k = 1 puts theta at 1 and -theta at 0, exactly
    assert outliers([0.0, 1.0], k=1).tolist() == [1]
    assert outliers([0.0, 1.0], k=1, side="lower").tolist() == [0]
    assert gaps([0.0, 1.0], k=1).tolist() == [1.0, 0.0]


def test_gaps() -> None:
    # theta = 0.8: 0.8 - 0.2, 0.8 - 0.4 twice, 1.0 - 0.8
    np.testing.assert_allclose(gaps(MEANS, k=1), [0.6, 0.4, 0.4, 0.2])


def test_hardness() -> None:
    measure = hardness(MEANS, k=1)
    expected = Hardness(H1=4 / 0.04, H2=1 / 0.36 + 2 / 0.16 + 1 / 0.04, smallest_gap=0.2)
    assert dataclasses.astuple(measure) == pytest.approx(dataclasses.astuple(expected))


def test_hardness_of_an_arm_on_the_threshold_is_infinite() -> None:
    assert hardness([0.0, 1.0], k=1) == Hardness(H1=math.inf, H2=math.inf, smallest_gap=0.0)


@pytest.mark.parametrize("k", [-2.0, 0.0, 3.0])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7])  # in floats, their mean need not equal them
def test_equal_means_are_all_on_the_threshold(k: float, value: float) -> None:
    means = [value] * 7
    assert threshold(means, k) == value
    assert gaps(means, k).tolist() == [0.0] * 7
    assert outliers(means, k).tolist() == list(range(7))
    assert hardness(means, k).smallest_gap == 0.0


@pytest.mark.parametrize(
    ("means", "words", "message"),
    [
        ([], {}, "At least 2 arms are needed, but got 0"),
        ([0.5], {}, "At least 2 arms are needed, but got 1"),
        ([0.1, math.nan, 0.3], {}, r"means must be finite .* means\[1\] is nan"),
        ([[0.1, 0.2], [0.3, 0.4]], {}, r"one-dimensional but got shape \(2, 2\)"),
        (MEANS, {"k": math.nan}, "k must be a finite number but got nan"),
        (MEANS, {"side": "middle"}, "side must be 'upper', 'lower' or 'both'"),
    ],
)
def test_misuse(means: Any, words: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        outliers(means, **{"k": 1, **words})
