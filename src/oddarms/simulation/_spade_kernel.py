"""SPADE's joint form in compiled code.

Only the bookkeeping of steps is written anew; plans, forecasts, streams and decisions are the
functions that the interactive algorithm calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from oddarms.algorithms import Decision
from oddarms.algorithms import _spade_joint as joint
from oddarms.algorithms import _spade_plans as plans
from oddarms.algorithms._spade_joint import (
    JOINT_ARMS_SHARE,
    OUTLIER,
    Rows,
    Rules,
    Standing,
    decide,
    distance_rate,
    joint_row_weights,
    level_of_arms,
)
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
from oddarms.simulation import _log_beta  # noqa: F401 - makes betaln known to numba
from oddarms.simulation._draws import draw, draw_sum
from oddarms.simulation._families import BERNOULLI
from oddarms.simulation._kernel_cache import kernel
from oddarms.statistics import (
    direction_box,
    directions,
    evidence,
    joint_evidence,
    levels,
    threshold_streams,
    totals,
    worst_world,
)
from oddarms.statistics.directions import Forecast, Tally, forecast
from oddarms.statistics.threshold_streams import (
    lower_direction,
    no_plug_in_rows,
    no_rows,
    with_plug_in_row,
    with_row,
)
from oddarms.statistics.totals import scatter_of, squares_from

_FORMULAS = (
    *(joint.box_of, joint.evidence_with_weights, joint.settle, joint.exclude_outliers),
    *(joint.narrowed, decide, joint.largest_without_one, joint.bracket, joint.threshold_shares),
    *(joint_row_weights, distance_rate, level_of_arms),
    *(row_gains_more, next_size, affordable_size, counts_of_row, counts_of_focus),
    plans.estimated_threshold,
    *(direction_box.smallest_sd, direction_box.largest_coefficients),
    *(directions.scatter_around, directions.tally_of, forecast, directions.lean_of),
    *(directions.thresholds_without_one, directions.all_but_one),
    *(evidence.log_mix, evidence.highest, evidence.normal_mixture_boundary),
    *(evidence.psi_exponential, evidence.sample_above, evidence.sample_below, evidence.sample_of),
    *(evidence.log_bets, evidence.log_jeffreys, evidence.log_evidence, evidence.mean_interval),
    *(evidence.between_rooms, evidence.excluded_room),
    *(joint_evidence.joint_evidence, joint_evidence.weigh, joint_evidence.steepness_of),
    joint_evidence.meeting,
    *(levels.closeness, levels.log_relative_weights),
    *(threshold_streams.bets_for, threshold_streams.bets_around, threshold_streams.bet_costs),
    *(no_rows, with_row, threshold_streams.radius_of, threshold_streams.interval_of_mean),
    *(lower_direction, threshold_streams.leans_of, threshold_streams.lower_lines),
    *(threshold_streams.lower_bound, no_plug_in_rows, with_plug_in_row),
    *(threshold_streams.upper_lines, threshold_streams.plug_in_thresholds),
    *(threshold_streams.upper_bound, threshold_streams.bennett_factor),
    threshold_streams.fan_factor,
    *(totals.relative_error, scatter_of, squares_from),
    *(worst_world.largest_costs, worst_world.on_sphere),
)
for _formula in _FORMULAS:
    register_jitable(_formula)

NORMAL, HIGH = int(Decision.NORMAL), int(Decision.HIGH)


@njit(nogil=True)
def pull(
    rng: Any, family: int, y: Any, parameter: float, mirrored: bool, counts: Any
) -> tuple[Any, Any]:
    """Return sums and sums of squares of a step's rewards, drawn and added up as `find` does."""
    n = counts.size
    sums = np.zeros(n)
    squares = np.zeros(n)
    if family == BERNOULLI:
        single = counts.max() == 1
        for i in range(n):
            if counts[i] > 0:
                one = (
                    draw(rng, family, y[i], parameter, False)
                    if single
                    else draw_sum(rng, family, y[i], parameter, False, counts[i])
                )
                sums[i] = one
        scaled = counts - sums if mirrored else sums
        return scaled, squares_from(counts, scaled, scatter_of(counts, sums, sums))
    for i in range(n):
        for _ in range(counts[i]):
            reward = draw(rng, family, y[i], parameter, mirrored)
            sums[i] += reward
            squares[i] += reward * reward
    return sums, squares


@njit(nogil=True)
def seen(pulls: Any, total: Any, squares: Any, mirrored: bool) -> Tally:
    """Return the tally as the certificate sees it."""
    return Tally(pulls, pulls - total if mirrored else total, scatter_of(pulls, total, squares))


@njit(nogil=True)
def row_taken(rows: Rows, rules: Rules, row: Tally, size: float, guess: Forecast) -> Rows:
    """Enter a row into all streams."""
    n = row.pulls.size
    return Rows(
        with_row(rows.mu, row, size, np.full(n, 1.0 / n), guess),
        with_row(rows.common, row, size, lower_direction(guess, rules.k, n), guess),
        with_row(rows.lower, row, size, lower_direction(guess, rules.others_k, n - 1), guess),
        with_plug_in_row(rows.upper, row, size, guess),
    )


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

    `others_k` is that of thresholds without one arm, `leave_one_out_k` of |k|.
    """
    n = y.size
    swapped = k < 0.0  # seen in a mirror, see `View`
    if n < 1.0 + k * k:
        out[:] = HIGH if swapped else NORMAL
        return 0, 0, np.nan, np.inf
    size_k = abs(k)
    rate = distance_rate(n, size_k)
    level = level_of_arms(n, JOINT_ARMS_SHARE, delta)
    rules = Rules(size_k, others_k, delta, indifference / rate, rate, level)
    rows = Rows(
        no_rows(n, 1.0 / n),
        no_rows(n, (1.0 + size_k**2) / n),
        no_rows(n, (1.0 + others_k**2) / (n - 1)),
        no_plug_in_rows(n, others_k),
    )
    known = Standing(
        np.zeros(n, dtype=np.int8),
        np.zeros(n),
        -np.inf,
        np.inf,
        (np.zeros(n), np.ones(n)),
        0.0,
        0.5,
    )
    every, total, squares = np.zeros(n), np.zeros(n), np.zeros(n)
    tally = seen(every, total, squares, swapped)
    weights = np.ones(n)
    guess = Forecast(weights, weights, weights, weights, weights)  # none before the first row
    rounds, threshold_pulls, used, count, focus_steps = 0, 0, 0, 0, 0
    sweeps, row_pulls = 0.0, 0.0
    while True:
        undecided = known.verdicts == 0
        if not undecided.any():
            break
        limit = budget - used
        size = 0.0
        counts = np.zeros(n, dtype=np.int64)
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
            break
        sums, sums_of_squares = pull(reward_rng, family, y, parameter, mirrored, counts)
        pulls += counts
        used += cost
        if size > 0.0:
            threshold_pulls += counts[~undecided].sum()
            if count > 0:
                row = seen(counts.astype(np.float64), sums, sums_of_squares, swapped)
                rows = row_taken(rows, rules, row, size, guess)
            count += 1
            sweeps += size
            row_pulls += cost
        every = every + counts
        total = total + sums
        squares = squares + sums_of_squares
        rounds += 1
        tally = seen(every, total, squares, swapped)
        guess = forecast(tally)
        if count >= 2:
            known = decide(rules, rows, known, np.flatnonzero(undecided), tally, guess)
    for i in range(n):
        if known.verdicts[i] != 0:
            odd = (known.verdicts[i] == OUTLIER) != swapped
            out[i] = HIGH if odd else NORMAL
    low, high = known.low, known.high
    if swapped:
        low, high = 1.0 - high, 1.0 - low
    if rounds == 0:
        return 0, 0, np.nan, np.inf
    estimate = estimated_threshold(k, every, total, scatter_of(every, total, squares))
    return rounds, threshold_pulls, min(max(estimate, low), high), (high - low) / 2.0
