"""Who has worked on a study: counted once, and then only what is new."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from oddarms.studies._log import Worker
from oddarms.studies._sql import run, timed
from oddarms.studies._ticket_rows import ENDED

if TYPE_CHECKING:
    import sqlalchemy as sa

_TOLD = (
    "SELECT told.worker, count(*), min(told.told), max(told.told) FROM (SELECT coalesce(r.worker,"
    " (SELECT t.worker FROM tickets t WHERE t.study = r.study AND t.number = r.ticket)) AS worker,"
    " r.told AS told FROM results r WHERE r.study = :study AND r.number > :after"
    " AND r.number <= :upto AND r.ticket IS NOT NULL) AS told GROUP BY told.worker"
)
_NEW = (
    "SELECT count(*) FROM (SELECT 1 FROM results WHERE study = :study AND number > :after"
    " AND number <= :upto LIMIT :most) AS some"
)
_ASKED = (
    "SELECT worker, count(*), max(asked) FROM tickets WHERE study = :study"
    " AND number > :after AND number <= :upto GROUP BY worker"
)
_LIVE = (
    "SELECT t.worker, count(*) FROM leases JOIN tickets t ON t.study = leases.study"
    f" AND t.number = leases.ticket WHERE leases.study = :study AND NOT {ENDED} GROUP BY t.worker"
)


def last_numbers(connection: sa.Connection, study: int) -> tuple[int, int]:
    """Return the numbers of the last result and the last ticket; the transaction must be alone.

    Whatever is recorded later has higher ones.
    """
    row = run(
        connection,
        "SELECT coalesce((SELECT max(number) FROM results WHERE study = :study), 0),"
        " coalesce((SELECT tickets FROM studies WHERE id = :study), 0)",
        study=study,
    ).one()
    return int(row[0]), int(row[1])


@dataclass
class _Count:
    handed_out: int = 0
    pulls: int = 0
    first_told: float | None = None
    last_told: float | None = None
    last_asked: float | None = None

    def worker(self, name: str | None, live: int) -> Worker:
        seen = max((t for t in (self.last_told, self.last_asked) if t is not None), default=None)
        return Worker(
            name,
            self.handed_out,
            self.pulls,
            live,
            _moment(self.last_told),
            _moment(seen),
            self._rate(),
        )

    def _rate(self) -> float | None:
        if self.first_told is None or self.last_told is None:
            return None
        seconds = self.last_told - self.first_told
        return (self.pulls - 1) / seconds if seconds > 0.0 else None


class WorkerTally:
    """What each worker of a study has done, as far as this process has read it."""

    def __init__(self, study: int) -> None:
        self._study = study
        self._result = 0
        self._ticket = 0
        self._counts: dict[str | None, _Count] = {}

    def is_behind(self, connection: sa.Connection, result: int, ticket: int, most: int) -> bool:
        """Return whether more than so many results and tickets have to be read to be brought up.

        All studies of a storage number their results together, so this one's are counted.
        """
        room = most - (ticket - self._ticket)
        if room < 0:
            return True
        new = run(
            connection, _NEW, study=self._study, after=self._result, upto=result, most=room + 1
        )
        return int(new.scalar_one()) > room

    def brought_up(self, connection: sa.Connection, result: int, ticket: int) -> list[Worker]:
        """Return all workers by name, with everything up to a result and a ticket."""
        if result > self._result:
            self._add_results(connection, result)
        if ticket > self._ticket:
            self._add_tickets(connection, ticket)
        live = {name: int(n) for name, n in timed(connection, _LIVE, study=self._study)}
        names = sorted(self._counts, key=lambda name: (name is not None, name or ""))
        return [self._counts[name].worker(name, live.get(name, 0)) for name in names]

    def _add_results(self, connection: sa.Connection, upto: int) -> None:
        found = run(connection, _TOLD, study=self._study, after=self._result, upto=upto)
        for name, pulls, first, last in found.all():
            count = self._counts.setdefault(name, _Count())
            count.pulls += int(pulls)
            count.first_told = float(first) if count.first_told is None else count.first_told
            count.last_told = float(last)
        self._result = upto

    def _add_tickets(self, connection: sa.Connection, upto: int) -> None:
        found = run(connection, _ASKED, study=self._study, after=self._ticket, upto=upto)
        for name, tickets, last in found.all():
            count = self._counts.setdefault(name, _Count())
            count.handed_out += int(tickets)
            count.last_asked = float(last)
        self._ticket = upto


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
