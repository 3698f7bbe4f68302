"""Where studies are stored: a path, a URL or libpq's words, read once and named without secrets."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from oddarms.errors import InvalidParameter, MissingExtra

DEFAULT_FILE = "oddarms.db"
VARIABLE = "ODDARMS_STORAGE"

_FORMS = "storage must be a path, sqlite:///FILE, postgresql://USER@HOST/NAME or memory"
_MEMORY = ("memory", "memory:", ":memory:", "sqlite://", "sqlite:///:memory:")
_SERVERS = ("postgres", "postgresql", "postgresql+psycopg")
_DRIVER = "postgresql+psycopg"
_LIBPQ = re.compile(
    r"\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode|options"
    r"|connect_timeout|application_name|target_session_attrs)\s*="
)
_SECRET = re.compile("password|secret|token", re.IGNORECASE)


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
        hidden = [key for key in self.server.query if _SECRET.search(key)]
        url = self.server.difference_update_query(hidden)
        return url.render_as_string(hide_password=True).replace(_DRIVER, "postgresql", 1)

    def __repr__(self) -> str:
        return f"Location({self.name!r})"

    def without_secrets(self, text: str) -> str:
        """Return what a library has said, with our passwords struck out."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> list[str]:
        if self.server is None:
            return []
        values = [value for key, value in self.server.query.items() if _SECRET.search(key)]
        flat = [part for value in values for part in ([value] if isinstance(value, str) else value)]
        return [secret for secret in (self.server.password, *flat) if secret]


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
    if _LIBPQ.match(chosen):
        return Location(server=_libpq(chosen))
    if mark and scheme not in ("sqlite", "sqlite+pysqlite"):
        raise InvalidParameter(f"{_FORMS} but got one of another kind, {scheme:.20}://...")
    return Location(file=_file(rest.removeprefix("/") if mark else chosen))


def _file(path: str) -> str:
    if not path.strip() or "\0" in path:
        raise InvalidParameter(f"storage must name a file or a server but got {path!r}.")
    return path


def _server(url: str) -> sa.URL:
    """Return the URL of a server; what it is must not be repeated, as there may be a password."""
    try:
        return sa.make_url(url)
    except ValueError:
        raise InvalidParameter(
            f"{_FORMS} but the port of the URL given is not a number (a password with : or @ or /"
            " in it must be percent-encoded)."
        ) from None
    except sa.exc.ArgumentError:
        raise InvalidParameter(f"{_FORMS} but the URL given is none of these.") from None


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
        return sa.URL.create(
            _DRIVER,
            username=given.pop("user", None),
            password=given.pop("password", None),
            host=given.pop("host", None),
            port=None if port is None else int(port),
            database=given.pop("dbname", None),
            query={key: str(value) for key, value in given.items()},
        )
    except (Error, ValueError):
        raise InvalidParameter(
            f"{_FORMS} but the words given (host=... dbname=...) are not those of libpq."
        ) from None
