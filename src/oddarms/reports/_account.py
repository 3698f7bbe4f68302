"""A result as the report tells of it, and what its parts share."""

from __future__ import annotations

from collections.abc import Sequence

from oddarms.documents import Literal, visible
from oddarms.reports._figures import Figures, is_known
from oddarms.search import TracePoint
from oddarms.search._text import status_text

MOST_ROWS = 2_000
"""Rows of the table of all arms; where there are more arms the page points to arms.csv."""
LABEL_CHARACTERS = 60
"""Of a label among words."""
MOST_LABEL_CHARACTERS = 400
"""Of a label in the answer, where it is wrapped and not cut."""


class Account(Figures):
    """What the parts of the report know of one result."""

    @property
    def trace(self) -> Sequence[TracePoint]:
        """A few moments of the search."""
        return self.result.trace

    @property
    def status(self) -> str:
        """Where the search stands, in the words of every other output."""
        return status_text(self.result.status)

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

    def label(self, label: object) -> str:
        """Return a label that is only text."""
        return Literal(visible(label, MOST_LABEL_CHARACTERS))
