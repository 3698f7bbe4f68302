"""The calibrated rule: a z-test of every arm against the threshold, made careful.

**Nothing here is proven.** A search that must be right with a stated probability needs SPADE. The
formulas assume rewards in [0, 1] that are independent, across arms too, each arm's with one mean.
``docs/explanation/calibrated.md`` has the errors that were counted. Doubts at the end of a budget
were at least the share of wrong guesses in every bin.

An arm is an outlier if it reaches theta = max(mu + k sigma, mu + margin, floor) of the n means.

Why rows
--------
Where pulls were chosen by looking at rewards, plain averages are biased. So pulls come in *rows*.
Row b pulls every arm at least once, n_bj times arm j; these counts are fixed by the rows before it,
and its weight w_b by its number. Then weighted averages of the row's averages x_bj are unbiased,
and products of *different* rows estimate squares of means without bias (``calibrated.md``):

    E sum_b w_b x_bj = W y_j,    E sum_{b != c} w_b w_c x_bj x_ck = (W^2 - W2) y_j y_k,

with W = sum w_b and W2 = sum w_b^2.

Symbols
-------
Of each arm: N, S, Q are the number, the sum and the sum of squares of all its rewards, m = S/N, and
s^2 the variance of a reward (`padded_variance`). With x_b the average of x_bj over the arms:

    A_j = sum w_b x_bj, B_j = sum w_b^2 x_bj^2, C_j = sum w_b^2 x_b x_bj, G_j = sum w_b^2/n_bj,
    D = sum w_b^2 x_b^2,  y = A/W with the variances e = s^2 G/W^2,  h = n - 1.

All formulas are equivariant: rewards 1 - X with -k give -z. So k < 0 needs no mirror.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.statistics.directions import leave_one_out_k
from oddarms.statistics.elementwise import Numbers
from oddarms.statistics.guesses import padded_variance
from oddarms.statistics.totals import Totals

FIRST_ROWS = 4  # of one pull each, before the first look
GROWTH = 0.1  # later rows have this share of the weight so far: closer looks cost error
LEAST_WEIGHT = 2.0
SHIFT = 1.0 / 3.0  # how far towards the threshold an arm's own variance is taken
LEAST_SHARE = 0.05  # of the threshold's variance is left, whatever the covariance takes off it
ARM_GROWTH = 0.5  # for its own sake an arm gets at most this share of its pulls, and 2, in a row
STEEPEST = 1e8  # k~ where n = 1 + k^2, in place of infinity: z is then a test of sigma_-i > 0
TINY = 1e-9
LEAST_LOG_G, MOST_LOG_G = -30.0, 80.0  # from one pull to as many as can be counted
BISECTIONS = 28  # of that range: more digits than rounding to whole pulls leaves


class Conditions(NamedTuple):
    """What makes an arm an outlier: its mean reaches max(mu + k sigma, mu + margin, floor)."""

    k: float
    margin: float = 0.0
    """As a share of the rewards' range; 0 for none."""
    floor: float = -math.inf
    """In [0, 1]; minus infinity for none."""

    def reachable(self, n: int) -> bool:
        """Tell whether any of n means in [0, 1] can be an outlier.

        No standardised value of n numbers exceeds sqrt(n - 1), so none can where n < 1 + k^2 and
        k > 0. (The one exception, all means equal, is not looked for.) The largest distance to the
        mean is that of one 1 among zeros, (n - 1)/n.
        """
        possible = self.k <= 0.0 or Fraction(n) >= 1 + Fraction(self.k) ** 2
        return possible and self.margin * n <= n - 1 and self.floor <= 1.0

    def binds(self, n: int) -> tuple[bool, bool, bool]:
        """Tell which of k, margin and floor can keep one of n arms from being an outlier.

        With k <= 0 a margin implies that mu + k sigma is reached, and where n < 1 + k^2, k < 0,
        every arm reaches it. A floor of 0 or below is always reached.
        """
        margin = self.margin > 0.0
        implied = self.k <= 0.0 and margin
        always = self.k < 0.0 and Fraction(n) < 1 + Fraction(self.k) ** 2
        return not implied and not always, margin, self.floor > 0.0


class Rows(NamedTuple):
    """Sums over the rows; the module has the formulas."""

    A: FloatArray
    B: FloatArray
    C: FloatArray
    G: FloatArray
    W: float
    W2: float
    D: float
    number: int

    @classmethod
    def none(cls, n: int) -> Rows:
        """Return the sums over no rows of n arms."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), 0.0, 0.0, 0.0, 0)

    def plus(self, weight: float, counts: IntArray, sums: FloatArray) -> Rows:
        """Return the sums with one more row: how often each arm was pulled, and what it gave."""
        x = sums / counts
        common, square = float(x.mean()), weight * weight
        return Rows(
            self.A + weight * x,
            self.B + square * x * x,
            self.C + square * common * x,
            self.G + square / counts,
            self.W + weight,
            self.W2 + square,
            self.D + square * common * common,
            self.number + 1,
        )


class Estimates(NamedTuple):
    """The means and their spread, from the rows alone."""

    mean: float
    """Of all y."""
    d: FloatArray
    """y less that mean."""
    e: FloatArray
    """The variances of y."""
    sigma2: float
    """The variance of the true means, without bias; it may be below 0."""
    mean_variance: float
    """Of `mean`."""
    sigma2_variance: float
    """Of `sigma2`."""
    covariance: float
    """Of the two."""

    @property
    def sd(self) -> float:
        """The sd of the true means."""
        return float(spread_sd(self.sigma2, self.sigma2_variance))


def spread_sd(sigma2: Numbers, variance: Numbers) -> Numbers:
    """Return the root of a variance of means, which is not taken below its standard error.

    After few pulls an unbiased `sigma2` may well be below 0, and every arm above the mean would be
    guessed an outlier. With this it moves no z by more than about 1.
    """
    return np.sqrt(np.maximum(sigma2, np.sqrt(variance)))


def estimates(rows: Rows, variance: FloatArray) -> Estimates:
    """Return what the rows say of all arms; there are at least two of them.

    sigma2 = [W^2 mean(d^2) - (mean(B) - D)]/(W^2 - W2), as products of a row with itself are taken
    out. Its variance is to first order that of mean(2 d (y^ - y)), with 2 e^2 for the products of
    errors: mean over n of 4 e d^2 + 2 e^2, where d^2 has an excess of e.
    """
    y = rows.A / rows.W
    e = variance * rows.G / rows.W**2
    mean = float(y.mean())
    d = y - mean
    n = d.size
    spread = rows.W**2 * float((d * d).mean()) - (float(rows.B.mean()) - rows.D)
    squares = float((e * e).sum())
    return Estimates(
        mean,
        d,
        e,
        spread / (rows.W**2 - rows.W2),
        float(e.sum()) / n**2,
        max(4.0 * float((e * d * d).sum()) - 2.0 * squares, 2.0 * squares) / n**2,
        2.0 * float((e * d).sum()) / n**2,
    )


def sigma2_of_others(rows: Rows) -> FloatArray:
    """Return U_i, the variance of the true means of the arms other than i, without bias.

    U_i = [W^2 ((sum d^2 - d_i^2)/h - d0_i^2) -
    ((sum B - B_i)/h - (n^2 D - 2 n C_i + B_i)/h^2)] / (W^2 - W2), d0_i = -d_i/h:

    the population variance of y over the others, less its parts that are products of a row with
    itself, as the others' sum in row b is n x_b - x_bi. Needs two rows.
    """
    y = rows.A / rows.W
    d = y - y.mean()
    n, h = d.size, d.size - 1.0
    spread = ((d * d).sum() - d * d) / h - (d / h) ** 2
    same = (rows.B.sum() - rows.B) / h - (n * n * rows.D - 2.0 * n * rows.C + rows.B) / h**2
    found: FloatArray = (rows.W**2 * spread - same) / (rows.W**2 - rows.W2)
    return found


class Others(NamedTuple):
    """Mean and spread of the arms other than i, for each i, with their variances."""

    mean: FloatArray
    U: FloatArray
    Vm: FloatArray
    Cv: FloatArray
    Vs: FloatArray


def others_of(rows: Rows, known: Estimates) -> Others:
    """Return mean_-i and U_i, and by the delta method Vm, Cv and Vs, their (co)variances.

    Vm = sum e/h^2, Cv = 2 sum e d/h^2, Vs = max(4 sum e d^2 - 2 sum e^2, 2 sum e^2)/h^2 over
    j != i, d centred on the others.
    """
    d, e, h = known.d, known.e, known.d.size - 1.0
    d0 = -d / h
    e0, e1, e2 = e.sum() - e, (e * d).sum() - e * d, (e * d * d).sum() - e * d * d
    products = np.maximum((e * e).sum() - e * e, 0.0)
    first, second = e1 - d0 * e0, e2 - 2.0 * d0 * e1 + d0 * d0 * e0
    Vs = np.maximum(4.0 * second - 2.0 * products, 2.0 * products) / h**2
    return Others(known.mean + d0, sigma2_of_others(rows), e0 / h**2, 2.0 * first / h**2, Vs)


class Part(NamedTuple):
    """All arms against one part of the threshold."""

    z: FloatArray
    """Distance over standard error; above 0 where the arm seems to reach it."""
    variance: FloatArray
    """The square of that standard error."""
    influence2: FloatArray
    """How much this part moves with each mean, squared, with the doubt about it; steers only."""


class Look(NamedTuple):
    """What the rewards so far say, at one moment."""

    parts: tuple[Part, ...]
    variance: FloatArray
    """Of one reward of each arm, padded."""


def look(totals: Totals, rows: Rows, asked: Conditions) -> Look:
    """Return the z of every arm against each part of the threshold that can bind.

    Against mu + k sigma, x = m - mean_-i, with k~ = `leave_one_out_k`, in whose terms the noise of
    the threshold does not depend on the arm's own rewards:

        f = x - k~ sqrt(U'),  z = f/sqrt(v),
        v = own(f) + max(Vm + b^2 Vs + 2 b Cv, 0.05 (Vm + b^2 Vs)),  b = k~/(sqrt(U') + s0).

    s0 = max(x/k~, 0) is the sd at which the arm would lie on the threshold. So b is the slope of
    the secant of k~ sqrt(.) between U' and s0^2, and U' = max(U, sqrt(Vs)): see `spread_sd`.

    Against mu + margin: y_i >= mu + margin if and only if y_i - mean_-i >= margin n/h, so
    f = x - margin n/h and v = own(f) + Vm. Against the floor: f = m - floor and v = own(f).
    """
    variance = padded_variance(*totals)
    m = totals.total / totals.pulls
    known = estimates(rows, variance)
    others = others_of(rows, known)
    n = m.size
    parts = []
    against_sigma, against_margin, against_floor = asked.binds(n)
    if against_sigma:
        f, of_threshold = _distance_to_sigma(m, others, steepness(n, asked.k))
        influence2 = influence_squared(known, asked.k)
        parts.append(_part(f, own_variance(totals, variance, f) + of_threshold, influence2))
    if against_margin:
        f = m - others.mean - asked.margin * n / (n - 1.0)
        v = own_variance(totals, variance, f) + others.Vm
        parts.append(_part(f, v, np.full(n, 1.0 / n**2)))
    if against_floor:
        f = m - asked.floor
        parts.append(_part(f, own_variance(totals, variance, f), np.zeros(n)))
    return Look(tuple(parts), variance)


def _part(f: FloatArray, variance: FloatArray, influence2: FloatArray) -> Part:
    return Part(f / np.sqrt(variance), variance, influence2)


def steepness(n: int, k: float) -> float:
    """Return k~ with the sign of k, kept finite where n = 1 + k^2."""
    others_k = STEEPEST
    if Fraction(n) > 1 + Fraction(k) ** 2:
        others_k = min(leave_one_out_k(n, abs(k)), STEEPEST)
    return math.copysign(others_k, k)


def _distance_to_sigma(
    m: FloatArray, others: Others, others_k: float
) -> tuple[FloatArray, FloatArray]:
    """Return f against mean_-i + k~ sigma_-i, and the variance of that threshold: see `look`."""
    x = m - others.mean
    if others_k == 0.0:
        return x, others.Vm
    sd = spread_sd(others.U, others.Vs)
    b = others_k / (sd + np.maximum(x / others_k, 0.0))
    apart = others.Vm + b * b * others.Vs
    return x - others_k * sd, np.maximum(apart + 2.0 * b * others.Cv, LEAST_SHARE * apart)


def own_variance(totals: Totals, variance: FloatArray, f: FloatArray) -> FloatArray:
    """Return the variance of m, were the mean a third of the way to the threshold m - f.

    The arm's rewards are mixed with as much of the end of [0, 1] that lies beyond the threshold as
    moves their mean there. Mixing in a share p = D/far at a distance far from m moves the mean by
    D and makes the variance (1 - p) (s^2 + p far^2). What matters is how likely so extreme an
    average is from the threshold: an arm of rate 0 has no variance of its own to speak of.
    """
    m = totals.total / totals.pulls
    moved = SHIFT * (np.clip(m - f, 0.0, 1.0) - m)
    far = np.maximum(np.where(moved > 0.0, 1.0 - m, m), TINY)
    moved = np.abs(moved)
    result: FloatArray = (1.0 - moved / far) * (variance + moved * far) / totals.pulls
    return result


def influence_squared(known: Estimates, k: float) -> FloatArray:
    """Return c_j^2 of mu + k sigma, c = (1 + k d/sigma)/n, and what noise in d adds to it."""
    n, sd = known.d.size, known.sd
    c = (1.0 + k * known.d / sd) / n
    squared: FloatArray = c * c + known.e * (k / (n * sd)) ** 2
    return squared


class Verdict(NamedTuple):
    """The parts taken together."""

    odd: BoolArray
    """Whether the arm seems to be an outlier: every z is at least 0."""
    tail: FloatArray
    """How likely that is wrong, had this been the only look."""
    density: FloatArray
    """zeta phi(zeta), zeta = max(|z|, 1): what the price of having looked is made of."""
    deciding: IntArray
    """Which part decides: that of the smallest z, for outliers and normal arms alike."""


def verdict(found: Look) -> Verdict:
    """Return what the parts say together.

    An outlier must reach all parts: it is called one wrongly if it is below any, so tails
    Phi(-|z|) add. A normal arm is below one part, and the smallest tail will do. (Which part has
    the smallest is looked up afterwards; where an arm is near several parts at once that makes the
    tail too small, at worst by their number.)
    """
    from scipy.special import ndtr

    z = np.stack([part.z for part in found.parts])
    tails, densities = ndtr(-np.abs(z)), tail_density(z)
    odd: BoolArray = np.asarray((z >= 0.0).all(0))
    deciding = z.argmin(0)
    arms = np.arange(odd.size)
    return Verdict(
        odd,
        np.where(odd, tails.sum(0), tails[deciding, arms]),
        np.where(odd, densities.sum(0), densities[deciding, arms]),
        deciding,
    )


def deciding_z(found: Look, judged: Verdict) -> FloatArray:
    """Return each arm's z against the part that decides about it."""
    z = np.stack([part.z for part in found.parts])
    deciding: FloatArray = z[judged.deciding, np.arange(z.shape[1])]
    return deciding


def tail_density(z: FloatArray) -> FloatArray:
    """Return zeta phi(zeta), zeta = max(|z|, 1)."""
    zeta = np.maximum(np.abs(z), 1.0)
    result: FloatArray = zeta * np.exp(-0.5 * zeta * zeta) / math.sqrt(2.0 * math.pi)
    return result


def clock(pulls: FloatArray) -> FloatArray:
    """Return L_i, for how long an arm has been looked at: log of its pulls over the first ones'.

    At least that of all arms together, and at least 0.
    """
    together = pulls.sum() / (FIRST_ROWS * pulls.size)
    result: FloatArray = np.log(np.maximum(np.maximum(pulls / FIRST_ROWS, together), 1.0))
    return result


def stated_error(pulls: FloatArray, found: Verdict) -> float:
    """Return about the probability that any verdict is wrong, given that one stops by looking.

    sum_i tail_i + max_i (n/h) (1 + L_i)/2 zeta_i phi(zeta_i): the tails, and the price of having
    looked before for the arm for which it is largest. A standardised sum of T pulls crosses a level
    z, one-sided, at a rate of z phi(z)/2 per unit of log T. n/h, by experiment, is for very few
    arms: with many, an early stop is unlikely as all others must be settled, too.

    Not proven; and as a gap goes to 0 it cannot be right: where z is the level at which this
    reaches delta, the rates still add up to about delta log(1 + L), which grows without bound.
    """
    few = pulls.size / (pulls.size - 1.0)
    price = 0.5 * few * (1.0 + clock(pulls)) * found.density
    return float(found.tail.sum() + price.max())


def next_weight(rows: Rows) -> float:
    """Return the weight of the next row, which is also its pulls of an arm on average."""
    return 1.0 if rows.number < FIRST_ROWS else max(LEAST_WEIGHT, GROWTH * rows.W)


def next_counts(
    totals: Totals, rows: Rows, found: Look, judged: Verdict, weight: float, total: int
) -> FloatArray:
    """Return how often to pull each arm in the next row, at least once, about `total` in all.

    Fewer where no arm may get more, as with a floor alone.

    Arm i's tail falls by a_i = zeta phi(zeta)/v per unit of variance. The threshold's variance is
    sum_j c_j^2 s_j^2 sum_b (w_b/W)^2/n_bj, to which a row adds c_j^2 s_j^2 (w/(W + w))^2/n_j, and
    the arm's own is s_i^2/N_i. With 1/g^2 the price of a pull, the least of sum_i a_i v_i and what
    the row costs is at n_j = g s_j sqrt(c_j^2 sum a) w/(W + w) and at N_j + n_j = g s_j sqrt(a_j).
    An arm gets the larger of the two, the second at most N_j/2 + 2 as a_j is a guess; g is found by
    bisection. Each part of the threshold has its own c and the a of the arms that it matters to.
    """
    a = _worth_of_variance(found, judged)
    shared = np.zeros(totals.pulls.size)
    for part, own in zip(found.parts, a, strict=True):
        shared += part.influence2 * own.sum()
    sd = np.sqrt(found.variance)
    for_threshold = sd * np.sqrt(shared) * weight / (rows.W + weight)
    for_itself = sd * np.sqrt(a.sum(0))
    most = ARM_GROWTH * totals.pulls + 2.0

    def counts(log_g: float) -> FloatArray:
        g = math.exp(log_g)
        own = np.minimum(g * for_itself - totals.pulls, most)
        wanted: FloatArray = np.maximum(np.maximum(g * for_threshold, own), 1.0)
        return wanted

    low, high = LEAST_LOG_G, MOST_LOG_G
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if counts(middle).sum() > total else (middle, high)
    return counts(low)


def _worth_of_variance(found: Look, judged: Verdict) -> FloatArray:
    """Return zeta phi(zeta)/v for each part and arm, over the largest; 0 where it says nothing.

    All parts count for an arm that seems an outlier, as their tails add, and for others the one
    that decides.
    """
    z = np.stack([part.z for part in found.parts])
    v = np.stack([part.variance for part in found.parts])
    zeta = np.maximum(np.abs(z), 1.0)
    log_a = np.log(zeta) - 0.5 * zeta * zeta - np.log(v)
    counts = judged.odd | (np.arange(len(z))[:, None] == judged.deciding)
    log_a[~counts] = -np.inf
    a: FloatArray = np.exp(log_a - log_a.max())
    return a


def rounded_counts(counts: FloatArray, total: int, chance: float) -> IntArray:
    """Return whole numbers of at least 1 that add up to `total`, near to counts of at least 1.

    What exceeds 1 is scaled to the total, n <= total, and rounded so that each number is right on
    average over a uniform `chance` in [0, 1): running sums, shifted by it, are rounded down.
    """
    n = counts.size
    excess, spare = counts - 1.0, total - n
    in_all = float(excess.sum())
    if in_all <= 0.0:
        excess, in_all = np.ones(n), float(n)
    ends = np.floor(np.cumsum(excess) * (spare / in_all) + chance).astype(np.int64)
    ends = np.clip(ends, 0, spare)
    ends[-1] = spare
    return 1 + np.diff(ends, prepend=0)


def pulls_left(totals: Totals, found: Look, judged: Verdict, delta: float) -> FloatArray:
    """Return about how many more pulls each arm needs: a rough guess, and at least one row.

    z^2 grows as the pulls do, to the level that one arm alone would need (`_reach`). Where a whole
    search was at a tenth, a third or two thirds, the total so foretold was mostly 0.2 to 1.2, 0.5
    to 1.9 and 0.6 to 1.6 times what it took.
    """
    level = _reach(delta, float(clock(totals.pulls).max()))
    z = np.maximum(np.abs(deciding_z(found, judged)), 0.5)  # an estimate may lie on the threshold
    more = np.maximum((level / z) ** 2 - 1.0, GROWTH)
    result: FloatArray = np.ceil(totals.pulls * more)
    return result


class Bound(NamedTuple):
    """An estimate of the threshold and an interval about it."""

    estimate: float
    low: float
    high: float


def threshold_bound(totals: Totals, rows: Rows, asked: Conditions, delta: float) -> Bound:
    """Return max(mu + k sigma, mu + margin, floor) and about a 1 - delta interval; two rows.

    An approximation like all of the rule. The interval of mu + k sigma is that of mu and k times
    that of sigma added up, so it is wider than their covariance may ask for. Half the width of
    each is as many standard errors as the stopping rule asks of an arm:
    2 Phi(-z) + (1 + L) z phi(z) = delta. The one of sigma is the root of that of sigma^2, so it is
    there where sigma is near 0. With a margin or a floor, the largest of the ends counts.
    """
    known = estimates(rows, padded_variance(*totals))
    reach = _reach(delta, float(clock(totals.pulls).max()))
    sd, wide = known.sd, reach * math.sqrt(known.sigma2_variance)
    least, most = (math.sqrt(max(sd * sd + sign * wide, 0.0)) for sign in (-1.0, 1.0))
    ends = sorted((asked.k * (least - sd), asked.k * (most - sd)))
    at_mean = reach * math.sqrt(known.mean_variance)
    estimate = known.mean + asked.k * sd
    bounds = [Bound(estimate, estimate + ends[0] - at_mean, estimate + ends[1] + at_mean)]
    if asked.margin > 0.0:
        at_margin = known.mean + asked.margin
        bounds.append(Bound(at_margin, at_margin - at_mean, at_margin + at_mean))
    if math.isfinite(asked.floor):
        bounds.append(Bound(asked.floor, asked.floor, asked.floor))
    return Bound(*(max(column) for column in zip(*bounds, strict=True)))


def _reach(delta: float, looked: float) -> float:
    """Return the z at which 2 Phi(-z) + (1 + L) z phi(z) falls to delta."""
    from scipy.special import ndtr

    low, high = 1.0, 40.0
    for _ in range(BISECTIONS):
        z = 0.5 * (low + high)
        density = float(tail_density(np.array([z]))[0])
        enough = 2.0 * float(ndtr(-z)) + (1.0 + looked) * density <= delta
        low, high = (low, z) if enough else (z, high)
    return high
