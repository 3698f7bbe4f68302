"""The rows of one study: tickets, results, conflicts and workers, in SQLite and PostgreSQL.

`ask` runs under a lock of the study. `tell` does not: results of many workers are stored at the
same time, and the unique keys of the table decide. A ticket has one result, and so has a place of
an arm; a result whose place is taken gets the next free one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from oddarms.errors import InvalidParameter, StorageFailed, UnknownStudy
from oddarms.problem import FloatArray, IntArray
from oddarms.search import Place
from oddarms.studies._database import Database, Now, in_chunks, insert_sqlite, run
from oddarms.studies._study import CONFLICTS_KEPT, MAX_WORKERS, Told

if TYPE_CHECKING:
    import sqlalchemy as sa

PARAMETERS = 500
"""Numbers in a list of a statement."""

Row = tuple[int, int, int, float]
"""Number, arm and place of a ticket, and its reward."""
Results = tuple[IntArray, IntArray, FloatArray, IntArray]
"""Arm, place and reward of results, and the numbers of their tickets, 0 for history."""

_PLACES = (
    "SELECT place FROM results WHERE study = :study AND arm = :arm"
    " UNION ALL SELECT place FROM tickets WHERE study = :study AND arm = :arm"
)

_LISTED = (
    "CASE WHEN EXISTS (SELECT 1 FROM workers WHERE study = :study AND name = :name) THEN :name"
    " WHEN (SELECT count(*) FROM workers WHERE study = :study) < :most THEN :name ELSE '' END"
)
"""The name by which a worker is listed."""


RATE = "CASE :minute - minute WHEN 0 THEN recent + earlier * :left WHEN 1 THEN recent * :left END"
"""Results of a worker in the last minute, about: a share of the minute before counts."""


def minute_of(wall: float) -> dict[str, float]:
    """Return the values of `RATE`."""
    return {"minute": int(wall // 60.0), "left": 1.0 - wall % 60.0 / 60.0}


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
        where = "study = :study AND boot = :boot AND expires > :steady"
        statement = f"SELECT {columns} FROM tickets WHERE {where} {more}"
        return self.run(connection, statement, boot=now.boot, steady=now.steady, **values)

    def drop_expired(self, connection: sa.Connection, now: Now) -> None:
        """Delete tickets whose leases have ended, except those being told or renewed."""
        expired = "study = :study AND (boot <> :boot OR expires <= :steady)"
        if self.database.is_postgresql:
            unlocked = f"SELECT number FROM tickets WHERE {expired} FOR UPDATE SKIP LOCKED"
            expired = f"study = :study AND {_among(unlocked)}"
        self.run(
            connection, f"DELETE FROM tickets WHERE {expired}", boot=now.boot, steady=now.steady
        )

    def asked_before(
        self, connection: sa.Connection, key: str, expires: float
    ) -> list[tuple[int, int, int]]:
        """Return those tickets of an earlier call with this key that are out, with new leases."""
        found = self.run(
            connection,
            "UPDATE tickets SET expires = :expires WHERE study = :study AND key = :key"
            " RETURNING number, arm, place",
            key=key,
            expires=expires,
        )
        return sorted((int(number), int(arm), int(place)) for number, arm, place in found)

    def out(self, connection: sa.Connection, now: Now | None = None) -> set[Place]:
        now = now or self.database.now(connection)
        counted = self.count_live(connection, now)
        self._read_live(connection, now)
        if (len(self._live), sum(self._live)) != counted:  # some were skipped, or have expired
            self._live = {}
            self._read_live(connection, now)
        return set(self._live.values())

    def count_live(self, connection: sa.Connection, now: Now | None = None) -> tuple[int, int]:
        """Return how many tickets are out, and the sum of their numbers."""
        now = now or self.database.now(connection)
        columns = "count(*), CAST(coalesce(sum(number), 0) AS BIGINT)"
        count, total = self.live(connection, columns, now).one()
        return int(count), int(total)

    def _read_live(self, connection: sa.Connection, now: Now) -> None:
        """Read tickets with higher numbers than the known ones, as one text for one step."""
        join = "string_agg" if self.database.is_postgresql else "group_concat"
        text = f"{join}(number || ' ' || arm || ' ' || place, ' ')"
        last = max(self._live, default=0)
        found = self.live(connection, text, now, "AND number > :last", last=last).scalar()
        values = list(map(int, (found or "").split()))
        places = zip(values[1::3], values[2::3], strict=True)
        self._live.update(zip(values[::3], places, strict=True))

    def forget(self, tickets: IntArray) -> None:
        """Take tickets for told."""
        for number in tickets.tolist() if self._live else ():
            self._live.pop(number, None)

    def add_tickets(
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
        last = self.run(
            connection,
            "UPDATE studies SET tickets = tickets + :more WHERE id = :study RETURNING tickets",
            more=len(places),
        ).scalar()
        if last is None:
            raise UnknownStudy(f"The study {self._name!r} was deleted.")
        first = int(last) - len(places) + 1
        rows = [(first + i, arm, place) for i, (arm, place) in enumerate(places)]
        more = (worker, key, now.wall, expires, now.boot)
        self.database.insert(
            connection,
            "tickets",
            ["study", "number", "arm", "place", "worker", "key", "asked", "expires", "boot"],
            [(self.study, *row, *more) for row in rows],
        )
        return rows

    def note_worker(
        self,
        connection: sa.Connection,
        worker: str | None,
        wall: float,
        *,
        handed_out: int = 0,
        results: int = 0,
    ) -> None:
        told = wall if results else None
        self.run(
            connection,
            "INSERT INTO workers (study, name, handed_out, results, minute, recent, earlier,"
            f" last_told, last_seen) VALUES (:study, {_LISTED}, :handed_out, :results, :minute,"
            " :results, 0, :told, :wall)"
            " ON CONFLICT (study, name) DO UPDATE SET"
            " handed_out = workers.handed_out + excluded.handed_out,"
            " results = workers.results + excluded.results,"
            " earlier = CASE excluded.minute - workers.minute WHEN 0 THEN workers.earlier"
            " WHEN 1 THEN workers.recent ELSE 0 END,"
            " recent = excluded.recent"
            " + CASE excluded.minute WHEN workers.minute THEN workers.recent ELSE 0 END,"
            " minute = excluded.minute,"
            " last_told = coalesce(excluded.last_told, workers.last_told),"
            " last_seen = excluded.last_seen",
            name=worker or "",
            most=MAX_WORKERS,
            handed_out=handed_out,
            results=results,
            told=told,
            wall=wall,
            minute=int(wall // 60.0),
        )

    def see_holders(self, connection: sa.Connection, tickets: Iterable[int], wall: float) -> None:
        """Note that the workers that have some tickets are alive."""
        for some in in_lists(tickets):
            self.run(
                connection,
                "UPDATE workers SET last_seen = :wall WHERE study = :study AND name IN (SELECT"
                f" coalesce(worker, '') FROM tickets WHERE study = :study AND number IN ({some}))",
                wall=wall,
            )

    def change_tickets(
        self, connection: sa.Connection, statement: str, numbers: Iterable[int], **values: Any
    ) -> int:
        """Change tickets that are out, and return how many; they are locked in one order."""
        changed = 0
        for some in in_lists(numbers):
            chosen = f"number IN ({some})"
            if self.database.is_postgresql:
                chosen = _among(
                    f"SELECT number FROM tickets WHERE study = :study AND {chosen}"
                    " ORDER BY number FOR UPDATE"
                )
            changed += self.run(
                connection, f"{statement} WHERE study = :study AND {chosen}", **values
            ).rowcount
        return changed

    # Results

    def tell(self, rows: Sequence[Row], worker: str | None) -> list[Told]:
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
            self.note_worker(connection, worker, wall, results=results)
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
                f" {last:,}: it seems to be restored from an older backup."
            )

    def _add_sqlite(
        self, connection: sa.Connection, rows: Sequence[Row], worker: str | None, wall: float
    ) -> set[int]:
        """Record results and drop their tickets; return the tickets of those that are new."""
        raw: Any = connection.connection.driver_connection
        self.change_tickets(connection, "DELETE FROM tickets", [row[0] for row in rows])
        columns = ["study", "ticket", "arm", "place", "reward", "worker", "told"]
        values = [(self.study, *row, worker, wall) for row in rows]

        def added(some: list[Any]) -> int:
            return insert_sqlite(raw, "results", columns, some, "ON CONFLICT DO NOTHING")

        raw.execute("SAVEPOINT one_by_one")
        if added(values) == len(rows):
            return {row[0] for row in rows}
        raw.execute("ROLLBACK TO one_by_one")  # to find out which are new
        return {value[1] for value in values if added([value])}

    def _add_postgresql(
        self, connection: sa.Connection, rows: Sequence[Row], worker: str | None, wall: float
    ) -> set[int]:
        tickets, arms, places, rewards = (list(column) for column in zip(*rows, strict=True))
        locked = (
            "SELECT number FROM tickets WHERE study = :study AND number = ANY(:tickets)"
            " ORDER BY number FOR UPDATE"
        )
        self.run(
            connection,
            f"DELETE FROM tickets WHERE study = :study AND {_among(locked)}",
            tickets=tickets,
        )
        found = self.run(
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
        for some in in_lists(asked):
            found = self.run(
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

        Return the reward of its ticket if another call has told one meanwhile.
        """
        number, arm, place, reward = row
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
        self,
        connection: sa.Connection,
        conflicts: Sequence[tuple[int, float]],
        worker: str | None,
        wall: float,
    ) -> None:
        """Count results that were refused, and store the first few of each ticket."""
        if not conflicts:
            return
        self.run(
            connection,
            "UPDATE studies SET conflicts = conflicts + :more WHERE id = :study",
            more=len(conflicts),
        )
        kept: dict[int, int] = {}
        for some in in_lists({number for number, _ in conflicts}):
            found = self.run(
                connection,
                "SELECT ticket, count(*) FROM conflicts WHERE study = :study"
                f" AND ticket IN ({some}) GROUP BY ticket",
            )
            kept.update((int(ticket), int(count)) for ticket, count in found)
        new = []
        for number, reward in conflicts:
            kept[number] = kept.get(number, 0) + 1
            if kept[number] <= CONFLICTS_KEPT:
                new.append((self.study, number, reward, worker, wall))
        columns = ["study", "ticket", "reward", "worker", "told"]
        self.database.insert(connection, "conflicts", columns, new)

    # The log

    def results_behind(self, connection: sa.Connection, before: int) -> tuple[int, Results]:
        """Return a position in the log, and the results behind the last one.

        On PostgreSQL a position is the oldest transaction that was under way: all results that
        were not visible then are of that one or later ones. Some are read twice, which does no
        harm. After a dump was restored, results may seem to be of transactions to come; those are
        read once.
        """
        behind = "id > :position"
        last = "SELECT coalesce(max(id), 0) FROM results WHERE study = :study"
        if self.database.is_postgresql:
            last = "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
            behind = "xact >= CAST(CAST(:position AS text) AS xid8)"
            if before:
                behind += " AND xact < pg_snapshot_xmax(pg_current_snapshot())"
        position = int(self.run(connection, last).scalar_one())
        if position == before and not self.database.is_postgresql:
            return position, _results([])
        found = self.run(
            connection,
            "SELECT arm, place, reward, coalesce(ticket, 0) FROM results"
            f" WHERE study = :study AND {behind}",
            position=before,
        )
        with readable(self.database.name):
            return position, _results(in_chunks(found))

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


def _results(chunks: Iterable[Sequence[Any]]) -> Results:
    """Return rows as arrays."""
    kinds = (np.int64, np.int64, np.float64, np.int64)
    parts: list[list[Any]] = [[np.empty(0, kind)] for kind in kinds]
    for chunk in chunks:
        for part, column, kind in zip(parts, zip(*chunk, strict=True), kinds, strict=True):
            part.append(np.array(column, dtype=kind))
    arms, places, rewards, tickets = map(np.concatenate, parts)
    return arms, places, rewards, tickets


def in_lists(numbers: Iterable[int]) -> Iterator[str]:
    """Yield whole numbers as lists for SQL, of a length that every database takes."""
    ordered = sorted(numbers)
    for start in range(0, len(ordered), PARAMETERS):
        yield ", ".join(map(str, ordered[start : start + PARAMETERS]))


@contextmanager
def readable(storage: str) -> Iterator[None]:
    """Turn errors from decoding values that oddarms did not write into a sentence."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, StorageFailed):
            raise
        raise StorageFailed(f"{storage}: it is damaged; a value cannot be read: {error}.") from None
