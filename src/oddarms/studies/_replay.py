"""From the log to the search: results in the order in which they were recorded."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.problem import Question
from oddarms.search import Search
from oddarms.studies import _result_rows as result_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies._log import ResultRow
from oddarms.studies._receipts import GENESIS, chained

if TYPE_CHECKING:
    import sqlalchemy as sa

LEAST_BETWEEN_STATES = 1000
STALE_SECONDS = 1.0


def new_search(question: Question, seed: int) -> Search:
    """Return a study's search at its beginning: that of `oddarms.find` with the same seed."""
    algorithm_rng, _ = np.random.default_rng(seed).spawn(2)
    return Search(question, rng=algorithm_rng)


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


@dataclass(frozen=True)
class State:
    """A search as bytes, with the number of its last result, how many it has, and their chain."""

    position: int
    taken: int
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
    """

    def __init__(self, name: str, study: int, question: Question, seed: int) -> None:
        self._name = name
        self._study = study
        self._question = question
        self._seed = seed
        self._search: Search | None = None
        self._saved_taken = 0  # how many results the saved state has, or one that somebody saves
        self._read = -math.inf
        self.position = 0
        self.chain = GENESIS

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

    def brought_up(self, connection: sa.Connection) -> Search:
        """Return the search with all results stored now; the transaction must have it alone."""
        saved = study_rows.saved(connection, self._study)
        self._saved_taken = max(saved.taken, saved.claimed)
        if self._search is None or self.position < saved.position:
            self._load(connection, saved)
        search, self._search = self.search, None  # if interrupted, the next call begins anew
        for rows in result_rows.result_rows(connection, self._study, after=self.position):
            self._check(rows)
            replay(search, rows)
            self.chain = chained(self.chain, rows)
            self.position = rows[-1].number
        self._search = search
        self._read = time.monotonic()
        return search

    def state(self) -> State:
        """Return the state, to be saved."""
        return State(self.position, self.search.taken, self.chain, self.search.to_bytes())

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
        if saved.key is not None and saved.chain is not None:
            content = study_rows.saved_state(connection, self._study, saved.key)
            with suppress(InvalidParameter):
                self._search = Search.from_bytes(self._question, content)
                self.position, self.chain = saved.position, saved.chain
                return
        self._search = new_search(self._question, self._seed)
        self.position, self.chain = 0, GENESIS

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
