"""The rows of tokens: who may come in through a server. A token itself is never stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oddarms.studies._sql import run, timed

if TYPE_CHECKING:
    import sqlalchemy as sa

_COLUMNS = "t.id, t.digest, t.role, t.study, s.name, t.note, t.made, t.expires, t.parent"
_FROM = "FROM tokens t LEFT JOIN studies s ON s.id = t.study"


@dataclass(frozen=True)
class TokenRow:
    """A token: its id and digest, role, study (number and name), note, times, and parent.

    The session of a browser is a token with a parent: the one that it began with.
    """

    id: str
    digest: str
    role: str
    study: int | None
    study_name: str | None
    note: str
    made: float
    expires: float | None
    parent: str | None


def add_token(
    connection: sa.Connection,
    token: str,
    digest: str,
    role: str,
    *,
    study: int | None = None,
    note: str = "",
    seconds: float | None = None,
    parent: str | None = None,
) -> None:
    """Add a token, which may end after so many seconds; one that is there stays as it is."""
    timed(
        connection,
        "INSERT INTO tokens (id, digest, role, study, note, made, expires, parent) VALUES"
        " (:token, :digest, :role, :study, :note, :wall,"
        " CASE WHEN :ends = 1 THEN :wall + :seconds END, :parent) ON CONFLICT (id) DO NOTHING",
        token=token,
        digest=digest,
        role=role,
        study=study,
        note=note,
        ends=int(seconds is not None),
        seconds=seconds or 0.0,
        parent=parent,
    )


def find_token(connection: sa.Connection, token: str) -> TokenRow | None:
    """Return a token by its id, unless its time, or that of its parent, is over."""
    row = timed(
        connection,
        f"SELECT {_COLUMNS} {_FROM} WHERE t.id = :token"
        " AND (t.expires IS NULL OR t.expires > :wall)"
        " AND (t.parent IS NULL OR EXISTS (SELECT 1 FROM tokens p WHERE p.id = t.parent"
        " AND (p.expires IS NULL OR p.expires > :wall)))",
        token=token,
    ).first()
    return None if row is None else TokenRow(*row)


def tokens(connection: sa.Connection) -> list[TokenRow]:
    """Return all tokens but sessions, the oldest first."""
    found = run(connection, f"SELECT {_COLUMNS} {_FROM} WHERE t.parent IS NULL ORDER BY t.made")
    return [TokenRow(*row) for row in found]


def remove_token(connection: sa.Connection, token: str) -> int:
    """Remove a token and the sessions that began with it; return how many tokens that were."""
    run(connection, "DELETE FROM tokens WHERE parent = :token", token=token)
    found = run(connection, "DELETE FROM tokens WHERE id = :token", token=token)
    return int(found.rowcount)


def drop_old_sessions(connection: sa.Connection, parent: str, most: int) -> None:
    """Keep only the newest sessions that began with a token."""
    run(
        connection,
        "DELETE FROM tokens WHERE parent = :parent AND id NOT IN (SELECT id FROM tokens"
        " WHERE parent = :parent ORDER BY made DESC, id LIMIT :most)",
        parent=parent,
        most=most,
    )


def drop_ended_tokens(connection: sa.Connection) -> None:
    """Remove tokens whose time is over."""
    timed(connection, "DELETE FROM tokens WHERE expires IS NOT NULL AND expires <= :wall")
