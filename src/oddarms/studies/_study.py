"""A study in a storage: a search one can leave and come back to, shared by many workers.

A search, plus a log of every result in a storage, plus leases of the tickets that are out. The
search is a pure function of the results, and of the changes of its question, in the order in which
they were recorded, so that every process that has the study open has the same one;
`oddarms.search._search` says which reward is used when, and what slow and lost workers mean for the
guarantee.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.problem import FloatArray, Label, Question, check_whole
from oddarms.search import AHEAD, Progress, Result, Search, Status, Ticket, Tickets
from oddarms.search._revising import changed, revision
from oddarms.search._step import Out
from oddarms.search._view import FindRows
from oddarms.studies import _result_rows as result_rows
from oddarms.studies import _revision_rows as revision_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies import _ticket_rows as ticket_rows
from oddarms.studies import _worker_rows as worker_rows
from oddarms.studies._base import LEASE, Overview, Study, check_lease, check_text, reason_of
from oddarms.studies._ids import TicketIds
from oddarms.studies._imports import Part
from oddarms.studies._labels import Labels
from oddarms.studies._limits import MOST_KEY
from oddarms.studies._log import Conflict, Revision, RevisionRow, Told, Trial, Worker
from oddarms.studies._replay import LoggedSearch, State, new_search, stored_question
from oddarms.studies._saving import save_state
from oddarms.studies._verify import Verification, verified
from oddarms.studies._worker_rows import WorkerTally

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database
    from oddarms.studies._study_rows import StudyRow

Looked = TypeVar("Looked", Result, tuple[Result, FindRows])


class StoredStudy(Study):
    """A study in a file, in PostgreSQL or in memory."""

    def __init__(
        self,
        database: Database,
        name: str,
        row: StudyRow,
        question: Question,
        revisions: Sequence[RevisionRow] = (),
    ) -> None:
        self._database = database
        self._number = row.number
        super().__init__(name, row.seed, question)
        # at the beginning, with numbers for labels, of which there may be a great many
        self._asked = question
        self._ids = TicketIds(name, row.secret)
        self._labels = Labels(database, row.number, question.n)
        self._log = LoggedSearch(database.name, row.number, question, row.seed, revisions)
        self._named: tuple[Question, Question] | None = None
        self._lock = threading.RLock()
        self._tally = WorkerTally(row.number)

    @property
    def number(self) -> int:
        """Its number in the storage, which no other study has there, nor ever had."""
        return self._number

    @property
    def storage(self) -> str:
        """Where the study is stored."""
        return self._database.name

    @property
    def question(self) -> Question:
        """What is asked: the question in force, as this process has read it last."""
        return self._with_labels(self._log.question)

    def _with_labels(self, question: Question) -> Question:
        known = self._named
        if known is None or known[0] is not question:
            self._named = known = question, question.relabelled(self._labels.all())
        return known[1]

    @property
    def labels(self) -> tuple[Label, ...]:
        """The arms' labels."""
        return self._labels.all()

    # Work

    def ask(
        self,
        n: int = 1,
        worker: str | None = None,
        lease: timedelta = LEASE,
        *,
        ahead: float = AHEAD,
        key: str | None = None,
    ) -> Tickets:
        """See `Study.ask`."""
        n = check_whole("n", n, least=1)
        worker = check_text("worker", worker)
        key = check_text("key", key, most=MOST_KEY)
        seconds = check_lease(lease)
        self._catch_up()
        with self._lock:
            with self._database.writing() as connection:
                self._database.exclusive(connection, self._number)
                search = self._log.brought_up(connection)
                saving = self._log.claims_saving(connection)
                ticket_rows.drop_ended_leases(connection, self._number)
                out = ticket_rows.live_places(connection, self._number)
                placed = ticket_rows.asked_before(connection, self._number, key, seconds)
                if placed is None:
                    stopped = self._log.stopped is not None
                    places = [] if stopped else search.open_places(n, out, ahead=ahead)
                    placed = ticket_rows.add_tickets(
                        self._database, connection, self._number, places, worker, seconds, key
                    )
                    for arm, place in places:
                        out.setdefault(arm, set()).add(place)
                status, decided = self._status(search, out, ahead=ahead), search.decided
                labels = self._labels.of([arm for _, arm, _ in placed.places], connection)
            expires = moment_of(placed.now + seconds)
            tickets = [
                Ticket(self._ids.of(number), label, arm, place, expires)
                for label, (number, arm, place) in zip(labels, placed.places, strict=True)
            ]
            state = self._log.state() if saving else None
        with self._given_back_on_error(tickets):
            if state is not None:
                self._save(state)
            self._report_decisions()
        return Tickets(tickets, status, decided)

    def _save(self, state: State) -> None:
        """Save a state; where the storage has no time for it, the next one will be."""
        with suppress(StoreFailed), self.hurried():
            save_state(self._database, self._number, state)

    def tell_many(
        self, results: Iterable[tuple[Ticket | str, float]], *, worker: str | None = None
    ) -> list[Told]:
        """See `Study.tell_many`."""
        rows = [(self._ids.number(ticket), self.check_reward(reward)) for ticket, reward in results]
        worker = check_text("worker", worker)
        if not rows:
            return []
        if len(rows) == 1 and not self._database.hurry:
            with self._database.statement() as connection:
                if result_rows.add_new_results(
                    self._database, connection, self._number, dict(rows), worker
                ):
                    return [Told.RECORDED]
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            return result_rows.add_results(self._database, connection, self._number, rows, worker)

    def renew(self, tickets: Iterable[Ticket | str], lease: timedelta = LEASE) -> int:
        """See `Study.renew`."""
        numbers = [self._ids.number(ticket) for ticket in tickets]
        seconds = check_lease(lease)
        if not numbers:
            return 0
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            ticket_rows.require_study(connection, self._number)
            return ticket_rows.renew_leases(connection, self._number, numbers, seconds)

    def import_part(
        self, rewards: Mapping[Label, Sequence[Any]], key: str | None, part: Part
    ) -> int:
        """Record some rewards of an import that is too large for one call; return how many."""
        if key is None:
            raise InvalidParameter("key must be given for a part of an import but got None.")
        return self._import(self._checked(rewards), check_text("key", key, most=MOST_KEY), part)

    def _import(
        self, rewards: Mapping[Label, list[float]], key: str | None, part: Part | None = None
    ) -> int:
        with self._lock, self._database.writing() as connection:
            self._database.exclusive(connection, self._number)
            ticket_rows.require_study(connection, self._number)
            arms = self._labels.numbers(list(rewards), connection)
            rows = [
                (arm, reward)
                for arm, given in zip(arms, rewards.values(), strict=True)
                for reward in given
            ]
            return result_rows.add_import(self._database, connection, self._number, rows, key, part)

    def revise(self, /, **changes: Any) -> None:
        """See `Study.revise`."""
        self._catch_up()
        with self._lock:
            with self._database.writing() as connection:
                self._database.exclusive(connection, self._number)
                search = self._log.brought_up(connection)
                wanted = changed(search.question, changes)
                new = revision(
                    search.question,
                    wanted,
                    search.algorithm,
                    looked=search.taken > 0,
                    told=search.told,
                )
                if new == search.question:
                    return
                new_search(self._asked, self.seed).revise(new)  # whether the algorithm takes it
                revision_rows.add_revision(
                    connection, self._number, self._log.position, new.to_json(), self._log.chain
                )
            with self._database.reading() as connection:
                self._current(connection)
        self._report_decisions()

    def what_if(self, changes: Mapping[str, Any]) -> Result:
        """See `Study.what_if`."""
        with self._lock, self._database.reading() as connection:
            search = self._current(connection)
            copy = Search.from_bytes(search.question, search.to_bytes())
        copy.revise(**changes)
        return copy.result()

    def revisions(self) -> list[Revision]:
        """See `Study.revisions`."""
        with self._database.reading() as connection:
            rows = revision_rows.revision_rows(connection, self._number)
        return [
            Revision(
                row.number,
                row.position,
                stored_question(row.question).relabelled(self.labels),
                moment_of(row.made),
            )
            for row in rows
        ]

    def stop(self, reason: str = "") -> None:
        """See `Study.stop`."""
        self._set_stopped(reason_of(reason))

    def resume(self) -> None:
        """See `Study.resume`."""
        self._set_stopped(None)

    def _set_stopped(self, reason: str | None) -> None:
        with self._lock, self._database.writing() as connection:
            self._database.exclusive(connection, self._number)
            ticket_rows.require_study(connection, self._number)
            study_rows.set_stopped(connection, self._number, reason)

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """See `Study.skip_many`."""
        numbers = [self._ids.number(ticket) for ticket in tickets]
        if not numbers:
            return
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            ticket_rows.add_skips(connection, self._number, numbers, reason_of(reason))

    def skip_worker(self, worker: str, reason: str = "") -> int:
        """See `Study.skip_worker`."""
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            numbers = ticket_rows.live_tickets(connection, self._number, worker)
            if numbers:
                ticket_rows.add_skips(connection, self._number, numbers, reason_of(reason))
        return len(numbers)

    def _live_workers(self) -> list[str]:
        with self._database.reading() as connection:
            return ticket_rows.live_workers(connection, self._number)

    def hurried(self) -> AbstractContextManager[None]:
        """Return a block in which this thread's calls wait for a lock for a moment only."""
        return self._database.hurry.block()

    # What is known

    def overview(self) -> Overview:
        """See `Study.overview`."""
        overview, result = self._looked(Search.result)
        named = self._with_labels(result.question)
        return replace(overview, result=replace(overview.result, question=named))

    def outline(self) -> tuple[Overview, FindRows]:
        """Return where the study stands at less cost, and what finds intervals of some arms later.

        The arms of the result are numbers, and its own intervals have no ends.
        """
        overview, (_, find) = self._looked(Search.outline)
        return overview, find

    def labels_of(self, arms: Sequence[int]) -> list[Label]:
        """Return the labels of some arms."""
        with self._database.reading() as connection:
            return self._labels.of(arms, connection)

    def _looked(self, look: Callable[[Search], Looked]) -> tuple[Overview, Looked]:
        """Return the study, and what a look at its search has found, at the same moment."""
        with self._lock, self._database.reading() as connection:
            search = self._current(connection)
            out = ticket_rows.live_places(connection, self._number)
            status, stopped = self._status(search, out), self._log.stopped
            handed_out, created = study_rows.counts(connection, self._number)
            conflicts = result_rows.number_of_conflicts(connection, self._number)
            found = look(search)
            told, taken, beyond = search.told, search.taken, search.beyond
        self._report_decisions()
        known = status if status.final else Status.RUNNING
        result = found if isinstance(found, Result) else found[0]
        overview = Overview(
            created=moment_of(created),
            status=status,
            result=replace(result, status=known),
            handed_out=handed_out,
            live=sum(map(len, out.values())),
            told=told + beyond,
            beyond=beyond,
            imported=taken - told - beyond,
            conflicts=conflicts,
            stopped=stopped,
        )
        return overview, found

    def progress(self) -> Progress:
        """See `Study.progress`."""
        with self._lock, self._database.reading() as connection:
            return self._current(connection).progress()

    def pulse(self) -> str:
        """See `Study.pulse`."""
        with self._database.reading() as connection:
            return study_rows.pulse(connection, self._number)

    @property
    def status(self) -> Status:
        """See `Study.status`."""
        with self._lock, self._database.reading() as connection:
            search = self._current(connection)
            return self._status(search, ticket_rows.live_places(connection, self._number))

    def _status(self, search: Search, out: Out, *, ahead: float = AHEAD) -> Status:
        """Return where the study stands, with the search as it was just read."""
        status = search.status_with(out, ahead=ahead)
        stopped = self._log.stopped is not None and not status.final
        return Status.STOPPED if stopped else status

    def trials(self, *, after: int = 0, most: int | None = None) -> Iterator[Trial]:
        """See `Study.trials`."""
        trials = self._trials(after, most)
        # where all share one connection it cannot be kept for as long as somebody goes through them
        yield from list(trials) if self._database.one_connection else trials

    def _trials(self, after: int, most: int | None) -> Iterator[Trial]:
        upto, _ = self._last_numbers()  # not those behind one that is not stored yet
        with self._database.reading() as connection:
            self._labels.all(connection)  # rather than one of them at a time
            for row in result_rows.trial_rows(connection, self._number, after, upto, most):
                yield self._trial(row, connection)

    def _trial(self, row: Any, connection: sa.Connection) -> Trial:
        number, ticket, arm, place, reward, worker, told, late, asked = row
        return Trial(
            number=number,
            ticket=None if ticket is None else self._ids.of(ticket),
            arm=self._labels.of([arm], connection)[0],
            place=place,
            reward=reward,
            worker=worker,
            asked=None if asked is None else moment_of(asked),
            told=moment_of(told),
            late=bool(late),
        )

    def rewards_of(self, arm: int, places: int) -> FloatArray:
        """Return the rewards of the first places of an arm, and imported ones, as recorded.

        A search that has used so many pulls of the arm has used these.
        """
        with self._database.reading() as connection:
            found = result_rows.rewards_of(connection, self._number, arm, places)
            return np.array(found, dtype=float)

    def number_of(self, arm: int) -> int:
        """Return how many rewards of an arm are recorded, used or not."""
        with self._database.reading() as connection:
            return result_rows.number_of(connection, self._number, arm)

    def latest_of(self, arm: int, most: int) -> list[Trial]:
        """Return the latest results of an arm, by its number, the last one first."""
        with self._database.reading() as connection:
            rows = result_rows.latest_of(connection, self._number, arm, most)
            return [self._trial(row, connection) for row in rows]

    def conflicts(self) -> list[Conflict]:
        """See `Study.conflicts`."""
        with self._database.reading() as connection:
            rows = list(result_rows.conflict_rows(connection, self._number))
            labels = self._labels.of([row[1] for row in rows], connection)
        return [
            Conflict(self._ids.of(ticket), label, first, second, worker, moment_of(told))
            for (ticket, _, first, second, worker, told), label in zip(rows, labels, strict=True)
        ]

    def workers(self) -> list[Worker]:
        """See `Study.workers`."""
        with self._lock:
            upto = self._last_numbers()
            with self._database.reading() as connection:
                return self._tally.brought_up(connection, *upto)

    def workers_at_once(self, most: int) -> list[Worker] | None:
        """Return the workers, unless more than so many results and tickets were not counted yet."""
        with self._lock:
            upto = self._last_numbers()
            with self._database.reading() as connection:
                if self._tally.is_behind(connection, *upto, most):
                    return None
                return self._tally.brought_up(connection, *upto)

    def _last_numbers(self) -> tuple[int, int]:
        with self._database.reading() as connection:
            self._database.exclusive(connection, self._number)
            return worker_rows.last_numbers(connection, self._number)

    def verify(self) -> Verification:
        """See `oddarms.studies.verify`."""
        return verified(self)

    # The search

    def _catch_up(self) -> None:
        """Read a file's new results while others can write; there may be many of them."""
        if self._log.is_stale and self._database.dialect == "sqlite":
            with self._lock, self._database.reading() as connection:
                self._current(connection)

    def _current(self, connection: sa.Connection) -> Search:
        """Return the search with all results stored now, in a transaction that only reads."""
        self._database.exclusive(connection, self._number)
        return self._log.brought_up(connection)

    def _report_decisions(self) -> None:
        if not self._callbacks:
            return
        with self._lock:
            if self._log.is_new:
                return
            decisions, at = self._log.search.decisions, self._log.moment
        self._report(decisions, at)


def moment_of(seconds: float) -> datetime:
    """Return a stored time of day."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, TypeError, ValueError):
        raise StoreFailed(f"the storage is damaged: it has a time of {seconds!r:.50}.") from None
