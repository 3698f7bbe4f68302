"""SPADE's joint form in compiled code.

Only the bookkeeping of steps and of verdicts is written anew; plans, forecasts and bounds are the
functions that the interactive algorithm calls, see also `oddarms.simulation._spade_evidence`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from oddarms.algorithms import Decision
from oddarms.algorithms._base import ROUNDING
from oddarms.algorithms._spade_joint import (
    BOX_SHARE,
    END_SHARE,
    JOINT_ARMS_SHARE,
    LOOK_AGAIN,
    MU_SHARE,
    OUTLIER,
    PLUG_IN_SHARE,
    UNDECIDED,
    Rows,
    Rules,
    Standing,
    bracket,
    distance_rate,
    empty_rows,
    joint_row_weights,
    least_gap,
    level_of_arms,
    means_without_one,
    nats_of_bets,
    threshold_shares,
)
from oddarms.algorithms._spade_joint import NORMAL as FOUND_NORMAL
from oddarms.algorithms._spade_plans import (
    FIRST_ROWS,
    LONGEST_FOCUS,
    affordable_size,
    counts_of_focus,
    counts_of_row,
    estimated_threshold,
    next_size,
    row_gains_more,
)
from oddarms.simulation._draws import draw, draw_sum
from oddarms.simulation._families import BERNOULLI
from oddarms.simulation._kernel_cache import kernel
from oddarms.simulation._spade_evidence import (
    BET_COUNT,
    WIDTH_COUNT,
    add_row,
    costs_without,
    log_relative_weight,
    mean_interval_of_one,
    reaches,
    smallest_sd_without,
    weigh_of_one,
)
from oddarms.statistics import threshold_box
from oddarms.statistics.direction_box import largest_coefficients
from oddarms.statistics.directions import (
    Forecast,
    Tally,
    forecast,
    lean_of,
    quantile_of,
    scatter_around,
    thresholds_without_one,
)
from oddarms.statistics.evidence import (
    LEAST_LEVEL,
    normal_mixture_boundary,
    sample_above,
    sample_below,
    square_boundary,
)
from oddarms.statistics.levels import WIDTHS, closeness_at
from oddarms.statistics.threshold_box import lower_bounds, upper_bounds
from oddarms.statistics.threshold_streams import (
    AROUND,
    LOG_LIGHT_SHARE,
    LOG_SEEN_SHARE,
    LOG_SHARES,
    Lines,
    PlugIn,
    bets_around,
    bets_for,
    costs_near,
    falls_slowly,
    flat_line,
    interval_of_mean,
    light_price,
    lower_bound,
    lower_line,
    no_plug_in_rows,
    no_rows,
    plug_in_lower_bound,
    plug_in_radius,
    radius_of,
    seen_price,
    square_of_leans,
    upper_bound,
    with_plug_in_row,
)
from oddarms.statistics.totals import scatter_of, squares_from

for _formula in (
    *(bracket, distance_rate, joint_row_weights, least_gap, level_of_arms, threshold_shares),
    *(nats_of_bets, row_gains_more, next_size, affordable_size, counts_of_row, counts_of_focus),
    *(estimated_threshold, forecast, lean_of, quantile_of, thresholds_without_one),
    *(normal_mixture_boundary, bets_around, bets_for, costs_near, interval_of_mean),
    *(no_plug_in_rows, no_rows, radius_of, square_of_leans, upper_bound, with_plug_in_row),
    *(
        lower_bound,
        plug_in_lower_bound,
        plug_in_radius,
        square_boundary,
        empty_rows,
        means_without_one,
        falls_slowly,
        flat_line,
    ),
    *(threshold_box.rounding, threshold_box._mean_and_sd, threshold_box._along),
    *(threshold_box._lean_at_least, lower_bounds, upper_bounds),
):
    register_jitable(error_model="numpy")(_formula)

NORMAL, HIGH = int(Decision.NORMAL), int(Decision.HIGH)
MOST_TERMS = max(BET_COUNT, 2 * (2 * AROUND + 1))
"""As many as any evidence has terms: bets on an arm, or those of a stream, at either price."""


@njit(nogil=True, error_model="numpy")
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


@njit(nogil=True, error_model="numpy")
def seen(pulls: Any, total: Any, squares: Any, mirrored: bool) -> Tally:
    """Return the tally as the certificate sees it."""
    sums = np.empty(pulls.size)
    scatter = np.empty(pulls.size)
    for i in range(pulls.size):
        sums[i] = pulls[i] - total[i] if mirrored else total[i]
        scatter[i] = scatter_of(pulls[i], total[i], squares[i])
    return Tally(pulls, sums, scatter)


@njit(nogil=True, error_model="numpy")
def row_taken(rows: Rows, row: Tally, size: float, guess: Forecast) -> Rows:
    """Enter a row into all streams: `rows_with`, in place."""
    around = scatter_around(row, guess.centre)
    lean = lean_of(guess.shrunk, guess.error)
    return Rows(
        add_row(rows.mu, row, around, size, lean, guess.variance),
        add_row(rows.common, row, around, size, lean, guess.variance),
        add_row(rows.lower, row, around, size, lean, guess.variance),
        with_plug_in_row(rows.upper, row, size, guess),
    )


@njit(nogil=True, error_model="numpy")
def look(rules: Rules, known: Standing, tally: Tally, logs: Any) -> Standing:
    """Narrow the intervals of all means, and the threshold by them, after enough new pulls."""
    pulls, box = tally.pulls.sum(), known.box
    if pulls < LOOK_AGAIN * known.pulls_seen:
        return known
    alpha = BOX_SHARE * rules.delta / tally.pulls.size
    for i in range(tally.pulls.size):
        low, high = mean_interval_of_one(
            tally.pulls[i], tally.total[i], tally.scatter[i], alpha, logs
        )
        box[0][i] = max(box[0][i], low)
        box[1][i] = min(box[1][i], high)
    least = max(known.low, lower_bounds(box[0], box[1], rules.k)[0])
    most = min(known.high, upper_bounds(box[0], box[1], rules.k)[0])
    kept = known.verdicts, known.log_evidence
    return Standing(*kept, least, most, box, pulls, known.threshold_share)


@njit(nogil=True, error_model="numpy")
def settle_one_by_one(rules: Rules, known: Standing, tally: Tally, logs: Any) -> None:
    """Decide the open arms whose interval and that of the threshold do not meet: `settle`."""
    n, near = tally.pulls.size, rules.slack * rules.rate
    low, high = known.low + near, known.high - near
    level = np.log(2.0 / (BOX_SHARE * rules.delta / n))
    least_room = max(np.nextafter(1.0 - low, 2.0), LEAST_LEVEL)
    most_room = max(high, LEAST_LEVEL)
    for i in range(n):
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
            known.verdicts[i] = FOUND_NORMAL if below else OUTLIER


@njit(nogil=True, error_model="numpy")
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


@njit(nogil=True, error_model="numpy")
def settle_of_one(rules: Rules, known: Standing, i: int, evidence: float, verdict: int) -> None:
    """Record the evidence on arm i, and the verdict if it suffices: see `conclude`."""
    enough = evidence >= rules.log_level
    if enough or known.verdicts[i] == UNDECIDED:
        known.log_evidence[i] = evidence
    if enough:
        known.verdicts[i] = verdict


@njit(nogil=True, error_model="numpy")
def weigh_below(
    rules: Rules, rows: Rows, known: Standing, below: Any, mu: Any, tally: Tally, guess: Forecast,
    theta: Any, near: Any, sums: Any, shares: Any,
) -> None:  # fmt: skip
    """Weigh the arms that seem to be below their threshold."""
    lower = rows.lower
    square = square_of_leans(lower)
    bets = bets_around(lower.weight)
    costs, spent = costs_near(lower.costs, bets), costs_near(lower.spent, bets)
    log_shares, sum_of_all = LOG_SHARES[bets], lower.sums.sum()
    logs, cost = np.empty(MOST_TERMS), np.empty(spent.size)
    centres = means_without_one(guess.mean)
    for i in below:
        total = sum_of_all - lower.sums[i]
        own = lower.leans[i]
        offset, speed, share = lower_line(lower, square, own, total, -rules.slack, mu)
        for g in range(cost.size):
            cost[g] = max(spent[g] - costs[g, i], 0.0) - log_shares[g]
        line = Lines(offset, speed, lower.bets[bets], cost, share)
        sample = sample_below(tally.pulls[i], tally.total[i], tally.scatter[i])
        level = theta[i] + rules.slack
        left, right = bracket(guess.mean[i], level)
        found = weigh_of_one(left, right, line, sample, -1.0, logs)
        added = log_relative_weight(i, near, sums, found.steepness, rules.slack)
        evidence, shares[i] = (
            found.evidence + added,
            threshold_shares(level, guess.mean[i], found.y),
        )
        offset, flat_speed = flat_line(lower, own, total, -rules.slack)
        if falls_slowly(speed, flat_speed):
            line = Lines(offset, flat_speed, lower.bets[bets], cost, 1.0)
            level = centres[i] + rules.slack
            left, right = bracket(guess.mean[i], level)
            found = weigh_of_one(left, right, line, sample, -1.0, logs)
            added = log_relative_weight(i, near, sums, found.steepness, rules.slack)
            if found.evidence + added > evidence:
                evidence = found.evidence + added
                shares[i] = threshold_shares(level, guess.mean[i], found.y)
        settle_of_one(rules, known, i, evidence, FOUND_NORMAL)


@njit(nogil=True, error_model="numpy")
def weigh_above(
    rules: Rules, rows: Rows, known: Standing, above: Any, mu: Any, tally: Tally, guess: Forecast,
    theta: Any, near: Any, sums: Any, shares: Any,
) -> None:  # fmt: skip
    """Weigh the arms that seem to be above their threshold."""
    upper = rows.upper
    n, weight = tally.pulls.size, upper.weight
    around = bets_around(weight)
    one, log_shares = upper.bets[around], LOG_SHARES[around]
    prices = prices_of(upper, rules.others_k, one, above, mu, known.box)
    count = one.size
    bets, stakes, log_share = np.empty(2 * count), np.empty(2 * count), np.empty(2 * count)
    for g in range(2 * count):
        bets[g] = one[g % count]
        stakes[g] = bets[g] * weight
        log_share[g] = log_shares[g % count] + (LOG_LIGHT_SHARE if g < count else LOG_SEEN_SHARE)
    y = upper.total / weight
    logs, room = np.empty(MOST_TERMS), np.empty((5, max(n, MOST_TERMS)))
    for i in above:
        costs, plug_in = costs_without(i, y, rules.others_k, stakes, prices, room)
        for g in range(costs.size):
            costs[g] -= log_share[g]
        line = Lines(weight * (rules.slack - plug_in), weight, bets, costs, 1.0)
        sample = sample_above(tally.pulls[i], tally.total[i], tally.scatter[i])
        level = theta[i] - rules.slack
        left, right = bracket(guess.mean[i], level)
        found = weigh_of_one(left, right, line, sample, 1.0, logs)
        added = log_relative_weight(i, near, sums, found.steepness, rules.slack)
        settle_of_one(rules, known, i, found.evidence + added, OUTLIER)
        shares[i] = threshold_shares(level, guess.mean[i], found.y)


@njit(nogil=True, error_model="numpy")
def decide_one_by_one(
    rules: Rules, rows: Rows, known: Standing, arms: Any, tally: Tally, guess: Forecast
) -> Standing:
    """Weigh each open arm on the side of its threshold where it seems to be."""
    n = tally.pulls.size
    mu = interval_of_mean(rows.mu, MU_SHARE * rules.delta)
    end = END_SHARE * rules.delta
    plug_in = plug_in_lower_bound(rows.upper, rules.k, PLUG_IN_SHARE * rules.delta)
    low = max(known.low, lower_bound(rows.common, end, mu), plug_in)
    high = min(known.high, upper_bound(rows.upper, rules.k, end))
    verdicts, log_evidence, box = known.verdicts, known.log_evidence, known.box
    pulls_seen, share = known.pulls_seen, known.threshold_share
    if rows.upper.weight == 0.0:
        return Standing(verdicts, log_evidence, low, high, box, pulls_seen, share)
    now = Standing(verdicts, log_evidence, low, high, box, pulls_seen, share)
    near, sums = np.empty((WIDTH_COUNT, n)), np.zeros(WIDTH_COUNT)
    for j in range(n):
        gap = least_gap(rules, now, box[0][j], box[1][j])
        for w in range(WIDTH_COUNT):
            near[w, j] = closeness_at(gap, WIDTHS[w, 0])
            sums[w] += near[w, j]
    theta = thresholds_without_one(guess.shrunk, rules.others_k)
    shares = np.full(n, 0.5)
    below = arms[guess.mean[arms] < theta[arms] + rules.slack]
    above = arms[guess.mean[arms] > theta[arms] - rules.slack]
    if below.size > 0:
        weigh_below(rules, rows, now, below, mu, tally, guess, theta, near, sums, shares)
    if above.size > 0:
        weigh_above(rules, rows, now, above, mu, tally, guess, theta, near, sums, shares)
    left, total = 0, 0.0
    for i in arms:
        if verdicts[i] == UNDECIDED:
            left += 1
            total += shares[i]
    if left > 0:
        share = total / left
    return Standing(verdicts, log_evidence, low, high, box, pulls_seen, share)


@kernel
def run_spade(
    y: Any,
    k: float,
    delta: float,
    others_k: float,
    indifference: float,
    budget: int,
    family: int,
    parameter: float,
    mirrored: bool,
    reward_rng: Any,
    pulls: Any,
    out: Any,
) -> tuple[int, int, float, float]:
    """Run SPADE; fill `pulls` and `out`; return rounds, threshold pulls, estimate, half width.

    `others_k` is that of thresholds without one arm, `leave_one_out_k` of |k|; infinite where no
    arm can reach the threshold.
    """
    n = y.size
    swapped = k < 0.0  # seen in a mirror, see `View`
    if others_k == np.inf:
        out[:] = HIGH if swapped else NORMAL
        return 0, 0, np.nan, np.inf
    size_k = abs(k)
    rate = distance_rate(n, size_k)
    nats, level = nats_of_bets(n, delta), level_of_arms(n, JOINT_ARMS_SHARE, delta)
    rules = Rules(size_k, others_k, delta, indifference / rate, rate, level)
    rows = empty_rows(n, size_k, others_k, nats)
    box = np.zeros(n), np.ones(n)
    verdicts = np.zeros(n, dtype=np.int8)
    known = Standing(verdicts, np.zeros(n), -np.inf, np.inf, box, 0.0, 0.5)
    every, total, squares = np.zeros(n), np.zeros(n), np.zeros(n)
    tally = seen(every, total, squares, swapped)
    weights, logs = np.ones(n), np.empty(MOST_TERMS)
    guess = Forecast(weights, weights, weights, weights, weights)  # none before the first row
    rounds, threshold_pulls, used, count, focus_steps = 0, 0, 0, 0, 0
    sweeps, row_pulls = 0.0, 0.0
    while True:
        undecided = verdicts == UNDECIDED
        if not undecided.any():
            break
        limit = budget - used
        size = 0.0
        counts = pulls
        if (
            count < FIRST_ROWS
            or focus_steps >= LONGEST_FOCUS
            or row_gains_more(known.threshold_share, row_pulls, every, undecided)
        ):
            size = next_size(count, sweeps)
            if count >= FIRST_ROWS:
                weights = joint_row_weights(size_k, tally, guess)
            counts = counts_of_row(n, size, count, weights)
            if counts.sum() > limit:
                size = affordable_size(size, limit, n)
                counts = counts_of_row(n, size, count, weights)
            if counts.sum() > limit and count >= FIRST_ROWS:
                size = 0.0
        if size == 0.0:
            focus_steps += 1
            counts = counts_of_focus(every, undecided, limit)
        else:
            focus_steps = 0
        cost = counts.sum()
        if cost > limit:
            if used > 0 or limit <= 0:
                break
            size = 0.0  # less than a row
            counts = (np.arange(n) < limit).astype(np.int64)
            cost = limit
        sums, sums_of_squares = pull(reward_rng, family, y, parameter, mirrored, counts)
        pulls += counts
        used += cost
        if size > 0.0:
            threshold_pulls += counts[~undecided].sum()
            if count > 0:
                row = seen(counts.astype(np.float64), sums, sums_of_squares, swapped)
                rows = row_taken(rows, row, size, guess)
            count += 1
            sweeps += size
            row_pulls += cost
        every = every + counts
        total = total + sums
        squares = squares + sums_of_squares
        rounds += 1
        tally = seen(every, total, squares, swapped)
        if every.min() > 0.0:
            guess = forecast(tally)
        known = look(rules, known, tally, logs)
        if count >= 2:
            known = decide_one_by_one(rules, rows, known, np.flatnonzero(undecided), tally, guess)
        settle_one_by_one(rules, known, tally, logs)
    for i in range(n):
        if verdicts[i] != UNDECIDED:
            out[i] = HIGH if (verdicts[i] == OUTLIER) != swapped else NORMAL
    if rounds == 0:
        return 0, 0, np.nan, np.inf
    low, high = known.low, known.high
    if swapped:
        low, high = 1.0 - high - ROUNDING, 1.0 - low + ROUNDING
    if every.min() == 0.0:
        return rounds, threshold_pulls, np.nan, (high - low) / 2.0
    scatter = seen(every, total, squares, False).scatter
    estimate = estimated_threshold(k, every, total, scatter)
    return rounds, threshold_pulls, min(max(estimate, low), high), (high - low) / 2.0
