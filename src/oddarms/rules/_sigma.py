"""mean + k standard deviations: the rule of the paper, and the default."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oddarms.problem import BoolArray, FloatArray, check_k
from oddarms.rules._base import Ends, Rule
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
        """Return theta at the middle of the box, -+ how far it can be from there.

        theta moves by at most |c| |y - middle| (Cauchy-Schwarz) with |c|^2 = (1 + k^2)/n, and by
        at most max|c_j| sum |y_j - middle_j| with |c_j| <= (1 + |k| sqrt(n - 1))/n. Coarse: SPADE
        has far better ones from the rewards themselves.
        """
        n, middle, radius = low.size, 0.5 * (low + high), 0.5 * (high - low)
        far = math.sqrt((1.0 + self.k**2) / n) * float(np.sqrt((radius**2).sum()))
        near = (1.0 + abs(self.k) * math.sqrt(n - 1.0)) / n * float(radius.sum())
        theta, reach = threshold(middle, self.k), min(far, near) + 1e-12
        return theta - reach, theta + reach

    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the means of the ends."""
        return float(low.mean()), float(high.mean())

    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return c_j = (1 + k z_j)/n, z the standardised means; 1/n where all are equal."""
        deviations = means - means.mean()
        sd = float(np.sqrt((deviations**2).mean()))
        z = deviations / sd if sd > 0.0 else 0.0 * deviations
        influence: FloatArray = (1.0 + self.k * z) / means.size
        return influence

    def centre_influence(self, means: FloatArray) -> FloatArray:
        """Return 1/n."""
        return np.full(means.size, 1.0 / means.size)

    def hangs_on(self, means: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:  # noqa: ARG002
        """Return all arms: each one moves the mean."""
        return np.ones(means.size, dtype=np.bool_)
