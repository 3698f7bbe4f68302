"""The rules that the rows of a study keep, each held against all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oddarms.studies._receipts import import_digest, whole_receipt
from oddarms.studies._sql import run, text

if TYPE_CHECKING:
    import sqlalchemy as sa


def broken_rules(connection: sa.Connection, study: int, bounds: tuple[float, float]) -> list[str]:
    """Return a sentence for every rule that rows break."""
    a, b = bounds
    found = []
    for rule, statement in _RULES.items():
        parameters = {"study": study, **({"a": a, "b": b} if ":a" in statement else {})}
        count = int(run(connection, statement, **parameters).scalar_one())
        if count:
            found.append(f"{count} {rule}")
    changed = _without_receipt(connection, study)
    if changed:
        found.append(f"{changed} tickets whose result is gone, or is not what was told for them")
    return found + _changed_imports(connection, study)


_RULES = {
    "results outside the bounds": "SELECT count(*) FROM results WHERE study = :study"
    " AND NOT (reward >= :a AND reward <= :b)",
    "results of tickets that were not handed out, or of another pull": "SELECT count(*)"
    " FROM results r LEFT JOIN tickets t ON t.study = r.study AND t.number = r.ticket"
    " WHERE r.study = :study AND r.ticket IS NOT NULL"
    " AND (t.number IS NULL OR t.arm <> r.arm OR t.place <> r.place)",
    "results that are neither of a ticket nor imported": "SELECT count(*) FROM results"
    " WHERE study = :study AND ((ticket IS NULL) <> (batch IS NOT NULL)"
    " OR (ticket IS NULL) <> (place IS NULL))",
    "second results of a ticket": "SELECT count(ticket) - count(DISTINCT ticket) FROM results"
    " WHERE study = :study",
    "imports missing from the log": "SELECT abs(s.imports - (SELECT count(*) FROM imports i"
    " WHERE i.study = s.id)) FROM studies s WHERE s.id = :study",
    "revisions missing from the log, or too many": "SELECT abs(s.revisions - (SELECT count(*)"
    " FROM revisions v WHERE v.study = s.id)) FROM studies s WHERE s.id = :study",
    "tickets missing from the log": "SELECT s.tickets - (SELECT count(*) FROM tickets t"
    " WHERE t.study = s.id AND t.number BETWEEN 1 AND s.tickets) FROM studies s"
    " WHERE s.id = :study",
    "tickets beyond those that were handed out": "SELECT count(*) FROM tickets t JOIN studies s"
    " ON s.id = t.study WHERE t.study = :study AND t.number > s.tickets",
    "leases of tickets that were not handed out": "SELECT count(*) FROM leases l"
    " LEFT JOIN tickets t ON t.study = l.study AND t.number = l.ticket"
    " WHERE l.study = :study AND (t.number IS NULL OR t.arm <> l.arm)",
    "imported results that no import accounts for": "SELECT count(*) FROM results r"
    " LEFT JOIN imports i ON i.study = r.study AND i.batch = r.batch"
    " WHERE r.study = :study AND r.ticket IS NULL AND i.batch IS NULL",
}


def _without_receipt(connection: sa.Connection, study: int) -> int:
    """Return how many tickets have another receipt than their arm, place and reward give."""
    found = connection.execute(
        text(
            "SELECT t.number, t.arm, t.place, r.reward, t.receipt FROM tickets t"
            " LEFT JOIN results r ON r.study = t.study AND r.ticket = t.number"
            " WHERE t.study = :study"
        ),
        {"study": study},
        execution_options={"stream_results": True},
    )
    return sum(whole_receipt(*row) != stored for *row, stored in found)


def _changed_imports(connection: sa.Connection, study: int) -> list[str]:
    imports = run(
        connection, "SELECT batch, digest FROM imports WHERE study = :study", study=study
    ).all()
    changed = []
    for batch, digest in imports:
        rows = run(
            connection,
            "SELECT arm, reward FROM results WHERE study = :study AND batch = :batch"
            " ORDER BY number",
            study=study,
            batch=batch,
        )
        if import_digest((int(arm), float(reward)) for arm, reward in rows) != digest:
            changed.append(f"the rewards of import {batch} are not those that were imported")
    return changed
