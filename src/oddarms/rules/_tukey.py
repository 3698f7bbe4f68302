"""Q3 + k (Q3 - Q1): Tukey's fence, the end of a box plot's whisker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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


def quartiles(n: int) -> tuple[int, int]:
    """Return the places of Q1 and Q3 among n sorted means: the ceil(n/4)-th from either end.

    So each is some arm's mean, a quarter of the arms lies at or below Q1 and a quarter at or above
    Q3, and in a mirror they change places. At most four arms have their extremes as quartiles.
    """
    quarter = -(-n // 4)
    return quarter, n + 1 - quarter


@dataclass(frozen=True)
class Tukey(OrderRule):
    """Q3 + k (Q3 - Q1), see `quartiles`; the centre is the median.

    Examples
    --------
    >>> import numpy as np
    >>> Tukey(k=1.5).threshold(np.array([0.1, 0.2, 0.3, 0.4, 0.9])).__round__(4)
    0.7
    """

    name: ClassVar[str] = "tukey"

    k: float = 1.5

    def plain(self, means: FloatArray) -> float:
        """Return Q3 + k (Q3 - Q1)."""
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
        """Return 1 + k for the arm at Q3 and -k for that at Q1."""
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
