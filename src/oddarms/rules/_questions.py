"""The other rules - mean + k sd, a control arm, a fixed threshold - and the rule of a question."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oddarms.problem import USUAL_K, BoolArray, FloatArray, Question, check_k
from oddarms.rules._base import USUAL, Ends, Rule
from oddarms.rules._order import Mad, Quantile, Tukey, unit
from oddarms.statistics.threshold_box import bounds_over_box, rounding
from oddarms.theory import threshold


@dataclass(frozen=True)
class Sigma(Rule):
    """mu + k sigma of the n means, sigma divided by n; the centre is mu.

    Examples
    --------
    >>> Sigma(k=1.0).threshold(np.array([0.0, 0.0, 0.0, 1.0])).__round__(4)
    0.683
    >>> Sigma(k=1.0, margin=0.5).threshold(np.array([0.0, 0.0, 0.0, 1.0]))
    0.75
    """

    name: ClassVar[str] = "sigma"

    k: float = 2.0

    def __post_init__(self) -> None:
        check_k(self.k)

    def plain(self, means: FloatArray) -> float:
        return threshold(means, self.k)

    def centre(self, means: FloatArray) -> float:
        return float(means.mean())

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds by convexity: `oddarms.statistics.threshold_box`."""
        return bounds_over_box(low, high, self.k)[:2]

    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the means of the ends, rounded outwards."""
        room = rounding(low.size, 1.0)
        return float(low.mean()) - room, float(high.mean()) + room

    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return c_j = (1 + k z_j)/n, z the standardised means; |k| counts as at most sqrt(n)."""
        reach = math.sqrt(means.size)
        deviations = means - means.mean()
        sd = float(np.sqrt((deviations**2).mean()))
        z = deviations / sd if sd > 0.0 else 0.0 * deviations
        influence: FloatArray = (1.0 + min(max(self.k, -reach), reach) * z) / means.size
        return influence

    def centre_influence(self, means: FloatArray) -> FloatArray:
        return np.full(means.size, 1.0 / means.size)


@dataclass(frozen=True)
class _OneNumber(Rule):
    """A rule whose centre is its threshold."""

    def centre(self, means: FloatArray) -> float:
        return self.plain(means)

    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        return self.plain_bounds(low, high)

    def centre_influence(self, means: FloatArray) -> FloatArray:
        return self.plain_influence(means)


@dataclass(frozen=True, init=False)
class Control(_OneNumber):
    """The mean of the control arm, also the centre; the control is never an outlier.

    Parameters
    ----------
    index
        The control arm: its number for an algorithm, its label in a question.
    margin, floor
        As for every `Rule`.

    Examples
    --------
    >>> Control(0, 0.1).outliers(np.array([0.3, 0.2, 0.35, 0.9])).tolist()
    [False, False, False, True]
    """

    name: ClassVar[str] = "control"

    index: Any = 0

    def __init__(self, index: Any = 0, margin: float = USUAL, *, floor: float = -math.inf) -> None:
        for name, value in (("index", index), ("margin", margin), ("floor", floor)):
            object.__setattr__(self, name, value)

    def _own_words(self) -> dict[str, Any]:
        return {"control": self.index}

    @property
    def exempt(self) -> tuple[int, ...]:
        return (self.index,)

    def plain(self, means: FloatArray) -> float:
        return float(means[self.index])

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        return float(low[self.index]), float(high[self.index])

    def plain_influence(self, means: FloatArray) -> FloatArray:
        return unit(means.size, self.index)


@dataclass(frozen=True)
class Absolute(_OneNumber):
    """The floor, which is also the centre.

    Examples
    --------
    >>> Absolute(floor=0.5).outliers(np.array([0.2, 0.5, 0.9])).tolist()
    [False, True, True]
    """

    name: ClassVar[str] = "absolute"

    def plain(self, means: FloatArray) -> float:  # noqa: ARG002
        return self.floor

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:  # noqa: ARG002
        return self.floor, self.floor

    def plain_influence(self, means: FloatArray) -> FloatArray:
        return np.zeros(means.size)


_CLASSES: dict[str, type[Rule]] = {
    rule.name: rule for rule in (Sigma, Mad, Tukey, Quantile, Control, Absolute)
}


def rule_of(question: Question) -> Rule:
    """Return the rule of a question for rewards as an algorithm sees them.

    They are scaled to [0, 1] and, for the lower side alone, mirrored.
    """
    a, b = question.bounds
    values: dict[str, Any] = {"margin": question.margin / (b - a)}
    if question.floor is not None:
        distance = b - question.floor if question.side == "lower" else question.floor - a
        values["floor"] = distance / (b - a)
    if question.rule in USUAL_K:
        values["k"] = question.k
    if question.rule == "control":
        values["index"] = list(question.labels).index(question.control)
    if question.quantile is not None:
        values["share"] = question.quantile
    return _CLASSES[question.rule](**values)


def true_outliers(question: Question, means: FloatArray) -> dict[str, BoolArray]:
    """Return which known means, in the units of the rewards, are outliers on each side."""
    a, b = question.bounds
    found: dict[str, BoolArray] = {}
    for side in question.sides:
        scaled = (b - means if side == "lower" else means - a) / (b - a)
        found[side] = rule_of(question).outliers(scaled)
    return found


def gaps_to_thresholds(question: Question, means: FloatArray) -> FloatArray:
    """Return the distances of known means from the nearest threshold, in units of the rewards.

    Infinite for arms that cannot be outliers.
    """
    a, b = question.bounds
    nearest = np.full(means.size, math.inf)
    for side in question.sides:
        scaled = (b - means if side == "lower" else means - a) / (b - a)
        rule = rule_of(question)
        distance = np.abs(scaled - rule.threshold(scaled)) * (b - a)
        distance[list(rule.exempt)] = math.inf
        nearest = np.minimum(nearest, distance)
    return nearest
