"""The evidence of SPADE's joint form in compiled code, one arm at a time.

Loops over arms and bets take the place of arrays, and `if` that of `choose`; every formula is the
one of `oddarms.statistics`, called with numbers. Sums are made in another order, so that the last
digits may differ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

import oddarms.simulation._scalars  # noqa: F401 - makes formulas of arrays take numbers
from oddarms.statistics import direction_box, evidence, joint_evidence, threshold_streams, totals
from oddarms.statistics.direction_box import largest_coefficients, sd_from_tangent
from oddarms.statistics.directions import Tally, scatter_around
from oddarms.statistics.evidence import (
    BETA_SHARE,
    BETS,
    BISECTIONS,
    LOG_LOSSES,
    LOG_SHARES,
    SMALLEST_GAP,
    Sample,
    bet_slope,
    between_rooms,
    finite_or_zero,
    first_room,
    jeffreys_slope,
    log_bet,
    log_jeffreys,
    sample_above,
    sample_below,
)
from oddarms.statistics.joint_evidence import CUTS, Weighed, line_at, next_cut, weighed
from oddarms.statistics.levels import WIDTHS, closeness_at, least_share, log_weight
from oddarms.statistics.threshold_streams import (
    Linear,
    Lines,
    bet_cost,
    direction_of,
    light_price,
    lower_line,
    seen_price,
)
from oddarms.statistics.worst_world import (
    NEWTON_STEPS,
    dual_value,
    first_nu,
    inverse_of,
    next_nu,
    tilt,
)

for _formula in (
    *(totals.relative_error, totals.scatter_of, totals.squares_from),
    *(evidence.sample_of, sample_above, sample_below, evidence.psi_exponential),
    *(evidence.stirling_rest, evidence.jeffreys_start, first_room),
    *(log_bet, bet_slope, log_jeffreys, jeffreys_slope, finite_or_zero, between_rooms),
    *(line_at, next_cut, weighed, joint_evidence.meeting, joint_evidence.steepness_of),
    *(closeness_at, least_share, log_weight, largest_coefficients, sd_from_tangent),
    *(bet_cost, direction_of, light_price, seen_price, lower_line, scatter_around),
    *(threshold_streams.bennett_factor, threshold_streams.fan_factor),
    *(first_nu, next_nu, inverse_of, dual_value, tilt),
):
    register_jitable(error_model="numpy")(_formula)

WIDTH_COUNT = WIDTHS.size
BET_COUNT = BETS.size
LOG_BETA_SHARE = math.log(BETA_SHARE)
LOG_TERMS = math.log(BET_COUNT + 1.0)
"""A sum of so many exponentials exceeds the largest one by at most this, in logs."""


@njit(nogil=True, error_model="numpy")
def log_evidence_of_one(sample: Sample, room: float, logs: Any) -> tuple[float, float]:
    """Return the evidence of one arm and its slope; `logs` is room for as many bets."""
    jeffreys = log_jeffreys(sample, room) + LOG_BETA_SHARE
    highest = -np.inf
    for g in range(BET_COUNT):
        logs[g] = log_bet(sample, room, BETS[g, 0], LOG_LOSSES[g, 0], LOG_SHARES[g, 0])
        highest = max(highest, logs[g])
    top = max(finite_or_zero(highest), jeffreys)
    total = math.exp(jeffreys - top)
    slope = total * jeffreys_slope(sample, room)
    for g in range(BET_COUNT):
        weight = math.exp(logs[g] - top)
        total += weight
        slope += weight * bet_slope(sample, room, BETS[g, 0])
    return math.log(total) + top, slope / total


@njit(nogil=True, error_model="numpy")
def reaches(sample: Sample, room: float, level: float, logs: Any) -> bool:
    """Tell whether the evidence reaches a level.

    It does where one term does, and does not where none comes near.
    """
    jeffreys = log_jeffreys(sample, room) + LOG_BETA_SHARE
    if jeffreys >= level:
        return True
    top = jeffreys
    for g in range(BET_COUNT - 1, -1, -1):
        logs[g] = log_bet(sample, room, BETS[g, 0], LOG_LOSSES[g, 0], LOG_SHARES[g, 0])
        if logs[g] >= level:
            return True
        top = max(top, logs[g])
    if top + LOG_TERMS < level - 1e-6:
        return False
    wealth = math.exp(jeffreys - top)
    for g in range(BET_COUNT):
        wealth += math.exp(logs[g] - top)
    return math.log(wealth) + top >= level


@njit(nogil=True, error_model="numpy")
def excluded_room_of_one(sample: Sample, level: float, logs: Any) -> float:
    """Return the largest room found whose evidence reaches a level; 0 where there is none."""
    inside, outside = max(sample.gap, 0.0), 0.0
    for step in range(BISECTIONS):
        middle = 0.5 * (inside + outside) if step else first_room(sample)
        if middle > SMALLEST_GAP and reaches(sample, middle, level, logs):
            outside = middle
        else:
            inside = middle
    return outside


@njit(nogil=True, error_model="numpy")
def mean_interval_of_one(
    pulls: float, total: float, scatter: float, alpha: float, logs: Any
) -> tuple[float, float]:
    """Return an interval of one mean."""
    level = math.log(2.0 / alpha)
    above = excluded_room_of_one(sample_above(pulls, total, scatter), level, logs)
    below = excluded_room_of_one(sample_below(pulls, total, scatter), level, logs)
    return between_rooms(pulls, above, below)


@njit(nogil=True, error_model="numpy")
def joint_evidence_at(
    y: float, line: Lines, sample: Sample, sign: float, logs: Any
) -> tuple[float, float, float, float]:
    """Return the joint evidence of one arm, its slope and the slopes of its parts."""
    arm, arm_slope = log_evidence_of_one(sample, y if sign > 0.0 else 1.0 - y, logs)
    highest = -np.inf
    for g in range(line.bets.size):
        logs[g] = line_at(line, y, line.bets[g], line.costs[g])
        highest = max(highest, logs[g])
    top = finite_or_zero(highest)
    total, bet = 0.0, 0.0
    for g in range(line.bets.size):
        weight = math.exp(logs[g] - top)
        total += weight
        bet += weight * line.bets[g]
    slope, line_slope = sign * arm_slope, bet / total * line.speed
    return arm + (math.log(total) + top), slope + line_slope, slope, line_slope


@njit(nogil=True, error_model="numpy")
def weigh_of_one(
    low: float, high: float, line: Lines, sample: Sample, sign: float, logs: Any
) -> Weighed:
    """Return a lower bound on the smallest joint evidence of one arm."""
    left = joint_evidence_at(low, line, sample, sign, logs)
    right = joint_evidence_at(high, line, sample, sign, logs)
    for _ in range(CUTS):
        y = next_cut(low, left, right, high - low)
        found = joint_evidence_at(y, line, sample, sign, logs)
        if found[1] > 0.0:
            high, right = y, found
        else:
            low, left = y, found
    return weighed(low, high, left, right, line, sign)


@njit(nogil=True, error_model="numpy")
def log_relative_weight(i: int, near: Any, sums: Any, steepness: float, slack: float) -> float:
    """Return what the weight of arm i adds to its evidence; `near` has the closeness of all."""
    shares = 0.0
    for w in range(WIDTH_COUNT):
        others = max(sums[w] - near[w, i], 0.0)
        shares += least_share(others, steepness, slack, WIDTHS[w, 0])
    return log_weight(near.shape[1], shares)


@njit(nogil=True, error_model="numpy")
def add_row(rows: Linear, row: Tally, around: Any, size: float, lean: Any, variance: Any) -> Linear:
    """Add a row to a stream: `with_row`, in place; `around` has the squares around the centres."""
    pulls, c = row.pulls, direction_of(rows, lean)
    for j in range(pulls.size):
        scaled = size * c[j]
        rows.sums[j] += scaled * (row.total[j] / pulls[j])
        rows.leans[j] += size * lean[j]
        step = abs(scaled) / pulls[j]
        for g in range(rows.spent.size):
            cost = bet_cost(rows.bets[g] * step, pulls[j], around[j], variance[j])
            rows.costs[g, j] += cost
            rows.spent[g] += cost
    weight, kept = rows.weight + size, (rows.sums, rows.leans, rows.costs, rows.spent)
    return Linear(rows.k, rows.size, weight, rows.bets, *kept)


@njit(nogil=True, error_model="numpy")
def smallest_sd_without(i: int, low: Any, high: Any) -> float:
    """Return a lower bound on the sd of numbers in [low_j, high_j], j other than i."""
    left, right = 0.0, 1.0
    for _ in range(direction_box.BISECTIONS):
        t = 0.5 * (left + right)
        slope = 0.0
        for j in range(low.size):
            if j != i:
                slope += max(t - high[j], 0.0) - max(low[j] - t, 0.0)
        if slope < 0.0:
            left = t
        else:
            right = t
    squares, distances = 0.0, 0.0
    for j in range(low.size):
        if j != i:
            distance = max(left - high[j], 0.0) + max(low[j] - left, 0.0)
            squares += distance * distance
            distances += distance
    return sd_from_tangent(squares, 2.0 * (right - left) * distances, low.size, low.size - 1.0)


@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def on_sphere_of_one(t: Any, q: Any, inverse: Any) -> float:
    """Return at least the largest sum_j t_j z_j + q_j z_j^2 on the sphere, for one stake."""
    m = t.size
    q_1, q_2, centre = 0.0, 0.0, 0.0
    for j in range(m):
        q_2 = max(q_2, min(q_1, q[j]))
        q_1 = max(q_1, q[j])
        centre += t[j]
    centre /= m
    energy = 0.0
    for j in range(m):
        energy += (t[j] - centre) * (t[j] - centre)
    nu, least = first_nu(q_1, q_2, energy, centre, float(m))
    best = np.inf
    for _ in range(NEWTON_STEPS):
        weight, tau = 0.0, 0.0
        for j in range(m):
            inverse[j] = inverse_of(nu, q[j])
            weight += inverse[j]
            tau += t[j] * inverse[j]
        tau /= weight
        total, by_square, by_cube, bend = 0.0, 0.0, 0.0, 0.0
        for j in range(m):
            away = t[j] - tau
            fit = away * away * inverse[j]
            total += fit
            by_square += fit * inverse[j]
            by_cube += fit * inverse[j] * inverse[j]
            bend += away * inverse[j] * inverse[j]
        best = min(best, dual_value(nu, total, float(m)))
        nu = next_nu(nu, least, by_square, by_cube - bend * (bend / weight), float(m))
    return best


@njit(nogil=True, error_model="numpy")
def costs_without(
    i: int, y: Any, k: float, stakes: Any, prices: Any, room: Any
) -> tuple[Any, float]:
    """Return `largest_costs` of arm i, and its plug-in threshold; `room` is for 5 arrays."""
    n = y.size
    m = n - 1.0
    deviations, t, q, inverse, costs = (
        room[0, : n - 1],
        room[1, : n - 1],
        room[2, : n - 1],
        room[3, : n - 1],
        room[4, : stakes.size],
    )
    mean = 0.0
    for j in range(n):
        if j != i:
            mean += y[j]
    mean /= m
    squares = 0.0
    for j in range(n):
        if j != i:
            deviation = y[j] - mean
            deviations[j - (j > i)] = deviation
            squares += deviation * deviation
    sd = math.sqrt(squares / m)
    for s in range(stakes.size):
        total = 0.0
        for j in range(n):
            if j != i:
                place = j - (j > i)
                value = prices[s, j] / (m * m)
                total += value
                t[place] = tilt(stakes[s], deviations[place], value, m)
                q[place] = k * value
        costs[s] = total - stakes[s] * (k * sd) + k * on_sphere_of_one(t, q, inverse)
    return costs, mean + k * sd
