"""The figures of a result as every page writes them: in its units, with the digits that matter."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from oddarms.algorithms import Decision, Threshold
from oddarms.documents import number_text
from oddarms.problem import FloatArray, IntArray, Question
from oddarms.search import Result

DECISIONS = {
    Decision.NORMAL: "normal",
    Decision.UNDECIDED: "undecided",
    Decision.HIGH: "outlier above",
    Decision.LOW: "outlier below",
}


def is_known(bound: Threshold) -> bool:
    """Return whether a threshold has an estimate and an interval."""
    return all(map(math.isfinite, bound))


class Figures:
    """One result, and what follows from it; each is found once, when it is first wanted.

    Attributes
    ----------
    result
        What is known.
    """

    def __init__(self, result: Result) -> None:
        self.result = result

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.result.question

    @property
    def n(self) -> int:
        """The number of arms."""
        return self.question.n

    @cached_property
    def samples_per_arm(self) -> IntArray:
        """Per arm the rewards that are known, imported ones included."""
        return self.result.pulls_per_arm + self.result.imported_per_arm

    @cached_property
    def samples(self) -> int:
        """Rewards of pulls and imported ones."""
        return self.result.pulls + self.result.imported

    @cached_property
    def distances(self) -> FloatArray:
        """Of each mean from the nearest threshold's estimate; NaN where one is not known."""
        gaps = [np.abs(self.result.means - t.estimate) for t in self.result.thresholds.values()]
        nearest: FloatArray = np.fmin.reduce(gaps)
        return nearest

    @cached_property
    def odds(self) -> FloatArray | None:
        """The evidence on each arm as odds, where the algorithm has them."""
        return self.result.odds

    @property
    def needed(self) -> FloatArray | None:
        """About how many more samples each arm needs, where the algorithm can tell."""
        return self.result.pulls_needed

    @cached_property
    def equal_sampling(self) -> int | None:
        """About how many samples it takes to sample every arm equally often."""
        return self.result.equal_sampling

    def number(self, value: float) -> str:
        """Return a reward with the digits that matter."""
        a, b = self.question.bounds
        return number_text(float(value), b - a)

    def interval(self, low: float, high: float) -> str:
        """Return an interval of rewards."""
        return f"{self.number(low)} to {self.number(high)}"
