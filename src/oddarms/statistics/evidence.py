"""Time-uniform evidence: e-processes and the bounds they give, vectorised over arms.

An *e-process* is a non-negative process that starts at 1 and lies below a supermartingale under
the hypothesis it speaks against. Ville's inequality then bounds the probability that it *ever*
reaches 1/alpha by alpha: at any stopping time, and whichever arm is pulled next, as long as that
is decided by the past. Every function returns the logarithm of an e-process, or a bound that
inverts one. Counts are floats; all is stable for 10^9 pulls and for means at 0 and 1.

References: Robbins (1970); Howard, Ramdas, McAuliffe and Sekhon (Annals of Statistics 2021);
Fan, Grama and Liu (Electronic Journal of Probability 2015); Waudby-Smith and Ramdas (JRSS B 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, log_ndtr

from oddarms.problem import BoolArray, FloatArray
from oddarms.statistics.totals import relative_error

SMALLEST_GAP = 1e-150  # its square is still a number
SMALL_BET = 1e-3
BETS: FloatArray = np.array([*(0.01 * 1.6 ** np.arange(10)), 0.82, 0.93])
"""Fractions of the largest admissible bet; fixed, so no run can tune them."""
LOG_LOSSES: FloatArray = np.log1p(-BETS)


def log_mix(logs: FloatArray, slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the log of the summed exponentials over the last axis, and its derivative.

    A weighted average of e-processes is one; the weights are part of `logs`. Log-sum-exp keeps
    convexity: where every term is convex in a parameter, so is the result.
    """
    top = logs.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(logs - top)
    total = weights.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(total) + top[..., 0], (weights * slopes).sum(-1) / total


def log_normal_mixture(total: Any, variance: Any, rho: Any) -> Any:
    """Return the one-sided normal mixture of exp(l S - l^2 V / 2) over l ~ |N(0, 1/rho)|.

    An e-process if exp(l S - l^2 V / 2) lies below a supermartingale for every l >= 0, that is,
    for sums S whose upper tail is sub-Gaussian with variance process V, such as sums of rewards
    in [0, 1] minus their means with 1/4 a pull (Hoeffding). `rho` is fixed before the data.
    With x = S / sqrt(V + rho): 2 sqrt(rho / (V + rho)) exp(x^2 / 2) Phi(x).
    """
    full = variance + rho
    x = total / np.sqrt(full)
    return math.log(2.0) + 0.5 * np.log(rho / full) + 0.5 * x * x + log_ndtr(x)


def normal_mixture_slope(total: Any, variance: Any, rho: Any) -> Any:
    """Return the derivative of `log_normal_mixture` in S: the posterior mean of l."""
    full = variance + rho
    x = total / np.sqrt(full)
    mills = np.exp(-0.5 * x * x - 0.5 * math.log(2.0 * math.pi) - log_ndtr(x))
    return (x + mills) / np.sqrt(full)


def normal_mixture_boundary(variance: Any, alpha: float, rho: float) -> Any:
    """Return u(V) such that S ever exceeds u(V) with probability at most alpha.

    u(V) = sqrt(2 (V + rho) log(sqrt((V + rho) / rho) / (2 alpha) + 1)), the closed-form bound of
    Howard et al. (2021, eq. 2.7) on the inverse of `log_normal_mixture`. Increasing in V.
    """
    full = variance + rho
    return np.sqrt(2.0 * full * np.log(np.sqrt(full / rho) / (2.0 * alpha) + 1.0))


def psi_exponential(x: FloatArray) -> FloatArray:
    """Return at least psi(x) = -log(1 - x) - x, infinite from x = 0.999 on.

    Fan et al. (2015): exp(l xi - psi(l) xi^2) <= 1 + l xi for xi >= -1 and 0 <= l < 1. So for an
    independent X with |X - h| <= 1, h chosen before, exp(l (X - E X) - psi(l) (X - h)^2) has
    expectation at most 1: the cost of a bet is what was *seen*, not the worst case 1/4.
    The difference cancels for small x; there x^2 (1/2 + x/3 + x^2/2) is above the series
    x^2/2 + x^3/3 + x^4/4 + ...
    """
    safe = np.minimum(x, 0.999)
    small = x * x * (0.5 + x / 3.0 + 0.5 * x * x)
    psi = np.where(x < SMALL_BET, small, -np.log1p(-safe) - safe)
    return np.where(x < 0.999, psi, np.inf)


def log_beta_mixture(pulls: Any, total: Any, level: Any) -> Any:
    """Return the Jeffreys-mixture log e-process against "the mean is `level`".

    log B(S + 1/2, N - S + 1/2) - log B(1/2, 1/2) - S log q - (N - S) log(1 - q).
    For a 0/1 reward, a mixture of likelihood ratios. For any reward in [0, 1]: the bet
    (p/q)^x ((1-p)/(1-q))^(1-x) is convex in x, so it lies below its chord, whose expectation
    is 1 at mean q. Two-sided, and convex in q. A rounded sum does little harm: off by e, it
    changes the result by about e (logit(S/N) - logit(q)), so by e sqrt(2 L N / (S (N - S))) near
    the truth at evidence L: a few thousandths for 10^6 pulls added in the worst of ways.
    """
    failures = pulls - total
    with np.errstate(divide="ignore", invalid="ignore"):
        successes_term = np.where(total > 0, total * np.log(level), 0.0)
        failures_term = np.where(failures > 0, failures * np.log1p(-np.asarray(level)), 0.0)
    prior = math.log(math.pi)  # B(1/2, 1/2) = pi
    return betaln(total + 0.5, failures + 0.5) - prior - successes_term - failures_term


def beta_mixture_slope(pulls: Any, total: Any, level: Any) -> Any:
    """Return the derivative of `log_beta_mixture` in the level."""
    return (pulls - total) / (1.0 - level) - total / level


def log_bets_below(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a log e-process against "the mean is at least `level`", and its slope in the level.

    The wealth of a gambler who bets the fraction l of what may be lost,
    prod_s (1 + l (q - X_s) / (1 - q)), 0 <= l < 1, is a supermartingale where the mean is >= q
    and X <= 1. Only N, the sum and the squared deviations from the mean are known, so the smallest
    wealth that they allow is returned: with xi = (q - X)/(1 - q) >= -1, the function log(1 + l xi)
    has a positive third derivative, so the quadratic that meets it at xi = -1 and touches it at
    xi_0 lies below it for all xi >= -1; summed, the minimum is the two-point sample on X = 1 and
    one other value with the given moments. Exact for 0/1 rewards, and adaptive: a small variance
    pays. Averaged over the fixed fractions `BETS`. Convex and increasing in the level.
    """
    bets = _Bets.of(pulls, _gap_to_one(pulls, total), scatter)
    return log_mix(bets.logs(1.0 - level), -bets.slopes(1.0 - level))


def _gap_to_one(pulls: FloatArray, total: FloatArray) -> FloatArray:
    """Return at most 1 - mean, given that the sum may have been rounded."""
    return 1.0 - total / pulls * (1.0 + relative_error(pulls))


def _gap_to_zero(pulls: FloatArray, total: FloatArray) -> FloatArray:
    """Return at most the mean, given that the sum may have been rounded."""
    return total / pulls * (1.0 - relative_error(pulls))


class _Bets(NamedTuple):
    """The two-point samples against which bets were made, along a last axis of length 1.

    Told by distances from the end of [0, 1] at which most is lost, so that they keep their digits
    near that end: a share `at_end` of the rewards lies there and the others at `reach`. A level
    is given by its distance `room` from that end.

    With v the variance, the shares are as v to gap^2 and reach = gap + v/gap, at most 1. The wealth
    falls as v grows and as gap shrinks, so it is not overstated where v is at least and gap at most
    the true one. For with r = v/gap^2, t = gap/room, A = log(1 - l), L = log(1 - l + l t (1 + r)),
    a pull is worth W = (r A + L)/(1 + r). W rises with t, and dW/dr has the sign of
    w/(1 + w) - log(1 + w) <= 0, w = l t (1 + r)/(1 - l). At fixed v, t grows and r falls with gap.
    Where reach is cut at 1, W is an average of A and a larger number, with weights v and gap^2.
    Without a gap all rewards are taken to be at the end.
    """

    pulls: FloatArray
    at_end: FloatArray
    others: FloatArray
    reach: FloatArray

    @classmethod
    def of(cls, pulls: FloatArray, gap: FloatArray, scatter: FloatArray) -> _Bets:
        """Return the samples for means at the distance `gap` and sums of squared deviations."""
        variance, known = scatter / pulls, gap > SMALLEST_GAP
        gap = np.where(known, gap, 1.0)
        both = variance + gap * gap
        at_end = np.where(known, variance / both, 1.0)
        others = np.where(known, gap * gap / both, 0.0)
        reach = np.minimum(gap + variance / gap, 1.0)
        return cls(*(np.asarray(v)[..., None] for v in (pulls, at_end, others, reach)))

    def logs(self, room: FloatArray) -> FloatArray:
        """Return the log wealth of each of the `BETS`, with its weight in their average."""
        rise = BETS * (self.reach / room[..., None] - 1.0)
        worth = self.at_end * LOG_LOSSES + self.others * np.log1p(rise)
        return self.pulls * worth - math.log(BETS.size)

    def slopes(self, room: FloatArray) -> FloatArray:
        """Return the derivatives of `logs` in the room."""
        room = room[..., None]
        left = (1.0 - BETS) * room + BETS * self.reach
        return -self.pulls * self.others * BETS * self.reach / (room * left)


def log_mean_below(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the evidence that an arm's mean is below a level, and its slope in the level.

    An even mixture of `log_beta_mixture`, best for 0/1 rewards, and `log_bets_below`, best for
    rewards of small variance. An e-process at level = mean; convex in the level. `scatter` is at
    least the sum of the squared deviations from the mean.
    """
    bets, room = _Bets.of(pulls, _gap_to_one(pulls, total), scatter), 1.0 - level
    return _with_beta_mixture(bets.logs(room), -bets.slopes(room), pulls, total, level)


def log_mean_above(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the evidence that an arm's mean is above a level: `log_mean_below` of 1 - X.

    Nothing is mirrored to find it: the bets are told by distances from 0, which keep their digits
    where rewards are tiny against their bounds.
    """
    bets = _Bets.of(pulls, _gap_to_zero(pulls, total), scatter)
    return _with_beta_mixture(bets.logs(level), bets.slopes(level), pulls, total, level)


def _with_beta_mixture(
    logs: FloatArray, slopes: FloatArray, pulls: FloatArray, total: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    beta = log_beta_mixture(pulls, total, level)[..., None]
    beta_slope = beta_mixture_slope(pulls, total, level)[..., None]
    return log_mix(
        np.concatenate([logs, beta], -1) - math.log(2.0), np.concatenate([slopes, beta_slope], -1)
    )


def mean_interval(
    pulls: FloatArray, total: FloatArray, scatter: FloatArray, alpha: float, steps: int = 12
) -> tuple[FloatArray, FloatArray]:
    """Return time-uniform intervals that each contain their arm's mean with probability 1 - alpha.

    The levels against which neither side's evidence reaches 2/alpha, found by bisection from
    outside, so never too narrow; [0, 1] for an arm without pulls. Either end is sought as a
    distance from the end of [0, 1] beyond it, see `_outermost`.
    """
    safe = np.where(pulls > 0, pulls, 1.0)
    gap = np.concatenate([_gap_to_one(safe, total), _gap_to_zero(safe, total)])
    fixed, far, near = _both_sides(safe, total)
    bets = _Bets.of(np.concatenate([safe, safe]), gap, np.concatenate([scatter, scatter]))
    target = math.log(2.0 / alpha)

    def enough(room: FloatArray) -> BoolArray:
        logs = bets.logs(room)
        beta = fixed - far * np.log1p(-room) - near * np.log(room)
        top = np.maximum(logs.max(-1), beta)
        wealth = np.exp(logs - top[:, None]).sum(-1) + np.exp(beta - top)
        decided: BoolArray = np.log(wealth) + top - math.log(2.0) >= target
        return decided

    return _outermost(pulls, gap, enough, steps)


def wide_mean_interval(
    pulls: FloatArray, total: FloatArray, alpha: float, steps: int = 10
) -> tuple[FloatArray, FloatArray]:
    """Return intervals that contain those of `mean_interval`, much faster.

    From the beta mixture alone, at half its weight in `log_mean_below`: as the mixture is at
    least that half, whatever these intervals miss, those miss too, so they cost no delta of
    their own. Only the parts that depend on the level are computed anew.
    """
    safe = np.where(pulls > 0, pulls, 1.0)
    gap = np.concatenate([_gap_to_one(safe, total), _gap_to_zero(safe, total)])
    fixed, far, near = _both_sides(safe, total)
    least = fixed - math.log(2.0) - math.log(2.0 / alpha)

    def enough(room: FloatArray) -> BoolArray:
        decided: BoolArray = least >= far * np.log1p(-room) + near * np.log(room)
        return decided

    return _outermost(pulls, gap, enough, steps)


def _both_sides(pulls: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the fixed part of `log_beta_mixture` and the sums of distances, for both sides.

    Of the distances from the far and from the near end: 1 is near for the first half, which
    speaks of means below a level, and 0 for the second.
    """
    failures = pulls - total
    fixed = betaln(total + 0.5, failures + 0.5) - math.log(math.pi)
    return (
        np.concatenate([fixed, fixed]),
        np.concatenate([total, failures]),
        np.concatenate([failures, total]),
    )


def _outermost(
    pulls: FloatArray, gap: FloatArray, enough: Callable[[FloatArray], BoolArray], steps: int
) -> tuple[FloatArray, FloatArray]:
    """Return the ends up to which there is not enough evidence, for upper ends and lower ones.

    `gap` and the rooms that `enough` is asked about are distances from 1 for the first half, from
    0 for the second. The evidence grows as the room falls from the gap to 0, so the smallest room
    without enough lies above the last one with: that one is returned, and 0 where there is none.
    Small distances from 0 keep their digits; 1 - room is rounded upwards.
    """
    n = pulls.size
    inside, outside = np.maximum(gap, 0.0), np.zeros(2 * n)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(steps):
            middle = 0.5 * (inside + outside)
            beyond = enough(middle) & (middle > SMALLEST_GAP)
            inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
    high = np.minimum(np.nextafter(1.0 - outside[:n], 2.0), 1.0)
    return np.where(pulls > 0, outside[n:], 0.0), np.where(pulls > 0, high, 1.0)


def degenerate_bound(n: int, pulls_odd: float, pulls_even: float, alpha: float) -> float:
    """Return D with P(|<P e_A, e_B>| > D) <= 2 alpha, for independent errors of two halves.

    e_A and e_B are the errors of n arms' means over `pulls_odd` and `pulls_even` pulls each, in
    [0, 1], and P takes out the average. Given e_A, the product is sub-Gaussian with variance
    |P e_A|^2 / (4 m_B); replacing e_A by its Gaussian dominant (E exp(s |P e_A|^2) is at most that
    of N(0, P / (4 m_A))), E exp(l <P e_A, e_B>) <= (1 - l^2 kappa^2)^(-(n-1)/2) with
    kappa = 1/(4 sqrt(m_A m_B)). Chernoff: D = min_x kappa (log(1/alpha) - (n-1)/2 log(1-x^2))/x.
    Any x in (0, 1) is valid; a fixed grid is searched.
    """
    kappa = 0.25 / math.sqrt(pulls_odd * pulls_even)
    x = np.linspace(0.005, 0.995, 199)
    exponent = math.log(1.0 / alpha) - 0.5 * (n - 1) * np.log1p(-x * x)
    return float(np.min(kappa * exponent / x))
