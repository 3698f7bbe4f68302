"""A result as the page tells of it: figures in its units, and what other parts share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oddarms.algorithms import Decision, Threshold
from oddarms.documents import Literal, number_text, visible
from oddarms.problem import FloatArray, Question
from oddarms.search import Result, TracePoint
from oddarms.search._text import status_text

MOST_ROWS = 2_000
"""Rows of the table of all arms; where there are more arms the page points to arms.csv."""
LABEL_CHARACTERS = 60
"""Of a label among words."""
MOST_LABEL_CHARACTERS = 400
"""Of a label in the answer, where it is wrapped and not cut."""

DECISIONS = {
    Decision.NORMAL: "normal",
    Decision.UNDECIDED: "undecided",
    Decision.HIGH: "outlier above",
    Decision.LOW: "outlier below",
}


def is_known(bound: Threshold) -> bool:
    """Return whether a threshold has an estimate and an interval."""
    return all(map(math.isfinite, bound))


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
    def status(self) -> str:
        """Where the search stands, in the words of every other output."""
        return status_text(self.result.status)

    @property
    def samples(self) -> int:
        """Rewards of pulls and imported ones."""
        return self.result.pulls + self.result.imported

    @property
    def has_file(self) -> bool:
        """True if there are too many arms for the page, so that arms.csv is beside it."""
        return self.n > MOST_ROWS

    def thresholds(self) -> str:
        """Return what is known of the thresholds, in sentences."""
        texts = []
        for side, bound in self.result.thresholds.items():
            if not is_known(bound):
                texts.append(f"The {side} threshold is not known yet.")
                continue
            where = f"between {self.number(bound.lower)} and {self.number(bound.upper)}"
            texts.append(f"The {side} threshold is about {self.number(bound.estimate)}, {where}.")
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
        return Literal(visible(label, MOST_LABEL_CHARACTERS))
