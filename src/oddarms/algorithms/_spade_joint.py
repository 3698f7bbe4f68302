"""The decisions of SPADE's joint form as functions of what it has added up.

`JointCertificate` calls them. Compiled runs, see `oddarms.simulation`, call most of them too, and
have a form of `decide` that looks at one arm at a time; hence functions of named tuples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.direction_box import largest_coefficients, smallest_sd
from oddarms.statistics.directions import (
    Forecast,
    Tally,
    all_but_one,
    lean_of,
    tally_of,
    thresholds_without_one,
)
from oddarms.statistics.elementwise import Numbers, choose
from oddarms.statistics.evidence import mean_interval, sample_above, sample_below
from oddarms.statistics.joint_evidence import Weighed, weigh
from oddarms.statistics.levels import closeness, log_relative_weights
from oddarms.statistics.threshold_streams import (
    Linear,
    PlugIn,
    interval_of_mean,
    lower_bound,
    lower_lines,
    upper_bound,
    upper_lines,
)

UNDECIDED, NORMAL, OUTLIER = 0, 1, 2

BOX_SHARE = 0.05  # the intervals of all arms, in every form
END_SHARE = 0.03  # an end of the reported interval of the threshold
MU_SHARE = 0.01  # an end of the interval of mu
JOINT_ARMS_SHARE = 0.87  # 0.87 + 0.05 + 2 * 0.03 + 2 * 0.01 <= 1

DOUBT_DIRECTION, DOUBT_VARIANCE, SMALLEST_WEIGHT = 3.0, 2.0, 0.5
LOOK_AGAIN = 1.2  # times as many pulls, until intervals of the arms are computed anew
EDGE = 1e-9

Box = tuple[FloatArray, FloatArray]


class Rules(NamedTuple):
    """What is fixed before a search, k >= 0."""

    k: float
    others_k: float
    """Of thresholds without one arm: `leave_one_out_k`."""
    delta: float
    slack: float
    rate: float
    log_level: float


class Rows(NamedTuple):
    """What the rows add up to in each stream."""

    mu: Linear
    common: Linear
    lower: Linear
    upper: PlugIn


class Standing(NamedTuple):
    """What is known so far: attributes of `Certificate`."""

    verdicts: npt.NDArray[np.int8]
    log_evidence: FloatArray
    low: float
    high: float
    box: Box
    pulls_seen: float
    """How many there were when the box was made."""
    threshold_share: float


def distance_rate(n: int, k: float) -> float:
    """Return by how much y_i - theta may exceed y_i - theta_-i, for k >= 0.

    y_i - theta moves by at most 1 - c_ii per unit of y_i, c_ii >= (1 - k sqrt(n-1))/n: an arm
    `indifference` away from theta is at least indifference / rate from theta_-i.
    """
    return 1.0 + max(0.0, k * math.sqrt(n - 1.0) - 1.0) / n


def nats_of_bets(n: int, delta: float) -> float:
    """Return the evidence that bets are made to reach."""
    return math.log(n / delta)


def level_of_arms(n: int, arms_share: float, delta: float) -> float:
    """Return the log e-value at which an arm of average weight is decided."""
    return math.log(n / (arms_share * delta))


def box_of(tally: Tally, delta: float) -> Box:
    """Return intervals of all means, at the cost of BOX_SHARE."""
    alpha = BOX_SHARE * delta / tally.pulls.size
    return mean_interval(tally.pulls, tally.total, tally.scatter, alpha)


def least_gap(rules: Rules, known: Standing, low: Numbers, high: Numbers) -> Numbers:
    """Return at least how far means in [low, high] are from their thresholds.

    Bounded by the box and the threshold's interval: the distances that weights are made of.
    """
    return np.maximum(known.low - high, low - known.high) / rules.rate


def settle(
    rules: Rules, known: Standing, near: FloatArray, arms: IntArray, found: Weighed, verdict: int
) -> None:
    """Record the evidence, and the verdict where it suffices; `near` has the closeness of all."""
    evidence = found.evidence + log_relative_weights(arms, near, found.steepness, rules.slack)
    known.log_evidence[arms] = evidence  # of the side looked at last
    known.verdicts[arms[evidence >= rules.log_level]] = verdict


def exclude_outliers(rules: Rules, known: Standing, arms: IntArray) -> bool:
    """Call all open arms normal if no mean in [0, 1] can reach the threshold."""
    if known.low <= 1.0:
        return False
    known.log_evidence[arms] = np.maximum(known.log_evidence[arms], rules.log_level)
    known.verdicts[arms] = NORMAL
    return True


def narrowed(known: Standing, box: Box, pulls: float) -> Standing:
    """Narrow the box by another one."""
    low, high = np.maximum(known.box[0], box[0]), np.minimum(known.box[1], box[1])
    return Standing(
        known.verdicts,
        known.log_evidence,
        known.low,
        known.high,
        (low, high),
        pulls,
        known.threshold_share,
    )


def decide(
    rules: Rules, rows: Rows, known: Standing, arms: IntArray, tally: Tally, guess: Forecast
) -> Standing:
    """Weigh each open arm on the side of its threshold where it seems to be."""
    n = tally.pulls.size
    mu = interval_of_mean(rows.mu, MU_SHARE * rules.delta)
    end = END_SHARE * rules.delta
    known = Standing(
        known.verdicts,
        known.log_evidence,
        max(known.low, lower_bound(rows.common, rules.k, n, end, mu)),
        min(known.high, upper_bound(rows.upper, rules.k, end)),
        known.box,
        known.pulls_seen,
        known.threshold_share,
    )
    if exclude_outliers(rules, known, arms) or rows.upper.weight == 0.0:
        return known
    pulls = float(tally.pulls.sum())
    if pulls >= LOOK_AGAIN * known.pulls_seen:
        known = narrowed(known, box_of(tally, rules.delta), pulls)
    near = closeness(least_gap(rules, known, known.box[0], known.box[1]))
    theta = thresholds_without_one(guess.shrunk, rules.others_k)
    below = arms[guess.mean[arms] < theta[arms] + rules.slack]
    above = arms[guess.mean[arms] > theta[arms] - rules.slack]
    shares = np.full(n, 0.5)
    if below.size > 0:
        level = theta[below] + rules.slack
        lines = lower_lines(rows.lower, rules.others_k, below, -rules.slack, mu)
        some = tally_of(tally, below)
        sample = sample_below(some.pulls, some.total, some.scatter)
        left, right = bracket(guess.mean[below], level)
        found = weigh(left, right, lines, sample, -1.0)
        settle(rules, known, near, below, found, NORMAL)
        shares[below] = threshold_shares(level, guess.mean[below], found.y)
    if above.size > 0:
        level = theta[above] - rules.slack
        largest = largest_without_one(known.box, rules.others_k, above, mu)
        lines = upper_lines(rows.upper, rules.others_k, above, rules.slack, largest, known.box)
        some = tally_of(tally, above)
        sample = sample_above(some.pulls, some.total, some.scatter)
        left, right = bracket(guess.mean[above], level)
        found = weigh(left, right, lines, sample, 1.0)
        settle(rules, known, near, above, found, OUTLIER)
        shares[above] = threshold_shares(level, guess.mean[above], found.y)
    open_arms = arms[known.verdicts[arms] == UNDECIDED]
    share = shares[open_arms].mean() if open_arms.size > 0 else known.threshold_share
    return Standing(
        known.verdicts,
        known.log_evidence,
        known.low,
        known.high,
        known.box,
        known.pulls_seen,
        float(share),
    )


def largest_without_one(box: Box, k: float, arms: IntArray, mu: tuple[float, float]) -> FloatArray:
    """Return bounds on the coefficients of the thresholds without arm i, for all these i."""
    low, high = box
    n, m = low.size, low.size - 1.0
    sigma = float(smallest_sd(low, high, all_but_one(arms, n)).min())
    others = (n * mu[0] - high[arms].max()) / m, (n * mu[1] - low[arms].min()) / m
    result: FloatArray = largest_coefficients(low, high, k, m, others, sigma)
    return result


def bracket(mean: Numbers, level: Numbers) -> tuple[Numbers, Numbers]:
    """Return where the smallest evidence is sought: mostly between them, at times a bit beyond."""
    margin = 0.5 * (level - mean)
    low, high = np.minimum(mean - margin, level + margin), np.maximum(mean - margin, level + margin)
    least, most = 1e-6, 1.0 - 1e-6
    return (
        np.minimum(np.maximum(low, least), most),
        np.minimum(np.maximum(high, least), most),
    )


def threshold_shares(level: Numbers, mean: Numbers, y: Numbers) -> Numbers:
    """Return the threshold's share of each arm's doubt."""
    gap = choose(level == mean, EDGE, level - mean)
    return np.minimum(np.maximum((level - y) / gap, 0.02), 0.98)


def joint_row_weights(k: float, tally: Tally, guess: Forecast) -> FloatArray:
    """Return weights like |c_j| times the reward's sd, both with the doubt about them.

    The optimal pulls of a linear function of means; with k = 3 nearly all of |c|^2 may sit
    on few arms.
    """
    lean = k * lean_of(guess.shrunk)
    spread = k / max(float(guess.shrunk.std()), EDGE)
    variance = np.minimum(guess.variance + DOUBT_VARIANCE / tally.pulls, 0.25)
    doubt = DOUBT_DIRECTION * spread**2 * variance / tally.pulls
    squares = (1.0 + lean) ** 2 + doubt + SMALLEST_WEIGHT * (1.0 + k**2)
    weights = np.sqrt(squares * variance)
    relative: FloatArray = weights / weights.mean()
    return relative
