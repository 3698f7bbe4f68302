"""Evidence about the threshold from *rows*: pulls of every arm, planned before they are made.

docs/explanation/proofs.md, sections 5 to 7, has the theorems. A row pulls arm j w_j times; x_j is
the average. How often, with which weight the row enters, and what its rewards are compared with is
decided from earlier pulls. Pulls made for one arm alone do not enter these streams.

The bets are fixed by n, k and delta alone. Only those made for about as many sweeps as there are so
far are looked at.

What a stream has added up is a named tuple, and all else are functions of it: `Linear` and
`lower_lines` for evidence that thresholds lie above a level, `PlugIn` and `upper_lines` for
evidence that they lie below.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.directions import (
    Forecast,
    Tally,
    scatter_around,
)
from oddarms.statistics.elementwise import (
    Columns,
    Numbers,
    choose,
    elementwise,
    plus,
    row_sums,
)
from oddarms.statistics.evidence import (
    log_mix,
    normal_mixture_boundary,
    psi_exponential,
    square_boundary,
)
from oddarms.statistics.totals import relative_error
from oddarms.statistics.worst_world import largest_costs

HORIZONS: FloatArray = 0.7 * 3.0 ** np.arange(33.0)
"""The numbers of sweeps that the bets are made for: to 2^50, the most pulls of any search."""
_PRIOR: FloatArray = 1.0 / (1.0 + ((np.arange(33.0) - 4.5) / 2.5) ** 2)
LOG_SHARES: FloatArray = np.log(_PRIOR / _PRIOR.sum())
"""The weights of the bets: most on those for some 30 to 500 sweeps."""
PRICED = 16  # bets, for up to 10^7 sweeps: the costs of longer ones follow: `TIMES_LAST`
LAST_PRICED: IntArray = np.minimum(np.arange(33), PRICED - 1)
TIMES_LAST: FloatArray = HORIZONS[LAST_PRICED] / HORIZONS
"""Of each bet: the priced one that its cost follows from, and how many times that is enough.

The last of those is small already. A bet r times as long as another costs r^2 times as much where
the cost is L^2/8; for r < 1 at most that where it is psi(|L|) (X - h)^2, as psi(s)/s^2 increases.
With |L| that of the last bet that is priced, which is mostly below 0.01, that is 2/3 |L| too much,
as a share.
"""
AROUND = 3  # bets looked at, before and after the one made for the present number of sweeps
SEEN_SHARE = 0.25  # of the bets that pay for the squares seen, of the upper stream
LOG_SEEN_SHARE, LOG_LIGHT_SHARE = math.log(SEEN_SHARE), math.log(1.0 - SEEN_SHARE)
NO_BET_SHARE = 0.1  # of no bet at all, where means are said to be above a level
SMALLEST_VARIANCE = 1e-12
HIGHEST_COST = 1e100
PLUG_IN_AHEAD = 6.0  # sweeps that the radius of the plug-in is tuned for, times about 16


def bets_for(norm: float, nats: float) -> FloatArray:
    """Return the bet l for each horizon m: l^2/2 m norm/4 = nats, norm/4 the worst variance.

    `nats` is the evidence that bets are made to reach; some log(n/delta) is best.
    """
    bets: FloatArray = np.sqrt(2.0 * nats / (norm / 4.0 * HORIZONS))
    return bets


def bets_around(sweeps: float) -> slice:
    """Return the bets that are made for about this many sweeps."""
    nearest = round(math.log(max(sweeps, 0.7) / 0.7) / math.log(3.0))
    first = min(max(nearest - AROUND, 0), HORIZONS.size - 2 * AROUND - 1)
    return slice(first, first + 2 * AROUND + 1)


class Lines(NamedTuple):
    """The logs of sum_g exp(bets_g (offset_i + speed_i y) - costs_gi), convex in y."""

    offset: Numbers
    speed: Numbers
    bets: FloatArray
    costs: Columns
    share: Numbers
    """How fast it grows as theta_-i moves alone, over how fast as y does; at most 1."""


def log_of_lines(lines: Lines, y: Numbers) -> tuple[Numbers, Numbers]:
    """Return the log at y, and the average of the bets by which its slope is made."""
    bets = lines.bets.reshape(-1, 1)
    return log_mix(bets * (lines.offset + lines.speed * y) - lines.costs, bets)


@elementwise
def bet_cost(
    bet: Numbers, step: Numbers, pulls: Numbers, seen: Numbers, expected: Numbers
) -> Numbers:
    """Return what a bet of the length |L| = bet * step on each pull of an arm costs: Lemma 4.

    Hoeffding's cost L^2/8 or Fan's psi(|L|) (X - h)^2 is chosen, whichever is expected to be
    smaller by a forecast of the variance; `seen` has the squares sum_s (X_s - h)^2.
    """
    lengths = bet * step
    worst = lengths * lengths / 8.0
    psi = psi_exponential(lengths)
    adaptive = psi * (expected + SMALLEST_VARIANCE) < worst
    return choose(adaptive, choose(adaptive, psi, 0.0) * seen, worst * pulls)


class Linear(NamedTuple):
    """What rows of size a_r add up to along directions c_r = (1 + k z_r)/m chosen before each row.

    For each l of either sign, exp(l sum_r a_r <c_r, x_r - y> - cost_l) is an e-process: (1) in
    docs/explanation/proofs.md; any z_r is valid.
    """

    k: float
    size: int
    """m, the number of arms of the threshold."""
    weight: float
    """A = sum_r a_r"""
    bets: FloatArray
    sums: FloatArray
    """sum_r a_r c_rj x_rj"""
    leans: FloatArray
    """Z = sum_r a_r z_r; by itself, as C - A/m, C = sum_r a_r c_r, would cancel for small k."""
    costs: FloatArray
    """Of each of the priced bets, on each arm."""
    spent: FloatArray
    """Of each of the priced bets, on all arms."""


def no_rows(n: int, size: int, k: float, nats: float) -> Linear:
    """Return what there is before the first row; |c_r|^2 is at most about (1 + k^2)/m."""
    bets, costs = bets_for((1.0 + k**2) / size, nats), np.zeros((PRICED, n))
    return Linear(k, size, 0.0, bets, np.zeros(n), np.zeros(n), costs, np.zeros(PRICED))


def with_row(rows: Linear, row: Tally, size: float, lean: FloatArray, guess: Forecast) -> Linear:
    """Add a row of `row.pulls` pulls; `lean` and `guess` precede it."""
    k, m, weight, bets, sums, leans, costs, spent = rows
    step, sums, leans = with_pulls(sums, leans, size, m, k, lean, row)
    seen = scatter_around(row, guess.centre)
    new = bet_cost(bets[:PRICED].reshape(-1, 1), step, row.pulls, seen, guess.variance)
    return Linear(k, m, weight + size, bets, sums, leans, plus(costs, new), spent + row_sums(new))


@elementwise
def with_pulls(
    sums: Numbers, leans: Numbers, size: float, m: int, k: float, lean: Numbers, new: Tally
) -> tuple[Numbers, Numbers, Numbers]:
    """Return a c/w of a row's pulls of an arm, and the arm's sums with them, c = (1 + k z)/m."""
    scaled = size * (1.0 / m + k / m * lean)
    sums = sums + scaled * (new.total / new.pulls)
    return np.abs(scaled) / new.pulls, sums, leans + size * lean


def radius_of(rows: Linear, alpha: float) -> float:
    """Return how far sum_r a_r <c_r, x_r - y> is on one side, with probability 1 - alpha."""
    near = bets_around(rows.weight)
    spent = rows.spent[LAST_PRICED[near]] * TIMES_LAST[near]
    needed = spent - LOG_SHARES[near] - math.log(alpha)
    return float((needed / rows.bets[near]).min())


def interval_of_mean(rows: Linear, alpha: float) -> tuple[float, float]:
    """Return an interval of the mean of all means; either end is wrong with probability alpha.

    For rows with k = 0 and m = n, whose coefficients are all 1/n.
    """
    if rows.weight == 0.0:
        return 0.0, 1.0
    radius, centre = radius_of(rows, alpha) / rows.weight, float(rows.sums.sum()) / rows.weight
    return max(centre - radius, 0.0), min(centre + radius, 1.0)


def costs_without_one(rows: Linear, near: slice, arms: IntArray) -> FloatArray:
    """Return what the bets `near` on all arms but i cost, for these i, less their log shares."""
    last = LAST_PRICED[near]
    result: FloatArray = cost_of_others(
        rows.spent[last].reshape(-1, 1),
        rows.costs[last][:, arms],
        TIMES_LAST[near].reshape(-1, 1),
        LOG_SHARES[near].reshape(-1, 1),
    )
    return result


@elementwise
def cost_of_others(all_arms: Numbers, own: Numbers, times: Numbers, log_share: Numbers) -> Numbers:
    """Return what is left of the cost of a bet on all arms, less the log of its share."""
    return np.maximum(all_arms - own, 0.0) * times - log_share


def mean_lines(rows: Linear, arms: IntArray, shift: float, sign: float) -> Lines:
    """Return the log e-processes about mu_-i, the mean of the arms other than i, for these i.

    Against "mu_-i <= y + shift" for sign -1 and "mu_-i >= y + shift" for sign 1. Without arm i,
    rows with the coefficients 1/n add up to W mu_-i plus errors, W = A (n-1)/n, and the bets of
    either sign cost the same. For sign -1 a share of the mixture is not bet at all: it is enough
    where the least that mu_-i can be is known (proofs.md, Corollary 8).
    """
    n, near = rows.sums.size, bets_around(rows.weight)
    W = rows.weight * (n - 1.0) / n
    bets, costs = rows.bets[near], costs_without_one(rows, near, arms)
    if sign < 0.0:
        none = np.full((1, arms.size), -math.log(NO_BET_SHARE))
        bets = np.append(bets, 0.0)
        costs = np.concatenate((costs - math.log1p(-NO_BET_SHARE), none))
    total = rows.sums.sum() - rows.sums[arms]
    speed = np.full(arms.size, sign * W)
    return Lines(sign * (W * shift - total), speed, bets, costs, np.ones(arms.size))


def square_of_leans(rows: Linear) -> float:
    """Return at least |Z|^2."""
    square = float((rows.leans**2).sum())
    return square * (1.0 + float(relative_error(4 * rows.leans.size)))


def lower_lines(rows: Linear, arms: IntArray, shift: float, mu: tuple[float, float]) -> Lines:
    """Return the log e-processes against "theta_-i <= y + shift" where the mean of arm i is y.

    Theorem 5 of docs/explanation/proofs.md, for the thresholds of the m = n - 1 arms other than
    these i; `mu` bounds the mean of all arms. Any direction is valid. Near the best are those along
    which theta grows, c_j = (1 + k z_j)/m with the z_j guessed. All thresholds use the same z, of
    all n arms: leaving out arm i takes C_i out of the sums, W = A - (k/m) Z_i, and G is the root of
    (|Z|^2 - Z_i^2 (1 + 1/m))/m, so that no k is divided by. What rounding may have taken from that
    difference is added. Before the first row all bets are 1.
    """
    if rows.weight == 0.0:
        nothing = np.zeros(arms.size)
        return Lines(nothing, nothing, np.zeros(1), np.zeros((1, arms.size)), nothing)
    square = square_of_leans(rows)
    near = bets_around(rows.weight)
    total = rows.sums.sum() - rows.sums[arms]
    offset, speed, share = lower_line(
        rows.sums.size, rows.size, rows.k, rows.weight, square, rows.leans[arms], total, shift, mu
    )
    return Lines(offset, speed, rows.bets[near], costs_without_one(rows, near, arms), share)


@elementwise
def lower_line(
    n: int,
    m: int,
    k: float,
    weight: float,
    square: float,
    own: Numbers,
    total: Numbers,
    shift: float,
    mu: tuple[float, float],
) -> tuple[Numbers, Numbers, Numbers]:
    """Return offset, speed and share of arms' lines: `own` is Z_i, `total` the others' sums."""
    W = weight - k / m * own
    rest = square - own**2 * (1.0 + 1.0 / m) + relative_error(4 * n) * square
    G = np.sqrt(np.maximum(rest, 0.0) / m) if k > 0.0 else W
    edge = choose(W > G, mu[1], mu[0]) * (n / m)
    speed = (W - G) / m - G
    falling = speed < 0.0
    share = choose(falling, np.minimum(G / choose(falling, -speed, 1.0), 1.0), 0.0)
    return total - G * shift - (W - G) * edge, speed, share


def lower_bound(rows: Linear, k: float, alpha: float, mu: tuple[float, float]) -> float:
    """Return a level that the threshold exceeds, with probability 1 - alpha: Lemma 5."""
    if rows.weight == 0.0:
        return -math.inf
    n = rows.sums.size
    W = rows.weight * n / rows.size
    G = rows.k / k * math.sqrt(square_of_leans(rows) * n) / rows.size if rows.k > 0.0 else W
    if G == 0.0:
        return -math.inf
    total = float(rows.sums.sum()) - radius_of(rows, alpha)
    return (total - (W - G) * (mu[1] if W > G else mu[0])) / G


class PlugIn(NamedTuple):
    """What rows add up to for the plug-in estimate, of size a and w_j pulls: see `upper_lines`."""

    weight: float
    """sum_r a"""
    bets: FloatArray
    total: FloatArray
    """sum_r a x_rj"""
    spent: FloatArray
    """sum_r a^2 / w_j"""
    scatter: FloatArray
    """sum_r (a / w_j)^2 sum_s (X_sj - h_j)^2"""
    coarsest: FloatArray
    """max_r a / w_j"""


def no_plug_in_rows(n: int, k: float, nats: float) -> PlugIn:
    """Return what there is before the first row; k is that of thresholds without one arm."""
    bets = bets_for((1.0 + k**2) / (n - 1), nats)
    return PlugIn(0.0, bets, np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))


def with_plug_in_row(rows: PlugIn, row: Tally, size: float, guess: Forecast) -> PlugIn:
    """Add a row worth `size` sweeps; `guess` precedes it."""
    weight, bets, total, spent, scatter, coarsest = rows
    seen = scatter_around(row, guess.centre)
    total, spent, scatter, coarsest = with_sweeps(total, spent, scatter, coarsest, size, row, seen)
    return PlugIn(weight + size, bets, total, spent, scatter, coarsest)


@elementwise
def with_sweeps(
    total: Numbers,
    spent: Numbers,
    scatter: Numbers,
    coarsest: Numbers,
    size: float,
    new: Tally,
    seen: Numbers,
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the sums of `PlugIn` with a row's pulls of an arm."""
    each = size / new.pulls
    spent, scatter = spent + size * each, scatter + each * each * seen
    return total + each * new.total, spent, scatter, np.maximum(coarsest, each)


def upper_lines(
    rows: PlugIn,
    k: float,
    arms: IntArray,
    shift: float,
    largest: FloatArray,
    box: tuple[FloatArray, FloatArray],
) -> Lines:
    """Return the log e-processes against "theta_-i >= y + shift", i in `arms`: Theorem 6.

    k is that of thresholds without one arm. With y_hat = sum_r a x_r / A, a the size of a row and A
    = sum_r a, these are exp(l A (q - theta(y_hat)) - cost), the cost that of `largest_costs`. Its
    prices are those of Lemma 6, each with bets of its own: `light_price` and `seen_price`. What
    |c*_j| may be at most, `largest`, follows from the intervals of the means, `box`, and from
    bounds on mu and sigma, events whose probability is paid for once.
    """
    near = bets_around(rows.weight)
    one, shares = rows.bets[near], -LOG_SHARES[near]
    column = one.reshape(-1, 1)
    light = light_price(column, largest, rows.coarsest, box[0], box[1], rows.spent)
    seen = seen_price(column, largest, rows.coarsest, rows.scatter)
    bets = np.concatenate((one, one))
    shares = np.concatenate((shares - LOG_LIGHT_SHARE, shares - LOG_SEEN_SHARE)).reshape(-1, 1)
    y, prices = rows.total / rows.weight, np.concatenate((light, seen))
    costs, thresholds = largest_costs(arms, y, k, bets * rows.weight, prices)
    speed = np.full(arms.size, rows.weight)
    offset, costs = speed * (shift - thresholds), plus(costs, shares)
    return Lines(offset, speed, bets, costs, np.ones(arms.size))


@elementwise
def light_price(
    bet: Numbers, largest: Numbers, coarsest: Numbers, low: Numbers, high: Numbers, spent: Numbers
) -> Numbers:
    """Return price (a) of Lemma 6: a mean in [low, high], |c*_j| at most `largest`."""
    length = largest * coarsest
    nearest = np.minimum(np.maximum(0.5, low), high)
    light = np.minimum(0.25, bennett_factor(bet * length) * (nearest * (1.0 - nearest)))
    return bet * bet / 2.0 * light * spent


@elementwise
def seen_price(bet: Numbers, largest: Numbers, coarsest: Numbers, scatter: Numbers) -> Numbers:
    """Return the price (b) of Lemma 6."""
    length = largest * coarsest
    return bet * bet * (np.minimum(fan_factor(bet * length), HIGHEST_COST) * scatter)


def upper_bound(rows: PlugIn, k: float, alpha: float) -> float:
    """Return a level above the threshold, with probability 1 - alpha: Lemma 7 (a)."""
    if rows.weight == 0.0:
        return math.inf
    y = rows.total / rows.weight
    return float(y.mean() + k * y.std() + plug_in_radius(rows, k, alpha))


def plug_in_radius(rows: PlugIn, k: float, alpha: float) -> float:
    """Return how far <c*, y_hat - y> is on one side, with probability 1 - alpha."""
    norm = (1.0 + k**2) / rows.total.size
    variance = norm * rows.spent.max() / 4.0
    return float(normal_mixture_boundary(variance, alpha, PLUG_IN_AHEAD * norm) / rows.weight)


def plug_in_lower_bound(rows: PlugIn, k: float, alpha: float) -> float:
    """Return a level the threshold exceeds, with probability 1 - 2 alpha: Lemma 7 (b)."""
    if rows.weight == 0.0:
        return -math.inf
    n, y = rows.total.size, rows.total / rows.weight
    square = square_boundary(n, rows.spent.max() / 4.0, alpha) / rows.weight**2
    left = float(y.var()) - square / n - SMALLEST_VARIANCE
    if k > 0.0 and left <= 0.0:
        return -math.inf
    return float(y.mean()) + k * math.sqrt(max(left, 0.0)) - plug_in_radius(rows, k, alpha)


def bennett_factor(s: Numbers) -> Numbers:
    """Return at least 2 (e^s - 1 - s)/s^2: how far a bounded tail exceeds the Gaussian one."""
    safe = np.minimum(np.maximum(s, 1e-3), 30.0)  # increasing in s: a lower cut is safe
    return choose(s <= 30.0, 2.0 * (np.expm1(safe) - safe) / (safe * safe), np.inf)


def fan_factor(s: Numbers) -> Numbers:
    """Return at least psi(s)/s^2, increasing in s."""
    safe = np.maximum(s, 1e-3)
    return psi_exponential(safe) / (safe * safe)
