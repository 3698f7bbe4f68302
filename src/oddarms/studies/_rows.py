"""The rows of one study: tickets, results, conflicts and workers, in SQLite and PostgreSQL.

`ask` runs under a lock of the study. `tell` does not: results of many workers are stored at the
same time, and the unique keys of the table decide. A ticket has one result, and so has a place of
an arm; a result whose place is taken gets the next free one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import sqlalchemy as sa

from oddarms.errors import InvalidParameter, StorageFailed, UnknownStudy
from oddarms.problem import IntArray
from oddarms.search import Place, Status
from oddarms.studies._database import Database, Now, insert_sqlite, run
from oddarms.studies._study import CONFLICTS_KEPT, MAX_WORKERS, Ask, Told

Row = tuple[int, int, int, float, str | None]
"""Number, arm and place of a ticket, its reward, and who tells it."""
_RESULT = np.dtype([("arm", "i8"), ("place", "i8"), ("reward", "f8"), ("ticket", "i8")])
Results = np.ndarray[Any, np.dtype[np.void]]
"""Arm, place and reward of results, and the numbers of their tickets, 0 for history."""


class Asked(NamedTuple):
    """Number, arm and place of tickets, when their leases end, and the state after that."""

    tickets: list[tuple[int, int, int]]
    status: Status
    decided: int
    expires: float


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

_LISTED = (
    "CASE WHEN EXISTS (SELECT 1 FROM workers WHERE study = :study AND name = :name) THEN :name"
    " WHEN (SELECT count(*) FROM workers WHERE study = :study) < :most THEN :name ELSE '' END"
)
"""The name by which a worker is listed."""


_NOTE_WORKER = f"""
INSERT INTO workers
(study, name, handed_out, results, minute, recent, earlier, last_told, last_seen) VALUES (
:study, {_LISTED}, :handed_out, :results, :minute, :results, 0,
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


class Look(NamedTuple):
    """Tickets at one moment: how many are out, the sum of their numbers, and how many are stored.

    `known` is how many of these have one of the keys that were asked for.
    """

    live: int
    total: int
    stored: int
    known: int


class Rows:
    """The rows of one study; but for `tell`, methods are parts of the caller's transaction."""

    def __init__(self, database: Database, study: int, name: str) -> None:
        self.database = database
        self.study = study
        self._name = name
        self._live: dict[int, Place] = {}
        """Tickets that were out at the last look, but for those told since."""

    def run(self, connection: sa.Connection, statement: str, **values: Any) -> Any:
        """Execute a statement in which :study is this one."""
        return run(connection, statement, study=self.study, **values)

    # Tickets

    def live(
        self, connection: sa.Connection, columns: str, now: Now, more: str = "", **values: Any
    ) -> Any:
        """Select columns of the tickets whose leases last."""
        statement = f"SELECT {columns} FROM tickets WHERE study = :study AND {LIVE} {more}"
        return self.run(connection, statement, boot=now.boot, steady=now.steady, **values)

    def drop_expired(self, connection: sa.Connection, now: Now) -> None:
        """Delete tickets whose leases have ended, except those being told or renewed."""
        expired = f"study = :study AND NOT ({LIVE})"
        if self.database.is_postgresql:
            unlocked = f"SELECT number FROM tickets WHERE {expired} FOR UPDATE SKIP LOCKED"
            expired = f"study = :study AND {_among(unlocked)}"
        self.run(
            connection, f"DELETE FROM tickets WHERE {expired}", boot=now.boot, steady=now.steady
        )

    def asked_before(
        self, connection: sa.Connection, asks: Iterable[Ask], now: Now
    ) -> dict[Ask, list[tuple[int, int, int]]]:
        """Return the tickets of earlier calls with the same keys that are out; renew them."""
        known = {}
        for ask in asks:
            found = self.run(
                connection,
                "UPDATE tickets SET expires = :expires WHERE study = :study AND key = :key"
                " RETURNING number, arm, place",
                key=ask.key,
                expires=now.steady + ask.lease,
            ).all()
            if found:
                known[ask] = sorted((int(number), int(arm), int(at)) for number, arm, at in found)
        return known

    def look(self, connection: sa.Connection, now: Now, keys: Sequence[str] = ()) -> Look:
        """Look at all tickets, once."""
        chosen, listed = self._listed(keys, "TEXT")
        found = self.run(
            connection,
            f"SELECT count(*) FILTER (WHERE {LIVE}),"
            f" CAST(coalesce(sum(number) FILTER (WHERE {LIVE}), 0) AS BIGINT), count(*),"
            f" count(*) FILTER (WHERE key {chosen}) FROM tickets WHERE study = :study",
            boot=now.boot,
            steady=now.steady,
            listed=listed,
        )
        return Look(*map(int, found.one()))

    def out(
        self, connection: sa.Connection, now: Now | None = None, look: Look | None = None
    ) -> set[Place]:
        """Return the places of tickets that are out, those of a look if there is one."""
        now = now or self.database.now(connection)
        look = look or self.look(connection, now)
        if not self._agrees(look):
            self._read_live(connection, now, max(self._live, default=0))
        if not self._agrees(look):  # some were skipped, or have expired
            self._live = {}
            self._read_live(connection, now, 0)
        return set(self._live.values())

    def _agrees(self, look: Look) -> bool:
        return (len(self._live), sum(self._live)) == (look.live, look.total)

    def _read_live(self, connection: sa.Connection, now: Now, last: int) -> None:
        """Read tickets with higher numbers than the last known one, as one text for one step."""
        join = "string_agg" if self.database.is_postgresql else "group_concat"
        text = f"{join}(number || ' ' || arm || ' ' || place, ' ')"
        found = self.live(connection, text, now, "AND number > :last", last=last).scalar()
        values = list(map(int, (found or "").split()))
        places = zip(values[1::3], values[2::3], strict=True)
        self._live.update(zip(values[::3], places, strict=True))

    def remember(self, tickets: Iterable[tuple[int, int, int]]) -> None:
        """Take tickets for those that are out; only once they are stored."""
        self._live.update((number, (arm, place)) for number, arm, place in tickets)

    def forget(self, tickets: IntArray) -> None:
        """Take tickets for told."""
        for number in tickets.tolist() if self._live else ():
            self._live.pop(number, None)

    def add_tickets(
        self, connection: sa.Connection, places: Mapping[Ask, list[Place]], last: int, now: Now
    ) -> dict[Ask, list[tuple[int, int, int]]]:
        """Store tickets for the places of each call; `last` is the number of the last one."""
        number = last + 1 - sum(map(len, places.values()))
        tickets, rows, handed_out = {}, [], Counter[str]()
        for ask, found in places.items():
            tickets[ask] = [(number + i, arm, place) for i, (arm, place) in enumerate(found)]
            number += len(found)
            more = (ask.worker, ask.key, now.wall, now.steady + ask.lease, now.boot)
            rows += [(self.study, *ticket, *more) for ticket in tickets[ask]]
            handed_out[ask.worker or ""] += len(found)
        self.database.insert(
            connection,
            "tickets",
            ["study", "number", "arm", "place", "worker", "key", "asked", "expires", "boot"],
            rows,
        )
        self.note_workers(connection, now.wall, handed_out)
        return tickets

    def note_workers(
        self,
        connection: sa.Connection,
        wall: float,
        counts: Mapping[str, int],
        what: Literal["handed_out", "results"] = "handed_out",
    ) -> None:
        """Note that workers are alive, and how many tickets they got or results they told."""
        known = {"study": self.study, "most": MAX_WORKERS, "wall": wall, "minute": int(wall // 60)}
        rows = [
            {"name": name, "handed_out": 0, "results": 0, what: count, **known}
            for name, count in sorted(counts.items())  # locked in one order
        ]
        connection.execute(sa.text(_NOTE_WORKER), rows)

    def see_holders(self, connection: sa.Connection, tickets: Iterable[int], wall: float) -> None:
        """Note that the workers that have some tickets are alive."""
        chosen, listed = self._listed(tickets)
        self.run(
            connection,
            "UPDATE workers SET last_seen = :wall WHERE study = :study AND name IN (SELECT"
            f" coalesce(worker, '') FROM tickets WHERE study = :study AND number {chosen})",
            wall=wall,
            listed=listed,
        )

    def change_tickets(
        self, connection: sa.Connection, statement: str, numbers: Iterable[int], **values: Any
    ) -> int:
        """Change tickets that are out, and return how many; they are locked in one order."""
        among, listed = self._listed(numbers)
        chosen = f"number {among}"
        if self.database.is_postgresql:
            chosen = _among(
                f"SELECT number FROM tickets WHERE study = :study AND {chosen}"
                " ORDER BY number FOR UPDATE"
            )
        changed = self.run(
            connection,
            f"{statement} WHERE study = :study AND {chosen}",
            listed=listed,
            **values,
        )
        return int(changed.rowcount)

    def _listed(self, values: Iterable[Any], kind: str = "BIGINT") -> tuple[str, Any]:
        """Return the condition of being among some values, and these as parameter `listed`."""
        if self.database.is_postgresql:
            return f"= ANY(CAST(:listed AS {kind}[]))", list(values)
        return "IN (SELECT value FROM json_each(:listed))", json.dumps(list(values))

    # Results

    def tell(self, rows: Sequence[Row]) -> list[Told]:
        """Record results in one transaction."""
        firsts: dict[int, Row] = {}
        for row in rows:
            firsts.setdefault(row[0], row)
        # in one order of places, so that two calls with tickets in common do not wait for each
        # other
        ordered = sorted(firsts.values(), key=lambda row: (row[1], row[2], row[0]))
        with self.database.writing() as connection:
            self.database.appending(connection, self.study)  # from here on it cannot be deleted
            self._check_handed_out(connection, max(firsts))
            wall = self.database.now(connection).wall
            add = self._add_postgresql if self.database.is_postgresql else self._add_sqlite
            added = add(connection, ordered, wall)
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
            self.note_workers(connection, wall, recorded, "results")
        return told

    def _check_handed_out(self, connection: sa.Connection, number: int) -> None:
        """Raise if a ticket is newer than the storage, which was restored from a backup then."""
        statement = "SELECT tickets FROM studies WHERE id = :study"
        last = self.run(connection, statement).scalar()
        if last is None:
            raise UnknownStudy(f"The study {self._name!r} was deleted.")
        if number > last:
            raise InvalidParameter(
                f"Ticket {number} was never handed out by this storage, which has handed out"
                f" {last:,}: it seems to be restored from an older backup. Restart the worker."
            )

    def _add_sqlite(self, connection: sa.Connection, rows: Sequence[Row], wall: float) -> set[int]:
        """Record results and drop their tickets; return the tickets of those that are new."""
        raw: Any = connection.connection.driver_connection
        self.change_tickets(connection, "DELETE FROM tickets", [row[0] for row in rows])
        columns = ["study", "ticket", "arm", "place", "reward", "worker", "told"]
        values = [(self.study, *row, wall) for row in rows]
        new = "ON CONFLICT DO NOTHING RETURNING ticket"
        return {ticket for (ticket,) in insert_sqlite(raw, "results", columns, values, new)}

    def _add_postgresql(
        self, connection: sa.Connection, rows: Sequence[Row], wall: float
    ) -> set[int]:
        tickets, arms, places, rewards, workers = map(list, zip(*rows, strict=True))
        self.change_tickets(connection, "DELETE FROM tickets", tickets)
        found = self.run(
            connection,
            "INSERT INTO results (study, ticket, arm, place, reward, worker, told)"
            " SELECT :study, g.ticket, g.arm, g.place, g.reward, g.worker, :wall"
            " FROM unnest(CAST(:tickets AS bigint[]), CAST(:arms AS bigint[]),"
            " CAST(:places AS bigint[]), CAST(:rewards AS double precision[]),"
            " CAST(:workers AS text[]))"
            " WITH ORDINALITY AS g(ticket, arm, place, reward, worker, position)"
            " ORDER BY g.position ON CONFLICT DO NOTHING RETURNING ticket",
            wall=wall,
            workers=workers,
            tickets=tickets,
            arms=arms,
            places=places,
            rewards=rewards,
        )
        return {int(row[0]) for row in found}

    def _known_rewards(self, connection: sa.Connection, rows: Sequence[Row]) -> dict[int, float]:
        """Return the rewards that are stored, of tickets that may have one."""
        asked = {number: (arm, place) for number, arm, place, *_ in rows}
        if not asked:
            return {}
        known = {}
        chosen, listed = self._listed(asked)
        found = self.run(
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
            added = self.run(
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
        self.run(
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
                | {"study": self.study, "wall": wall, "most": CONFLICTS_KEPT}
                for number, _, _, reward, worker in conflicts
            ],
        )

    # The log

    def head(self, connection: sa.Connection, columns: str = "id") -> Any:
        """Return columns, budgets, the reason of a stop, and the position of the log's end.

        On PostgreSQL a position is the oldest transaction that was under way: all results that
        were not visible then are of that one or later ones.
        """
        end = "(SELECT coalesce(max(id), 0) FROM results WHERE study = :study)"
        if self.database.is_postgresql:
            end = "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
        statement = f"SELECT {columns}, budgets, stopped, {end} FROM studies WHERE id = :study"
        row = self.run(connection, statement).first()
        if row is None:
            raise UnknownStudy(f"The study {self._name!r} was deleted.")
        return row

    def results_between(self, connection: sa.Connection, before: int, end: int) -> Results:
        """Return the results behind a position in the log, up to a later one or further.

        On PostgreSQL some are read twice, which does no harm. After a dump was restored, results
        may seem to be of transactions to come; those are read once.
        """
        behind = "id > :position"
        if self.database.is_postgresql:
            behind = "xact >= CAST(CAST(:position AS text) AS xid8)"
            if before:
                behind += " AND xact < pg_snapshot_xmax(pg_current_snapshot())"
        elif before == end:
            return np.empty(0, _RESULT)
        found = self.run(
            connection,
            "SELECT arm, place, reward, coalesce(ticket, 0) FROM results"
            f" WHERE study = :study AND {behind}",
            position=before,
        )
        with readable(self.database.name):
            return np.fromiter(found.cursor, _RESULT)

    def miscounts(self, connection: sa.Connection) -> list[str]:
        """Compare the log with what was counted when tickets were handed out and told."""
        told, recorded, last, tickets = self.run(
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
