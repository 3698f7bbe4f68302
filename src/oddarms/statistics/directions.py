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
from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray


class Tally(NamedTuple):
    """All pulls of each arm: their number, sum and sum of squares."""

    pulls: FloatArray
    total: FloatArray
    squares: FloatArray

    @classmethod
    def empty(cls, n: int) -> Tally:
        """Return the tally of n arms without pulls."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n))

    def of(self, arms: IntArray) -> Tally:
        """Return the tally of some arms."""
        return Tally(self.pulls[arms], self.total[arms], self.squares[arms])

    def plus(self, other: Tally) -> Tally:
        """Return the tally with more pulls."""
        return Tally(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def scatter_around(self, centre: FloatArray | float) -> FloatArray:
        """Return sum_s (X_sj - h_j)^2 of each arm, for centres h."""
        deviations = self.squares - 2.0 * centre * self.total + self.pulls * centre**2
        return np.maximum(deviations, 0.0)

    def mirrored(self) -> Tally:
        """Return the tally of the rewards 1 - X."""
        return Tally(
            self.pulls, self.pulls - self.total, self.pulls - 2 * self.total + self.squares
        )


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
    scatter = np.maximum(tally.squares - tally.total * mean, 0.0)
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
    """c_ij = alpha_i + beta_i y_j: the directions of many thresholds at once, in O(n).

    With `leave_one_out`, target i is the threshold built from the arms other than i:
    y_i >= mu + k sigma if and only if y_i >= mu_-i + k~ sigma_-i, where mu_-i and sigma_-i belong
    to the other n - 1 arms and k~ = k / sqrt(1 - (1 + k^2)/n). (With d = y_i - mu_-i,
    y_i - mu = (n-1) d/n and sigma^2 = (n-1) sigma_-i^2/n + (n-1) d^2/n^2; square and solve for d.)
    Otherwise there is one target, the threshold of all arms.
    """

    def __init__(self, y: FloatArray, k: float, *, leave_one_out: bool) -> None:
        n = y.size
        self.y = y
        self.leave_one_out = leave_one_out
        self.size = n - leave_one_out
        self.k = k / math.sqrt(1.0 - (1.0 + k * k) / n) if leave_one_out else k
        self.norm = (1.0 + self.k**2) / self.size  # |c|^2
        self.mean = self.sum(y) / self.size
        variance = self.sum(y * y) / self.size - self.mean**2
        self.sd = np.sqrt(np.maximum(variance, 1e-12))
        self.beta = self.k / (self.size * self.sd)
        self.alpha = 1.0 / self.size - self.beta * self.mean
        self.theta = self.mean + self.k * self.sd

    def sum(self, x: FloatArray) -> FloatArray:
        """Return sum_j x_j over the arms of each target."""
        return x.sum() - x if self.leave_one_out else np.array([x.sum()])

    def dot(self, x: FloatArray) -> FloatArray:
        """Return sum_j c_ij x_j."""
        return self.alpha * self.sum(x) + self.beta * self.sum(self.y * x)

    def quadratic(self, d: FloatArray) -> FloatArray:
        """Return sum_j c_ij^2 d_j."""
        cross = 2.0 * self.alpha * self.beta * self.sum(self.y * d)
        square = self.beta**2 * self.sum(self.y * self.y * d)
        return np.maximum(self.alpha**2 * self.sum(d) + cross + square, 0.0)

    def largest(self, weights: FloatArray) -> FloatArray:
        """Return max_j |c_ij| / weights_j."""
        c = np.abs(self.alpha[:, None] + self.beta[:, None] * self.y) / weights
        if self.leave_one_out:
            np.fill_diagonal(c, 0.0)
        largest: FloatArray = c.max(axis=1)
        return largest
