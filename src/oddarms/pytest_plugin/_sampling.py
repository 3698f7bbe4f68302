"""What to run next, and what it means: the first runs, then the search.

Whoever runs the tests - this process, its children, the workers of pytest-xdist - asks `next` for
a sample and tells its outcome.

Samples of one test are interleaved with those of others: `next` never returns the test that ran
last on the same worker. Where the search wants that one only, `between` has another one to run in
between, and nobody looks at its outcome; whether a run counts is decided before it begins. So what
is under way when the time is over counts as well: slow runs are more often among it.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from oddarms.errors import StorageFailed, UnknownStudy
from oddarms.finding import open_study
from oddarms.problem import DEFAULT_DELTA, USUAL_K
from oddarms.pytest_plugin._options import Settings
from oddarms.pytest_plugin._outcomes import Outcome
from oddarms.pytest_plugin._records import FirstRuns, Place, Record
from oddarms.randomness import seed_of
from oddarms.search import AHEAD, PATIENCE, Patience, Progress, Result, Search, Ticket, patiently
from oddarms.studies import Study
from oddarms.studies._base import LEASE
from oddarms.studies._desk import StudyDesk

Answer = TypeVar("Answer")
AT_A_TIME = 256
"""Tickets that are asked for by one process."""
OPEN_PATIENCE = 30.0
"""Seconds to wait for a storage before there is anything to lose."""
TELL_AFTER = 0.5
"""Seconds until results are stored; what is told later is lost if the process is killed."""
RENEW_AFTER = 60.0
"""Seconds until the leases of the tickets at hand are renewed."""


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
        self._ahead = AHEAD if workers > 1 else 0.0
        self._at_a_time = AT_A_TIME if workers == 1 else 4 * workers
        self._search: Search | StudyDesk | None = None
        self._tests: list[int] = []  # of each arm
        self._pool: list[Ticket] = []
        self._out: dict[str, Ticket] = {}
        self._untold: list[tuple[Ticket, float]] = []
        self._told_at = self._renewed_at = self.begun
        self._seconds = 0.0
        self._done = False
        self._patience: Patience = PATIENCE
        self._progress: Progress | None = None

    # What to run

    @property
    def done(self) -> bool:
        """True once nothing more is to be run."""
        return self._done

    @property
    def searching(self) -> bool:
        """True once the first runs are over and there is a search."""
        return self._search is not None

    def next(self, last: int | None = None) -> Sample | None:
        """Return a sample, of another test than the last one; None where there is none for now."""
        if self._is_late():
            self.stop(f"{self.settings.seconds:g} seconds are over")
        if self._done:
            return None
        if not self._first.over:
            index = self._first.next(last)
            return None if index is None else self._first_run(index)
        if self._search is None:
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
        if self._out.pop(sample.ticket.id, None) is not None:
            self._untold.append((sample.ticket, float(outcome.failed)))
        now = time.monotonic()
        if now - self._told_at > TELL_AFTER:
            self._tell_all()
            self._renew(now)

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

    def finish(self, why: str, *, patience: Patience = PATIENCE) -> Result | None:
        """Return what is known in the end, when nothing is under way any more.

        Parameters
        ----------
        why
            Why it ends, if it has not ended by itself.
        patience
            How long to wait for a storage that is away.
        """
        self._patience = patience
        self.stop(why)
        self._tell_all()
        self._give_back([*self._pool, *self._out.values()])
        self._pool, self._out = [], {}
        search = self._search
        return None if search is None else self._patiently(search.result)

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
        if self.settings.storage is None:
            self._search = Search(labels, rng=self._seed, **self.settings.words)
        else:
            self.study = study = patiently(lambda: self._opened(labels), OPEN_PATIENCE)
            self._seed = study.seed
            before = self._patiently(study.overview)
            self.stored_before = before.told
            self.answered = before.created if before.status.final else None
            self._search = study.desk(lease=LEASE)

    def _opened(self, labels: list[str]) -> Study:
        """Return the search of these tests and words in the storage.

        Another margin, floor or budget is asked of the runs that are there; other tests, and other
        words, are another search.
        """
        settings, words = self.settings, self.settings.words
        rule = words.get("rule", "sigma")
        k = words.get("k", USUAL_K.get(rule, 0.0))
        fixed = (k, words.get("delta", DEFAULT_DELTA), rule)
        text = repr((labels, fixed)).encode(errors="backslashreplace")
        name = f"{settings.study}-{hashlib.sha256(text).hexdigest()[:12]}"
        assert settings.storage is not None
        where: dict[str, Any] = {"storage": settings.storage, "name": name}
        try:
            return open_study(None, settings.words, **where)
        except UnknownStudy:
            return open_study(labels, words, rng=settings.seed, **where)

    def _ask(self) -> None:
        search = self._search
        assert search is not None
        self._tell_all()
        tickets = self._patiently(lambda: search.ask(self._at_a_time, ahead=self._ahead))
        self._pool += tickets
        if tickets.done:
            self._end()

    def _patiently(self, call: Callable[[], Answer]) -> Answer:
        """Return what a call to the search returns, which may be in a storage that is away."""
        return patiently(call, self._patience)

    def _tell_all(self) -> None:
        """Tell the search, or store, the results at hand."""
        search, results = self._search, self._untold
        self._told_at = time.monotonic()
        if search is not None and results:
            self._patiently(lambda: search.tell_many(results))
            self._untold = []

    def _renew(self, now: float) -> None:
        if self.study is not None and now - self._renewed_at > RENEW_AFTER:
            self._renewed_at = now
            with suppress(StorageFailed), self.study.hurried():  # the next time will do
                self.study.renew([*self._pool, *self._out.values()], LEASE)

    def _end(self) -> None:
        """Hand out nothing more; what is under way still counts, as slow runs are among it."""
        self._done = True
        self._tell_all()
        self._give_back(self._pool)
        self._pool = []

    def _give_back(self, tickets: Sequence[Ticket]) -> None:
        if self._search is not None and tickets:
            with suppress(StorageFailed):  # then their leases end by themselves
                self._search.skip_many(tickets, "not run")

    # What is known

    def progress(self) -> Progress | None:
        """Return how far the search is, or was before its storage was away."""
        if self._search is not None:
            with suppress(StorageFailed):
                self._progress = self._search.progress()
        return self._progress

    @property
    def pace(self) -> float:
        """Seconds that a run takes, on average of all so far."""
        return self._seconds / self.runs if self.runs else 1.0

    def placed(self, place: Place) -> list[Record]:
        """Return the tests of a place."""
        return [record for record in self.records if record.place is place]
