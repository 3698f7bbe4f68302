"""The rows of tickets, their leases, and of those that were given back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.search._places import Place
from oddarms.search._step import Out
from oddarms.studies._receipts import order_receipt
from oddarms.studies._sql import moment, run, text, timed

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database

# Not EXISTS, for which PostgreSQL may read all results there are instead of the index.
_RETURNED = (
    "((SELECT r.ticket FROM results r WHERE r.study = leases.study"
    " AND r.ticket = leases.ticket) IS NOT NULL OR (SELECT s.ticket FROM skips s"
    " WHERE s.study = leases.study AND s.ticket = leases.ticket) IS NOT NULL)"
)
ENDED = f"(leases.boot <> :boot OR leases.expires <= :steady OR {_RETURNED})"
"""Of a row of `leases`: whether its pull is no longer out."""


class Asked(NamedTuple):
    """Tickets that were handed out, as number, arm and place, and the time of day."""

    places: list[tuple[int, int, int]]
    now: float


def live_places(connection: sa.Connection, study: int) -> Out:
    """Return the places of all pulls that are out, by arm."""
    found = timed(
        connection,
        f"SELECT arm, place FROM leases WHERE study = :study AND NOT {ENDED}",
        study=study,
    )
    places: Out = {}
    for arm, place in found:
        places.setdefault(int(arm), set()).add(int(place))
    return places


def live_workers(connection: sa.Connection, study: int) -> list[str]:
    """Return the workers that have tickets out."""
    found = timed(
        connection,
        "SELECT DISTINCT t.worker FROM leases JOIN tickets t ON t.study = leases.study"
        f" AND t.number = leases.ticket WHERE leases.study = :study AND NOT {ENDED}"
        " AND t.worker IS NOT NULL",
        study=study,
    )
    return [row[0] for row in found]


def live_tickets(connection: sa.Connection, study: int, worker: str) -> list[int]:
    """Return a worker's tickets that are out, in order."""
    found = timed(
        connection,
        f"SELECT ticket FROM leases WHERE study = :study AND NOT {ENDED} AND (SELECT t.worker"
        " FROM tickets t WHERE t.study = leases.study AND t.number = leases.ticket) = :worker"
        " ORDER BY ticket",
        study=study,
        worker=worker,
    )
    return [row[0] for row in found]


def drop_ended_leases(connection: sa.Connection, study: int) -> None:
    """Drop the leases of pulls that are no longer out."""
    timed(connection, f"DELETE FROM leases WHERE study = :study AND {ENDED}", study=study)


def add_tickets(
    database: Database,
    connection: sa.Connection,
    study: int,
    places: Sequence[Place],
    worker: str | None,
    seconds: float,
    key: str | None = None,
) -> Asked:
    """Add tickets and leases of so many seconds; by a key they are found again."""
    last = int(
        run(
            connection,
            "UPDATE studies SET tickets = tickets + :more WHERE id = :study RETURNING tickets",
            study=study,
            more=len(places),
        ).scalar_one()
    )
    first = last - len(places) + 1
    numbered = [(first + i, arm, place) for i, (arm, place) in enumerate(places)]
    wall, steady, boot = moment(connection)
    database.copy(
        connection,
        "tickets",
        ["study", "number", "arm", "place", "worker", "asked", "receipt"],
        [
            (study, number, arm, place, worker, wall, order_receipt(number, arm, place))
            for number, arm, place in numbered
        ],
    )
    database.copy(
        connection,
        "leases",
        ["study", "ticket", "arm", "place", "expires", "boot"],
        [(study, number, arm, place, steady + seconds, boot) for number, arm, place in numbered],
    )
    if key is not None and places:
        _note_key(connection, study, key, first, last, wall)
    return Asked(numbered, wall)


KEPT_SECONDS = 86_400.0
"""For so long a call may be repeated by its key."""


def _note_key(
    connection: sa.Connection, study: int, key: str, first: int, last: int, wall: float
) -> None:
    run(
        connection,
        "DELETE FROM asks WHERE study = :study AND asked < :old",
        study=study,
        old=wall - KEPT_SECONDS,
    )
    run(
        connection,
        "INSERT INTO asks (study, key, first, last, asked)"
        " VALUES (:study, :key, :first, :last, :wall)",
        study=study,
        key=key,
        first=first,
        last=last,
        wall=wall,
    )


def asked_before(
    connection: sa.Connection, study: int, key: str | None, seconds: float
) -> Asked | None:
    """Return those tickets of a call with this key that are still out, with new leases.

    None if there was no such call, or it got none.
    """
    if key is None:
        return None
    row = run(
        connection,
        "SELECT first, last FROM asks WHERE study = :study AND key = :key",
        study=study,
        key=key,
    ).first()
    if row is None:
        return None
    found = timed(
        connection,
        "UPDATE leases SET expires = :steady + :seconds, boot = :boot WHERE study = :study"
        f" AND ticket BETWEEN :first AND :last AND NOT {_RETURNED} RETURNING ticket, arm, place",
        study=study,
        first=int(row[0]),
        last=int(row[1]),
        seconds=seconds,
    )
    numbered = sorted((int(number), int(arm), int(place)) for number, arm, place in found)
    return Asked(numbered, moment(connection)[0])


def renew_leases(
    connection: sa.Connection, study: int, tickets: Iterable[int], seconds: float
) -> int:
    """Let leases last so many seconds from now; return how many.

    One that has run out is renewed as long as its place was not handed to somebody else: whoever
    does that drops the lease first.
    """
    renewed = 0
    for ticket in sorted(set(tickets)):  # in one order, so that nobody waits for each other
        renewed += timed(
            connection,
            "UPDATE leases SET expires = :steady + :seconds, boot = :boot"
            f" WHERE study = :study AND ticket = :ticket AND NOT {_RETURNED}",
            study=study,
            ticket=ticket,
            seconds=seconds,
        ).rowcount
    return renewed


def add_skips(connection: sa.Connection, study: int, tickets: Iterable[int], reason: str) -> None:
    """Give tickets back."""
    numbers = sorted(set(tickets))  # in one order, so that nobody waits for each other
    require_tickets(connection, study, numbers)
    now = moment(connection)[0]
    connection.execute(
        text(
            "INSERT INTO skips (study, ticket, reason, skipped)"
            " VALUES (:study, :ticket, :reason, :now) ON CONFLICT (study, ticket) DO NOTHING"
        ),
        [{"study": study, "ticket": t, "reason": reason, "now": now} for t in numbers],
    )


def require_tickets(connection: sa.Connection, study: int, tickets: Iterable[int]) -> None:
    """Refuse tickets that a study has not handed out."""
    for ticket in tickets:
        known = run(
            connection,
            "SELECT 1 FROM tickets WHERE study = :study AND number = :ticket",
            study=study,
            ticket=ticket,
        ).first()
        if known is None:
            require_study(connection, study)
            raise InvalidParameter(f"ticket must be one that was handed out but got {ticket}.")


def require_study(connection: sa.Connection, study: int) -> None:
    """Refuse a study that was deleted since it was opened."""
    if run(connection, "SELECT 1 FROM studies WHERE id = :study", study=study).first() is None:
        raise UnknownStudy("the study must be there but was deleted.")
