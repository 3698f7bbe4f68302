"""The rows of studies, of their arms, and of their saved states."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oddarms.errors import UnknownStudy
from oddarms.studies._ids import SECRET_BYTES
from oddarms.studies._sql import as_bytes, run, timed
from oddarms.studies._ticket_rows import ENDED

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._replay import State

PARAMETERS = 500
TABLES = (
    *("results", "tickets", "leases", "skips", "conflicts"),
    *("imports", "revisions", "snapshots", "arms", "asks", "tokens"),
)
"""All that has rows of a study."""


@dataclass(frozen=True)
class StudyRow:
    """What a study is: its number, question, seed, secret, and a hash of its origin."""

    number: int
    question: str
    seed: int
    secret: bytes
    origin: str


def add_study(
    connection: sa.Connection, name: str, question: str, seed: int, secret: bytes, origin: str
) -> int | None:
    """Add a study; return its number, or None if the name is taken."""
    found = timed(
        connection,
        "INSERT INTO studies (name, question, seed, secret, origin, created,"
        " tickets, position, taken, claimed, imports, revisions, revised) VALUES"
        " (:name, :question, :seed, :secret, :origin, :wall, 0, 0, 0, 0, 0, 0, 0)"
        " ON CONFLICT (name) DO NOTHING RETURNING id",
        name=name,
        question=question,
        seed=str(seed),
        secret=secret,
        origin=origin,
    ).scalar()
    return None if found is None else int(found)


def find_study(connection: sa.Connection, name: str) -> StudyRow | None:
    """Return the study of a name."""
    row = run(
        connection,
        "SELECT id, question, seed, secret, origin FROM studies WHERE name = :name",
        name=name,
    ).first()
    if row is None:
        return None
    secret = as_bytes(row[3])
    if len(secret) != SECRET_BYTES:
        raise ValueError("the secret has another length")
    return StudyRow(int(row[0]), str(row[1]), int(row[2]), secret, str(row[4]))


def counts(connection: sa.Connection, study: int) -> tuple[int, float]:
    """Return how many tickets a study has handed out, and when it was created."""
    row = run(
        connection, "SELECT tickets, created FROM studies WHERE id = :study", study=study
    ).first()
    if row is None:
        raise UnknownStudy("the study must be there but was deleted.")
    return int(row[0]), float(row[1])


def studies(
    connection: sa.Connection,
    search: str,
    most: int | None,
    skip: int,
    *,
    newest: bool,
    only: int | None = None,
) -> list[Any]:
    """Return name, question, creation, tickets, recorded results and stop of studies.

    The question is the one in force. `only` is the number of the one study that is wanted.
    """
    which, chosen = ("", {}) if only is None else (" AND s.id = :only", {"only": only})
    question = (
        "SELECT v.question FROM revisions v WHERE v.study = s.id ORDER BY v.number DESC LIMIT 1"
    )
    order = "s.created DESC, s.id DESC" if newest else "s.name"
    found = run(
        connection,
        f"SELECT s.name, coalesce(({question}), s.question), s.created, s.tickets,"
        " (SELECT count(*) FROM results r WHERE r.study = s.id), s.stopped"
        f" FROM studies s WHERE {_MATCHES}{which} ORDER BY {order} LIMIT :most OFFSET :skip",
        **chosen,
        pattern=_pattern(search),
        most=2**62 if most is None else most,
        skip=skip,
    )
    return list(found)


def number_of_studies(connection: sa.Connection, search: str) -> int:
    """Return how many studies have a name with this text in it."""
    found = run(
        connection,
        f"SELECT count(*) FROM studies s WHERE {_MATCHES}",
        pattern=_pattern(search),
    )
    return int(found.scalar_one())


_MATCHES = "lower(s.name) LIKE lower(:pattern) ESCAPE '!'"


def _pattern(search: str) -> str:
    for mark in "!%_":
        search = search.replace(mark, f"!{mark}")
    return f"%{search}%"


def number_of(connection: sa.Connection, name: str) -> int | None:
    """Return the number of the study of a name."""
    found = run(connection, "SELECT id FROM studies WHERE name = :name", name=name).scalar()
    return None if found is None else int(found)


def set_stopped(connection: sa.Connection, study: int, reason: str | None) -> None:
    """Say why a study is stopped, None where it goes on."""
    run(
        connection,
        "UPDATE studies SET stopped = :reason WHERE id = :study",
        study=study,
        reason=reason,
    )


def pulse(connection: sa.Connection, study: int) -> str:
    """Return a text that changes when anything of a study has changed."""
    row = timed(
        connection,
        "SELECT s.tickets, s.revisions, s.imports, s.stopped,"
        " (SELECT max(r.number) FROM results r WHERE r.study = s.id),"
        " (SELECT max(c.number) FROM conflicts c WHERE c.study = s.id),"
        f" (SELECT count(*) FROM leases WHERE leases.study = s.id AND NOT {ENDED})"
        " FROM studies s WHERE s.id = :study",
        study=study,
    ).first()
    if row is None:
        raise UnknownStudy("the study must be there but was deleted.")
    return hashlib.sha256(repr((study, *row)).encode()).hexdigest()[:16]


def names(connection: sa.Connection, most: int) -> list[str]:
    """Return the names of the first studies."""
    found = run(connection, "SELECT name FROM studies ORDER BY name LIMIT :most", most=most)
    return [row[0] for row in found]


def remove_study(connection: sa.Connection, study: int) -> None:
    """Remove a study and everything of it."""
    for table in TABLES:
        run(connection, f"DELETE FROM {table} WHERE study = :study", study=study)
    run(connection, "DELETE FROM studies WHERE id = :study", study=study)


# Arms


def number_of_arms(connection: sa.Connection, study: int) -> int:
    """Return how many arms a study has."""
    found = run(connection, "SELECT count(*) FROM arms WHERE study = :study", study=study)
    return int(found.scalar_one())


def labels(connection: sa.Connection, study: int) -> list[str]:
    """Return all labels, encoded, in order."""
    found = run(
        connection, "SELECT label FROM arms WHERE study = :study ORDER BY number", study=study
    )
    return list(found.scalars().all())


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
    found = run(
        connection,
        "SELECT number, label FROM arms WHERE study = :study AND label_key = :key",
        study=study,
        key=key,
    )
    return next((int(number) for number, text in found if text == label), None)


# Saved states


@dataclass(frozen=True)
class Saved:
    """What is said of the saved state.

    Attributes
    ----------
    position, taken, revised
        The number of the last result in it, how many it has taken in, and how many revisions.
    chain
        The chain of the log up to there; None if nothing is saved.
    key
        Under which its parts are stored.
    claimed
        How many results there were when somebody last began to save a state.
    revisions
        How many there are in all.
    stopped
        Why the study is stopped; None if it is not.
    """

    position: int
    taken: int
    revised: int
    chain: bytes | None
    key: int | None
    claimed: int
    revisions: int
    stopped: str | None = None


def saved(connection: sa.Connection, study: int) -> Saved:
    """Return what is said of a study's saved state."""
    row = run(
        connection,
        "SELECT position, taken, revised, chain, snapshot, claimed, revisions, stopped FROM studies"
        " WHERE id = :study",
        study=study,
    ).first()
    if row is None:
        raise UnknownStudy("the study must be there but was deleted.")
    position, taken, revised, chain, key, claimed, revisions, stopped = row
    return Saved(
        int(position),
        int(taken),
        int(revised),
        None if chain is None else as_bytes(chain),
        None if key is None else int(key),
        int(claimed),
        int(revisions),
        None if stopped is None else str(stopped),
    )


def saved_state(connection: sa.Connection, study: int, key: int) -> bytes:
    """Return a saved state, put together from its parts."""
    found = run(
        connection,
        "SELECT content FROM snapshots WHERE study = :study AND snapshot = :key ORDER BY part",
        study=study,
        key=key,
    )
    return b"".join(as_bytes(row[0]) for row in found)


def claim_saving(connection: sa.Connection, study: int, taken: int) -> None:
    """Say that somebody saves the state with so many results, so that nobody else does."""
    run(
        connection,
        "UPDATE studies SET claimed = :taken WHERE id = :study",
        study=study,
        taken=taken,
    )


def add_part(connection: sa.Connection, study: int, key: int, part: int, content: bytes) -> None:
    """Store a part of a state."""
    run(
        connection,
        "INSERT INTO snapshots (study, snapshot, part, content)"
        " VALUES (:study, :key, :part, :content)",
        study=study,
        key=key,
        part=part,
        content=content,
    )


def use_saved(connection: sa.Connection, study: int, state: State, key: int, *, parts: int) -> None:
    """Let a state whose parts are all there be the saved one, unless it is older."""
    run(
        connection,
        "UPDATE studies SET position = :position, taken = :taken, revised = :revised,"
        " chain = :chain, snapshot = :key"
        " WHERE id = :study AND position < :position AND (SELECT count(*) FROM snapshots s"
        " WHERE s.study = studies.id AND s.snapshot = :key) = :parts",
        study=study,
        position=state.position,
        taken=state.taken,
        revised=state.revised,
        chain=state.chain,
        key=key,
        parts=parts,
    )


def drop_old_part(connection: sa.Connection, study: int) -> bool:
    """Drop one part of a state that is no longer used; return whether there was one.

    Those of a state that somebody is just saving may be among them; it will not be used then.
    """
    unused = (
        "SELECT s.snapshot, s.part FROM snapshots s JOIN studies t ON t.id = s.study"
        " WHERE s.study = :study AND s.snapshot <> coalesce(t.snapshot, 0) LIMIT 1"
    )
    row = run(connection, unused, study=study).first()
    if row is None:
        return False
    run(
        connection,
        "DELETE FROM snapshots WHERE study = :study AND snapshot = :key AND part = :part",
        study=study,
        key=row[0],
        part=row[1],
    )
    return True
