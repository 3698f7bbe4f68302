"""Tokens: shown once, stored as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.studies import DatabaseStorage

PREFIX = "oddarms_"
MIN_CHARACTERS, MAX_CHARACTERS = 24, 200
MAX_NOTE = 200
REMEMBERED_SECONDS = 5.0
"""How long this process may accept a token after another process revoked it."""
REMEMBERED = 10_000
LONGEST = timedelta(days=36_500)
"""The longest lifetime of a token."""

_FORM = re.compile(rf"[A-Za-z0-9._~+/=-]{{{MIN_CHARACTERS},{MAX_CHARACTERS}}}")
_SELECT = (
    "SELECT t.id, t.role, t.study, s.name, t.note, t.made, t.expires, t.parent, t.digest"
    " FROM tokens t LEFT JOIN studies s ON s.id = t.study"
)


class Role(StrEnum):
    """What a token allows."""

    ADMIN = "admin"
    """Everything."""
    WORKER = "worker"
    """Read one study, and ask and tell there."""
    READER = "reader"
    """Read all studies, or one."""


@dataclass(frozen=True)
class Token:
    """What is known of a token; never the token itself."""

    id: str
    role: Role
    study: int | None
    """The number of the only study it is for."""
    study_name: str | None
    note: str
    made: datetime
    expires: datetime | None
    parent: str | None
    """For a browser's session: the id of the token it was started with."""

    @property
    def owner(self) -> str:
        """The id of the token that people know: its own, or that of its session's token."""
        return self.parent or self.id

    def document(self) -> dict[str, str | None]:
        """Return what people see in a list, as plain values."""
        return {
            "id": self.id,
            "role": self.role.value,
            "study": self.study_name,
            "note": self.note,
            "made": self.made.isoformat(),
            "expires": None if self.expires is None else self.expires.isoformat(),
        }


class Tokens:
    """The tokens of a storage."""

    def __init__(self, storage: DatabaseStorage) -> None:
        self._storage = storage
        self._database = storage.database
        self._known: dict[str, tuple[float, Token]] = {}
        self._lock = threading.Lock()

    @classmethod
    def opened(cls, storage: str | Path | None, *, create: bool = False) -> Tokens:
        """Return the tokens of the storage at a location."""
        return cls(DatabaseStorage.opened(storage, create=create))

    def make(
        self,
        role: Role,
        *,
        study: str | None = None,
        note: str = "",
        lasts: timedelta | None = None,
    ) -> str:
        """Make a token and return it, for the only time; `lasts=None` is for ever.

        A worker's token needs the only `study` it is for, and a reader's may have one.
        """
        text = new_token()
        self._add(text, role, study=self._study(role, study), note=note, lasts=lasts)
        return text

    def adopt(self, text: str, note: str) -> list[Token]:
        """Accept the token of a file as an admin's; revoke and return others with this note."""
        if not _FORM.fullmatch(text):
            raise InvalidParameter(
                f"A token has {MIN_CHARACTERS} to {MAX_CHARACTERS} letters, digits or -._~+/=; the"
                " given one does not: remove the file and a token is made."
            )
        self._add(text, Role.ADMIN, note=note)
        known = self.verified(text)
        if known is None or known.role is not Role.ADMIN or known.parent is not None:
            found = "an expired one" if known is None else f"one of role {known.role.value}"
            raise InvalidParameter(
                f"The token file must have an admin's token but has {found}: remove the file and a"
                " token is made."
            )
        former = [one for one in self.list() if one.note == note and one.id != known.id]
        for one in former:
            self.revoke(one.id)
        return former

    def session(self, token: Token, lasts: timedelta) -> str:
        """Start a session with a token, and with its rights; it ends with the token."""
        text = new_token()
        self._add(
            text, token.role, study=token.study, note=token.note, lasts=lasts, parent=token.id
        )
        return text

    def has_admin(self) -> bool:
        """Return whether some admin's token is valid."""
        return any(one.role is Role.ADMIN and self.holds(one) for one in self.list())

    def holds(self, token: Token) -> bool:
        """Return whether a token is still valid, by a look at the storage."""
        return self._find(token.id) is not None

    def verified(self, text: str) -> Token | None:
        """Return what is known of a token; None if it is unknown, revoked or expired."""
        if not _FORM.fullmatch(text):
            return None
        digest, row = _digest(text), self._find(_identity(text))
        with self._lock:
            if row is None or not hmac.compare_digest(row.digest, digest):
                self._known.pop(digest, None)
                return None
            token = _token(row)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[digest] = time.monotonic() + REMEMBERED_SECONDS, token
        return token

    def remembered(self, text: str) -> Token | None:
        """Return what was known of a token a moment ago, without a look at the storage."""
        if not _FORM.fullmatch(text):
            return None
        with self._lock:
            until, token = self._known.get(_digest(text), (0.0, None))
        return token if time.monotonic() < until else None

    def list(self) -> list[Token]:
        """Return all tokens but browsers' sessions, the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                sa.text(f"{_SELECT} WHERE t.parent IS NULL ORDER BY t.made, t.id")
            ).all()
        return [_token(row) for row in rows]

    def revoke(self, identity: str) -> bool:
        """Revoke a token and its sessions; return False if there is none with this id."""
        with self._database.writing() as connection:
            _run(connection, "DELETE FROM tokens WHERE parent = :id", id=identity)
            removed = _run(connection, "DELETE FROM tokens WHERE id = :id", id=identity).rowcount
            self._drop_expired(connection)
        with self._lock:
            self._known.clear()
        return bool(removed)

    def _find(self, identity: str) -> Any:
        """Return the row of a token, unless it or its parent has expired or is gone."""
        with self._database.reading() as connection:
            return _run(
                connection,
                f"{_SELECT} WHERE t.id = :id AND (t.expires IS NULL OR t.expires > :now)"
                " AND (t.parent IS NULL OR EXISTS (SELECT 1 FROM tokens p WHERE p.id = t.parent"
                " AND (p.expires IS NULL OR p.expires > :now)))",
                id=identity,
                now=self._database.now(connection).wall,
            ).first()

    def _add(
        self,
        text: str,
        role: Role,
        *,
        study: int | None = None,
        note: str = "",
        lasts: timedelta | None = None,
        parent: str | None = None,
    ) -> None:
        if len(note) > MAX_NOTE or "\0" in note:
            raise InvalidParameter(f"note must have at most {MAX_NOTE} characters, without NUL.")
        if lasts is not None and not timedelta(0) < lasts <= LONGEST:
            raise InvalidParameter(
                f"A token must be valid for more than 0 and at most {LONGEST.days:,} days."
            )
        with self._database.writing() as connection:
            self._drop_expired(connection)
            now = self._database.now(connection).wall
            _run(
                connection,
                "INSERT INTO tokens (id, digest, role, study, note, made, expires, parent) VALUES"
                " (:id, :digest, :role, :study, :note, :made, :expires, :parent)"
                " ON CONFLICT (id) DO NOTHING",
                id=_identity(text),
                digest=_digest(text),
                role=role.value,
                study=study,
                note=note,
                made=now,
                expires=None if lasts is None else now + lasts.total_seconds(),
                parent=parent,
            )

    def _drop_expired(self, connection: sa.Connection) -> None:
        now = self._database.now(connection).wall
        _run(
            connection,
            "DELETE FROM tokens WHERE parent IS NOT NULL AND expires <= :now",
            now=now,
        )

    def _study(self, role: Role, study: str | None) -> int | None:
        if (role is Role.WORKER and study is None) or (role is Role.ADMIN and study is not None):
            raise InvalidParameter(
                "study must be given for a worker's token, and cannot be for an admin's, but got"
                f" {study!r} for {role.value}."
            )
        if study is None:
            return None
        number = self._storage.number_of(study)
        if number is None:
            raise UnknownStudy(f"{self._storage.name} has no study {study!r}.")
        return number


def new_token() -> str:
    """Return a new random token."""
    return PREFIX + secrets.token_urlsafe(32)


def _run(connection: sa.Connection, statement: str, **values: Any) -> Any:
    return connection.execute(sa.text(statement), values)


def _identity(text: str) -> str:
    """Return the id of a token, from which nobody can compute the token."""
    return hashlib.sha256(b"oddarms token id:" + text.encode()).hexdigest()[:12]


def _digest(text: str) -> str:
    return hashlib.sha256(b"oddarms token:" + text.encode()).hexdigest()


def _token(row: Any) -> Token:
    made = datetime.fromtimestamp(row.made, UTC)
    expires = None if row.expires is None else datetime.fromtimestamp(row.expires, UTC)
    return Token(row.id, Role(row.role), row.study, row.name, row.note, made, expires, row.parent)
