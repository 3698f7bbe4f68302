"""A study: a search one can leave and come back to, shared by many workers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Decision
from oddarms.errors import InvalidParameter, MissingExtra, RewardRejected, StoreFailed
from oddarms.problem import FloatArray, Label, Problem, check_number, check_whole
from oddarms.search import Progress, Result, progress_of
from oddarms.studies import _records as records
from oddarms.studies._labels import Labels
from oddarms.studies._machine import Machine, ResultRow
from oddarms.studies._question import Question
from oddarms.studies._tickets import Conflict, Status, Ticket, Tickets, Told, Trial

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database

LEASE = timedelta(hours=1)
LEAST_BETWEEN_SNAPSHOTS = 1000
MOST_TICKETS = 2**63 - 1
YEAR_10000 = 253_402_300_800.0

DecisionCallback = Callable[["Study", list[tuple[Label, Decision]]], None]


class Study:
    """A search in a storage. `oddarms.create_study` and `oddarms.load_study` return it.

    Any number of processes may have the same study open; methods may be called from any thread.
    `oddarms.studies._machine` says which rewards are used for which bound, and what slow and lost
    workers mean for the guarantee.

    Attributes
    ----------
    name
        Its name in the storage.
    question
        k, delta, bounds and all else that was asked.
    """

    def __init__(self, database: Database, number: int, name: str, question: Question) -> None:
        self._database = database
        self._number = number
        self.name = name
        self.question = question
        self._labels = Labels(database, number, question.n)
        self._machine: Machine | None = None
        self._lock = threading.RLock()
        self._callbacks: list[DecisionCallback] = []
        self._reported: npt.NDArray[np.int8] | None = None

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self.question.n:,} arms, storage={self.storage!r})"

    @property
    def storage(self) -> str:
        """Where the study is stored."""
        return self._database.name

    @property
    def labels(self) -> tuple[Label, ...]:
        """The arms' labels."""
        return self._labels.all()

    # Work

    def ask(self, n: int = 1, worker: str | None = None, lease: timedelta = LEASE) -> Tickets:
        """Hand out up to n pulls.

        Workers that ask at the same time get different work. Fewer than n tickets, or none, come
        back where the step in progress has no more pulls to hand out; `status` of the list says
        whether to wait for results ("waiting") or to stop ("decided", "budget").

        Parameters
        ----------
        n
            How many pulls at most.
        worker
            A name for the log.
        lease
            For how long; afterwards the pull may be handed to somebody else. A result that comes
            later is still recorded and used.
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
            machine, saved = self._synchronised(connection)
            self._save_if_due(connection, machine, saved)
            now = time.time()  # all this may have taken a while
            expires = now + lease.total_seconds()
            records.drop_ended_leases(connection, self._number, now)
            arms, live = self._work(connection, machine, now, n + 1)
            more, arms = len(arms) > n, arms[:n]
            first = records.add_tickets(
                self._database, connection, self._number, arms, worker, now, expires
            )
            status = self._status(machine, out=live + len(arms), more=more)
            labels = self._labels.of(arms, connection)
        tickets = [Ticket(first + i, label, _moment(expires)) for i, label in enumerate(labels)]
        try:
            self._report_decisions()
        except BaseException:
            self.skip_many(tickets, "a callback raised an exception")  # nobody has seen them
            raise
        return Tickets(tickets, status)

    def _work(
        self, connection: sa.Connection, machine: Machine, now: float, n: int
    ) -> tuple[list[int], int]:
        """Return up to n arms to pull now, and how many pulls are out."""
        live = records.live_leases(connection, self._number, now)
        missing = machine.missing_per_arm()
        out = np.bincount(live, minlength=missing.size)[: missing.size] if live else 0
        open_pulls = np.maximum(missing - out, 0)
        most = min(n, int(open_pulls.sum()))
        if self.question.budget is not None:
            most = min(most, max(self.question.budget - machine.told - len(live), 0))
        wanted = np.flatnonzero(open_pulls)
        ends = np.cumsum(open_pulls[wanted])
        wanted = wanted[: int(np.searchsorted(ends, most)) + 1]
        arms = np.repeat(wanted, open_pulls[wanted])[:most]
        return arms.tolist(), len(live)

    def _status(self, machine: Machine, *, out: int, more: bool) -> Status:
        if machine.done:
            return Status.DECIDED if machine.search.stopped == "decided" else Status.BUDGET
        if more:
            return Status.OPEN
        if out:
            return Status.WAITING
        return Status.BUDGET  # the step needs pulls, none is out, and none may be handed out

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

    def tell_arm(self, label: Label, rewards: npt.ArrayLike, *, key: str | None = None) -> int:
        """Record results of one arm that nobody asked for; return how many."""
        return self.tell_arms({label: rewards}, key=key)

    def tell_arms(self, history: Mapping[Any, npt.ArrayLike], *, key: str | None = None) -> int:
        """Record results nobody asked for, such as a history; return how many.

        They count as evidence but not as pulls of the budget. The guarantee stays if they were
        drawn like all others and how many an arm has was not decided by looking at them.

        Parameters
        ----------
        history
            Rewards by label; arms may have any number or be missing.
        key
            A name for this import, of up to 64 characters; a second one with the same key records
            nothing and returns 0.
        """
        key = _check_text("key", key, most=64)
        lists = {label: np.atleast_1d(np.asarray(rewards)) for label, rewards in history.items()}
        checked = {
            label: [self.check_reward(reward) for reward in rewards.tolist()]
            for label, rewards in lists.items()
        }
        with self._lock, self._database.writing() as connection:
            self._database.exclusive(connection, self._number)
            arms = self._labels.numbers(list(checked), connection)
            rows = [
                (arm, reward)
                for arm, rewards in zip(arms, checked.values(), strict=True)
                for reward in rewards
            ]
            return records.add_import(
                self._database, connection, self._number, rows, key, time.time()
            )

    def skip(self, ticket: Ticket | int, reason: str = "") -> None:
        """Give a ticket back without a result; its pull may be handed out again at once."""
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

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        value = reward.item() if isinstance(reward, np.generic) else reward
        a, b = self.question.bounds
        try:
            number = check_number("reward", float(value) if isinstance(value, bool) else value)
        except InvalidParameter as error:
            raise RewardRejected(str(error)) from None
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf if value > 0 else -math.inf
        if not a <= number <= b:
            raise RewardRejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}] but got {number:g}."
            )
        return number

    # What is known

    def result(self) -> Result:
        """Return what is known now, in the user's labels."""
        with self._lock, self._database.reading() as connection:
            machine = self._current(connection)
            result = machine.search.result()
            arms, live = self._work(connection, machine, time.time(), 1)
            status = self._status(machine, out=live, more=bool(arms))
            if status is Status.BUDGET:  # which late results may have used up in mid-step
                result = replace(result, stopped="budget")
        self._report_decisions()
        question = self.question
        problem = Problem(
            self.labels,
            k=question.k,
            delta=question.delta,
            bounds=question.bounds,
            side=question.side,
        )
        return replace(result, problem=problem)

    def progress(self) -> Progress:
        """Return pulls, open arms, threshold and estimated pulls to go, cheaply."""
        with self._lock, self._database.reading() as connection:
            machine = self._current(connection)
            found = progress_of(machine.search)
            return replace(found, pulls=machine.told)

    def pulls_needed(self) -> FloatArray | None:
        """Return about how many more pulls each arm needs, where the algorithm can tell."""
        with self._lock, self._database.reading() as connection:
            return self._current(connection).search.algorithm.pulls_needed()

    @property
    def status(self) -> Status:
        """Where the study stands: "open", "waiting", "decided" or "budget"."""
        now = time.time()
        with self._lock, self._database.reading() as connection:
            machine = self._current(connection)
            arms, live = self._work(connection, machine, now, 1)
            return self._status(machine, out=live, more=bool(arms))

    @property
    def done(self) -> bool:
        """True once no more pulls will be handed out."""
        return self.status in (Status.DECIDED, Status.BUDGET)

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
            for row in records.trial_rows(connection, self._number):
                number, ticket, arm, reward, worker, told, asked, expires = row
                yield Trial(
                    number=number,
                    ticket=ticket,
                    arm=self._labels.of([arm], connection)[0],
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

    def run(self, pull: Callable[[Any], float], **options: Any) -> Result:
        """Make pulls with a function until the study is done; see `oddarms.studies.run`."""
        from oddarms.studies._run import run

        return run(self, pull, **options)

    # The machine

    def _catch_up(self) -> None:
        """Read a file's results while others can write; there may be many when it is opened."""
        if self._machine is None and self._database.dialect == "sqlite":
            with self._lock, self._database.reading() as connection:
                self._current(connection)

    def _current(self, connection: sa.Connection) -> Machine:
        """Return the machine with all results stored now, in a transaction that only reads."""
        self._database.exclusive(connection, self._number)
        return self._synchronised(connection)[0]

    def _synchronised(self, connection: sa.Connection) -> tuple[Machine, int]:
        """Bring the machine up to date; return it and how many results the saved state has.

        The transaction must have the study alone.
        """
        position, taken = records.snapshot_position(connection, self._number)
        machine = self._machine
        if machine is None or machine.position < position:
            machine = self._loaded(connection)
        self._machine = None  # if this is interrupted half-way, the next call begins anew
        for rows in records.result_rows(connection, self._number, after=machine.position):
            self._check_rows(rows)
            machine.take(rows)
        self._machine = machine
        return machine, taken

    def _check_rows(self, rows: Iterable[ResultRow]) -> None:
        """Check that results are such as `tell` lets in: a file may be damaged unseen by SQLite."""
        n, (a, b) = self.question.n, self.question.bounds
        for row in rows:
            if not (0 <= row.arm < n and isinstance(row.reward, float) and a <= row.reward <= b):
                raise StoreFailed(
                    f"{self.storage}: it is damaged; result {row.number} is {row.reward!r:.50}"
                    f" of arm {row.arm}."
                )

    def _loaded(self, connection: sa.Connection) -> Machine:
        """Return the saved state, or a new one, to be given all results, if it cannot be used."""
        state = records.snapshot(connection, self._number)
        with suppress(InvalidParameter):
            if state is not None:
                return Machine.from_bytes(self.question, state)
        return Machine(self.question)

    def _save_if_due(self, connection: sa.Connection, machine: Machine, saved: int) -> None:
        """Save the state once there are as many new results as arms: opening stays O(arms)."""
        if machine.taken - saved < max(self.question.n, LEAST_BETWEEN_SNAPSHOTS):
            return
        records.save_snapshot(
            connection,
            self._number,
            machine.position,
            machine.taken,
            machine.to_bytes(),
            machine.search.algorithm.pulls,
            machine.search.means,
            machine.search.decisions,
        )

    def _report_decisions(self) -> None:
        if not self._callbacks:
            return
        with self._lock:
            if self._machine is None:
                return
            decisions = self._machine.search.decisions
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
