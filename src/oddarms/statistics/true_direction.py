"""A bound on the threshold's error that pays for the variance that was seen, for many arms."""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.direction_box import direction_box, smallest_sd
from oddarms.statistics.directions import Tally, scatter_around
from oddarms.statistics.evidence import normal_mixture_boundary, psi_exponential

BETS = 16


class TrueDirection:
    """How far |<c*, e>| can be, e the errors of the arms' means over m uniform sweeps.

    Lemma 10 (c) of docs/explanation/proofs.md, for a grid of bets that is fixed in advance. c* is
    unknown; V = sum_j c*_j^2 sum_s (X_sj - h_j)^2 and b >= max_j |c*_j| are bounded over the box
    that the intervals of the arms, of mu and of sigma leave for it. Pays where the arms that move
    the threshold most are quiet.

    Costs alpha for either sign and twice `nuisance_delta` for mu; the bound on sigma and the arms'
    intervals are the caller's.
    """

    def __init__(self, n: int, k: float, *, alpha: float, nuisance_delta: float) -> None:
        self.n = n
        self.k = k
        self.norm = (1.0 + k * k) / n
        self.alpha = alpha
        self.nuisance_delta = nuisance_delta
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
        directions = direction_box(low, high, self.k, self.mean_interval(), sd)
        V = directions.most(self.scatter, self.norm)
        b = float(directions.largest.max())
        psi = psi_exponential(self.bets * b)
        allowed = np.isfinite(psi)  # larger bets are none, even where no reward differs: V = 0
        costs = np.where(allowed, np.where(allowed, psi, 0.0) / b**2 * V, np.inf)
        return float(np.min((costs + math.log(BETS / self.alpha)) / self.bets)) / m
