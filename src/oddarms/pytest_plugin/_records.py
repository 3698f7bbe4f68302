"""What is known of each collected test, and which of them are compared: the first runs.

Which tests belong to the population
------------------------------------
A test that is skipped at its first run is left out. One that passes belongs to the population. One
that fails is run again, until it passes once (it belongs to the population) or has failed
`runs_to_be_broken` times out of as many: it is *broken, not flaky*, and left out. If its failure
rate were below one half, it would have failed so often with probability at most 2^-runs, which is
at most delta/n; so with probability at least 1 - delta all tests called broken fail in more than
half of their runs. That is apart from the search's own guarantee.

Why this does not harm the search
---------------------------------
The population is chosen by the first runs, and the search does not use them: it samples every test
of the population anew. Given the population, its samples are what they would be had somebody named
the tests in advance, and the answer is right *about this population* with probability at least
1 - delta. Were the first runs imported, that would be lost: a test would have come in by having
passed, and its first rewards would be a selection.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from oddarms.pytest_plugin._outcomes import Outcome, Verdict

LEAST_RUNS = 10
"""Before a test is called broken."""


class Place(StrEnum):
    """Where a test belongs."""

    OPEN = "open"
    COMPARED = "compared"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass
class Record:
    """A collected test.

    Attributes
    ----------
    nodeid
        Its name.
    place
        Whether it is compared with the others, or left out.
    first_runs, first_failures
        Before the search.
    runs, failures
        In the search, by this run of pytest.
    text
        How it failed last, or why it is skipped.
    seconds, timed
        Spent in so many runs.
    """

    nodeid: str
    place: Place = Place.OPEN
    first_runs: int = 0
    first_failures: int = 0
    runs: int = 0
    failures: int = 0
    text: str = ""
    seconds: float = 0.0
    timed: int = 0

    @property
    def pace(self) -> float:
        """Seconds that a run takes."""
        return self.seconds / self.timed if self.timed else math.inf

    @property
    def only_fails_again(self) -> bool:
        """True if only its first run passed: it may not bear being run twice in a process."""
        return self.first_failures < self.first_runs and self.runs == self.failures > 1

    def note(self, outcome: Outcome) -> None:
        """Remember the time of a run, and how it failed."""
        self.seconds += outcome.seconds
        self.timed += 1
        if outcome.failed:
            self.text = outcome.text


def runs_to_be_broken(n: int, delta: float) -> int:
    """Return how often a test fails in a row before it is broken: 2^-runs is at most delta/n.

    Examples
    --------
    >>> runs_to_be_broken(20, 0.05), runs_to_be_broken(3000, 0.05)
    (10, 16)
    """
    return max(LEAST_RUNS, math.ceil(math.log2(n / delta)))


class FirstRuns:
    """Runs every test once, and those that fail again, to find the population."""

    def __init__(self, records: list[Record], delta: float) -> None:
        self.records = records
        self.needed = runs_to_be_broken(max(len(records), 1), delta)
        self._waiting = deque(range(len(records)))
        self._open = len(records)

    @property
    def over(self) -> bool:
        """True once every test has its place."""
        return self._open == 0

    def next(self, last: int | None) -> int | None:
        """Return the number of a test to be run, another one than the last, or None for now."""
        for _ in range(len(self._waiting)):
            index = self._waiting.popleft()
            if index != last:
                return index
            self._waiting.append(index)
        return None

    def tell(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of a first run."""
        record = self.records[index]
        record.first_runs += 1
        record.first_failures += outcome.failed
        if outcome.verdict is Verdict.SKIPPED and record.first_runs == 1:
            record.place, record.text = Place.SKIPPED, outcome.text
        elif not outcome.failed:
            record.place = Place.COMPARED
        elif record.first_failures >= self.needed:
            record.place = Place.BROKEN
        else:
            self._waiting.append(index)
            return
        self._open -= 1

    def give_back(self, index: int) -> None:
        """Put a test back that was not run."""
        self._waiting.appendleft(index)
