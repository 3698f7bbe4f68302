"""What recorded rewards prove about mu + k sigma, in one look at all of them.

Arm j has N_j independent rewards in [0, 1] of one distribution, with mean y_j and variance s_j^2;
the N_j were not chosen by looking at rewards. Known are their number, sum and sum of squares, and
the same of a random half. theta = mu + k sigma of the n means, k >= 0.

Every bound here is a function of the truth (the means, the variances, the direction
c*_j = (1 + k z_j)/n in which the threshold moves with them, z = (y - mu)/sigma) that holds unless
one of a list of events occurs. The shares of delta that these events have (`Shares`) add up to
less than 1, so bounds may be combined, iterated and chosen by looking.
``docs/explanation/one-look.md`` has the proofs, with the numbers of the sections that the functions
name.

Rounding. Means are off by at most `mean_doubt`, and every bound is moved outwards by what that and
sums of n terms can do to it (`_Family.slack`); radii are enlarged by a millionth.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.statistics.false_discoveries import names
from oddarms.statistics.one_look_bounds import (
    BOXED,
    GROWN,
    Arms,
    below_by_halves,
    bets_of,
    cuts_of,
    largest_arms,
    largest_scatter,
    mean_doubt,
    not_less,
    one_sided_ends,
    products_bound,
    radius,
    variance_sum,
)
from oddarms.statistics.threshold_box import (
    LARGEST_K,
    bounds_over_box,
    rounding,
    upper_bounds,
    verdicts,
    within_reach,
)
from oddarms.statistics.totals import Totals

MANY = 300
"""Arms from which on products of rewards bound the spread better than halves do."""
UNIT_DOUBT = 2.0**-50
"""How far means of 0/1 rewards may be off: their sums are exact."""
E_SHARE = 0.1
"""Of the level of the arms' own ends, kept for the e-values that ``error="fdr"`` needs."""
ITERATIONS = 5


class Shares(NamedTuple):
    """The share of delta that each kind of event has; see `total`."""

    box: float
    """All means lie in wide two-sided intervals."""
    own: float
    """No arm's own end errs on the side that would make its decision wrong."""
    upper: float
    """The error along c*, for theta from above."""
    spread: float
    """The error along z, on either side."""
    mean: float
    """The error of the mean of all means, on either side."""
    sums: float
    """A weighted sum of variances is not understated, for each of three weights."""
    variance: float
    """No arm's variance is understated."""
    half_theta: float
    """theta from below by a direction of the other half, for each half."""
    half_sigma: float
    """sigma from below, likewise."""
    half_sums: float
    """Weighted sums of variances for these, four in all."""
    lower: float = 0.0
    """The error along c*, for theta from below, where there are many arms."""
    products: float = 0.0
    """Products of errors, on either side."""
    fourth: float = 0.0
    """Sums of squared variances."""

    @property
    def total(self) -> float:
        """The sum over all events, each as often as it is used."""
        common = self.box + self.own + self.upper + self.variance
        common += 2.0 * (self.spread + self.mean + self.half_theta + self.half_sigma)
        common += 3.0 * self.sums + 4.0 * self.half_sums
        if self.lower == 0.0:
            return common
        again = 2.0 * (self.spread + self.mean) + 3.0 * self.sums
        return common + again + self.lower + 2.0 * self.products + self.fourth


FEW_SHARES = Shares(
    box=0.04, own=0.5, upper=0.14, spread=0.01, mean=0.01, sums=0.01, variance=0.01,
    half_theta=0.09, half_sigma=0.01, half_sums=0.01,
)  # fmt: skip
MANY_SHARES = Shares(
    box=0.04, own=0.44, upper=0.07, spread=0.015, mean=0.01, sums=0.005, variance=0.01,
    half_theta=0.03, half_sigma=0.01, half_sums=0.005, lower=0.1, products=0.04, fourth=0.01,
)  # fmt: skip


class Listed(Enum):
    """In which lists of decisions a share may be wrong, instead of any: section 7."""

    NONE = "none"
    ABOVE = "above"
    BOTH = "both"


class Look(NamedTuple):
    """What is proven of n means and of the threshold max(mu + k sigma, mu + margin, floor)."""

    low: FloatArray
    high: FloatArray
    """All means lie between these."""
    own_low: FloatArray
    own_high: FloatArray
    """No arm's mean is beyond the one of these that matters to its decision."""
    threshold: tuple[float, float]
    """The threshold lies between these."""
    centre: tuple[float, float]
    """So does mu."""
    above: BoolArray
    """Arms at or above the threshold."""
    below: BoolArray
    """Arms below it."""


class _Range(NamedTuple):
    """What is known of mu and sigma, so that the z-scores of all means lie in a box."""

    mean: tuple[float, float]
    sigma: tuple[float, float]

    def scores(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ends of z_j = (y_j - mu)/sigma, none of which is beyond sqrt(n - 1)."""
        least, most = (max(end, 1e-12) for end in self.sigma)
        cap = math.sqrt(max(low.size - 1.0, 1.0))
        down, up = low - self.mean[1], high - self.mean[0]
        z_low = np.where(down < 0.0, down / least, down / most)
        z_high = np.where(up > 0.0, up / least, up / most)
        return np.clip(z_low, -cap, cap), np.clip(z_high, -cap, cap)


def _squares(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ends of the squares of numbers between these."""
    far = np.maximum(np.abs(low), np.abs(high))
    near = np.where((low > 0.0) | (high < 0.0), np.minimum(np.abs(low), np.abs(high)), 0.0)
    return near * near, far * far


class _Products(NamedTuple):
    """Some arms, what the products of their errors add up to at most, and estimates of y^2."""

    arms: IntArray
    bound: float
    squares: FloatArray


class _Family:
    """All arms of one look; bounds on mu, sigma and theta are improved in turn."""

    def __init__(
        self, totals: Totals, half: Totals, k: float, delta: float, *, binary: bool
    ) -> None:
        n = totals.pulls.size
        self.n, self.k, self.delta, self.totals, self.half = n, k, delta, totals, half
        self.shares = shares = MANY_SHARES if n >= MANY else FEW_SHARES
        alpha = shares.box * delta / (2.0 * n)
        self.low, self.high = one_sided_ends(totals, alpha, binary=binary)
        alpha = (1.0 - E_SHARE) * shares.own * delta / n
        own_low, own_high = one_sided_ends(totals, alpha, binary=binary)
        self.own_low, self.own_high = np.maximum(own_low, self.low), np.minimum(own_high, self.high)
        self.arms = self._arms(binary=binary)
        doubt = UNIT_DOUBT if binary else float(mean_doubt(totals.pulls).max())
        self.slack = 4.0 * (1.0 + k) * doubt + rounding(n, k)
        self.everyone = np.arange(n)
        self.estimate = float(self.arms.means.mean())
        self.mean_off = self._mean_radius(self.arms)
        self.range = _Range(self._mean_ends(self.everyone, self.mean_off), (0.0, 1.0))
        box = bounds_over_box(self.low, self.high, k)
        self.theta = (box.least, box.most)
        self.products: _Products | None = None

    def _arms(self, *, binary: bool) -> Arms:
        nearest = np.clip(0.5, self.low, self.high)
        most = np.maximum(nearest * (1.0 - nearest), 1e-12)
        arms = Arms.made(self.totals, most)
        if binary:
            return arms
        level = self.level(self.shares.variance / self.n)
        known = not_less(arms.variance, 1.0 / arms.pairs, level)
        return replace(arms, most=np.minimum(most, known))

    def level(self, share: float) -> float:
        """Return log(1/(share delta))."""
        return -math.log(share) - math.log(self.delta)

    def _mean_radius(self, arms: Arms) -> float:
        g = arms.counts.size
        even = np.full(g, 1.0 / g**2)
        variance = variance_sum(arms, even, even, None, self.level(self.shares.sums))
        step = 1.0 / (g * float(arms.counts.min()))
        return radius(variance, step, self.level(self.shares.mean)) + self.slack

    def _mean_ends(self, arms: IntArray, off: float) -> tuple[float, float]:
        mean = float(self.arms.means[arms].mean())
        low, high = float(self.low[arms].mean()), float(self.high[arms].mean())
        return max(mean - off, low - self.slack), min(mean + off, high + self.slack)

    def _raise(self, theta: float, sigma: float) -> None:
        """Take lower bounds of theta and sigma."""
        self.theta = (max(self.theta[0], theta), self.theta[1])
        least, most = self.range.sigma
        self.range = self.range._replace(sigma=(max(least, sigma), max(most, sigma)))

    def look_by_halves(self) -> None:
        """Raise the lower ends of theta and sigma by directions of either half: section 3."""
        if self.n < 3:
            return
        pairs = zip(self.totals, self.half, strict=True)
        rest = Totals(*(np.maximum(whole - half, 0.0) for whole, half in pairs))
        shares = self.shares
        level = self.level
        levels = level(shares.half_theta), level(shares.half_sigma), level(shares.half_sums)
        for first, second in ((self.half, rest), (rest, self.half)):
            self._raise(*below_by_halves(first, second, self.arms.most, self.k, levels))

    def _along_scores(self, arms: IntArray, some: Arms, known: _Range) -> float:
        """Return what |<v*, e>| is at most, v* the unit vector of the z-scores of some arms."""
        g = arms.size
        low, high = _squares(*known.scores(self.low[arms], self.high[arms]))
        level = self.level(self.shares.sums)
        variance = variance_sum(some, low / g, high / g, GROWN, level)
        step = math.sqrt(float((high / g / some.counts**2).max()))
        return radius(variance, step, self.level(self.shares.spread)) + self.slack * math.sqrt(g)

    def look_by_products(self) -> None:
        """Bound sigma from both sides and theta from below, by products of rewards: section 4."""
        arms = largest_arms(self.totals.pulls)
        g = arms.size
        if self.n < MANY or g < 3:
            return
        some = self.arms.of(arms)
        off = self._mean_radius(some)
        levels = self.level(self.shares.products), self.level(self.shares.fourth)
        bound = products_bound(some, *levels) + 8.0 * g * self.slack
        squares = some.means**2 - some.variance / some.counts
        self.products = _Products(arms, bound, squares)
        total = float(squares.sum()) - g * float(some.means.mean()) ** 2
        sigma = (self.range.sigma[0] if g == self.n else 0.0, 1.0)
        known, along = _Range(self._mean_ends(arms, off), sigma), math.inf
        least = total - bound
        for _ in range(ITERATIONS):
            along = min(along, self._along_scores(arms, some, known))
            low, high = known.sigma
            if least > along * along:
                low = max(low, (math.sqrt(least) - along) / math.sqrt(g))
            most = min(total + bound + along**2 + g * off**2, g * float(some.means.var()))
            high = min(high, (math.sqrt(max(most, 0.0)) + along) / math.sqrt(g) + self.slack)
            known = known._replace(sigma=(low, max(low, high)))
        if least > along * along:
            self._raise(-math.inf, known.sigma[0] * math.sqrt(g / self.n))
            self._theta_by_products(arms, known, least)

    def _theta_by_products(self, arms: IntArray, known: _Range, least: float) -> None:
        n, g = self.n, arms.size
        theta = self.estimate + self.k * math.sqrt(least / n) - self.slack
        z_low, z_high = known.scores(self.low[arms], self.high[arms])
        c_low = np.full(n, 1.0 / n)
        c_high, scale = c_low.copy(), self.k / math.sqrt(n * g)
        c_low[arms] += scale * z_low
        c_high[arms] += scale * z_high
        self._raise(theta - self._along(c_low, c_high, self.shares.lower), 0.0)

    def _along(
        self, c_low: FloatArray, c_high: FloatArray, share: float, skipped: int = 0
    ) -> float:
        """Return what <c, e> is at most, without the arms with the fewest rows."""
        low, high = _squares(c_low, c_high)
        budget = (1.0 + self.k**2) / self.n * GROWN
        sums = self.level(self.shares.sums)
        variance = variance_sum(self.arms, low, high, budget, sums, skipped)
        reach = np.sqrt(high) / self.totals.pulls
        reach[self.arms.order[:skipped]] = 0.0
        return radius(variance, float(reach.max()), self.level(share))

    def look_from_above(self) -> None:
        """Lower the upper end of theta: the error of the plug-in estimate goes along c*."""
        n, k, means = self.n, self.k, self.arms.means
        plain = n * float(means.var())
        along, most = math.inf, plain
        for _ in range(ITERATIONS):
            along = min(along, self._along_scores(self.everyone, self.arms, self.range))
            most = min(plain, self._squares_above(along))
            least, largest = self.range.sigma
            largest = min(largest, (math.sqrt(most) + along) / math.sqrt(n) + self.slack)
            self.range = self.range._replace(sigma=(least, max(least, largest)))
        scores = self.range.scores(self.low, self.high)
        c_low, c_high = ((1.0 + k * z) / n for z in scores)
        boxed = [cut for cut in (0, BOXED) if cut in cuts_of(n)]
        for skipped in boxed:
            low, high = means.copy(), means.copy()
            few = self.arms.order[:skipped]
            low[few], high[few] = self.low[few], self.high[few]
            theta = upper_bounds(low, high, k)[0] + self.slack
            if skipped == 0:
                theta = min(theta, self.estimate + k * math.sqrt(most / n) + self.slack)
            off = self._along(c_low, c_high, self.shares.upper / len(boxed), skipped) + self.slack
            self.theta = (self.theta[0], min(self.theta[1], theta + off))

    def _squares_above(self, along: float) -> float:
        """Return at least (|P y| + <v*, e>)^2, from products of rewards where there are such."""
        if self.products is None:
            return math.inf
        squares = self.arms.means**2
        squares[self.products.arms] = self.products.squares
        total = float(squares.sum()) - self.n * self.estimate**2 + 8.0 * self.n * self.slack
        return max(total + self.products.bound + along**2 + self.n * self.mean_off**2, 0.0)

    def decide(self, margin: float, floor: float) -> tuple[BoolArray, BoolArray]:
        """Return the arms that are above the threshold and those that are below."""
        mean = self.range.mean
        above, below = self.own_low >= self.theta[1], self.own_high < self.theta[0]
        if margin > 0.0:
            above &= self.own_low >= mean[1] + margin
            below |= self.own_high < mean[0] + margin
        box = verdicts(self.low, self.high, self.k, margin, floor)
        above = (above & (self.own_low >= floor)) | box.odd
        return above, below | (self.own_high < floor) | box.normal


def proven_look(
    totals: Totals,
    half: Totals,
    *,
    k: float,
    delta: float,
    margin: float = 0.0,
    floor: float = -math.inf,
    binary: bool = False,
    listed: Listed = Listed.NONE,
) -> Look:
    """Return what all rewards prove about max(mu + k sigma, mu + margin, floor), k >= 0.

    Parameters
    ----------
    totals
        Number, sum and sum of squares of each arm's rewards in [0, 1]; at least one each.
    half
        The same of a random half of the rewards, chosen without looking at them.
    k, margin, floor
        The threshold.
    delta
        Everything that is returned holds together with probability 1 - delta at least; of the
        `listed` decisions at most a share of delta is wrong, on average.
    binary
        Whether all rewards can only be 0 or 1.
    listed
        The lists in which a share may be wrong.
    """
    if k > LARGEST_K or not within_reach(totals.pulls.size, k):
        return _out_of_reach(totals, k, margin, floor, delta, binary=binary)
    family = _Family(totals, half, k, delta, binary=binary)
    family.look_by_halves()
    family.look_by_products()
    family.look_from_above()
    above, below = family.decide(margin, floor)
    theta = (min(family.theta), max(family.theta))
    threshold = raised(theta, family.range.mean, margin, floor)
    level, scatter = family.level(family.shares.own / family.n), largest_scatter(totals)
    if listed is not Listed.NONE:
        above |= _named(totals, scatter, threshold[1], level, int(above.sum()), below=False)
    if listed is Listed.BOTH:
        below |= _named(totals, scatter, threshold[0], level, int(below.sum()), below=True)
    return Look(
        family.low,
        family.high,
        family.own_low,
        family.own_high,
        threshold,
        family.range.mean,
        above & ~below,
        below & ~above,
    )


def raised(
    theta: tuple[float, float], mean: tuple[float, float], margin: float, floor: float
) -> tuple[float, float]:
    """Return ends of max(theta, mu + margin, floor)."""
    far = margin if margin > 0.0 else -math.inf
    return max(theta[0], mean[0] + far, floor), max(theta[1], mean[1] + far, floor)


def _out_of_reach(
    totals: Totals, k: float, margin: float, floor: float, delta: float, *, binary: bool
) -> Look:
    """Return what is known where k > sqrt(n - 1): all arms are below, unless all are equal.

    With a margin they are below in either case.
    """
    n = totals.pulls.size
    low, high = one_sided_ends(totals, delta / (2.0 * n), binary=binary)
    room = rounding(n, 1.0)
    mean = float(low.mean()) - room, float(high.mean()) + room
    below = np.full(n, margin > 0.0 or bool(low.max() > high.min())) | (high < floor)
    theta = bounds_over_box(low, high, k)[:2] if k <= LARGEST_K else (-math.inf, math.inf)
    threshold = raised(theta, mean, margin, floor)
    return Look(low, high, low, high, threshold, mean, np.zeros(n, dtype=np.bool_), below)


def _named(
    totals: Totals, scatter: FloatArray, end: float, level: float, sure: int, *, below: bool
) -> BoolArray:
    """Return the arms on one side of an end of the threshold, a share of them wrongly: section 7.

    `level` is log(n/alpha), `sure` the number of arms that are named already.
    """
    n = totals.pulls.size
    if not 0.0 < end < 1.0:
        return np.zeros(n, dtype=np.bool_)
    bets = bets_of(totals, scatter, level - 0.5 * math.log(n), below=below)
    room = np.full(n, math.nextafter(1.0 - end, 2.0) if below else end)
    values = bets.wealth(room) + math.log(E_SHARE)
    values[bets.sample.gap <= room] = -np.inf
    return names(values, level, sure)
