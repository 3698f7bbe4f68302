"""A quantile of the means: the top arms are the outliers, however far they stand out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from oddarms.problem import FloatArray
from oddarms.rules._base import Ends, Holds
from oddarms.rules._order import (
    OrderRule,
    arm_at,
    holds_of,
    outwards,
    smallest,
    smallest_bounds,
    unit,
)

CLOSE = 1e-9
"""share * n may be this far below a whole number and means it: 0.29 * 100 is 28.999..."""


@dataclass(frozen=True)
class Quantile(OrderRule):
    """Halfway between two neighbouring means, with floor(share n) arms below; centre: the median.

    At least one arm and at most n - 1 arms are below, whatever the share. As no arm lies on it, the
    outliers are just the top arms, unless the two neighbours are equal: then both lie on the
    threshold, and which of them is among the top has no answer.

    Examples
    --------
    >>> import numpy as np
    >>> rule = Quantile(share=0.8)
    >>> means = np.array([0.1, 0.2, 0.3, 0.4, 0.9])
    >>> rule.threshold(means), rule.outliers(means).tolist()
    (0.65, [False, False, False, False, True])
    """

    name: ClassVar[str] = "quantile"

    share: float = 0.9

    def _own_words(self) -> dict[str, Any]:
        return {"quantile": self.share}

    @property
    def ordered(self) -> bool:
        """Whether no arm is among the top and the bottom ones."""
        return self.share >= 0.5

    def below(self, n: int) -> int:
        """Return how many of n arms lie below the threshold."""
        return min(max(math.floor(self.share * n + CLOSE), 1), n - 1)

    def plain(self, means: FloatArray) -> float:
        """Return the middle of the last mean below and the first one above."""
        m = self.below(means.size)
        return 0.5 * (smallest(means, m) + smallest(means, m + 1))

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the middles of the neighbours' ends: Lemma 1 for each of the two."""
        m = self.below(low.size)
        one, two = (smallest_bounds(low, high, q) for q in (m, m + 1))
        lower, upper = 0.5 * (one[0] + two[0]), 0.5 * (one[1] + two[1])
        return outwards(lower, upper, abs(lower) + abs(upper))

    def plain_cutoffs(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return L_(m+1) and just above U_(m), m = `below`: what is needed to tell ranks.

        With U_i < L_(m+1), y_i is less than n - m other means, so y_i <= y_(m) and y_i < y_(m+1):
        it lies below their middle. With L_i > U_(m), y_i exceeds m other means, so it is at least
        y_(m+1) and hence at least their middle. The bounds on the middle itself are twice as far
        from the neighbours' means, in gaps between the two, so they would take four times as long.
        """
        m = self.below(low.size)
        return smallest(low, m + 1), math.nextafter(smallest(high, m), math.inf)

    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return 1/2 for each neighbour."""
        m, n = self.below(means.size), means.size
        return unit(n, arm_at(means, m), 0.5) + unit(n, arm_at(means, m + 1), 0.5)

    def plain_holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:
        """Return how much each of `plain_cutoffs` depends on each interval."""
        m = self.below(means.size)
        return holds_of(means, low, high, m + 1)[0], holds_of(means, low, high, m)[1]
