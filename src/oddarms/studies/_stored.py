"""Studies in SQLite and PostgreSQL: their rows, and a `Search` that follows the log.

Every process that has a study open keeps its own `Search` and gives it new results as it reads
them. A result is stored with its arm and place, so the state does not depend on the order in which
results are read, and reading one twice does no harm.

`ask` runs under a lock of the study. `tell` does not: results of many workers are stored at the
same time, and the unique keys of the table decide. A ticket has one result, and so has a place of
an arm; a result whose place is taken gets the next free one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa

from oddarms.algorithms import Decision
from oddarms.errors import DuplicateStudy, InvalidParameter, StorageFailed, UnknownStudy
from oddarms.problem import FloatArray, IntArray, Question, check_plain_label
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
    numbers_within,
)
from oddarms.studies._database import Database, Now, Together, execute, open_database
from oddarms.studies._study import (
    CONFLICTS_KEPT,
    LEASE,
    MAX_WORKERS,
    SORTS,
    Ask,
    Conflict,
    Holder,
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
    storable,
)
from oddarms.text import shown

Row = tuple[int, int, int, float, str | None]
"""Number, arm and place of a ticket, its reward, and who tells it."""
_RESULT = np.dtype([("arm", "i8"), ("place", "i8"), ("reward", "f8"), ("ticket", "i8")])
Results = np.ndarray[Any, np.dtype[np.void]]
"""Arm, place and reward of results, and the numbers of their tickets, 0 for history."""


@dataclass(eq=False)
class Tell:
    """A call of `tell_many`."""

    rows: list[Row]
    answer: list[Told] | StorageFailed | None = None


LIVE = "boot = :boot AND expires > :steady"
"""The condition that the lease of a ticket lasts."""
_PLACES = (
    "SELECT place FROM results WHERE study = :study AND arm = :arm"
    " UNION ALL SELECT place FROM tickets WHERE study = :study AND arm = :arm"
)

_KNOWN_NAME = (
    "CASE WHEN EXISTS (SELECT 1 FROM workers WHERE study = :study AND name = :name) THEN :name"
    " WHEN (SELECT count(*) FROM workers WHERE study = :study) < :most THEN :name ELSE '' END"
)
"""The name by which a worker is listed."""


_NOTE_WORKER = f"""
INSERT INTO workers
(study, name, handed_out, results, minute, recent, earlier, last_told, last_seen) VALUES (
:study, {_KNOWN_NAME}, :handed_out, :results, :minute, :results, 0,
CASE WHEN :results > 0 THEN CAST(:wall AS DOUBLE PRECISION) END, :wall)
ON CONFLICT (study, name) DO UPDATE SET
handed_out = workers.handed_out + excluded.handed_out,
results = workers.results + excluded.results,
earlier = CASE excluded.minute - workers.minute
WHEN 0 THEN workers.earlier WHEN 1 THEN workers.recent ELSE 0 END,
recent = excluded.recent
+ CASE excluded.minute WHEN workers.minute THEN workers.recent ELSE 0 END,
minute = excluded.minute,
last_told = coalesce(excluded.last_told, workers.last_told),
last_seen = excluded.last_seen
"""

RATE = "CASE :minute - minute WHEN 0 THEN recent + earlier * :left WHEN 1 THEN recent * :left END"
"""Results of a worker in the last minute, about: a share of the minute before counts."""


def minute_of(wall: float) -> dict[str, float]:
    """Return the values of `RATE`."""
    return {"minute": int(wall // 60.0), "left": 1.0 - wall % 60.0 / 60.0}


def _among(query: str) -> str:
    """Return the condition that a number is among those of a query that locks rows.

    PostgreSQL runs a query in ARRAY() once. One in IN () it may run again for each row, which takes
    minutes for thousands of tickets.
    """
    return f"number = ANY(ARRAY({query}))"


@contextmanager
def readable(storage: str) -> Iterator[None]:
    """Turn errors from decoding values that oddarms did not write into a sentence."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, StorageFailed):
            raise
        raise StorageFailed(f"{storage}: it is damaged; a value cannot be read: {error}.") from None


_log = logging.getLogger(__name__)

PAGE = 10_000
"""Results that are read at a time."""


_ID = re.compile(r"[1-9]\d{0,17}\.\d{1,18}\.\d{1,18}\.[0-9a-f]{16}", re.ASCII)


class StoredStudy(Study):
    """A study in a file, in PostgreSQL or in memory."""

    def __init__(
        self, database: Database, name: str, number: int, question: Question, seed: int, key: bytes
    ) -> None:
        super().__init__(name, seed, question)
        self.number = number
        """Its number in the storage, which no other study has there, nor ever had."""
        self._database = database
        self._asked = question
        self._keyed = hashlib.blake2b(key=key, digest_size=8)
        self.begin_in_child()
        database.studies.add(self)
        self._search: Search | None = None
        self._budgets: list[int | None] = [question.budget]
        self._stopped: str | None = None
        self._position = 0  # in the log
        self._raised = 1  # how many of the budgets the search has

    def begin_in_child(self) -> None:
        """Forget other threads, which a forked process does not have."""
        self._lock = threading.RLock()
        self._asks: Together[Tickets] = Together(self._hand_out)
        self._tells: Together[list[Told]] = Together(self._record)

    @property
    def storage(self) -> str:
        return self._database.name

    @classmethod
    def load(cls, database: Database, name: str) -> StoredStudy | None:
        """Return the study of a name, None if there is none."""
        with database.reading() as connection:
            columns = "SELECT id, question, seed, secret FROM studies WHERE name = :name"
            row = execute(connection, columns, name=name).first()
            if row is None:
                return None
            number, text, seed, secret = row
            with readable(database.name):
                question = Question.from_json(text)
            labels = "SELECT label FROM arms WHERE study = :study AND number >= 0 AND number < :n"
            found = execute(connection, f"{labels} ORDER BY number", study=number, n=question.n)
            texts = found.scalars().all()
        if len(texts) != question.n:
            raise StorageFailed(
                f"{database.name}: it is damaged; the study {name!r} has {len(texts)} of"
                f" {question.n} arms."
            )
        with readable(database.name):  # JSON holds any text and tells 1 from "1"
            named = question.relabelled(json.loads(f"[{','.join(texts)}]"))
            return cls(database, name, int(number), named, int(seed), bytes(secret))

    @property
    def question(self) -> Question:
        with self._lock, self._database.reading() as connection:
            self._read_row(connection)
            if self._asked.budget != self._budgets[-1]:
                self._asked = self._asked.but(budget=self._budgets[-1])
            return self._asked

    # Ids of tickets, such as 17.3.204.9f86d081884c7d65: the ticket's number, arm and place, and a
    # keyed hash of them, so that an id cannot be guessed, and one of another study is recognised.

    def _id_of(self, number: int, arm: int, place: int) -> str:
        text = f"{number}.{arm}.{place}"
        return f"{text}.{self._hash_of(text)}"

    def _hash_of(self, text: str) -> str:
        keyed = self._keyed.copy()
        keyed.update(text.encode())
        return keyed.hexdigest()

    def _read_id(self, ticket: Ticket | str) -> tuple[int, int, int]:
        text = ticket.id if isinstance(ticket, Ticket) else ticket
        if not isinstance(text, str) or not text.isascii():
            raise _not_a_ticket(text)
        own, _, found = text.rpartition(".")
        if not hmac.compare_digest(found, self._hash_of(own)):
            if not _ID.fullmatch(text):
                raise _not_a_ticket(text)
            raise InvalidParameter(
                f"Ticket {text} is not one of the study {self.name!r}: it belongs to another"
                " study, perhaps to a deleted one with this name."
            )
        number, arm, place = map(int, own.split("."))
        return number, arm, place

    # Work

    def knows(self, key: str | None) -> bool:
        """Return whether tickets of an `ask` with this key are out."""
        if key is None:
            return False
        with self._database.reading() as connection:
            known = "SELECT 1 FROM tickets WHERE study = :study AND key = :key LIMIT 1"
            return self._run(connection, known, key=key).first() is not None

    def see(self, workers: Iterable[str | None]) -> None:
        """Note that workers are alive, which wait for work at a server."""
        with self._database.writing() as connection:
            wall = self._database.now(connection).wall
            self._note_workers(connection, wall, {name or "": 0 for name in workers})

    def _ask(self, ask: Ask) -> Tickets:
        return self._asks.make(ask)

    def _hand_out(self, waiting: list[Ask]) -> None:
        asks = list({ask.key or ask: ask for ask in waiting}.values())  # a repeated one follows
        with self._lock:
            self._catch_up()  # before others have to wait
            with self._database.writing() as connection:
                self._database.alone(connection, self.number)
                now = self._database.now(connection)
                search = self._current(connection)
                look = self._look(connection, now, [ask.key for ask in asks if ask.key])
                if look.stored > look.live:
                    self._drop_expired(connection, now)
                known = self._asked_before(connection, asks, now) if look.known else {}
                out = self._out(connection, now)
                out.update((arm, at) for found in known.values() for _, arm, at in found)
                if self._database.is_postgresql:  # a ticket may have been told meanwhile
                    search = self._current(connection)
                places, states = {}, {}
                for ask in asks:
                    n = 0 if ask in known or self._stopped is not None else ask.n
                    places[ask] = search.open_places(n, out, prefetch=ask.prefetch)
                    out.update(places[ask])
                    states[ask] = self._status(search, out, prefetch=ask.prefetch)
                more = sum(map(len, places.values()))
                last = self._note_state(connection, search, states[asks[-1]], more)
                tickets = self._add_tickets(connection, places, last, now) | known
            for ask in asks:
                expires = moment(now.wall + ask.lease)
                found = [
                    Ticket(self._id_of(*row), self.labels[row[1]], row[1], row[2], expires)
                    for row in tickets[ask]
                ]
                ask.answer = Tickets(found, states[ask], search.decided)

    def _note_state(
        self, connection: sa.Connection, search: Search, status: Status, more: int
    ) -> int:
        """Count tickets, and return the number of the last one.

        Keep for the list of studies what an ask has found out: it replays no logs.
        """
        last = self._run(
            connection,
            "UPDATE studies SET tickets = tickets + :more, status = :status, decided = :decided,"
            " outliers = :outliers WHERE id = :study RETURNING tickets",
            more=more,
            status=status.value,
            decided=search.decided,
            outliers=int(np.count_nonzero(search.decisions >= Decision.HIGH)),
        )
        return int(last.scalar_one())

    def tell_many(
        self, results: Iterable[tuple[Ticket | str, float]], *, worker: str | None = None
    ) -> list[Told]:
        worker = check_text("worker", worker)
        rows = [
            (*self._read_id(ticket), self.check_reward(reward), worker)
            for ticket, reward in results
        ]
        return self._tells.make(Tell(rows)) if rows else []

    def _record(self, tells: list[Tell]) -> None:
        rows = [row for tell in tells for row in tell.rows]
        told = iter(self._database.repeated(lambda: self._tell_rows(rows)))
        for tell in tells:
            tell.answer = list(islice(told, len(tell.rows)))

    def renew(self, tickets: Iterable[Ticket | str], lease: Seconds = LEASE) -> int:
        numbers = {self._read_id(ticket)[0] for ticket in tickets}
        seconds = check_lease(lease, self.max_lease)
        with self._writing() as connection:
            now = self._database.now(connection)
            renewed = self._change_tickets(
                connection,
                "UPDATE tickets SET expires = :expires, boot = :boot",
                numbers,
                expires=now.steady + seconds,
                boot=now.boot,
            )
            self._see_holders(connection, numbers, now.wall)
        return renewed

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> int:
        numbers = {self._read_id(ticket)[0] for ticket in tickets}
        with self._writing() as connection:
            count = self._change_tickets(connection, "DELETE FROM tickets", numbers)
        _log.info("%s: %d tickets were given back: %s", self.name, count, shown(reason_of(reason)))
        return count

    def release(self, worker: str | None, reason: str = "") -> int:
        worker, reason = check_text("worker", worker) or "", reason_of(reason)
        of_worker = "WHERE study = :study AND coalesce(worker, '') = :worker"
        with self._writing() as connection:
            found = self._run(connection, f"SELECT number FROM tickets {of_worker}", worker=worker)
            numbers = found.scalars().all()
            count = self._change_tickets(connection, "DELETE FROM tickets", numbers)
        said = "%s: %d tickets of %r were taken back: %s"
        _log.info(said, self.name, count, worker, shown(reason))
        return count

    def add_rows(self, arms: IntArray, rewards: FloatArray, key: str | None) -> int:
        database = self._database
        with self._writing(alone=True) as connection:
            database.appending(connection, self.number, alone=True)  # no other takes these places
            if key is not None:
                known = self._run(
                    connection,
                    "INSERT INTO imports (study, key) VALUES (:study, :key) ON CONFLICT DO NOTHING",
                    key=key,
                )
                if not known.rowcount:
                    return 0
            tickets, *_ = self._head(connection, "tickets")
            if tickets and self._budgets[0] is not None:  # it counts towards the limit of a step
                raise InvalidParameter(
                    f"history comes too late for the study {self.name!r}, which was created with a"
                    " budget and has handed out tickets: add it before the first `ask`, or to a"
                    " new study."
                )
            ends = np.zeros(self.n, dtype=np.int64)
            found = self._run(
                connection,
                "SELECT arm, max(place) + 1 FROM (SELECT arm, place FROM results"
                " WHERE study = :study UNION ALL SELECT arm, place FROM tickets"
                " WHERE study = :study) p GROUP BY arm",
            )
            for arm, end in found:
                ends[int(arm)] = int(end)
            places, wall = ends[arms] + numbers_within(arms), database.now(connection).wall
            rows = zip(arms.tolist(), places.tolist(), rewards.tolist(), strict=True)
            columns = ["study", "arm", "place", "reward", "told"]
            values = ((self.number, *row, wall) for row in rows)
            database.insert(connection, "results", columns, values)
            counted = "UPDATE studies SET history = history + :more WHERE id = :study"
            self._run(connection, counted, more=arms.size)
        return arms.size

    def raise_budget(self, budget: int | None) -> None:
        with self._lock, self._writing(alone=True) as connection:
            check_raised(self._budgets[-1], budget)
            if budget != self._budgets[-1]:
                self._run(
                    connection,
                    "UPDATE studies SET budgets = :budgets, status = 'running' WHERE id = :study",
                    budgets=json.dumps([*self._budgets, budget]),
                )

    def stop(self, reason: str = "") -> None:
        self._set_stopped(reason_of(reason))

    def resume(self) -> None:
        self._set_stopped(None)

    def _set_stopped(self, reason: str | None) -> None:
        statement = "UPDATE studies SET stopped = :reason WHERE id = :study"
        with self._writing(alone=True) as connection:
            self._run(connection, statement, reason=reason)

    @contextmanager
    def _writing(self, *, alone: bool = False) -> Iterator[sa.Connection]:
        with self._database.writing() as connection:
            if alone:
                self._database.alone(connection, self.number)
            self._read_row(connection)
            yield connection

    # The search

    def _read_row(self, connection: sa.Connection) -> int:
        _, budgets, self._stopped, end = self._head(connection)
        with readable(self.storage):
            self._budgets = list(json.loads(budgets))
            if not self._budgets:
                raise ValueError("a study must have a budget, or null")
        return int(end)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads, in which little is new."""
        self._catch_up()
        with self._database.reading() as connection:
            yield connection

    def _catch_up(self) -> Search:
        """Give the search what is new, outside of a transaction: it may take a while."""
        with self._database.reading() as connection:
            new = self._new_results(connection)
        return self._take(*new)

    def _current(self, connection: sa.Connection) -> Search:
        return self._take(*self._new_results(connection))

    def _take(self, position: int, results: Results) -> Search:
        search, self._search = self._search, None  # if interrupted, the next call begins anew
        if search is None:
            first = self._asked.but(budget=self._budgets[0])
            search, self._raised = new_search(first, self.seed), 1
        for budget in self._budgets[self._raised :]:
            search.raise_budget(budget)
        self._raised = len(self._budgets)
        if results.size:
            arms, places, rewards, tickets = (results[name] for name in results.dtype.names or ())
            search.load(arms, places, rewards, tickets == 0)
        self._search, self._position = search, position
        return search

    def _new_results(self, connection: sa.Connection) -> tuple[int, Results]:
        position = self._read_row(connection)
        before = 0 if self._search is None else self._position
        results = self._results_between(connection, before, position)
        budgeted, history = self._budgets[0] is not None, (results["ticket"] == 0).any()
        if self._search is not None and not self._search.told and budgeted and history:
            # begin anew: within a budget, steps depend on all history that is there before them
            self._search = None
            results = self._results_between(connection, 0, position)
        self._check(results)
        return position, results

    def _check(self, results: Results) -> None:
        (a, b), arms, rewards = self._asked.bounds, results["arm"], results["reward"]
        within = (arms >= 0) & (arms < self.n) & (rewards >= a) & (rewards <= b)
        for arm, place, reward, _ in results[~(within & (results["place"] >= 0))].tolist():
            raise StorageFailed(
                f"{self.storage}: it is damaged; a result is {reward:g} of arm {arm}, place"
                f" {place}."
            )

    # Rows; but for `_tell_rows`, methods are parts of the caller's transaction

    def _run(self, connection: sa.Connection, statement: str, **values: Any) -> Any:
        """Execute a statement in which :study is this study."""
        return execute(connection, statement, study=self.number, **values)

    def _live(
        self, connection: sa.Connection, columns: str, now: Now, more: str = "", **values: Any
    ) -> Any:
        """Select columns of the tickets whose leases last."""
        statement = f"SELECT {columns} FROM tickets WHERE study = :study AND {LIVE} {more}"
        return self._run(connection, statement, boot=now.boot, steady=now.steady, **values)

    def _drop_expired(self, connection: sa.Connection, now: Now) -> None:
        """Delete tickets whose leases have ended, except those being told or renewed."""
        expired = f"study = :study AND NOT ({LIVE})"
        if self._database.is_postgresql:
            unlocked = f"SELECT number FROM tickets WHERE {expired} FOR UPDATE SKIP LOCKED"
            expired = f"study = :study AND {_among(unlocked)}"
        self._run(
            connection, f"DELETE FROM tickets WHERE {expired}", boot=now.boot, steady=now.steady
        )

    def _asked_before(
        self, connection: sa.Connection, asks: Iterable[Ask], now: Now
    ) -> dict[Ask, list[tuple[int, int, int]]]:
        """Return the tickets of earlier calls with the same keys that are out; renew them."""
        known = {}
        for ask in asks:
            found = self._run(
                connection,
                "UPDATE tickets SET expires = :expires WHERE study = :study AND key = :key"
                " RETURNING number, arm, place",
                key=ask.key,
                expires=now.steady + ask.lease,
            ).all()
            if found:
                known[ask] = sorted((int(number), int(arm), int(at)) for number, arm, at in found)
        return known

    def _look(self, connection: sa.Connection, now: Now, keys: Sequence[str] = ()) -> Any:
        """Return how many tickets are out, the sum of their numbers, and how many are stored.

        `known` is how many of these have one of some keys.
        """
        chosen, listed = self._listed(keys, "TEXT")
        statement = (
            f"SELECT count(*) FILTER (WHERE {LIVE}) AS live, count(*) AS stored,"
            f" CAST(coalesce(sum(number) FILTER (WHERE {LIVE}), 0) AS BIGINT) AS total,"
            f" count(*) FILTER (WHERE key {chosen}) AS known FROM tickets WHERE study = :study"
        )
        values = {"boot": now.boot, "steady": now.steady, "listed": listed}
        return self._run(connection, statement, **values).one()

    def _out(self, connection: sa.Connection, now: Now) -> set[Place]:
        """Return the places of tickets that are out; they come as one text, in one step."""
        join = "string_agg" if self._database.is_postgresql else "group_concat"
        found = self._live(connection, f"{join}(arm || ' ' || place, ' ')", now).scalar()
        values = map(int, (found or "").split())
        return set(zip(values, values, strict=True))

    def _add_tickets(
        self, connection: sa.Connection, places: Mapping[Ask, list[Place]], last: int, now: Now
    ) -> dict[Ask, list[tuple[int, int, int]]]:
        """Store tickets for the places of each call; `last` is the number of the last one."""
        number = last + 1 - sum(map(len, places.values()))
        tickets, rows, handed_out = {}, [], Counter[str]()
        for ask, found in places.items():
            tickets[ask] = [(number + i, arm, place) for i, (arm, place) in enumerate(found)]
            number += len(found)
            more = (ask.worker, ask.key, now.wall, now.steady + ask.lease, now.boot)
            rows += [(self.number, *ticket, *more) for ticket in tickets[ask]]
            handed_out[ask.worker or ""] += len(found)
        self._database.insert(
            connection,
            "tickets",
            ["study", "number", "arm", "place", "worker", "key", "asked", "expires", "boot"],
            rows,
        )
        self._note_workers(connection, now.wall, handed_out)
        return tickets

    def _note_workers(
        self,
        connection: sa.Connection,
        wall: float,
        counts: Mapping[str, int],
        what: Literal["handed_out", "results"] = "handed_out",
    ) -> None:
        """Note that workers are alive, and how many tickets they got or results they told."""
        known = {"study": self.number, "most": MAX_WORKERS, "wall": wall, "minute": int(wall // 60)}
        rows = [
            {"name": name, "handed_out": 0, "results": 0, what: count, **known}
            for name, count in sorted(counts.items())  # locked in one order
        ]
        connection.execute(sa.text(_NOTE_WORKER), rows)

    def _see_holders(self, connection: sa.Connection, tickets: Iterable[int], wall: float) -> None:
        """Note that the workers that have some tickets are alive."""
        chosen, listed = self._listed(tickets)
        self._run(
            connection,
            "UPDATE workers SET last_seen = :wall WHERE study = :study AND name IN (SELECT"
            f" coalesce(worker, '') FROM tickets WHERE study = :study AND number {chosen})",
            wall=wall,
            listed=listed,
        )

    def _change_tickets(
        self, connection: sa.Connection, statement: str, numbers: Iterable[int], **values: Any
    ) -> int:
        """Change tickets that are out, and return how many; they are locked in one order."""
        among, listed = self._listed(numbers)
        chosen = f"number {among}"
        if self._database.is_postgresql:
            chosen = _among(
                f"SELECT number FROM tickets WHERE study = :study AND {chosen}"
                " ORDER BY number FOR UPDATE"
            )
        changed = self._run(
            connection,
            f"{statement} WHERE study = :study AND {chosen}",
            listed=listed,
            **values,
        )
        return int(changed.rowcount)

    def _listed(self, values: Iterable[Any], kind: str = "BIGINT") -> tuple[str, Any]:
        """Return the condition of being among some values, and these as parameter `listed`."""
        if self._database.is_postgresql:
            return f"= ANY(CAST(:listed AS {kind}[]))", list(values)
        return "IN (SELECT value FROM json_each(:listed))", json.dumps(list(values))

    def _tell_rows(self, rows: Sequence[Row]) -> list[Told]:
        """Record results in one transaction."""
        firsts: dict[int, Row] = {}
        for row in rows:
            firsts.setdefault(row[0], row)
        # in one order of places, so that two calls with tickets in common do not wait for each
        # other
        ordered = sorted(firsts.values(), key=lambda row: (row[1], row[2], row[0]))
        with self._database.writing() as connection:
            self._database.appending(connection, self.number)  # from here on it cannot be deleted
            self._check_handed_out(connection, max(firsts))
            wall = self._database.now(connection).wall
            self._change_tickets(connection, "DELETE FROM tickets", [row[0] for row in ordered])
            columns = ["study", "ticket", "arm", "place", "reward", "worker", "told"]
            values = [(self.number, *row, wall) for row in ordered]
            if_new = "ON CONFLICT DO NOTHING RETURNING ticket"
            inserted = self._database.insert(connection, "results", columns, values, if_new)
            added = {ticket for (ticket,) in inserted}
            known = self._known_rewards(connection, [row for row in ordered if row[0] not in added])
            for row in ordered:
                if row[0] not in added and row[0] not in known:
                    known |= self._add_late(connection, row, wall)
            told, conflicts, recorded = [], [], Counter[str]()
            for row in rows:
                number, _, _, reward, worker = row
                new = number not in known
                recorded[worker or ""] += new
                if known.setdefault(number, reward) != reward:
                    conflicts.append(row)
                    told.append(Told.CONFLICT)
                else:
                    told.append(Told.RECORDED if new else Told.REPEATED)
            self._note_conflicts(connection, conflicts, wall)
            self._note_workers(connection, wall, recorded, "results")
        return told

    def _check_handed_out(self, connection: sa.Connection, number: int) -> None:
        statement = "SELECT tickets FROM studies WHERE id = :study"
        last = self._run(connection, statement).scalar()
        if last is None:
            raise UnknownStudy(f"The study {self.name!r} was deleted.")
        if number > last:
            raise InvalidParameter(
                f"Ticket {number} was never handed out by this storage, which has handed out"
                f" {last:,}: it seems to be restored from an older backup. Restart the worker."
            )

    def _known_rewards(self, connection: sa.Connection, rows: Sequence[Row]) -> dict[int, float]:
        asked = {number: (arm, place) for number, arm, place, *_ in rows}
        if not asked:
            return {}
        known = {}
        chosen, listed = self._listed(asked)
        found = self._run(
            connection,
            "SELECT ticket, arm, coalesce(asked_place, place), reward FROM results"
            f" WHERE study = :study AND ticket {chosen}",
            listed=listed,
        )
        for ticket, arm, place, reward in found:
            if asked[ticket] != (arm, place):
                raise InvalidParameter(
                    f"Ticket {ticket} was handed out twice, for different pulls, as the"
                    " storage was restored from an older backup; this result cannot be taken."
                )
            known[int(ticket)] = float(reward)
        return known

    def _add_late(self, connection: sa.Connection, row: Row, wall: float) -> dict[int, float]:
        """Record a result whose lease ended and whose place has another one: at a free place.

        Return the reward of its ticket if another call has told one meanwhile.
        """
        number, arm, place, reward, worker = row
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
        self, connection: sa.Connection, conflicts: Sequence[Row], wall: float
    ) -> None:
        """Count results that were refused, and store the first few of each ticket."""
        if not conflicts:
            return
        self._run(
            connection,
            "UPDATE studies SET conflicts = conflicts + :more WHERE id = :study",
            more=len(conflicts),
        )
        known = "SELECT count(*) FROM conflicts WHERE study = :study AND ticket = :ticket"
        stored = sa.text(
            "INSERT INTO conflicts (study, ticket, reward, worker, told) SELECT :study, :ticket,"
            " CAST(:reward AS DOUBLE PRECISION), CAST(:worker AS TEXT),"
            f" CAST(:wall AS DOUBLE PRECISION) WHERE ({known}) < :most"
        )
        connection.execute(
            stored,
            [
                {"ticket": number, "reward": reward, "worker": worker}
                | {"study": self.number, "wall": wall, "most": CONFLICTS_KEPT}
                for number, _, _, reward, worker in conflicts
            ],
        )

    def _head(self, connection: sa.Connection, columns: str = "id") -> Any:
        """Return columns, budgets, the reason of a stop, and the position of the log's end.

        On PostgreSQL a position is the oldest transaction that was under way: all results that
        were not visible then are of that one or later ones.
        """
        end = "(SELECT coalesce(max(id), 0) FROM results WHERE study = :study)"
        if self._database.is_postgresql:
            end = "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
        statement = f"SELECT {columns}, budgets, stopped, {end} FROM studies WHERE id = :study"
        row = self._run(connection, statement).first()
        if row is None:
            raise UnknownStudy(f"The study {self.name!r} was deleted.")
        return row

    def _results_between(self, connection: sa.Connection, before: int, end: int) -> Results:
        """Return the results behind a position in the log, up to a later one or further.

        On PostgreSQL some are read twice, which does no harm. After a dump was restored, results
        may seem to be of transactions to come; those are read once.
        """
        behind = "id > :position"
        if self._database.is_postgresql:
            behind = "xact >= CAST(CAST(:position AS text) AS xid8)"
            if before:
                behind += " AND xact < pg_snapshot_xmax(pg_current_snapshot())"
        elif before == end:
            return np.empty(0, _RESULT)
        found = self._run(
            connection,
            "SELECT arm, place, reward, coalesce(ticket, 0) FROM results"
            f" WHERE study = :study AND {behind}",
            position=before,
        )
        with readable(self._database.name):
            return np.fromiter(found.cursor, _RESULT)

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

    # What is known

    def overview(self) -> Overview:
        with self._lock, self._reading() as connection:
            out = self._out(connection, self._database.now(connection))
            search = self._current(connection)
            status, stopped = self._status(search, out), self._stopped
            tickets, conflicts, created, *_ = self._head(connection, "tickets, conflicts, created")
            result, told = search.result(), search.told
        known = status if status.final else Status.RUNNING
        return Overview(
            created=moment(created),
            status=status,
            result=replace(result, status=known),
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
        with self._lock, self._reading() as connection:
            return self._current(connection).progress()

    @property
    def status(self) -> Status:
        with self._lock, self._reading() as connection:
            out = self._out(connection, self._database.now(connection))
            return self._status(self._current(connection), out)

    def pulse(self) -> str:
        with self._database.reading() as connection:
            last = "(SELECT max(id) FROM results WHERE study = :study)"
            *row, _ = self._head(connection, f"tickets, conflicts, {last}")
            look = self._look(connection, self._database.now(connection))
        text = repr((self.number, *row, look.live, look.total))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def trials(self, *, after: int = 0, most: int | None = None) -> Iterator[Trial]:
        upto, left = self._database.settled(self.number), 2**62 if most is None else most
        while left > 0:
            wanted, where = min(left, PAGE), "id > :after AND id <= :upto ORDER BY id"
            page = self._trials(where, wanted, after=after, upto=upto)
            yield from page
            if len(page) < wanted:
                return
            after, left = page[-1].number, left - wanted

    def _trials(self, where: str, most: int, **values: Any) -> list[Trial]:
        found = self._read(
            "SELECT id, ticket, arm, place, coalesce(asked_place, place), reward, worker, told"
            f" FROM results WHERE study = :study AND {where} LIMIT :most",
            most=most,
            **values,
        )
        trials = []
        for number, ticket, arm, place, asked, reward, worker, told in found:
            name = None if ticket is None else self._id_of(ticket, arm, asked)
            label = self.labels[arm]
            trials.append(Trial(number, name, label, place, reward, worker, moment(told)))
        return trials

    def _read(self, statement: str, **values: Any) -> Sequence[Any]:
        with self._database.reading() as connection:
            found: Sequence[Any] = self._run(connection, statement, **values).all()
            return found

    def latest_of(self, arm: int, most: int) -> list[Trial]:
        """Return the latest results of an arm, by its number, the last one first."""
        return self._trials("arm = :arm ORDER BY id DESC", most, arm=arm)

    def rewards_of(self, arm: int, places: int) -> FloatArray:
        """Return the rewards of the first places of an arm."""
        chosen = "WHERE study = :study AND arm = :arm AND place < :places ORDER BY place"
        found = self._read(f"SELECT reward FROM results {chosen}", arm=arm, places=places)
        return np.array([reward for (reward,) in found], dtype=float)

    def number_of(self, arm: int) -> int:
        """Return how many rewards of an arm are recorded, used or not."""
        counted = "SELECT count(*) FROM results WHERE study = :study AND arm = :arm"
        return int(self._read(counted, arm=arm)[0][0])

    def conflicts(self, *, after: int = 0, most: int | None = None) -> list[Conflict]:
        return self._conflicts("c.id > :after ORDER BY c.id", most, after=after)

    def latest_conflicts(self, most: int) -> list[Conflict]:
        """Return stored conflicts, the last one first."""
        return self._conflicts("true ORDER BY c.id DESC", most)

    def _conflicts(self, where: str, most: int | None, **values: Any) -> list[Conflict]:
        found = self._read(
            "SELECT c.id, c.ticket, r.arm, coalesce(r.asked_place, r.place), r.reward, c.reward,"
            " c.worker, c.told FROM conflicts c"
            " JOIN results r ON r.study = c.study AND r.ticket = c.ticket"
            f" WHERE c.study = :study AND {where} LIMIT :most",
            most=2**62 if most is None else most,
            **values,
        )
        conflicts = []
        for number, *ticket, first, second, worker, told in found:
            name, label = self._id_of(*ticket), self.labels[ticket[1]]
            conflicts.append(Conflict(number, name, label, first, second, worker, moment(told)))
        return conflicts

    def workers(self) -> list[WorkerRecord]:
        with self._database.reading() as connection:
            now = self._database.now(connection)
            found = self._run(
                connection,
                "SELECT w.name, handed_out, results, coalesce(live, 0), last_told, last_seen,"
                f" {RATE} FROM workers w LEFT JOIN (SELECT coalesce(worker, '') AS name,"
                f" count(*) AS live FROM tickets WHERE study = :study AND {LIVE} GROUP BY 1) t"
                " ON t.name = w.name WHERE study = :study ORDER BY w.name",
                boot=now.boot,
                steady=now.steady,
                **minute_of(now.wall),
            ).all()
        workers = []
        for name, handed_out, results, live, told, seen, rate in found:
            last = None if told is None else moment(told)
            counts = int(handed_out), int(results), int(live)
            record = WorkerRecord(name or None, *counts, last, moment(seen), float(rate or 0.0))
            workers.append(record)
        return workers

    def holders(self) -> list[Holder]:
        with self._lock, self._reading() as connection:
            now = self._database.now(connection)
            columns = "arm, place, coalesce(worker, ''), asked, expires"
            rows = self._live(connection, columns, now).all()
            awaited = set(self._current(connection).awaited([(row[0], row[1]) for row in rows]))
        held: dict[str, list[tuple[float, float]]] = {}
        for arm, place, worker, asked, expires in rows:
            if (arm, place) in awaited:
                held.setdefault(worker, []).append((asked, expires))
        found = []
        for worker, tickets in held.items():
            since, end = min(asked for asked, _ in tickets), max(ends for _, ends in tickets)
            expires = moment(now.wall + end - now.steady)
            found.append(Holder(worker or None, len(tickets), moment(since), expires))
        return sorted(found, key=lambda one: one.since)

    def verify(self) -> Verification:
        found = Verification(problems=self._database.check_integrity())
        try:
            with self._database.reading() as connection:
                found.problems += self._miscounts(connection)
            fresh = StoredStudy.load(self._database, self.name)
            if fresh is None or fresh.number != self.number:
                raise UnknownStudy(f"The study {self.name!r} was deleted.")
            search = fresh._catch_up()
        except StorageFailed as error:
            if error.passing:
                raise
            found.problems.append(str(error).rstrip("."))
            return found
        found.results = search.told + search.result().history
        return found


def _not_a_ticket(text: object) -> InvalidParameter:
    return InvalidParameter(
        f"{text!r:.60} is not a ticket: `ask` returns ids such as 17.3.204.9f86d081884c7d65."
    )


def moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OSError, OverflowError, TypeError, ValueError):
        raise StorageFailed(f"the storage is damaged: it has a time of {seconds!r:.50}.") from None


_LISTED = f"""
SELECT s.id, s.name, s.question, s.budgets, s.created, s.tickets,
coalesce(w.results, 0) + s.history AS results, s.stopped,
CASE WHEN s.status IN ('decided', 'budget') THEN s.status
WHEN s.stopped IS NOT NULL THEN 'stopped'
WHEN s.status = 'waiting' AND EXISTS (SELECT 1 FROM tickets t WHERE t.study = s.id
AND t.boot = :boot AND t.expires > :steady) THEN 'waiting' ELSE 'running' END AS status,
s.decided, s.outliers, coalesce(w.seen, s.created) AS seen, coalesce(w.rate, 0.0) AS rate
FROM studies s LEFT JOIN (SELECT study, sum(results) AS results, max(last_seen) AS seen,
sum({RATE}) AS rate FROM workers GROUP BY study) w ON w.study = s.id
WHERE lower(s.name) LIKE lower(:pattern) ESCAPE '!'
"""
"""The list of studies. It does not read their results, as there may be millions."""


class DatabaseStorage(Storage):
    """A file, PostgreSQL, or the memory of this process."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def opened(cls, storage: str | Path | None, *, create: bool = False) -> DatabaseStorage:
        """Return the storage at a place, which must exist unless it is to be created."""
        return cls(open_database(storage, create=create))

    @property
    def name(self) -> str:
        return self.database.name

    def create(self, name: str, question: Question, seed: int) -> StoredStudy:
        asked, secret = question.numbered(), secrets.token_bytes(16)
        with self.database.writing() as connection:
            number = execute(
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
            labels = enumerate(map(check_plain_label, question.labels))
            rows = ((number, i, json.dumps(label)) for i, label in labels)
            self.database.insert(connection, "arms", ["study", "number", "label"], rows)
        return StoredStudy(self.database, name, int(number), question, seed, secret)

    def load(self, name: str) -> StoredStudy:
        check_name(name)
        found = StoredStudy.load(self.database, name)
        if found is None:
            with self.database.reading() as connection:
                known = execute(connection, "SELECT name FROM studies ORDER BY name LIMIT 10")
                names = ", ".join(known.scalars()) or "none"
            raise UnknownStudy(f"{self.name} has no study {name!r}; it has: {names}.")
        return found

    def list(
        self,
        search: str = "",
        most: int | None = None,
        skip: int = 0,
        *,
        sort: str = "name",
        status: str = "",
    ) -> StudyList:
        key = sort.removeprefix("-")
        if key not in SORTS or status not in ("", *Status):
            raise InvalidParameter(
                f"sort must be one of {', '.join(SORTS)}, with a minus to reverse it, and status"
                f" that of a study; got {sort!r:.60} and {status!r:.60}."
            )
        order = f"{key} DESC, id DESC" if sort.startswith("-") else f"{key}, name"
        pattern = "%" + re.sub("([!%_])", r"!\1", storable(search)) + "%"
        chosen = f"FROM ({_LISTED}) l" + (" WHERE status = :status" if status else "")
        with self.database.reading() as connection:
            now = self.database.now(connection)
            values = {"pattern": pattern, "boot": now.boot, "steady": now.steady}
            values |= {**minute_of(now.wall), **({"status": status} if status else {})}
            rows = execute(
                connection,
                f"SELECT * {chosen} ORDER BY {order} LIMIT :most OFFSET :skip",
                most=2**62 if most is None else most,
                skip=skip,
                **values,
            ).all()
            total = execute(connection, f"SELECT count(*) {chosen}", **values).scalar_one()
        return StudyList((self._summary(*row[1:]) for row in rows), int(total))

    def _summary(self, name: str, text: str, budgets: str, *row: Any) -> StudySummary:
        created, tickets, results, stopped, status, decided, outliers, seen, rate = row
        with readable(self.name):
            question = Question.from_json(text).but(budget=json.loads(budgets)[-1])
        counts = int(tickets), int(results), stopped, Status(status), int(decided), int(outliers)
        return StudySummary(name, question, moment(created), *counts, moment(seen), float(rate))

    def open_tickets(self) -> int:
        """Return how many tickets of all studies have leases that last."""
        with self.database.reading() as connection:
            now = self.database.now(connection)
            statement = "SELECT count(*) FROM tickets WHERE boot = :boot AND expires > :steady"
            found = execute(connection, statement, boot=now.boot, steady=now.steady)
            return int(found.scalar_one())

    def number_of(self, name: str) -> int | None:
        """Return the number of the study that has a name now: one made anew has another."""
        with self.database.reading() as connection:
            statement = "SELECT id FROM studies WHERE name = :name"
            found = execute(connection, statement, name=name).scalar()
        return None if found is None else int(found)

    def delete(self, name: str) -> None:
        number = self.number_of(name)
        if number is None:
            self.load(name)  # says which studies there are
            return
        self.database.repeated(lambda: self._delete(number))
        with suppress(StorageFailed):  # it is deleted; the next deletion shrinks the file
            self.database.shrink()

    def _delete(self, number: int) -> None:
        with self.database.writing() as connection:
            self.database.alone(connection, number)
            self.database.appending(connection, number, alone=True)
            for table in ("results WHERE study", "tickets WHERE study", "studies WHERE id"):
                execute(connection, f"DELETE FROM {table} = :study", study=number)
