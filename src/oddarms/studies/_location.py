"""Where studies are stored: a path, a URL or libpq's words, read once and named without secrets."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.studies._study import VARIABLE

DEFAULT_FILE = "oddarms.db"

_FORMS = (
    "storage must be a path, sqlite:///FILE, postgresql://USER@HOST/NAME, http://HOST:PORT or"
    " memory"
)
_MEMORY = ("memory", ":memory:", "sqlite://", "sqlite:///:memory:")
_SERVERS = ("postgres", "postgresql", "postgresql+psycopg")
_DRIVER = "postgresql+psycopg"
_WORDS = re.compile(r"\s*\w+\s*=")
_LIBPQ = re.compile(r"\b(host|hostaddr|port|dbname|user|password|service)\s*=", re.IGNORECASE)
_URL_LIKE = re.compile(r"[A-Za-z][\w+.-]+:/|[^/]*:[^/@]*@")
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
        return not any(secret in text for secret in self._secrets())

    def _secrets(self) -> list[str]:
        if self.server is None:
            return []
        values = [self.server.password, *(self.server.query.get(key) for key in _SECRETS)]
        return [str(value) for value in values if value]


def location_of(storage: str | Path | None) -> Location:
    """Return where a storage is: as given, from the environment, or a file right here."""
    chosen = storage if storage is not None else os.environ.get(VARIABLE) or DEFAULT_FILE
    if isinstance(chosen, Path):
        return Location(file=_file(str(chosen)))
    if not isinstance(chosen, str):
        raise InvalidParameter(f"{_FORMS} but got a {type(chosen).__name__}.")
    if chosen in _MEMORY:
        return Location()
    scheme, mark, rest = chosen.partition("://")
    if mark and scheme in _SERVERS:
        return Location(server=_server(f"{_DRIVER}://{rest}"))
    if _WORDS.match(chosen) and _LIBPQ.search(chosen):
        return Location(server=_libpq(chosen))
    if mark and scheme not in ("sqlite", "sqlite+pysqlite"):
        raise InvalidParameter(f"{_FORMS} but got {scheme:.20}://.")
    if not mark and _URL_LIKE.match(chosen):
        raise InvalidParameter(f"{_FORMS} but got something that looks like a damaged URL.")
    return Location(file=_file(rest.removeprefix("/") if mark else chosen))


def _file(path: str) -> str:
    if not path.strip() or "\0" in path:
        raise InvalidParameter(f"storage must name a file or a server but got {path!r}.")
    return path


def _server(url: str) -> sa.URL:
    """Return the URL of a server. Messages do not repeat it, as it may have a password."""
    hint = (
        "A password with : or @ or / in it must be percent-encoded, and parameters must be those of"
        " libpq."
    )
    try:
        return _checked(sa.make_url(url))
    except (ValueError, sa.exc.ArgumentError):
        raise InvalidParameter(f"{_FORMS} but the URL given cannot be read. {hint}") from None


def _libpq(words: str) -> sa.URL:
    """Return the URL for ``host=... dbname=...``, as libpq takes it."""
    try:
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtra.of("postgresql", "PostgreSQL") from None
    try:
        given: dict[str, Any] = conninfo_to_dict(words)
        port = given.pop("port", None)
        return _checked(
            sa.URL.create(
                _DRIVER,
                username=given.pop("user", None),
                password=given.pop("password", None),
                host=given.pop("host", None),
                port=None if port is None else int(port),
                database=given.pop("dbname", None),
                query={key: str(value) for key, value in given.items()},
            )
        )
    except (Error, ValueError):
        raise InvalidParameter(f"{_FORMS} but host=... dbname=... cannot be read.") from None


def _parameters() -> set[str]:
    """Return the names of libpq's connection parameters."""
    try:
        from psycopg import pq
    except ImportError:
        raise MissingExtra.of("postgresql", "PostgreSQL") from None
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults()}


def _checked(url: sa.URL) -> sa.URL:
    """Return a URL with the password in its place; raise ValueError if it cannot be meant so."""
    query = dict(url.query)
    names = {"user": url.username, "dbname": url.database, "password": url.password}
    for key in names:
        value = query.pop(key, None)
        names[key] = names[key] if value is None else str(value)
    if not query.keys() <= _parameters():
        raise ValueError("not a parameter of libpq")  # psycopg's own, such as autocommit, do harm
    parts = (url.host or "", names["dbname"] or "")
    if any(mark in part for part in parts for mark in ("@", "://", "=")) or ":" in parts[1]:
        raise ValueError("the password is not quoted")
    return sa.URL.create(
        url.drivername,
        username=names["user"],
        password=names["password"],
        host=url.host,
        port=url.port,
        database=names["dbname"],
        query=query,
    )
