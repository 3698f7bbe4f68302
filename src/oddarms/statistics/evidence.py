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
from typing import Any

import numpy as np
from scipy.special import betaln, log_ndtr

from oddarms.problem import FloatArray

SMALLEST_LEVEL = 1e-12
BETS: FloatArray = np.array([*(0.01 * 1.6 ** np.arange(10)), 0.82, 0.93])
"""Fractions of the largest admissible bet; fixed, so no run can tune them."""

Evidence = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


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
    """Return psi(x) = -log(1 - x) - x, infinite from x = 0.999 on.

    Fan et al. (2015): exp(l xi - psi(l) xi^2) <= 1 + l xi for xi >= -1 and 0 <= l < 1. So for an
    independent X with |X - h| <= 1, h chosen before, exp(l (X - E X) - psi(l) (X - h)^2) has
    expectation at most 1: the cost of a bet is what was *seen*, not the worst case 1/4.
    """
    safe = np.minimum(x, 0.999)
    return np.where(x < 0.999, -np.log1p(-safe) - safe, np.inf)


def log_beta_mixture(pulls: Any, total: Any, level: Any) -> Any:
    """Return the Jeffreys-mixture log e-process against "the mean is `level`".

    log B(S + 1/2, N - S + 1/2) - log B(1/2, 1/2) - S log q - (N - S) log(1 - q).
    For a 0/1 reward, a mixture of likelihood ratios. For any reward in [0, 1]: the bet
    (p/q)^x ((1-p)/(1-q))^(1-x) is convex in x, so it lies below its chord, whose expectation
    is 1 at mean q. Two-sided, and convex in q.
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
    pulls: FloatArray, total: FloatArray, squares: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a log e-process against "the mean is at least `level`", and its slope in the level.

    The wealth of a gambler who bets the fraction l of what may be lost,
    prod_s (1 + l (q - X_s) / (1 - q)), 0 <= l < 1, is a supermartingale where the mean is >= q
    and X <= 1. Only N, the sum and the sum of squares are known, so the smallest wealth that they
    allow is returned: with xi = (q - X)/(1 - q) >= -1, the function log(1 + l xi) has a positive
    third derivative, so the quadratic that meets it at xi = -1 and touches it at xi_0 lies below
    it for all xi >= -1; summed, the minimum is the two-point sample on X = 1 and one other value
    with the given moments. Exact for 0/1 rewards, and adaptive: a small variance pays.
    Averaged over the fixed fractions `BETS`. Convex and increasing in the level.
    """
    share, low = _two_points(pulls, total, squares)
    share, low, level, pulls = (np.asarray(v)[..., None] for v in (share, low, level, pulls))
    rest = (1.0 - BETS) * (1.0 - level) + BETS * (1.0 - low)
    at_one = share * np.log1p(-BETS)
    elsewhere = (1.0 - share) * (np.log(rest) - np.log1p(-level))
    logs = pulls * (at_one + elsewhere) - math.log(BETS.size)
    slopes = pulls * (1.0 - share) * (1.0 / (1.0 - level) - (1.0 - BETS) / rest)
    return log_mix(logs, slopes)


def _two_points(
    pulls: FloatArray, total: FloatArray, squares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the share of ones and the other value of the two-point sample with these moments."""
    mean = total / pulls
    variance = np.maximum(squares / pulls - mean * mean, 0.0)
    gap = np.maximum(1.0 - mean, SMALLEST_LEVEL)
    share = variance / (variance + gap * gap)
    return share, np.maximum(mean - variance / gap, 0.0)


def log_mean_below(
    pulls: FloatArray, total: FloatArray, squares: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the evidence that an arm's mean is below a level, and its slope in the level.

    An even mixture of `log_beta_mixture`, best for 0/1 rewards, and `log_bets_below`, best for
    rewards of small variance. An e-process at level = mean; convex in the level.
    """
    bets, bets_slope = log_bets_below(pulls, total, squares, level)
    beta = log_beta_mixture(pulls, total, level)
    beta_slope = beta_mixture_slope(pulls, total, level)
    return log_mix(
        np.stack([bets, beta], -1) - math.log(2.0), np.stack([bets_slope, beta_slope], -1)
    )


def log_mean_above(
    pulls: FloatArray, total: FloatArray, squares: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the evidence that an arm's mean is above a level: `log_mean_below` of 1 - X."""
    mirrored = pulls - 2.0 * total + squares
    value, slope = log_mean_below(pulls, pulls - total, mirrored, 1.0 - level)
    return value, -slope


def mean_interval(
    pulls: FloatArray, total: FloatArray, squares: FloatArray, alpha: float, steps: int = 12
) -> tuple[FloatArray, FloatArray]:
    """Return time-uniform intervals that each contain their arm's mean with probability 1 - alpha.

    The levels against which neither side's evidence reaches 2/alpha, found by bisection from
    outside, so never too narrow; [0, 1] for an arm without pulls.
    """
    n = pulls.size
    safe = np.where(pulls > 0, pulls, 1.0)
    target = math.log(2.0 / alpha)
    both = (
        np.concatenate([safe, safe]),
        np.concatenate([total, safe - total]),  # the lower end is the upper one of 1 - X
        np.concatenate([squares, safe - 2.0 * total + squares]),
    )
    inside = np.clip(both[1] / both[0], SMALLEST_LEVEL, 1.0 - SMALLEST_LEVEL)
    outside = np.ones(2 * n)
    for _ in range(steps):
        middle = np.minimum(0.5 * (inside + outside), 1.0 - SMALLEST_LEVEL)
        kept = log_mean_below(*both, middle)[0] < target
        inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
    high = np.where(pulls > 0, outside[:n], 1.0)
    low = np.where(pulls > 0, 1.0 - outside[n:], 0.0)
    return low, high


def wide_mean_interval(
    pulls: FloatArray, total: FloatArray, alpha: float, steps: int = 10
) -> tuple[FloatArray, FloatArray]:
    """Return intervals that contain those of `mean_interval`, much faster.

    From the beta mixture alone, at half its weight in `log_mean_below`: as the mixture is at
    least that half, whatever these intervals miss, those miss too, so they cost no delta of
    their own. Only the parts that depend on the level are computed anew.
    """
    safe, n = np.where(pulls > 0, pulls, 1.0), pulls.size
    failures = safe - total
    fixed = betaln(total + 0.5, failures + 0.5) - math.log(2.0 * math.pi) - math.log(2.0 / alpha)
    room = np.concatenate([fixed, fixed])
    ones, zeros = np.concatenate([total, failures]), np.concatenate([failures, total])
    inside = np.clip(ones / (ones + zeros), SMALLEST_LEVEL, 1.0 - SMALLEST_LEVEL)
    outside = np.ones(2 * n)
    for _ in range(steps):
        middle = np.minimum(0.5 * (inside + outside), 1.0 - SMALLEST_LEVEL)
        kept = room < ones * np.log(middle) + zeros * np.log1p(-middle)
        inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
    high = np.where(pulls > 0, outside[:n], 1.0)
    return np.where(pulls > 0, 1.0 - outside[n:], 0.0), high


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
