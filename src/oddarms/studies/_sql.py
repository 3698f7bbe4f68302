"""Statements of SQL; values go in as parameters only, and times are those of the storage."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oddarms.studies._clock import boot, steady

if TYPE_CHECKING:
    import sqlalchemy as sa

LOCK_SPACE = 0x0DDA
"""Our part of PostgreSQL's advisory locks."""

_SERVER_TIME = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


def as_bytes(value: Any) -> bytes:
    """Return bytes that were stored; a number would become as many zeros."""
    if not isinstance(value, bytes | memoryview):
        raise TypeError(f"there are no bytes but {type(value).__name__}")
    return bytes(value)


@lru_cache(maxsize=256)
def text(statement: str) -> sa.TextClause:
    """Return a statement, prepared once."""
    import sqlalchemy as sa

    return sa.text(statement)


def run(connection: sa.Connection, statement: str, **values: Any) -> Any:
    """Execute a statement."""
    return connection.execute(text(statement), values)


def timed(connection: sa.Connection, statement: str, **values: Any) -> Any:
    """Execute a statement in which :wall, :steady and :boot are the time.

    :wall is the time of day, for people; :steady and :boot are what leases go by. On PostgreSQL
    both are the server's time, the same for all clients.
    """
    if connection.dialect.name == "postgresql":
        return connection.execute(text(_on_server(statement)), values)
    used = {name: value for name, value in now().items() if f":{name}" in statement}
    return connection.execute(text(statement), {**values, **used})


def moment(connection: sa.Connection) -> tuple[float, float, int]:
    """Return the time of day, and what leases go by, as one statement would have them."""
    if connection.dialect.name == "postgresql":
        found = connection.execute(text(f"SELECT {_SERVER_TIME}")).scalar_one()
        return float(found), float(found), 0
    return tuple(now().values())


def now() -> dict[str, Any]:
    """Return the time for a statement on SQLite."""
    return {"wall": time.time(), "steady": steady(), "boot": boot()}


@lru_cache(maxsize=256)
def _on_server(statement: str) -> str:
    for name, expression in {"wall": _SERVER_TIME, "steady": _SERVER_TIME, "boot": "0"}.items():
        statement = statement.replace(f":{name}", expression)
    return statement
