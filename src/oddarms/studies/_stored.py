"""Studies in a database: SQL around a `Search` that follows the log.

Every process that has a study open keeps its own `Search` and gives it new results as it reads
them. A result is stored with its arm and place, so the state does not depend on the order in which
results are read, and reading one twice does no harm.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oddarms.errors import (
    DuplicateStudy,
    InvalidParameter,
    StorageFailed,
    UnknownStudy,
)
from oddarms.problem import (
    FloatArray,
    IntArray,
    Label,
    Question,
    check_plain_label,
    check_whole,
)
from oddarms.search import (
    PREFETCH,
    FindIntervals,
    Place,
    Progress,
    Search,
    Seconds,
    Status,
    Ticket,
    Tickets,
)
from oddarms.search._search import check_raised, history_rows, numbers_within
from oddarms.studies._database import Database, Now, open_database, run
from oddarms.studies._location import location_of
from oddarms.studies._study import (
    CONFLICTS_KEPT,
    LEASE,
    MAX_KEY,
    Conflict,
    NoStorage,
    Overview,
    Storage,
    Study,
    StudyList,
    StudySummary,
    Told,
    Trial,
    Verification,
    WorkerRecord,
    check_lease,
    check_name,
    check_text,
    new_search,
    reason_of,
)
from oddarms.tables import Missing, Recorded

if TYPE_CHECKING:
    import sqlalchemy as sa

LABELS_AT_ONCE = 50_000
"""Up to so many, all labels are read at once and kept."""
PAGE = 10_000
"""Results that are read at a time."""
PARAMETERS = 500


class TicketIds:
    """Makes and reads the ids of one study's tickets, such as ``17.3.204.mzxw6ytboi4dgnbt``.

    An id has the ticket's number, arm and place, and a keyed hash of them, so that nobody can
    guess one, and one of another study is recognised.
    """

    def __init__(self, study: str, secret: bytes) -> None:
        self._study = study
        self._secret = secret

    def of(self, number: int, arm: int, place: int) -> str:
        """Return the id of a ticket."""
        text = f"{number}.{arm}.{place}"
        digest = hashlib.blake2b(text.encode(), key=self._secret, digest_size=10).digest()
        return f"{text}.{base64.b32encode(digest).decode().lower()}"

    def read(self, ticket: Ticket | str) -> tuple[int, int, int]:
        """Return number, arm and place of a ticket of this study."""
        text = ticket.id if isinstance(ticket, Ticket) else ticket
        found = _ID.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise InvalidParameter(
                f"{text!r:.60} is not a ticket: `ask` returns ids such as"
                " 17.3.204.mzxw6ytboi4dgnbt."
            )
        number, arm, place = int(found[1]), int(found[2]), int(found[3])
        if not hmac.compare_digest(text, self.of(number, arm, place)):
            raise InvalidParameter(
                f"Ticket {text} is not one of the study {self._study!r}: it belongs to another"
                " study, perhaps to a deleted one with this name."
            )
        return number, arm, place


_ID = re.compile(r"([1-9]\d{0,17})\.(\d{1,18})\.(\d{1,18})\.[a-z2-7]{16}", re.ASCII)


class StoredStudy(Study):
    """A study in a file, in PostgreSQL or in memory."""

    def __init__(
        self,
        database: Database,
        name: str,
        number: int,
        question: Question,
        seed: int,
        secret: bytes,
    ) -> None:
        super().__init__(name, seed, question)
        self.number = number
        """Its number in the storage, which no other study has there, nor ever had."""
        self._database = database
        self._asked = question  # with numbers for labels, of which there may be a great many
        self._ids = TicketIds(name, secret)
        self._labels: tuple[Label, ...] | None = None
        self._named: tuple[Question, Question] | None = None
        self._lock = threading.RLock()
        self._search: Search | None = None
        self._budgets: list[int | None] = [question.budget]
        self._stopped: str | None = None
        self._position = 0  # in the log
        self._raised = 1  # how many of the budgets the search has

    @property
    def storage(self) -> str:
        """Where the study is stored."""
        return self._database.name

    @property
    def question(self) -> Question:
        """See `Study.question`."""
        with self._lock, self._database.reading() as connection:
            self._read_row(connection)
            budget = self._budgets[-1]
        asked = self._asked
        return self._with_labels(asked if asked.budget == budget else asked.but(budget=budget))

    def _with_labels(self, question: Question) -> Question:
        if self._named is None or self._named[0] != question:
            self._named = question, question.relabelled(self.labels)
        return self._named[1]

    def _run(self, connection: sa.Connection, statement: str, **values: Any) -> Any:
        """Execute a statement in which :study is this one."""
        return run(connection, statement, study=self.number, **values)

    # Labels

    @property
    def labels(self) -> tuple[Label, ...]:
        """The arms' labels."""
        if self._labels is None:
            statement = "SELECT label FROM arms WHERE study = :study ORDER BY number"
            with self._database.reading() as connection:
                texts = self._run(connection, statement).scalars().all()
            labels = _decoded(texts)
            if len(labels) != self.n:
                raise StorageFailed(
                    f"{self.storage}: it is damaged; it has {len(labels)} of {self.n} labels."
                )
            self._labels = labels
        return self._labels

    def labels_of(self, arms: Sequence[int]) -> list[Label]:
        """Return the labels of some arms."""
        if self._labels is not None or self.n <= LABELS_AT_ONCE or len(arms) > LABELS_AT_ONCE:
            return [self.labels[arm] for arm in arms]
        chosen, found = sorted(set(arms)), dict[int, Label]()
        with self._database.reading() as connection:
            for start in range(0, len(chosen), PARAMETERS):
                some = ", ".join(map(str, chosen[start : start + PARAMETERS]))
                statement = (
                    f"SELECT number, label FROM arms WHERE study = :study AND number IN ({some})"
                )
                rows = self._run(connection, statement).all()
                found.update(
                    zip([row[0] for row in rows], _decoded([r[1] for r in rows]), strict=True)
                )
        return [found[arm] for arm in arms]

    # Work

    def ask(
        self,
        n: int = 1,
        worker: str | None = None,
        lease: Seconds = LEASE,
        *,
        prefetch: float = PREFETCH,
        key: str | None = None,
    ) -> Tickets:
        """See `Study.ask`."""
        n = check_whole("n", n, least=1)
        worker = check_text("worker", worker)
        key = check_text("key", key, MAX_KEY)
        seconds = check_lease(lease)
        database, study = self._database, self.number
        with self._lock:
            self._catch_up()  # before others have to wait
            with database.writing() as connection:
                database.alone(connection, study)
                search = self._current(connection)
                now = database.now(connection)
                self._run(
                    connection,
                    "DELETE FROM tickets WHERE study = :study"
                    " AND (boot <> :boot OR expires <= :steady)",
                    boot=now.boot,
                    steady=now.steady,
                )
                expires = now.steady + seconds
                rows = self._asked_before(connection, key, expires) if key else []
                out = self._out(connection)
                if not rows and self._stopped is None:
                    places = search.open_places(n, out, prefetch=prefetch)
                    rows = self._add_tickets(connection, places, worker, key, now, expires)
                    out |= set(places)
                status = self._status(search, out, prefetch=prefetch)
                self._note_worker(connection, worker, now.wall, handed_out=len(rows))
                decided = search.decided
        moment = _moment(now.wall + seconds)
        labels = self.labels_of([arm for _, arm, _ in rows])
        tickets = [
            Ticket(self._ids.of(*row), label, row[1], row[2], moment)
            for row, label in zip(rows, labels, strict=True)
        ]
        return Tickets(tickets, status, decided)

    def _asked_before(
        self, connection: sa.Connection, key: str, expires: float
    ) -> list[tuple[int, int, int]]:
        """Return those tickets of an earlier call with this key that are out, with new leases."""
        found = self._run(
            connection,
            "UPDATE tickets SET expires = :expires WHERE study = :study AND key = :key"
            " RETURNING number, arm, place",
            key=key,
            expires=expires,
        )
        return sorted((int(number), int(arm), int(place)) for number, arm, place in found)

    def _out(self, connection: sa.Connection) -> set[Place]:
        now = self._database.now(connection)
        found = self._run(
            connection,
            "SELECT arm, place FROM tickets WHERE study = :study"
            " AND boot = :boot AND expires > :steady",
            boot=now.boot,
            steady=now.steady,
        )
        return {(int(arm), int(place)) for arm, place in found}

    def _add_tickets(
        self,
        connection: sa.Connection,
        places: Sequence[Place],
        worker: str | None,
        key: str | None,
        now: Now,
        expires: float,
    ) -> list[tuple[int, int, int]]:
        if not places:
            return []
        last = self._run(
            connection,
            "UPDATE studies SET tickets = tickets + :more WHERE id = :study RETURNING tickets",
            more=len(places),
        ).scalar()
        if last is None:
            raise UnknownStudy(f"The study {self.name!r} was deleted.")
        first = int(last) - len(places) + 1
        rows = [(first + i, arm, place) for i, (arm, place) in enumerate(places)]
        more = (worker, key, now.wall, expires, now.boot)
        self._database.insert(
            connection,
            "tickets",
            ["study", "number", "arm", "place", "worker", "key", "asked", "expires", "boot"],
            [(self.number, *row, *more) for row in rows],
        )
        return rows

    def _note_worker(
        self,
        connection: sa.Connection,
        worker: str | None,
        wall: float,
        *,
        handed_out: int = 0,
        results: int = 0,
    ) -> None:
        told = wall if results else None
        self._run(
            connection,
            "INSERT INTO workers (study, name, handed_out, results, first_told, last_told,"
            " last_seen) VALUES (:study, :name, :handed_out, :results, :told, :told, :wall)"
            " ON CONFLICT (study, name) DO UPDATE SET"
            " handed_out = workers.handed_out + excluded.handed_out,"
            " results = workers.results + excluded.results,"
            " first_told = coalesce(workers.first_told, excluded.first_told),"
            " last_told = coalesce(excluded.last_told, workers.last_told),"
            " last_seen = excluded.last_seen",
            name=worker or "",
            handed_out=handed_out,
            results=results,
            told=told,
            wall=wall,
        )

    def tell_many(
        self, results: Iterable[tuple[Ticket | str, float]], *, worker: str | None = None
    ) -> list[Told]:
        """See `Study.tell_many`."""
        rows = [(*self._ids.read(ticket), self.check_reward(reward)) for ticket, reward in results]
        worker = check_text("worker", worker)
        if not rows:
            return []
        firsts: dict[int, tuple[int, int, int, float]] = {}
        for row in rows:
            firsts.setdefault(row[0], row)
        with self._database.writing() as connection:
            self._database.appending(connection, self.number)
            wall = self._database.now(connection).wall
            # in one order, so that two calls with tickets in common cannot wait for each other
            ordered = [firsts[number] for number in sorted(firsts)]
            if self._database.is_postgresql:
                added = self._add_postgresql(connection, ordered, worker, wall)
            else:
                added = self._add_sqlite(connection, ordered, worker, wall)
            told = []
            for row in rows:
                is_new = row[0] in added
                added.discard(row[0])
                told.append(
                    Told.RECORDED if is_new else self._settle(connection, row, worker, wall)
                )
            self._note_worker(
                connection, worker, wall, results=sum(one is Told.RECORDED for one in told)
            )
        return told

    def _add_sqlite(
        self,
        connection: sa.Connection,
        rows: Sequence[tuple[int, int, int, float]],
        worker: str | None,
        wall: float,
    ) -> set[int]:
        """Record results and drop their tickets; return the tickets of those that are new."""
        raw: Any = connection.connection.driver_connection
        numbers = [(self.number, row[0]) for row in rows]
        raw.executemany("DELETE FROM tickets WHERE study = ? AND number = ?", numbers)
        statement = (
            "INSERT INTO results (study, ticket, arm, place, reward, worker, told)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        values = [(self.number, *row, worker, wall) for row in rows]
        raw.execute("SAVEPOINT one_by_one")
        if raw.executemany(statement, values).rowcount == len(rows):
            return {row[0] for row in rows}
        raw.execute("ROLLBACK TO one_by_one")  # to find out which are new
        return {value[1] for value in values if raw.execute(statement, value).rowcount}

    def _add_postgresql(
        self,
        connection: sa.Connection,
        rows: Sequence[tuple[int, int, int, float]],
        worker: str | None,
        wall: float,
    ) -> set[int]:
        tickets, arms, places, rewards = (list(column) for column in zip(*rows, strict=True))
        found = self._run(
            connection,
            "WITH given AS (SELECT * FROM unnest(CAST(:tickets AS bigint[]),"
            " CAST(:arms AS bigint[]), CAST(:places AS bigint[]),"
            " CAST(:rewards AS double precision[])) AS g(ticket, arm, place, reward)),"
            " gone AS (DELETE FROM tickets t USING given g"
            " WHERE t.study = :study AND t.number = g.ticket)"
            " INSERT INTO results (study, ticket, arm, place, reward, worker, told)"
            " SELECT :study, g.ticket, g.arm, g.place, g.reward, :worker, :wall FROM given g"
            " ORDER BY g.ticket ON CONFLICT DO NOTHING RETURNING ticket",
            worker=worker,
            wall=wall,
            tickets=tickets,
            arms=arms,
            places=places,
            rewards=rewards,
        )
        return {int(row[0]) for row in found}

    def _settle(
        self,
        connection: sa.Connection,
        row: tuple[int, int, int, float],
        worker: str | None,
        wall: float,
    ) -> Told:
        """Deal with a result whose ticket, or whose place, has one already."""
        number, arm, place, reward = row
        first = self._reward_of(connection, number)
        if first is None:  # its lease ended, and another ticket for its place was told since
            self._database.alone(connection, self.number)
            first = self._reward_of(connection, number)  # somebody may have been faster
        values = {"ticket": number, "reward": reward, "worker": worker}
        if first is None:
            self._run(
                connection,
                "INSERT INTO results"
                " (study, ticket, arm, place, asked_place, reward, worker, told) SELECT :study,"
                " :ticket, :arm, max(p.place) + 1, :asked, :reward, CAST(:worker AS TEXT), :wall"
                f" FROM ({_PLACES}) p",
                **values,
                arm=arm,
                asked=place,
                wall=wall,
            )
            return Told.RECORDED
        if first == reward:
            return Told.REPEATED
        self._run(
            connection,
            "UPDATE studies SET conflicts = conflicts + 1 WHERE id = :study",
        )
        kept = self._run(
            connection,
            "SELECT count(*) FROM conflicts WHERE study = :study AND ticket = :ticket",
            ticket=number,
        ).scalar_one()
        if kept < CONFLICTS_KEPT:
            self._run(
                connection,
                "INSERT INTO conflicts (study, ticket, reward, worker, told)"
                " VALUES (:study, :ticket, :reward, :worker, :wall)",
                **values,
                wall=wall,
            )
        return Told.CONFLICT

    def _reward_of(self, connection: sa.Connection, ticket: int) -> float | None:
        statement = "SELECT reward FROM results WHERE study = :study AND ticket = :ticket"
        found: float | None = self._run(connection, statement, ticket=ticket).scalar()
        return found

    def renew(self, tickets: Iterable[Ticket | str], lease: Seconds = LEASE) -> int:
        """See `Study.renew`."""
        numbers = sorted({self._ids.read(ticket)[0] for ticket in tickets})
        seconds = check_lease(lease)
        renewed = 0
        if not numbers:
            return 0
        with self._database.writing() as connection:
            now = self._database.now(connection)
            for number in numbers:
                renewed += self._run(
                    connection,
                    "UPDATE tickets SET expires = :expires, boot = :boot"
                    " WHERE study = :study AND number = :number",
                    number=number,
                    expires=now.steady + seconds,
                    boot=now.boot,
                ).rowcount
        return renewed

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """See `Study.skip_many`."""
        del reason
        numbers = sorted({self._ids.read(ticket)[0] for ticket in tickets})
        if numbers:
            with self._database.writing() as connection:
                for number in numbers:
                    self._run(
                        connection,
                        "DELETE FROM tickets WHERE study = :study AND number = :number",
                        number=number,
                    )

    def skip_worker(self, worker: str, reason: str = "") -> int:
        """See `Study.skip_worker`."""
        del reason
        with self._database.writing() as connection:
            return int(
                self._run(
                    connection,
                    "DELETE FROM tickets WHERE study = :study AND worker = :worker",
                    worker=worker,
                ).rowcount
            )

    def add_history(
        self,
        history: Recorded,
        *,
        key: str | None = None,
        arm: str | Sequence[str] | None = None,
        reward: str | None = None,
        labels: Iterable[Label] | None = None,
        missing: Missing = "stop",
    ) -> int:
        """See `Study.add_history`."""
        key = check_text("key", key, MAX_KEY)
        arms, rewards = history_rows(
            history, self.question, arm=arm, reward=reward, labels=labels, missing=missing
        )
        order = self._order_of(key, arms.size)
        return self.add_rows(arms[order], rewards[order], key)

    def _order_of(self, key: str | None, size: int) -> IntArray:
        """Return an order for the rows of a history: of a key always the same."""
        words = (int(self.pulse(), 16),) if key is None else tuple(key.encode())
        sequence = np.random.SeedSequence(self.seed, spawn_key=(2, *words))
        return np.random.default_rng(sequence).permutation(size)

    def add_rows(self, arms: IntArray, rewards: FloatArray, key: str | None) -> int:
        """Record checked rewards that nobody asked for, in this order; return how many."""
        database = self._database
        with database.writing() as connection:
            database.alone(connection, self.number)
            database.appending(connection, self.number)
            if key is not None:
                known = self._run(
                    connection,
                    "INSERT INTO imports (study, key) VALUES (:study, :key) ON CONFLICT DO NOTHING",
                    key=key,
                )
                if not known.rowcount:
                    return 0
            ends = np.zeros(self.n, dtype=np.int64)
            found = self._run(
                connection,
                "SELECT arm, max(place) + 1 FROM (SELECT arm, place FROM results"
                " WHERE study = :study UNION ALL SELECT arm, place FROM tickets"
                " WHERE study = :study) p GROUP BY arm",
            )
            for arm, end in found:
                ends[int(arm)] = int(end)
            places = ends[arms] + numbers_within(arms)
            wall = database.now(connection).wall
            columns = zip(arms.tolist(), places.tolist(), rewards.tolist(), strict=True)
            database.insert(
                connection,
                "results",
                ["study", "arm", "place", "reward", "told"],
                [(self.number, *row, wall) for row in columns],
            )
        return arms.size

    def raise_budget(self, budget: int | None) -> None:
        """See `Study.raise_budget`."""
        with self._lock, self._database.writing() as connection:
            self._database.alone(connection, self.number)
            self._read_row(connection)
            check_raised(self._budgets[-1], budget)
            if budget != self._budgets[-1]:
                self._run(
                    connection,
                    "UPDATE studies SET budgets = :budgets WHERE id = :study",
                    budgets=json.dumps([*self._budgets, budget]),
                )

    def stop(self, reason: str = "") -> None:
        """See `Study.stop`."""
        self._set_stopped(reason_of(reason))

    def resume(self) -> None:
        """See `Study.resume`."""
        self._set_stopped(None)

    def _set_stopped(self, reason: str | None) -> None:
        with self._database.writing() as connection:
            self._database.alone(connection, self.number)
            self._run(
                connection,
                "UPDATE studies SET stopped = :reason WHERE id = :study",
                reason=reason,
            )

    # The search

    def _read_row(self, connection: sa.Connection) -> None:
        """Read what may change of the study itself."""
        row = self._run(
            connection, "SELECT budgets, stopped FROM studies WHERE id = :study"
        ).first()
        if row is None:
            raise UnknownStudy(f"The study {self.name!r} was deleted.")
        self._budgets, self._stopped = json.loads(row[0]), row[1]

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads, in which little is new."""
        self._catch_up()
        with self._database.reading() as connection:
            yield connection

    def _catch_up(self) -> None:
        """Give the search what is new, outside of a transaction: it may take a while."""
        with self._database.reading() as connection:
            self._read_row(connection)
            new = self._new_results(connection)
        self._advance(*new)

    def _current(self, connection: sa.Connection) -> Search:
        """Return the search with all results that are stored now."""
        self._read_row(connection)
        return self._advance(*self._new_results(connection))

    def _advance(self, position: int, rows: list[Any]) -> Search:
        search, self._search = self._search, None  # if interrupted, the next call begins anew
        if search is None:
            search, self._raised = new_search(self._asked, self.seed), 1
        for budget in self._budgets[self._raised :]:
            search.raise_budget(budget)
        self._raised = len(self._budgets)
        if rows:
            search.load(*self._checked(rows))
        self._search, self._position = search, position
        return search

    def _new_results(self, connection: sa.Connection) -> tuple[int, list[Any]]:
        """Return a position in the log, and results behind the last one.

        On PostgreSQL a position is the oldest transaction that was under way: all results that
        were not visible then are of that one or later ones.
        """
        columns = "arm, place, reward, ticket IS NULL"
        if self._search is None:
            self._position = 0
        if not self._database.is_postgresql:
            found = self._run(
                connection,
                f"SELECT {columns}, id FROM results WHERE study = :study AND id > :position"
                " ORDER BY id",
                position=self._position,
            ).all()
            return (found[-1][4] if found else self._position), found
        oldest = self._run(
            connection,
            "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)",
        ).scalar_one()
        found = self._run(
            connection,
            f"SELECT {columns} FROM results WHERE study = :study"
            " AND xact >= CAST(CAST(:position AS text) AS xid8)",
            position=str(self._position),
        ).all()
        return int(oldest), found

    def _checked(self, rows: list[Any]) -> tuple[IntArray, IntArray, FloatArray, Any]:
        """Return rows as arrays, if they are such as `tell` lets in: a file may be damaged."""
        columns = list(zip(*rows, strict=True))[:4] or [(), (), (), ()]
        arms, places = (np.array(column, dtype=np.int64) for column in columns[:2])
        rewards, history = np.array(columns[2], dtype=float), np.array(columns[3], dtype=np.bool_)
        (a, b), n = self._asked.bounds, self.n
        sound = (arms >= 0) & (arms < n) & (places >= 0) & (rewards >= a) & (rewards <= b)
        if not sound.all():
            bad = int(np.flatnonzero(~sound)[0])
            raise StorageFailed(
                f"{self.storage}: it is damaged; a result is {rewards[bad]!r:.50} of arm"
                f" {arms[bad]}, place {places[bad]}."
            )
        return arms, places, rewards, history

    # What is known

    def overview(self) -> Overview:
        """See `Study.overview`."""
        overview, _ = self._looked(Search.result)
        result = overview.result
        named = replace(result, question=self._with_labels(result.question))
        return replace(overview, result=named)

    def outline(self) -> tuple[Overview, FindIntervals]:
        """Return the state of the study at less cost, and a function that finds intervals.

        The labels of its result are numbers, and the intervals of the result are infinite.
        """
        return self._looked(Search.outline)

    def _looked(self, look: Callable[[Search], Any]) -> tuple[Overview, Any]:
        """Return the study, and what a look at its search has found, at the same moment."""
        with self._lock, self._reading() as connection:
            search = self._current(connection)
            out = self._out(connection)
            status, stopped = self._status(search, out), self._stopped
            tickets, conflicts, created = self._run(
                connection,
                "SELECT tickets, conflicts, created FROM studies WHERE id = :study",
            ).one()
            found = look(search)
            told = search.told
        result, more = found if isinstance(found, tuple) else (found, None)
        known = status if status.final else Status.RUNNING
        overview = Overview(
            created=_moment(created),
            status=status,
            result=replace(result, status=known),
            handed_out=int(tickets),
            live=len(out),
            told=told,
            conflicts=int(conflicts),
            stopped=stopped,
        )
        return overview, more

    def _status(self, search: Search, out: set[Place], *, prefetch: float = PREFETCH) -> Status:
        status = search.status_with(out, prefetch=prefetch)
        return Status.STOPPED if self._stopped is not None and not status.final else status

    def progress(self) -> Progress:
        """See `Study.progress`."""
        with self._lock, self._reading() as connection:
            return self._current(connection).progress()

    @property
    def status(self) -> Status:
        """See `Study.status`."""
        with self._lock, self._reading() as connection:
            search = self._current(connection)
            return self._status(search, self._out(connection))

    def pulse(self) -> str:
        """See `Study.pulse`."""
        with self._database.reading() as connection:
            row = self._run(
                connection,
                "SELECT tickets, budgets, stopped, conflicts,"
                " (SELECT max(id) FROM results WHERE study = :study) FROM studies"
                " WHERE id = :study",
            ).first()
            if row is None:
                raise UnknownStudy(f"The study {self.name!r} was deleted.")
            out = self._out(connection)
        text = repr((self.number, *row, sorted(out)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def trials(self, *, after: int = 0, most: int | None = None) -> Iterator[Trial]:
        """See `Study.trials`."""
        upto, left = self._database.settled(self.number), most
        while left is None or left > 0:
            page = self._trials(
                "id > :after AND id <= :upto ORDER BY id",
                PAGE if left is None else min(left, PAGE),
                after=after,
                upto=upto,
            )
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].number
            left = None if left is None else left - len(page)

    def _trials(self, where: str, most: int, **values: Any) -> list[Trial]:
        with self._database.reading() as connection:
            rows = self._run(
                connection,
                "SELECT id, ticket, arm, place, coalesce(asked_place, place), reward, worker, told"
                " FROM results"
                f" WHERE study = :study AND {where} LIMIT :most",
                most=most,
                **values,
            ).all()
        labels = self.labels_of([row[2] for row in rows])
        return [
            Trial(
                number,
                None if ticket is None else self._ids.of(ticket, arm, asked),
                label,
                place,
                reward,
                worker,
                _moment(told),
            )
            for (number, ticket, arm, place, asked, reward, worker, told), label in zip(
                rows, labels, strict=True
            )
        ]

    def latest_of(self, arm: int, most: int) -> list[Trial]:
        """Return the latest results of an arm, by its number, the last one first."""
        return self._trials("arm = :arm ORDER BY id DESC", most, arm=arm)

    def rewards_of(self, arm: int, places: int) -> FloatArray:
        """Return the rewards of the first places of an arm."""
        with self._database.reading() as connection:
            found = self._run(
                connection,
                "SELECT reward FROM results WHERE study = :study AND arm = :arm"
                " AND place < :places ORDER BY place",
                arm=arm,
                places=places,
            )
            return np.array(found.scalars().all(), dtype=float)

    def number_of(self, arm: int) -> int:
        """Return how many rewards of an arm are recorded, used or not."""
        statement = "SELECT count(*) FROM results WHERE study = :study AND arm = :arm"
        with self._database.reading() as connection:
            return int(self._run(connection, statement, arm=arm).scalar_one())

    def conflicts(self, *, after: int = 0, most: int | None = None) -> list[Conflict]:
        """See `Study.conflicts`."""
        return self._conflicts("c.id > :after ORDER BY c.id", most, after=after)

    def latest_conflicts(self, most: int) -> list[Conflict]:
        """Return the stored conflicts, the last one first."""
        return self._conflicts("1 = 1 ORDER BY c.id DESC", most)

    def _conflicts(self, where: str, most: int | None, **values: Any) -> list[Conflict]:
        with self._database.reading() as connection:
            rows = self._run(
                connection,
                "SELECT c.id, c.ticket, r.arm, coalesce(r.asked_place, r.place), r.reward,"
                " c.reward, c.worker, c.told FROM conflicts c"
                " JOIN results r ON r.study = c.study AND r.ticket = c.ticket"
                f" WHERE c.study = :study AND {where} LIMIT :most",
                most=2**62 if most is None else most,
                **values,
            ).all()
        labels = self.labels_of([row[2] for row in rows])
        return [
            Conflict(
                number,
                self._ids.of(ticket, arm, place),
                label,
                first,
                second,
                worker,
                _moment(told),
            )
            for (number, ticket, arm, place, first, second, worker, told), label in zip(
                rows, labels, strict=True
            )
        ]

    def workers(self) -> list[WorkerRecord]:
        """See `Study.workers`."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            live = self._run(
                connection,
                "SELECT coalesce(worker, ''), count(*) FROM tickets WHERE study = :study"
                " AND boot = :boot AND expires > :steady GROUP BY coalesce(worker, '')",
                boot=now.boot,
                steady=now.steady,
            )
            counts = {name: int(count) for name, count in live}
            rows = self._run(
                connection,
                "SELECT name, handed_out, results, first_told, last_told, last_seen FROM workers"
                " WHERE study = :study ORDER BY name",
            ).all()
        return [_worker_record(row, counts.get(row[0], 0)) for row in rows]

    def verify(self) -> Verification:
        """See `Study.verify`."""
        found = Verification(problems=self._database.check_integrity())
        with self._lock:
            fresh = StoredStudy(self._database, self.name, self.number, self._asked, self.seed, b"")
            try:
                with self._database.reading() as connection:
                    search = fresh._current(connection)
            except StorageFailed as error:
                if error.passing:
                    raise
                found.problems.append(str(error))
                return found
        found.results = search.told + search.result().history
        return found


_PLACES = (
    "SELECT place FROM results WHERE study = :study AND arm = :arm"
    " UNION ALL SELECT place FROM tickets WHERE study = :study AND arm = :arm"
)


def _worker_record(row: Any, live: int) -> WorkerRecord:
    name, handed_out, results, first_told, last_told, last_seen = row
    seconds = 0.0 if first_told is None else last_told - first_told
    return WorkerRecord(
        name or None,
        int(handed_out),
        int(results),
        live,
        None if last_told is None else _moment(last_told),
        _moment(last_seen),
        (results - 1) / seconds if seconds > 0.0 else None,
    )


def _decoded(texts: Sequence[str]) -> tuple[Label, ...]:
    """Return labels from their JSON, which holds any text and tells 1 from "1"."""
    return tuple(json.loads(f"[{','.join(texts)}]"))


def _moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, TypeError, ValueError):
        raise StorageFailed(f"the storage is damaged: it has a time of {seconds!r:.50}.") from None


class DatabaseStorage(Storage):
    """A file, PostgreSQL, or the memory of this process."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def opened(cls, storage: str | Path | None, *, create: bool = False) -> DatabaseStorage:
        """Return the storage at a place, which must exist unless it is to be created."""
        database = open_database(storage, create=create)
        if database is None:
            raise NoStorage(
                f"{location_of(storage).name} does not exist, or has no studies: `oddarms study"
                " create` makes the first one."
            )
        return cls(database)

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self.database.name

    def create(self, name: str, question: Question, seed: int) -> StoredStudy:
        """Create a study; `checked_question` must have accepted its question."""
        asked, secret = question.numbered(), secrets.token_bytes(16)
        with self.database.writing() as connection:
            number = run(
                connection,
                "INSERT INTO studies (name, question, seed, secret, budgets, created) VALUES"
                " (:name, :question, :seed, :secret, :budgets, :created)"
                " ON CONFLICT (name) DO NOTHING RETURNING id",
                name=name,
                question=asked.to_json(),
                seed=str(seed),
                secret=secret,
                budgets=json.dumps([asked.budget]),
                created=self.database.now(connection).wall,
            ).scalar()
            if number is None:
                raise DuplicateStudy(
                    f"{self.name} has a study {name!r} already: load it, or delete it first."
                )
            rows = ((number, i, _encoded(label)) for i, label in enumerate(question.labels))
            self.database.insert(connection, "arms", ["study", "number", "label"], rows)
        return StoredStudy(self.database, name, int(number), asked, seed, secret)

    def load(self, name: str) -> StoredStudy:
        """Return a study."""
        check_name(name)
        with self.database.reading() as connection:
            row = run(
                connection,
                "SELECT id, question, seed, secret, (SELECT count(*) FROM arms"
                " WHERE study = studies.id) FROM studies WHERE name = :name",
                name=name,
            ).first()
            if row is None:
                known = run(connection, "SELECT name FROM studies ORDER BY name LIMIT 10")
                names = ", ".join(known.scalars()) or "none"
                raise UnknownStudy(f"{self.name} has no study {name!r}; it has: {names}.")
        number, text, seed, secret, arms = row
        asked = _question_of(text, self.name)
        if arms != asked.n:  # before anything of that size is made
            raise StorageFailed(
                f"{self.name}: it is damaged; the study {name!r} has {arms} of {asked.n} arms."
            )
        return StoredStudy(self.database, name, int(number), asked, int(seed), bytes(secret))

    def list(
        self, search: str = "", most: int | None = None, skip: int = 0, *, newest: bool = False
    ) -> StudyList:
        """Return studies, as `list_studies` does."""
        order = "s.created DESC, s.id DESC" if newest else "s.name"
        pattern = "%" + re.sub("([!%_])", r"!\1", search) + "%"
        matches = "lower(s.name) LIKE lower(:pattern) ESCAPE '!'"
        with self.database.reading() as connection:
            rows = run(
                connection,
                "SELECT s.name, s.question, s.budgets, s.created, s.tickets,"
                " (SELECT count(*) FROM results r WHERE r.study = s.id), s.stopped"
                f" FROM studies s WHERE {matches} ORDER BY {order} LIMIT :most OFFSET :skip",
                pattern=pattern,
                most=2**62 if most is None else most,
                skip=skip,
            ).all()
            total = run(
                connection, f"SELECT count(*) FROM studies s WHERE {matches}", pattern=pattern
            ).scalar_one()
        return StudyList((self._summary(*row) for row in rows), int(total))

    def _summary(
        self, name: str, text: str, budgets: str, created: float, *counts: Any
    ) -> StudySummary:
        tickets, results, stopped = counts
        question = _question_of(text, self.name).but(budget=json.loads(budgets)[-1])
        return StudySummary(name, question, _moment(created), int(tickets), int(results), stopped)

    def number_of(self, name: str) -> int | None:
        """Return the number of the study that has a name now: one made anew has another."""
        with self.database.reading() as connection:
            statement = "SELECT id FROM studies WHERE name = :name"
            found = run(connection, statement, name=name).scalar()
        return None if found is None else int(found)

    def delete(self, name: str) -> None:
        """Delete a study with all its results, for good."""
        number = self.load(name).number
        with self.database.writing() as connection:
            self.database.alone(connection, number)
            run(connection, "DELETE FROM studies WHERE id = :study", study=number)


def _encoded(label: Label) -> str:
    return json.dumps(check_plain_label(label))


def _question_of(text: str, storage: str) -> Question:
    try:
        return Question.from_json(text)
    except InvalidParameter as error:
        raise StorageFailed(
            f"{storage}: it is damaged; a question cannot be read: {error}"
        ) from None
