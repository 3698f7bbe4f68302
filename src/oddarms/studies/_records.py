"""The rows behind a study, statement by statement; values go in as parameters only."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, IntArray
from oddarms.search._places import Place
from oddarms.search._step import Out
from oddarms.studies._log import ResultRow, Told

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database

CHUNK = 20_000
PARAMETERS = 500


@lru_cache(maxsize=256)
def _text(statement: str) -> sa.TextClause:
    import sqlalchemy as sa

    return sa.text(statement)


def _run(connection: sa.Connection, statement: str, **values: Any) -> Any:
    return connection.execute(_text(statement), values)


# Studies and arms


def add_study(
    connection: sa.Connection, name: str, question: str, seed: int, created: float
) -> int | None:
    """Add a study; return its number, or None if the name is taken."""
    found = _run(
        connection,
        "INSERT INTO studies (name, question, seed, created, tickets, position, taken) VALUES"
        " (:name, :question, :seed, :created, 0, 0, 0) ON CONFLICT (name) DO NOTHING RETURNING id",
        name=name,
        question=question,
        seed=str(seed),
        created=created,
    ).scalar()
    return None if found is None else int(found)


def find_study(connection: sa.Connection, name: str) -> tuple[int, str, int] | None:
    """Return number, question and seed of a study."""
    row = _run(
        connection, "SELECT id, question, seed FROM studies WHERE name = :name", name=name
    ).first()
    return None if row is None else (int(row[0]), str(row[1]), int(row[2]))


def counts(connection: sa.Connection, study: int) -> tuple[int, float]:
    """Return how many tickets a study has handed out, and when it was created."""
    tickets, created = _run(
        connection, "SELECT tickets, created FROM studies WHERE id = :study", study=study
    ).one()
    return int(tickets), float(created)


def studies(connection: sa.Connection) -> list[Any]:
    """Return name, question, creation, tickets and recorded results of every study."""
    return list(
        _run(
            connection,
            "SELECT s.name, s.question, s.created, s.tickets,"
            " (SELECT count(*) FROM results r WHERE r.study = s.id) FROM studies s ORDER BY s.name",
        )
    )


def remove_study(connection: sa.Connection, study: int) -> None:
    """Remove a study and everything of it."""
    for table in ("results", "tickets", "leases", "skips", "conflicts", "imports", "arms"):
        _run(connection, f"DELETE FROM {table} WHERE study = :study", study=study)
    _run(connection, "DELETE FROM studies WHERE id = :study", study=study)


def labels(connection: sa.Connection, study: int) -> list[str]:
    """Return all labels, encoded, in order."""
    found = _run(
        connection, "SELECT label FROM arms WHERE study = :study ORDER BY number", study=study
    )
    return [row[0] for row in found]


def labels_of(connection: sa.Connection, study: int, arms: Sequence[int]) -> dict[int, str]:
    """Return the encoded labels of some arms."""
    import sqlalchemy as sa

    statement = sa.text(
        "SELECT number, label FROM arms WHERE study = :study AND number IN :arms"
    ).bindparams(sa.bindparam("arms", expanding=True))
    found: dict[int, str] = {}
    for start in range(0, len(arms), PARAMETERS):
        part = list(arms[start : start + PARAMETERS])
        rows = connection.execute(statement, {"study": study, "arms": part})
        found.update({int(number): label for number, label in rows})
    return found


def arm_of(connection: sa.Connection, study: int, label: str, key: str) -> int | None:
    """Return the arm with an encoded label."""
    found = _run(
        connection,
        "SELECT number, label FROM arms WHERE study = :study AND label_key = :key",
        study=study,
        key=key,
    )
    return next((int(number) for number, text in found if text == label), None)


# Tickets


# Not EXISTS, for which PostgreSQL may read all results there are instead of the index.
_ENDED = (
    "(leases.expires <= :now OR (SELECT r.ticket FROM results r WHERE r.study = leases.study"
    " AND r.ticket = leases.ticket) IS NOT NULL OR (SELECT s.ticket FROM skips s"
    " WHERE s.study = leases.study AND s.ticket = leases.ticket) IS NOT NULL)"
)


def live_places(connection: sa.Connection, study: int, now: float) -> Out:
    """Return the places of all pulls that are out, by arm."""
    found = _run(
        connection,
        f"SELECT arm, place FROM leases WHERE study = :study AND NOT {_ENDED}",
        study=study,
        now=now,
    )
    places: Out = {}
    for arm, place in found:
        places.setdefault(int(arm), set()).add(int(place))
    return places


def live_workers(connection: sa.Connection, study: int, now: float) -> list[str]:
    """Return the workers that have tickets out."""
    found = _run(
        connection,
        "SELECT DISTINCT t.worker FROM leases JOIN tickets t ON t.study = leases.study"
        f" AND t.number = leases.ticket WHERE leases.study = :study AND NOT {_ENDED}"
        " AND t.worker IS NOT NULL",
        study=study,
        now=now,
    )
    return [row[0] for row in found]


def drop_ended_leases(connection: sa.Connection, study: int, now: float) -> None:
    """Drop the leases of pulls that are no longer out."""
    _run(connection, f"DELETE FROM leases WHERE study = :study AND {_ENDED}", study=study, now=now)


def add_tickets(
    database: Database,
    connection: sa.Connection,
    study: int,
    places: Sequence[Place],
    worker: str | None,
    now: float,
    expires: float,
) -> int:
    """Add tickets and their leases; return the number of the first."""
    last = int(
        _run(
            connection,
            "UPDATE studies SET tickets = tickets + :more WHERE id = :study RETURNING tickets",
            study=study,
            more=len(places),
        ).scalar_one()
    )
    first = last - len(places) + 1
    numbered = [(number, *place) for number, place in zip(itertools.count(first), places)]
    database.copy(
        connection,
        "tickets",
        ["study", "number", "arm", "place", "worker", "asked", "expires"],
        [(study, number, arm, place, worker, now, expires) for number, arm, place in numbered],
    )
    database.copy(
        connection,
        "leases",
        ["study", "ticket", "arm", "place", "expires"],
        [(study, number, arm, place, expires) for number, arm, place in numbered],
    )
    return first


def add_skips(
    connection: sa.Connection, study: int, tickets: Sequence[int], reason: str, now: float
) -> None:
    """Give tickets back."""
    _require_tickets(connection, study, tickets)
    rows = [{"study": study, "ticket": t, "reason": reason, "now": now} for t in tickets]
    connection.execute(
        _text(
            "INSERT INTO skips (study, ticket, reason, skipped)"
            " VALUES (:study, :ticket, :reason, :now) ON CONFLICT (study, ticket) DO NOTHING"
        ),
        rows,
    )


def live_tickets(connection: sa.Connection, study: int, worker: str, now: float) -> list[int]:
    """Return a worker's tickets that are out."""
    found = _run(
        connection,
        f"SELECT ticket FROM leases WHERE study = :study AND NOT {_ENDED} AND (SELECT t.worker"
        " FROM tickets t WHERE t.study = leases.study AND t.number = leases.ticket) = :worker",
        study=study,
        worker=worker,
        now=now,
    )
    return [row[0] for row in found]


# Results


_RESULT = (
    "INSERT INTO results (study, ticket, arm, place, reward, worker, told)"
    " SELECT t.study, t.number, t.arm, t.place, :reward, coalesce(:worker, t.worker), :now"
    " FROM tickets t WHERE t.study = :study AND t.number = :ticket"
    " ON CONFLICT (study, ticket) DO NOTHING"
)
_LOCKED_RESULT = (
    "WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(:space, :study))"
    + _RESULT.replace("FROM tickets t", "FROM locked CROSS JOIN tickets t")
)


def add_result(
    database: Database,
    connection: sa.Connection,
    study: int,
    result: tuple[int, float],
    worker: str | None,
    now: float,
) -> bool:
    """Record one new result in one statement; return False where there is more to say."""
    ticket, reward = result
    values = {"study": study, "ticket": ticket, "reward": reward, "worker": worker, "now": now}
    if database.dialect == "postgresql":
        values["space"] = database.lock_space
        return bool(connection.execute(_text(_LOCKED_RESULT), values).rowcount)
    return bool(connection.execute(_text(_RESULT), values).rowcount)


def add_results(
    connection: sa.Connection,
    study: int,
    results: Sequence[tuple[int, float]],
    worker: str | None,
    now: float,
) -> list[Told]:
    """Record results of tickets, in the tickets' order; the first one of a ticket stands.

    In that order two batches with tickets in common cannot wait for each other, and which of an
    arm's results come first does not depend on how a caller sorted them.
    """
    order = sorted(range(len(results)), key=lambda i: results[i][0])
    rows = [
        {
            "study": study,
            "ticket": results[i][0],
            "reward": results[i][1],
            "worker": worker,
            "now": now,
        }
        for i in order
    ]
    attempt = connection.begin_nested()
    if connection.execute(_text(_RESULT), rows).rowcount == len(rows):
        attempt.commit()
        return [Told.RECORDED] * len(rows)
    attempt.rollback()
    said = {i: _add_or_compare(connection, row) for i, row in zip(order, rows, strict=True)}
    return [said[i] for i in range(len(rows))]


def _add_or_compare(connection: sa.Connection, row: dict[str, Any]) -> Told:
    """Record a result, unless the ticket has one; say which, and note one that differs."""
    if connection.execute(_text(_RESULT), row).rowcount:
        return Told.RECORDED
    first = _run(
        connection,
        "SELECT reward FROM results WHERE study = :study AND ticket = :ticket",
        study=row["study"],
        ticket=row["ticket"],
    ).scalar()
    if first is None:
        _require_tickets(connection, row["study"], [row["ticket"]])
    if first == row["reward"]:
        return Told.REPEATED
    _run(
        connection,
        "INSERT INTO conflicts (study, ticket, reward, worker, told)"
        " VALUES (:study, :ticket, :reward, :worker, :now)",
        **row,
    )
    return Told.CONFLICT


def _require_tickets(connection: sa.Connection, study: int, tickets: Iterable[int]) -> None:
    for ticket in tickets:
        known = _run(
            connection,
            "SELECT 1 FROM tickets WHERE study = :study AND number = :ticket",
            study=study,
            ticket=ticket,
        ).first()
        if known is None:
            raise InvalidParameter(f"ticket must be one that was handed out but got {ticket}.")


def add_import(
    database: Database,
    connection: sa.Connection,
    study: int,
    rows: Sequence[tuple[int, float]],
    key: str | None,
    now: float,
) -> int:
    """Record results nobody asked for; return how many, 0 if the key is known."""
    if not rows:
        return 0
    batch = int(
        _run(
            connection,
            "SELECT coalesce(max(batch), 0) + 1 FROM imports WHERE study = :study",
            study=study,
        ).scalar_one()
    )
    added = _run(
        connection,
        "INSERT INTO imports (study, batch, key, results, imported)"
        " VALUES (:study, :batch, :key, :results, :now) ON CONFLICT (study, key) DO NOTHING",
        study=study,
        batch=batch,
        key=key,
        results=len(rows),
        now=now,
    )
    if added.rowcount == 0:
        return 0
    database.copy(
        connection,
        "results",
        ["study", "arm", "reward", "batch", "told"],
        [(study, arm, reward, batch, now) for arm, reward in rows],
    )
    return len(rows)


def result_rows(connection: sa.Connection, study: int, *, after: int) -> Iterator[list[ResultRow]]:
    """Yield the results after a number, in order; those of an import are never divided."""
    found = connection.execute(
        _text(
            "SELECT number, ticket, arm, place, reward, batch FROM results"
            " WHERE study = :study AND number > :after ORDER BY number"
        ),
        {"study": study, "after": after},
        execution_options={"stream_results": True},
    )
    part: list[ResultRow] = []
    for row in found:
        result = ResultRow(*row)
        if len(part) >= CHUNK and (result.batch is None or result.batch != part[-1].batch):
            yield part
            part = []
        part.append(result)
    if part:
        yield part


def trial_rows(connection: sa.Connection, study: int) -> Iterator[Any]:
    """Yield all results with their tickets, in order.

    Not a join: for one, PostgreSQL may compare all results with all tickets as long as it has not
    counted them.
    """
    ticket = "FROM tickets t WHERE t.study = r.study AND t.number = r.ticket"
    found = connection.execute(
        _text(
            "SELECT r.number, r.ticket, r.arm, r.place, r.reward, r.worker, r.told,"
            f" (SELECT t.asked {ticket}), (SELECT t.expires {ticket})"
            " FROM results r WHERE r.study = :study ORDER BY r.number"
        ),
        {"study": study},
        execution_options={"stream_results": True},
    )
    with found:  # somebody may stop before the last one
        yield from found


def conflict_rows(connection: sa.Connection, study: int) -> Iterator[Any]:
    """Yield ticket, arm, first and second reward, worker and time of every conflict."""
    yield from _run(
        connection,
        "SELECT c.ticket, r.arm, r.reward, c.reward, c.worker, c.told FROM conflicts c"
        " JOIN results r ON r.study = c.study AND r.ticket = c.ticket"
        " WHERE c.study = :study ORDER BY c.number",
        study=study,
    )


def number_of_conflicts(connection: sa.Connection, study: int) -> int:
    """Return how many results were refused."""
    found = _run(connection, "SELECT count(*) FROM conflicts WHERE study = :study", study=study)
    return int(found.scalar_one())


# Snapshots


def snapshot_position(connection: sa.Connection, study: int) -> tuple[int, int]:
    """Return the number of the last result in the saved state, and how many it has taken in."""
    row = _run(
        connection, "SELECT position, taken FROM studies WHERE id = :study", study=study
    ).first()
    if row is None:
        raise InvalidParameter("the study must be there but was deleted.")
    return int(row[0]), int(row[1])


def snapshot(connection: sa.Connection, study: int) -> bytes | None:
    """Return the saved state."""
    state = _run(connection, "SELECT state FROM studies WHERE id = :study", study=study).scalar()
    return None if state is None else bytes(state)


def save_snapshot(
    connection: sa.Connection,
    study: int,
    position: int,
    taken: int,
    state: bytes,
    pulls: IntArray,
    means: FloatArray,
    decisions: Any,
) -> None:
    """Save a state, and what it says of each arm."""
    _run(
        connection,
        "UPDATE studies SET position = :position, taken = :taken, state = :state WHERE id = :study",
        study=study,
        position=position,
        taken=taken,
        state=state,
    )
    rows = [
        (p, None if m != m else m, d, study, arm)
        for arm, (p, m, d) in enumerate(
            zip(pulls.tolist(), means.tolist(), decisions.tolist(), strict=True)
        )
    ]
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    connection.exec_driver_sql(  # many rows: there is no time to name their values
        f"UPDATE arms SET pulls = {mark}, mean = {mark}, decision = {mark}"
        f" WHERE study = {mark} AND number = {mark}",
        rows,
    )


def arm_states(connection: sa.Connection, study: int) -> list[Any]:
    """Return pulls, mean and decision of each arm as of the snapshot."""
    return list(
        _run(
            connection,
            "SELECT pulls, mean, decision FROM arms WHERE study = :study ORDER BY number",
            study=study,
        )
    )


def broken_rules(connection: sa.Connection, study: int, bounds: tuple[float, float]) -> list[str]:
    """Return a sentence for every rule of the log that its rows break."""
    a, b = bounds
    rules = {
        "results outside the bounds": "SELECT count(*) FROM results WHERE study = :study"
        " AND NOT (reward >= :a AND reward <= :b)",
        "results of tickets that were not handed out, or of another arm": "SELECT count(*)"
        " FROM results r LEFT JOIN tickets t ON t.study = r.study AND t.number = r.ticket"
        " WHERE r.study = :study AND r.ticket IS NOT NULL"
        " AND (t.number IS NULL OR t.arm <> r.arm)",
        "tickets missing from the log": "SELECT s.tickets - (SELECT count(*) FROM tickets t"
        " WHERE t.study = s.id AND t.number BETWEEN 1 AND s.tickets) FROM studies s"
        " WHERE s.id = :study",
        "leases of tickets that were not handed out": "SELECT count(*) FROM leases l"
        " LEFT JOIN tickets t ON t.study = l.study AND t.number = l.ticket"
        " WHERE l.study = :study AND (t.number IS NULL OR t.arm <> l.arm)",
        "imported results that no import accounts for": "SELECT abs((SELECT count(*) FROM results"
        " WHERE study = :study AND batch IS NOT NULL) - (SELECT coalesce(sum(results), 0)"
        " FROM imports WHERE study = :study))",
    }
    found = []
    for rule, statement in rules.items():
        parameters = {"study": study, **({"a": a, "b": b} if ":a" in statement else {})}
        count = int(_run(connection, statement, **parameters).scalar_one())
        if count:
            found.append(f"{count} {rule}")
    return found
