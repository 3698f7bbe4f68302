"""An interval for the threshold from uniform sweeps in two halves, for many arms."""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.direction_box import direction_box, knapsack, smallest_sd
from oddarms.statistics.directions import Tally, scatter_around
from oddarms.statistics.evidence import (
    degenerate_bound,
    normal_mixture_boundary,
    psi_exponential,
)

SWEEPS_AHEAD = 25.0
BETS = 16


class OddEven:
    """Threshold interval from sweeps that alternate between two halves A and B.

    Theorem 10 of docs/explanation/proofs.md, with (a) and (b) of Lemma 10. No bias, as the noise of
    one half does not meet itself. Also bounds sigma.

    D is a union over the readings b = 1, 2, ..., at level delta_D/(2 b (b+1)) each, two-sided. The
    number of sweeps at reading b must be fixed in advance, which is why a pair of sweeps is never
    shortened.

    Costs 2 `end_delta` for the two ends, 2 `end_delta` for |<v*, e>|, and `degenerate_delta`.
    """

    def __init__(self, n: int, k: float, *, end_delta: float, degenerate_delta: float) -> None:
        self.n, self.k = n, k
        self.end_delta, self.degenerate_delta = end_delta, degenerate_delta
        self.sums: tuple[FloatArray, FloatArray] = (np.zeros(n), np.zeros(n))
        self.sweeps = [0, 0]
        self.readings = 0
        self.low, self.high = -math.inf, math.inf
        self.sigma = (0.0, math.inf)
        self._reading = (-math.inf, math.inf)

    @property
    def balanced(self) -> bool:
        """True while both halves have the same number of sweeps."""
        return self.sweeps[0] == self.sweeps[1]

    def absorb(self, sweeps: int, sums: FloatArray) -> None:
        """Take some sweeps into the half whose turn it is."""
        half = int(self.sweeps[0] > self.sweeps[1])
        self.sums[half][:] += sums
        self.sweeps[half] += sweeps
        if self.balanced:
            self._read()

    def _read(self) -> None:
        n, k, half = self.n, self.k, self.sweeps[0]
        m, v0 = 2.0 * half, (1.0 + k * k) / (4.0 * n)
        self.readings += 1
        radius = normal_mixture_boundary(m * v0, self.end_delta, SWEEPS_AHEAD * v0) / m
        along = normal_mixture_boundary(m / 4.0, self.end_delta, SWEEPS_AHEAD / 4.0) / m
        level = self.degenerate_delta / (2.0 * self.readings * (self.readings + 1.0))
        D = degenerate_bound(n, half, half, level)
        odd, even = self.sums[0] / half, self.sums[1] / half
        T = float(np.dot(odd - odd.mean(), even))
        y = 0.5 * (odd + even)
        mu = float(y.mean())
        unbiased = T - D
        sigma_low = math.sqrt(unbiased / n) if unbiased > along**2 else 0.0
        sigma_high = min(float(y.std()), math.sqrt(max(T + D + along**2, 0.0) / n))
        error = float(along) / math.sqrt(n)
        self.sigma = (sigma_low - error, float(y.std()) + error)
        no_lower_end = sigma_low == 0.0
        self._reading = (-math.inf if no_lower_end else mu + k * sigma_low, mu + k * sigma_high)
        self.sharpen(float(radius))

    def sharpen(self, radius: float) -> None:
        """Use another bound on |<c*, e>| with the last reading; the caller pays for it."""
        self.low = max(self.low, self._reading[0] - radius)
        self.high = min(self.high, self._reading[1] + radius)


class TrueDirection:
    """How far |<c*, e>| can be, e the errors of the arms' means over m uniform sweeps.

    A bound that pays for the variance that was seen.

    Lemma 10 (c) of docs/explanation/proofs.md, for a grid of bets that is fixed in advance. c* is
    unknown; V = sum_j c*_j^2 sum_s (X_sj - h_j)^2 and b >= max_j |c*_j| are bounded over the box
    that the intervals of the arms, of mu and of sigma leave for it. Pays where the arms that move
    the threshold most are quiet.

    Costs alpha for either sign and twice `nuisance_delta` for mu; the bound on sigma and the arms'
    intervals are the caller's.
    """

    def __init__(self, n: int, k: float, *, alpha: float, nuisance_delta: float) -> None:
        self.n, self.k, self.norm = n, k, (1.0 + k * k) / n
        self.alpha, self.nuisance_delta = alpha, nuisance_delta
        self.sweeps = 0.0
        self.total: FloatArray = np.zeros(n)
        self.scatter: FloatArray = np.zeros(n)
        # the best bet on a radius r is r/V: from r = 0.005 at the worst variance to 1/max|c|
        self.bets: FloatArray = n * np.geomspace(0.02 / (1.0 + k * k), 1.0, BETS)

    def absorb(self, row: Tally, sweeps: float, centre: FloatArray | float) -> None:
        """Take some sweeps, and what their rewards are compared with."""
        self.sweeps += sweeps
        self.total += row.total
        self.scatter += scatter_around(row, centre)

    def mean_interval(self) -> tuple[float, float]:
        """Return an interval of mu; either end is wrong with probability `nuisance_delta`."""
        if self.sweeps == 0.0:
            return 0.0, 1.0
        m, mean = self.sweeps, float((self.total / self.sweeps).mean())
        radius = normal_mixture_boundary(m / (4.0 * self.n), self.nuisance_delta, 6.0 / self.n)
        return mean - radius / m, mean + radius / m

    def radius(self, box: tuple[FloatArray, FloatArray], sigma: tuple[float, float]) -> float:
        """Return the bound on |<c*, e>|, given bounds on sigma and the intervals of the means."""
        m, (low, high) = self.sweeps, box
        members = np.ones((1, self.n))
        sd_low = max(float(smallest_sd(low, high, members)[0]), sigma[0])
        sd = sd_low, max(sigma[1], sd_low)
        smallest, largest = direction_box(low, high, self.k, self.mean_interval(), sd)
        V, b = knapsack(smallest**2, largest**2, self.scatter, self.norm), float(largest.max())
        psi = psi_exponential(self.bets * b)
        allowed = np.isfinite(psi)  # larger bets are none, even where no reward differs: V = 0
        costs = np.where(allowed, np.where(allowed, psi, 0.0) / b**2 * V, np.inf)
        return float(np.min((costs + math.log(BETS / self.alpha)) / self.bets)) / m
