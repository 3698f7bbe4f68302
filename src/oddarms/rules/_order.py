"""Rules made of order statistics: median + k MAD, Tukey's fence, a quantile of the means.

Where L_i <= y_i <= U_i for all i, the q-th smallest y lies between the q-th smallest L and the q-th
smallest U, for all q at once (Lemma 1 of Zhu, Katariya and Nowak, "Robust Outlier Arm
Identification", ICML 2020). So where the intervals hold together, all order statistics do, and no
more is paid for them. Comparisons are exact in floating point, and so is the lemma.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.rules._base import Ends, Holds, Rule

ROUNDING = 16.0 * 2.0**-53
"""More than the relative rounding error of a threshold."""
NEARLY = 0.1
"""An arm nearly holds a bound if it is at most this share of the bounds' distance away from it."""
CLOSE = 1e-9
"""share * n is rounded up within this distance of a whole number: 0.29 * 100 is 28.999..."""
CHUNK = 4096
"""Arms up to which all pieces are computed at once."""
PIECES = 16
"""Pieces of the median's interval; more make the bounds little narrower."""


def middle(n: int) -> int:
    """Return the q for which the q-th smallest of n numbers is their median.

    The m-th *largest* of n = 2 m - 1 or 2 m, as in the paper on ROAI: for even n the upper of the
    two in the middle, so the median is some arm's mean, and no threshold above it calls half of
    the arms outliers. On the lower side, a mirror, it is the lower of the two.
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
    """Return how much either bound on the q-th smallest mean depends on each interval.

    Of the q arms that seem smallest, those whose upper ends reach the bound U_(q) hold it up; there
    is one, as q upper ends cannot all lie below the q-th smallest. LUCB pulls the highest; these
    are all of them and those that will be next (`NEARLY`), with equal shares, so that a batch
    serves the whole bound. The same from the other side for L_(q).
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
    """Return bounds with room for the rounding errors of sums of numbers of some size."""
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
        return unit(means.size, arm_at(means, middle(means.size)))

    def holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:
        """Return how much each cutoff depends on each interval, through one of its parts.

        The second cutoff depends on the part with the largest upper bound; the first, which can
        rise only up to the threshold, on the part that seems to be the threshold.
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


@dataclass(frozen=True)
class Mad(OrderRule):
    """median + k MAD, MAD the median of the distances |y_i - median|; the centre is the median.

    It has no factor 1.4826, which makes a MAD comparable to a standard deviation: multiply k
    instead. For both medians see `middle`. Where more than half of the means are equal, MAD is 0
    and they lie on the threshold.

    Examples
    --------
    >>> Mad(k=3.0).threshold(np.array([0.1, 0.2, 0.3, 0.4, 0.9])).__round__(4)
    0.6
    """

    name: ClassVar[str] = "mad"

    k: float = 3.0

    def plain(self, means: FloatArray) -> float:
        q = middle(means.size)
        median = smallest(means, q)
        return median + self.k * smallest(np.abs(means - median), q)

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds on median + k MAD, narrower than those of the paper on ROAI.

        Lemma 3 of ``docs/explanation/rules.md``: with G(m) and F(m) the q-th smallest of the least
        and of the largest distances of the arms from m, within the median's interval [a, b], and
        for k >= 0

            min over [a, b] of m + k G(m) <= threshold <= max over [a, b] of m + k F(m);

        for k < 0, G and F change places. G and F change by at most as much as m does, so between
        two points s < t, F(m) <= min(F(s) + m - s, F(t) + t - m) and G(m) >= max(G(s) - (m - s),
        G(t) - (t - m)): two lines that cross, and the extreme lies at s, at t or where they cross.
        [a, b] is cut into `PIECES`.
        """
        size = float(np.abs(low).max() + np.abs(high).max()) * (1.0 + 2.0 * abs(self.k))
        (lowest, _), (highest, _) = self._extremes(low, high)
        return outwards(lowest, highest, size)

    def _extremes(self, low: FloatArray, high: FloatArray) -> tuple[Ends, Ends]:
        """Return the lower bound and the upper one, each with the median that gives it."""
        q = middle(low.size)
        points = np.linspace(*smallest_bounds(low, high, q), PIECES + 1)
        inner, outer = _spreads(low, high, points, q)
        if self.k >= 0.0:
            return self._extreme(points, inner, -1.0, -1.0), self._extreme(points, outer, 1.0, 1.0)
        return self._extreme(points, outer, 1.0, -1.0), self._extreme(points, inner, -1.0, 1.0)

    def _extreme(self, points: FloatArray, spread: FloatArray, side: float, sign: float) -> Ends:
        """Return the lower bound (sign -1) or the upper one (+1), from G (side -1) or F (+1)."""
        step = np.diff(points)
        crossings = points[:-1] + 0.5 * (step + side * np.diff(spread))
        at_crossings = 0.5 * (spread[:-1] + spread[1:] + side * step)
        medians = np.concatenate([points, crossings])
        values = medians + self.k * np.concatenate([spread, at_crossings])
        best = int((sign * values).argmax())
        return float(values[best]), float(medians[best])

    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return 1 - k s for the median's arm and k s for MAD's, s the side on which that lies."""
        n, q = means.size, middle(means.size)
        median = arm_at(means, q)
        deviations = means - means[median]
        arm = arm_at(np.abs(deviations), q)
        side = float(np.sign(deviations[arm]))
        return unit(n, median, 1.0 - self.k * side) + unit(n, arm, self.k * side)

    def plain_holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:
        """Return what holds MAD, as seen from the median of the means, and what holds the median.

        Of the ends of the median's interval, the one nearer to the median that gives the bound.
        """
        q = middle(means.size)
        lowest, highest = smallest_bounds(low, high, q)
        of_median = holds_of(means, low, high, q)
        median = smallest(means, q)
        of_mad = holds_of(np.abs(means - median), *_distances(low, high, median), q)
        held = []
        for upper, (_, worst) in enumerate(self._extremes(low, high)):
            nearer = worst - lowest >= highest - worst
            outer = bool(upper) == (self.k >= 0.0)
            held.append((1.0 + abs(self.k)) * of_median[nearer] + abs(self.k) * of_mad[outer])
        return held[0], held[1]


def _distances(low: FloatArray, high: FloatArray, point: Any) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest distance of a point from means in the intervals."""
    left, right = low - point, high - point
    return np.maximum(np.maximum(left, -right), 0.0), np.maximum(right, -left)


def _spreads(
    low: FloatArray, high: FloatArray, points: FloatArray, q: int
) -> tuple[FloatArray, FloatArray]:
    """Return G and F at some points: the q-th smallest of the distances from each."""
    parts = points.size if low.size > CHUNK else 1
    inner, outer = [], []
    for part in np.array_split(points, parts):
        nearest, farthest = _distances(low, high, part[:, None])
        inner.append(np.partition(nearest, q - 1, axis=1)[:, q - 1])
        outer.append(np.partition(farthest, q - 1, axis=1)[:, q - 1])
    return np.concatenate(inner), np.concatenate(outer)


class SeparateBounds(NamedTuple):
    """Bounds on the median, the distances from it, MAD and median + k MAD, each part by itself."""

    median: Ends
    mad: Ends
    nearest: FloatArray
    farthest: FloatArray
    threshold: Ends


def separate_bounds(low: FloatArray, high: FloatArray, k: float) -> SeparateBounds:
    """Return the bounds of the paper on ROAI, which assume the worst median for each part.

    |y_i - m| lies between max(L_i - b, a - U_i, 0) and max(U_i - a, b - L_i) for all m in the
    median's interval [a, b], so MAD lies between the medians of these, by Lemma 1.
    """
    q = middle(low.size)
    a, b = smallest_bounds(low, high, q)
    nearest = np.maximum(np.maximum(low - b, a - high), 0.0)
    farthest = np.maximum(high - a, b - low)
    mad = smallest_bounds(nearest, farthest, q)
    spread = sorted(k * end for end in mad)
    return SeparateBounds((a, b), mad, nearest, farthest, (a + spread[0], b + spread[1]))


def quartiles(n: int) -> tuple[int, int]:
    """Return the places of Q1 and Q3 among n sorted means: the ceil(n/4)-th from either end.

    So each is some arm's mean, a quarter of the arms lies at or below Q1 and a quarter at or above
    Q3. Of at most four arms they are the smallest and the largest mean.
    """
    quarter = -(-n // 4)
    return quarter, n + 1 - quarter


@dataclass(frozen=True)
class Tukey(OrderRule):
    """Q3 + k (Q3 - Q1), see `quartiles`; the centre is the median.

    Examples
    --------
    >>> Tukey(k=1.5).threshold(np.array([0.1, 0.2, 0.3, 0.4, 0.9])).__round__(4)
    0.7
    """

    name: ClassVar[str] = "tukey"

    k: float = 1.5

    def plain(self, means: FloatArray) -> float:
        q1, q3 = (smallest(means, q) for q in quartiles(means.size))
        return q3 + self.k * (q3 - q1)

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return (1 + k) Q3 - k Q1 at those ends of Q1 and Q3 that make it smallest, largest.

        Q1 and Q3 lie between the ends of Lemma 1, and each enters with one sign.
        """
        q1, q3 = (smallest_bounds(low, high, q) for q in quartiles(low.size))
        three, one = sorted((1.0 + self.k) * q for q in q3), sorted(-self.k * q for q in q1)
        size = sum(map(abs, (*three, *one)))
        return outwards(three[0] + one[0], three[1] + one[1], size)

    def plain_influence(self, means: FloatArray) -> FloatArray:
        q1, q3 = (arm_at(means, q) for q in quartiles(means.size))
        return unit(means.size, q3, 1.0 + self.k) + unit(means.size, q1, -self.k)

    def plain_holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:
        """Return what holds those ends of Q1 and Q3 that make the bound."""
        q1, q3 = (holds_of(means, low, high, q) for q in quartiles(means.size))
        held = []
        for upper in (False, True):
            three = q3[upper == (self.k >= -1.0)]
            one = q1[upper != (self.k >= 0.0)]
            held.append(abs(1.0 + self.k) * three + abs(self.k) * one)
        return held[0], held[1]


@dataclass(frozen=True)
class Quantile(OrderRule):
    """Halfway between two neighbouring means, with floor(share n) arms below; centre: the median.

    At least one and at most n - 1 arms are below. If the two neighbours are equal, both lie on the
    threshold, and no number of samples can tell which is among the top.

    Examples
    --------
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
        y_(m+1) and hence at least their middle. Bounds on the middle would take four times as long.
        """
        m = self.below(low.size)
        return smallest(low, m + 1), math.nextafter(smallest(high, m), math.inf)

    def plain_influence(self, means: FloatArray) -> FloatArray:
        m, n = self.below(means.size), means.size
        return unit(n, arm_at(means, m), 0.5) + unit(n, arm_at(means, m + 1), 0.5)

    def plain_holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:
        """Return how much each of `plain_cutoffs` depends on each interval."""
        m = self.below(means.size)
        return holds_of(means, low, high, m + 1)[0], holds_of(means, low, high, m)[1]
