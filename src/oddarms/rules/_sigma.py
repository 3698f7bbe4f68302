"""mean + k standard deviations: the rule of the paper, and the default."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oddarms.problem import BoolArray, FloatArray, check_k
from oddarms.rules._base import Ends, Rule
from oddarms.statistics.threshold_box import bounds_over_box, rounding
from oddarms.theory import threshold


@dataclass(frozen=True)
class Sigma(Rule):
    """mu + k sigma of the n means, sigma divided by n; the centre is mu.

    Examples
    --------
    >>> Sigma(k=1.0).threshold(np.array([0.0, 0.0, 0.0, 1.0])).__round__(4)
    0.683
    >>> Sigma(k=1.0, margin=0.5).threshold(np.array([0.0, 0.0, 0.0, 1.0]))
    0.75
    """

    name: ClassVar[str] = "sigma"

    k: float = 2.0

    def __post_init__(self) -> None:
        check_k(self.k)

    def plain(self, means: FloatArray) -> float:
        """Return mu + k sigma."""
        return threshold(means, self.k)

    def centre(self, means: FloatArray) -> float:
        """Return mu."""
        return float(means.mean())

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds by convexity: `oddarms.statistics.threshold_box`."""
        return bounds_over_box(low, high, self.k)[:2]

    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the means of the ends, rounded outwards."""
        room = rounding(low.size, 1.0)
        return float(low.mean()) - room, float(high.mean()) + room

    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return c_j = (1 + k z_j)/n, z the standardised means; 1/n where all are equal.

        A k beyond sqrt(n), which no arm can reach, counts as that.
        """
        reach = math.sqrt(means.size)
        deviations = means - means.mean()
        sd = float(np.sqrt((deviations**2).mean()))
        z = deviations / sd if sd > 0.0 else 0.0 * deviations
        influence: FloatArray = (1.0 + min(max(self.k, -reach), reach) * z) / means.size
        return influence

    def centre_influence(self, means: FloatArray) -> FloatArray:
        """Return 1/n."""
        return np.full(means.size, 1.0 / means.size)

    def hangs_on(self, means: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:  # noqa: ARG002
        """Return all arms: each one moves the mean."""
        return np.ones(means.size, dtype=np.bool_)
