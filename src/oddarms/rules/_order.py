"""Order statistics of means that are known only to lie in intervals, and what follows from them.

Lemma 1 of Zhu, Katariya and Nowak ("Robust Outlier Arm Identification", ICML 2020): where
L_i <= y_i <= U_i for all i, the q-th smallest y lies between the q-th smallest L and the q-th
smallest U. For q arms have y_i <= y_(q), hence L_i <= y_(q), so L_(q) <= y_(q); and likewise from
above. It holds for all q at once, so where the intervals hold together, all order statistics do,
and no more is paid for them. Comparisons are exact in floating point, and so is the lemma.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.rules._base import Ends, Holds, Rule

ROUNDING = 16.0 * 2.0**-53
"""More than the relative error of the few sums that a threshold is made of."""
NEARLY = 0.1
"""An arm nearly holds a bound if it is this much of the bounds' distance away from it."""


def middle(n: int) -> int:
    """Return the q for which the q-th smallest of n numbers is their median.

    The m-th *largest* of n = 2 m - 1 or 2 m, as in the paper on ROAI: of an even number the upper
    one of the two in the middle. So the median is some arm's mean, and no threshold above it
    calls half of the arms outliers. In a mirror it is the lower one: each side has the median
    that is nearer to its outliers.
    """
    return n // 2 + 1


def smallest(values: FloatArray, q: int) -> float:
    """Return the q-th smallest value, q = 1, ..., n."""
    return float(np.partition(values, q - 1)[q - 1])


def smallest_bounds(low: FloatArray, high: FloatArray, q: int) -> Ends:
    """Return bounds on the q-th smallest of all numbers within their intervals: Lemma 1."""
    return smallest(low, q), smallest(high, q)


def unit(n: int, arm: int, value: float = 1.0) -> FloatArray:
    """Return n zeros but for one arm."""
    result = np.zeros(n)
    result[arm] = value
    return result


def arm_at(values: FloatArray, q: int) -> int:
    """Return the arm that has the q-th smallest value; of equal ones the first."""
    return int(np.argsort(values, kind="stable")[q - 1])


def holds_of(means: FloatArray, low: FloatArray, high: FloatArray, q: int) -> Holds:
    """Return how much either bound on the q-th smallest mean hangs on each interval.

    The q arms that seem smallest are to have small upper ends: those among them that reach the
    bound U_(q) hold it up, and the others do not matter. There is such an arm, as q upper ends
    cannot all lie below the q-th smallest. LUCB pulls the highest one; these are all of them, and
    those that will be next (`NEARLY`), so that a batch serves the whole bound. The same from the
    other side for L_(q). All have equal shares.
    """
    order = np.argsort(means, kind="stable")
    lowest, highest = smallest_bounds(low, high, q)
    above, below = order[q - 1 :], order[:q]
    slack = NEARLY * (highest - lowest)
    return (
        _shares(means.size, above[low[above] <= lowest + slack]),
        _shares(means.size, below[high[below] >= highest - slack]),
    )


def _shares(n: int, arms: IntArray) -> FloatArray:
    result = np.zeros(n)
    result[arms] = 1.0 / max(arms.size, 1)
    return result


def outwards(low: float, high: float, size: float) -> Ends:
    """Return bounds with room for what was rounded in sums of numbers of some size."""
    room = ROUNDING * size if math.isfinite(size) else 0.0
    return low - room, high + room


@dataclass(frozen=True)
class OrderRule(Rule):
    """A rule whose threshold is made of order statistics; its centre is the median."""

    @abstractmethod
    def plain_holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:
        """Return how much each of `plain_cutoffs` depends on each interval."""

    def centre(self, means: FloatArray) -> float:
        """Return the median, see `middle`."""
        return smallest(means, middle(means.size))

    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the medians of the ends: Lemma 1."""
        return smallest_bounds(low, high, middle(low.size))

    def centre_influence(self, means: FloatArray) -> FloatArray:
        """Return 1 for the arm that is the median."""
        return unit(means.size, arm_at(means, middle(means.size)))

    def holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:
        """Return how much each cutoff depends on each interval, through one of its parts.

        The second cutoff falls with the part that is the largest of the upper bounds. The first one
        can rise only up to the threshold, so with the part that seems to be the threshold.
        """
        part = self._largest(self.plain(means), self.centre(means))
        lower = self._holds_of_part(part, means, low, high)[0]
        uppers = self.plain_cutoffs(low, high)[1], self.centre_bounds(low, high)[1]
        return lower, self._holds_of_part(self._largest(*uppers), means, low, high)[1]

    def _largest(self, plain: float, centre: float) -> str:
        above_centre = centre + self.margin if self.margin > 0.0 else -math.inf
        if self.floor > max(plain, above_centre):
            return "floor"
        return "plain" if plain >= above_centre else "centre"

    def _holds_of_part(
        self, part: str, means: FloatArray, low: FloatArray, high: FloatArray
    ) -> Holds:
        if part == "plain":
            return self.plain_holds(means, low, high)
        if part == "centre":
            return holds_of(means, low, high, middle(means.size))
        return np.zeros(means.size), np.zeros(means.size)

    def hangs_on(self, means: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:
        """Return the arms at which an end of an order statistic is held up, see `holds_of`."""
        lower, upper = self.holds(means, low, high)
        mask: BoolArray = (lower > 0.0) | (upper > 0.0)
        return mask
