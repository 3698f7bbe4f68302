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
    wherever it is. The steepness is that of Lemma 8 in docs/explanation/proofs.md, and of Corollary
    8 where the minimum is at `least`; either end of the bracket gives one, as any y does.
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
