"""The storage of studies: a SQLite file, PostgreSQL, or memory, behind one small interface.

What the rest may rely on
-------------------------
- `writing` is a transaction: when its block ends without an exception everything in it is on the
  disk (SQLite: WAL with synchronous=FULL; PostgreSQL: its default), and otherwise nothing of it is
  stored. It may be called from any thread or process.
- Results are appended under `shared` of their study, everything that reads results in order or
  hands out tickets under `exclusive`. So the numbers of results grow in the order in which readers
  see them, and no result appears below a number that was read already.
- A database that was away is reached again at the next call.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from oddarms.errors import InvalidParameter, MissingExtra, StoreFailed

REVISIONS = ("0001", "0002")
"""Versions of the schema, oldest first; the files of `migrations` have them."""

DEFAULT_FILE = "oddarms.db"
VARIABLE = "ODDARMS_STORAGE"
LOCK_SECONDS = 60.0
LOCK_SPACE = 0x0DDA
"""Our part of PostgreSQL's advisory locks."""


_memory: dict[str, Database] = {}
_memory_lock = threading.Lock()


def storage_url(storage: str | Path | None) -> str:
    """Return the URL of a storage: as given, from the environment, or a file right here.

    A path stands for a SQLite file, "memory" for one that lives as long as the process.
    """
    chosen = storage if storage is not None else os.environ.get(VARIABLE) or DEFAULT_FILE
    text = str(chosen)
    if text in ("memory", "memory:", "sqlite://", "sqlite:///:memory:"):
        return "sqlite://"
    if "://" not in text:
        return f"sqlite:///{text}"
    scheme, rest = text.split("://", 1)
    if scheme in ("postgres", "postgresql"):
        return f"postgresql+psycopg://{rest}"
    return text


class Database:
    """A storage; `open_database` returns it, at the present version."""

    lock_space = LOCK_SPACE

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = _engine(url)
        self.dialect = self._engine.dialect.name

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        if self.url == "sqlite://":
            return "memory"
        if self.dialect == "sqlite":
            return self.url.removeprefix("sqlite:///")
        return sa.make_url(self.url).render_as_string(hide_password=True).replace("+psycopg", "")

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that may write."""
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def statement(self) -> Iterator[sa.Connection]:
        """A transaction of one statement, which on PostgreSQL is one message to and fro."""
        if self.dialect != "postgresql":
            with self.writing() as connection:
                yield connection
            return
        with self._translated(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads: one consistent view."""
        with self._translated(), self._engine.connect() as connection:
            connection = connection.execution_options(oddarms_reads=True)
            with connection.begin():
                yield connection

    def shared(self, connection: sa.Connection, study: int) -> None:
        """Append results of a study while others do; nobody reads them in order meanwhile."""
        self._lock(connection, study, "pg_advisory_xact_lock_shared")

    def exclusive(self, connection: sa.Connection, study: int) -> None:
        """Have a study alone until the transaction ends."""
        self._lock(connection, study, "pg_advisory_xact_lock")

    def _lock(self, connection: sa.Connection, study: int, function: str) -> None:
        """Lock on PostgreSQL; in SQLite every writer is alone anyway."""
        if self.dialect == "postgresql":
            call = sa.text(f"SELECT {function}(:space, :study)")
            connection.execute(call, {"space": LOCK_SPACE, "study": study})

    def copy(self, connection: sa.Connection, table: str, columns: list[str], rows: Any) -> None:
        """Insert many rows, in the fastest way there is."""
        names = ", ".join(columns)
        if self.dialect == "postgresql":
            raw: Any = connection.connection.driver_connection
            with raw.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copying:
                for row in rows:
                    copying.write_row(row)
            return
        marks = ", ".join("?" for _ in columns)
        raw = connection.connection.driver_connection
        raw.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._engine.dispose()

    # Versions

    def version(self) -> str | None:
        """Return the version of the schema, None for an empty storage."""
        with self.reading() as connection:
            tables = set(sa.inspect(connection).get_table_names())
            if "alembic_version" not in tables:
                if tables:
                    raise StoreFailed(
                        f"{self.name} must be a storage of studies but is a database with other"
                        f" tables ({', '.join(sorted(tables)[:3])})."
                    )
                return None
            return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()

    def upgrade(self) -> None:
        """Bring the schema to the present version, in one transaction."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with self.writing() as connection:
            self.exclusive(connection, 0)
            config.attributes["connection"] = connection
            command.upgrade(config, REVISIONS[-1])

    # Errors

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise StoreFailed(f"{self.name}: {_reason(error)}.") from error
        except SQLAlchemyError as error:
            raise StoreFailed(f"{self.name}: {_first_line(error)}.") from error


def open_database(storage: str | Path | None, *, upgrade: bool = False) -> Database:
    """Return a storage, made if it is empty.

    An older version is upgraded if asked for and otherwise refused, with the command that does
    it; a newer one is refused.
    """
    url = storage_url(storage)
    if url == "sqlite://":
        with _memory_lock:
            if url not in _memory:
                _memory[url] = Database(url)
                _memory[url].upgrade()
            return _memory[url]
    database = Database(url)
    version = database.version()
    if version is None:
        database.upgrade()
    elif version not in REVISIONS:
        raise StoreFailed(
            f"{database.name} was written by a newer oddarms (schema {version}; this one knows"
            f" {REVISIONS[-1]}): upgrade oddarms."
        )
    elif version != REVISIONS[-1]:
        if not upgrade:
            raise StoreFailed(
                f"{database.name} was written by an older oddarms (schema {version}, now"
                f" {REVISIONS[-1]}): make a copy of it, then run `oddarms study upgrade`"
                " (in Python, oddarms.upgrade_storage)."
            )
        database.upgrade()
    return database


def _engine(url: str) -> sa.Engine:
    try:
        if url == "sqlite://":
            options: dict[str, Any] = {
                "poolclass": StaticPool,
                "connect_args": {"check_same_thread": False},
            }
        elif url.startswith("sqlite"):
            options = {"connect_args": {"timeout": LOCK_SECONDS}}
        else:
            options = {"connect_args": {"connect_timeout": 10}}
        engine = sa.create_engine(url, **options)
    except ModuleNotFoundError:
        raise MissingExtra.of("postgresql", "PostgreSQL") from None
    except (NoSuchModuleError, sa.exc.ArgumentError) as error:
        raise InvalidParameter(
            "storage must be a path, sqlite:///FILE, postgresql://USER@HOST/NAME or memory but"
            f" got {url!r} ({_first_line(error)})."
        ) from None
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, not at the first INSERT
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except connection.__class__.OperationalError:  # changing the mode does not wait for locks
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: sa.Connection) -> None:
    reads = connection.get_execution_options().get("oddarms_reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


_REASONS = {
    "disk is full": "the disk is full; nothing of this call was recorded, everything before it is",
    "disk i/o error": "the disk failed; nothing of this call was recorded",
    "readonly": "it cannot be written to",
    "unable to open": "it cannot be opened: the folder must exist and be writable",
    "not a database": "it is not a SQLite file, or it is damaged",
    "malformed": "it is damaged; the command `sqlite3 FILE .recover` may save what is left",
    "locked": f"another process has kept it locked for {LOCK_SECONDS:.0f} seconds",
    "no space left": "the disk is full; nothing of this call was recorded, everything before it is",
    "password authentication": "the user or the password is wrong",
    "does not exist": "there is no such database or user",
    "connection refused": "the server cannot be reached",
    "could not connect": "the server cannot be reached",
    "connection failed": "the server cannot be reached",
    "server closed the connection": "the server went away; nothing of this call may be recorded:"
    " repeat it, what was told twice counts once",
    "terminating connection": "the server went away; nothing of this call may be recorded: repeat"
    " it, what was told twice counts once",
    "connection is lost": "the server went away; repeat the call, what was told twice counts once",
}


def _reason(error: DBAPIError) -> str:
    text = str(error.orig).lower()
    known = next((reason for mark, reason in _REASONS.items() if mark in text), None)
    return known or _first_line(error.orig)


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
