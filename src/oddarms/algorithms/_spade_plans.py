"""How large SPADE's steps are and which one is next: for the class and for compiled runs."""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray

GROWTH = 0.08  # a step adds about this share of what is there
FIRST_ROWS = 4  # rows of one pull each (two in the pilot of the joint form) before any focus
ROW_ADVANTAGE = 3.0  # rows also lower the bias of the threshold's estimate, unseen in its radius
LONGEST_FOCUS = 20  # steps in a row; then the threshold is sampled again, so it never starves
LEAST_DOUBT, MOST_DOUBT = 0.2, 0.9  # of the doubt that is taken to be about the threshold
LEAST_COUNT = 0.25  # pulls of an arm in a row, in units of the average


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


def next_size(rows: int, sweeps: float) -> float:
    """Return the sweeps of the next row, of any weights; the first is a pilot."""
    return 2.0 if rows == 0 else max(1.0, GROWTH * sweeps)


def affordable_size(size: float, limit: int, n: int) -> float:
    """Return the sweeps of a row that a limit may allow."""
    return max(1.0, min(size, float(limit // n)))


def counts_of_row(n: int, size: float, rows: int, weights: FloatArray) -> IntArray:
    """Return how often each arm is pulled in a row; the weights do not count in the first rows."""
    if rows < FIRST_ROWS:
        return np.full(n, math.ceil(size))
    counts: IntArray = np.rint(size * weights / weights.mean()).astype(np.int64)
    return np.maximum(counts, math.ceil(LEAST_COUNT * size))


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
