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
import logging
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
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
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    Question,
    check_plain_label,
    check_whole,
)
from oddarms.search import (
    PREFETCH,
    Place,
    Progress,
    Search,
    Seconds,
    Status,
    Ticket,
    Tickets,
    check_raised,
    history_rows,
    numbers_within,
)
from oddarms.studies._database import Database, Now, in_chunks, open_database, run
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
    history_order,
    new_search,
    reason_of,
    storable,
)
from oddarms.tables import Missing, Recorded

if TYPE_CHECKING:
    import sqlalchemy as sa

_log = logging.getLogger(__name__)

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
            with _readable(self.storage):
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
        found: dict[int, Label] = {}
        with self._database.reading() as connection:
            for some in _in_lists(set(arms)):
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
        with self._lock:
            self._catch_up()  # before others have to wait
            with self._database.writing() as connection:
                self._database.alone(connection, self.number)
                now = self._database.now(connection)
                self._drop_expired(connection, now)
                expires = now.steady + seconds
                rows = self._asked_before(connection, key, expires) if key else []
                asked_before = len(rows)
                # before the results: a ticket that is told meanwhile is seen at least once
                out = self._out(connection, now)
                search = self._current(connection)
                if not rows and self._stopped is None:
                    places = search.open_places(n, out, prefetch=prefetch)
                    rows = self._add_tickets(connection, places, worker, key, now, expires)
                    out |= set(places)
                status = self._status(search, out, prefetch=prefetch)
                new = len(rows) - asked_before
                self._note_worker(connection, worker, now.wall, handed_out=new)
                decided = search.decided
        moment = _moment(now.wall + seconds)
        labels = self.labels_of([arm for _, arm, _ in rows])
        tickets = [
            Ticket(self._ids.of(*row), label, row[1], row[2], moment)
            for row, label in zip(rows, labels, strict=True)
        ]
        return Tickets(tickets, status, decided)

    def _drop_expired(self, connection: sa.Connection, now: Now) -> None:
        """Delete tickets whose leases have ended, unless somebody is just telling or renewing."""
        expired = "study = :study AND (boot <> :boot OR expires <= :steady)"
        if self._database.is_postgresql:
            unlocked = f"SELECT number FROM tickets WHERE {expired} FOR UPDATE SKIP LOCKED"
            expired = f"study = :study AND number IN ({unlocked})"
        self._run(
            connection, f"DELETE FROM tickets WHERE {expired}", boot=now.boot, steady=now.steady
        )

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

    def _out(self, connection: sa.Connection, now: Now | None = None) -> set[Place]:
        now = now or self._database.now(connection)
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
        return self._database.repeated(lambda: self._tell(rows, worker))

    def _tell(self, rows: Sequence[Row], worker: str | None) -> list[Told]:
        """Record results in one transaction."""
        firsts: dict[int, Row] = {}
        for row in rows:
            firsts.setdefault(row[0], row)
        # in one order of places, so that two calls with tickets in common do not wait for each
        # other
        ordered = sorted(firsts.values(), key=lambda row: (row[1], row[2], row[0]))
        with self._database.writing() as connection:
            self._check_handed_out(connection, max(firsts))
            self._database.appending(connection, self.number)
            wall = self._database.now(connection).wall
            add = self._add_postgresql if self._database.is_postgresql else self._add_sqlite
            added = add(connection, ordered, worker, wall)
            known = self._known_rewards(connection, [row for row in ordered if row[0] not in added])
            for row in ordered:
                if row[0] not in added and row[0] not in known:
                    known |= self._add_late(connection, row, worker, wall)
            told, conflicts = [], []
            for number, _, _, reward in rows:
                if number not in known:
                    known[number] = reward
                    told.append(Told.RECORDED)
                elif known[number] == reward:
                    told.append(Told.REPEATED)
                else:
                    conflicts.append((number, reward))
                    told.append(Told.CONFLICT)
            self._note_conflicts(connection, conflicts, worker, wall)
            results = sum(one is Told.RECORDED for one in told)
            self._note_worker(connection, worker, wall, results=results)
        return told

    def _check_handed_out(self, connection: sa.Connection, number: int) -> None:
        """Raise if a ticket is newer than the storage, which was restored from a backup then."""
        statement = "SELECT tickets FROM studies WHERE id = :study"
        last = self._run(connection, statement).scalar()
        if last is None:
            raise UnknownStudy(f"The study {self.name!r} was deleted.")
        if number > last:
            raise InvalidParameter(
                f"Ticket {number} was never handed out by this storage, which has handed out"
                f" {last:,}: it seems to be restored from an older backup."
            )

    def _add_sqlite(
        self, connection: sa.Connection, rows: Sequence[Row], worker: str | None, wall: float
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
        self, connection: sa.Connection, rows: Sequence[Row], worker: str | None, wall: float
    ) -> set[int]:
        tickets, arms, places, rewards = (list(column) for column in zip(*rows, strict=True))
        self._run(
            connection,
            "DELETE FROM tickets WHERE study = :study AND number IN (SELECT number FROM tickets"
            " WHERE study = :study AND number = ANY(:tickets) ORDER BY number FOR UPDATE)",
            tickets=tickets,
        )
        found = self._run(
            connection,
            "INSERT INTO results (study, ticket, arm, place, reward, worker, told)"
            " SELECT :study, g.ticket, g.arm, g.place, g.reward, :worker, :wall"
            " FROM unnest(CAST(:tickets AS bigint[]), CAST(:arms AS bigint[]),"
            " CAST(:places AS bigint[]), CAST(:rewards AS double precision[]))"
            " WITH ORDINALITY AS g(ticket, arm, place, reward, position)"
            " ORDER BY g.position ON CONFLICT DO NOTHING RETURNING ticket",
            worker=worker,
            wall=wall,
            tickets=tickets,
            arms=arms,
            places=places,
            rewards=rewards,
        )
        return {int(row[0]) for row in found}

    def _known_rewards(self, connection: sa.Connection, rows: Sequence[Row]) -> dict[int, float]:
        """Return the rewards that are stored, of tickets that may have one."""
        asked = {number: (arm, place) for number, arm, place, _ in rows}
        known = {}
        for some in _in_lists(asked):
            found = self._run(
                connection,
                "SELECT ticket, arm, coalesce(asked_place, place), reward FROM results"
                f" WHERE study = :study AND ticket IN ({some})",
            )
            for ticket, arm, place, reward in found:
                if asked[ticket] != (arm, place):
                    raise InvalidParameter(
                        f"Ticket {ticket} was handed out twice, for different pulls, as the"
                        " storage was restored from an older backup; this result cannot be taken."
                    )
                known[int(ticket)] = float(reward)
        return known

    def _add_late(
        self, connection: sa.Connection, row: Row, worker: str | None, wall: float
    ) -> dict[int, float]:
        """Record a result whose lease ended and whose place has another one: at a free place.

        Return the reward of its ticket if somebody else has told one meanwhile.
        """
        number, arm, place, reward = row
        while True:
            added = self._run(
                connection,
                "INSERT INTO results"
                " (study, ticket, arm, place, asked_place, reward, worker, told) SELECT :study,"
                " :ticket, :arm, max(p.place) + 1, :asked, :reward, CAST(:worker AS TEXT), :wall"
                f" FROM ({_PLACES}) p WHERE true ON CONFLICT DO NOTHING",
                ticket=number,
                arm=arm,
                asked=place,
                reward=reward,
                worker=worker,
                wall=wall,
            )
            known = {} if added.rowcount else self._known_rewards(connection, [row])
            if added.rowcount or known:
                return known

    def _note_conflicts(
        self,
        connection: sa.Connection,
        conflicts: Sequence[tuple[int, float]],
        worker: str | None,
        wall: float,
    ) -> None:
        """Count results that were refused, and store the first few of each ticket."""
        if not conflicts:
            return
        self._run(
            connection,
            "UPDATE studies SET conflicts = conflicts + :more WHERE id = :study",
            more=len(conflicts),
        )
        kept: dict[int, int] = {}
        for some in _in_lists({number for number, _ in conflicts}):
            found = self._run(
                connection,
                "SELECT ticket, count(*) FROM conflicts WHERE study = :study"
                f" AND ticket IN ({some}) GROUP BY ticket",
            )
            kept.update((int(ticket), int(count)) for ticket, count in found)
        new = []
        for number, reward in conflicts:
            kept[number] = kept.get(number, 0) + 1
            if kept[number] <= CONFLICTS_KEPT:
                new.append((self.number, number, reward, worker, wall))
        columns = ["study", "ticket", "reward", "worker", "told"]
        self._database.insert(connection, "conflicts", columns, new)

    def renew(self, tickets: Iterable[Ticket | str], lease: Seconds = LEASE) -> int:
        """See `Study.renew`."""
        numbers = {self._ids.read(ticket)[0] for ticket in tickets}
        seconds = check_lease(lease)
        with self._database.writing() as connection:
            now = self._database.now(connection)
            return self._change_tickets(
                connection,
                "UPDATE tickets SET expires = :expires, boot = :boot",
                numbers,
                expires=now.steady + seconds,
                boot=now.boot,
            )

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """See `Study.skip_many`."""
        numbers = {self._ids.read(ticket)[0] for ticket in tickets}
        with self._database.writing() as connection:
            count = self._change_tickets(connection, "DELETE FROM tickets", numbers)
        _log.info("%s: %d tickets were given back: %s", self.name, count, reason_of(reason))

    def _change_tickets(
        self, connection: sa.Connection, statement: str, numbers: Iterable[int], **values: Any
    ) -> int:
        """Change tickets that are out, and return how many; they are locked in one order."""
        changed = 0
        locked = " ORDER BY number FOR UPDATE" if self._database.is_postgresql else ""
        for some in _in_lists(numbers):
            chosen = f"SELECT number FROM tickets WHERE study = :study AND number IN ({some})"
            changed += self._run(
                connection,
                f"{statement} WHERE study = :study AND number IN ({chosen}{locked})",
                **values,
            ).rowcount
        if not changed:
            self._read_row(connection)  # is the study there?
        return changed

    def skip_worker(self, worker: str, reason: str = "") -> int:
        """See `Study.skip_worker`."""
        chosen = "SELECT number FROM tickets WHERE study = :study AND worker = :worker"
        with self._database.writing() as connection:
            numbers = self._run(connection, chosen, worker=worker).scalars().all()
            count = self._change_tickets(connection, "DELETE FROM tickets", numbers)
        _log.info("%s: %d tickets of %r were given back: %s", self.name, count, worker, reason)
        return count

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
        order = history_order(self.seed, key or self.pulse(), arms.size)
        return self.add_rows(arms[order], rewards[order], key)

    def add_rows(self, arms: IntArray, rewards: FloatArray, key: str | None) -> int:
        """Record checked rewards that nobody asked for, in this order; return how many."""
        database = self._database
        with database.writing() as connection:
            database.alone(connection, self.number)
            database.appending(connection, self.number, alone=True)  # nobody takes these places
            self._read_row(connection)
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
            self._read_row(connection)
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
        with _readable(self.storage):
            self._budgets, self._stopped = list(json.loads(row[0])), row[1]

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

    def _advance(self, position: int, results: Results) -> Search:
        search, self._search = self._search, None  # if interrupted, the next call begins anew
        if search is None:
            search, self._raised = new_search(self._asked, self.seed), 1
        for budget in self._budgets[self._raised :]:
            search.raise_budget(budget)
        self._raised = len(self._budgets)
        if results[0].size:
            search.load(*results)
        self._search, self._position = search, position
        return search

    def _new_results(self, connection: sa.Connection) -> tuple[int, Results]:
        """Return a position in the log, and the results behind the last one.

        On PostgreSQL a position is the oldest transaction that was under way: all results that
        were not visible then are of that one or later ones. Some are read twice, which does no
        harm. After a dump was restored, results may seem to be of transactions to come; those are
        read once.
        """
        if self._search is None:
            self._position = 0
        behind = "id > :position"
        last = "SELECT coalesce(max(id), 0) FROM results WHERE study = :study"
        if self._database.is_postgresql:
            last = "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
            behind = "xact >= CAST(CAST(:position AS text) AS xid8)"
            if self._position:
                behind += " AND xact < pg_snapshot_xmax(pg_current_snapshot())"
        position = int(self._run(connection, last).scalar_one())
        if position == self._position and not self._database.is_postgresql:
            return position, _results([])
        found = self._run(
            connection,
            "SELECT arm, place, reward, ticket IS NULL FROM results"
            f" WHERE study = :study AND {behind}",
            position=self._position,
        )
        with _readable(self.storage):
            return position, self._checked(_results(in_chunks(found)))

    def _checked(self, results: Results) -> Results:
        """Return results if they are such as `tell` lets in: a file may be damaged."""
        arms, places, rewards, _ = results
        (a, b), n = self._asked.bounds, self.n
        sound = (arms >= 0) & (arms < n) & (places >= 0) & (rewards >= a) & (rewards <= b)
        if not sound.all():
            bad = int(np.flatnonzero(~sound)[0])
            raise StorageFailed(
                f"{self.storage}: it is damaged; a result is {rewards[bad]!r:.50} of arm"
                f" {arms[bad]}, place {places[bad]}."
            )
        return results

    # What is known

    def overview(self) -> Overview:
        """See `Study.overview`."""
        with self._lock, self._reading() as connection:
            out = self._out(connection)
            search = self._current(connection)
            status, stopped = self._status(search, out), self._stopped
            tickets, conflicts, created = self._run(
                connection,
                "SELECT tickets, conflicts, created FROM studies WHERE id = :study",
            ).one()
            result, told = search.result(), search.told
        known = status if status.final else Status.RUNNING
        return Overview(
            created=_moment(created),
            status=status,
            result=replace(result, status=known, question=self._with_labels(result.question)),
            handed_out=int(tickets),
            live=len(out),
            told=told,
            conflicts=int(conflicts),
            stopped=stopped,
        )

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
            out = self._out(connection)
            return self._status(self._current(connection), out)

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

    def latest_conflicts(self, most: int, before: int | None = None) -> list[Conflict]:
        """Return stored conflicts with smaller numbers than `before`, the last one first."""
        last = 2**62 if before is None else before
        return self._conflicts("c.id < :before ORDER BY c.id DESC", most, before=last)

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
        fresh = StoredStudy(self._database, self.name, self.number, self._asked, self.seed, b"")
        try:
            with self._database.reading() as connection:
                found.problems += self._miscounts(connection)
                search = fresh._current(connection)
        except StorageFailed as error:
            if error.passing:
                raise
            found.problems.append(str(error))
            return found
        found.results = search.told + search.result().history
        return found

    def _miscounts(self, connection: sa.Connection) -> list[str]:
        """Compare the log with what was counted when tickets were handed out and told."""
        told, recorded, last, tickets = self._run(
            connection,
            "SELECT (SELECT count(ticket) FROM results WHERE study = :study),"
            " (SELECT coalesce(sum(results), 0) FROM workers WHERE study = :study),"
            " (SELECT coalesce(max(ticket), 0) FROM results WHERE study = :study),"
            " (SELECT tickets FROM studies WHERE id = :study)",
        ).one()
        problems = []
        if told != recorded:
            problems.append(f"the log has {told:,} results of tickets, but {recorded:,} were told")
        if tickets is not None and last > tickets:
            problems.append(f"there is a result of ticket {last:,}, but {tickets:,} were made")
        return problems


Row = tuple[int, int, int, float]
"""Number, arm and place of a ticket, and its reward."""
Results = tuple[IntArray, IntArray, FloatArray, BoolArray]
"""Arm, place and reward of results, and whether each is history."""

_PLACES = (
    "SELECT place FROM results WHERE study = :study AND arm = :arm"
    " UNION ALL SELECT place FROM tickets WHERE study = :study AND arm = :arm"
)


def _results(chunks: Iterable[Sequence[Any]]) -> Results:
    """Return rows as arrays."""
    kinds = (np.int64, np.int64, np.float64, np.bool_)
    parts: list[list[Any]] = [[np.empty(0, kind)] for kind in kinds]
    for chunk in chunks:
        for part, column, kind in zip(parts, zip(*chunk, strict=True), kinds, strict=True):
            part.append(np.array(column, dtype=kind))
    arms, places, rewards, history = map(np.concatenate, parts)
    return arms, places, rewards, history


def _in_lists(numbers: Iterable[int]) -> Iterator[str]:
    """Yield whole numbers as lists for SQL, of a length that every database takes."""
    ordered = sorted(numbers)
    for start in range(0, len(ordered), PARAMETERS):
        yield ", ".join(map(str, ordered[start : start + PARAMETERS]))


@contextmanager
def _readable(storage: str) -> Iterator[None]:
    """Turn errors from decoding values that oddarms did not write into a sentence."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, StorageFailed):
            raise
        raise StorageFailed(f"{storage}: it is damaged; a value cannot be read: {error}.") from None


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
        with _readable(self.name):
            return StoredStudy(self.database, name, int(number), asked, int(seed), bytes(secret))

    def list(
        self, search: str = "", most: int | None = None, skip: int = 0, *, newest: bool = False
    ) -> StudyList:
        """Return studies, as `list_studies` does."""
        order = "s.created DESC, s.id DESC" if newest else "s.name"
        pattern = "%" + re.sub("([!%_])", r"!\1", storable(search)) + "%"
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
        number = self.number_of(name)
        if number is None:
            self.load(name)  # says which studies there are
            return
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
