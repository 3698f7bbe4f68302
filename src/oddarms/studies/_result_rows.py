"""The rows of results: those of tickets, imported ones, and those that were refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oddarms.errors import InvalidParameter
from oddarms.studies._imports import Part, digest_in, older_key, part_key, parts_begin
from oddarms.studies._log import ResultRow, Told
from oddarms.studies._receipts import import_digest, result_receipt
from oddarms.studies._sql import LOCK_SPACE, now, run, text, timed
from oddarms.studies._ticket_rows import require_tickets

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database

CHUNK = 20_000

_LATE = "CASE WHEN l.boot = :boot AND l.expires > :steady THEN 0 ELSE 1 END"
_COLUMNS = "(study, ticket, arm, place, reward, worker, told, late)"
_LEASE = "LEFT JOIN leases l ON l.study = t.study AND l.ticket = t.number"
_RESULT = (
    f"INSERT INTO results {_COLUMNS} SELECT t.study, t.number, t.arm, t.place, :reward,"
    f" nullif(:worker, t.worker), :wall, {_LATE} FROM tickets t {_LEASE}"
    " WHERE t.study = :study AND t.number = :ticket ON CONFLICT (study, ticket) DO NOTHING"
)
_RECEIPT = (
    "UPDATE tickets SET receipt = (receipt | :receipt) - (receipt & :receipt)"  # exclusive or
    " WHERE study = :study AND number = :ticket"
)

# On PostgreSQL any number of results, with their receipts, are one message to and fro.
_RESULTS = (
    "WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(:space, :study)),"
    " given AS (SELECT * FROM unnest(CAST(:tickets AS bigint[]),"
    " CAST(:rewards AS double precision[]), CAST(:receipts AS bigint[]))"
    " AS g(ticket, reward, receipt)),"
    f" added AS (INSERT INTO results {_COLUMNS} SELECT t.study, t.number, t.arm, t.place, g.reward,"
    f" nullif(:worker, t.worker), :wall, {_LATE} FROM locked CROSS JOIN given g"
    f" JOIN tickets t ON t.study = :study AND t.number = g.ticket {_LEASE} ORDER BY t.number"
    " ON CONFLICT (study, ticket) DO NOTHING RETURNING study, ticket)"
    " UPDATE tickets SET receipt = tickets.receipt # g.receipt"
    " FROM added a JOIN given g ON g.ticket = a.ticket"
    " WHERE tickets.study = a.study AND tickets.number = a.ticket RETURNING tickets.number"
)


def add_results(
    database: Database,
    connection: sa.Connection,
    study: int,
    results: Sequence[tuple[int, float]],
    worker: str | None,
) -> list[Told]:
    """Record results of tickets, and say what became of each; the first one of a ticket stands."""
    firsts: dict[int, float] = {}
    for ticket, reward in results:
        firsts.setdefault(ticket, reward)
    recorded = add_new_results(database, connection, study, firsts, worker)
    said = []
    for ticket, reward in results:
        is_first = ticket in recorded
        recorded.discard(ticket)
        said.append(
            Told.RECORDED if is_first else _compare(connection, study, ticket, reward, worker)
        )
    return said


def add_new_results(
    database: Database,
    connection: sa.Connection,
    study: int,
    rewards: Mapping[int, float],
    worker: str | None,
) -> set[int]:
    """Record results of tickets that have none, each with its receipt; return these tickets.

    They go in in the tickets' order: so two batches with tickets in common cannot wait for each
    other, and which of an arm's results come first does not depend on how a caller sorted them.
    """
    ordered = sorted(rewards.items())
    if database.dialect == "postgresql":
        found = timed(
            connection,
            _RESULTS,
            space=LOCK_SPACE,
            study=study,
            worker=worker,
            tickets=[ticket for ticket, _ in ordered],
            rewards=[reward for _, reward in ordered],
            receipts=[result_receipt(ticket, reward) for ticket, reward in ordered],
        )
        return {int(row[0]) for row in found}
    raw: Any = connection.connection.driver_connection  # there is no time to prepare each anew
    common = {"study": study, "worker": worker, **now()}
    recorded = set()
    for ticket, reward in ordered:
        if raw.execute(_RESULT, {**common, "ticket": ticket, "reward": reward}).rowcount:
            more = result_receipt(ticket, reward)
            raw.execute(_RECEIPT, {"receipt": more, "study": study, "ticket": ticket})
            recorded.add(ticket)
    return recorded


def _compare(
    connection: sa.Connection, study: int, ticket: int, reward: float, worker: str | None
) -> Told:
    """Say what became of a result that was not recorded, and note one that differs."""
    first = run(
        connection,
        "SELECT reward FROM results WHERE study = :study AND ticket = :ticket",
        study=study,
        ticket=ticket,
    ).scalar()
    if first is None:
        require_tickets(connection, study, [ticket])
    if first == reward:
        return Told.REPEATED
    timed(
        connection,
        "INSERT INTO conflicts (study, ticket, reward, worker, told)"
        " VALUES (:study, :ticket, :reward, :worker, :wall)",
        study=study,
        ticket=ticket,
        reward=reward,
        worker=worker,
    )
    return Told.CONFLICT


def add_import(
    database: Database,
    connection: sa.Connection,
    study: int,
    rows: Sequence[tuple[int, float]],
    key: str | None,
    part: Part | None = None,
) -> int:
    """Record results nobody asked for; return how many, without those that the key has already."""
    if not rows:
        return 0
    if key is not None:
        rows, key = _not_imported(connection, study, rows, key, part)
        if not rows:
            return 0
    batch, now = timed(
        connection,
        "SELECT coalesce(max(batch), 0) + 1, :wall FROM imports WHERE study = :study",
        study=study,
    ).one()
    run(
        connection,
        "INSERT INTO imports (study, batch, key, results, imported, digest) VALUES"
        " (:study, :batch, :key, :results, :now, :digest)",
        study=study,
        batch=int(batch),
        key=key,
        results=len(rows),
        now=now,
        digest=import_digest(rows),
    )
    run(connection, "UPDATE studies SET imports = imports + 1 WHERE id = :study", study=study)
    database.copy(
        connection,
        "results",
        ["study", "arm", "reward", "batch", "told", "late"],
        [(study, arm, reward, int(batch), now, 0) for arm, reward in rows],
    )
    return len(rows)


def _not_imported(
    connection: sa.Connection,
    study: int,
    rows: Sequence[tuple[int, float]],
    key: str,
    part: Part | None,
) -> tuple[Sequence[tuple[int, float]], str]:
    """Return those rows that an import does not have yet, and what to store them under."""
    whole = Part(0, import_digest(rows)) if part is None else part
    digests, there = _imported_under(connection, study, key)
    if any(not whole.digest.startswith(digest) for digest in digests):
        raise InvalidParameter(
            f"rewards must be those that were imported under the key {key!r} before but are"
            " others: choose another key to import them, too."
        )
    if whole.start > there:
        raise InvalidParameter(
            f"start must be at most {there}, as many rewards as are there of this import, but got"
            f" {whole.start}: send the parts in their order."
        )
    if part is None and not there:
        return rows, key
    if part is None:
        rows = sorted(rows, key=lambda row: row[0])  # as parts have them
    return rows[there - whole.start :], part_key(key, Part(there, whole.digest))


def _imported_under(connection: sa.Connection, study: int, key: str) -> tuple[set[str], int]:
    """Return how the digests of what a key has begin, and how many rewards that is.

    What an older version has imported in parts is not known as a whole, so no digest fits it.
    """
    found = run(
        connection,
        "SELECT key, digest, results FROM imports WHERE study = :study"
        " AND (key = :key OR key = :older OR key LIKE :parts)",
        study=study,
        key=key,
        older=older_key(key),
        parts=f"{parts_begin(key)}%",
    ).all()
    digests = {_digest(key, stored, digest) for stored, digest, _ in found}
    return digests, sum(int(results) for _, _, results in found)


def _digest(key: str, stored: str, digest: str) -> str:
    """Return how the digest of an import begins, by what a part or all of it is stored under."""
    if stored == key:
        return str(digest)
    return "unknown" if stored == older_key(key) else digest_in(stored)


def result_rows(connection: sa.Connection, study: int, *, after: int) -> Iterator[list[ResultRow]]:
    """Yield the results after a number, in order; those of an import are never divided."""
    found = connection.execute(
        text(
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


_TICKET = "FROM tickets t WHERE t.study = r.study AND t.number = r.ticket"
_TRIALS = (
    "SELECT r.number, r.ticket, r.arm, r.place, r.reward,"
    f" coalesce(r.worker, (SELECT t.worker {_TICKET})), r.told, r.late,"
    f" (SELECT t.asked {_TICKET}) FROM results r"
)


def trial_rows(
    connection: sa.Connection, study: int, after: int, upto: int, most: int | None = None
) -> Iterator[Any]:
    """Yield results behind a number and up to one, with when they were asked for, in order.

    At most so many. Whoever goes on behind the last one misses none if `upto` was read by a
    transaction that had the study alone: results may be stored in another order than numbered.

    A result has a worker of its own only where somebody else has told it than asked for it.

    Not a join: for one, PostgreSQL may compare all results with all tickets as long as it has not
    counted them.
    """
    found = connection.execute(
        text(
            f"{_TRIALS} WHERE r.study = :study AND r.number > :after AND r.number <= :upto"
            f" ORDER BY r.number{'' if most is None else ' LIMIT :most'}"
        ),
        {
            "study": study,
            "after": after,
            "upto": upto,
            **({} if most is None else {"most": most}),
        },
        execution_options={"stream_results": True},
    )
    with found:  # somebody may stop before the last one
        yield from found


def rewards_of(connection: sa.Connection, study: int, arm: int, places: int) -> list[float]:
    """Return the rewards of the first places of an arm, and imported ones, as recorded."""
    wanted = (
        "SELECT reward FROM results WHERE study = :study AND arm = :arm"
        " AND (place IS NULL OR place < :places) ORDER BY number"
    )
    return [row[0] for row in run(connection, wanted, study=study, arm=arm, places=places)]


def number_of(connection: sa.Connection, study: int, arm: int) -> int:
    """Return how many rewards of an arm are recorded."""
    wanted = "SELECT count(*) FROM results WHERE study = :study AND arm = :arm"
    return int(run(connection, wanted, study=study, arm=arm).scalar_one())


def latest_of(connection: sa.Connection, study: int, arm: int, most: int) -> list[Any]:
    """Return the latest results of an arm as `trial_rows` has them, the last one first."""
    where = "WHERE r.study = :study AND r.arm = :arm ORDER BY r.number DESC LIMIT :most"
    return list(run(connection, f"{_TRIALS} {where}", study=study, arm=arm, most=most))


def conflict_rows(connection: sa.Connection, study: int) -> Iterator[Any]:
    """Yield ticket, arm, first and second reward, worker and time of every conflict."""
    yield from run(
        connection,
        "SELECT c.ticket, r.arm, r.reward, c.reward, c.worker, c.told FROM conflicts c"
        " JOIN results r ON r.study = c.study AND r.ticket = c.ticket"
        " WHERE c.study = :study ORDER BY c.number",
        study=study,
    )


def number_of_conflicts(connection: sa.Connection, study: int) -> int:
    """Return how many results were refused."""
    found = run(connection, "SELECT count(*) FROM conflicts WHERE study = :study", study=study)
    return int(found.scalar_one())
