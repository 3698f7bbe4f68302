"""Evidence about the threshold from *rows*: pulls of every arm, planned before they are made.

A row pulls arm j w_j times; x_j is the average. How often, with which weight the row enters, and
what its rewards are compared with is decided from earlier pulls. Pulls made for one arm alone do
not enter these streams; that they happen in between changes nothing.

Leaving arm i out, the streams and the evidence of arm i's own pulls are independent given the
past, so that the product of the two e-processes is one: the evidence adds up, for one price.

What the streams bet is fixed by n, k and delta alone. A mixture of e-processes with fixed
weights is one, and so is what is left of it when some are dropped: only the bets made for about as
many sweeps as there are so far are looked at.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.directions import Forecast, Tally, lean_of, leave_one_out_k
from oddarms.statistics.evidence import normal_mixture_boundary, psi_exponential
from oddarms.statistics.totals import relative_error
from oddarms.statistics.worst_world import largest_costs

HORIZONS: FloatArray = 0.7 * 3.0 ** np.arange(15.0)
"""The numbers of sweeps that the bets are made for."""
NATS = 6.0  # of evidence that bets are made to reach, unless told; some log(n/delta) is best
_PRIOR: FloatArray = 1.0 / (1.0 + ((np.arange(15.0) - 4.5) / 2.5) ** 2)
LOG_SHARES: FloatArray = np.log(_PRIOR / _PRIOR.sum())
"""The weights of the bets: most on those for some 30 to 500 sweeps."""
AROUND = 3  # bets looked at, before and after the one made for the present number of sweeps
SEEN_SHARE = 0.25  # of the bets that pay for the squares seen, of the upper stream
SMALLEST_VARIANCE = 1e-12
HIGHEST_COST = 1e100


def bets_for(norm: float, nats: float) -> FloatArray:
    """Return the bet l for each horizon m: l^2/2 m norm/4 = nats, norm/4 the worst variance."""
    bets: FloatArray = np.sqrt(2.0 * nats / (norm / 4.0 * HORIZONS))
    return bets


def bets_around(sweeps: float) -> slice:
    """Return the bets that are made for about this many sweeps."""
    nearest = round(math.log(max(sweeps, 0.7) / 0.7) / math.log(3.0))
    first = min(max(nearest - AROUND, 0), HORIZONS.size - 2 * AROUND - 1)
    return slice(first, first + 2 * AROUND + 1)


class Lines(NamedTuple):
    """The logs of sum_g exp(bets_g (offset_i + speed_i y) - costs_gi), convex in y."""

    offset: FloatArray
    speed: FloatArray
    bets: FloatArray
    costs: FloatArray
    share: FloatArray
    """How fast it grows as theta_-i moves alone, over how fast as y does; at most 1."""


def bet_costs(
    bets: FloatArray,
    steps: FloatArray,
    pulls: FloatArray,
    seen: FloatArray,
    expected: FloatArray,
) -> FloatArray:
    """Return what bets on the pulls of a row cost, for each bet and arm.

    A pull X of arm j is bet on with L = bet times steps_j, of either sign. The expectation of
    exp(L (X - y_j) - cost) is at most 1 where the cost is L^2/8 (Hoeffding), or
    psi(|L|) (X - h_j)^2 (Fan, `psi_exponential`) with a centre h_j chosen before. The one is chosen
    that is expected to be smaller, by a forecast of the variance; `seen` has the squares
    sum_s (X_s - h_j)^2.
    """
    lengths = bets.reshape(-1, 1) * steps
    worst = lengths * lengths / 8.0
    psi = psi_exponential(lengths)
    adaptive = psi * (expected + SMALLEST_VARIANCE) < worst
    return np.where(adaptive, np.where(adaptive, psi, 0.0) * seen, worst * pulls)


class LinearStream:
    """Bets on a linear function of the means, with coefficients chosen before each row.

    For rows r of size a_r and coefficients c_r, exp(l sum_r a_r <c_r, x_r - y> - cost_l) is an
    e-process for each l of either sign: a product over all pulls, see `bet_costs`, with
    L = l a_r c_rj / w_rj.
    """

    def __init__(self, n: int, norm: float, nats: float) -> None:
        self.bets = bets_for(norm, nats)
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
        self.costs += bet_costs(
            self.bets,
            np.abs(scaled) / row.pulls,
            row.pulls,
            row.scatter_around(guess.centre),
            guess.variance,
        )

    def radius(self, alpha: float) -> float:
        """Return how far sum_r a_r <c_r, x_r - y> is on one side, with probability 1 - alpha."""
        near = bets_around(self.weight)
        needed = self.costs[near].sum(1) - LOG_SHARES[near] - math.log(alpha)
        return float((needed / self.bets[near]).min())


class MeanStream(LinearStream):
    """Bounds on the mean of all means."""

    def __init__(self, n: int, nats: float = NATS) -> None:
        super().__init__(n, 1.0 / n, nats)
        self._even: FloatArray = np.full(n, 1.0 / n)

    def take(self, row: Tally, size: float, guess: Forecast) -> None:
        """Take a row worth `size` sweeps; `guess` precedes it."""
        self.absorb(row, size, self._even, guess)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return an interval; either end is wrong with probability at most alpha."""
        if self.weight == 0.0:
            return 0.0, 1.0
        radius, centre = self.radius(alpha) / self.weight, float(self.sums.sum()) / self.weight
        return max(centre - radius, 0.0), min(centre + radius, 1.0)


class LowerStream(LinearStream):
    """Evidence that thresholds lie above a level, from directions chosen before each row.

    Let C = sum_r a_r c_r over all rows, W its sum and G = |C - W/m| sqrt(m)/k, over the m arms of a
    threshold. For means y of these arms with mean mu and standard deviation sigma,
    <C, y> = W mu + <C - W/m, y - mu> <= W mu + k G sigma (Cauchy-Schwarz), so if
    theta = mu + k sigma <= q then <C, y> <= G q + (W - G) mu: linear in mu, so at most its value at
    an end of an interval for mu, which is paid for elsewhere. Hence the e-process of `LinearStream`
    for l > 0 is at least exp(l (sum_r a_r <c_r, x_r> - G q - (W - G) mu_end) - cost_l).

    Any c_r is valid. Near the best are those along which theta grows, c_j = (1 + k z_j)/m with the
    z_j guessed. Cauchy-Schwarz is used once, for the sum of all rows, so what is lost is the error
    of an *averaged* guess, about twice that of the last one; row by row it would be the average of
    the errors, some log(rows) times as much. The guesses are shrunk where noise dominates but the
    spread they are divided by is not, so that early rows lean less.

    All thresholds without one arm use the same c: leaving out arm i takes C_i out of the sums, and
    |C - W/m|^2 = |L|^2 - L_i^2 (1 + 1/m), L = C - A/m, A the weight of all rows, as L sums to 0.
    What rounding may have taken from that is added.
    """

    def __init__(self, n: int, k: float, *, leave_one_out: bool, nats: float = NATS) -> None:
        self.size = n - leave_one_out
        self.k = leave_one_out_k(n, k) if leave_one_out else k
        super().__init__(n, (1.0 + self.k**2) / self.size, nats)

    def take(self, row: Tally, size: float, guess: Forecast) -> None:
        """Take a row worth `size` sweeps; `guess` precedes it."""
        c = 1.0 / self.size + self.k / self.size * lean_of(guess.shrunk, guess.error)
        self.absorb(row, size, c, guess)

    def _leans(self) -> tuple[FloatArray, float]:
        """Return L, and at least its squared length."""
        lean = self.coefficients - self.weight / self.size
        square = float((lean**2).sum())
        return lean, square * (1.0 + float(relative_error(4 * lean.size)))

    def lines(self, arms: IntArray, shift: float, mu: tuple[float, float]) -> Lines:
        """Return the log e-processes against "theta_-i <= y + shift" where the mean of arm i is y.

        mu_-i, the mean of the others, is (n mu - y)/(n - 1), and mu lies in the interval given.
        """
        n, m = self.sums.size, self.size
        lean, square = self._leans()
        own = lean[arms]
        W = self.weight - own
        rest = square - own**2 * (1.0 + 1.0 / m) + relative_error(4 * n) * square
        G = np.sqrt(np.maximum(rest, 0.0) * m) / self.k if self.k > 0.0 else W
        edge = np.where(W > G, mu[1], mu[0]) * (n / m)
        near = bets_around(self.weight)
        costs = self.costs[near].sum(1)[:, None] - self.costs[near][:, arms]
        speed = (W - G) / m - G
        falling = speed < 0.0
        return Lines(
            self.sums.sum() - self.sums[arms] - G * shift - (W - G) * edge,
            speed,
            self.bets[near],
            np.maximum(costs, 0.0) - LOG_SHARES[near][:, None],
            np.where(falling, np.minimum(G / np.where(falling, -speed, 1.0), 1.0), 0.0),
        )

    def bound(self, alpha: float, mu: tuple[float, float]) -> float:
        """Return a level that the threshold of all arms exceeds, with probability 1 - alpha."""
        if self.weight == 0.0:
            return -math.inf
        square = self._leans()[1]
        G = math.sqrt(square * self.size) / self.k if self.k > 0.0 else self.weight
        if G == 0.0:
            return -math.inf
        total = float(self.sums.sum()) - self.radius(alpha)
        return (total - (self.weight - G) * (mu[1] if self.weight > G else mu[0])) / G


class UpperStream:
    """Evidence that thresholds lie below a level, from the plug-in estimate.

    With y_hat = sum_r a x_r / A, A = sum_r a, a the size of the row: A (theta - theta(y_hat)) =
    sum_r a <c*, y - x_r> - A (theta(y_hat) - <c*, y_hat>), c* unknown but fixed, the last bracket
    not negative. So exp(l A (q - theta(y_hat)) - cost) lies, if theta >= q, below a
    supermartingale, where cost bounds sum_j c*_j^2 p_j - l A (theta(y_hat) - <c*, y_hat>), see
    `largest_costs`. The price p_j is one of two, with s at least l |c*_j| a/w_j in every row:

    - l^2/2 sum_r a^2/w_j times the smaller of 1/4 (Hoeffding) and of Bennett's factor
      2 (e^s - 1 - s)/s^2 times p (1 - p), the largest variance of a reward whose mean may be p.
      This bounds the cumulant of the increments along the fixed c*, at which the process is a
      martingale, so any bound on it, known at any time, may be used;
    - psi(s)/s^2 l^2 sum_r (a/w_j)^2 sum_s (X_sj - h_j)^2 (Fan, `psi_exponential`).

    Both have bets of their own. What |c*_j| may be at most follows from the intervals of the arms
    and from bounds on mu and sigma, events whose probability is paid for once.
    """

    def __init__(self, n: int, k: float, nats: float = NATS) -> None:
        self.plain_k = k
        self.size = n - 1
        self.k = leave_one_out_k(n, k)
        self.bets = bets_for((1.0 + self.k**2) / self.size, nats)
        self.weight = 0.0
        self.total: FloatArray = np.zeros(n)
        self.spent: FloatArray = np.zeros(n)  # sum_r a^2 / w_j
        self.scatter: FloatArray = np.zeros(n)
        self.coarsest: FloatArray = np.zeros(n)  # max_r a / w_j

    def take(self, row: Tally, size: float, guess: Forecast) -> None:
        """Take a row worth `size` sweeps; `guess` precedes it."""
        each = size / row.pulls
        self.weight += size
        self.total += each * row.total
        self.spent += size * each
        self.scatter += each * each * row.scatter_around(guess.centre)
        self.coarsest = np.maximum(self.coarsest, each)

    def lines(
        self, arms: IntArray, shift: float, largest: FloatArray, box: tuple[FloatArray, FloatArray]
    ) -> Lines:
        """Return the log e-processes against "theta_-i >= y + shift", i in `arms`.

        `largest` has bounds on |c*_j| of these thresholds, `box` the intervals of the means.
        """
        near = bets_around(self.weight)
        bets = self.bets[near]
        nearest = np.minimum(np.maximum(0.5, box[0]), box[1])
        lengths = bets[:, None] * (largest * self.coarsest)
        light = np.minimum(0.25, bennett_factor(lengths) * (nearest * (1.0 - nearest)))
        squares = bets[:, None] ** 2
        seen = np.minimum(fan_factor(lengths), HIGHEST_COST) * self.scatter
        prices = np.concatenate([squares / 2.0 * light * self.spent, squares * seen])
        bets = np.concatenate([bets, bets])
        shares = np.concatenate(
            [LOG_SHARES[near] + math.log(1.0 - SEEN_SHARE), LOG_SHARES[near] + math.log(SEEN_SHARE)]
        )
        y = self.total / self.weight
        costs = largest_costs(arms, y, self.k, bets * self.weight, prices)
        theta = self._thresholds(arms, y)
        speed = np.full(arms.size, self.weight)
        return Lines(
            speed * (shift - theta), speed, bets, costs - shares[:, None], np.ones(arms.size)
        )

    def _thresholds(self, arms: IntArray, y: FloatArray) -> FloatArray:
        """Return theta_-i of the estimates."""
        members = np.ones((arms.size, y.size))
        members[np.arange(arms.size), arms] = 0.0
        mean = members @ y / self.size
        deviations = (y - mean[:, None]) * members
        sd: FloatArray = np.sqrt((deviations**2).sum(1) / self.size)
        return mean + self.k * sd

    def bound(self, alpha: float) -> float:
        """Return a level below which the threshold of all arms lies, with probability 1 - alpha."""
        if self.weight == 0.0:
            return math.inf
        y, norm = self.total / self.weight, (1.0 + self.plain_k**2) / self.total.size
        variance = norm * self.spent.max() / 4.0
        radius = normal_mixture_boundary(variance, alpha, 6.0 * norm) / self.weight
        return float(y.mean() + self.plain_k * y.std() + radius)


def bennett_factor(s: FloatArray) -> FloatArray:
    """Return at least 2 (e^s - 1 - s)/s^2: how far a bounded tail exceeds the Gaussian one."""
    safe = np.minimum(np.maximum(s, 1e-3), 30.0)  # increasing in s: a lower cut is safe
    return np.where(s <= 30.0, 2.0 * (np.expm1(safe) - safe) / (safe * safe), np.inf)


def fan_factor(s: FloatArray) -> FloatArray:
    """Return at least psi(s)/s^2, increasing in s."""
    safe = np.maximum(s, 1e-3)
    factor: FloatArray = psi_exponential(safe) / (safe * safe)
    return factor
