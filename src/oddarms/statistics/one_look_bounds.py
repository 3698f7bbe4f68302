"""Bounds for one look at recorded rewards: ends of means, variances, halves, products of errors.

`oddarms.statistics.one_look` puts them together, and has the setting and the symbols;
``docs/explanation/one-look.md`` has the proofs, with the numbers of sections that are named here.

References: Clopper and Pearson (1934); Maurer and Pontil (2009) for variances; Boucheron, Lugosi
and Massart, Concentration Inequalities (2013), chapter 2, for Bennett and Bernstein.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.statistics.evidence import Sample, log_bet, sample_of
from oddarms.statistics.threshold_box import rounding
from oddarms.statistics.totals import Totals, relative_error

CHUNK = 16_384
"""Arms at a time, so that temporary arrays stay in the processor's cache."""
MOST_DOUBT = 1e-9
"""Sums of more than four million rewards are taken to be right to nine digits."""
GROWN = 1.0 + 1e-6
"""Radii are enlarged by what rounding can take from them, and more."""
TINY = 1e-300
BETS: FloatArray = np.array([1.0, 0.35, 0.6, 1.6, 2.8, 5.0, 12.0])[:, None]
"""In multiples of the one that suits the other arms."""
LOG_WEIGHTS: FloatArray = np.log(np.array([0.7, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05]))[:, None]
ROOT_STEPS = 9
LARGEST_BET = 0.97
WIDER = 0.85
"""The main bet is that of a standard deviation this much smaller, as most arms' are not larger."""
LAMBDAS: FloatArray = 2.0 ** np.arange(-4.0, 3.0)
"""Of the exponential bound on products of errors, in multiples of a typical one."""
DISTANCES: FloatArray = np.concatenate([np.linspace(0.3, 6.0, 20), np.geomspace(6.3, 300.0, 20)])
"""At which the tails of an error are bounded, in its standard deviations."""
BOXED = 6
"""So many arms with the fewest rows count with their intervals, in one of two bounds."""


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
    m, level = successes / counts, math.log(1.0 / alpha)
    chernoff = np.maximum(m - np.sqrt(2.0 * level * m / counts) * GROWN, 0.0)  # kl >= (m-q)^2/2m
    return np.where(sound | (successes == 0.0), low, chernoff)


class Bets(NamedTuple):
    """The bets of every arm against one side of its mean: section 1."""

    sample: Sample
    scale: FloatArray
    """The bet lambda that suits the other arms, per unit of reward."""

    def of(self, arms: slice) -> Bets:
        """Return the bets of some arms."""
        return Bets(Sample(*(part[arms] for part in self.sample)), self.scale[arms])

    def wealth(self, room: FloatArray) -> FloatArray:
        """Return the log of the mixture of wealths against a mean at a distance from the end."""
        bets = np.minimum(BETS * (self.scale * room), LARGEST_BET)
        losses = np.log1p(-bets) * (1.0 + 2.0**-49)
        logs = log_bet(self.sample, room, bets, losses, LOG_WEIGHTS)
        top = logs.max(0)
        found: FloatArray = np.log(np.exp(logs - top).sum(0)) + top
        return found


def bets_of(totals: Totals, scatter: FloatArray, level: float, *, below: bool) -> Bets:
    """Return bets that suit the *other* arms, by the variance of all others' rewards together."""
    counts, sums, _ = totals
    freedom = np.maximum((counts - 1.0).sum() - (counts - 1.0), 1.0)
    pooled = np.clip((scatter.sum() - scatter) / freedom, 1e-6, 0.25)
    near, far = (counts - sums, sums) if below else (sums, counts - sums)
    sample = sample_of(counts, far, near, near / counts - mean_doubt(counts), scatter)
    return Bets(sample, np.sqrt(2.0 * level / counts / pooled) / WIDER)


def _excluded_room(bets: Bets, level: float) -> FloatArray:
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
        bets = bets_of(totals, scatter, level, below=below)
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
class Arms:
    """Rewards of some arms, as sums over arms need them."""

    counts: FloatArray
    means: FloatArray
    variance: FloatArray
    """At least the unbiased estimate; the largest possible one of an arm with one reward."""
    most: FloatArray
    """The largest variance, given the box."""

    @classmethod
    def made(cls, totals: Totals, most: FloatArray) -> Arms:
        """Return arms with these totals and largest variances."""
        counts = totals.pulls
        several = np.maximum(counts - 1.0, 1.0)
        variance = np.where(counts > 1.0, largest_scatter(totals) / several, most)
        return cls(counts, totals.total / counts, variance, most)

    def of(self, arms: IntArray | BoolArray) -> Arms:
        """Return some of the arms."""
        return Arms(self.counts[arms], self.means[arms], self.variance[arms], self.most[arms])

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
    arms: Arms,
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


def direction(first: Arms, later_counts: FloatArray, k: float, z: float) -> FloatArray:
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


def below_by_halves(
    first: Totals, second: Totals, most: FloatArray, k: float, levels: Sequence[float]
) -> tuple[float, float]:
    """Return lower bounds of theta and of sigma: a direction of one half, rewards of the other.

    theta >= <c, y> for c = (1 + k w)/n, and sigma >= <w, y>/n (Cauchy-Schwarz). Arms with less than
    two rewards in the second half count with the worse end of [0, 1]. The largest variances `most`
    may come from all rewards: only the second half's bounds use them, not its direction. `levels`
    are those of the events for theta, for sigma, and for the weighted sums of variances.
    """
    for_theta, for_sigma, for_sums = levels
    w = direction(_first_half(first), second.pulls, k, math.sqrt(2.0 * for_theta))
    used = second.pulls >= 2.0
    if not used.any():
        return -math.inf, 0.0
    later = Arms.made(Totals(*(part[used] for part in second)), most[used])
    n = w.size

    def bound(c: FloatArray, level: float) -> float:
        own = c[used]
        variance = variance_sum(later, own * own, own * own, None, for_sums)
        off = radius(variance, float((np.abs(own) / later.counts).max()), level)
        doubt = float((np.abs(own) * mean_doubt(later.counts)).sum()) + rounding(n, k)
        worst = float(np.minimum(c[~used], 0.0).sum())
        return worst + float((own * later.means).sum()) - off - doubt

    return bound((1.0 + k * w) / n, for_theta), bound(w / n, for_sigma)


def _first_half(first: Totals) -> Arms:
    """Return the arms of the half that chooses a direction, by that half's rewards alone.

    Arms with fewer than two rewards have the pooled variance of the others.
    """
    counts, several = first.pulls, first.pulls > 1.0
    scatter = largest_scatter(first._replace(pulls=np.maximum(counts, 1.0)))
    freedom = float((counts - 1.0)[several].sum())
    pool = float(scatter[several].sum()) / freedom if several.any() else 0.25
    seen = counts > 0.0
    total = np.where(seen, first.total, 0.5e-6)
    half = Totals(np.where(seen, counts, 1e-6), total, first.squares)
    return Arms.made(half, np.full(counts.size, pool))


# Products of errors: section 4


def products_bound(arms: Arms, level: float, for_fourth: float) -> float:
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
