"""The threshold mu + k sigma of n means that are known to lie in a box, one interval for each.

Nothing but the box is used: neither how its intervals were found nor how likely they are to hold.
Where they hold, all that is said here is true. Means are in [0, 1].

For k >= 0 theta(y) = mu + k sigma is convex. Both bounds are one-sided relaxations, so that rough
searches for the best of them do no harm:

**Below.** theta(y) >= <c, y> for c_j = (1 + k w_j)/n, where the average of w is 0 and that of w^2
at most 1 (Cauchy-Schwarz); the least of <c, y> over the box has each y_j at one of its ends. The
best w is that of the point of the box where theta is least. There, by the conditions of Kuhn and
Tucker, y_j is at its lower end where c_j > 0, at its upper end where c_j < 0, and where c_j = 0 it
is v = mu - sigma/k: so y_j is the point of its interval next to v, and v is found by bisection.

**Above.** sigma^2 <= avg (y_j - c)^2 for every c, and sigma <= (s + sigma^2/s)/2 for every s > 0.
So theta(y) <= k s/2 + avg_j (y_j + k (y_j - c)^2/(2 s)), in which every y_j stands alone, and its
term is largest at one of its ends. Convex in (c, s). The best c and s are the mean and the sd of
these ends, if they are ends of one vertex; they are sought by going half the way there some times.

For k < 0, theta of y is 1 minus that of |k| and 1 - y.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray
from oddarms.statistics.directions import lean_of
from oddarms.statistics.elementwise import Numbers, choose, elementwise
from oddarms.statistics.totals import UNIT, relative_error

BISECTIONS = 24
HALVES = 12
SMALLEST_SD = 1e-100  # its inverse is still a number, with a square that is one
LARGEST_K = 1e150  # beyond it no bound is told


class Bounds(NamedTuple):
    """Bounds on the threshold over a box."""

    least: float
    most: float
    least_at_high: FloatArray
    """At most the threshold where the mean of this arm is at the upper end of its interval."""
    most_at_low: FloatArray
    """At least the threshold where the mean of this arm is at the lower end of its interval."""


def influence(means: FloatArray, k: float) -> FloatArray:
    """Return how far the threshold goes with each mean, |1 + k (y_j - mu)/sigma|/n; a guess.

    A k that no arm can reach, beyond sqrt(n), counts as that.
    """
    mu, sigma = _mean_and_sd(means)
    k = min(max(k, -math.sqrt(means.size)), math.sqrt(means.size))
    result: FloatArray = np.abs(1.0 + k * (means - mu) / max(sigma, SMALLEST_SD)) / means.size
    return result


def bounds_over_box(low: FloatArray, high: FloatArray, k: float) -> Bounds:
    """Return bounds on mu + k sigma of means within [low_j, high_j]."""
    if abs(k) > LARGEST_K:
        endless = np.full(low.size, np.inf)
        return Bounds(-np.inf, np.inf, -endless, endless)
    if k < 0.0:
        least, most, at_high, at_low = bounds_over_box(1.0 - high, 1.0 - low, -k)
        return Bounds(1.0 - most, 1.0 - least, 1.0 - at_low, 1.0 - at_high)
    least, at_high = lower_bounds(low, high, k)
    most, at_low = upper_bounds(low, high, k)
    return Bounds(least, most, at_high, at_low)


def within_reach(n: int, k: float) -> bool:
    """Return whether |k| <= sqrt(n - 1), the most that one of n numbers lies out, in sd."""
    return Fraction(k) ** 2 <= n - 1


class Verdicts(NamedTuple):
    """What a box proves: arms at or above the threshold, and arms below it."""

    odd: BoolArray
    normal: BoolArray


def verdicts(
    low: FloatArray, high: FloatArray, k: float, margin: float = 0.0, floor: float = -math.inf
) -> Verdicts:
    """Return what holds for all means within [low_j, high_j].

    y_i - theta(y) does not fall as y_i grows if |k| <= sqrt(n - 1): its derivative is
    1 - 1/n - k z_i/n with z_i = (y_i - mu)/sigma, and no |z_i| exceeds sqrt(n - 1). So arm i is at
    or above the threshold in the whole box if it is where y_i = low_i, and below if it is where
    y_i = high_i. Among few arms that is worth much: one that lies far out moves the threshold.

    If k > sqrt(n - 1), all arms are below the threshold unless all means are equal; if
    k < -sqrt(n - 1), all are above it.

    With a margin or a floor an arm is an outlier if it lies also at or above mu + margin, and the
    floor; y_i - mu grows with y_i, too, so the same ends decide.
    """
    n = low.size
    none: BoolArray = np.zeros(n, dtype=np.bool_)
    if not within_reach(n, k):
        if k < 0.0:
            return Verdicts(~none, none)
        odd, normal = none, np.full(n, low.max() > high.min())
    else:
        bounds = bounds_over_box(low, high, k)
        odd, normal = low >= bounds.most_at_low, high < bounds.least_at_high
    if margin > 0.0:
        width, slack = (high - low) / n, rounding(n, 1.0)
        odd &= low >= high.mean() - width + margin + slack
        normal |= high < low.mean() + width + margin - slack
    return Verdicts(odd & (low >= floor), normal | (high < floor))


def known_outliers(
    totals: FloatArray,
    rows: FloatArray,
    doubt: FloatArray,
    k: float,
    margin: float = 0.0,
    floor: float = -math.inf,
) -> BoolArray:
    """Return which of n known means totals/rows lie at or above the threshold, or on it.

    Where all totals are exact (`doubt` is 0, as for rewards 0 and 1) so is the answer, a tie with
    mu + k sigma included (one with a margin or a floor up to rounding): arms that floating point
    cannot tell from the threshold are compared with it in whole numbers. Otherwise a total may be
    off by `doubt`, and an arm that lies within what this can do to its distance from the threshold
    is taken to be on it. With e the largest error of a mean that is (2 + |k|) e at most, as mu
    moves by at most e, and so does sigma, which is 1-Lipschitz.

    The roundings made here have the same effect as errors of the means: less than
    `relative_error(n)` each for dividing, averaging, taking differences and squares.
    """
    n, means = rows.size, totals / rows
    error = float((doubt / rows).max())
    tolerance = (2.0 + abs(k)) * (error + 4.0 * relative_error(n))
    beyond: BoolArray = means > floor - tolerance
    if margin > 0.0:
        beyond &= means > means.mean() + margin - tolerance
    if not within_reach(n, k):
        equal = float(np.ptp(means)) <= 2.0 * (error + UNIT)
        if equal and error == 0.0:
            equal = len(set(_fractions(totals, rows))) == 1
        return beyond & (k < 0.0 or equal)
    mu, sigma = _mean_and_sd(means)
    distance = means - (mu + k * sigma)
    odd: BoolArray = distance > -tolerance
    close = np.abs(distance) <= tolerance
    if error == 0.0 and close.any():
        odd[close] = _exactly_odd(k, _fractions(totals, rows), np.flatnonzero(close).tolist())
    return odd & beyond


def _exactly_odd(k: float, means: list[Fraction], arms: list[int]) -> list[bool]:
    """Return whether y_i - mu >= k sigma, of some arms, without a root: by signs and squares."""
    mu = sum(means, Fraction(0)) / len(means)
    variance = sum(((y - mu) ** 2 for y in means), Fraction(0)) / len(means)
    factor = Fraction(k)
    side = factor * abs(factor) * variance
    return [(away := means[i] - mu) * abs(away) >= side for i in arms]


def _fractions(totals: FloatArray, rows: FloatArray) -> list[Fraction]:
    return [
        Fraction(total) / int(n) for total, n in zip(totals.tolist(), rows.tolist(), strict=True)
    ]


def thresholds_within(low: FloatArray, high: FloatArray, k: float) -> tuple[float, float]:
    """Return mu + k sigma of two points of a box: a flat one, and one that is spread.

    No lower bound exceeds the first and no upper bound is below the second, so that much dearer
    bounds need not be sought where these say nothing new.
    """
    centre = 0.5 * float(low.mean() + high.mean())
    flat, flat_sd = _mean_and_sd(nearest_to(centre, low, high))
    wide, wide_sd = _mean_and_sd(farthest_from(centre, low, high))
    return flat + k * flat_sd, wide + k * wide_sd


def lower_bounds(low: FloatArray, high: FloatArray, k: float) -> tuple[float, FloatArray]:
    """Return lower bounds of mu + k sigma, k >= 0: over a box, and with each mean at its upper end.

    In floating point the average of w is 0 up to e = `relative_error(n)` and that of w^2 is 1 up to
    2 e, so <c, y> exceeds theta by at most 2 k e; its sum of terms errs by e times the sum of
    |c_j|, at most e (1 + k); and a box that was mirrored, by a unit. All of it is taken off.
    """
    least, at_high = _along(low, high, k, np.zeros(low.size))
    if k == 0.0:
        return least, at_high
    other, other_at_high = _along(low, high, k, _lean_at_least(low, high, k))
    return max(least, other), np.maximum(at_high, other_at_high)


def _along(
    low: FloatArray, high: FloatArray, k: float, lean: FloatArray
) -> tuple[float, FloatArray]:
    """Return the lower bounds that w = `lean` gives."""
    terms, at_high = least_terms(low, high, k, lean, low.size)
    least = float(terms.sum()) - rounding(low.size, k)
    return least, least - terms + at_high


@elementwise
def least_terms(
    low: Numbers, high: Numbers, k: float, lean: Numbers, n: int
) -> tuple[Numbers, Numbers]:
    """Return the least c y for y in [low, high], and that for y = high."""
    c = (1.0 + k * lean) / n
    return choose(c >= 0.0, c * low, c * high), c * high


@elementwise
def farthest_from(x: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return the end of [low, high] that is farther from x."""
    return choose(high - x >= x - low, high, low)


@elementwise
def nearest_to(x: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return the number in [low, high] that is next to x."""
    return np.minimum(np.maximum(x, low), high)


def _lean_at_least(low: FloatArray, high: FloatArray, k: float) -> FloatArray:
    """Return (y - mu)/sigma at about the point of the box where mu + k sigma is least."""
    left, right = float(low.min()), float(high.max())
    for _ in range(BISECTIONS):
        level = 0.5 * (left + right)
        mu, sigma = _mean_and_sd(nearest_to(level, low, high))
        if mu - sigma / k > level:
            left = level
        else:
            right = level
    return lean_of(nearest_to(0.5 * (left + right), low, high), 0.0, SMALLEST_SD)


def upper_bounds(low: FloatArray, high: FloatArray, k: float) -> tuple[float, FloatArray]:
    """Return upper bounds of mu + k sigma, k >= 0: over a box, and with each mean at its lower end.

    All terms are non-negative, so that their sum has a relative error below `relative_error(n)`;
    so has what is left of it without the term of an arm, relative to the whole.
    """
    n = low.size
    most, at_low = np.inf, np.full(n, np.inf)
    middle = 0.5 * (low + high)
    c, s = _mean_and_sd(middle)
    s = max(s, float((high - low).max()) / 2.0)
    for _ in range(HALVES):
        s = max(s, SMALLEST_SD)
        terms, lowest, ends = most_terms(low, high, k, c, s)
        bound = k * s / 2.0 + float(terms.mean())
        if not bound < np.inf:
            break
        bound = bound * (1.0 + 2.0 * float(relative_error(n))) + rounding(n, k)
        most = min(most, bound)
        at_low = np.minimum(at_low, bound - (terms - lowest) / n)
        mu, sigma = _mean_and_sd(ends)
        c, s = 0.5 * (c + mu), 0.5 * (s + sigma)
    return most, at_low


@elementwise
def most_terms(
    low: Numbers, high: Numbers, k: float, c: float, s: float
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the most y + k (y - c)^2/(2 s) for y in [low, high], that for y = low, and that y."""
    lowest = low + k * (low - c) ** 2 / (2.0 * s)
    highest = high + k * (high - c) ** 2 / (2.0 * s)
    return np.maximum(lowest, highest), lowest, choose(highest >= lowest, high, low)


def _mean_and_sd(values: FloatArray) -> tuple[float, float]:
    """Return both, faster than numpy does."""
    mean = float(values.sum()) / values.size
    away = values - mean
    return mean, math.sqrt(float((away * away).sum()) / values.size)


def rounding(n: int, k: float) -> float:
    """Return more than averages of n numbers in [0, 1], and mu + k sigma of them, are off."""
    return 4.0 * float(relative_error(n)) * (1.0 + k)
