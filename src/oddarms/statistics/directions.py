"""Forecasts from the pulls so far, and the direction in which the threshold moves with the means.

docs/explanation/proofs.md, sections 1 and 2, has the theorems. For k >= 0 the threshold is the
largest of the linear functions <c, y>, c_j = (1 + k z_j)/n, over z with sum 0 and squares n.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.elementwise import Numbers, choose, elementwise
from oddarms.statistics.totals import Totals, relative_error, scatter_of

SMALLEST_SD = 1e-6  # of forecasts; below it no direction is told from noise


class Tally(NamedTuple):
    """All pulls of each arm: their number, their sum, and at least their squared deviations.

    The deviations are from the mean: unlike the sum of squares they stay the same in a mirror.
    """

    pulls: Numbers
    total: Numbers
    scatter: Numbers


def tally_seen(totals: Totals, mirrored: bool = False) -> Tally:
    """Return the tally of the rewards X, or of 1 - X."""
    total = totals.pulls - totals.total if mirrored else totals.total
    scatter = scatter_of(totals.pulls, totals.total, totals.squares)
    return Tally(totals.pulls, total, scatter)


@elementwise
def scatter_around(tally: Tally, centre: Numbers) -> Numbers:
    """Return at least sum_s (X_sj - h_j)^2 of each arm, for centres h; every arm was pulled.

    Nothing is subtracted but to find the distance of the mean, which may be off by rounding.
    """
    distance = np.abs(tally.total / tally.pulls - centre) + relative_error(tally.pulls)
    return tally.scatter + tally.pulls * distance**2


def tally_of(tally: Tally, arms: IntArray) -> Tally:
    """Return the tally of some arms."""
    return Tally(tally.pulls[arms], tally.total[arms], tally.scatter[arms])


class Forecast(NamedTuple):
    """Guesses from the pulls so far.

    They steer. The guarantee needs only that they are made *before* the pulls they are applied to.
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
    pooled = tally.scatter.sum() / max(tally.pulls.sum() - tally.pulls.size, 1.0)
    mean, variance, noise = with_noise(tally, pooled)
    middle = quantile_of(mean, 0.5)
    bulk = quantile_of((mean - middle) ** 2, 0.6) / 0.708  # the variance, if the bulk is normal
    signal = max(bulk - quantile_of(noise, 0.5), 0.05 * bulk + 1e-12)
    centre, shrunk, error = drawn_to(middle, signal, mean.mean(), tally, mean, noise)
    return Forecast(mean, centre, variance, shrunk, error)


@elementwise
def with_noise(tally: Tally, pooled: float) -> tuple[Numbers, Numbers, Numbers]:
    """Return an arm's average, the likely variance of a reward, and that of the average."""
    pulls, total, scatter = tally
    variance = np.minimum(np.maximum((scatter + 2.0 * pooled) / (pulls + 1.0), 1e-4), 0.25)
    return total / pulls, variance, variance / pulls


@elementwise
def drawn_to(
    middle: float, signal: float, mu: float, tally: Tally, mean: Numbers, noise: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Return an arm's average drawn to mu, and to the middle where noise dominates; its error."""
    signal = np.maximum(signal, (mean - middle) ** 2 - 2.0 * noise)
    keep = signal / (signal + noise)
    centre = (tally.total + mu) / (tally.pulls + 1.0)
    return centre, middle + (mean - middle) * keep, noise * keep


def quantile_of(values: FloatArray, share: float) -> float:
    """Return the value that a share of the values is at most, between the two nearest to it."""
    position = share * (values.size - 1)
    first = int(position)
    ordered = np.sort(values)
    part = position - first
    return float((1.0 - part) * ordered[first] + part * ordered[min(first + 1, values.size - 1)])


def lean_of(
    y: FloatArray, error: FloatArray | float = 0.0, smallest: float = SMALLEST_SD
) -> FloatArray:
    """Return (y_j - mu)/sigma, where sigma^2 is the variance of y plus the mean squared error.

    A sd below `smallest` is replaced by it.
    """
    deviations = y - y.mean()
    deviations -= deviations.mean()  # what rounding the mean left
    sd = math.sqrt(float(square_and(deviations, error).mean()))
    lean: FloatArray = deviations / max(sd, smallest)
    return lean


@elementwise
def square_and(x: Numbers, y: Numbers) -> Numbers:
    """Return x^2 + y."""
    return x**2 + y


def thresholds_without_one(y: FloatArray, k: float) -> FloatArray:
    """Return mu_-i + k sigma_-i of the arms other than i, for each i; a forecast, not exact."""
    m = y.size - 1.0
    centred = y - y.mean()
    thresholds: FloatArray = threshold_without(centred, (centred**2).sum(), m, y.mean(), k)
    return thresholds


@elementwise
def threshold_without(own: Numbers, squares: float, m: float, mu: float, k: float) -> Numbers:
    """Return the threshold without an arm that is `own` from the mean mu of all."""
    shift = -own / m
    variance = (squares - own**2) / m - shift**2
    return mu + shift + k * np.sqrt(np.maximum(variance, 0.0))


@elementwise
def one_unless_equal(i: Numbers, j: Numbers) -> Numbers:
    """Return 0 where i is j, 1 elsewhere."""
    return choose(i != j, 1.0, 0.0)


@lru_cache(maxsize=256)
def leave_one_out_k(n: int, k: float) -> float:
    """Return k~ = k sqrt(n / (n - 1 - k^2)), n > 1 + k^2; 0 for n = 2, where no sd is left.

    y_i >= mu + k sigma if and only if y_i >= mu_-i + k~ sigma_-i of the other arms: Theorem 2. In
    exact arithmetic up to the root, as n - 1 - k^2 may be nearly 0.
    """
    return 0.0 if n == 2 else k * math.sqrt(Fraction(n) / (n - 1 - Fraction(k) ** 2))
