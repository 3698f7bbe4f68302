"""Forecasts from the pulls so far, and the direction in which the threshold moves with the means.

For k >= 0 the threshold theta(y) = mu + k sigma is the largest of the linear functions <c(v), y>
with c(v)_j = 1/n + k v_j / sqrt(n), over unit vectors v orthogonal to (1, ..., 1):
<c(v), y> = mu + k <v, y>/sqrt(n) <= mu + k |P y| / sqrt(n) by Cauchy-Schwarz, with equality at
v* = P y / |P y|. And |c(v)|^2 = (1 + k^2)/n whatever v is. So

- any direction chosen *before* the data bounds the threshold from below by a linear function, and
- the plug-in estimate bounds it from above: theta(y_hat) >= <c(v*), y_hat>
  = theta(y) + <c(v*), y_hat - y>, an error along one fixed, if unknown, direction.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.totals import Totals, relative_error

SMALLEST_SD = 1e-6  # of forecasts; below it no direction is told from noise


class Tally(NamedTuple):
    """All pulls of each arm: their number, sum, and squared deviations from their mean.

    The scatter is at least what the rewards have (`scatter_of`). It is carried in place of the
    sum of squares because it stays the same in a mirror, where squares would cancel.
    """

    pulls: FloatArray
    total: FloatArray
    scatter: FloatArray

    @classmethod
    def seen(cls, totals: Totals, *, mirrored: bool = False) -> Tally:
        """Return the tally of the rewards X, or of 1 - X."""
        total = totals.pulls - totals.total if mirrored else totals.total
        return cls(totals.pulls, total, totals.scatter)

    def of(self, arms: IntArray) -> Tally:
        """Return the tally of some arms."""
        return Tally(self.pulls[arms], self.total[arms], self.scatter[arms])

    def scatter_around(self, centre: FloatArray | float) -> FloatArray:
        """Return at least sum_s (X_sj - h_j)^2 of each arm, for centres h; every arm was pulled.

        The scatter plus N (mean - h)^2, where a mean in [0, 1] may be off by `relative_error`,
        and the distance by another rounding: nothing is subtracted but to find that distance.
        """
        distance = np.abs(self.total / self.pulls - centre) + relative_error(self.pulls)
        return self.scatter + self.pulls * distance**2


class Forecast(NamedTuple):
    """Guesses from the pulls so far.

    They steer; no guarantee rests on their being right, only on their being made *before* the
    pulls they are applied to.
    """

    mean: FloatArray
    """Averages."""
    centre: FloatArray
    """Averages, slightly shrunk: what the next rewards are compared with."""
    variance: FloatArray
    """Of one reward."""
    shrunk: FloatArray
    """Means drawn to the bulk where noise dominates: they give the direction."""
    error: FloatArray
    """Squared error left in `shrunk`."""


def forecast(tally: Tally) -> Forecast:
    """Return the guesses; every arm must have been pulled."""
    pulls, mean = tally.pulls, tally.total / tally.pulls
    scatter = tally.scatter
    pooled = scatter.sum() / max(pulls.sum() - pulls.size, 1.0)
    variance = np.clip((scatter + 2.0 * pooled) / (pulls + 1.0), 1e-4, 0.25)
    noise, middle = variance / pulls, np.median(mean)
    distance = (mean - middle) ** 2
    bulk = np.quantile(distance, 0.6) / 0.708  # the variance, if the bulk is normal
    signal = np.maximum(bulk - np.median(noise), 0.05 * bulk + 1e-12)
    signal = np.maximum(signal, distance - 2.0 * noise)
    keep = signal / (signal + noise)
    centre = (tally.total + mean.mean()) / (pulls + 1.0)
    return Forecast(mean, centre, variance, middle + (mean - middle) * keep, noise * keep)


class Directions:
    """c_ij = (1 + k (y_j - mu_i)/sigma_i)/m: the directions of many thresholds at once.

    With `leave_one_out`, target i is the threshold built from the arms other than i:
    y_i >= mu + k sigma if and only if y_i >= mu_-i + k~ sigma_-i, where mu_-i and sigma_-i belong
    to the other n - 1 arms and k~ = k / sqrt(1 - (1 + k^2)/n). (With d = y_i - mu_-i,
    y_i - mu = (n-1) d/n and sigma^2 = (n-1) sigma_-i^2/n + (n-1) d^2/n^2; square and solve for d.)
    Otherwise there is one target, the threshold of all arms. Of one arm the sd is 0, so k~ is
    taken as 0.

    Whatever y is, c bounds the threshold from below if it adds up to 1 and lies within
    k/sqrt(m) of (1/m, ..., 1/m). Both hold up to a few roundings, also where means coincide or
    one dominates: deviations are taken from the mean of the very arms they belong to, the sd is
    that of these deviations, and nothing is got by taking one arm out of a sum over all. All that
    is asked about c is computed from the same coefficients, so no cost can cancel to 0. A sd below
    `SMALLEST_SD` is replaced by it, which only draws c nearer to (1/m, ..., 1/m).
    """

    def __init__(self, y: FloatArray, k: float, *, leave_one_out: bool) -> None:
        n = y.size
        self.leave_one_out = leave_one_out
        self.size = n - leave_one_out
        self.k = leave_one_out_k(n, k) if leave_one_out else k
        self.norm = (1.0 + self.k**2) / self.size  # |c|^2
        self.members: FloatArray = np.ones((1, n))
        if leave_one_out:
            self.members = np.ones((n, n))
            np.fill_diagonal(self.members, 0.0)
        self.mean = self.sum(y) / self.size
        deviations = (y - self.mean[:, None]) * self.members
        again = deviations.sum(axis=1) / self.size  # what rounding the mean left
        deviations -= again[:, None] * self.members
        self.sd = np.sqrt(np.einsum("ij,ij->i", deviations, deviations) / self.size)
        self.beta = self.k / (self.size * np.maximum(self.sd, SMALLEST_SD))
        self.theta = self.mean + self.k * self.sd
        self._deviations = deviations

    @cached_property
    def c(self) -> FloatArray:
        """The coefficients, one row for each target; 0 for the arm left out."""
        c: FloatArray = self.members / self.size + self.beta[:, None] * self._deviations
        return c

    @cached_property
    def _squared(self) -> FloatArray:
        return self.c * self.c

    def sum(self, x: FloatArray) -> FloatArray:
        """Return sum_j x_j over the arms of each target."""
        return self.members @ x

    def dot(self, x: FloatArray) -> FloatArray:
        """Return sum_j c_ij x_j."""
        return self.c @ x

    def quadratic(self, d: FloatArray) -> FloatArray:
        """Return sum_j c_ij^2 d_j."""
        return self._squared @ d

    def largest(self, weights: FloatArray) -> FloatArray:
        """Return max_j |c_ij| / weights_j."""
        largest: FloatArray = (np.abs(self.c) / weights).max(axis=1)
        return largest


@lru_cache(maxsize=256)
def leave_one_out_k(n: int, k: float) -> float:
    """Return k~ = k sqrt(n / (n - 1 - k^2)), n > 1 + k^2; 0 for n = 2, where no sd is left.

    In exact arithmetic up to the root, as n - 1 - k^2 may be nearly 0.
    """
    return 0.0 if n == 2 else k * math.sqrt(Fraction(n) / (n - 1 - Fraction(k) ** 2))
