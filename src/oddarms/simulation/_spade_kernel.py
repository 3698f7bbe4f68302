"""SPADE's joint form in compiled code: whole runs.

Steps, plans, forecasts, streams and bounds are the functions that the class calls, and every
formula is the one of `oddarms.statistics`. The evidence of single arms takes loops over arms and
bets in place of arrays: numba needs a third of a second for an expression of arrays, so that the
class's own `decide` would take minutes to compile. Sums are made in another order there, so that
the last digits may differ.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from oddarms.algorithms._spade_joint import (
    BOX_SHARE,
    LOOK_AGAIN,
    NORMAL,
    OUTLIER,
    UNDECIDED,
    Rows,
    Rules,
    Standing,
    bounded,
    bracket,
    interval_of_mu,
    joint_row_weights,
    least_gap,
    narrowed,
    rows_with,
    threshold_shares,
)
from oddarms.algorithms._spade_plans import (
    LEAST_DOUBT,
    Steps,
    less_than_a_row,
    next_step,
    steps_after,
)
from oddarms.problem import FloatArray
from oddarms.simulation._draws import draw, draw_sum
from oddarms.simulation._families import BERNOULLI
from oddarms.simulation._kernel_cache import OPTIONS, kernel
from oddarms.statistics import direction_box
from oddarms.statistics.direction_box import largest_coefficients, sd_from_tangent
from oddarms.statistics.directions import (
    Forecast,
    Tally,
    forecast,
    tally_seen,
    thresholds_without_one,
)
from oddarms.statistics.evidence import (
    BETA_SHARE,
    BETS,
    BISECTIONS,
    LEAST_LEVEL,
    LOG_LOSSES,
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
from oddarms.statistics.evidence import LOG_SHARES as LOG_BET_SHARES
from oddarms.statistics.joint_evidence import CUTS, Weighed, line_at, next_cut, weighed
from oddarms.statistics.levels import closeness, log_weight
from oddarms.statistics.threshold_streams import (
    AROUND,
    LOG_LIGHT_SHARE,
    LOG_SEEN_SHARE,
    LOG_SHARES,
    Lines,
    PlugIn,
    bets_around,
    costs_near,
    light_price,
    lower_line,
    seen_price,
    square_of_leans,
)
from oddarms.statistics.totals import Totals, scatter_of, squares_from
from oddarms.statistics.worst_world import (
    NEWTON_STEPS,
    dual_value,
    first_nu,
    inverse_of,
    next_nu,
    tilt,
)

BET_COUNT = BETS.size
LOG_BETA_SHARE = math.log(BETA_SHARE)
LOG_TERMS = math.log(BET_COUNT + 1.0)
"""A sum of so many exponentials exceeds the largest one by at most this, in logs."""
MOST_TERMS = max(BET_COUNT, 2 * (2 * AROUND + 1))
"""As many as any evidence has terms: bets on an arm, or those of a stream, at either price."""


def pull(
    rng: Any, family: int, y: Any, parameter: float, mirrored: bool, counts: Any
) -> tuple[Any, Any]:
    """Return sums and sums of squares of a step's rewards, drawn and added up as `find` does."""
    n = counts.size
    sums = np.zeros(n)
    squares = np.zeros(n)
    single = counts.max() == 1
    for i in range(n):
        count = counts[i]
        if count == 0:
            continue
        if family != BERNOULLI:
            for _ in range(count):
                reward = draw(rng, family, y[i], parameter, mirrored)
                sums[i] += reward
                squares[i] += reward * reward
            continue
        if single:
            ones = draw(rng, family, y[i], parameter, False)
        else:
            ones = draw_sum(rng, family, y[i], parameter, False, count)
        sums[i] = count - ones if mirrored else ones
        squares[i] = squares_from(count, sums[i], scatter_of(count, ones, ones))
    return sums, squares


def log_evidence_of_one(sample: Sample, room: float, logs: Any) -> tuple[float, float]:
    """Return the evidence of one arm and its slope; `logs` is room for as many bets."""
    jeffreys = log_jeffreys(sample, room) + LOG_BETA_SHARE
    highest = -np.inf
    for g in range(BET_COUNT):
        logs[g] = log_bet(sample, room, BETS[g, 0], LOG_LOSSES[g, 0], LOG_BET_SHARES[g, 0])
        highest = max(highest, logs[g])
    top = max(finite_or_zero(highest), jeffreys)
    total = math.exp(jeffreys - top)
    slope = total * jeffreys_slope(sample, room)
    for g in range(BET_COUNT):
        weight = math.exp(logs[g] - top)
        total += weight
        slope += weight * bet_slope(sample, room, BETS[g, 0])
    return math.log(total) + top, slope / total


def reaches(sample: Sample, room: float, level: float, logs: Any) -> bool:
    """Tell whether the evidence reaches a level.

    It does where one term does, and does not where none comes near.
    """
    jeffreys = log_jeffreys(sample, room) + LOG_BETA_SHARE
    if jeffreys >= level:
        return True
    top = jeffreys
    for g in range(BET_COUNT - 1, -1, -1):
        logs[g] = log_bet(sample, room, BETS[g, 0], LOG_LOSSES[g, 0], LOG_BET_SHARES[g, 0])
        if logs[g] >= level:
            return True
        top = max(top, logs[g])
    if top + LOG_TERMS < level - 1e-6:
        return False
    wealth = math.exp(jeffreys - top)
    for g in range(BET_COUNT):
        wealth += math.exp(logs[g] - top)
    return math.log(wealth) + top >= level


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


def mean_interval_of_one(
    pulls: float, total: float, scatter: float, alpha: float, logs: Any
) -> tuple[float, float]:
    """Return an interval of one mean."""
    level = math.log(2.0 / alpha)
    above = excluded_room_of_one(sample_above(pulls, total, scatter), level, logs)
    below = excluded_room_of_one(sample_below(pulls, total, scatter), level, logs)
    return between_rooms(pulls, above, below)


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


@njit(**OPTIONS, fastmath={"reassoc", "contract"})
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


def looked(rules: Rules, known: Standing, tally: Tally, logs: Any) -> Standing:
    """Narrow the intervals of all means, and the threshold by them, after enough new pulls."""
    n, pulls = tally.pulls.size, tally.pulls.sum()
    if pulls < LOOK_AGAIN * known.pulls_seen:
        return known
    low, high, alpha = np.empty(n), np.empty(n), BOX_SHARE * rules.delta / n
    for i in range(n):
        low[i], high[i] = mean_interval_of_one(
            tally.pulls[i], tally.total[i], tally.scatter[i], alpha, logs
        )
    return narrowed(rules, known, (low, high), pulls)


class Look(NamedTuple):
    """What a step knows when it looks at the evidence of its open arms."""

    tally: Tally
    guess: Forecast
    near: FloatArray
    """The closeness of each arm to its threshold: `oddarms.statistics.levels`."""
    all_near: float
    """The sum over all arms."""
    shares: FloatArray
    """The threshold's shares of the doubt."""


def settle_one_by_one(rules: Rules, known: Standing, arms: Any, tally: Tally, logs: Any) -> None:
    """Decide the open arms whose interval and that of the threshold do not meet: `settle`."""
    n, near = tally.pulls.size, rules.slack * rules.rate
    low, high = known.low + near, known.high - near
    level = np.log(2.0 / (BOX_SHARE * rules.delta / n))
    least_room = max(np.nextafter(1.0 - low, 2.0), LEAST_LEVEL)
    most_room = max(high, LEAST_LEVEL)
    for i in arms:
        if known.verdicts[i] != UNDECIDED:
            continue
        some = tally.pulls[i], tally.total[i], tally.scatter[i]
        mean = some[1] / some[0]
        below, above = low > 1.0, high <= 0.0
        if LEAST_LEVEL < low <= 1.0 and 1.0 - mean > least_room:
            below = reaches(sample_below(*some), least_room, level, logs)
        if not below and 0.0 < high < 1.0 and mean > most_room:
            above = reaches(sample_above(*some), most_room, level, logs)
        if below or above:
            known.log_evidence[i] = max(known.log_evidence[i], rules.log_level)
            known.verdicts[i] = NORMAL if below else OUTLIER


def prices_of(rows: PlugIn, k: float, bets: Any, above: Any, mu: Any, box: Any) -> Any:
    """Return both prices of each bet along the thresholds without one of these arms."""
    n = rows.total.size
    m = n - 1.0
    sigma, highest, lowest = np.inf, 0.0, 1.0
    for i in above:
        sigma = min(sigma, smallest_sd_without(i, box[0], box[1]))
        highest = max(highest, box[1][i])
        lowest = min(lowest, box[0][i])
    others = (n * mu[0] - highest) / m, (n * mu[1] - lowest) / m
    prices = np.empty((2 * bets.size, n))
    for j in range(n):
        low, high = box[0][j], box[1][j]
        length = largest_coefficients(low, high, k, m, others, sigma) * rows.coarsest[j]
        for g in range(bets.size):
            prices[g, j] = light_price(bets[g], length, low, high, rows.spent[j])
            prices[bets.size + g, j] = seen_price(bets[g], length, rows.scatter[j])
    return prices


def weigh_arm(
    rules: Rules, at: Look, i: int, level: float, line: Lines, sign: float, logs: Any
) -> tuple[float, float]:
    """Return the evidence on arm i, weight included, and the threshold's share of its doubt."""
    some = at.tally.pulls[i], at.tally.total[i], at.tally.scatter[i]
    sample = sample_above(*some) if sign > 0.0 else sample_below(*some)
    left, right = bracket(at.guess.mean[i], level)
    found = weigh_of_one(left, right, line, sample, sign, logs)
    others = at.all_near - at.near[i]
    added = log_weight(at.near.size, others, found.steepness, rules.slack)
    return found.evidence + added, threshold_shares(level, at.guess.mean[i], found.y)


def settle_of_one(rules: Rules, known: Standing, i: int, evidence: float, verdict: int) -> None:
    """Record the evidence on arm i, and the verdict if it suffices: see `conclude`."""
    enough = evidence >= rules.log_level
    if enough or known.verdicts[i] == UNDECIDED:
        known.log_evidence[i] = evidence
    if enough:
        known.verdicts[i] = verdict


def weigh_below(
    rules: Rules, rows: Rows, known: Standing, at: Look, below: Any, mu: Any, theta: Any
) -> None:
    """Weigh the arms that seem to be below their threshold."""
    lower = rows.lower
    square = square_of_leans(lower)
    bets = bets_around(lower.weight)
    costs, spent = costs_near(lower.costs, bets), costs_near(lower.spent, bets)
    log_shares, sum_of_all = LOG_SHARES[bets], lower.sums.sum()
    logs, cost = np.empty(MOST_TERMS), np.empty(spent.size)
    for i in below:
        total, own = sum_of_all - lower.sums[i], lower.leans[i]
        for g in range(cost.size):
            cost[g] = max(spent[g] - costs[g, i], 0.0) - log_shares[g]
        offset, speed, share = lower_line(lower, square, own, total, -rules.slack, mu)
        line = Lines(offset, speed, lower.bets[bets], cost, share)
        evidence, at.shares[i] = weigh_arm(rules, at, i, theta[i] + rules.slack, line, -1.0, logs)
        settle_of_one(rules, known, i, evidence, NORMAL)


def weigh_above(
    rules: Rules, rows: Rows, known: Standing, at: Look, above: Any, mu: Any, theta: Any
) -> None:
    """Weigh the arms that seem to be above their threshold."""
    upper = rows.upper
    n, weight = theta.size, upper.weight
    around = bets_around(weight)
    one, log_shares = upper.bets[around], LOG_SHARES[around]
    prices = prices_of(upper, rules.others_k, one, above, mu, known.box)
    bets = np.concatenate((one, one))
    log_share = np.concatenate((log_shares + LOG_LIGHT_SHARE, log_shares + LOG_SEEN_SHARE))
    logs, room = np.empty(MOST_TERMS), np.empty((5, max(n, MOST_TERMS)))
    for i in above:
        costs, plug_in = costs_without(
            i, upper.total / weight, rules.others_k, bets * weight, prices, room
        )
        costs -= log_share
        line = Lines(weight * (rules.slack - plug_in), weight, bets, costs, 1.0)
        evidence, at.shares[i] = weigh_arm(rules, at, i, theta[i] - rules.slack, line, 1.0, logs)
        settle_of_one(rules, known, i, evidence, OUTLIER)


def decide_one_by_one(
    rules: Rules, rows: Rows, known: Standing, arms: Any, tally: Tally, guess: Forecast
) -> Standing:
    """Weigh each open arm on the side of its threshold where it seems to be: `decide`."""
    mu = interval_of_mu(rules, rows)
    known = bounded(rules, rows, known, mu)
    if rows.upper.weight == 0.0:
        return known
    near = closeness(least_gap(rules, known, known.box[0], known.box[1]))
    at = Look(tally, guess, near, near.sum(), np.full(near.size, 0.5))
    theta = thresholds_without_one(guess.shrunk, rules.others_k)
    below = arms[guess.mean[arms] < theta[arms] + rules.slack]
    above = arms[guess.mean[arms] > theta[arms] - rules.slack]
    if below.size > 0:
        weigh_below(rules, rows, known, at, below, mu, theta)
    if above.size > 0:
        weigh_above(rules, rows, known, at, above, mu, theta)
    verdicts, log_evidence, low, high, box, pulls_seen, share = known
    left = arms[verdicts[arms] == UNDECIDED]
    if left.size > 0:
        share = at.shares[left].mean()
    return Standing(verdicts, log_evidence, low, high, box, pulls_seen, share)


@kernel
def run_spade(
    y: Any,
    rules: Rules,
    rows: Rows,
    known: Standing,
    swapped: bool,
    budget: int,
    family: int,
    parameter: float,
    mirrored: bool,
    reward_rng: Any,
) -> tuple[int, int, Totals, Rows, Standing]:
    """Make all steps of a run; the arguments have what is known before the first one.

    `swapped` says whether the certificate sees the rewards in a mirror (`View`), `mirrored` whether
    the search does. Returns rounds, threshold pulls, totals, and what is known in the end.
    """
    n = y.size
    totals = Totals(np.zeros(n), np.zeros(n), np.zeros(n))
    weights, logs = np.ones(n), np.empty(MOST_TERMS)
    guess = Forecast(weights, weights, weights, weights, weights)  # none before the first row
    steps = Steps(0, 0.0, 0.0, 1.0, 0)
    used, rounds, threshold_pulls = 0, 0, 0
    while True:
        undecided, limit = known.verdicts == UNDECIDED, budget - used
        if not undecided.any():
            break
        if totals.pulls.min() > 0.0:
            weights = joint_row_weights(rules.k, tally_seen(totals, swapped), guess)
        share = known.threshold_share
        counts, size = next_step(
            steps, False, share, LEAST_DOUBT, weights, totals.pulls, undecided, limit
        )
        if counts.sum() > limit:
            if used > 0 or limit <= 0:
                break
            counts, size = less_than_a_row(n, limit), 0.0
        sums, squares = pull(reward_rng, family, y, parameter, mirrored, counts)
        new = Totals(counts.astype(np.float64), sums, squares)
        if size > 0.0:
            threshold_pulls += counts[~undecided].sum()
            if steps.rows > 0:
                rows = rows_with(rows, tally_seen(new, swapped), size, guess, rules.margin)
        steps = steps_after(steps, counts, size)
        used += counts.sum()
        rounds += 1
        totals = Totals(
            totals.pulls + new.pulls, totals.total + new.total, totals.squares + new.squares
        )
        tally = tally_seen(totals, swapped)
        if totals.pulls.min() > 0.0:
            guess = forecast(tally)
        known = looked(rules, known, tally, logs)
        arms = np.flatnonzero(undecided)
        if steps.rows >= 2:
            known = decide_one_by_one(rules, rows, known, arms, tally, guess)
        settle_one_by_one(rules, known, arms, tally, logs)
    return rounds, threshold_pulls, totals, rows, known
