"""What to run next, and what it means: the first runs, then the search.

Whoever runs the tests - this process, its children, the workers of pytest-xdist - asks `next` for
a sample and tells its outcome.

Samples of one test are interleaved with those of others: `next` never returns the test that ran
last on the same worker. Where the search wants that one only, `between` has another one to run in
between, and nobody looks at its outcome; whether a run counts is decided before it begins. So what
is under way when the time is over counts as well: slow runs are more often among it.

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

import hashlib
import json
import math
import random
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from oddarms.errors import StorageFailed
from oddarms.finding import open_study
from oddarms.problem import DEFAULT_DELTA, Question
from oddarms.pytest_plugin import Settings
from oddarms.pytest_plugin._running import Outcome, Verdict
from oddarms.randomness import seed_of
from oddarms.search import PREFETCH, Progress, Result, Search, Ticket
from oddarms.studies import Study, Worker, retried

AT_A_TIME = 256
"""Tickets that are asked for by one process."""
RETRY_SECONDS = 30.0
"""How long to wait for a storage that is unavailable."""

MIN_RUNS = 10
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
    return max(MIN_RUNS, math.ceil(math.log2(n / delta)))


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


@dataclass(frozen=True)
class Sample:
    """A run to be made: of which test, under which name, and for which ticket of the search.

    Without a ticket it is one of the first runs, or one that nobody looks at (`between`).
    """

    index: int
    name: str
    ticket: Ticket | None = None
    between: bool = False


class Sampling:
    """The state of a run: a record of every test, and the search once there is one.

    Parameters
    ----------
    nodeids
        The collected tests.
    settings
        What was asked for.
    workers
        How many run tests at a time.
    """

    def __init__(self, nodeids: Sequence[str], settings: Settings, workers: int = 1) -> None:
        self.settings = settings
        self.records = [Record(nodeid) for nodeid in nodeids]
        self.begun = time.monotonic()
        self.problem = ""
        """Why there is no search, as a sentence."""
        self.stopped = ""
        """Why it was ended before the answer was known."""
        self.runs = 0
        self.runs_between = 0
        self.stored_before = 0
        """Runs that the storage had at the beginning."""
        self.answered: datetime | None = None
        """When the search was begun whose answer the storage had already."""
        self.study: Study | None = None
        self._seed = seed_of(settings.seed)
        self._rng = random.Random(self._seed)
        self._first = FirstRuns(self.records, settings.words.get("delta", DEFAULT_DELTA))
        self._prefetch = PREFETCH if workers > 1 else 0.0
        self._at_a_time = AT_A_TIME if workers == 1 else 4 * workers
        self._desk: Search | Worker | None = None
        self._tests: list[int] = []  # of each arm
        self._pool: list[Ticket] = []
        self._out: dict[str, Ticket] = {}
        self._seconds = 0.0
        self._done = False
        self._progress: Progress | None = None

    # What to run

    @property
    def done(self) -> bool:
        """True once nothing more is to be run."""
        return self._done

    @property
    def searching(self) -> bool:
        """True once the first runs are over and there is a search."""
        return self._desk is not None

    def next(self, last: int | None = None) -> Sample | None:
        """Return a sample, of another test than the last one; None where there is none for now."""
        if self._is_late():
            self.stop(f"{self.settings.seconds:g} seconds are over")
        if self._done:
            return None
        if not self._first.over:
            index = self._first.next(last)
            return None if index is None else self._first_run(index)
        if self._desk is None:
            self._begin()
        return None if self._done else self._ticket_for(last)

    def between(self, last: int | None) -> Sample | None:
        """Return a run that nobody looks at, of another test than the last one."""
        known = [i for i, record in enumerate(self.records) if record.place is Place.COMPARED]
        usable = [i for i in known or range(len(self.records)) if i != last]
        if not usable:
            return None
        self.runs_between += 1
        index = self._rng.choice(usable)  # not a quick one: the seed alone decides what is run
        return Sample(index, f"{self._seed}:between:{self.runs_between}", between=True)

    def tell(self, sample: Sample, outcome: Outcome) -> None:
        """Take the outcome of a sample."""
        self.runs += 1
        self._seconds += outcome.seconds
        if sample.between:
            return
        record = self.records[sample.index]
        record.note(outcome)
        if sample.ticket is None:
            self._first.tell(sample.index, outcome)
            return
        record.runs += 1
        record.failures += outcome.failed
        desk = self._desk
        if desk is not None and self._out.pop(sample.ticket.id, None) is not None:
            desk.tell(sample.ticket, float(outcome.failed))

    def lose(self, sample: Sample) -> None:
        """Give a sample back that was not run."""
        if sample.ticket is not None:
            if self._out.pop(sample.ticket.id, None) is not None:
                self._pool.append(sample.ticket)
        elif not sample.between:
            self._first.give_back(sample.index)

    def stop(self, why: str) -> None:
        """Hand out no more samples; those under way are still to be told."""
        if self._done:
            return
        self.stopped = why
        self._end()

    def finish(self, why: str, *, in_a_hurry: bool = False) -> Result | None:
        """Return what is known in the end, when nothing is under way any more.

        Parameters
        ----------
        why
            Why it ends, if it has not ended by itself.
        in_a_hurry
            Whether not to wait for a storage that is unavailable.
        """
        self.stop(why)
        desk = self._desk
        if desk is None:
            return None
        desk.skip_many([*self._pool, *self._out.values()], "not run")
        self._pool, self._out = [], {}
        if not isinstance(desk, Worker):
            return desk.result()
        try:
            desk.flush(retry=not in_a_hurry)
            return retried(desk.study.result, 0.0 if in_a_hurry else RETRY_SECONDS)
        finally:
            desk.__exit__(KeyboardInterrupt)

    def _is_late(self) -> bool:
        seconds = self.settings.seconds
        return seconds is not None and time.monotonic() - self.begun > seconds

    def _first_run(self, index: int) -> Sample:
        record = self.records[index]
        return Sample(index, f"{self._seed}:first:{record.nodeid}:{record.first_runs}")

    def _ticket_for(self, last: int | None) -> Sample | None:
        """Return a sample of a ticket at hand, by lot; ask for more if there is none that fits."""
        fitting = self._fitting(last)
        if not fitting:
            self._ask()
            fitting = self._fitting(last)
        if self._done or not fitting:
            return None
        ticket = self._pool.pop(self._rng.choice(fitting))
        self._out[ticket.id] = ticket
        name = f"{self._seed}:{ticket.arm}:{ticket.place}"
        return Sample(self._tests[ticket.index], name, ticket)

    def _fitting(self, last: int | None) -> list[int]:
        """Return where in the pool there are tickets of other tests than the last one."""
        tests = self._tests
        return [i for i, ticket in enumerate(self._pool) if tests[ticket.index] != last]

    # The search

    def _begin(self) -> None:
        """Begin the search, or go on with the one in the storage."""
        compared = {r.nodeid: i for i, r in enumerate(self.records) if r.place is Place.COMPARED}
        if len(compared) < 2:
            self.problem = (
                "at least two tests are needed that can pass, to compare them with each other,"
                f" but there {'is 1' if compared else 'are 0'}."
            )
            self._done = True
            return
        labels = sorted(compared)
        self._tests = [compared[label] for label in labels]
        question = Question(labels, **self.settings.words)
        if self.settings.storage is None:
            self._desk = Search(question, rng=self._seed)
            return
        self.study = study = retried(lambda: self._opened(question), RETRY_SECONDS)
        self._seed = study.seed
        self._desk = Worker(study, retry_for=RETRY_SECONDS).__enter__()
        before = retried(study.overview, RETRY_SECONDS)
        self.stored_before = before.told
        self.answered = before.created if before.status.final else None

    def _opened(self, question: Question) -> Study:
        """Return the study of this question; another question has another one."""
        assert self.settings.storage is not None
        asked = {word: value for word, value in question.to_dict().items() if word != "budget"}
        text = json.dumps(asked, sort_keys=True, default=str).encode()
        name = f"{self.settings.study}-{hashlib.sha256(text).hexdigest()[:12]}"
        return open_study(
            question, storage=self.settings.storage, name=name, rng=self.settings.seed
        )

    def _ask(self) -> None:
        assert self._desk is not None
        tickets = self._desk.ask(self._at_a_time, prefetch=self._prefetch)
        self._pool += tickets
        if tickets.done:
            self._end()

    def _end(self) -> None:
        """Hand out nothing more; what is under way still counts, as slow runs are among it."""
        self._done = True
        if self._desk is not None:
            self._desk.skip_many(self._pool, "not run")
        self._pool = []

    # What is known

    def progress(self) -> Progress | None:
        """Return how far the search is, or was before its storage was away."""
        if self._desk is not None:
            with suppress(StorageFailed):
                self._progress = self._desk.progress()
        return self._progress

    @property
    def pace(self) -> float:
        """Seconds that a run takes, on average of all so far."""
        return self._seconds / self.runs if self.runs else 1.0

    def placed(self, place: Place) -> list[Record]:
        """Return the tests of a place."""
        return [record for record in self.records if record.place is place]
