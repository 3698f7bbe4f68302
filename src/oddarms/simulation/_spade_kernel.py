"""SPADE's joint form in compiled code: whole runs.

All but the loop around the steps is what the class calls: see `oddarms.simulation._loops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oddarms.algorithms._spade_joint import (
    LOOK_AGAIN,
    UNDECIDED,
    Rows,
    Rules,
    Standing,
    bounded,
    box_of,
    closeness_in,
    conclude_surely,
    interval_of_mu,
    joint_row_weights,
    narrowed,
    rows_with,
    settle,
    share_of_doubt,
    sigma_evidence,
)
from oddarms.algorithms._spade_plans import (
    LEAST_DOUBT,
    Steps,
    less_than_a_row,
    next_step,
    steps_after,
)
from oddarms.simulation._draws import draw
from oddarms.simulation._families import BERNOULLI
from oddarms.simulation._kernel_cache import kernel
from oddarms.statistics.directions import Forecast, forecast, tally_seen
from oddarms.statistics.elementwise import plus
from oddarms.statistics.totals import Totals, scatter_of, squares_from


def pull(
    rng: Any, family: int, y: Any, parameter: float, mirrored: bool, counts: Any
) -> tuple[Any, Any]:
    """Return sums and sums of squares of a step's rewards, drawn and added up as `find` does."""
    n = counts.size
    sums = np.zeros(n)
    squares = np.zeros(n)
    binomial = family == BERNOULLI and counts.max() > 1
    for i in range(n):
        count = counts[i]
        if binomial and count > 0:
            ones = float(rng.binomial(count, y[i]))
            sums[i] = count - ones if mirrored else ones
            squares[i] = squares_from(count, sums[i], scatter_of(count, ones, ones))
            continue
        for _ in range(count):
            reward = draw(rng, family, y[i], parameter, mirrored)
            sums[i] += reward
            squares[i] += reward * reward
    return sums, squares


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
    weights, no_floor = np.ones(n), np.zeros(n)
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
            plus(totals.pulls, new.pulls),
            plus(totals.total, new.total),
            plus(totals.squares, new.squares),
        )
        tally = tally_seen(totals, swapped)
        if totals.pulls.min() > 0.0:
            guess = forecast(tally)
        pulls = totals.pulls.sum()
        if pulls >= LOOK_AGAIN * known.pulls_seen:
            known = narrowed(rules, known, box_of(tally, rules.delta), pulls)
        arms = np.flatnonzero(undecided)
        if steps.rows >= 2:
            mu = interval_of_mu(rules, rows)
            known = bounded(rules, rows, known, mu)
            if rows.upper.weight > 0.0:
                near, least = closeness_in(rules, known), no_floor[: arms.size]
                found = sigma_evidence(rules, rows, known, near, arms, tally, guess, mu, least)
                conclude_surely(rules, known, arms, found)
                known = share_of_doubt(known, arms, found)
        settle(rules, known, arms[known.verdicts[arms] == UNDECIDED], tally)
    return rounds, threshold_pulls, totals, rows, known
