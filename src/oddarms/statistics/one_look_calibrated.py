"""One look at recorded rewards by a z-test made careful; nothing here is proven.

Each arm is tested against the others. y_i >= mu + k sigma if and only if
y_i >= mu_-i + k~ sigma_-i, with mu_-i and sigma_-i of the n - 1 other means and
k~ = `leave_one_out_k`: so the arm and its threshold are independent. The spread of the others is
estimated without bias, its error is integrated over and not expanded, and the arm's own variance
is the one that it would have at the threshold: an arm without a single event has none of its own.

Of each arm, N, S and Q are the number, the sum and the sum of squares of its rewards, m = S/N,
s^2 the unbiased variance, h = n - 1. ``docs/how-to/analyze.md`` has the errors that were counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray
from oddarms.statistics.calibrated import Bound, Conditions, steepness
from oddarms.statistics.guesses import padded_variance
from oddarms.statistics.totals import Totals

CHUNK = 16_384
"""Arms at a time, so that temporary arrays stay in the processor's cache."""
NODES = 21
"""Of the integral over the error of sigma_-i^2: Gauss and Hermite."""
FEW_NODES = 3
"""For arms whose own error is far larger than that of their threshold."""
SMALL_SHARE = 0.02
PADDING = 2.0
"""Rewards of the pooled variance that are added to each arm's, for the noise of the threshold."""
LEAST_SHARE = 0.05
TINY = 1e-300
NEAR_END = 1e-9


class Others(NamedTuple):
    """Mean and variance of the true means of the arms other than i, for each i.

    With d the averages less their mean, e their variances, all sums over the others and d centred
    on them: Vm = sum e/h^2, Cv = 2 sum e d/h^2, Vs = max(4 sum e d^2 - 2 sum e^2, 2 sum e^2)/h^2.
    """

    mean: FloatArray
    U: FloatArray
    """Without bias; it may be below 0."""
    Vm: FloatArray
    """The variance of `mean`."""
    Cv: FloatArray
    """The covariance of both."""
    Vs: FloatArray
    """The variance of `U`."""


def others_of(totals: Totals) -> Others:
    """Return what is known of all arms but one, for each one."""
    N, S, Q = totals
    h = N.size - 1.0
    m = S / N
    s2 = np.where(N > 1.0, np.maximum(Q - S * m, 0.0) / np.maximum(N - 1.0, 1.0), 0.0)
    pooled = float(((N - 1.0) * s2).sum()) / max(float((N - 1.0).sum()), 1.0)
    e = ((N - 1.0) * s2 + PADDING * pooled) / (N - 1.0 + PADDING) / N
    noise = np.where(N > 1.0, s2, padded_variance(N, S, Q)) / N
    mean = float(m.mean())
    d = m - mean
    d0 = -d / h
    U = _but_one(d * d) / h - d0 * d0 - (1.0 - 1.0 / h) * _but_one(noise) / h
    e0, e1, e2, products = (_but_one(x) for x in (e, e * d, e * d * d, e * e))
    first, second = e1 - d0 * e0, e2 - 2.0 * d0 * e1 + d0 * d0 * e0
    Vs = np.maximum(4.0 * second - 2.0 * products, 2.0 * products) / h**2
    return Others(mean + d0, U, e0 / h**2, 2.0 * first / h**2, np.maximum(Vs, TINY))


def _but_one(values: FloatArray) -> FloatArray:
    found: FloatArray = values.sum() - values
    return found


class Tested(NamedTuple):
    """One-sided p-values of every arm, and the threshold as it seems to be."""

    above: FloatArray
    """Small where the arm is hardly below the threshold."""
    below: FloatArray
    """Small where the arm hardly reaches it."""
    threshold: Bound
    """The ends are about those of a two-sided interval at delta/n."""
    centre: tuple[float, float]


def calibrated_look(totals: Totals, asked: Conditions, delta: float) -> Tested:
    """Return the p-values against max(mu + k sigma, mu + margin, floor), k >= 0.

    An outlier must reach every part of the threshold, so its p-value is the largest; an arm is
    below if it is below one of them.
    """
    n = totals.pulls.size
    others, arm = others_of(totals), _Own.made(totals)
    above, below = np.zeros(n), np.ones(n)
    for first in range(0, n, CHUNK):
        part = slice(first, first + CHUNK)
        for high, low in _tests(arm.of(part), Others(*(x[part] for x in others)), asked, n):
            above[part] = np.maximum(above[part], high)
            below[part] = np.minimum(below[part], low)
    return Tested(above, below, *_threshold(totals, asked, delta))


def _tests(
    arm: _Own, others: Others, asked: Conditions, n: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield both tails of some of n arms against each part of the threshold that can bind."""
    against_sigma, against_margin, against_floor = asked.binds(n)
    if against_sigma:
        yield _against_sigma(arm, others, steepness(n, asked.k))
    if against_margin:
        yield arm.tails(others.mean + asked.margin * n / (n - 1.0), others.Vm)
    if against_floor:
        yield arm.tails(np.full(arm.means.size, asked.floor), np.zeros(arm.means.size))


class _Own(NamedTuple):
    """The rewards of every arm, for tests of its mean against a value."""

    counts: FloatArray
    means: FloatArray
    padded: FloatArray
    """The variance of a reward, with one reward of 0 and one of 1 added."""
    centre: FloatArray
    """The mean with these."""

    @classmethod
    def made(cls, totals: Totals) -> _Own:
        N, S, Q = totals
        return cls(N, S / N, padded_variance(N, S, Q), (S + 1.0) / (N + 2.0))

    def of(self, arms: slice | BoolArray) -> _Own:
        """Return some arms."""
        return _Own(*(part[arms] for part in self))

    def variance_at(self, theta: FloatArray) -> FloatArray:
        """Return the variance of a reward, were its mean theta.

        The rewards are mixed with as much of the end of [0, 1] that lies beyond theta as moves
        their mean there: p = |theta - m|/far and (1 - p) (s^2 + p far^2), which for 0/1 rewards
        is theta (1 - theta).
        """
        m = self.centre
        far = np.where(theta > m, 1.0 - m, m)
        p = np.minimum(np.abs(theta - m) / far, 1.0)
        found: FloatArray = (1.0 - p) * (self.padded + p * far * far)
        return found

    def tails(self, theta: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return P(mean >= m) and P(mean <= m) at theta, by a binomial law of the same variance.

        `noise` is the variance of theta. Only the tail on the arm's side is found, the other is 1.
        """
        from scipy.special import betainc, betaincc

        level = np.clip(theta, NEAR_END, 1.0 - NEAR_END)
        size = level * (1.0 - level) / (self.variance_at(level) / self.counts + noise + TINY)
        events = size * self.means
        high, low = np.ones(theta.size), np.ones(theta.size)
        up = (self.means > level) & (events > 0.0)
        high[up] = betainc(events[up], (size - events)[up] + 1.0, level[up])
        down = (self.means < level) & (size > events)
        low[down] = betaincc(events[down] + 1.0, (size - events)[down], level[down])
        return high, low


def _against_sigma(arm: _Own, others: Others, others_k: float) -> tuple[FloatArray, FloatArray]:
    """Return both tails against mu_-i + k~ sigma_-i, averaged over the error of sigma_-i^2.

    At a node x, the mean of the others goes along by the regression Cv/Vs, and sigma_-i is
    expanded about sqrt(max(U, sqrt(Vs))): after few rewards U may well be below 0.
    """
    own = arm.padded / arm.counts
    sd = np.sqrt(others.Vs)
    root = np.sqrt(np.maximum(others.U, sd))
    slope = others.Cv / sd + others_k * sd / (2.0 * root)
    quiet = slope * slope <= SMALL_SHARE * own
    high, low = np.ones(own.size), np.ones(own.size)
    for some, number in ((quiet, FEW_NODES), (~quiet, NODES)):
        if some.any():
            few = Others(*(part[some] for part in others))
            high[some], low[some] = _averaged(arm.of(some), few, root[some], others_k, number)
    return high, low


def _averaged(
    arm: _Own, others: Others, root: FloatArray, others_k: float, number: int
) -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(number)
    weights = weights / weights.sum()
    sd = np.sqrt(others.Vs)
    left = np.maximum(others.Vm - others.Cv**2 / others.Vs, LEAST_SHARE * others.Vm)
    high, low = np.zeros(root.size), np.zeros(root.size)
    for x, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        spread = np.maximum(root + x * sd / (2.0 * root), 0.0)
        theta = others.mean + others.Cv / sd * x + others_k * spread
        up, down = arm.tails(theta, left)
        high += weight * up
        low += weight * down
    return high, low


def _threshold(
    totals: Totals, asked: Conditions, delta: float
) -> tuple[Bound, tuple[float, float]]:
    """Return the threshold of all arms and about an interval of it at delta/n, and one of mu."""
    from scipy.special import ndtri

    N, S, Q = totals
    n, m, noise = N.size, S / N, padded_variance(N, S, Q) / N
    mean, sigma2 = _mean_and_variance(totals)
    d = m - mean
    squares = float((noise * noise).sum())
    error = math.sqrt(max(4.0 * float((noise * d * d).sum()), 2.0 * squares)) / n
    reach = -float(ndtri(0.5 * delta / n))
    off = reach * math.sqrt(float(noise.sum())) / n
    low, estimate, high = (
        _raised(mean + sign * off, sigma2 + sign * reach * error, asked)
        for sign in (-1.0, 0.0, 1.0)
    )
    return Bound(estimate, low, high), (mean - off, mean + off)


def estimated_threshold(totals: Totals, asked: Conditions) -> float:
    """Return about max(mu + k sigma, mu + margin, floor); the noise of averages is taken off."""
    return _raised(*_mean_and_variance(totals), asked)


def _mean_and_variance(totals: Totals) -> tuple[float, float]:
    """Return the mean of all means, and about the variance of the true ones."""
    N, S, Q = totals
    m = S / N
    s2 = np.maximum(Q - S * m, 0.0) / np.maximum(N - 1.0, 1.0)
    noise = np.where(N > 1.0, s2, padded_variance(N, S, Q)) / N
    return float(m.mean()), float(m.var()) - (1.0 - 1.0 / N.size) * float(noise.mean())


def _raised(mean: float, variance: float, asked: Conditions) -> float:
    sigma = mean + asked.k * math.sqrt(max(variance, 0.0))
    margin = mean + asked.margin if asked.margin > 0.0 else -math.inf
    return max(sigma, margin, asked.floor)


def decided(p: FloatArray, delta: float, *, fdr: bool) -> BoolArray:
    """Return the arms that are named at delta: Bonferroni, or Benjamini and Hochberg."""
    n = p.size
    if not fdr:
        return p <= delta / n
    ordered = np.sort(p)
    enough = np.flatnonzero(ordered <= delta * np.arange(1.0, n + 1.0) / n)
    return p <= (ordered[enough[-1]] if enough.size else -1.0)
