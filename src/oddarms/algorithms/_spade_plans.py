"""Which step of SPADE is next and how large it is: for the class and for compiled runs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray

GROWTH = 0.08  # a step adds about this share of what is there
FIRST_ROWS = 4  # rows of one pull each (two in the pilot of the joint form) before any focus
ROW_ADVANTAGE = 3.0  # rows also lower the bias of the threshold's estimate, unseen in its radius
LONGEST_FOCUS = 20  # steps in a row; then the threshold is sampled again, so it never starves
LEAST_DOUBT, MOST_DOUBT = 0.05, 0.9  # of the doubt that is taken to be about the threshold
LEAST_COUNT = 0.25  # pulls of an arm in a row, in units of the average


class Steps(NamedTuple):
    """The steps made so far."""

    rows: int = 0
    sweeps: float = 0.0
    """That the rows are worth."""
    row_pulls: float = 0.0
    size: float = 1.0
    """Of the last row."""
    focus: int = 0
    """Focus steps since then."""


def steps_after(steps: Steps, counts: IntArray, size: float) -> Steps:
    """Return the steps with another one: a row of some size, or a focus step of size 0."""
    rows, sweeps, row_pulls, last_size, focus = steps
    if size == 0.0:
        return Steps(rows, sweeps, row_pulls, last_size, focus + 1)
    return Steps(rows + 1, sweeps + size, row_pulls + float(counts.sum()), size, 0)


def next_step(
    steps: Steps,
    paired: bool,
    share: float,
    least: float,
    weights: FloatArray,
    pulls: FloatArray,
    undecided: BoolArray,
    limit: int,
) -> tuple[IntArray, float]:
    """Return how often each arm is pulled next, and the size of the row, 0 for a focus step.

    `paired` says whether rows are uniform sweeps, in pairs of one size; others pull arms by their
    `weights`. `share` is how much of the doubt is about the threshold, and counts as
    at least `least`. A step may exceed the limit
    if there is no smaller one.
    """
    n, first, halfway = weights.size, steps.rows < FIRST_ROWS, paired and steps.rows % 2 == 1
    if (
        first
        or halfway
        or steps.focus >= LONGEST_FOCUS
        or row_gains_more(share, steps.row_pulls, pulls, undecided, least)
    ):
        size, equal = next_size(steps, paired), first or paired
        counts = counts_of_row(size, weights, equal)
        if counts.sum() > limit and not paired:
            size = max(1.0, min(size, float(limit // n)))
            counts = counts_of_row(size, weights, equal)
        rows = 2 if paired and not halfway else 1
        if first or rows * counts.sum() <= limit:
            return counts, size
    return counts_of_focus(pulls, undecided, limit), 0.0


def next_size(steps: Steps, paired: bool) -> float:
    """Return the sweeps of the next row, about a tenth of those before; the first is a pilot."""
    if paired and steps.rows % 2 == 1:
        return steps.size
    if paired:
        return max(1.0, float(math.floor(GROWTH / 2.0 * steps.sweeps)))
    return 2.0 if steps.rows == 0 else max(1.0, GROWTH * steps.sweeps)


def row_gains_more(
    share: float,
    row_pulls: float,
    pulls: FloatArray,
    undecided: BoolArray,
    least: float = LEAST_DOUBT,
) -> bool:
    """Compare the gains: the doubt falls in proportion to the pulls added to those behind it.

    A row serves the threshold and all arms, a focus step the undecided arms alone. `share` is how
    much of the doubt is about the threshold: a guess, so extreme ones are not followed.
    """
    share = min(max(share, least), MOST_DOUBT)
    row_gain = ROW_ADVANTAGE * share / row_pulls + (1.0 - share) / float(pulls.sum())
    return row_gain > (1.0 - share) / float(pulls[undecided].sum())


def counts_of_row(size: float, weights: FloatArray, equal: bool) -> IntArray:
    """Return how often each arm is pulled in a row: all alike, or by their weights."""
    if equal:
        return np.full(weights.size, math.ceil(size))
    counts: IntArray = np.rint(size * weights / weights.mean()).astype(np.int64)
    return np.maximum(counts, math.ceil(LEAST_COUNT * size))


def less_than_a_row(n: int, limit: int) -> IntArray:
    """Return a pull of each of the first arms: a budget below one row still says something.

    It is not a row: the arms are chosen without looking at their rewards.
    """
    return (np.arange(n) < limit).astype(np.int64)


def counts_of_focus(pulls: FloatArray, undecided: BoolArray, limit: int) -> IntArray:
    """Return how often each arm is pulled in a focus step, within a limit if one each is."""
    counts: IntArray = np.ceil(GROWTH * pulls).astype(np.int64) * undecided
    if counts.sum() > limit:
        affordable = limit // max(int(undecided.sum()), 1)
        counts = np.minimum(counts, max(affordable, 1)) * undecided
    return counts


def estimated_threshold(
    k: float, pulls: FloatArray, total: FloatArray, scatter: FloatArray
) -> float:
    """Return mu + k sigma of the averages, less what their noise adds to sigma."""
    mean = total / pulls
    noise = scatter / np.maximum(pulls - 1.0, 1.0) / pulls
    sigma = math.sqrt(max(float(mean.var() - noise.mean()), 0.0))
    return float(mean.mean() + k * sigma)
