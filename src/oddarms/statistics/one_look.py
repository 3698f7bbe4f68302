"""What recorded rewards prove about mu + k sigma, in one look at all of them.

Arm j has N_j independent rewards in [0, 1] of one distribution, with mean y_j and variance s_j^2;
the N_j were not chosen by looking at rewards. Known are their number, sum and sum of squares, and
the same of a random half. theta = mu + k sigma of the n means, k >= 0.

Every bound here is a function of the truth (the means, the variances, the direction
c*_j = (1 + k z_j)/n in which the threshold moves with them, z = (y - mu)/sigma) that holds unless
one of a list of events occurs. The shares of delta that these events have (`Shares`) add up to
less than 1, so bounds may be combined, iterated and chosen by looking. ``docs/science/analyze.md``
has the proofs, with the numbers of the sections that the functions name.

Rounding. Means are off by at most `mean_doubt`, and every bound is moved outwards by what that and
sums of n terms can do to it (`_Family.slack`); radii are enlarged by a millionth.

References: Clopper and Pearson (1934); Maurer and Pontil (2009) for variances; Boucheron, Lugosi
and Massart, Concentration Inequalities (2013), chapter 2, for Bennett and Bernstein.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.statistics.evidence import Sample, log_bet, sample_of
from oddarms.statistics.false_discoveries import names
from oddarms.statistics.threshold_box import (
    LARGEST_K,
    bounds_over_box,
    rounding,
    upper_bounds,
    verdicts,
    within_reach,
)
from oddarms.statistics.totals import Totals, relative_error

MANY = 300
"""Arms from which on products of rewards bound the spread better than halves do."""
CHUNK = 16_384
"""Arms at a time, so that temporary arrays stay in the processor's cache."""
MOST_DOUBT = 1e-9
"""Sums of more than four million rewards are taken to be right to nine digits."""
GROWN = 1.0 + 1e-6
"""Radii are enlarged by what rounding can take from them, and more."""
UNIT_DOUBT = 2.0**-50
"""How far means of 0/1 rewards may be off: their sums are exact."""
TINY = 1e-300
BETS: FloatArray = np.array([1.0, 0.35, 0.6, 1.6, 2.8, 5.0, 12.0])[:, None]
"""In multiples of the one that suits the other arms."""
LOG_WEIGHTS: FloatArray = np.log(np.array([0.7, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05]))[:, None]
ROOT_STEPS = 9
LARGEST_BET = 0.97
WIDER = 0.85
"""The main bet is that of a standard deviation this much smaller, as most arms' are not larger."""
E_SHARE = 0.1
"""Of the level of the arms' own ends, kept for the e-values that ``error="fdr"`` needs."""
LAMBDAS: FloatArray = 2.0 ** np.arange(-4.0, 3.0)
"""Of the exponential bound on products of errors, in multiples of a typical one."""
DISTANCES: FloatArray = np.concatenate([np.linspace(0.3, 6.0, 20), np.geomspace(6.3, 300.0, 20)])
"""At which the tails of an error are bounded, in its standard deviations."""
BOXED = 6
"""So many arms with the fewest rows count with their intervals, in one of two bounds."""
ITERATIONS = 5


class Shares(NamedTuple):
    """The share of delta that each kind of event has; see `total`."""

    box: float
    """All means lie in wide two-sided intervals."""
    own: float
    """No arm's own end errs on the side that would make its decision wrong."""
    joint: float
    """No arm's distance from the threshold errs on that side."""
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
        common = self.box + self.own + self.joint + self.upper + self.variance
        common += 2.0 * (self.spread + self.mean + self.half_theta + self.half_sigma)
        common += 3.0 * self.sums + 4.0 * self.half_sums
        if self.lower == 0.0:
            return common
        again = 2.0 * (self.spread + self.mean) + 3.0 * self.sums
        return common + again + self.lower + 2.0 * self.products + self.fourth


FEW_SHARES = Shares(
    box=0.04, own=0.41, joint=0.15, upper=0.1, spread=0.01, mean=0.01, sums=0.01, variance=0.01,
    half_theta=0.08, half_sigma=0.01, half_sums=0.01,
)  # fmt: skip
MANY_SHARES = Shares(
    box=0.04, own=0.42, joint=0.03, upper=0.06, spread=0.015, mean=0.01, sums=0.005, variance=0.01,
    half_theta=0.03, half_sigma=0.01, half_sums=0.005, lower=0.1, products=0.04, fourth=0.01,
)  # fmt: skip


# Ends of single means: section 1


def mean_doubt(counts: FloatArray) -> FloatArray:
    """Return how far means of rewards in [0, 1] may be off because sums were rounded."""
    result: FloatArray = np.minimum(relative_error(counts), MOST_DOUBT)
    return result


def binomial_low(counts: FloatArray, successes: FloatArray, alpha: float) -> FloatArray:
    """Return Clopper and Pearson's lower ends of rates, one-sided at alpha, rounded downwards.

    The inverse of the incomplete beta function is sought a little beyond the level and checked;
    where it fails, as for some counts beyond 10^9, Chernoff's bound stands in.
    """
    from scipy.special import betainc, betaincinv

    some = np.maximum(successes, 0.5)
    found = betaincinv(some, counts - some + 1.0, 0.999 * alpha) * (1.0 - 1e-12)
    found = np.where(np.isfinite(found), found, 1.0)
    sound = betainc(some, counts - some + 1.0, found) <= alpha
    sound &= found * counts <= successes
    low: FloatArray = np.where(successes > 0.0, found, 0.0)
    wrong = np.flatnonzero(~sound & (successes > 0.0))
    if wrong.size:
        low[wrong] = _chernoff_low(counts[wrong], successes[wrong], alpha)
    return low


def _chernoff_low(counts: FloatArray, successes: FloatArray, alpha: float) -> FloatArray:
    """Return the q below the average m with N kl(m, q) >= log(1/alpha), by bisection."""
    m, level = successes / counts, math.log(1.0 / alpha)
    inside, outside = m.copy(), np.zeros(m.size)
    for step in range(80):
        radius = 2.0 * np.sqrt(2.0 * level * m / counts) + 2.0 * level / counts
        q = 0.5 * (inside + outside) if step else np.maximum(m - radius, 0.5 * m)
        d = (m - q) / np.maximum(q, TINY)
        rest = np.log1p(-(m - q) / np.maximum(1.0 - q, TINY))
        far = np.where(m < 1.0, (1.0 - m) * rest, 0.0)
        beyond = counts * (m * np.log1p(d) + far) >= level * GROWN
        inside, outside = np.where(beyond, inside, q), np.where(beyond, q, outside)
    return outside


class _Bets(NamedTuple):
    """The bets of every arm against one side of its mean: section 1."""

    sample: Sample
    scale: FloatArray
    """The bet lambda that suits the other arms, per unit of reward."""

    def of(self, arms: slice) -> _Bets:
        """Return the bets of some arms."""
        return _Bets(Sample(*(part[arms] for part in self.sample)), self.scale[arms])

    def wealth(self, room: FloatArray) -> FloatArray:
        """Return the log of the mixture of wealths against a mean at a distance from the end."""
        bets = np.minimum(BETS * (self.scale * room), LARGEST_BET)
        losses = np.log1p(-bets) * (1.0 + 2.0**-49)
        logs = log_bet(self.sample, room, bets, losses, LOG_WEIGHTS)
        top = logs.max(0)
        found: FloatArray = np.log(np.exp(logs - top).sum(0)) + top
        return found


def _bets(totals: Totals, scatter: FloatArray, level: float, *, below: bool) -> _Bets:
    """Return bets that suit the *other* arms, by the variance of all others' rewards together."""
    counts, sums, _ = totals
    freedom = np.maximum((counts - 1.0).sum() - (counts - 1.0), 1.0)
    pooled = np.clip((scatter.sum() - scatter) / freedom, 1e-6, 0.25)
    near, far = (counts - sums, sums) if below else (sums, counts - sums)
    sample = sample_of(counts, far, near, near / counts - mean_doubt(counts), scatter)
    return _Bets(sample, np.sqrt(2.0 * level / counts / pooled) / WIDER)


def _excluded_room(bets: _Bets, level: float) -> FloatArray:
    """Return rooms at which the wealth reaches the level, nearly the largest; 0 where none is.

    The wealth falls as the room grows to the gap. Its log is about a square of the distance from
    the gap, which is how the next room is chosen; what counts is checked.
    """
    gap, counts = np.maximum(bets.sample.gap, 0.0), bets.sample.pulls
    spread = np.maximum(bets.sample.reach - gap, 0.0) * gap
    radius = np.sqrt(2.0 * level * spread / counts) + level / counts
    inside, outside = gap.copy(), np.zeros(gap.size)
    trial = np.maximum(gap - radius, 0.05 * gap)
    for _ in range(ROOT_STEPS):
        value = bets.wealth(np.maximum(trial, TINY))
        beyond = (value >= level) & (trial > TINY)
        outside, inside = np.where(beyond, trial, outside), np.where(beyond, inside, trial)
        grown = np.sqrt(level / np.maximum(value, 0.05 * level)) * (1.0 + 1e-3)
        trial = gap - (gap - trial) * grown
        trial = np.where((trial > outside) & (trial < inside), trial, 0.5 * (outside + inside))
    return outside


def bounded_ends(
    totals: Totals, scatter: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return one-sided ends at alpha for rewards in [0, 1], by bets: section 1."""
    level = math.log(1.0 / alpha)
    ends = []
    for below in (False, True):
        bets = _bets(totals, scatter, level, below=below)
        parts = [
            _excluded_room(bets.of(slice(i, i + CHUNK)), level)
            for i in range(0, totals.pulls.size, CHUNK)
        ]
        ends.append(np.concatenate(parts))
    return ends[0], np.minimum(np.nextafter(1.0 - ends[1], 2.0), 1.0)


def one_sided_ends(totals: Totals, alpha: float, *, binary: bool) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends of the means, each of which errs with probability alpha."""
    if not binary:
        return bounded_ends(totals, largest_scatter(totals), alpha)
    counts, sums, _ = totals
    high = 1.0 - binomial_low(counts, counts - sums, alpha)
    return binomial_low(counts, sums, alpha), np.minimum(np.nextafter(high, 2.0), 1.0)


def largest_scatter(totals: Totals) -> FloatArray:
    """Return at least the sum of the squared deviations of each arm's rewards from their mean."""
    counts, sums, squares = totals
    found: FloatArray = np.maximum(squares - sums * (sums / counts), 0.0)
    return found + 4.0 * mean_doubt(counts) * squares


# Weighted sums of variances: section 2


@dataclass(frozen=True)
class _Arms:
    """Rewards of some arms, as sums over arms need them."""

    counts: FloatArray
    means: FloatArray
    variance: FloatArray
    """At least the unbiased estimate; the largest possible one of an arm with one reward."""
    most: FloatArray
    """The largest variance, given the box."""

    @classmethod
    def made(cls, totals: Totals, most: FloatArray) -> _Arms:
        counts = totals.pulls
        several = np.maximum(counts - 1.0, 1.0)
        variance = np.where(counts > 1.0, largest_scatter(totals) / several, most)
        return cls(counts, totals.total / counts, variance, most)

    def of(self, arms: IntArray | BoolArray) -> _Arms:
        return _Arms(self.counts[arms], self.means[arms], self.variance[arms], self.most[arms])

    @cached_property
    def pairs(self) -> FloatArray:
        """How many disjoint pairs of rewards there are, at least 1."""
        return np.maximum(np.floor(self.counts / 2.0), 1.0)

    @cached_property
    def order(self) -> IntArray:
        """The arms, those with the fewest rows first."""
        return np.argsort(self.counts, kind="stable")


def radius(variance: float, step: float, level: float) -> float:
    """Return what a sum of independent terms exceeds with probability exp(-level) at most.

    Bernstein: the terms have mean 0, are at most `step`, and their variances add up to `variance`.
    """
    return (math.sqrt(2.0 * level * variance) + step * level / 3.0) * GROWN


def not_less(estimate: FloatArray | float, step: FloatArray | float, level: float) -> FloatArray:
    """Return at least the sum of w_j s_j^2, from the sum of w_j times estimates of s_j^2.

    `step` is at least the largest w_j over the number of pairs of arm j.
    """
    part = level * np.asarray(step)
    found: FloatArray = (np.sqrt(part) / 2.0 + np.sqrt(part / 4.0 + estimate)) ** 2 * GROWN
    return found


def knapsack(low: FloatArray, high: FloatArray, values: FloatArray, budget: float) -> float:
    """Return the most that sum x_j v_j can be for low <= x <= high with sum x <= budget.

    By the dual, p budget + sum_j max_x (v_j - p) x, which is a bound whatever p >= 0 is.
    """
    order = np.argsort(-values)
    place = int(np.searchsorted(np.cumsum((high - low)[order]), budget - float(low.sum())))
    price = float(values[order[place]]) if place < values.size else 0.0
    over = values - price
    return price * budget + float((over * np.where(over > 0.0, high, low)).sum())


def cuts_of(n: int) -> list[int]:
    """Return how many arms with the fewest rows may be set apart: fixed by n alone."""
    wanted = {0, BOXED, n // 10} if n > CHUNK else {0, 2, BOXED, max(20, n // 10)}
    return sorted(cut for cut in wanted if cut < n)


def variance_sum(
    arms: _Arms,
    low: FloatArray,
    high: FloatArray,
    budget: float | None,
    level: float,
    skipped: int = 0,
) -> float:
    """Return at least sum_j x_j s_j^2/N_j for fixed unknown x in a box with a given sum.

    Without a budget x is `high`. The few arms with the fewest rows count with their largest
    variances; how many these are may be chosen by looking, as each number has a share of its own.
    So many of the first of them as are `skipped`, one of these numbers, do not count at all.
    """
    n, order, cuts = arms.counts.size, arms.order, cuts_of(arms.counts.size)
    low, high = low.copy(), high.copy()
    low[order[:skipped]] = high[order[:skipped]] = 0.0
    steps = (high / arms.counts / arms.pairs)[order]
    largest = np.maximum.accumulate(steps[::-1])[::-1]
    level += math.log(len(cuts))
    best = math.inf
    for m in [cut for cut in (*cuts, n) if cut >= skipped]:
        variance = arms.variance.copy()
        variance[order[:m]] = arms.most[order[:m]]
        values = variance / arms.counts
        found = float((high * values).sum())
        if budget is not None:
            found = min(found, knapsack(low, high, values, budget))
        best = min(best, found * GROWN if m == n else float(not_less(found, largest[m], level)))
    return best


# theta and sigma from below, by halves: section 3


def direction(first: _Arms, later_counts: FloatArray, k: float, z: float) -> FloatArray:
    """Return a w with average 0 and average square 1 that looks promising for the second half.

    Averages of the first half are shrunk towards their mean; then <c, p> - z sqrt(sum c^2 v) is
    made large, v the variances of the second half's means. Any w is valid.
    """
    n, counts = first.counts.size, first.counts
    pool = max(float((first.variance * counts).sum() / counts.sum()), 1e-6)
    variance = np.maximum((first.variance * counts + 2.0 * pool) / (counts + 2.0), 0.05 * pool)
    noise, later = variance / counts, variance / np.maximum(later_counts, 0.5)
    mean, spread = _mean_and_spread(first.means, noise)
    likely = mean + spread / (spread + noise) * (first.means - mean)
    w = likely - likely.mean()
    if n <= CHUNK:
        c = (1.0 + k * w / max(math.sqrt(float((w * w).mean())), TINY)) / n
        for _ in range(8):
            price = z * later / math.sqrt(max(float((c * c * later).sum()), TINY))
            w = _leaning(likely - price / n, price * k / n)
            c = 0.5 * c + 0.5 * (1.0 + k * w) / n
        w = w - w.mean()
    w = w - w.mean()  # what rounding the mean left
    norm = math.sqrt(float((w * w).mean()))
    return w / (norm * (1.0 + 1e-9)) if norm > TINY else np.zeros(n)


def _mean_and_spread(means: FloatArray, noise: FloatArray) -> tuple[float, float]:
    """Return about the mean and the variance of the true means."""
    typical = float(np.median(noise))
    spread, mean = typical, 0.0
    for _ in range(4):
        weights = 1.0 / (spread + noise)
        mean = float((weights * means).sum() / weights.sum())
        squares = weights * weights
        excess = float((squares * ((means - mean) ** 2 - noise)).sum() / squares.sum())
        spread = max(excess, 0.02 * typical, 1e-12)
    return mean, spread


def _leaning(target: FloatArray, price: FloatArray) -> FloatArray:
    """Return w = (target - nu)/(s + price), nu and s such that it has average 0 and square 1."""
    low, high = 1e-9, 10.0
    w = target
    for _ in range(24):
        s = math.sqrt(low * high)
        weights = 1.0 / (s + price)
        w = (target - float((target * weights).sum() / weights.sum())) * weights
        low, high = (s, high) if float((w * w).mean()) > 1.0 else (low, s)
    return w


class HalfLevels(NamedTuple):
    """Levels of the events that a direction of one half needs."""

    theta: float
    sigma: float
    sums: float


def below_by_halves(
    first: Totals, second: Totals, most: FloatArray, k: float, levels: HalfLevels
) -> tuple[float, float]:
    """Return lower bounds of theta and of sigma: a direction of one half, rewards of the other.

    theta >= <c, y> for c = (1 + k w)/n, and sigma >= <w, y>/n (Cauchy-Schwarz). Arms with less than
    two rewards in the second half count with the worse end of [0, 1].
    """
    seen = first.pulls > 0.0
    counts, total = np.where(seen, first.pulls, 1e-6), np.where(seen, first.total, 0.5e-6)
    arms = _Arms.made(Totals(counts, total, first.squares), most)
    w = direction(arms, second.pulls, k, math.sqrt(2.0 * levels.theta))
    used = second.pulls >= 2.0
    if not used.any():
        return -math.inf, 0.0
    later = _Arms.made(Totals(*(part[used] for part in second)), most[used])
    n = w.size

    def bound(c: FloatArray, level: float) -> float:
        own = c[used]
        variance = variance_sum(later, own * own, own * own, None, levels.sums)
        off = radius(variance, float((np.abs(own) / later.counts).max()), level)
        doubt = float((np.abs(own) * mean_doubt(later.counts)).sum()) + rounding(n, k)
        worst = float(np.minimum(c[~used], 0.0).sum())
        return worst + float((own * later.means).sum()) - off - doubt

    return bound((1.0 + k * w) / n, levels.theta), bound(w / n, levels.sigma)


# Products of errors: section 4


def products_bound(arms: _Arms, level: float, for_fourth: float) -> float:
    """Return D that sum_j d_j exceeds with probability exp(-level) at most, and -D from below.

    d_j is the average of products of two different errors of arm j, of at least four rewards.
    `for_fourth` is the level of the sums of s_j^4, for all values of lambda together.
    """
    counts, most = arms.counts, np.maximum(arms.most, 1e-12)
    half, rest = np.floor(counts / 2.0), np.ceil(counts / 2.0)
    fourth = arms.variance**2 * counts * (counts - 1.0) / ((counts - 2.0) * (counts - 3.0))
    lambdas = LAMBDAS * math.sqrt(2.0 * level / float((0.01 / (half * rest)).sum()))
    for_fourth += math.log(LAMBDAS.size)
    best = math.inf
    for scale, beyond in zip(lambdas.tolist(), _beyond_squares(counts, most, lambdas), strict=True):
        weights = scale * scale / (2.0 * half * rest) + beyond
        if not np.isfinite(weights).all():
            continue
        plain = float(np.log1p(weights * most**2).sum())
        step = float((weights / np.floor(counts / 4.0)).max()) / 2.0
        known = float(not_less(float((weights * fourth).sum()), step, for_fourth))
        best = min(best, (level + min(plain, known)) / scale)
    return best * GROWN


def _beyond_squares(counts: FloatArray, most: FloatArray, lambdas: FloatArray) -> FloatArray:
    """Return at least E r(|e_A|)/s^4 for each lambda and arm: what is beyond the second power.

    It grows with s^2 and falls with the number of rewards, so that many arms are put into classes
    that round either to the safe side.
    """
    if counts.size > CHUNK // 16:
        fewer = np.maximum(np.floor(2.0 ** (np.floor(8.0 * np.log2(counts)) / 8.0)), 4.0)
        counts = np.minimum(fewer, counts)
        most = np.maximum(2.0 ** (np.ceil(8.0 * np.log2(most)) / 8.0), most)
    classes, place = np.unique(np.stack([counts, most]), axis=1, return_inverse=True)
    found: FloatArray = _remainders(classes[0], classes[1], lambdas) / classes[1] ** 2
    return found[:, place.ravel()]


def _remainders(counts: FloatArray, most: FloatArray, lambdas: FloatArray) -> FloatArray:
    """Return at least E r(|e_A|) for arms of variance `most`, by tails at `DISTANCES`.

    Chebyshev's tails, and Bennett's where that grows at least as fast as the variance does.
    """
    half, rest = np.floor(counts / 2.0), np.ceil(counts / 2.0)
    noise = most / half
    x = np.minimum(np.sqrt(noise) * DISTANCES[:, None], 1.0)
    x[-1] = 1.0
    u = x / most
    bennett = 2.0 * np.exp(-half * most * ((1.0 + u) * np.log1p(u) - u))
    steep = half * most * (u - np.log1p(u)) >= 1.0
    tail = noise / x**2
    tail = np.where(steep, np.minimum(tail, bennett), tail)
    found = np.empty((lambdas.size, counts.size))
    with np.errstate(over="ignore", invalid="ignore"):
        for i, scale in enumerate(lambdas.tolist()):
            t = scale * x / rest
            square = scale * scale * most / (2.0 * rest) * x * x
            r = np.maximum(np.expm1(rest * most * (np.expm1(t) - t)) - square, 0.0)
            found[i] = r[0] * noise / x[0] ** 2 + (
                np.maximum(np.diff(r, axis=0), 0.0) * tail[:-1]
            ).sum(0)
    found[~np.isfinite(found)] = np.inf
    return found


def largest_arms(counts: FloatArray) -> IntArray:
    """Return the arms with most rows, as many as make the bound on products about best.

    By their numbers alone, with rewards of a typical spread; all have at least four.
    """
    level, sd = 7.0, 0.1
    n, order = counts.size, np.argsort(-counts, kind="stable")
    w = 1.0 / counts[order]
    noise = 2.6 * sd * math.sqrt(2.0 * level) * np.sqrt(np.cumsum(w * w)) + 2.0 * level * sd * w
    lost = (n - np.arange(1.0, n + 1.0)) * 0.03
    best = int(np.argmin(lost + noise)) + 1
    return order[: min(max(best, 3), int((counts >= 4.0).sum()))]


# Everything together: sections 5 to 7


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


class _Along(NamedTuple):
    """A bound on theta whose error goes along a direction c between two ends."""

    theta: float
    c_low: FloatArray
    c_high: FloatArray
    variance: float
    """Of the error, at least."""
    step: float
    """At least the largest term of the error."""
    skipped: int
    """So many arms with the fewest rows are not part of the error."""


class _Products(NamedTuple):
    """Some arms, what the products of their errors add up to at most, and estimates of y^2."""

    arms: IntArray
    bound: float
    squares: FloatArray


class _Family:
    """All arms of one look; bounds on mu, sigma and theta are improved in turn."""

    def __init__(
        self, totals: Totals, half: Totals | None, k: float, delta: float, *, binary: bool
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
        self.from_below: _Along | None = None
        self.from_above: list[_Along] = []

    def _arms(self, *, binary: bool) -> _Arms:
        nearest = np.clip(0.5, self.low, self.high)
        most = np.maximum(nearest * (1.0 - nearest), 1e-12)
        arms = _Arms.made(self.totals, most)
        if binary:
            return arms
        level = self.level(self.shares.variance / self.n)
        known = not_less(arms.variance, 1.0 / arms.pairs, level)
        return replace(arms, most=np.minimum(most, known))

    def level(self, share: float) -> float:
        """Return log(1/(share delta))."""
        return -math.log(share) - math.log(self.delta)

    def _mean_radius(self, arms: _Arms) -> float:
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
        """Raise the lower ends of theta and sigma by directions of either half."""
        if self.half is None or self.n < 3:
            return
        pairs = zip(self.totals, self.half, strict=True)
        rest = Totals(*(np.maximum(whole - half, 0.0) for whole, half in pairs))
        shares = self.shares
        levels = HalfLevels(
            *map(self.level, (shares.half_theta, shares.half_sigma, shares.half_sums))
        )
        for first, second in ((self.half, rest), (rest, self.half)):
            self._raise(*below_by_halves(first, second, self.arms.most, self.k, levels))

    def _along_scores(self, arms: IntArray, some: _Arms, known: _Range) -> float:
        """Return what |<v*, e>| is at most, v* the unit vector of the z-scores of some arms."""
        g = arms.size
        low, high = _squares(*known.scores(self.low[arms], self.high[arms]))
        level = self.level(self.shares.sums)
        variance = variance_sum(some, low / g, high / g, GROWN, level)
        step = math.sqrt(float((high / g / some.counts**2).max()))
        return radius(variance, step, self.level(self.shares.spread)) + self.slack * math.sqrt(g)

    def look_by_products(self) -> None:
        """Bound sigma from both sides and theta from below, by products of rewards."""
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
        self.from_below = one = self._along(theta, c_low, c_high)
        self._raise(theta - radius(one.variance, one.step, self.level(self.shares.lower)), 0.0)

    def _along(
        self, theta: float, c_low: FloatArray, c_high: FloatArray, skipped: int = 0
    ) -> _Along:
        low, high = _squares(c_low, c_high)
        budget = (1.0 + self.k**2) / self.n * GROWN
        level = self.level(self.shares.sums)
        variance = variance_sum(self.arms, low, high, budget, level, skipped)
        reach = np.sqrt(high) / self.totals.pulls
        reach[self.arms.order[:skipped]] = 0.0
        return _Along(theta, c_low, c_high, variance, float(reach.max()), skipped)

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
        level = self.level(self.shares.upper / len(boxed))
        for skipped in boxed:
            low, high = means.copy(), means.copy()
            few = self.arms.order[:skipped]
            low[few], high[few] = self.low[few], self.high[few]
            theta = upper_bounds(low, high, k)[0] + self.slack
            if skipped == 0:
                theta = min(theta, self.estimate + k * math.sqrt(most / n) + self.slack)
            one = self._along(theta, c_low, c_high, skipped)
            self.from_above.append(one)
            off = radius(one.variance, one.step, level) + self.slack
            self.theta = (self.theta[0], min(self.theta[1], theta + off))

    def _squares_above(self, along: float) -> float:
        """Return at least (|P y| + <v*, e>)^2, from products of rewards where there are such."""
        if self.products is None:
            return math.inf
        squares = self.arms.means**2
        squares[self.products.arms] = self.products.squares
        total = float(squares.sum()) - self.n * self.estimate**2 + 8.0 * self.n * self.slack
        return max(total + self.products.bound + along**2 + self.n * self.mean_off**2, 0.0)

    def _joint_radius(self, one: _Along, level: float) -> FloatArray:
        """Return what e_i - <c, e> exceeds with probability exp(-level) at most, for each arm."""
        counts = self.totals.pulls
        own = np.maximum(1.0 - 2.0 * one.c_low, 0.0) * self.arms.most / counts
        reach = np.maximum(np.abs(1.0 - one.c_low), np.abs(1.0 - one.c_high)) / counts
        steps = np.maximum(reach, one.step)
        off: FloatArray = np.sqrt(2.0 * level * (one.variance + own)) + steps * level / 3.0
        off[self.arms.order[: one.skipped]] = np.inf
        return off * GROWN + self.slack

    def decide(self, margin: float, floor: float) -> tuple[BoolArray, BoolArray]:
        """Return the arms that are above the threshold and those that are below."""
        means, mean = self.arms.means, self.range.mean
        above, below = self.own_low >= self.theta[1], self.own_high < self.theta[0]
        share = self.shares.joint / self.n
        for one in self.from_above:
            level = self.level(share / len(self.from_above))
            above |= means - one.theta >= self._joint_radius(one, level)
        if self.from_below is not None:
            radii = self._joint_radius(self.from_below, self.level(share))
            below |= means - self.from_below.theta < -radii
        if margin > 0.0:
            above &= self.own_low >= mean[1] + margin
            below |= self.own_high < mean[0] + margin
        box = verdicts(self.low, self.high, self.k, margin, floor)
        above = (above & (self.own_low >= floor)) | box.odd
        return above, below | (self.own_high < floor) | box.normal


def proven_look(
    totals: Totals,
    half: Totals | None = None,
    *,
    k: float,
    delta: float,
    margin: float = 0.0,
    floor: float = -math.inf,
    binary: bool = False,
    fdr: bool = False,
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
        Everything that is returned holds together with probability 1 - delta at least; with `fdr`
        at most a share of delta of the decisions on either side is wrong, on average.
    binary
        Whether all rewards can only be 0 or 1.
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
    if fdr:
        level = family.level(family.shares.own / family.n)
        scatter = largest_scatter(totals)
        above |= _named(totals, scatter, threshold[1], level, int(above.sum()), below=False)
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
    """Return the arms on one side of an end of the threshold, a share of them wrongly: section 8.

    `level` is log(n/alpha), `sure` the number of arms that are named already.
    """
    n = totals.pulls.size
    if not 0.0 < end < 1.0:
        return np.zeros(n, dtype=np.bool_)
    bets = _bets(totals, scatter, level - 0.5 * math.log(n), below=below)
    room = np.full(n, math.nextafter(1.0 - end, 2.0) if below else end)
    values = bets.wealth(room) + math.log(E_SHARE)
    values[bets.sample.gap <= room] = -np.inf
    return names(values, level, sure)
