"""An arm and its threshold in one e-value: the smallest product over all levels between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from oddarms.statistics.elementwise import Numbers, choose
from oddarms.statistics.evidence import Sample, log_evidence
from oddarms.statistics.threshold_streams import Lines, log_of_lines

CUTS = 6


class Weighed(NamedTuple):
    """The joint evidence on arms, and by how much it grows with the distance from the threshold."""

    evidence: Numbers
    steepness: Numbers
    y: Numbers
    """About the mean at which the evidence is smallest."""


class Joint(NamedTuple):
    """The evidence against means of y and thresholds at it, and its slope."""

    value: Numbers
    slope: Numbers
    arm: Numbers
    """The slope of the arm's part."""
    threshold: Numbers
    """The slope of the threshold's part."""


def joint_evidence(y: Numbers, lines: Lines, sample: Sample, sign: float) -> Joint:
    """Return the joint evidence; `sign` is -1 where the sample speaks of "below", else 1."""
    value, arm = log_evidence(sample, y if sign > 0.0 else 1.0 - y)
    threshold, bet = log_of_lines(lines, y)
    arm, bet = sign * arm, bet * lines.speed
    return Joint(value + threshold, arm + bet, arm, bet)


def weigh(
    low: Numbers,
    high: Numbers,
    lines: Lines,
    sample: Sample,
    sign: float,
    least: Numbers = 0.0,
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
        met = np.maximum(meeting(left, right, high - low), 0.05 * (high - low))
        y = low + np.minimum(met, 0.95 * (high - low))
        found = joint_evidence(y, lines, sample, sign)
        rising = found.slope > 0.0
        low, high = choose(rising, low, y), choose(rising, y, high)
        left, right = nearer(rising, left, found), nearer(rising, found, right)
    inside = left.value + np.minimum(left.slope, 0.0) * meeting(left, right, high - low)
    before = left.value - left.slope * (low - least)
    after = right.value + right.slope * (1.0 - high)
    value = choose(left.slope > 0.0, before, choose(right.slope < 0.0, after, inside))
    steepness = lines.share * np.maximum(
        np.minimum(-sign * left.arm, sign * left.threshold),
        np.minimum(-sign * right.arm, sign * right.threshold),
    )
    on_top = choose(low <= least, np.maximum(left.slope, 0.0), 0.0)
    return Weighed(value, np.maximum(steepness, 0.0) + on_top, 0.5 * (low + high))


def nearer(rising: Numbers, left: Joint, right: Joint) -> Joint:
    """Return the left one where the evidence is rising."""
    return Joint(
        choose(rising, left.value, right.value),
        choose(rising, left.slope, right.slope),
        choose(rising, left.arm, right.arm),
        choose(rising, left.threshold, right.threshold),
    )


def meeting(left: Joint, right: Joint, width: Numbers) -> Numbers:
    """Return how far from the left end of a bracket the tangents at its ends meet."""
    bend = right.slope - left.slope
    flat = bend <= 0.0
    meet = (left.value - right.value + right.slope * width) / choose(flat, 1.0, bend)
    return choose(flat, 0.5 * width, np.minimum(np.maximum(meet, 0.0), width))
