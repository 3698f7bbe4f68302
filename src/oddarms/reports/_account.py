"""A result as the page tells of it: figures in its units, and what other parts share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oddarms.algorithms import Decision
from oddarms.documents import Literal, number_text, visible
from oddarms.problem import FloatArray, Question
from oddarms.search import Result, Status, TracePoint

MOST_ROWS = 2_000
"""Rows of the table of all arms; where there are more arms the page points to arms.csv."""
LABEL_CHARACTERS = 60

DECISIONS = {
    Decision.NORMAL: "normal",
    Decision.UNDECIDED: "undecided",
    Decision.HIGH: "outlier above",
    Decision.LOW: "outlier below",
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

    def __init__(self, result: Result) -> None:
        self.result = result
        self.needed = result.pulls_needed
        self.equal_sampling = result.equal_sampling
        self.odds = result.odds
        gaps = [np.abs(result.means - bound.estimate) for bound in result.thresholds.values()]
        self.distances: FloatArray = np.fmin.reduce(gaps)

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.result.question

    @property
    def n(self) -> int:
        """The number of arms."""
        return self.question.n

    @property
    def trace(self) -> Sequence[TracePoint]:
        """A few moments of the search."""
        return self.result.trace

    @property
    def running(self) -> bool:
        """True if the search goes on."""
        return self.result.status is Status.RUNNING

    @property
    def reason(self) -> str:
        """Why the search ended."""
        return self.result.status.meaning

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
