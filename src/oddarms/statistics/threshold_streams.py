"""Evidence about the threshold from *rows*: pulls of every arm, planned before they are made.

A row pulls arm j w_j times; x_j is the average. How often, with which weight the row enters, and
what its rewards are compared with is decided from earlier pulls. Pulls made for one arm alone do
not enter these streams; that they happen in between changes nothing.

Leaving arm i out, the streams and the evidence of arm i's own pulls are independent given the
past, so that the product of the two e-processes is one: the evidence adds up, for one price.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.directions import SMALLEST_SD, Forecast, Tally, leave_one_out_k
from oddarms.statistics.evidence import log_mix, mean_interval, psi_exponential
from oddarms.statistics.totals import relative_error

HORIZONS: FloatArray = 0.7 * 3.0 ** np.arange(15)
"""The numbers of sweeps that the bets are made for; fixed, so no run can tune them."""
_PRIOR: FloatArray = 1.0 / (1.0 + ((np.arange(15) - 4.5) / 2.5) ** 2)
LOG_SHARES: FloatArray = np.log(_PRIOR / _PRIOR.sum())
"""The weights of the bets in their mixture: most on some 30 to 500 sweeps."""
NATS = 8.0  # of evidence that a bet is made to reach


def bets_for(norm: float) -> FloatArray:
    """Return a bet l for each horizon m: l^2/2 m norm/4 = NATS, norm/4 the worst variance."""
    return np.sqrt(2.0 * NATS / (norm / 4.0 * HORIZONS))


class RowCosts(NamedTuple):
    """What the bets on a row cost, for each bet and arm."""


class LinearStream:
    """Bets on a linear function of the means, with coefficients chosen before each row.

    For rows r of size a_r and coefficients c_r, exp(l sum_r a_r <c_r, x_r - y> - cost_l) is an
    e-process for each l of either sign, as it is a product over arms and pulls X of
    exp(L (X - y_j) - cost), L = l a_r c_rj / w_rj, whose expectation given the past is at most 1
    where the cost is L^2/8 (Hoeffding) or psi(|L|) (X - h_j)^2 (Fan, `psi_exponential`; the centres
    h chosen before the row). Which of the two is decided by forecasts, before the row.
    """

    def __init__(self, n: int, norm: float) -> None:
        self.bets = bets_for(norm)
        self.weight = 0.0
        self.sums: FloatArray = np.zeros(n)  # sum_r a_r c_rj x_rj
        self.coefficients: FloatArray = np.zeros(n)  # sum_r a_r c_rj
        self.costs: FloatArray = np.zeros((HORIZONS.size, n))

    def absorb(self, row: Tally, size: float, c: FloatArray, guess: Forecast) -> None:
        """Take a row of `row.pulls` pulls; c and `guess` precede it."""
        scaled = size * c
        self.weight += size
        self.sums += scaled * (row.total / row.pulls)
        self.coefficients += scaled
        lengths = self.bets[:, None] * (np.abs(scaled) / row.pulls)
        worst = lengths**2 / 8.0
        psi = np.minimum(psi_exponential(lengths), 1e200)
        adaptive = psi * (guess.variance + 1e-12) < worst
        seen = row.scatter_around(guess.centre)
        self.costs += np.where(adaptive, psi * seen, worst * row.pulls)


class MeanStream(LinearStream):
    """Bounds on the mean of all means."""

    def __init__(self, n: int) -> None:
        super().__init__(n, 1.0 / n)
        self.even: FloatArray = np.full(n, 1.0 / n)

    def take(self, row: Tally, size: float, guess: Forecast) -> None:
        self.absorb(row, size, self.even, guess)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return an interval, each end missed with probability at most alpha."""
        if self.weight == 0.0:
            return 0.0, 1.0
        needed = self.costs.sum(axis=1) - LOG_SHARES - math.log(alpha)
        radius = float((needed / self.bets).min()) / self.weight
        centre = float(self.sums.sum()) / self.weight
        return max(centre - radius, 0.0), min(centre + radius, 1.0)


class LowerStream(LinearStream):
    """Evidence that thresholds lie above a level, from directions chosen before each row."""

    def __init__(self, n: int, k: float, *, leave_one_out: bool) -> None:
        self.leave_one_out = leave_one_out
        self.size = n - leave_one_out
        self.k = leave_one_out_k(n, k) if leave_one_out else k
        super().__init__(n, (1.0 + self.k**2) / self.size)

    def take(self, row: Tally, size: float, guess: Forecast) -> None:
        deviations = guess.shrunk - guess.shrunk.mean()
        deviations -= deviations.mean()
        sigma = math.sqrt(float((deviations**2 + guess.error).mean()))
        lean = self.k / (self.size * max(sigma, SMALLEST_SD))
        self.absorb(row, size, 1.0 / self.size + lean * deviations, guess)

    def evidence(
        self, arms: IntArray, y: FloatArray, shift: float, mu: tuple[float, float]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the log e-process against "theta_-i <= y + shift, y_i = y", and its slope in y."""
        A, m, n = self.weight, self.size, self.costs.shape[1]
        lean = self.coefficients - A / m
        square = float((lean**2).sum())
        own = lean[arms]
        W = A - own
        rest = square - own**2 * (1.0 + 1.0 / m) + relative_error(n) * square
        G = np.sqrt(np.maximum(rest, 0.0) * m) / self.k if self.k > 0.0 else W
        edge = np.where(W > G, mu[1], mu[0])
        others = (n * edge - y) / m
        most = G * (y + shift) + (W - G) * others
        speed = -(G - (W - G) / m)
        total = self.sums.sum() - self.sums[arms] - most
        costs = self.costs.sum(axis=1) - self.costs[:, arms].T
        return log_mix(
            total[:, None] * self.bets - costs + LOG_SHARES, speed[:, None] * self.bets
        )

    def bound(self, alpha: float, mu: tuple[float, float]) -> float:
        """Return a level that the threshold of all arms exceeds, with probability 1 - alpha."""
        if self.weight == 0.0:
            return -math.inf
        A, m = self.weight, self.size
        lean = self.coefficients - A / m
        G = math.sqrt(float((lean**2).sum()) * m) / self.k if self.k > 0.0 else A
        if G <= 0.0:
            return -math.inf
        needed = self.costs.sum(axis=1) - LOG_SHARES - math.log(alpha)
        total = float(self.sums.sum()) - float((needed / self.bets).min())
        edge = mu[1] if A > G else mu[0]
        return (total - (A - G) * edge) / G


class UpperStream:
    """Evidence that thresholds lie below a level, from the plug-in estimate."""

    def __init__(self, n: int, k: float) -> None:
        self.n, self.k0 = n, k
        self.size = n - 1
        self.k = leave_one_out_k(n, k)
        self.bets = bets_for((1.0 + self.k**2) / self.size)
        self.weight = 0.0
        self.total: FloatArray = np.zeros(n)
        self.spent: FloatArray = np.zeros(n)
        self.scatter: FloatArray = np.zeros(n)
        self.coarsest: FloatArray = np.zeros(n)

    def take(self, row: Tally, size: float, guess: Forecast) -> None:
        w = row.pulls
        self.weight += size
        self.total += size * row.total / w
        self.spent += size**2 / w
        self.scatter += (size / w) ** 2 * row.scatter_around(guess.centre)
        self.coarsest = np.maximum(self.coarsest, size / w)

    def prepare(
        self,
        arms: IntArray,
        low: FloatArray,
        high: FloatArray,
        mu: tuple[float, float],
        sigma: float,
    ) -> None:
        """Bound the costs for the thresholds without arm i, i in `arms`."""
        m, k = self.size, self.k
        y = self.total / self.weight
        self.theta = np.empty(arms.size)
        away = np.maximum(np.maximum(high - mu[0], mu[1] - low), 0.0)
        steep = (1.0 + k * np.minimum(away / sigma, math.sqrt(max(m - 1.0, 1.0)))) / m
        lengths = self.bets[:, None] * (steep * self.coarsest)  # bets x n
        nearest = np.clip(0.5, low, high)
        quiet = nearest * (1.0 - nearest)
        bennett = bennett_factor(lengths)
        half = self.bets[:, None] ** 2 / 2.0
        worst = half * np.minimum(0.25, bennett * quiet) * self.spent
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.where(lengths > 0, psi_exponential(lengths) / lengths**2, 0.5)
        fan = np.minimum(unit, 1e200) * self.bets[:, None] ** 2 * self.scatter
        values = np.concatenate([worst, fan])  # 2 bets x n, price of c_j^2
        bets = np.concatenate([self.bets, self.bets])
        self.all_bets = bets
        self.shares = np.concatenate([LOG_SHARES, LOG_SHARES]) - math.log(2.0)
        self.costs, self.theta = worst_worlds(arms, y, k, self.weight, bets, values)

    def evidence(self, y: FloatArray, shift: float) -> tuple[FloatArray, FloatArray]:
        total = self.weight * (y + shift - self.theta)
        return log_mix(
            total[:, None] * self.all_bets - self.costs + self.shares,
            np.broadcast_to(self.weight * self.all_bets, self.costs.shape),
        )

    def bound(self, alpha: float) -> float:
        if self.weight == 0.0:
            return math.inf
        from oddarms.statistics.evidence import normal_mixture_boundary

        y, norm = self.total / self.weight, (1.0 + self.k0**2) / self.n
        variance = norm * self.spent.max() / 4.0
        radius = normal_mixture_boundary(variance, alpha, 6.0 * norm) / self.weight
        return float(y.mean() + self.k0 * y.std() + radius)


def worst_worlds(
    arms: IntArray, y: FloatArray, k: float, weight: float, bets: FloatArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the largest cost less what the plug-in gives away, per arm and bet; and the thresholds."""
    from oddarms.statistics._sphere import sphere

    return sphere(arms, y, k, weight, bets, values)


def bennett_factor(s: FloatArray) -> FloatArray:
    """Return at least 2 (e^s - 1 - s)/s^2: how far a bounded tail exceeds the Gaussian one."""
    safe = np.clip(s, 1e-3, 30.0)  # increasing in s, so the lower cut is on the safe side
    return np.where(s <= 30.0, 2.0 * (np.expm1(safe) - safe) / safe**2, np.inf)
