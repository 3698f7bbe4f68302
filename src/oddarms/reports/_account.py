"""A result as the page tells of it: figures in its units, and what other parts share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oddarms.algorithms import Decision
from oddarms.documents import Literal, number_text, visible
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, Problem
from oddarms.search import HistoryPoint, Result

MOST_ROWS = 2_000
"""Rows of the table of all arms; where there are more arms the page points to arms.csv."""
LABEL_CHARACTERS = 60

DECISIONS = {
    Decision.NORMAL: "normal",
    Decision.UNDECIDED: "undecided",
    Decision.HIGH: "outlier above",
    Decision.LOW: "outlier below",
}
REASONS = {
    "decided": "every arm is decided",
    "budget": "the budget of samples did not suffice",
    "interrupted": "it was interrupted",
    "failed": "a sample could not be taken",
    "running": "it is still running",
}


class Account:
    """What the parts of the page know of one result.

    Attributes
    ----------
    needed
        About how many more samples each arm needs, or None.
    distances
        Of each mean from the nearest threshold's estimate; NaN where one is not known.
    """

    def __init__(
        self,
        result: Result,
        needed: Sequence[float] | FloatArray | None = None,
        *,
        indifference: float = 0.0,
        equal_sampling: int | None = None,
    ) -> None:
        self.result = result
        self.needed = _checked_needed(result, needed)
        self.indifference = indifference
        self.equal_sampling = equal_sampling
        self.odds = result.odds
        gaps = [np.abs(result.means - bound.estimate) for bound in result.thresholds.values()]
        self.distances: FloatArray = np.fmin.reduce(gaps)

    @property
    def question(self) -> Problem:
        """What was asked."""
        return self.result.problem

    @property
    def n(self) -> int:
        """The number of arms."""
        return self.question.n

    @property
    def trace(self) -> Sequence[HistoryPoint]:
        """The rounds of the search."""
        return self.result.history

    @property
    def running(self) -> bool:
        """True if the search goes on."""
        return self.result.stopped == "running"

    @property
    def reason(self) -> str:
        """Why the search ended."""
        stopped = self.result.stopped
        return REASONS.get(stopped, visible(stopped, LABEL_CHARACTERS))

    @property
    def has_file(self) -> bool:
        """True if there are too many arms for the page, so that arms.csv is beside it."""
        return self.n > MOST_ROWS

    def thresholds(self) -> str:
        """Return what is known of the thresholds, in sentences."""
        texts = []
        for side, (estimate, low, high) in self.result.thresholds.items():
            if not math.isfinite(estimate):
                texts.append(f"The {side} threshold is not known yet.")
                continue
            where = f"between {self.number(low)} and {self.number(high)}"
            texts.append(f"The {side} threshold is about {self.number(estimate)}, {where}.")
        return " ".join(texts)

    def number(self, value: float) -> str:
        """Return a reward with the digits that matter."""
        a, b = self.question.bounds
        return number_text(float(value), b - a)

    def interval(self, low: float, high: float) -> str:
        """Return an interval of rewards."""
        return f"{self.number(low)} to {self.number(high)}"

    def label(self, label: object) -> str:
        """Return a label that is only text."""
        return Literal(visible(label, LABEL_CHARACTERS))


def _checked_needed(
    result: Result, needed: Sequence[float] | FloatArray | None
) -> FloatArray | None:
    if needed is None:
        return None
    array = np.asarray(needed, dtype=np.float64)
    n = len(result.labels)
    if array.shape != (n,):
        raise InvalidParameter(
            f"pulls_needed must be {n} numbers, one per arm, but has the shape {array.shape}."
        )
    return array
