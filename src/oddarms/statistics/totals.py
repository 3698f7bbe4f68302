"""Sums and sums of squares, and what is left of a variance once they were rounded.

A small variance is rewarded: it makes bets cheap and intervals short. As a difference of nearly
equal numbers it may lose all its digits, so every variance here is at least the true one whatever
was rounded. The bounds on rounding are worst cases, for sums made in any order, one by one or not.

Let u = 2^-53. N non-negative numbers with relative errors up to 8 u each (rewards that were
scaled, mirrored or squared), added in any order, have a sum with a relative error of at most
(N + 8) u / (1 - (N + 8) u), which is below `relative_error` (N + 16) 2 u for N < 2^50.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.elementwise import Numbers, choose, elementwise

UNIT = 2.0**-53
"""The largest relative error of one rounding."""


class Totals(NamedTuple):
    """All pulls of each arm as they come: their number, sum and sum of squares, in [0, 1].

    Sums of non-negative numbers only, so that their errors stay relative.
    """

    pulls: FloatArray
    total: FloatArray
    squares: FloatArray

    @classmethod
    def empty(cls, n: int) -> Totals:
        """Return the totals of n arms without pulls."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n))

    def of(self, arms: IntArray) -> Totals:
        """Return the totals of some arms."""
        return Totals(self.pulls[arms], self.total[arms], self.squares[arms])

    def plus(self, other: Totals) -> Totals:
        """Return the totals with more pulls."""
        return Totals(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def scatter(self) -> FloatArray:
        """At least sum_s (X_s - mean)^2 of each arm: `scatter_of`."""
        result: FloatArray = scatter_of(*self)
        return result


@elementwise
def relative_error(counts: Numbers) -> Numbers:
    """Return more than the relative error of a sum of `counts` non-negative numbers."""
    return (counts + 16.0) * (2.0 * UNIT)


@elementwise
def scatter_of(counts: Numbers, sums: Numbers, squares: Numbers) -> Numbers:
    """Return at least sum_s (X_s - mean)^2, from sums and sums of squares; 0 without rewards.

    Assumes that both have a relative error of at most e = `relative_error`/2 as sums of
    non-negative numbers have. Then the true scatter Q - S^2/N is at most
    Q~ (1 + e) - (1 - 2 e) S~^2/N, which exceeds Q~ - S~^2/N by at most 3 e Q~ up to terms in e^2,
    and the three roundings made here cost 3 u Q~; 4 e Q~ covers all. A relative error of Q, so
    rewards that are tiny against their bounds keep their digits.
    """
    some = choose(counts > 0, counts, 1.0)
    known = choose(counts > 0, squares - sums * (sums / some), 0.0)
    return np.maximum(known, 0.0) + 2.0 * relative_error(counts) * squares


def added_up(counts: IntArray, rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sum and the sum of squares of rewards in [0, 1]: `counts[j]` of them for entry j.

    Scale the rewards first and add them up then: each is rounded relative to itself, and the sum
    of non-negative numbers loses no more than `relative_error`, so `scatter_of` is right about
    it. Adding rewards to such sums one at a time is as good.
    """
    entries = np.repeat(np.arange(counts.size), counts)
    sums = np.bincount(entries, rewards, minlength=counts.size)
    squares = np.bincount(entries, rewards * rewards, minlength=counts.size)
    return sums.astype(np.float64), squares.astype(np.float64)


def mirrored_totals(
    counts: Any, sums: FloatArray, squares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sums and sums of squares of the rewards 1 - X.

    N - 2 S + Q would cancel where rewards are tiny. The scatter stays the same in a mirror, and
    with S' = N - S it gives Q' = scatter + S'^2/N, a sum of non-negative numbers: `scatter_of`
    returns at least the scatter from it. At most S', as X^2 <= X.
    """
    mirrored = np.asarray(counts - sums)
    return mirrored, squares_from(counts, mirrored, scatter_of(counts, sums, squares))


def scaled_totals(
    counts: Any,
    sums: FloatArray,
    squares: FloatArray,
    bounds: tuple[float, float],
    *,
    mirrored: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Return the sums and sums of squares of rewards scaled to [0, 1], from those of X in [a, b].

    (X - a)/(b - a) is what is added up, or (b - X)/(b - a) where `mirrored`. Every count is
    positive.

    The scatter does not change when rewards are shifted, so it is found first, with the bound on
    what adding up N rewards in floating point can have lost. Sums of numbers of either sign err by
    at most e sum |X| <= e sqrt(N Q), e as in `scatter_of`, so S^2/N errs by at most 2 e Q and the
    proof there holds. Where the bounds are narrow and far from 0 that bound exceeds what is there;
    then the scatter is the largest that rewards in [0, 1] with this sum can have, S' - S'^2/N.

    So the variance is never understated. The mean is as exact as the given sum, no more: it may
    be off by `mean_error`. Single rewards, scaled one by one, are better.
    """
    a, b = bounds
    width = b - a
    scaled = (counts * b - sums if mirrored else sums - counts * a) / width
    scaled = np.clip(scaled, 0.0, counts)
    return scaled, squares_from(counts, scaled, scatter_of(counts, sums, squares) / width / width)


def possible_totals(
    counts: Any, sums: FloatArray, squares: FloatArray, bounds: tuple[float, float]
) -> Any:
    """Tell of each entry whether some rewards in [a, b] have these totals, up to rounding.

    Their scatter is at least 0, and at most that of rewards at a and b alone with the same mean,
    N (mean - a) (b - mean); the sum lies between N a and N b. Totals may have been rounded to
    nine digits of the sum and six of the scatter.
    """
    a, b = bounds
    reach = max(abs(a), abs(b), b - a)
    doubt = counts * np.maximum(mean_error(counts, bounds), 1e-9 * reach)
    with np.errstate(all="ignore"):
        room = np.maximum(sums - counts * a, 0.0) * np.maximum(counts * b - sums, 0.0) / counts
        least = squares - sums * (sums / counts)
        slack = 4.0 * relative_error(counts) * squares + doubt * (b - a)
        slack = slack + 1e-6 * counts * (b - a) * (b - a)
        inside = (sums >= counts * a - doubt) & (sums <= counts * b + doubt)
        return inside & np.isfinite(squares) & (least >= -slack) & (least <= room + slack)


def mean_error(counts: Any, bounds: tuple[float, float]) -> FloatArray:
    """Return how far the mean of rewards in [a, b] may be off once they were added up.

    Each of N numbers of at most max(|a|, |b|) meets N roundings at most.
    """
    result: FloatArray = relative_error(counts) * max(abs(bounds[0]), abs(bounds[1]))
    return result


@elementwise
def squares_from(counts: Numbers, sums: Numbers, scatter: Numbers) -> Numbers:
    """Return the sum of squares of rewards in [0, 1] with this sum and scatter, at most the sum."""
    around_zero = choose(counts > 0, sums * (sums / choose(counts > 0, counts, 1.0)), 0.0)
    return np.minimum(scatter + around_zero, np.maximum(sums, around_zero))
