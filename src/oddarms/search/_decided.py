"""When each arm was decided."""

from __future__ import annotations

import numpy as np

from oddarms.algorithms import Decision, Decisions
from oddarms.problem import IntArray

OPEN = -1
"""Of an arm that is not decided."""


class DecisionTimes:
    """After how many pulls each arm got the decision that it has; `OPEN` of those without.

    Examples
    --------
    >>> times = DecisionTimes(3)
    >>> times.note(np.array([0, 1, 0], dtype=np.int8), 10)
    >>> times.note(np.array([0, 1, 2], dtype=np.int8), 20)
    >>> times.after.tolist()
    [-1, 10, 20]
    """

    def __init__(self, n: int) -> None:
        self.after: IntArray = np.full(n, OPEN, dtype=np.int64)
        self.decisions: Decisions = np.full(n, Decision.UNDECIDED, dtype=np.int8)

    def note(self, decisions: Decisions, pulls: int) -> None:
        """Take note of what is decided after so many pulls."""
        new = decisions != self.decisions
        if new.any():
            self.after[new] = np.where(decisions[new] == Decision.UNDECIDED, OPEN, pulls)
            self.decisions = decisions.copy()
