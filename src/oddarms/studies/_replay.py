"""From the log to the search: results and revisions in the order in which they were recorded.

A revision has the number of the last result before it, its *position*. Whoever records one has the
study alone, as all do who read results in order. So no result with a lower number appears later, a
revision is never seen after a result that follows it, and where revisions share a position their
own numbers are the order.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.problem import Question
from oddarms.search import Search
from oddarms.studies import _result_rows as result_rows
from oddarms.studies import _revision_rows as revision_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies._log import ResultRow, RevisionRow
from oddarms.studies._receipts import GENESIS, chained, revised

if TYPE_CHECKING:
    import sqlalchemy as sa

LEAST_BETWEEN_STATES = 1000
STALE_SECONDS = 1.0


def new_search(question: Question, seed: int) -> Search:
    """Return a study's search at its beginning: that of `oddarms.find` with the same seed."""
    algorithm_rng, _ = np.random.default_rng(seed).spawn(2)
    return Search(question, rng=algorithm_rng)


def stored_question(text: str) -> Question:
    """Return a question that is stored."""
    try:
        return Question.from_json(text)
    except InvalidParameter as error:
        raise StoreFailed(f"a stored question must be whole but is not: {error}") from None


def replay(search: Search, rows: Sequence[ResultRow]) -> None:
    """Give a search results that follow those it has; an import's must come in one call."""
    for batch, group in groupby(rows, key=lambda row: row.batch):
        if batch is not None:
            imported = list(group)
            search.take_import(
                np.array([row.arm for row in imported], dtype=np.int64),
                np.array([row.reward for row in imported]),
            )
            continue
        for row in group:
            assert row.place is not None
            search.take(row.arm, row.place, row.reward)


class WrongRevision(InvalidParameter):
    """Something stands in the log where nobody can have put it."""


class Placed(Protocol):
    """What has a place between results: `position` is the number of the last one before it."""

    @property
    def position(self) -> int:
        """The number of a result, 0 for the beginning."""


Mark = TypeVar("Mark", bound=Placed)


def in_order(
    results: Iterable[list[ResultRow]], marks: Iterable[Mark]
) -> Iterator[list[ResultRow] | Mark]:
    """Yield results, and what stands between them; the results of an import are never divided."""
    waiting = deque(marks)
    for part in results:
        rows = part
        while waiting and waiting[0].position < rows[-1].number:
            mark = waiting.popleft()
            before = bisect_right(rows, mark.position, key=lambda row: row.number)
            if before:
                yield _undivided(rows, before)
            yield mark
            rows = rows[before:]
        yield rows
    yield from waiting


def _undivided(rows: list[ResultRow], before: int) -> list[ResultRow]:
    """Return the first results, if no import goes on behind them."""
    batch = rows[before].batch
    if batch is not None and batch == rows[before - 1].batch:
        raise WrongRevision(
            "nothing must stand within an import but a revision or state does, behind result"
            f" {rows[before - 1].number}."
        )
    return rows[:before]


def revise(search: Search, row: RevisionRow) -> None:
    """Let a search go on with the question of a revision."""
    try:
        question = Question.from_json(row.question)
        search.revise(question)
    except InvalidParameter as error:
        raise WrongRevision(f"revision {row.number} cannot be made: {error}") from None
    if search.question != question:
        raise WrongRevision(f"revision {row.number} must say whether samples were there.")


@dataclass(frozen=True)
class State:
    """A search as bytes: up to which result and revision, how many results, and their chain."""

    position: int
    taken: int
    revised: int
    chain: bytes
    content: bytes


class LoggedSearch:
    """The search of a study, as far as this process has read the log.

    Parameters
    ----------
    name
        Where the storage is, for messages.
    study
        The study's number.
    question, seed
        What the search is made of.
    revisions
        Those that are known already.
    """

    def __init__(
        self,
        name: str,
        study: int,
        question: Question,
        seed: int,
        revisions: Sequence[RevisionRow] = (),
    ) -> None:
        self._name = name
        self._study = study
        self._question = question
        self._seed = seed
        self._know(revisions)
        self._revised = 0  # how many of them the search has
        self._search: Search | None = None
        self._saved_taken = 0  # how many results the saved state has, or one that somebody saves
        self._read = -math.inf
        self.position = 0
        self.chain = GENESIS
        self.stopped: str | None = None

    @property
    def is_stale(self) -> bool:
        """True if there may be a great many results that were not read yet."""
        return time.monotonic() - self._read > STALE_SECONDS

    @property
    def is_new(self) -> bool:
        """True if nothing was read yet."""
        return self._search is None

    @property
    def search(self) -> Search:
        """The search as it was read last."""
        assert self._search is not None
        return self._search

    @property
    def moment(self) -> tuple[int, int]:
        """How many results and revisions the search has."""
        return self.search.taken, self._revised

    @property
    def question(self) -> Question:
        """The question in force, as it was read last."""
        return self._questions[-1]

    def brought_up(self, connection: sa.Connection) -> Search:
        """Return the search with all that is stored now; the transaction must have it alone."""
        saved = study_rows.saved(connection, self._study)
        self._saved_taken = max(saved.taken, saved.claimed)
        self.stopped = saved.stopped
        if saved.revisions != len(self._revisions):
            self._know(revision_rows.revision_rows(connection, self._study))
        behind = self.position < saved.position or self._revised > len(self._revisions)
        if self._search is None or behind:
            self._load(connection, saved)
        search, self._search = self.search, None  # if interrupted, the next call begins anew
        results = result_rows.result_rows(connection, self._study, after=self.position)
        try:
            for event in in_order(results, self._revisions[self._revised :]):
                if isinstance(event, RevisionRow):
                    self._take_revision(search, event)
                else:
                    self._take_results(search, event)
        except WrongRevision as error:
            raise StoreFailed(f"{self._name}: it is damaged; {error}") from None
        self._search = search
        self._read = time.monotonic()
        return search

    def _take_results(self, search: Search, rows: list[ResultRow]) -> None:
        self._check(rows)
        replay(search, rows)
        self.chain = chained(self.chain, rows)
        self.position = rows[-1].number

    def _take_revision(self, search: Search, row: RevisionRow) -> None:
        revise(search, row)
        self.chain = revised(self.chain, row.number, row.position, row.question)
        self._revised += 1

    def _know(self, revisions: Sequence[RevisionRow]) -> None:
        """Take note of all revisions, and of the questions before and after each of them."""
        questions = [self._question, *(stored_question(row.question) for row in revisions)]
        if any(question.n != self._question.n for question in questions):
            raise StoreFailed(f"{self._name}: it is damaged; a revision asks about other arms.")
        self._revisions, self._questions = list(revisions), questions

    def state(self) -> State:
        """Return the state, to be saved."""
        search = self.search
        return State(self.position, search.taken, self._revised, self.chain, search.to_bytes())

    def claims_saving(self, connection: sa.Connection) -> bool:
        """Return whether it is time to save the state, and say that this process does it.

        That is once there are as many new results as arms: opening a study stays O(arms). In the
        transaction in which the search was brought up.
        """
        taken = self.search.taken
        if taken - self._saved_taken < max(self._question.n, LEAST_BETWEEN_STATES):
            return False
        study_rows.claim_saving(connection, self._study, taken)
        return True

    def _load(self, connection: sa.Connection, saved: study_rows.Saved) -> None:
        """Begin with the saved state or, if it cannot be used, with none."""
        known = 0 <= saved.revised <= len(self._revisions)
        if saved.key is not None and saved.chain is not None and known:
            content = study_rows.saved_state(connection, self._study, saved.key)
            with suppress(InvalidParameter):
                self._search = Search.from_bytes(self._questions[saved.revised], content)
                self.position, self.chain = saved.position, saved.chain
                self._revised = saved.revised
                return
        self._search = new_search(self._question, self._seed)
        self.position, self.chain, self._revised = 0, GENESIS, 0

    def _check(self, rows: Iterable[ResultRow]) -> None:
        """Check that results are such as `tell` lets in: a file may be damaged unseen by SQLite."""
        n, (a, b) = self._question.n, self._question.bounds
        for row in rows:
            placed = (row.ticket is None) or (isinstance(row.place, int) and row.place >= 0)
            number = isinstance(row.reward, float) and a <= row.reward <= b
            if not (0 <= row.arm < n and number and placed):
                raise StoreFailed(
                    f"{self._name}: it is damaged; result {row.number} is {row.reward!r:.50}"
                    f" of arm {row.arm}."
                )
