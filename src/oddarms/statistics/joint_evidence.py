"""An arm and its threshold in one e-value: the smallest product over all levels between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.elementwise import Numbers, choose
from oddarms.statistics.evidence import Sample, log_evidence, log_mix
from oddarms.statistics.threshold_streams import Lines

CUTS = 6


class Weighed(NamedTuple):
    """The joint evidence on arms, and by how much it grows with the distance from the threshold."""

    evidence: Numbers
    steepness: Numbers
    y: Numbers
    """About the mean at which the evidence is smallest."""


def joint_evidence(y: FloatArray, lines: Lines, sample: Sample, sign: float) -> FloatArray:
    """Return the evidence against means of y and thresholds at it, and its slope.

    And the slopes of its parts: the arm's and the threshold's. `sign` is -1 where the sample speaks
    of "below", else 1.
    """
    arm, arm_slope = log_evidence(sample, y if sign > 0.0 else 1.0 - y)
    bets = lines.bets.reshape(-1, 1)
    threshold, bet = log_mix(line_at(lines, y, bets, lines.costs), bets)
    found = np.empty((4, y.size))
    found[0] = arm + threshold
    found[2] = sign * arm_slope
    found[3] = bet * lines.speed
    found[1] = found[2] + found[3]
    return found


def weigh(
    low: FloatArray,
    high: FloatArray,
    lines: Lines,
    sample: Sample,
    sign: float,
    least: FloatArray | float = 0.0,
) -> Weighed:
    """Return a lower bound on the smallest joint evidence over all y in [least, 1], for each arm.

    `low` is at least `least`. The evidence is convex in y. The next point to look at is where the
    tangents at the ends of the bracket meet; in the end, tangents bound the minimum from below
    wherever it is.

    The steepness s is such that A(u) + T(q) >= evidence + s |u - q| for all u and q that are on the
    wrong side of each other, A and T the evidence against the arm's mean u and its threshold q. T
    may depend on u, too: its slope t in q alone is at least `lines.share` of T' in size, where T'
    is its slope along u = q. Let y* be where the joint evidence is smallest. By the tangents there,
    A(u) + T(q) >= A(y*) + T(y*) + (A' + T') (u - y*) + t (q - u). The third term is not negative,
    as y* is the minimum over [0, 1], and neither is the last, |t| |u - q|: so |t| at y* will do. It
    is not known, but A' and T' rise with y. Take "below", where T falls with the threshold. For
    y >= y*, -T'(y) <= -T'(y*). For y < y*, A'(y) <= A'(y*) <= -T'(y*), as A' + T' is 0 at a minimum
    inside and not above 0 at one at 1. So for any y the smaller of A'(y) and -T'(y), with their
    signs, is at most -T'(y*): the ends of the bracket are tried. "Above" is the mirror image.

    `least` may be above 0 for "below", where u >= least + |u - q| is known: if y* is `least`, then
    u - y* >= |u - q| in the third term, and A' + T', the slope there, comes on top of |t|.
    """
    left = joint_evidence(low, lines, sample, sign)
    right = joint_evidence(high, lines, sample, sign)
    for _ in range(CUTS):
        width = high - low
        y = next_cut(low, left, right, width)
        found = joint_evidence(y, lines, sample, sign)
        rising = found[1] > 0.0
        low, high = np.where(rising, low, y), np.where(rising, y, high)
        left, right = np.where(rising, left, found), np.where(rising, found, right)
    return weighed(low, high, left, right, lines, sign, least)


def line_at(lines: Lines, y: Numbers, bets: Numbers, costs: Numbers) -> Numbers:
    """Return the logs of the e-processes of some bets against thresholds at y."""
    return bets * (lines.offset + lines.speed * y) - costs


def next_cut(low: Numbers, left: Numbers, right: Numbers, width: Numbers) -> Numbers:
    """Return where to look next: where the tangents meet, not too near to the ends."""
    met = np.maximum(meeting(left, right, width), 0.05 * width)
    return low + np.minimum(met, 0.95 * width)


def weighed(
    low: Numbers,
    high: Numbers,
    left: Numbers,
    right: Numbers,
    lines: Lines,
    sign: float,
    least: Numbers = 0.0,
) -> Weighed:
    """Return what tangents at the ends of a bracket say of the minimum, wherever it is."""
    inside = left[0] + np.minimum(left[1], 0.0) * meeting(left, right, high - low)
    before = left[0] - left[1] * (low - least)
    after = right[0] + right[1] * (1.0 - high)
    value = choose(left[1] > 0.0, before, choose(right[1] < 0.0, after, inside))
    steepness = np.maximum(steepness_of(left, lines, sign), steepness_of(right, lines, sign))
    on_top = choose(low <= least, np.maximum(left[1], 0.0), 0.0)
    return Weighed(value, np.maximum(steepness, 0.0) + on_top, 0.5 * (low + high))


def steepness_of(found: Numbers, lines: Lines, sign: float) -> Numbers:
    """Return the smaller of the slopes of the parts, reduced by the threshold's share."""
    return lines.share * np.minimum(-sign * found[2], sign * found[3])


def meeting(left: Numbers, right: Numbers, width: Numbers) -> Numbers:
    """Return how far from the left end of a bracket the tangents at its ends meet."""
    bend = right[1] - left[1]
    flat = bend <= 0.0
    meet = (left[0] - right[0] + right[1] * width) / choose(flat, 1.0, bend)
    return choose(flat, 0.5 * width, np.minimum(np.maximum(meet, 0.0), width))
