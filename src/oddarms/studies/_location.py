"""Where studies are stored: a path or a URL, read once and named without secrets."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.studies._study import MEMORY, VARIABLE

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

    def __repr__(self) -> str:
        return f"Location({self.name!r})"

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
