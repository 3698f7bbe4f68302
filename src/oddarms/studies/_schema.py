"""Where a storage is, and the tables of its database."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.studies._study import MEMORY, VARIABLE

VERSION = 1

# Tables of SQLite are strict: values have the type of their column. Results and tickets are added
# under a lock of their study, so they need no foreign key, which PostgreSQL would check row by row.
_SCHEMA = """
CREATE TABLE oddarms (version {int} NOT NULL){strict};

CREATE TABLE studies (
    id {id},
    name TEXT NOT NULL UNIQUE,
    question TEXT NOT NULL,
    seed TEXT NOT NULL,
    secret {bytes} NOT NULL,
    budgets TEXT NOT NULL,
    created {real} NOT NULL,
    stopped TEXT,
    status TEXT NOT NULL DEFAULT 'running',
    decided {int} NOT NULL DEFAULT 0,
    outliers {int} NOT NULL DEFAULT 0,
    history {int} NOT NULL DEFAULT 0,
    tickets {int} NOT NULL DEFAULT 0,
    conflicts {int} NOT NULL DEFAULT 0
){strict};

CREATE TABLE arms (
    study {int} NOT NULL {study},
    number {int} NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (study, number)
){strict};

CREATE TABLE results (
    id {id},
    study {int} NOT NULL,
    arm {int} NOT NULL,
    place {int} NOT NULL,
    reward {real} NOT NULL,
    ticket {int},
    asked_place {int},
    worker TEXT,
    told {real} NOT NULL{transaction},
    UNIQUE (study, arm, place),
    UNIQUE (study, ticket)
){strict};
CREATE INDEX results_in_order ON results (study, {position});

CREATE TABLE tickets (
    study {int} NOT NULL,
    number {int} NOT NULL,
    arm {int} NOT NULL,
    place {int} NOT NULL,
    worker TEXT,
    key TEXT,
    asked {real} NOT NULL,
    expires {real} NOT NULL,
    boot {int} NOT NULL,
    PRIMARY KEY (study, number)
){clustered};

CREATE TABLE conflicts (
    id {id},
    study {int} NOT NULL {study},
    ticket {int} NOT NULL,
    reward {real} NOT NULL,
    worker TEXT,
    told {real} NOT NULL
){strict};
CREATE INDEX conflicts_of_tickets ON conflicts (study, ticket);

CREATE TABLE workers (
    study {int} NOT NULL {study},
    name TEXT NOT NULL,
    handed_out {int} NOT NULL,
    results {int} NOT NULL,
    minute {int} NOT NULL,
    recent {int} NOT NULL,
    earlier {int} NOT NULL,
    last_told {real},
    last_seen {real} NOT NULL,
    PRIMARY KEY (study, name)
){strict};

CREATE TABLE imports (
    study {int} NOT NULL {study},
    key TEXT NOT NULL,
    PRIMARY KEY (study, key)
){strict};

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    role TEXT NOT NULL,
    study {int} {study},
    note TEXT NOT NULL,
    made {real} NOT NULL,
    expires {real},
    parent TEXT
){strict};
"""

TABLES = frozenset(
    line.split()[2] for line in _SCHEMA.splitlines() if line.startswith("CREATE TABLE")
)

_WORDS = {
    "sqlite": {
        "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "int": "INTEGER",
        "real": "REAL",
        "bytes": "BLOB",
        "strict": " STRICT",
        "clustered": " STRICT, WITHOUT ROWID",
        "transaction": "",
        "position": "id",
    },
    "postgresql": {
        "int": "BIGINT",
        "real": "DOUBLE PRECISION",
        "id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "strict": "",
        "clustered": "",
        "transaction": ",\n    xact xid8 NOT NULL DEFAULT pg_current_xact_id()",
        "position": "xact",
    },
}


def statements(dialect: str) -> list[str]:
    """Return the statements that create all tables."""
    words = {**_WORDS[dialect], "study": "REFERENCES studies (id) ON DELETE CASCADE"}
    return [text.strip() for text in _SCHEMA.format(**words).split(";") if text.strip()]


DEFAULT_FILE = "oddarms.db"

_FORMS = (
    "storage must be a path, sqlite:///FILE, postgresql://USER@HOST/NAME, http://HOST:PORT or"
    " memory"
)
_SERVERS = ("postgres", "postgresql", "postgresql+psycopg")
_DRIVER = "postgresql+psycopg"
_NO_PATH = re.compile(
    r"[a-z][\w+.-]+:/|[^/]*:[^/@]*@"
    r"|(?=\s*\w+\s*=).*\b(?:host|hostaddr|port|dbname|user|password|service)\s*=",
    re.IGNORECASE,
)
"""What looks like a damaged URL or libpq's words, and may have a password in it."""
_SECRETS = ("password", "sslpassword")
_NAMED = ("host", "port", "service")
"""Parameters that say where a server is, and nothing else."""


@dataclass(frozen=True, repr=False)
class Location:
    """A file, a server, or, with neither, the memory of this process."""

    file: str | None = None
    server: sa.URL | None = None

    @property
    def memory(self) -> bool:
        """True if the storage lives as long as the process."""
        return self.file is None and self.server is None

    @property
    def name(self) -> str:
        """The location for people, without secrets."""
        if self.server is None:
            return self.file or "memory"
        query = {key: self.server.query[key] for key in _NAMED if key in self.server.query}
        url = self.server.set(query=query)
        return url.render_as_string(hide_password=True).replace(_DRIVER, "postgresql", 1)

    def is_safe(self, text: str) -> bool:
        """Return whether a message of a library can be repeated: it has no password in it."""
        if self.server is None:
            return True
        values = [self.server.password, *(self.server.query.get(key) for key in _SECRETS)]
        return not any(str(value) in text for value in values if value)


def location_of(storage: str | Path | None) -> Location:
    """Return where a storage is: as given, from the environment, or a file right here.

    No message repeats what was given, as it may have a password.
    """
    chosen = storage if storage is not None else os.environ.get(VARIABLE) or DEFAULT_FILE
    if not isinstance(chosen, str | Path):
        raise InvalidParameter(f"{_FORMS} but got a {type(chosen).__name__}.")
    if chosen in MEMORY:
        return Location()
    scheme, mark, rest = str(chosen).partition("://")
    if isinstance(chosen, str) and mark and scheme in _SERVERS:
        return Location(server=_server(rest))
    path = str(chosen)
    if isinstance(chosen, str):
        if mark and scheme in ("sqlite", "sqlite+pysqlite"):
            path = rest.removeprefix("/")
        elif mark or _NO_PATH.match(path):
            raise InvalidParameter(f"{_FORMS}; this is something else, or a damaged URL.")
    if not path.strip() or "\0" in path:
        raise InvalidParameter(f"storage must name a file or a server but got {path!r}.")
    return Location(file=path)


def _server(rest: str) -> sa.URL:
    try:
        url = sa.make_url(f"{_DRIVER}://{rest}")
        host, name = url.host or "", url.database or ""
        quoted = not any(mark in part for part in (host, name) for mark in ("@", "://", "="))
        sound = quoted and ":" not in name and url.query.keys() <= _parameters()
    except (ValueError, sa.exc.ArgumentError):
        sound = False
    if not sound:
        raise InvalidParameter(
            "storage is a URL that cannot be read: a password with : or @ or / in it must be"
            " percent-encoded, and parameters must be those of libpq."
        )
    return url


def _parameters() -> set[str]:
    """Return libpq's connection parameters; psycopg's own, such as autocommit, do harm."""
    try:
        from psycopg import pq
    except ImportError:
        raise MissingExtra.of("postgresql", "PostgreSQL") from None
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
