"""A study: a search one can leave and come back to, shared by many workers.

A search, plus a log of every result in a storage, plus leases of the tickets that are out. The
search is a pure function of the results, and of the changes of its question, in the order in which
they were recorded, so that every process that has the study open has the same one;
`oddarms.search._search` says which reward is used when, and what slow and lost workers mean for the
guarantee.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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
from oddarms.search._revising import changed, revision
from oddarms.search._rewards import Rewards
from oddarms.studies import _result_rows as result_rows
from oddarms.studies import _revision_rows as revision_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies import _ticket_rows as ticket_rows
from oddarms.studies._desk import RUN_LEASE, StudyDesk
from oddarms.studies._ids import TicketIds
from oddarms.studies._labels import Labels
from oddarms.studies._log import Conflict, Revision, RevisionRow, Told, Trial
from oddarms.studies._replay import LoggedSearch, State, new_search, stored_question
from oddarms.studies._saving import save_state
from oddarms.studies._workers import is_gone
from oddarms.tables import Missing, Recorded, recorded_rewards

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database
    from oddarms.studies._study_rows import StudyRow

LEASE = timedelta(minutes=10)
"""Of tickets that nobody renews by itself."""
MOST_LEASE = timedelta(days=365)

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
    told, beyond, imported, conflicts
        Results of tickets, those that came late and beyond the budget, imported results, and
        results that were refused.
    """

    created: datetime
    status: Status
    result: Result
    handed_out: int
    live: int
    told: int
    beyond: int
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
        self,
        database: Database,
        name: str,
        row: StudyRow,
        question: Question,
        revisions: Sequence[RevisionRow] = (),
    ) -> None:
        self._database = database
        self._number = row.number
        self.name = name
        self.seed = row.seed
        # at the beginning, with numbers for labels, of which there may be a great many
        self._asked = question
        self._ids = TicketIds(name, row.secret)
        self._labels = Labels(database, row.number, question.n)
        self._rewards = Rewards(question)
        self._log = LoggedSearch(database.name, row.number, question, row.seed, revisions)
        self._named: tuple[Question, Question] | None = None
        self._lock = threading.RLock()
        self._callbacks: list[DecisionCallback] = []
        self._reported: npt.NDArray[np.int8] | None = None

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self._asked.n:,} arms, storage={self.storage!r})"

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
            For how long, a year at most; afterwards the pull may be handed to somebody else. A
            result that comes later is still recorded and, within the budget, used. Choose it
            longer than a pull takes, or `renew` it meanwhile, as `run` does.
        ahead
            How far pulls of later steps may be handed out, as a share of the results so far; 0 for
            not at all.
        """
        n = check_whole("n", n, least=1)
        worker = _check_text("worker", worker)
        seconds = _check_lease(lease)
        self._catch_up()
        with self._lock:
            with self._database.writing() as connection:
                self._database.exclusive(connection, self._number)
                search = self._log.brought_up(connection)
                saving = self._log.claims_saving(connection)
                ticket_rows.drop_ended_leases(connection, self._number)
                out = ticket_rows.live_places(connection, self._number)
                places = search.open_places(n, out, ahead=ahead)
                first, now = ticket_rows.add_tickets(
                    self._database, connection, self._number, places, worker, seconds
                )
                for arm, place in places:
                    out.setdefault(arm, set()).add(place)
                status = search.status_with(out, ahead=ahead)
                labels = self._labels.of([arm for arm, _ in places], connection)
            tickets = [
                Ticket(self._ids.of(first + i), label, arm, place, moment_of(now + seconds))
                for i, (label, (arm, place)) in enumerate(zip(labels, places, strict=True))
            ]
            state = self._log.state() if saving else None
        try:
            if state is not None:
                self._save(state)
            self._report_decisions()
        except BaseException as error:
            self._abandon(tickets, f"ask ended with {type(error).__name__}")
            raise
        return Tickets(tickets, status)

    def _abandon(self, tickets: list[Ticket], reason: str) -> None:
        """Give back tickets that nobody has got; where there is no time for it, leases end."""
        with suppress(StoreFailed), self._database.hurried():
            self.skip_many(tickets, reason)

    def _save(self, state: State) -> None:
        """Save a state; where the storage has no time for it, the next one will be."""
        with suppress(StoreFailed), self.hurried():
            save_state(self._database, self._number, state)

    def tell(self, ticket: Ticket | str, reward: float, *, worker: str | None = None) -> Told:
        """Record the result of a ticket; when this returns it is stored for good.

        May be repeated after an error: the same result counts once. A second, different result
        does not count and is returned as a conflict.
        """
        return self.tell_many([(ticket, reward)], worker=worker)[0]

    def tell_many(
        self, results: Iterable[tuple[Ticket | str, float]], *, worker: str | None = None
    ) -> list[Told]:
        """Record several results at once, all of them or, where one breaks a rule, none."""
        rows = [(self._ids.number(ticket), self.check_reward(reward)) for ticket, reward in results]
        worker = _check_text("worker", worker)
        if not rows:
            return []
        if len(rows) == 1 and not self._database.hurries:
            with self._database.statement() as connection:
                if result_rows.add_new_results(
                    self._database, connection, self._number, dict(rows), worker
                ):
                    return [Told.RECORDED]
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            return result_rows.add_results(self._database, connection, self._number, rows, worker)

    def renew(self, tickets: Iterable[Ticket | str], lease: timedelta = LEASE) -> int:
        """Let leases last as long from now, as pulls are still under way; return how many do.

        Fewer than were given where a result is there, or the place was handed to somebody else.
        """
        numbers = [self._ids.number(ticket) for ticket in tickets]
        seconds = _check_lease(lease)
        if not numbers:
            return 0
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            ticket_rows.require_study(connection, self._number)
            return ticket_rows.renew_leases(connection, self._number, numbers, seconds)

    def import_rewards(
        self,
        rewards: Recorded,
        *,
        key: str | None = None,
        arm: str | None = None,
        reward: str | None = None,
        labels: Iterable[Label] | None = None,
        missing: Missing = "stop",
    ) -> int:
        """Record rewards that nobody asked for; return how many.

        They count as evidence but not as pulls of the budget. The guarantee stays if they were
        drawn like all others and how many an arm has was not decided by looking at them. Where the
        speed of a pull depends on its reward, import before the first `ask`.

        Parameters
        ----------
        rewards
            Rewards by label, of which arms may have any number or be missing; a data frame with a
            row per reward or with counts (the columns ``successes`` and ``trials``, in an order
            that the seed of the study decides), or an array with a row for each of the `labels`.
        key
            A name for this import, of up to 64 characters; a second one with the same key and the
            same rewards records nothing and returns 0, one with others is refused.
        arm, reward, labels, missing
            As for `Search.import_rewards`.
        """
        key = _check_text("key", key, most=64)
        plain = (arm, reward, labels, missing) == (None, None, None, "stop")
        if not (isinstance(rewards, Mapping) and plain):
            rewards = recorded_rewards(
                rewards,
                arm=arm,
                reward=reward,
                labels=labels,
                missing=missing,
                worst=self.question.worst,
                rng=np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(2,))),
            )
        lists = {label: np.atleast_1d(np.asarray(given)) for label, given in rewards.items()}
        checked = {
            label: [self.check_reward(reward) for reward in given.tolist()]
            for label, given in lists.items()
        }
        with self._lock, self._database.writing() as connection:
            self._database.exclusive(connection, self._number)
            ticket_rows.require_study(connection, self._number)
            arms = self._labels.numbers(list(checked), connection)
            rows = [
                (arm, reward)
                for arm, given in zip(arms, checked.values(), strict=True)
                for reward in given
            ]
            return result_rows.add_import(self._database, connection, self._number, rows, key)

    def revise(self, **changes: Any) -> None:
        """Ask a somewhat different question of the same arms, on the samples that are there.

        Margin, floor and indifference may be changed, where the algorithm can decide anew (SPADE
        can), and the budget may become larger, or None. All processes that have the study open go
        on with the new question; one that was done is open again if it has to be. Once margin or
        floor were changed after the first result, the answer is right with probability at least
        1 - 3 delta; indifference and budget cost nothing. Choose by `result`, not by single
        `trials`; `oddarms.search._search` says why.

        May be repeated after an error: what is asked already changes nothing.

        Parameters
        ----------
        **changes
            Words of the question that are changed: margin, floor, indifference, budget.

        Examples
        --------
        >>> from oddarms import create_study, delete_study
        >>> study = create_study("ads", ["a", "b", "c"], k=1, budget=100, storage="memory")
        >>> study.revise(margin=0.1, budget=200)
        >>> study.question.margin, study.question.budget
        (0.1, 200)
        >>> delete_study("ads", storage="memory")
        """
        self._catch_up()
        with self._lock:
            with self._database.writing() as connection:
                self._database.exclusive(connection, self._number)
                search = self._log.brought_up(connection)
                wanted = changed(search.question, changes)
                new = revision(search.question, wanted, search.algorithm, looked=search.taken > 0)
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
        """Return what `revise` with these changes would make of the samples there are.

        Nothing is changed.
        """
        with self._lock, self._database.reading() as connection:
            search = self._current(connection)
            copy = Search.from_bytes(search.question, search.to_bytes())
        copy.revise(**changes)
        return copy.result()

    def revisions(self) -> list[Revision]:
        """Return all changes of the question, in their order."""
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

    def skip(self, ticket: Ticket | str, reason: str = "") -> None:
        """Give a ticket back without a result; its pull may be handed out again at once.

        Not because it takes long or may turn out badly: what comes back would be a selection.
        """
        self.skip_many([ticket], reason)

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """Give several tickets back at once."""
        numbers = [self._ids.number(ticket) for ticket in tickets]
        if not numbers:
            return
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            ticket_rows.add_skips(connection, self._number, numbers, _storable(reason))

    def skip_worker(self, worker: str, reason: str = "") -> int:
        """Give back all tickets that a worker has out, for one that is known to be gone.

        Returns how many.
        """
        with self._database.writing() as connection:
            self._database.shared(connection, self._number)
            numbers = ticket_rows.live_tickets(connection, self._number, worker)
            if numbers:
                ticket_rows.add_skips(connection, self._number, numbers, _storable(reason))
        return len(numbers)

    def take_over(self) -> int:
        """Give back the tickets of processes of this machine that are gone; return how many.

        Such as this one's, before it was killed: nobody has to wait for their leases.
        """
        with self._database.reading() as connection:
            workers = ticket_rows.live_workers(connection, self._number)
        gone = [worker for worker in workers if is_gone(worker)]
        return sum(self.skip_worker(worker, "its process is gone") for worker in gone)

    def hurried(self) -> AbstractContextManager[None]:
        """Return a block in which this thread's calls wait for a lock for a moment only."""
        return self._database.hurried()

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
            out = ticket_rows.live_places(connection, self._number)
            status = search.status_with(out)
            handed_out, created = study_rows.counts(connection, self._number)
            conflicts = result_rows.number_of_conflicts(connection, self._number)
            result = search.result()
            told, taken, beyond = search.told, search.taken, search.beyond
            asked = search.question
        self._report_decisions()
        known = status if status.final else Status.RUNNING
        return Overview(
            created=moment_of(created),
            status=status,
            result=replace(result, question=self._with_labels(asked), status=known),
            handed_out=handed_out,
            live=sum(map(len, out.values())),
            told=told + beyond,
            beyond=beyond,
            imported=taken - told - beyond,
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
            return search.status_with(ticket_rows.live_places(connection, self._number))

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
            for row in result_rows.trial_rows(connection, self._number):
                number, ticket, arm, place, reward, worker, told, late, asked = row
                yield Trial(
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
            rows = list(result_rows.conflict_rows(connection, self._number))
            labels = self._labels.of([row[1] for row in rows], connection)
        return [
            Conflict(self._ids.of(ticket), label, first, second, worker, moment_of(told))
            for (ticket, _, first, second, worker, told), label in zip(rows, labels, strict=True)
        ]

    def on_decision(self, callback: DecisionCallback) -> None:
        """Call a function with the study and the newly decided arms, as this process sees them.

        Called from `ask`, `result` and `run`, after the results that decided are stored; with pairs
        of label and `Decision`.
        """
        self._callbacks.append(callback)

    def desk(self, worker: str | None = None, lease: timedelta = RUN_LEASE) -> StudyDesk:
        """Return a worker's end of the study, for `oddarms.search.drive`."""
        return StudyDesk(self, worker, lease)

    def run(
        self,
        pull: Callable[[Any], Any],
        *,
        worker: str | None = None,
        lease: timedelta = RUN_LEASE,
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
        worker
            A name for the log.
        lease
            How long pulls stand still if this process dies; as long as it lives, leases are
            renewed.
        batch
            Whether `pull` takes a list of labels and returns a list of rewards; it is then called
            in this thread, with up to a thousand labels at a time.
        **options
            `jobs`, `executor`, `on_error`, `ahead`, `patience` and `progress` of `oddarms.find`.
        """
        arms = BatchFunction(pull, self.labels) if batch else Function(pull, self.labels)
        return drive(self.desk(worker, lease), arms, **options)

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
            decisions = self._log.search.decisions
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


def _check_lease(lease: timedelta) -> float:
    """Return the seconds of a lease."""
    if not isinstance(lease, timedelta) or not timedelta(0) < lease <= MOST_LEASE:
        raise InvalidParameter(
            f"lease must be a positive timedelta of at most a year but got {lease!r}."
        )
    return lease.total_seconds()


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


def moment_of(seconds: float) -> datetime:
    """Return a stored time of day."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, TypeError, ValueError):
        raise StoreFailed(f"the storage is damaged; it has a time of {seconds!r:.50}.") from None
