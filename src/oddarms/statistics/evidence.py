"""Time-uniform evidence: e-processes and the bounds they give, vectorised over arms.

An *e-process* is a non-negative process that starts at 1 and lies below a supermartingale under
the hypothesis it speaks against. Ville's inequality then bounds the probability that it *ever*
reaches 1/alpha by alpha: at any stopping time, and whichever arm is pulled next, as long as that
is decided by the past. Every function returns the logarithm of an e-process, or a bound that
inverts one. Counts are floats; all is stable for 2^50 pulls, the most of any search, and for means
at 0 and 1, as far as the sums are exact (those of 0 and 1 are).

References: Robbins (1970); Howard, Ramdas, McAuliffe and Sekhon (Annals of Statistics 2021);
Fan, Grama and Liu (Electronic Journal of Probability 2015); Waudby-Smith and Ramdas (JRSS B 2024).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.statistics.elementwise import (
    Numbers,
    choose,
    elementwise,
)
from oddarms.statistics.totals import relative_error

SMALLEST_GAP = 1e-150  # its square is still a number
LEAST_LEVEL = (
    2.0**-50
)  # levels nearer to 0 and 1 are moved there: no search is long enough for them
SMALL_BET = 1e-3
BETS: FloatArray = np.array([*(0.01 * 1.6 ** np.arange(10)), 0.82, 0.93])[:, None]
"""Fractions of the largest admissible bet; fixed, so no run can tune them."""
LOG_LOSSES: FloatArray = np.log1p(-BETS) * (1.0 + 2.0**-49)
"""What a bet loses at most, with all that rounding can take from the sum of losses and gains."""
SCALES: FloatArray = 4.0 ** np.arange(26.0)
LOG_PLACES: FloatArray = np.log(np.arange(1.0, 27.0) * np.arange(2.0, 28.0))
TYPICAL_PULLS = 32.0  # for which the sub-Gaussian mixture is tuned, times about 16
BISECTIONS = 12  # to find an end of an interval
FEW_PULLS = 2.0**18  # with more of them the ends of an interval are sought near the mean first
MOST_BELOW_ONE = 2.0**-53 - 1.0  # quotients are above 0, and as small as this where nothing is seen
PART = 4096  # arms at a time, where there are very many
SCREENED = 1e-6  # nats, and a share: how far bounds on the evidence may be off by rounding
STIRLING = 10.0  # from here on Stirling's series is exact to the last digits
BETA_SHARE = 0.1  # of the Jeffreys mixture in an arm's evidence; the bets have the rest
_PRIOR: FloatArray = 1.0 / (1.0 + ((np.arange(12.0)[:, None] - 7.0) / 3.0) ** 2)
LOG_SHARES: FloatArray = np.log((1.0 - BETA_SHARE) * _PRIOR / _PRIOR.sum())
"""Of the bets: most on those of a fifth to a half, where gaps of a few hundred pulls lie."""


def log_mix(logs: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log of the summed exponentials over the first axis, and its derivative.

    The weights of the mixture are part of `logs`. Convex in a parameter where every term is.
    """
    top = highest(logs)
    weights = np.exp(logs - top)
    total = weights.sum(0)
    return np.log(total) + top, (weights * slopes).sum(0) / total


def highest(rows: FloatArray) -> FloatArray:
    """Return the largest finite entry of each column, 0 where there is none."""
    top = rows.max(0)
    return np.where(np.isfinite(top), top, 0.0)


def normal_mixture_boundary(variance: Any, alpha: float, rho: float) -> Any:
    """Return u(V) such that S ever exceeds u(V) with probability at most alpha; increasing in V.

    For sums S whose upper tail is sub-Gaussian with variance process V, such as sums of rewards in
    [0, 1] minus their means with 1/4 a pull. `rho` is fixed before the data:
    docs/explanation/proofs.md, (E5), or Howard et al. (2021, eq. 2.7).
    """
    full = variance + rho
    return np.sqrt(2.0 * full * np.log(np.sqrt(full / rho) / (2.0 * alpha) + 1.0))


def square_boundary(n: int, variance: float, alpha: float) -> float:
    """Return what |S|^2 ever exceeds with probability at most alpha, S the vector of n sums.

    For sums that are independent given the past, each sub-Gaussian with a variance process of at
    most `variance`: docs/explanation/proofs.md, Lemma 7 (b).
    """
    nats = n * np.log1p(variance / SCALES) + 2.0 * (LOG_PLACES - math.log(alpha))
    return float(((variance + SCALES) * nats).min())


def sub_gaussian_interval(
    pulls: FloatArray, total: FloatArray, squares: FloatArray, sd: float, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return time-uniform intervals that each contain their arm's mean with probability 1 - alpha.

    For rewards that need no bounds but are sub-Gaussian with parameter sd: E exp(l (X - y)) is at
    most exp(l^2 sd^2 / 2) for all l, as normal ones with this standard deviation are, and as those
    in [0, 1] are with sd = 1/2 (Hoeffding). Then the sum minus its mean is sub-Gaussian with
    variance process sd^2 N on either side, so `normal_mixture_boundary` at alpha/2 each bounds it;
    rho is that of a few dozen pulls, and good from a hundred to 10^5. Rewards of either sign have
    a sum that is off by at most e sum |X| <= e sqrt(N Q), e = `relative_error`; it is added. Every
    arm was pulled.
    """
    variance = sd * sd * pulls
    reach = normal_mixture_boundary(variance, 0.5 * alpha, TYPICAL_PULLS * sd * sd)
    mean, error = total / pulls, relative_error(pulls) * np.sqrt(squares / pulls)
    radius = reach / pulls * (1.0 + 1e-12) + 2.0 * error
    return mean - radius, mean + radius


@elementwise
def psi_exponential(x: Numbers) -> Numbers:
    """Return at least psi(x) = -log(1 - x) - x, infinite from x = 0.999 on.

    What a bet costs by what was *seen*: docs/explanation/proofs.md, Lemma 4. The difference cancels
    for small x; there x^2 (1/2 + x/3 + x^2/2) is above the series x^2/2 + x^3/3 + x^4/4 + ...
    """
    safe = np.minimum(x, 0.999)
    small = x * x * (0.5 + x / 3.0 + 0.5 * x * x)
    psi = choose(x < SMALL_BET, small, -np.log1p(-safe) - safe)
    return choose(x < 0.999, psi, np.inf)


class Sample(NamedTuple):
    """The rewards of each arm, as evidence about one side of its mean needs them.

    Told by distances from the end of [0, 1] at which a bet on that side loses most - 1 for "the
    mean is below a level", 0 for "above" - so that they keep their digits near that end. A level is
    given by its distance `room` from that end.

    The e-processes that are mixed are those of docs/explanation/proofs.md, section 4: the Jeffreys
    mixture, and bets whose wealth is that of a two-point sample, a share `at_end` of the rewards at
    the end and the `others` at the distance `reach` = gap + v/gap, at most 1, with v the variance
    and the shares as v to gap^2. (Without a gap all rewards are taken to be at the end.)

    The wealth falls as v grows and as gap shrinks, so it is not overstated where v is at least and
    gap at most the true one. For with r = v/gap^2, t = gap/room, A = log(1 - l), L = log(1 - l + l
    t (1 + r)), a pull is worth W = (r A + L)/(1 + r). W rises with t, and dW/dr has the sign of
    w/(1 + w) - log(1 + w) <= 0, w = l t (1 + r)/(1 - l). At fixed v, t grows and r falls with gap.
    Where reach is cut at 1, W is an average of A and a larger number, with weights v and gap^2. The
    Jeffreys mixture takes a rounded sum as it is: section 15 says what that does.
    """

    pulls: Numbers
    far: Numbers
    """The sum of the rewards' distances from the other end."""
    near: Numbers
    """The sum of their distances from this end."""
    start: Numbers
    """What does not depend on the level in the Jeffreys mixture: `log_jeffreys` has the rest."""
    gap: Numbers
    """At most the mean's distance from this end, given that the sum may have been rounded."""
    at_end: Numbers
    others: Numbers
    reach: Numbers

    def of(self, arms: IntArray) -> Sample:
        """Return the sample of some arms."""
        return Sample(*(part[arms] for part in self))


@elementwise
def sample_on_side(sign: float, pulls: Numbers, total: Numbers, scatter: Numbers) -> Sample:
    """Return the sample that speaks of "above" for sign 1, of "below" for sign -1."""
    if sign > 0.0:
        return sample_above(pulls, total, scatter)
    return sample_below(pulls, total, scatter)


def sample_below(pulls: Numbers, total: Numbers, scatter: Numbers) -> Sample:
    """Return the sample that speaks of "the mean is below a level"; every arm was pulled.

    `scatter` is at least the sum of the squared deviations from the mean.
    """
    gap = 1.0 - total / pulls * (1.0 + relative_error(pulls))
    return sample_of(pulls, total, pulls - total, gap, scatter)


def sample_above(pulls: Numbers, total: Numbers, scatter: Numbers) -> Sample:
    """Return the sample that speaks of "the mean is above a level"."""
    gap = total / pulls * (1.0 - relative_error(pulls))
    return sample_of(pulls, pulls - total, total, gap, scatter)


def sample_of(
    pulls: Numbers, far: Numbers, near: Numbers, gap: Numbers, scatter: Numbers
) -> Sample:
    """Return the sample from the sums of the distances from either end."""
    variance, known = scatter / pulls, gap > SMALLEST_GAP
    safe = choose(known, gap, 1.0)
    both = variance + safe * safe
    return Sample(
        pulls,
        far,
        near,
        jeffreys_start(pulls, far, near),
        gap,
        choose(known, variance / both, 1.0),
        choose(known, safe * safe / both, 0.0),
        np.minimum(safe + variance / safe, 1.0),
    )


def log_bets(sample: Sample, room: FloatArray) -> FloatArray:
    """Return the log wealth of each of the `BETS`, with its weight in the mixture."""
    result: FloatArray = log_bet(sample, room, BETS, LOG_LOSSES, LOG_SHARES)
    return result


def log_bet(
    sample: Sample, room: Numbers, bet: Numbers, log_loss: Numbers, log_share: Numbers
) -> Numbers:
    """Return the log wealth of a bet, with its weight; `log_loss` is log(1 - bet)."""
    rise = bet * (sample.reach / room - 1.0)
    worth = sample.at_end * log_loss + sample.others * np.log1p(rise)
    return sample.pulls * worth + log_share


def bet_slope(sample: Sample, room: Numbers, bet: Numbers) -> Numbers:
    """Return the derivative of `log_bet` in the room."""
    left = (1.0 - bet) * room + bet * sample.reach
    return -sample.pulls * sample.others * bet * sample.reach / (room * left)


def jeffreys_slope(sample: Sample, room: Numbers) -> Numbers:
    """Return the derivative of `log_jeffreys` in the room."""
    return sample.far / (1.0 - room) - sample.near / room


def log_jeffreys(sample: Sample, room: Numbers) -> Numbers:
    """Return the log of the Jeffreys mixture, without its weight; the room is inside (0, 1).

    With F and R the sums of the distances from either end, a = F + 1/2, b = R + 1/2, N = F + R,
    and log G(x) = (x - 1/2) log x - x + log(2 pi)/2 + rest(x) the gamma function,

        log B(a, b) - F log(1 - room) - R log(room) = F log(a / ((N + 1) (1 - room))) +
        R log(b / ((N + 1) room)) + log(2 pi / (N + 1))/2 + rest(a) + rest(b) - rest(N + 1).

    Both quotients are nearly 1 where it matters: with d = b - (N + 1) room they are
    1 - d/((N + 1) (1 - room)) and 1 + d/((N + 1) room), and no digit of their logarithms is lost.
    An error of d moves the sum by about d/(N room (1 - room)) times itself.
    """
    whole = sample.pulls + 1.0
    d = (sample.near + 0.5) - whole * room
    of_far = np.log1p(np.maximum(-d / (whole * (1.0 - room)), MOST_BELOW_ONE))
    of_near = np.log1p(np.maximum(d / (whole * room), MOST_BELOW_ONE))
    return sample.start + sample.far * of_far + sample.near * of_near


def jeffreys_start(pulls: Numbers, far: Numbers, near: Numbers) -> Numbers:
    """Return what does not depend on the room in `log_jeffreys`, less log B(1/2, 1/2) = log pi."""
    rests = stirling_rest(far + 0.5) + stirling_rest(near + 0.5) - stirling_rest(pulls + 1.0)
    return rests - 0.5 * np.log(0.5 * math.pi * (pulls + 1.0))


def stirling_rest(x: Numbers) -> Numbers:
    """Return log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2, for x of at least 1/2.

    By Stirling's series; for small x from that of x + 10, as Gamma(x + 10) is Gamma(x) times
    x (x + 1) ... (x + 9).
    """
    small = x < STIRLING
    low = np.minimum(x, STIRLING)
    product = low * (low + 1.0) * (low + 2.0) * (low + 3.0) * (low + 4.0)
    product = product * (low + 5.0) * (low + 6.0) * (low + 7.0) * (low + 8.0) * (low + 9.0)
    shifted = choose(small, x + 10.0, x)
    high = low + 10.0
    back = (high - 0.5) * np.log(high) - (low - 0.5) * np.log(low) - np.log(product) - 10.0
    s = 1.0 / (shifted * shifted)
    series = s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * (691 / 360360 - s / 156))))
    return choose(small, back, 0.0) + (1 / 12 - s * (1 / 360 - series)) / shifted


def log_evidence(sample: Sample, room: Numbers) -> tuple[FloatArray, FloatArray]:
    """Return the evidence that the mean lies on this side of a level, and its slope in the room.

    The log of an e-process where the mean is *at* the level; convex in the level. If the average
    lies on this side of the level it is also evidence against all means beyond it: Corollary 3 (b).
    If not, it is none, as the Jeffreys mixture is two-sided: callers check this, or take the
    smallest over all levels.
    """
    bets, jeffreys = log_bets(sample, room), log_jeffreys(sample, room) + math.log(BETA_SHARE)
    top = np.maximum(highest(bets), jeffreys)
    weights, other = np.exp(bets - top), np.exp(jeffreys - top)
    total = weights.sum(0) + other
    slopes = (weights * bet_slope(sample, room, BETS)).sum(0)
    return np.log(total) + top, (slopes + other * jeffreys_slope(sample, room)) / total


def reaching(sample: Sample, room: Numbers, level: float) -> Numbers:
    """Tell of each arm whether its evidence at a room above `SMALLEST_GAP` reaches a level."""
    safe = np.maximum(room, SMALLEST_GAP)
    bets, jeffreys = log_bets(sample, safe), log_jeffreys(sample, safe) + math.log(BETA_SHARE)
    top = np.maximum(highest(bets), jeffreys)
    wealth = np.exp(bets - top).sum(0) + np.exp(jeffreys - top)
    return (np.log(wealth) + top >= level) & (room > SMALLEST_GAP)


def log_mean_below(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the evidence that arms' means are below a level, and its slope in the level.

    For averages below the level, see `log_evidence`: 90 ones of 100 give 32 nats against a mean of
    0.5. The level is moved away from 1 to `LEAST_LEVEL` of it, and by one rounding, never upwards.
    """
    room = np.maximum(np.nextafter(1.0 - level, 2.0), LEAST_LEVEL)
    value, slope = log_evidence(sample_below(pulls, total, scatter), room)
    return value, -slope


def log_mean_above(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the evidence that arms' means are above a level, and its slope in the level.

    For averages above the level, see `log_evidence`. The level is moved away from 0 to
    `LEAST_LEVEL`.
    """
    return log_evidence(sample_above(pulls, total, scatter), np.maximum(level, LEAST_LEVEL))


@elementwise
def mean_interval(
    pulls: Numbers, total: Numbers, scatter: Numbers, alpha: float
) -> tuple[Numbers, Numbers]:
    """Return time-uniform intervals that each contain their arm's mean with probability 1 - alpha.

    The levels against which neither side's evidence reaches 2/alpha, found by bisection from
    outside, so never too narrow; [0, 1] for an arm without pulls.
    """
    safe, level = np.maximum(pulls, 1.0), math.log(2.0 / alpha)
    above = excluded_room(sample_above(safe, total, scatter), level)
    below = excluded_room(sample_below(safe, total, scatter), level)
    return between_rooms(pulls, above, below)


def surely_below(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, level: float, alpha: float
) -> BoolArray:
    """Tell of each arm whether its `mean_interval` lies below a level, without finding its ends.

    It does if the evidence against the level reaches 2/alpha. Means are in [0, 1].
    """
    if level > 1.0 or level <= LEAST_LEVEL:
        return np.full(pulls.size, level > 1.0)
    room = max(np.nextafter(1.0 - level, 2.0), LEAST_LEVEL)
    return all_reaching(-1.0, pulls, total, scatter, room, math.log(2.0 / alpha))


def surely_above(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, level: float, alpha: float
) -> BoolArray:
    """Tell of each arm whether its `mean_interval` lies at or above a level."""
    if level <= 0.0 or level >= 1.0:
        return np.full(pulls.size, level <= 0.0)
    room = max(level, LEAST_LEVEL)
    return all_reaching(1.0, pulls, total, scatter, room, math.log(2.0 / alpha))


def all_reaching(
    sign: float,
    pulls: FloatArray,
    total: FloatArray,
    scatter: FloatArray,
    room: float,
    level: float,
) -> BoolArray:
    """Tell whether the evidence at a room reaches a level; arms for which it cannot are skipped."""
    found = np.zeros(pulls.size, dtype=np.bool_)
    mean = total / np.maximum(pulls, 1.0)
    some = may_reach(pulls, mean if sign > 0.0 else 1.0 - mean, scatter, room, level)
    for first in range(0, some.size, PART):
        part = some[first : first + PART]
        sample = sample_on_side(sign, pulls[part], total[part], scatter[part])
        found[part] = reaching(sample, np.full(part.size, room), level)
    return found


def may_reach(
    pulls: FloatArray, gap: FloatArray, scatter: FloatArray, room: float, level: float
) -> IntArray:
    """Return all arms whose evidence at a room may reach a level.

    A bet on the two-point sample of `Sample`, a share z at the end and the others at the distance
    r, gains at most N kl(z, 1 - room/r), at the best of all bets; so does the Jeffreys mixture, for
    which z is as large as a sample with this mean allows. And that is at most N log(gap/room).
    """
    if pulls.size == 0 or pulls.max() * -math.log(room) < level - SCREENED:
        return np.arange(0)
    some = np.flatnonzero((gap > room) & (pulls > 0.0))
    some = some[pulls[some] * np.log(gap[some] / room) >= level - SCREENED]
    g = gap[some]
    variance = scatter[some] / pulls[some]
    at_end = variance / (variance + g * g)
    others, reach = 1.0 - at_end, np.minimum(g + variance / g, 1.0)
    ends = np.maximum(1.0 - room / reach, MOST_BELOW_ONE + 1.0)
    best = at_end * np.log(np.maximum(at_end, SMALLEST_GAP) / ends)
    best += others * np.log(np.maximum(others, SMALLEST_GAP) * reach / room)
    return some[pulls[some] * best >= level * (1.0 - SCREENED) - SCREENED]


def wide_mean_interval(
    pulls: FloatArray, total: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return intervals that contain those of `mean_interval`, much faster.

    From the Jeffreys mixture alone, at its weight in `log_evidence`: as the mixture is at least
    that part, whatever these intervals miss, those miss too, so they cost no delta of their own.
    """
    safe, level, none = np.where(pulls > 0, pulls, 1.0), math.log(2.0 / alpha), np.zeros(pulls.size)
    above = widely_excluded_room(sample_above(safe, total, none), level)
    below = widely_excluded_room(sample_below(safe, total, none), level)
    return between_rooms(pulls, above, below)


def between_rooms(pulls: Numbers, above: Numbers, below: Numbers) -> tuple[Numbers, Numbers]:
    """Return intervals from the rooms beyond which there is enough evidence, on either side.

    Small distances from 0 keep their digits; 1 - room is rounded upwards.
    """
    high = np.minimum(np.nextafter(1.0 - below, 2.0), 1.0)
    return choose(pulls > 0, above, 0.0), choose(pulls > 0, high, 1.0)


def excluded_room(sample: Sample, level: float) -> Numbers:
    """Return the largest room found whose evidence reaches a level; 0 where there is none.

    The evidence grows as the room falls from the gap to 0: bisection, from `first_room` on.
    """
    inside = np.maximum(sample.gap, 0.0)
    outside, middle = inside - inside, first_room(sample)
    for _ in range(BISECTIONS):
        beyond = reaching(sample, middle, level)
        inside, outside = choose(beyond, inside, middle), choose(beyond, middle, outside)
        middle = 0.5 * (inside + outside)
    return outside


def first_room(sample: Sample) -> Numbers:
    """Return where the end of an interval is sought first: half-way, nearer after many pulls.

    Radii go with the pulls to the power -1/2; halvings of the whole gap would not keep up with
    that.
    """
    near = 0.5 * np.sqrt(FEW_PULLS / np.maximum(sample.pulls, FEW_PULLS))
    return np.maximum(sample.gap, 0.0) * (1.0 - near)


def widely_excluded_room(sample: Sample, level: float) -> FloatArray:
    """Return at most `excluded_room`, from the Jeffreys mixture alone."""
    inside, middle = np.maximum(sample.gap, 0.0), first_room(sample)
    outside, least = np.zeros(sample.gap.size), level - math.log(BETA_SHARE)
    for _ in range(10):
        jeffreys = log_jeffreys(sample, np.maximum(middle, SMALLEST_GAP))
        beyond = (jeffreys >= least) & (middle > SMALLEST_GAP)
        inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
        middle = 0.5 * (inside + outside)
    return outside


def degenerate_bound(n: int, pulls_odd: float, pulls_even: float, alpha: float) -> float:
    """Return D with P(|<P e_A, e_B>| > D) <= 2 alpha, for independent errors of two halves.

    e_A and e_B are the errors of n arms' means over `pulls_odd` and `pulls_even` pulls each, in [0,
    1], and P takes out the average: docs/explanation/proofs.md, section 10. Chernoff's bound with
    any x in (0, 1) is valid; a fixed grid is searched.
    """
    kappa = 0.25 / math.sqrt(pulls_odd * pulls_even)
    x = np.linspace(0.005, 0.995, 199)
    exponent = math.log(1.0 / alpha) - 0.5 * (n - 1) * np.log1p(-x * x)
    return float(np.min(kappa * exponent / x))
