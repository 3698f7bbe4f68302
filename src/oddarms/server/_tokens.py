"""Tokens: made once, kept as digests, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.studies import _token_rows as token_rows
from oddarms.studies._base import check_text
from oddarms.studies._database_storage import DatabaseStorage

PREFIX = "oddarms_"
LEAST_CHARACTERS, MOST_CHARACTERS = 24, 200
REMEMBERED_SECONDS = 5.0
"""For so long a token that was revoked elsewhere may still be let in by this process."""
REMEMBERED = 10_000
MOST_SESSIONS = 100
"""Of one token: a further one ends the oldest."""
LONGEST = timedelta(days=36_500)

_FORM = re.compile(rf"[A-Za-z0-9._~+/=-]{{{LEAST_CHARACTERS},{MOST_CHARACTERS}}}")


class Role(StrEnum):
    """What a token lets its bearer do."""

    ADMIN = "admin"
    """Everything."""
    WORKER = "worker"
    """Read one study, and ask and tell there."""
    READER = "reader"
    """Read all studies."""


@dataclass(frozen=True)
class Token:
    """What is known of a token; never the token itself.

    Attributes
    ----------
    id
        By which it is listed and revoked.
    role
        What it lets its bearer do.
    study, study_name
        The study of a worker: its number, and its name.
    note
        What it is for.
    made, expires
        When it was made, and until when it holds; None for ever.
    parent
        Of a browser's session: the token that it began with.
    """

    id: str
    role: Role
    study: int | None
    study_name: str | None
    note: str
    made: datetime
    expires: datetime | None
    parent: str | None


class Tokens:
    """The tokens of a storage."""

    def __init__(self, storage: DatabaseStorage) -> None:
        self._storage = storage
        self._database = storage.database
        self._known: OrderedDict[str, tuple[float, Token]] = OrderedDict()
        self._lock = threading.Lock()

    def make(
        self,
        role: Role,
        *,
        study: str | None = None,
        note: str = "",
        lasts: timedelta | None = None,
        parent: Token | None = None,
    ) -> str:
        """Make a token and return it, for the only time.

        Parameters
        ----------
        role
            What it is for.
        study
            The name of a worker's study; others have none.
        note
            What people see in the list.
        lasts
            How long it holds; for ever if None.
        parent
            The token that a session begins with; the session has its role and study.
        """
        text = new_text()
        self._add(text, role, study=study, note=note, lasts=lasts, parent=parent)
        return text

    def adopt(self, text: str, note: str) -> list[Token]:
        """Let the token of a file in as an admin's; return those of that note, which it ends."""
        if not _FORM.fullmatch(text):
            raise InvalidParameter(
                f"a token must have {LEAST_CHARACTERS} to {MOST_CHARACTERS} letters, digits or"
                " -._~+/= but the one given has not: leave the file out and one is made."
            )
        self._add(text, Role.ADMIN, note=note)
        known = self.verified(text)
        if known is None or known.role is not Role.ADMIN or known.parent is not None:
            held = "one whose time is over" if known is None else f"one of role {known.role.value}"
            raise InvalidParameter(
                f"token-file must have an admin's token but has {held}: leave the file out and one"
                " is made."
            )
        former = [one for one in self.list() if one.note == note and one.id != known.id]
        for one in former:
            self.revoke(one.id)
        return former

    def has_admin(self) -> bool:
        """Return whether some admin's token holds."""
        return any(one.role is Role.ADMIN and self.holds(one) for one in self.list())

    def session(self, token: Token, lasts: timedelta) -> str:
        """Make a session that began with a token; it ends with it, too."""
        return self.make(token.role, note="session", lasts=lasts, parent=token)

    def holds(self, token: Token) -> bool:
        """Return whether a token that was let in would be let in now."""
        with self._database.reading() as connection:
            return token_rows.find_token(connection, token.id) is not None

    def verified(self, text: str) -> Token | None:
        """Return what is known of a token; None if it is none, or its time is over."""
        token = self.remembered(text)
        if token is not None or not _FORM.fullmatch(text):
            return token
        identity, digest = _identity(text), _digest(text)
        with self._database.reading() as connection:
            row = token_rows.find_token(connection, identity)
        if row is None or not hmac.compare_digest(row.digest, digest):
            self._forget(digest)
            return None
        token = _token(row)
        self._remember(digest, token)
        return token

    def remembered(self, text: str) -> Token | None:
        """Return what was known of a token a moment ago, without a look at the storage."""
        if not _FORM.fullmatch(text):
            return None
        with self._lock:
            until, token = self._known.get(_digest(text), (0.0, None))
        return token if time.monotonic() < until else None

    def _remember(self, digest: str, token: Token) -> None:
        with self._lock:
            self._known[digest] = time.monotonic() + REMEMBERED_SECONDS, token
            self._known.move_to_end(digest)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _forget(self, digest: str) -> None:
        with self._lock:
            self._known.pop(digest, None)

    def list(self) -> list[Token]:
        """Return all tokens but browsers' sessions, the oldest first."""
        with self._database.reading() as connection:
            return [_token(row) for row in token_rows.tokens(connection)]

    def revoke(self, identity: str) -> bool:
        """Let a token, and the sessions that began with it, in no more; False if there is none."""
        with self._database.writing() as connection:
            removed = token_rows.remove_token(connection, identity)
            token_rows.drop_ended_tokens(connection)
        with self._lock:
            self._known.clear()
        return removed > 0

    def _add(
        self,
        text: str,
        role: Role,
        *,
        study: str | None = None,
        note: str = "",
        lasts: timedelta | None = None,
        parent: Token | None = None,
    ) -> None:
        note = check_text("note", note, most=200) or ""
        if lasts is not None and not timedelta(0) < lasts <= LONGEST:
            raise InvalidParameter(
                f"lasts must be more than nothing and at most {LONGEST.days:,} days but got"
                f" {lasts.days:,} days."
            )
        number = parent.study if parent is not None else self._study(role, study)
        with self._database.writing() as connection:
            if parent is not None:
                token_rows.drop_ended_tokens(connection)
                token_rows.drop_old_sessions(connection, parent.id, MOST_SESSIONS - 1)
            token_rows.add_token(
                connection,
                _identity(text),
                _digest(text),
                role.value,
                study=number,
                note=note,
                seconds=None if lasts is None else lasts.total_seconds(),
                parent=None if parent is None else parent.id,
            )

    def _study(self, role: Role, study: str | None) -> int | None:
        if (role is Role.WORKER) != (study is not None):
            raise InvalidParameter(
                "study must be given for a worker's token, and for no other, but got"
                f" {study!r} for {role.value}."
            )
        if study is None:
            return None
        number = self._storage.number_of(study)
        if number is None:
            raise UnknownStudy(f"study must be one of {self._storage.name} but got {study!r}.")
        return number


def new_text() -> str:
    """Return a token that nobody has yet."""
    return PREFIX + secrets.token_urlsafe(32)


def _identity(text: str) -> str:
    """Return what a token is found by, of which nobody can make the token."""
    return hashlib.sha256(b"oddarms token id:" + text.encode()).hexdigest()[:12]


def _digest(text: str) -> str:
    return hashlib.sha256(b"oddarms token:" + text.encode()).hexdigest()


def _token(row: token_rows.TokenRow) -> Token:
    return Token(
        row.id,
        Role(row.role),
        row.study,
        row.study_name,
        row.note,
        datetime.fromtimestamp(row.made, UTC),
        None if row.expires is None else datetime.fromtimestamp(row.expires, UTC),
        row.parent,
    )
