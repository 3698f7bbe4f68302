"""What to run next, until the question is answered or the time is over.

The loop that runs the tests (in this process, its children, or the workers of pytest-xdist) asks
`next` for a sample and tells its outcome. `FlakyTests` finds out which tests are flaky at all
(`_flakiness`); `AbnormalTests` asks the ADE paper's question, which a `Search` answers.

Runs of one test are interleaved with those of others: `next` returns the test that ran last on the
same worker only if nothing else is left to run. What is under way when the time is over still
counts: slow runs are more often among it.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from oddarms.problem import Question
from oddarms.pytest_plugin import Settings
from oddarms.pytest_plugin._flakiness import Flakiness, Kind, fair_share
from oddarms.pytest_plugin._memory import RETRY_SECONDS, Memory
from oddarms.pytest_plugin._running import Clock, Outcome, Status
from oddarms.randomness import seed_of
from oddarms.search import PREFETCH, Result, Search, Ticket
from oddarms.text import counted, duration

AT_A_TIME = 256
"""Tickets that are asked for by one process."""
MIN_RUNS = 3
"""Runs that every test gets, however slow it is."""
SYNC_SECONDS = 2.0
"""Between two times that runs are stored, and those of others are read."""


@dataclass(frozen=True)
class Sample:
    """A run to be made: of which test, under which name, and for which ticket of a search.

    Attributes
    ----------
    between
        Whether no question needs its outcome: it keeps two runs of a test apart.
    """

    index: int
    name: str
    ticket: Ticket | None = None
    between: bool = False


class FlakyTests:
    """Runs all tests in rounds until each is known to be flaky, broken or clean.

    The first round has the order of the collection, as any run of pytest. Later ones are shuffled.
    If the time does not suffice for all, tests have equal shares of it, and what quick ones do not
    need is left to slower ones. A test that is found flaky waits until all others are known; then
    the flaky tests run on until their intervals are narrow.
    """

    def __init__(self, nodeids: Sequence[str], settings: Settings, workers: int = 1) -> None:
        self.settings = settings
        self.workers = workers
        self.nodeids = list(nodeids)
        self.known = Flakiness(
            len(nodeids),
            rate=settings.rate,
            delta=settings.delta,
            precision=settings.precision,
            can_isolate=settings.can_isolate,
        )
        self.begun = Clock.now()
        self.stopped = ""
        """Why it was ended before the answer was known."""
        self.runs = 0
        self.done = False
        """True once nothing more is to be run."""
        self.seed = seed_of(settings.seed)
        self.rng = random.Random(self.seed)
        self.memory: Memory | None = None
        if settings.storage is not None:
            self.memory = Memory(nodeids, settings)
            self.memory.read_into(self.known)
        self._seconds = 0.0
        self._tests: Sequence[int] = range(len(nodeids))  # of which more runs are of use
        self._round: deque[int] = deque()
        self._rounds = 0
        self._out: Counter[int] = Counter()
        self._handed = [case.stored.runs for case in self.known.cases]
        self._synced = self.begun

    # What to run

    def next(self, last: int | None = None) -> Sample | None:
        """Return a sample after the `last` test of the same worker; None if there is none now."""
        settings = self.settings
        if settings.seconds is not None and self.elapsed >= settings.seconds:
            self.stop(f"{duration(settings.seconds)} are over")
        elif settings.budget is not None and self.runs >= settings.budget:
            self.stop(f"{settings.budget:,} runs are made")
        elif self.memory is not None and Clock.now() - self._synced > SYNC_SECONDS:
            self.memory.sync(self.known)
            self._synced = Clock.now()
        return None if self.done else self._next(last)

    def tell(self, sample: Sample, outcome: Outcome) -> None:
        """Take the outcome of a sample."""
        self._out[sample.index] -= 1
        self.runs += 1
        self._seconds += outcome.seconds
        case = self.known.cases[sample.index]
        case.seconds += outcome.seconds
        skipped = outcome.status is Status.SKIPPED and case.counted.runs == 0
        if outcome.failed or skipped:
            case.text = outcome.text
        if skipped:
            self.known.skip(sample.index)
        else:
            self.known.tell(sample.index, outcome.where, failed=outcome.failed)

    def lose(self, sample: Sample) -> None:
        """Give a sample back that was not run."""
        self._out[sample.index] -= 1

    def stop(self, why: str) -> None:
        """Hand out no more samples; those under way are still to be told."""
        if not self.done:
            self.stopped = why
            self.done = True

    def between(self, last: int | None) -> Sample | None:
        """Return a run that keeps a worker busy: of the test, other than the last, with fewest."""
        cases = self.known.cases
        usable = [i for i in self._tests if i != last and not cases[i].skipped]
        if not usable:
            return None if last is None else self._sample(last)
        return self._sample(min(usable, key=lambda i: cases[i].counted.runs + self._out[i]))

    def finish(self, why: str, *, in_a_hurry: bool = False) -> None:
        """End, when nothing is under way any more; `why` is the reason unless it ended by itself.

        In a hurry, do not wait for a storage that is unavailable.
        """
        self.stop(why)
        if self.memory is not None:
            self.memory.sync(self.known, 0.0 if in_a_hurry else RETRY_SECONDS)

    # What is known

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return max(Clock.now() - self.begun, 0.0)

    @property
    def pace(self) -> float:
        """Seconds that a run takes, on average of all so far."""
        return self._seconds / self.runs if self.runs else 1.0

    def progress_text(self) -> str:
        """Return how far it is, as a line."""
        known, count = self.known, Counter(self.known.kinds())
        text = f"{count[Kind.FLAKY]:,} flaky so far"
        if self.runs < known.n:
            return f"{text}; first round, {self.runs:,} of {known.n:,} tests"
        tests = known.n - count[Kind.SKIPPED]
        text += f"; {count[Kind.CLEAN]:,} of {tests:,} shown clean at {100.0 * known.rate:g} %"
        return f"{text}; {self._to_go()}"

    def _to_go(self) -> str:
        """Return about how long it takes still: what is missing, at the pace of each test."""
        n, known = self.known.n, self.known
        needed = [known.needed(i) for i in range(n)]
        flaky = sum(known.wanted(i) > 0 for i in range(n) if not needed[i])
        if not any(needed):
            return f"now the intervals of {counted(flaky, 'flaky test')}"
        left = math.inf if self.settings.seconds is None else self.settings.seconds - self.elapsed
        missing = sum(runs * known.cases[i].pace for i, runs in enumerate(needed))
        overhead = max(self.elapsed * self.workers / self._seconds, 1.0) if self._seconds else 1.0
        seconds = missing * overhead / self.workers
        if seconds > left:
            return f"the time is over in {duration(max(left, 0.0))}"
        return f"about {duration(seconds)} {'until all others are known' if flaky else 'to go'}"

    # Rounds

    def _next(self, last: int | None) -> Sample | None:
        index = self._chosen(last)
        if index is not None:
            return self._sample(index)
        if not any(self._needed(i) or self._wanted(i) for i in range(self.known.n)):
            self.done = True  # whatever is still under way
        return None

    def _chosen(self, last: int | None) -> int | None:
        """Return the next test of the round that still needs a run, another one if possible."""
        same: list[int] = []
        for _ in range(2):
            while self._round:
                index = self._round.popleft()
                if (self._needed(index) or self._wanted(index)) <= self._out[index]:
                    continue
                if index != last:
                    self._round.extendleft(same)
                    return index
                same = [index]
            self._begin_round(same)
        return same[0] if same else None

    def _needed(self, index: int) -> int:
        """Return how many runs decide what a test is."""
        return self.known.needed(index)

    def _wanted(self, index: int) -> int:
        """Return how many runs make its interval narrow; they come when all tests are known."""
        return self.known.wanted(index)

    def _begin_round(self, left: Sequence[int]) -> None:
        """Begin a round of all tests but those that are left of the one before."""
        needed = {i: self._needed(i) for i in range(self.known.n)}
        if not any(needed.values()):  # all are known
            needed = {i: self._wanted(i) for i in needed}
        needed = {i: runs for i, runs in needed.items() if runs > self._out[i]}
        tests = [i for i in self._affordable(needed) if i not in left]
        if self._rounds:
            self.rng.shuffle(tests)
        self._rounds += 1
        self._round.extend(tests)

    def _affordable(self, needed: dict[int, int]) -> list[int]:
        """Return tests whose share of the time is not spent; all where the time suffices."""
        tests = list(needed)
        if self.settings.seconds is None or not tests:
            return tests
        cases = [self.known.cases[i] for i in tests]
        spent = np.array([case.seconds for case in cases])
        pace = np.array([case.pace for case in cases])
        wanted = spent + pace * list(needed.values())
        left = (self.settings.seconds - self.elapsed) * self.workers
        level = fair_share(spent, wanted, max(left, 0.0))
        fair = [
            i
            for i, case in zip(tests, cases, strict=True)
            if case.timed < MIN_RUNS or case.seconds + case.pace <= level
        ]
        return fair or [min(tests, key=lambda i: self.known.cases[i].seconds)]

    def _sample(self, index: int, ticket: Ticket | None = None) -> Sample:
        self._out[index] += 1
        self._handed[index] += 1
        return Sample(index, f"{self.seed}:{self.nodeids[index]}:{self._handed[index]}", ticket)


class AbnormalTests(FlakyTests):
    """Runs the tests that a search asks for, until it knows which are abnormally flaky.

    Every test runs before the search until it has passed once, or is known to be broken; one that
    is skipped then, or broken, is left out. The search does not use these first runs and samples
    every test anew: given the tests that are compared, its answer about them is right with
    probability at least 1 - delta. Had it used them, a test would have come in by having passed.
    """

    result: Result | None = None
    _search: Search | None = None

    def __init__(self, nodeids: Sequence[str], settings: Settings, workers: int = 1) -> None:
        super().__init__(nodeids, settings, workers)
        self._prefetch = PREFETCH if workers > 1 else 0.0
        self._at_a_time = AT_A_TIME if workers == 1 else 4 * workers
        self._pool: list[Ticket] = []

    def tell(self, sample: Sample, outcome: Outcome) -> None:
        """See `FlakyTests.tell`."""
        super().tell(sample, outcome)
        if sample.ticket is not None and self._search is not None:
            self._search.tell(sample.ticket, float(outcome.failed))

    def lose(self, sample: Sample) -> None:
        """See `FlakyTests.lose`."""
        super().lose(sample)
        if sample.ticket is not None:
            self._pool.append(sample.ticket)

    def between(self, last: int | None) -> Sample | None:
        """Return a run that the search does not use."""
        sample = super().between(last)
        return sample and replace(sample, between=self._search is not None)

    def finish(self, why: str, *, in_a_hurry: bool = False) -> None:
        """See `FlakyTests.finish`."""
        super().finish(why, in_a_hurry=in_a_hurry)
        if self._search is not None:
            self.result = self._search.result()

    def progress_text(self) -> str:
        """Return how far it is, as a line."""
        flaky = f"{self.known.kinds().count(Kind.FLAKY):,} flaky so far"
        if self._search is None:
            return f"{flaky}; first round, {self.runs:,} runs"
        progress = self._search.progress()
        return f"{flaky}; {progress.undecided:,} of {progress.n:,} undecided; {self.runs:,} runs"

    def _needed(self, index: int) -> int:
        """Return how many runs may show that a test is broken; 0 once it has passed."""
        return 0 if self.known.cases[index].counted.passes else self.known.needed(index)

    def _wanted(self, index: int) -> int:  # noqa: ARG002
        return 0

    def _next(self, last: int | None) -> Sample | None:
        if self._search is None:
            sample = super()._next(last)
            if not self.done:
                return sample
            self._begin()
        return None if self._search is None else self._ticket_for(self._search, last)

    def _begin(self) -> None:
        """Begin the search; with fewer than two tests that can pass there is none."""
        left_out = (Kind.SKIPPED, Kind.BROKEN)
        compared = [i for i, kind in enumerate(self.known.kinds()) if kind not in left_out]
        if len(compared) < 2:
            return
        self.done = False
        self._tests = sorted(compared, key=lambda i: self.nodeids[i])
        labels = [self.nodeids[i] for i in self._tests]
        question = Question(labels, k=self.settings.k, delta=self.settings.delta)
        self._search = Search(question, rng=self.seed)

    def _ticket_for(self, search: Search, last: int | None) -> Sample | None:
        """Return a sample of a random ticket; ask for more if none fits."""
        fitting = self._fitting(last)
        if not fitting:
            tickets = search.ask(self._at_a_time, prefetch=self._prefetch)
            self._pool += tickets
            self.done = tickets.done
            fitting = self._fitting(last)
        if self.done or not fitting:
            return None
        ticket = self._pool.pop(self.rng.choice(fitting))
        return self._sample(self._tests[ticket.index], ticket)

    def _fitting(self, last: int | None) -> list[int]:
        """Return where in the pool there are tickets of other tests than the last one."""
        tests = self._tests
        return [i for i, ticket in enumerate(self._pool) if tests[ticket.index] != last]
