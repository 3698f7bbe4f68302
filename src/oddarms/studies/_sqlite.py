"""Connections to a SQLite file, or to memory."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

BUSY_SECONDS = 60.0


def sqlite_engine(file: str | None) -> sa.Engine:
    """Return an engine for a file that is there, or for the memory of this process.

    A file that this user cannot write to is opened anew for each transaction, as `_address` says.
    """
    if file is None:
        engine = sa.create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
    else:
        pool: Any = QueuePool if _is_writable(file) else NullPool
        engine = sa.create_engine("sqlite://", creator=lambda: _connected(file), poolclass=pool)
    sa.event.listen(engine, "connect", _prepare)
    return engine


def _connected(file: str) -> sqlite3.Connection:
    return sqlite3.connect(_address(file), uri=True, timeout=BUSY_SECONDS, check_same_thread=False)


def _address(file: str) -> str:
    """Return the file as an address with which SQLite does not make it.

    Who may only read it can do so if those who write have it open, as their side files are there;
    and otherwise nobody writes, so that it may be read without locks.
    """
    path = quote(os.fsencode(os.path.abspath(file)))
    if _is_writable(file):
        return f"file:{path}?mode=rw"
    in_use = Path(f"{file}-wal").exists()
    return f"file:{path}?mode=ro" if in_use else f"file:{path}?mode=ro&immutable=1"


def _is_writable(file: str) -> bool:
    folder = os.path.dirname(os.path.abspath(file))
    effective = os.access in os.supports_effective_ids  # as SQLite will be asked for its rights
    return all(os.access(path, os.W_OK, effective_ids=effective) for path in (file, folder))


def _prepare(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, not at the first INSERT
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")  # a file may come from anywhere
