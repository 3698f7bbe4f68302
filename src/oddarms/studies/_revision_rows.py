"""The rows of revisions: changes of a question, in their places between results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oddarms.studies._log import RevisionRow
from oddarms.studies._receipts import revised
from oddarms.studies._sql import as_bytes, run, timed

if TYPE_CHECKING:
    import sqlalchemy as sa


def add_revision(
    connection: sa.Connection, study: int, position: int, question: str, chain: bytes
) -> None:
    """Record that a question was changed after a result; `chain` is that of the log before it."""
    more = "UPDATE studies SET revisions = revisions + 1 WHERE id = :study RETURNING revisions"
    number = int(run(connection, more, study=study).scalar_one())
    timed(
        connection,
        "INSERT INTO revisions (study, number, position, question, chain, made)"
        " VALUES (:study, :number, :position, :question, :chain, :wall)",
        study=study,
        number=number,
        position=position,
        question=question,
        chain=revised(chain, number, position, question),
    )


def revision_rows(connection: sa.Connection, study: int) -> list[RevisionRow]:
    """Return all revisions of a study, in their order."""
    found = run(
        connection,
        "SELECT number, position, question, chain, made FROM revisions WHERE study = :study"
        " ORDER BY number",
        study=study,
    )
    return [
        RevisionRow(int(number), int(position), str(question), as_bytes(chain), float(made))
        for number, position, question, chain, made in found
    ]
