"""The decisions of SPADE's joint form, as functions of its sums over rows.

`JointCertificate` calls them. Compiled runs, see `oddarms.simulation`, call most of them too, and
look at the evidence one arm at a time; hence functions of named tuples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.direction_box import largest_coefficients, smallest_sd
from oddarms.statistics.directions import (
    SMALLEST_SD,
    Forecast,
    Tally,
    lean_of,
    one_unless_equal,
    tally_of,
    thresholds_without_one,
)
from oddarms.statistics.elementwise import Numbers, choose, elementwise, put
from oddarms.statistics.evidence import (
    LEAST_LEVEL,
    PART,
    log_mean_above,
    log_mean_below,
    mean_interval,
    sample_on_side,
    surely_above,
    surely_below,
)
from oddarms.statistics.false_discoveries import names
from oddarms.statistics.joint_evidence import weigh
from oddarms.statistics.levels import closeness, log_weight
from oddarms.statistics.threshold_box import (
    lower_bounds,
    rounding,
    thresholds_within,
    upper_bounds,
)
from oddarms.statistics.threshold_streams import (
    Linear,
    Lines,
    PlugIn,
    interval_of_mean,
    lower_bound,
    lower_lines,
    mean_lines,
    no_plug_in_rows,
    no_rows,
    plug_in_lower_bound,
    upper_bound,
    upper_lines,
    with_plug_in_row,
    with_row,
)

UNDECIDED, NORMAL, OUTLIER = 0, 1, 2

BOX_SHARE = 0.05  # the intervals of all arms, in every form
END_SHARE = 0.03  # an end of the reported interval of the threshold
MU_SHARE = 0.01  # an end of the interval of mu
PLUG_IN_SHARE = 0.005  # either error of the plug-in's lower end of the threshold
JOINT_ARMS_SHARE = 0.86  # 0.86 + 0.05 + 2 * 0.03 + 2 * 0.01 + 2 * 0.005 <= 1

DOUBT_DIRECTION, DOUBT_VARIANCE, SMALLEST_WEIGHT = 3.0, 2.0, 0.5
LOOK_AGAIN = 1.2  # times as many pulls, until intervals of the arms are computed anew
EDGE, NEAR_END = 1e-9, 1e-6
ROUNDING = 1e-12  # more than is rounded in a few sums of numbers of size 1, with room to spare
FLAT = 0.5  # margins: where k sd seems to be at most this, the margin is what counts
LEAST_SHARE = 0.02  # of an arm's doubt that is the threshold's
PART_SHARES: FloatArray = np.array([0.5, 0.25, 0.25])  # of mu + k sigma, mu + margin, floor

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
    margin: float = 0.0
    """An outlier must also reach mu + margin, in units of the rewards' range."""
    floor: float = -math.inf
    """And this level."""
    fdr: bool = False
    """Whether a share of the names may be wrong."""

    @property
    def plain(self) -> bool:
        """Whether mu + k sigma is the whole threshold."""
        return self.margin == 0.0 and self.floor == -math.inf

    @property
    def shares(self) -> FloatArray:
        """The shares of the threshold's parts in the average of their e-values."""
        there = np.array([True, self.margin > 0.0, self.floor > -math.inf])
        shares = PART_SHARES[there]
        result: FloatArray = shares / shares.sum()
        return result


class Rows(NamedTuple):
    """What the rows add up to in each stream."""

    mu: Linear
    """For the mean of all means."""
    lower: Linear
    """For the thresholds without one arm, and that of all arms."""
    upper: PlugIn


def empty_rows(n: int, others_k: float, nats: float) -> Rows:
    """Return the streams before the first row; `others_k` is that of thresholds without one arm."""
    return Rows(
        no_rows(n, n, 0.0, nats),
        no_rows(n, n - 1, others_k, nats),
        no_plug_in_rows(n, others_k, nats),
    )


def rows_with(rows: Rows, row: Tally, size: float, guess: Forecast, margin: float = 0.0) -> Rows:
    """Enter a row worth `size` sweeps into the streams; `guess` precedes it.

    If the means seem to be so equal that the margin is what counts, the row does not enter the
    thresholds without one arm: a bet that these lie high would be lost.
    """
    lean = lean_of(guess.shrunk, guess.error)
    flat = rows.lower.k * float(guess.shrunk.std()) <= FLAT * margin
    return Rows(
        with_row(rows.mu, row, size, lean, guess),
        rows.lower if flat and margin > 0.0 else with_row(rows.lower, row, size, lean, guess),
        with_plug_in_row(rows.upper, row, size, guess),
    )


class Standing(NamedTuple):
    """What is known so far."""

    verdicts: npt.NDArray[np.int8]
    """Per arm 0, 1 (normal) or 2 (outlier); final, unless a share of them may be wrong."""
    log_evidence: FloatArray
    """Per arm the log e-value for the verdict it tends to, with what its weight among the arms
    adds to it (`oddarms.statistics.levels`): it suffices at `Rules.log_level`."""
    low: float
    """[low, high] contains mu + k sigma."""
    high: float
    box: Box
    """Intervals that contain all means."""
    pulls_seen: float
    """How many there were when the box was made."""
    threshold_share: float
    """How much of the doubt about the open arms is doubt about the threshold; steers only."""


class Found(NamedTuple):
    """The evidence on some arms, weights included; minus infinity where it was not looked at."""

    normal: FloatArray
    outlier: FloatArray
    share: FloatArray
    """The threshold's share of the doubt."""


def nothing_found(count: int) -> Found:
    """Return no evidence on arms."""
    return Found(np.full(count, -math.inf), np.full(count, -math.inf), np.full(count, 0.5))


def raised(rules: Rules, known: Standing, mu: tuple[float, float]) -> Standing:
    """Return what is known, with the interval of the largest of the thresholds."""
    low, high = known.low, known.high
    if rules.margin > 0.0:
        mu = mean_within(known.box, mu)
        low, high = max(low, mu[0] + rules.margin), max(high, mu[1] + rules.margin)
    return within(known, max(low, rules.floor), max(high, rules.floor))


def within(known: Standing, low: float, high: float) -> Standing:
    """Return what is known, with another interval of the threshold."""
    verdicts, log_evidence, _, _, box, pulls_seen, share = known
    return Standing(verdicts, log_evidence, low, high, box, pulls_seen, share)


def mean_within(box: Box, mu: tuple[float, float]) -> tuple[float, float]:
    """Return an interval of mu, narrowed by those of the arms."""
    low, high = (float(end.mean()) for end in box)
    room = rounding(box[0].size, 1.0)
    return max(mu[0], low - room), min(mu[1], high + room)


def distance_rate(n: int, k: float) -> float:
    """Return by how much y_i - theta may exceed y_i - theta_-i, for k >= 0: Lemma 2.

    An arm `indifference` away from theta is at least indifference / rate from theta_-i.
    """
    return 1.0 + max(0.0, k * math.sqrt(n - 1.0) - 1.0) / n


def box_of(tally: Tally, delta: float) -> Box:
    """Return intervals of all means, at the cost of BOX_SHARE."""
    alpha = BOX_SHARE * delta / tally.pulls.size
    return mean_interval(tally.pulls, tally.total, tally.scatter, alpha)


def closeness_in(rules: Rules, known: Standing) -> FloatArray:
    """Return how close means are to their thresholds, by the box and the threshold's interval."""
    low, high = known.box
    result: FloatArray = closeness_of(low, high, known.low, known.high, rules.rate)
    return result


@elementwise
def closeness_of(low: Numbers, high: Numbers, least: float, most: float, rate: float) -> Numbers:
    """Return at least h(gamma) of a mean in [low, high] and a threshold in [least, most]."""
    return closeness(np.maximum(least - high, low - most) / rate)


def settle(rules: Rules, known: Standing, arms: IntArray, tally: Tally) -> None:
    """Decide open arms by their intervals; `known` has that of the largest threshold.

    An arm is normal if its interval lies below that of the threshold, and an outlier if it lies
    above (or reaches beyond it by less than an indifference). Both are events that are paid for.
    """
    alpha, near = BOX_SHARE * rules.delta / tally.pulls.size, rules.slack * rules.rate
    pulls, total, scatter = tally_of(tally, arms)
    below = surely_below(pulls, total, scatter, known.low + near, alpha)
    above = surely_above(pulls, total, scatter, known.high - near, alpha)
    for which, verdict in ((above, OUTLIER), (below, NORMAL)):
        settled = arms[which]
        evidence = np.maximum(known.log_evidence[settled], rules.log_level)
        put(known.log_evidence, settled, evidence)
        known.verdicts[settled] = verdict


def narrowed(rules: Rules, known: Standing, box: Box, pulls: float) -> Standing:
    """Narrow the box by another one, and the threshold by the box where that may do so."""
    low, high = common(known.box[0], known.box[1], box[0], box[1])
    least, most = known.low, known.high
    flat, wide = thresholds_within(low, high, rules.k)
    if flat > least:
        least = max(least, lower_bounds(low, high, rules.k)[0])
    if wide < most:
        most = min(most, upper_bounds(low, high, rules.k)[0])
    return Standing(
        known.verdicts,
        known.log_evidence,
        least,
        most,
        (low, high),
        pulls,
        known.threshold_share,
    )


@elementwise
def common(low: Numbers, high: Numbers, least: Numbers, most: Numbers) -> tuple[Numbers, Numbers]:
    """Return what two intervals have in common."""
    return np.maximum(low, least), np.minimum(high, most)


def interval_of_mu(rules: Rules, rows: Rows) -> tuple[float, float]:
    """Return an interval of mu from the rows."""
    return interval_of_mean(rows.mu, MU_SHARE * rules.delta)


def bounded(rules: Rules, rows: Rows, known: Standing, mu: tuple[float, float]) -> Standing:
    """Return what is known, with the interval of the threshold narrowed by the rows."""
    end = END_SHARE * rules.delta
    plug_in = plug_in_lower_bound(rows.upper, rules.k, PLUG_IN_SHARE * rules.delta)
    low = max(known.low, lower_bound(rows.lower, rules.k, end, mu), plug_in)
    return within(known, low, min(known.high, upper_bound(rows.upper, rules.k, end)))


def decide(
    rules: Rules, rows: Rows, known: Standing, arms: IntArray, tally: Tally, guess: Forecast
) -> Standing:
    """Weigh each open arm on the side of its threshold where it seems to be: see `conclude`."""
    mu = interval_of_mu(rules, rows)
    known = bounded(rules, rows, known, mu)
    if rows.upper.weight == 0.0:
        return known
    near = closeness_in(rules, raised(rules, known, mu))
    least = least_means(rules, known.box, arms, mu)
    found = sigma_evidence(rules, rows, known, near, arms, tally, guess, mu, least)
    if not rules.plain:
        parts = [found]
        if rules.margin > 0.0:
            parts.append(margin_evidence(rules, rows.mu, near, arms, tally, guess, least))
        if rules.floor > -math.inf:
            parts.append(floor_evidence(rules, near, arms, tally, guess))
        found = together(parts, rules.shares)
    conclude(rules, known, arms, found)
    return share_of_doubt(known, arms, found)


def share_of_doubt(known: Standing, arms: IntArray, found: Found) -> Standing:
    """Return what is known, with the threshold's share of the doubt about the open arms."""
    verdicts, log_evidence, low, high, box, pulls_seen, share = known
    shares = found.share[verdicts[arms] == UNDECIDED]
    if shares.size > 0:
        share = shares.mean()
    return Standing(verdicts, log_evidence, low, high, box, pulls_seen, share)


def least_means(rules: Rules, box: Box, arms: IntArray, mu: tuple[float, float]) -> FloatArray:
    """Return at most the mean of each of the arms, where it is wrong to call it normal.

    Corollary 8 of docs/explanation/proofs.md: it lies above the floor, and a margin above the
    others' mean, by the slack and by as much more as the verdict errs.
    """
    n = box[0].size
    least: FloatArray = np.full(arms.size, max(rules.floor + rules.slack, 0.0))
    if rules.margin > 0.0:
        others = np.maximum((n * mu[0] - box[1][arms]) / (n - 1.0) - ROUNDING, 0.0)
        least = np.maximum(least, others + rules.margin * n / (n - 1.0) + rules.slack)
    return np.minimum(least, 1.0 - NEAR_END)


def sigma_evidence(
    rules: Rules,
    rows: Rows,
    known: Standing,
    near: FloatArray,
    arms: IntArray,
    tally: Tally,
    guess: Forecast,
    mu: tuple[float, float],
    least: FloatArray,
) -> Found:
    """Return the evidence on arms against mu + k sigma of the others, on the side they seem on.

    `near` is the closeness of all arms: see `oddarms.statistics.levels`.
    """
    theta = thresholds_without_one(guess.shrunk, rules.others_k)[arms]
    found, mean = nothing_found(arms.size), guess.mean[arms]
    high, low = np.maximum(theta + rules.slack, least), theta - rules.slack
    below, above = np.flatnonzero(mean < high), np.flatnonzero(mean > low)
    if below.size > 0:
        lines = lower_lines(rows.lower, arms[below], -rules.slack, mu)
        hold(found, below, high, lines, rules, near, arms, tally, mean, -1.0, least)
    if above.size > 0:
        some = arms[above]
        largest = largest_without_one(known.box, rules.others_k, some, mu)
        lines = upper_lines(rows.upper, rules.others_k, some, rules.slack, largest, known.box)
        hold(found, above, low, lines, rules, near, arms, tally, mean, 1.0, np.zeros(arms.size))
    return found


def hold(
    found: Found,
    which: IntArray,
    level: FloatArray,
    lines: Lines,
    rules: Rules,
    near: FloatArray,
    arms: IntArray,
    tally: Tally,
    mean: FloatArray,
    sign: float,
    least: FloatArray,
) -> None:
    """Enter the joint evidence of arms against thresholds of which `lines` is the evidence.

    That they lie below for sign -1, above for sign 1; `least` is that of `least_means`.
    """
    mine, others = tally_of(tally, arms[which]), near.sum() - near[arms[which]]
    mean, level, least = mean[which], level[which], least[which]
    evidence, share = evidence_against(
        lines, sign, mean, level, least, mine, near.size, others, rules.slack
    )
    put(found.outlier if sign > 0.0 else found.normal, which, evidence)
    put(found.share, which, share)


@elementwise
def evidence_against(
    lines: Lines,
    sign: float,
    mean: Numbers,
    level: Numbers,
    least: Numbers,
    tally: Tally,
    n: int,
    others: Numbers,
    slack: float,
) -> tuple[Numbers, Numbers]:
    """Return the joint evidence, weights included, and the threshold's share of the doubt."""
    low, high = bracket(mean, level, least)
    sample = sample_on_side(sign, tally.pulls, tally.total, tally.scatter)
    held = weigh(low, high, lines, sample, sign, least)
    share = (level - held.y) / choose(level == mean, EDGE, level - mean)
    evidence = held.evidence + log_weight(n, others, held.steepness, slack)
    return evidence, np.minimum(np.maximum(share, LEAST_SHARE), 1.0 - LEAST_SHARE)


def margin_evidence(
    rules: Rules,
    rows: Linear,
    near: FloatArray,
    arms: IntArray,
    tally: Tally,
    guess: Forecast,
    least: FloatArray,
) -> Found:
    """Return the evidence on arms against mu + margin, from the rows that bound mu.

    y_i >= mu + margin if and only if y_i >= mu_-i + margin n/(n-1): linear, nothing is guessed.
    """
    n, mean = guess.mean.size, guess.mean[arms]
    margin = rules.margin * n / (n - 1.0)
    centre = (guess.mean.sum() - mean) / (n - 1.0) + margin
    found, none = nothing_found(arms.size), np.zeros(arms.size)
    high, low = np.maximum(centre + rules.slack, least), centre - rules.slack
    for sign, level, floor in ((-1.0, high, least), (1.0, low, none)):
        which = np.flatnonzero(sign * mean > sign * level)
        if which.size > 0:
            lines = mean_lines(rows, arms[which], sign * rules.slack - margin, sign)
            hold(found, which, level, lines, rules, near, arms, tally, mean, sign, floor)
    return found


def floor_evidence(
    rules: Rules, near: FloatArray, arms: IntArray, tally: Tally, guess: Forecast
) -> Found:
    """Return the evidence on arms against the floor: their own."""
    low, high = rules.floor + rules.slack, rules.floor - rules.slack
    found = level_evidence(low, high, rules.slack, near, arms, tally, guess)
    found.share[:] = LEAST_SHARE
    return found


def level_evidence(
    low: float,
    high: float,
    slack: float,
    near: FloatArray,
    arms: IntArray,
    tally: Tally,
    guess: Forecast,
) -> Found:
    """Return the evidence on arms that they lie below `low`, and that they lie above `high`.

    Means are in [0, 1]: beyond that nothing has to be seen. A level nearer to 0 or 1 than any
    search can tell is moved away from the arms' side of it, never towards it.
    """
    found, mean, all_near = nothing_found(arms.size), guess.mean[arms], near.sum()
    below, above = (mean < low) & (low > LEAST_LEVEL), (mean > high) & (high < 1.0)
    for side, which, evidence_of, level, sign in (
        (found.normal, below, log_mean_below, low, 1.0),
        (found.outlier, above, log_mean_above, high, -1.0),
    ):
        places = np.flatnonzero(which)
        for first in range(0, places.size, PART):  # so few at a time that they stay in a cache
            part = places[first : first + PART]
            some = arms[part]
            evidence, slope = evidence_of(*tally_of(tally, some), np.full(some.size, level))
            added = log_weight(near.size, all_near - near[some], sign * slope, slack)
            side[part] = evidence + added
    if low > 1.0:
        found.normal[:] = math.inf
    if high <= 0.0:
        found.outlier[:] = math.inf
    return found


def together(parts: Sequence[Found], shares: FloatArray) -> Found:
    """Return the evidence against the largest of several thresholds: the end of section 8.

    For outliers the smallest of all; for normal arms a fixed average of the e-values, where one
    that was not looked at counts as 0.
    """
    logs = np.array([part.normal for part in parts]) + np.log(shares)[:, None]
    outlier = np.array([part.outlier for part in parts])
    looked_at = np.where(outlier.min(0) > -math.inf, outlier.argmin(0), logs.argmax(0))
    shares_of_doubt = np.array([part.share for part in parts])
    share: FloatArray = shares_of_doubt[looked_at, np.arange(looked_at.size)]
    return Found(np.logaddexp.reduce(logs), outlier.min(0), share)


def conclude(rules: Rules, known: Standing, arms: IntArray, found: Found) -> None:
    """Record the evidence, and the verdicts where it suffices.

    These are final. If a share of the names may be wrong (`fdr`), verdicts are also given where the
    evidence suffices for the names of a whole list, and these are new each time; the arms must then
    be all that have no final verdict.
    """
    if rules.fdr:
        known.verdicts[arms] = UNDECIDED
    conclude_surely(rules, known, arms, found)
    if not rules.fdr:
        return
    for evidence, verdict in ((found.normal, NORMAL), (found.outlier, OUTLIER)):
        free = known.verdicts[arms] == UNDECIDED
        sure = int((known.verdicts == verdict).sum())
        chosen = names(np.where(free, evidence, -math.inf), rules.log_level, sure)
        known.log_evidence[arms[chosen]] = evidence[chosen]
        known.verdicts[arms[chosen]] = verdict


def conclude_surely(rules: Rules, known: Standing, arms: IntArray, found: Found) -> None:
    """Record the evidence, and the final verdicts."""
    conclude_side(rules.log_level, known, arms, found.normal, NORMAL)
    conclude_side(rules.log_level, known, arms, found.outlier, OUTLIER)


def conclude_side(
    level: float, known: Standing, arms: IntArray, evidence: FloatArray, verdict: int
) -> None:
    """Record the evidence of one side, and its final verdicts.

    Arms near the threshold may be looked at on both sides, where there is an indifference or a
    margin: the evidence of the side that decides is kept, of none the one looked at last.
    """
    enough = evidence >= level
    kept = enough | (known.verdicts[arms] == UNDECIDED) & (evidence > -math.inf)
    put(known.log_evidence, arms[kept], evidence[kept])
    known.verdicts[arms[enough]] = verdict


def largest_without_one(box: Box, k: float, arms: IntArray, mu: tuple[float, float]) -> FloatArray:
    """Return bounds on the coefficients of the thresholds without arm i, for all these i."""
    low, high = box
    n, m = low.size, low.size - 1.0
    sigma = smallest_sd(low, high, one_unless_equal(arms.reshape(-1, 1), np.arange(n))).min()
    others = (n * mu[0] - high[arms].max()) / m, (n * mu[1] - low[arms].min()) / m
    result: FloatArray = largest_coefficients(low, high, k, m, others, sigma)
    return result


def bracket(mean: Numbers, level: Numbers, floor: Numbers) -> tuple[Numbers, Numbers]:
    """Return where the smallest evidence is sought: mostly between them, at times a bit beyond.

    Inside (0, 1), nearer to an end than the mean is, and not below the floor.
    """
    margin = 0.5 * (level - mean)
    low, high = np.minimum(mean - margin, level + margin), np.maximum(mean - margin, level + margin)
    least = np.minimum(np.maximum(0.1 * mean, LEAST_LEVEL), NEAR_END)
    most = 1.0 - np.minimum(np.maximum(0.1 * (1.0 - mean), LEAST_LEVEL), NEAR_END)
    low = np.maximum(np.minimum(np.maximum(low, least), most), floor)
    high = np.minimum(np.maximum(high, least), most)
    return low, choose(high > low, high, 0.5 * (1.0 + low))


def joint_row_weights(k: float, tally: Tally, guess: Forecast) -> FloatArray:
    """Return weights like |c_j| times the reward's sd, both with the doubt about them.

    The optimal pulls of a linear function of means; with k = 3 nearly all of |c|^2 may sit
    on few arms.
    """
    spread = k / max(float(guess.shrunk.std()), EDGE)
    lean = lean_of(guess.shrunk, 0.0, SMALLEST_SD)
    weights = row_weight(k, spread, lean, guess.variance, tally.pulls)
    relative: FloatArray = weights / weights.mean()
    return relative


@elementwise
def row_weight(
    k: float, spread: float, lean: Numbers, variance: Numbers, pulls: Numbers
) -> Numbers:
    """Return the weight of an arm of this lean: `joint_row_weights`."""
    variance = np.minimum(variance + DOUBT_VARIANCE / pulls, 0.25)
    doubt = DOUBT_DIRECTION * spread**2 * variance / pulls
    squares = (1.0 + k * lean) ** 2 + doubt + SMALLEST_WEIGHT * (1.0 + k**2)
    return np.sqrt(squares * variance)
