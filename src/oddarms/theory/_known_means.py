"""The threshold, the outliers and the hardness of *known* means.

The standard deviation is the population one (divide by n) and an arm exactly on the threshold
counts as an outlier, as in Zhang et al. (AAAI 2020), eq. (1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddarms.problem import FloatArray, IntArray, Side, check_k, check_means, check_side


def threshold(means: npt.ArrayLike, k: float) -> float:
    """Return theta = mu_y + k * sigma_y of known means (eq. 1), sigma_y the population sd.

    Examples
    --------
    >>> threshold([0.0, 0.0, 0.0, 1.0], k=1)  # 1/4 + sqrt(3)/4
    0.6830127018922193
    """
    y = check_means(means)
    check_k(k)
    if y.min() == y.max():  # sigma is exactly 0; y.std() may round to something above it
        return float(y[0])
    return float(y.mean() + k * y.std())


def outliers(means: npt.ArrayLike, k: float, side: Side = "upper") -> IntArray:
    """Return the indices of the outliers of known means: y_i >= theta on the upper side.

    On the lower side, y_i <= mu_y - k * sigma_y; with ``side="both"``, either.

    Examples
    --------
    >>> outliers([0.3, 0.2, 0.25, 0.9], k=1.5).tolist()
    [3]
    """
    y = check_means(means)
    check_side(side)
    is_outlier = np.zeros(y.size, dtype=np.bool_)
    if side != "lower":
        is_outlier |= y >= threshold(y, k)
    if side != "upper":
        is_outlier |= y <= threshold(y, -k)
    return np.flatnonzero(is_outlier)


def gaps(means: npt.ArrayLike, k: float) -> FloatArray:
    """Return Delta_i = |y_i - theta| of each arm.

    Examples
    --------
    >>> gaps([0.0, 0.0, 0.0, 1.0], k=1).round(4).tolist()
    [0.683, 0.683, 0.683, 0.317]
    """
    y = check_means(means)
    return np.abs(y - threshold(y, k))


@dataclass(frozen=True)
class Hardness:
    """The two complexity measures of Zhuang et al. (2017): equal and adaptive sampling.

    Attributes
    ----------
    H1
        n / Delta_min^2, what sampling all arms equally must pay.
    H2
        sum_i 1 / Delta_i^2, what sampling each arm as long as it needs must pay.
    smallest_gap
        Delta_min.
    """

    H1: float
    H2: float
    smallest_gap: float


def hardness(means: npt.ArrayLike, k: float) -> Hardness:
    """Return the hardness of known means; infinite where an arm lies on the threshold.

    Examples
    --------
    >>> hardness([0.0, 0.0, 0.0, 1.0], k=1).H1.__round__(2)  # 4 / 0.31699^2
    39.81
    """
    delta_i = gaps(means, k)
    smallest = float(delta_i.min())
    if smallest == 0.0:
        return Hardness(math.inf, math.inf, 0.0)
    return Hardness(delta_i.size / smallest**2, float((delta_i**-2.0).sum()), smallest)
