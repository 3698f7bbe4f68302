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

from oddarms.problem import BoolArray, FloatArray
from oddarms.statistics.false_discoveries import names
from oddarms.statistics.one_look_bounds import (
    BOXED,
    GROWN,
    Arms,
    below_by_halves,
    bets_of,
    cuts_of,
    largest_scatter,
    mean_doubt,
    not_less,
    one_sided_ends,
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

UNIT_DOUBT = 2.0**-50
"""How far means of 0/1 rewards may be off: their sums are exact."""
E_SHARE = 0.1
"""Of the level of the arms' own ends, kept for the e-values that ``error="fdr"`` needs."""
ITERATIONS = 5


class Shares(NamedTuple):
    """The share of delta that each kind of event has; see `total`."""

    box: float = 0.04
    """All means lie in wide two-sided intervals."""
    own: float = 0.5
    """No arm's own end errs on the side that would make its decision wrong."""
    upper: float = 0.14
    """The error along c*, for theta from above."""
    spread: float = 0.01
    """The error along z, on either side."""
    mean: float = 0.01
    """The error of the mean of all means, on either side."""
    sums: float = 0.01
    """A weighted sum of variances is not understated, for each of three weights."""
    variance: float = 0.01
    """No arm's variance is understated."""
    half_theta: float = 0.09
    """theta from below by a direction of the other half, for each half."""
    half_sigma: float = 0.01
    """sigma from below, likewise."""
    half_sums: float = 0.01
    """Weighted sums of variances for these, four in all."""

    @property
    def total(self) -> float:
        """The sum over all events, each as often as it is used."""
        once = self.box + self.own + self.upper + self.variance
        twice = self.spread + self.mean + self.half_theta + self.half_sigma
        return once + 2.0 * twice + 3.0 * self.sums + 4.0 * self.half_sums


SHARES = Shares()


class Listed(Enum):
    """In which lists of decisions a share may be wrong, instead of any: section 6."""

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


class _Family:
    """All arms of one look; bounds on mu, sigma and theta are improved in turn."""

    def __init__(
        self, totals: Totals, half: Totals, k: float, delta: float, *, binary: bool
    ) -> None:
        n = totals.pulls.size
        self.n, self.k, self.delta, self.totals, self.half = n, k, delta, totals, half
        self.low, self.high = one_sided_ends(totals, SHARES.box * delta / (2.0 * n), binary=binary)
        alpha = (1.0 - E_SHARE) * SHARES.own * delta / n
        own_low, own_high = one_sided_ends(totals, alpha, binary=binary)
        self.own_low, self.own_high = np.maximum(own_low, self.low), np.minimum(own_high, self.high)
        self.arms = self._arms(binary=binary)
        doubt = UNIT_DOUBT if binary else float(mean_doubt(totals.pulls).max())
        self.slack = 4.0 * (1.0 + k) * doubt + rounding(n, k)
        self.range = _Range(self._mean_ends(), (0.0, 1.0))
        box = bounds_over_box(self.low, self.high, k)
        self.theta = (box.least, box.most)

    def _arms(self, *, binary: bool) -> Arms:
        nearest = np.clip(0.5, self.low, self.high)
        most = np.maximum(nearest * (1.0 - nearest), 1e-12)
        arms = Arms.made(self.totals, most)
        if binary:
            return arms
        known = not_less(arms.variance, 1.0 / arms.pairs, self.level(SHARES.variance / self.n))
        return replace(arms, most=np.minimum(most, known))

    def level(self, share: float) -> float:
        """Return log(1/(share delta))."""
        return -math.log(share) - math.log(self.delta)

    def _mean_ends(self) -> tuple[float, float]:
        even = np.full(self.n, 1.0 / self.n**2)
        variance = variance_sum(self.arms, even, even, None, self.level(SHARES.sums))
        step = 1.0 / (self.n * float(self.arms.counts.min()))
        off = radius(variance, step, self.level(SHARES.mean)) + self.slack
        mean = float(self.arms.means.mean())
        low, high = float(self.low.mean()), float(self.high.mean())
        return max(mean - off, low - self.slack), min(mean + off, high + self.slack)

    def look_by_halves(self) -> None:
        """Raise the lower ends of theta and sigma by directions of either half: section 3."""
        if self.n < 3:
            return
        pairs = zip(self.totals, self.half, strict=True)
        rest = Totals(*(np.maximum(whole - half, 0.0) for whole, half in pairs))
        shares = SHARES.half_theta, SHARES.half_sigma, SHARES.half_sums
        for first, second in ((self.half, rest), (rest, self.half)):
            theta, sigma = below_by_halves(
                first, second, self.arms.most, self.k, [self.level(share) for share in shares]
            )
            self.theta = (max(self.theta[0], theta), self.theta[1])
            least, most = self.range.sigma
            self.range = self.range._replace(sigma=(max(least, sigma), max(most, sigma)))

    def _along_scores(self) -> float:
        """Return what |<v*, e>| is at most, v* the unit vector of the z-scores."""
        low, high = _squares(*self.range.scores(self.low, self.high))
        level = self.level(SHARES.sums)
        variance = variance_sum(self.arms, low / self.n, high / self.n, GROWN, level)
        step = math.sqrt(float((high / self.n / self.arms.counts**2).max()))
        off = radius(variance, step, self.level(SHARES.spread))
        return off + self.slack * math.sqrt(self.n)

    def look_from_above(self) -> None:
        """Lower the upper end of theta: the error of the plug-in estimate goes along c*."""
        n, k, arms = self.n, self.k, self.arms
        along, sd = math.inf, float(arms.means.std())
        for _ in range(ITERATIONS):
            along = min(along, self._along_scores())
            least, most = self.range.sigma
            most = min(most, sd + along / math.sqrt(n) + self.slack)
            self.range = self.range._replace(sigma=(least, max(least, most)))
        c_low, c_high = _squares(
            *((1.0 + k * z) / n for z in self.range.scores(self.low, self.high))
        )
        budget = (1.0 + k**2) / n * GROWN
        boxed = [cut for cut in (0, BOXED) if cut in cuts_of(n)]
        level = self.level(SHARES.upper / len(boxed))
        for skipped in boxed:
            few = arms.order[:skipped]
            low, high, reach = arms.means.copy(), arms.means.copy(), np.sqrt(c_high) / arms.counts
            low[few], high[few], reach[few] = self.low[few], self.high[few], 0.0
            for_sums = self.level(SHARES.sums)
            variance = variance_sum(arms, c_low, c_high, budget, for_sums, skipped)
            theta = upper_bounds(low, high, k)[0] + radius(variance, float(reach.max()), level)
            self.theta = (self.theta[0], min(self.theta[1], theta + 2.0 * self.slack))

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
    family.look_from_above()
    above, below = family.decide(margin, floor)
    theta = (min(family.theta), max(family.theta))
    threshold = raised(theta, family.range.mean, margin, floor)
    level, scatter = family.level(SHARES.own / family.n), largest_scatter(totals)
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
    """Return the arms on one side of an end of the threshold, a share of them wrongly: section 6.

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
