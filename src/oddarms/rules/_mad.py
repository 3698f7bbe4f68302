"""median + k MAD: the rule of "Robust Outlier Arm Identification" (ICML 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oddarms.problem import FloatArray
from oddarms.rules._base import Ends, Holds
from oddarms.rules._order import (
    OrderRule,
    arm_at,
    holds_of,
    middle,
    outwards,
    smallest,
    smallest_bounds,
    unit,
)

PIECES = 16
"""Of the median's interval; more of them make the bounds little narrower."""
CHUNK = 4096
"""Arms up to which all pieces are computed at once."""


@dataclass(frozen=True)
class Mad(OrderRule):
    """median + k MAD, MAD the median of the distances |y_i - median|; the centre is the median.

    There is no factor 1.4826 in it, as there is where a MAD is to stand for the standard deviation
    of a normal law: for that, ask for a k 1.4826 times as large. Both medians are the m-th largest
    of n = 2 m - 1 or 2 m numbers, see `oddarms.rules._order.middle`. Where more than half of the
    means are equal, MAD is 0 and they lie on the threshold.

    Examples
    --------
    >>> Mad(k=3.0).threshold(np.array([0.1, 0.2, 0.3, 0.4, 0.9])).__round__(4)
    0.6
    """

    name: ClassVar[str] = "mad"

    k: float = 3.0

    def plain(self, means: FloatArray) -> float:
        """Return median + k MAD."""
        q = middle(means.size)
        median = smallest(means, q)
        return median + self.k * smallest(np.abs(means - median), q)

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds on median + k MAD, narrower than those of the paper on ROAI.

        The median m lies in [a, b] by Lemma 1. Given it, |y_i - m| lies between
        g_i(m) = max(L_i - m, m - U_i, 0) and f_i(m) = max(U_i - m, m - L_i), so by Lemma 1 again
        MAD lies between the q-th smallest of each, G(m) and F(m), and for k >= 0

            min over [a, b] of m + k G(m) <= threshold <= max over [a, b] of m + k F(m);

        for k < 0, G and F change places. (The paper takes the worst m for each part by itself.) All
        g_i and f_i change with m by at most as much as m does, hence so do G and F. So between two
        points s < t, F(m) <= min(F(s) + m - s, F(t) + t - m) and G(m) >= max(G(s) - (m - s),
        G(t) - (t - m)): two lines that cross between s and t. With either in its place, what is to
        be maximised is concave in m and what is to be minimised is convex, and both are made of
        two lines: the extreme lies at s, at t or where they cross. [a, b] is cut into `PIECES`.
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
        """Return what holds MAD, as seen from the median of the means, and an end of the median.

        Of the median's ends it is the one nearer to the median that gives the bound. Seen from
        there, other arms may hold MAD; but it is not there once the median is known.
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
    """Return the least and the largest distance that a mean in its interval has from a point."""
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
    """Return the bounds of the paper on ROAI, which take the worst median for each part.

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
