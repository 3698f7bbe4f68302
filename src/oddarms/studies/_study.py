"""A study: a search one can leave and come back to, shared by many workers.

A search, plus a log of every result in a storage, plus leases of the tickets that are out. The
search is a pure function of the results in the order in which they were recorded, so that every
process that has the study open has the same one; `oddarms.search._search` says which reward is used
when, and what slow and lost workers mean for the guarantee.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Decision
from oddarms.arms import BatchFunction, Function
from oddarms.errors import InvalidParameter, MissingExtra, StoreFailed
from oddarms.problem import Label, Question, check_whole
from oddarms.search import (
    AHEAD,
    Progress,
    Result,
    Search,
    Status,
    Ticket,
    Tickets,
    drive,
)
from oddarms.search._rewards import Rewards
from oddarms.studies import _records as records
from oddarms.studies._desk import StudyDesk
from oddarms.studies._labels import Labels
from oddarms.studies._log import Conflict, ResultRow, Told, Trial
from oddarms.studies._replay import new_search, replay
from oddarms.studies._workers import is_gone

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database

LEASE = timedelta(hours=1)
LEAST_BETWEEN_SNAPSHOTS = 1000
MOST_TICKETS = 2**63 - 1
YEAR_10000 = 253_402_300_800.0

DecisionCallback = Callable[["Study", list[tuple[Label, Decision]]], None]


@dataclass(frozen=True)
class Overview:
    """A study at one moment.

    Attributes
    ----------
    created
        When it was created.
    status
        Where it stands; "waiting" if all pulls that can be handed out are out.
    result
        What is known; `Result.status` is "running" as long as more will be.
    handed_out, live
        All tickets, and those whose results may still be on the way.
    told, imported, conflicts
        Results of tickets, imported results, and results that were refused.
    """

    created: datetime
    status: Status
    result: Result
    handed_out: int
    live: int
    told: int
    imported: int
    conflicts: int


class Study:
    """A search in a storage. `oddarms.create_study` and `oddarms.load_study` return it.

    Any number of processes may have the same study open; methods may be called from any thread.

    Attributes
    ----------
    name
        Its name in the storage.
    seed
        Decides the algorithm's random choices.
    """

    def __init__(
        self, database: Database, number: int, name: str, question: Question, seed: int
    ) -> None:
        self._database = database
        self._number = number
        self.name = name
        self.seed = seed
        self._asked = question  # with numbers for labels, of which there may be a great many
        self._labels = Labels(database, number, question.n)
        self._rewards = Rewards(question)
        self._search: Search | None = None
        self._position = 0  # number of the last result that the search has
        self._lock = threading.RLock()
        self._callbacks: list[DecisionCallback] = []
        self._reported: npt.NDArray[np.int8] | None = None

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self._asked.n:,} arms, storage={self.storage!r})"

    @property
    def storage(self) -> str:
        """Where the study is stored."""
        return self._database.name

    @cached_property
    def question(self) -> Question:
        """What is asked."""
        return self._asked.but(labels=self._labels.all())

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest reward possible."""
        return self._asked.bounds

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
    ) -> Tickets:
        """Hand out up to n pulls.

        Workers that ask at the same time get different work. Fewer than n tickets, or none, come
        back where there is nothing to do until results arrive; `status` of the list says whether
        to wait for them ("waiting") or to stop ("decided", "budget").

        Parameters
        ----------
        n
            How many pulls at most.
        worker
            A name for the log.
        lease
            For how long; afterwards the pull may be handed to somebody else. A result that comes
            later is still recorded and used.
        ahead
            How far pulls of later steps may be handed out, as a share of the results so far; 0 for
            not at all.
        """
        n = check_whole("n", n, least=1)
        worker = _check_text("worker", worker)
        if not isinstance(lease, timedelta) or lease <= timedelta(0):
            raise InvalidParameter(f"lease must be a positive timedelta but got {lease!r}.")
        if time.time() + lease.total_seconds() >= YEAR_10000:
            raise InvalidParameter(f"lease must end before the year 10000 but got {lease}.")
        self._catch_up()
        with self._lock, self._database.writing() as connection:
            self._database.exclusive(connection, self._number)
            search, saved = self._synchronised(connection)
            self._save_if_due(connection, search, saved)
            now = time.time()  # all this may have taken a while
            expires = now + lease.total_seconds()
            records.drop_ended_leases(connection, self._number, now)
            out = records.live_places(connection, self._number, now)
            places = search.open_places(n, out, ahead=ahead)
            first = records.add_tickets(
                self._database, connection, self._number, places, worker, now, expires
            )
            for arm, place in places:
                out.setdefault(arm, set()).add(place)
            status = search.status_with(out, ahead=ahead)
            labels = self._labels.of([arm for arm, _ in places], connection)
        tickets = [
            Ticket(first + i, label, arm, place, _moment(expires))
            for i, (label, (arm, place)) in enumerate(zip(labels, places, strict=True))
        ]
        try:
            self._report_decisions()
        except BaseException:
            self.skip_many(tickets, "a callback raised an exception")  # nobody has seen them
            raise
        return Tickets(tickets, status)

    def tell(self, ticket: Ticket | int, reward: float, *, worker: str | None = None) -> Told:
        """Record the result of a ticket; when this returns it is stored for good.

        May be repeated after an error: the same result counts once. A second, different result
        does not count and is returned as a conflict.
        """
        return self.tell_many([(ticket, reward)], worker=worker)[0]

    def tell_many(
        self, results: Iterable[tuple[Ticket | int, float]], *, worker: str | None = None
    ) -> list[Told]:
        """Record several results at once, all of them or, where one breaks a rule, none."""
        rows = [(_ticket_number(ticket), self.check_reward(reward)) for ticket, reward in results]
        worker = _check_text("worker", worker)
        if not rows:
            return []
        now = time.time()
        if len(rows) == 1:
            with self._database.statement() as connection:
                if records.add_result(
                    self._database, connection, self._number, rows[0], worker, now
                ):
                    return [Told.RECORDED]
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            return records.add_results(connection, self._number, rows, worker, now)

    def import_rewards(
        self, rewards: Mapping[Any, npt.ArrayLike], *, key: str | None = None
    ) -> int:
        """Record rewards that nobody asked for; return how many.

        They count as evidence but not as pulls of the budget. The guarantee stays if they were
        drawn like all others and how many an arm has was not decided by looking at them. Where the
        speed of a pull depends on its reward, import before the first `ask`.

        Parameters
        ----------
        rewards
            Rewards by label; arms may have any number or be missing.
        key
            A name for this import, of up to 64 characters; a second one with the same key records
            nothing and returns 0.
        """
        key = _check_text("key", key, most=64)
        lists = {label: np.atleast_1d(np.asarray(given)) for label, given in rewards.items()}
        checked = {
            label: [self.check_reward(reward) for reward in given.tolist()]
            for label, given in lists.items()
        }
        with self._lock, self._database.writing() as connection:
            self._database.exclusive(connection, self._number)
            arms = self._labels.numbers(list(checked), connection)
            rows = [
                (arm, reward)
                for arm, given in zip(arms, checked.values(), strict=True)
                for reward in given
            ]
            return records.add_import(
                self._database, connection, self._number, rows, key, time.time()
            )

    def skip(self, ticket: Ticket | int, reason: str = "") -> None:
        """Give a ticket back without a result; its pull may be handed out again at once.

        Not because it takes long or may turn out badly: what comes back would be a selection.
        """
        self.skip_many([ticket], reason)

    def skip_many(self, tickets: Iterable[Ticket | int], reason: str = "") -> None:
        """Give several tickets back at once."""
        numbers = [_ticket_number(ticket) for ticket in tickets]
        if not numbers:
            return
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            records.add_skips(connection, self._number, numbers, _storable(reason), time.time())

    def skip_worker(self, worker: str, reason: str = "") -> int:
        """Give back all tickets that a worker has out, for one that is known to be gone.

        Returns how many.
        """
        now = time.time()
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            numbers = records.live_tickets(connection, self._number, worker, now)
            if numbers:
                records.add_skips(connection, self._number, numbers, _storable(reason), now)
        return len(numbers)

    def take_over(self) -> int:
        """Give back the tickets of processes of this machine that are gone; return how many.

        Such as this one's, before it was killed: nobody has to wait for their leases.
        """
        with self._database.reading() as connection:
            workers = records.live_workers(connection, self._number, time.time())
        gone = [worker for worker in workers if is_gone(worker)]
        return sum(self.skip_worker(worker, "its process is gone") for worker in gone)

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        return self._rewards.checked_one(reward)

    # What is known

    def result(self) -> Result:
        """Return what is known now: the same document as that of a search in memory."""
        return self.overview().result

    def overview(self) -> Overview:
        """Return where the study stands, all of it at the same moment."""
        with self._lock, self._database.reading() as connection:
            search = self._current(connection)
            out = records.live_places(connection, self._number, time.time())
            status = search.status_with(out)
            handed_out, created = records.counts(connection, self._number)
            conflicts = records.number_of_conflicts(connection, self._number)
            result = search.result()
            told, taken = search.told, search.taken
        self._report_decisions()
        known = status if status.final else Status.RUNNING
        return Overview(
            created=_moment(created),
            status=status,
            result=replace(result, question=self.question, status=known),
            handed_out=handed_out,
            live=sum(map(len, out.values())),
            told=told,
            imported=taken - told,
            conflicts=conflicts,
        )

    def progress(self) -> Progress:
        """Return pulls, open arms, threshold and estimated pulls to go, cheaply."""
        with self._lock, self._database.reading() as connection:
            return self._current(connection).progress()

    @property
    def status(self) -> Status:
        """Where the study stands: "running", "waiting", "decided" or "budget"."""
        with self._lock, self._database.reading() as connection:
            search = self._current(connection)
            return search.status_with(records.live_places(connection, self._number, time.time()))

    @property
    def done(self) -> bool:
        """True once no more pulls will be handed out."""
        return self.status.final

    def wait(self, timeout: float | None = None, *, poll: float = 0.5) -> bool:
        """Wait until the study is done; return False if that took longer than the timeout."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self.done:
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(poll, max(deadline - time.monotonic(), 0.0)))
        return True

    def trials(self) -> Iterator[Trial]:
        """Yield every recorded result, in the order of recording."""
        trials = self._trials()
        # where all share one connection it cannot be kept for as long as somebody goes through them
        yield from list(trials) if self._database.one_connection else trials

    def _trials(self) -> Iterator[Trial]:
        with self._database.reading() as connection:
            self._labels.all(connection)  # rather than one of them at a time
            for row in records.trial_rows(connection, self._number):
                number, ticket, arm, place, reward, worker, told, asked, expires = row
                yield Trial(
                    number=number,
                    ticket=ticket,
                    arm=self._labels.of([arm], connection)[0],
                    place=place,
                    reward=reward,
                    worker=worker,
                    asked=None if asked is None else _moment(asked),
                    told=_moment(told),
                    expired=expires is not None and told > expires,
                )

    def to_frame(self) -> Any:
        """Return the trials as a pandas data frame (``pip install 'oddarms[frame]'``)."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra.of("frame", "a data frame") from None
        columns = list(Trial.__dataclass_fields__)
        rows = [[getattr(trial, column) for column in columns] for trial in self.trials()]
        return pandas.DataFrame(rows, columns=columns)

    def conflicts(self) -> list[Conflict]:
        """Return the results that were refused because another one was there first."""
        with self._database.reading() as connection:
            rows = list(records.conflict_rows(connection, self._number))
            labels = self._labels.of([row[1] for row in rows], connection)
        return [
            Conflict(ticket, label, first, second, worker, _moment(told))
            for (ticket, _, first, second, worker, told), label in zip(rows, labels, strict=True)
        ]

    def on_decision(self, callback: DecisionCallback) -> None:
        """Call a function with the study and the newly decided arms, as this process sees them.

        Called from `ask`, `result` and `run`, after the results that decided are stored; with pairs
        of label and `Decision`.
        """
        self._callbacks.append(callback)

    def desk(self, worker: str | None = None, lease: timedelta = LEASE) -> StudyDesk:
        """Return a worker's end of the study, for `oddarms.search.drive`."""
        return StudyDesk(self, worker, lease)

    def run(
        self,
        pull: Callable[[Any], Any],
        *,
        worker: str | None = None,
        lease: timedelta = LEASE,
        batch: bool = False,
        **options: Any,
    ) -> Result:
        """Ask, pull and tell until the study is done; return what it found.

        Several processes may run the same study at once. Whatever ends this - an exception,
        Ctrl-C, kill - the results told before are stored, and running again goes on from there.

        Parameters
        ----------
        pull
            Called with a label, returns a reward; an ``async def`` is awaited. If it has a method
            `stop`, that is called when the run is interrupted, to end calls under way.
        worker, lease
            As for `ask`.
        batch
            Whether `pull` takes a list of labels and returns a list of rewards; it is then called
            in this thread, with up to a thousand labels at a time.
        **options
            `jobs`, `executor`, `on_error`, `ahead` and `progress` of `oddarms.find`.
        """
        arms = BatchFunction(pull, self.labels) if batch else Function(pull, self.labels)
        return drive(self.desk(worker, lease), arms, **options)

    # The search

    def _catch_up(self) -> None:
        """Read a file's results while others can write; there may be many when it is opened."""
        if self._search is None and self._database.dialect == "sqlite":
            with self._lock, self._database.reading() as connection:
                self._current(connection)

    def _current(self, connection: sa.Connection) -> Search:
        """Return the search with all results stored now, in a transaction that only reads."""
        self._database.exclusive(connection, self._number)
        return self._synchronised(connection)[0]

    def _synchronised(self, connection: sa.Connection) -> tuple[Search, int]:
        """Bring the search up to date; return it and how many results the saved state has.

        The transaction must have the study alone.
        """
        saved, taken = records.snapshot_position(connection, self._number)
        search, position = self._search, self._position
        if search is None or position < saved:
            search, position = self._loaded(connection)
        self._search = None  # if this is interrupted half-way, the next call begins anew
        for rows in records.result_rows(connection, self._number, after=position):
            self._check_rows(rows)
            replay(search, rows)
            position = rows[-1].number
        self._search, self._position = search, position
        return search, taken

    def _check_rows(self, rows: Iterable[ResultRow]) -> None:
        """Check that results are such as `tell` lets in: a file may be damaged unseen by SQLite."""
        n, (a, b) = self._asked.n, self._asked.bounds
        for row in rows:
            placed = (row.ticket is None) or (isinstance(row.place, int) and row.place >= 0)
            number = isinstance(row.reward, float) and a <= row.reward <= b
            if not (0 <= row.arm < n and number and placed):
                raise StoreFailed(
                    f"{self.storage}: it is damaged; result {row.number} is {row.reward!r:.50}"
                    f" of arm {row.arm}."
                )

    def _loaded(self, connection: sa.Connection) -> tuple[Search, int]:
        """Return the saved search and its position, or a new one if it cannot be used."""
        state = records.snapshot(connection, self._number)
        with suppress(InvalidParameter):
            if state is not None:
                position = records.snapshot_position(connection, self._number)[0]
                return Search.from_bytes(self._asked, state), position
        return new_search(self._asked, self.seed), 0

    def _save_if_due(self, connection: sa.Connection, search: Search, saved: int) -> None:
        """Save the state once there are as many new results as arms: opening stays O(arms)."""
        if search.taken - saved < max(self._asked.n, LEAST_BETWEEN_SNAPSHOTS):
            return
        records.save_snapshot(
            connection,
            self._number,
            self._position,
            search.taken,
            search.to_bytes(),
            search.algorithm.pulls,
            search.means,
            search.decisions,
        )

    def _report_decisions(self) -> None:
        if not self._callbacks:
            return
        with self._lock:
            if self._search is None:
                return
            decisions = self._search.decisions
            before = self._reported if self._reported is not None else np.zeros_like(decisions)
            fresh = np.flatnonzero((decisions != Decision.UNDECIDED) & (decisions != before))
            self._reported = decisions
        if fresh.size:
            labels = self._labels.of(fresh.tolist())
            news = [
                (label, Decision(int(decisions[i]))) for label, i in zip(labels, fresh, strict=True)
            ]
            for callback in self._callbacks:
                callback(self, news)


def _ticket_number(ticket: Ticket | int) -> int:
    number = ticket.id if isinstance(ticket, Ticket) else check_whole("ticket", ticket, least=1)
    if number > MOST_TICKETS:
        raise InvalidParameter(f"ticket must be one that was handed out but got {number}.")
    return number


def _check_text(name: str, text: str | None, most: int = 1000) -> str | None:
    """Return a text that every storage can hold."""
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > most or _storable(text) != text:
        raise InvalidParameter(
            f"{name} must be a text of up to {most} characters, without NUL, but got {text!r:.100}."
        )
    return text


def _storable(text: object) -> str:
    """Return a text with all that a storage cannot hold written out."""
    return str(text).encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, TypeError, ValueError):
        raise StoreFailed(f"the storage is damaged; it has a time of {seconds!r:.50}.") from None
