"""A result as the report tells of it, and what its parts share."""

from __future__ import annotations

from collections.abc import Sequence

from oddarms.algorithms import Decision
from oddarms.documents import Literal, number_text, visible
from oddarms.reports._figures import DECISIONS, Figures, is_known
from oddarms.search import ARMS, Result, Subject, TracePoint
from oddarms.search._text import status_text

MOST_ROWS = 2_000
"""Rows of the table of all arms; where there are more arms the page points to arms.csv."""
LABEL_CHARACTERS = 60
"""Of a label among words."""
MOST_LABEL_CHARACTERS = 400
"""Of a label in the answer, where it is wrapped and not cut."""


class Account(Figures):
    """What the parts of the report know of one result.

    Attributes
    ----------
    subject
        What its arms are.
    """

    def __init__(self, result: Result, subject: Subject = ARMS) -> None:
        super().__init__(result)
        self.subject = subject

    def number(self, value: float) -> str:
        """Return a reward with the digits that matter, or in percent."""
        if not self.subject.in_percent(self.question):
            return super().number(value)
        return f"{number_text(100.0 * float(value), 100.0)} %"

    @property
    def trace(self) -> Sequence[TracePoint]:
        """A few moments of the search."""
        return self.result.trace

    @property
    def status(self) -> str:
        """Where the search stands, in the words of every other output."""
        return status_text(self.result.status, self.subject)

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

    def decision(self, decision: int) -> str:
        """Return what is known of an arm."""
        if decision == Decision.HIGH and self.subject is not ARMS:
            return self.subject.guess
        return DECISIONS[Decision(decision)]

    def label(self, label: object) -> str:
        """Return a label that is only text."""
        return Literal(visible(label, MOST_LABEL_CHARACTERS))
