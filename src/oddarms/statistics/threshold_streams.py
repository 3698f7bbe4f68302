"""Evidence about the threshold from *rows*: pulls of every arm, planned before they are made.

A row pulls arm j w_j times; x_j is the average. How often, with which weight the row enters, and
what its rewards are compared with is decided from earlier pulls. Pulls made for one arm alone do
not enter these streams; that they happen in between changes nothing.

Leaving arm i out, the streams and the evidence of arm i's own pulls are independent given the
past, so that the product of the two e-processes is one: the evidence adds up, for one price.
"""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.direction_box import Box, direction_box, smallest_sd
from oddarms.statistics.directions import SMALLEST_SD, Directions, Forecast, Tally
from oddarms.statistics.evidence import (
    log_mix,
    log_normal_mixture,
    mean_interval,
    normal_mixture_boundary,
    normal_mixture_slope,
    psi_exponential,
)

BETS = 10
BETS_SHARE = 0.4  # of the mixture's weight; the normal mixture has the rest and works at every gap
SMALLEST_GAP = 0.01  # that bets are made for
ROWS_AHEAD = 25.0  # the number of sweeps at which the normal mixture is tightest


def mixed_evidence(
    total: FloatArray,
    speed: FloatArray | float,
    bets: FloatArray,
    costs: FloatArray,
    variance: FloatArray,
    rho: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the log of a mixture of exp(l S - cost_l), l in `bets`, and the normal mixture.

    And its slope when S moves at `speed`. Convex in S.
    """
    logs = bets * total[:, None] - costs - math.log(bets.shape[1] / BETS_SHARE)
    normal = log_normal_mixture(total, variance, rho) + math.log(1.0 - BETS_SHARE)
    slope = normal_mixture_slope(total, variance, rho)
    moving = np.broadcast_to(speed, total.shape)
    return log_mix(
        np.column_stack([logs, normal]), np.column_stack([moving[:, None] * bets, moving * slope])
    )


def choose_bets(directions: Directions, guess: Forecast) -> FloatArray:
    """Return a grid of bets per target, from what the worst variance asks for to the guessed one.

    The best bet on a gap g with variance V is g/V; the gap is guessed to be about sigma.
    """
    gap = np.maximum(directions.sd, SMALLEST_GAP)
    low = 0.3 * gap / (directions.norm / 4.0)
    guessed = np.maximum(directions.quadratic(guess.variance), 1e-12)
    high = np.maximum(1.2 * gap / guessed, 8.0 * low)
    return np.geomspace(low, high, BETS, axis=1)


class LowerStream:
    """Evidence that thresholds lie above a level, from directions chosen before each row.

    As <c, y> <= theta for each direction c, the process
    exp(l (sum_r a <c, x> - q sum_r a) - sum_r cost_r) lies, if theta <= q, below a
    supermartingale for each l >= 0. The cost of a row, cost_r, is one of these two; which of them
    it will be is decided before the row is pulled:

    - l^2/8 a^2 sum_j c_j^2/w_j (Hoeffding), or
    - psi(l b)/b^2 a^2 sum_j (c_j/w_j)^2 sum_s (X_sj - h_j)^2 with b = a max_j |c_j|/w_j, the
      centres h chosen before the row (Fan; `psi_exponential`), which pays for the seen variance.

    A direction guessed from m sweeps loses about k s^2/(2 m sigma) of the threshold (s^2 the
    variance of a reward), so a row enters with a weight a that is small while that loss is large.
    """

    def __init__(self, targets: int) -> None:
        self.weight: FloatArray = np.zeros(targets)
        self.total: FloatArray = np.zeros(targets)
        self.variance: FloatArray = np.zeros(targets)
        self.bets: FloatArray = np.zeros((targets, 0))
        self.costs: FloatArray = np.zeros((targets, 0))
        self.rho = 1.0

    def absorb(self, row: Tally, size: float, guess: Forecast, d: Directions) -> None:
        """Take a row of `row.pulls` pulls, worth `size` sweeps; `guess` and `d` precede it."""
        if self.bets.shape[1] == 0:
            self.bets = choose_bets(d, guess)
            self.costs = np.zeros(self.bets.shape)
            self.rho = ROWS_AHEAD * d.norm / 4.0
        w = row.pulls
        a = size * self._trust(guess, d)
        self.weight += a
        self.total += a * d.dot(row.total / w)
        hoeffding = a**2 * d.quadratic(1.0 / w) / 4.0
        self.variance += hoeffding
        seen = a**2 * d.quadratic(row.scatter_around(guess.centre) / w**2)
        expected = a**2 * d.quadratic(guess.variance / w)
        b = np.maximum(a * d.largest(w), 1e-9)[:, None]
        unit = np.minimum(psi_exponential(self.bets * b) / b**2, 1e200)
        worst = self.bets**2 / 2.0 * hoeffding[:, None]
        adaptive = unit * (expected[:, None] + 1e-12) < worst
        self.costs += np.where(adaptive, unit * seen[:, None], worst)

    @staticmethod
    def _trust(guess: Forecast, d: Directions) -> FloatArray:
        if d.size == 1:  # the threshold of one arm is its mean: no direction to guess
            return np.ones(guess.mean.size)
        sd = np.maximum(d.sd, SMALLEST_SD)
        loss = d.k / (2.0 * sd) * d.sum(guess.error) / d.size
        rival = guess.mean if d.leave_one_out else np.quantile(guess.mean, 0.95)
        trust: FloatArray = np.clip(1.0 - loss / np.maximum(d.theta - rival, 0.3 * sd), 0.0, 1.0)
        return trust

    def evidence(self, targets: IntArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log e-process against "theta <= q" for some targets, and its slope in q."""
        weight = self.weight[targets]
        return mixed_evidence(
            self.total[targets] - weight * q,
            -weight,
            self.bets[targets],
            self.costs[targets],
            self.variance[targets],
            self.rho,
        )

    def bound(self, alpha: float) -> float:
        """Return a level that the first target's threshold exceeds, with probability 1 - alpha."""
        if self.weight[0] == 0.0:
            return -math.inf
        low, high = -1.0, 2.0
        first = np.zeros(33, dtype=np.int64)
        for _ in range(4):  # the evidence falls as the level rises: refine where it crosses
            levels = np.linspace(low, high, first.size)
            enough = int((self.evidence(first, levels)[0] >= -math.log(alpha)).sum())
            if enough == 0:
                return -math.inf if low == -1.0 else low
            low, high = levels[enough - 1], levels[min(enough, first.size - 1)]
        return float(low)


class UpperStream:
    """Evidence that thresholds lie below a level, from the plug-in estimate.

    With y_hat = sum_r a x_r / A, A = sum_r a, a the size of the row: A (theta - theta(y_hat)) <=
    sum_r a <c*, y - x_r>, c* unknown but fixed. So exp(l A (q - theta(y_hat)) - cost) lies, if
    theta >= q, below a supermartingale, where cost bounds that of the true c*, either by

    - l^2/2 sum_j c*_j^2 proxy_j sum_r a^2/w_j: proxy_j is 1/4 or, for an arm whose mean is known
      to be at most p < 1/2, p (1 - p) — the lower tail of such a reward is that light, since
      tilting a 0/1 variable downwards only lowers its variance (likewise the upper tail of a mean
      of at least p > 1/2); arms whose other tail is at stake pay Bennett's factor
      2 (e^s - 1 - s)/s^2, s = l max_j |c*_j| a/w_j; or by
    - psi(l b)/b^2 sum_j c*_j^2 sum_r (a/w_j)^2 sum_s (X_sj - h_j)^2, b >= max |c*_j| a/w_j (Fan).

    The first bounds the cumulant of the increments along the fixed c*, at which the process is a
    martingale, so any bound on it, known at any time, may be used, and the smaller of two.
    Both are sums of c*_j^2 times known numbers, hence at most a fractional knapsack over
    c*_j^2 in a box, with sum_j c*_j^2 = |c|^2 known. The box follows from the intervals of the arms
    and from bounds on mu and sigma, events whose probability is paid for once (`box_delta`,
    three times `nuisance_delta`).
    """

    def __init__(self, n: int, k: float, *, box_delta: float, nuisance_delta: float) -> None:
        self.k = k
        self.box_delta = box_delta
        self.nuisance_delta = nuisance_delta
        self.weight = 0.0
        self.total: FloatArray = np.zeros(n)
        self.spent: FloatArray = np.zeros(n)  # sum_r a^2 / w_j
        self.scatter: FloatArray = np.zeros(n)
        self.coarsest: FloatArray = np.zeros(n)  # max_r a / w_j

    def absorb(self, row: Tally, size: float, guess: Forecast) -> None:
        """Take a row of `row.pulls` pulls, worth `size` sweeps; `guess` precedes it."""
        w = row.pulls
        self.weight += size
        self.total += size * row.total / w
        self.spent += size**2 / w
        self.scatter += (size / w) ** 2 * row.scatter_around(guess.centre)
        self.coarsest = np.maximum(self.coarsest, size / w)

    def prepare(self, arms: IntArray, tally: Tally, bets: FloatArray, rho: float) -> None:
        """Bound the costs for the thresholds without arm i, i in `arms`."""
        d = Directions(self.total / self.weight, self.k, leave_one_out=True)
        low, high = mean_interval(*tally, self.box_delta / self.total.size)
        box = self._box(arms, low, high, d)
        self.theta = d.theta[arms]
        self.variance = box.most(self.spent / 4.0, d.norm)
        nearest = np.clip(0.5, low, high)
        light = box.most(self.spent * nearest * (1.0 - nearest), d.norm)[:, None]
        heavy = np.where(high < 0.5, box.negative, np.where(low > 0.5, box.positive, 0.0))
        bennett = bennett_factor(bets * (heavy * self.coarsest).max(axis=1)[:, None])
        boxed = bets**2 / 2.0 * np.minimum(self.variance[:, None], bennett * light)
        seen = np.maximum(box.most(self.scatter, d.norm), 1e-12)[:, None]
        b = np.maximum((box.largest * self.coarsest).max(axis=1), 1e-9)[:, None]
        fan = np.minimum(psi_exponential(bets * b) / b**2, 1e200) * seen
        self.bets, self.costs, self.rho = np.hstack([bets, bets]), np.hstack([boxed, fan]), rho

    def evidence(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log e-process against "theta >= q" for the prepared arms, and its slope."""
        total = self.weight * (q - self.theta)
        return mixed_evidence(total, self.weight, self.bets, self.costs, self.variance, self.rho)

    def bound(self, alpha: float) -> float:
        """Return a level below which the threshold of all arms lies, with probability 1 - alpha."""
        if self.weight == 0.0:
            return math.inf
        y, norm = self.total / self.weight, (1.0 + self.k**2) / self.total.size
        variance = norm * self.spent.max() / 4.0
        radius = normal_mixture_boundary(variance, alpha, 6.0 * norm) / self.weight
        return float(y.mean() + self.k * y.std() + radius)

    def _box(self, arms: IntArray, low: FloatArray, high: FloatArray, d: Directions) -> Box:
        """Return the box of the targets: bounds on mu and sigma of all arms, less arm i."""
        n, m, y = self.total.size, d.size, self.total / self.weight
        variance, alpha = self.spent.max() / 4.0, self.nuisance_delta
        mu_variance = self.spent.mean() / (4.0 * n)
        mu_radius = normal_mixture_boundary(mu_variance, alpha, 6.0 / n) / self.weight
        mu_low, mu_high = y.mean() - mu_radius, y.mean() + mu_radius
        sd_radius = normal_mixture_boundary(variance, alpha, 6.0) / self.weight / math.sqrt(n)
        others_low = np.maximum((n * mu_low - high[arms]) / m, 0.0)
        others_high = (n * mu_high - low[arms]) / m
        # n sigma^2 = m sigma_-i^2 + (n/m) (y_i - mu)^2
        spread = n * (y.std() + sd_radius) ** 2
        spread = spread - n / m * np.maximum(low[arms] - mu_high, 0.0) ** 2
        members = np.ones((arms.size, n))
        members[np.arange(arms.size), arms] = 0.0
        sd_low = smallest_sd(low, high, members)
        sd_high = np.maximum(np.sqrt(np.maximum(spread, 0.0) / m), sd_low)
        return direction_box(low, high, members, d.k, (others_low, others_high), (sd_low, sd_high))


def bennett_factor(s: FloatArray) -> FloatArray:
    """Return at least 2 (e^s - 1 - s)/s^2: how far a bounded tail exceeds the Gaussian one."""
    safe = np.clip(s, 1e-3, 30.0)  # increasing in s, so the lower cut is on the safe side
    return np.where(s <= 30.0, 2.0 * (np.expm1(safe) - safe) / safe**2, np.inf)
