"""What every rule is: how the threshold follows from the means of all arms.

A rule speaks of n means in [0, 1] and of the upper side, as algorithms do; `rule_of` makes one of
a question, whose lower side is a mirror. An arm is an outlier if its mean lies at or above

    max(plain threshold, centre + margin, floor),

where each rule has its own plain threshold and its own centre.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oddarms.problem import BoolArray, FloatArray

Ends = tuple[float, float]
"""A lower and an upper bound."""
Holds = tuple[FloatArray, FloatArray]
"""How much a lower and an upper bound depend on the interval of each arm."""


class _Usual(float):
    """The margin 0, which a question replaces by its default."""

    def __repr__(self) -> str:
        return "0.0"


USUAL = _Usual(0.0)


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """How the threshold follows from the means.

    A rule may also be given to a `Question`, such as ``rule=Mad(k=3)``; margin and floor are then
    in units of the rewards.

    Parameters
    ----------
    margin
        An outlier lies at least this far above the centre. By default 0, which a question replaces
        by its own default.
    floor
        An outlier lies at or above this value; minus infinity for none.
    """

    name: ClassVar[str]

    margin: float = USUAL
    floor: float = -math.inf

    def words(self) -> dict[str, Any]:
        """Return the words of a question that asks for this rule.

        Examples
        --------
        >>> from oddarms.rules import Mad
        >>> Mad(k=3, margin=0.1).words()
        {'rule': 'mad', 'margin': 0.1, 'k': 3}
        """
        found: dict[str, Any] = {"rule": self.name}
        if self.margin is not USUAL:
            found["margin"] = self.margin
        if self.floor > -math.inf:
            found["floor"] = self.floor
        return {**found, **self._own_words()}

    def _own_words(self) -> dict[str, Any]:
        """Return the words that only this rule has."""
        return {"k": self.k} if hasattr(self, "k") else {}

    @abstractmethod
    def plain(self, means: FloatArray) -> float:
        """Return the threshold of known means, margin and floor apart."""

    @abstractmethod
    def centre(self, means: FloatArray) -> float:
        """Return the centre of the means, from which the margin is measured."""

    @abstractmethod
    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds on `plain` of all means with low_i <= y_i <= high_i."""

    @abstractmethod
    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds on `centre` of all means with low_i <= y_i <= high_i."""

    @abstractmethod
    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return the gradient of `plain`, where it has one."""

    @abstractmethod
    def centre_influence(self, means: FloatArray) -> FloatArray:
        """Return the gradient of `centre`."""

    @property
    def exempt(self) -> tuple[int, ...]:
        """The arms that are never outliers, whatever their means."""
        return ()

    @property
    def ordered(self) -> bool:
        """Whether the lower threshold is at most the upper one.

        If not, an arm may lie beyond both; it is called high.
        """
        return float(getattr(self, "k", 0.0)) >= 0.0

    @property
    def is_plain(self) -> bool:
        """Whether there is neither a margin nor a floor."""
        return self.margin == 0.0 and self.floor == -math.inf

    def threshold(self, means: FloatArray) -> float:
        """Return the threshold of known means."""
        above_centre = self.centre(means) + self.margin if self.margin > 0.0 else -math.inf
        return max(self.plain(means), above_centre, self.floor)

    def bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return bounds on the threshold of all means with low_i <= y_i <= high_i."""
        return self.raised(self.plain_bounds(low, high), self.centre_bounds(low, high))

    def raised(self, plain: Ends, centre: Ends) -> Ends:
        """Return bounds on the threshold, the largest of its parts, from bounds on the parts."""
        margin = self.margin if self.margin > 0.0 else -math.inf
        return (
            max(plain[0], centre[0] + margin, self.floor),
            max(plain[1], centre[1] + margin, self.floor),
        )

    def plain_cutoffs(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the cutoffs without margin and floor: by default the ends of `plain_bounds`."""
        return self.plain_bounds(low, high)

    def cutoffs(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return two cutoffs: means below the first are normal, from the second on outliers.

        For all means with low_i <= y_i <= high_i. An outlier reaches the plain threshold, centre +
        margin and floor, so each cutoff is the largest of three. They decide arms and do not bound
        the threshold: the first cutoff may even be above the second.
        """
        return self.raised(self.plain_cutoffs(low, high), self.centre_bounds(low, high))

    def holds(self, means: FloatArray, low: FloatArray, high: FloatArray) -> Holds:  # noqa: ARG002
        """Return about how much each of the two `cutoffs` moves as an arm's interval gets narrower.

        The first cutoff can rise up to the estimated threshold; the second may be kept up by any of
        its parts. Algorithms choose pulls by it; no proof uses it.
        """
        lower, upper = np.abs(self.influence(means)), np.abs(self.plain_influence(means))
        if self.margin > 0.0:
            upper = np.maximum(upper, np.abs(self.centre_influence(means)))
        return lower, upper

    def influence(self, means: FloatArray) -> FloatArray:
        """Return the gradient of the threshold."""
        plain, centre = self.plain(means), self.centre(means) + self.margin
        if self.floor >= max(plain, centre if self.margin > 0.0 else -math.inf):
            return 0.0 * means
        if self.margin > 0.0 and centre > plain:
            return self.centre_influence(means)
        return self.plain_influence(means)

    def outliers(self, means: FloatArray) -> BoolArray:
        """Return which known means are outliers."""
        found: BoolArray = means >= self.threshold(means)
        found[list(self.exempt)] = False
        return found
