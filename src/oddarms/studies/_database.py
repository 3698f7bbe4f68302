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
- While a call waits for others Ctrl-C is obeyed at once; from then on it waits for the call's end.
- A forked process has no connection of its parent's: a file's locks would not hold in it, and its
  results would be lost when the parent closes the file.
- Nothing is written to a database before it is known to be ours or empty, and nothing at all by
  those who only read.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError

from oddarms.errors import InvalidParameter, MissingExtra, OddarmsError, StoreFailed
from oddarms.interrupts import interruptible, pause, uninterrupted
from oddarms.studies._failures import DAMAGED, Failure, failure_of, first_line
from oddarms.studies._hurry import Hurry
from oddarms.studies._location import Location, location_of
from oddarms.studies._sql import LOCK_SPACE
from oddarms.studies._sqlite import sqlite_engine
from oddarms.studies._versions import REVISIONS, look_at_file, upgrade_schema, version_of

LOCK_SECONDS = 60.0
HURRY_SECONDS = 1.0
TURN_SECONDS = 0.001
HOLD_SECONDS = 300.0
"""Whoever has a study alone and does nothing for so long, as a suspended process, loses it."""
SILENCE_SECONDS = 60
"""After so long without a sign of life the other side of a connection counts as gone."""

_WRONG_KINDS = (
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    AssertionError,
    OverflowError,
    RecursionError,
    MemoryError,
    struct.error,
)
"""What rows lead to that nobody of us has written."""

_memory: dict[str, Database] = {}
_memory_lock = threading.Lock()
_opened: weakref.WeakSet[Database] = weakref.WeakSet()


class Database:
    """A storage; `open_database` returns it, at the present version."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._engine = _engine(location)
        self.dialect = self._engine.dialect.name
        self._process = os.getpid()
        self._turn = threading.RLock() if self.one_connection else nullcontext()
        self.hurry = Hurry()
        self._file = None if location.file is None else _identity(location.file)
        _opened.add(self)
        weakref.finalize(self, _dispose, self._engine, self._process)

    def __repr__(self) -> str:
        return f"Database({self.name!r})"

    @property
    def one_connection(self) -> bool:
        """True if all transactions use the same connection, one after the other."""
        return self.location.memory

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self.location.name

    @property
    def lock_seconds(self) -> float:
        """How long a call of this thread waits for others."""
        return HURRY_SECONDS if self.hurry else LOCK_SECONDS

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that may write; once it has begun, Ctrl-C waits for its end."""
        self._check_file()
        with uninterrupted(), self._translated(), self._engine.connect() as connection:
            if self.dialect == "sqlite":
                connection = connection.execution_options(oddarms_waits=self.lock_seconds)
            with connection.begin():
                yield connection

    @contextmanager
    def statement(self) -> Iterator[sa.Connection]:
        """A transaction of one statement, which on PostgreSQL is one message to and fro.

        There it may wait for a lock as long as anybody, and be interrupted: it may have been
        executed then or not.
        """
        if self.dialect != "postgresql":
            with self.writing() as connection:
                yield connection
            return
        with uninterrupted(), self._translated(), self._engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            with interruptible():
                yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads, each statement what was stored before it."""
        with self._translated(), self._engine.connect() as connection:
            connection = connection.execution_options(oddarms_reads=True)
            with connection.begin():
                yield connection

    @contextmanager
    def view(self) -> Iterator[sa.Connection]:
        """A transaction that sees the storage as it is at one moment while others go on."""
        with self.reading() as connection:
            if self.dialect == "postgresql":
                connection.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
            yield connection

    def shared(self, connection: sa.Connection, study: int) -> None:
        """Append results of a study while others do; nobody reads them in order meanwhile."""
        self._lock(connection, study, "pg_advisory_xact_lock_shared")

    def exclusive(self, connection: sa.Connection, study: int) -> None:
        """Have a study alone until the transaction ends."""
        self._lock(connection, study, "pg_advisory_xact_lock")

    def _lock(self, connection: sa.Connection, study: int, function: str) -> None:
        """Lock on PostgreSQL; in SQLite every writer is alone anyway."""
        if self.dialect != "postgresql":
            return
        limits = {
            "idle_in_transaction_session_timeout": HOLD_SECONDS,
            "lock_timeout": self.lock_seconds,
        }
        settings = [
            f"set_config('{name}', '{seconds * 1000:.0f}', true)"
            for name, seconds in limits.items()
        ]
        call = sa.text(f"SELECT {', '.join(settings)}, {function}(:space, :study)")
        with interruptible():
            connection.execute(call, {"space": LOCK_SPACE, "study": study})

    def copy(self, connection: sa.Connection, table: str, columns: list[str], rows: Any) -> None:
        """Insert many rows, in the fastest way there is."""
        names = ", ".join(columns)
        raw: Any = connection.connection.driver_connection
        if self.dialect == "postgresql":
            with raw.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copying:
                for row in rows:
                    copying.write_row(row)
            return
        marks = ", ".join("?" for _ in columns)
        raw.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)

    def _check_file(self) -> None:
        """Refuse to write to a file that is gone from its place: what it has nobody would find."""
        if self.location.file is None:
            return
        found = _identity(self.location.file)
        self._file = self._file or found
        if found is None or found != self._file:
            raise StoreFailed(
                f"{self.name}: the file was removed or replaced while it was in use, and nothing of"
                " this call was recorded: put it back, with its -wal file, and open it again."
            )

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._engine.dispose()

    def version(self) -> str | None:
        """Return the version of the schema, None for an empty storage; refuse a foreign one."""
        with self.reading() as connection:
            return version_of(connection, self.name)

    def upgrade(self) -> None:
        """Bring the schema to the present version, in one transaction."""
        if self.dialect == "sqlite" and not self.one_connection:
            self._use_wal()
        with self.writing() as connection:
            self.exclusive(connection, 0)
            upgrade_schema(connection, self.name)

    def _use_wal(self) -> None:
        """Let readers and the writer of a file not wait for each other; it stays so for good."""
        deadline = time.monotonic() + self.lock_seconds
        while True:
            try:
                with self._translated(), self._engine.connect() as connection:
                    raw: Any = connection.connection.driver_connection
                    raw.execute("PRAGMA journal_mode = WAL")
                    return
            except StoreFailed as error:  # changing the mode does not wait for locks
                if not error.passing or time.monotonic() > deadline:
                    raise
                pause(10.0 * TURN_SECONDS)

    # Errors

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self.one_connection and self._process != os.getpid():
            raise StoreFailed(
                "memory: it is that of another process; keep a study that processes share in a file"
                " or in PostgreSQL."
            )
        driver: Any = self._engine.dialect.dbapi
        try:
            with self._turn:
                yield
        except OddarmsError:
            raise
        except DBAPIError as error:
            failure = failure_of(error.orig, gone=error.connection_invalidated)
            raise self._failed(failure) from self._cause(error)
        except SQLAlchemyError as error:
            passing = isinstance(error, sa.exc.TimeoutError)  # all connections are in use
            raise self._failed(Failure(first_line(error), passing)) from self._cause(error)
        except driver.Error as error:  # `copy` does not go through SQLAlchemy
            raise self._failed(failure_of(error)) from self._cause(error)
        except UnicodeError as error:  # in a text or, of SQLite, in a message about one
            reason = DAMAGED if self.dialect == "sqlite" else "its address cannot be read"
            raise self._failed(Failure(reason, False)) from self._cause(error)
        except _WRONG_KINDS as error:  # a file may hold anything in any column
            kind = type(error).__name__
            reason = f"it is damaged, or was changed by hand ({kind}: {first_line(error)[:100]})"
            raise self._failed(Failure(reason, False)) from self._cause(error)

    def _failed(self, failure: Failure) -> StoreFailed:
        safe = failure.known or self.location.is_safe(failure.reason)
        reason = failure.reason if safe else "it failed, in words with the password in them"
        return StoreFailed(f"{self.name}: {reason}.", passing=failure.passing)

    def _cause(self, error: Exception) -> Exception | None:
        """Return the cause to show, None if a password stands in it."""
        return error if self.location.is_safe(str(error)) else None


def open_database(
    storage: str | Path | None, *, create: bool = False, upgrade: bool = False
) -> Database | None:
    """Return a storage, None if it has no tables yet and is not to be made.

    An older version is upgraded if asked for and otherwise refused, with the command that does
    it; a newer one and one of somebody else's are refused, and not touched.

    Parameters
    ----------
    storage
        Where it is.
    create
        Whether to make the file and its tables where there is nothing.
    upgrade
        Whether to upgrade an older version.
    """
    location = location_of(storage)
    if location.memory:
        return _in_memory()
    if location.file is not None and not Path(location.file).exists():
        if not create:
            return None
        _make_file(location.file)
    if location.file is not None:
        look_at_file(location.file)
    database = Database(location)
    version = database.version()
    if version is None and not create:
        return None
    if version not in (None, *REVISIONS):
        raise StoreFailed(
            f"{database.name} was written by a newer oddarms (schema {version}, while this one"
            f" knows {REVISIONS[-1]}): upgrade oddarms."
        )
    if version is not None and version != REVISIONS[-1] and not upgrade:
        raise StoreFailed(
            f"{database.name} was written by an older oddarms (schema {version}, now"
            f" {REVISIONS[-1]}): make a copy of it, then run `oddarms study upgrade`"
            " (in Python, oddarms.upgrade_storage)."
        )
    if version != REVISIONS[-1]:
        database.upgrade()
    return database


def _identity(path: str) -> tuple[int, int] | None:
    """Return which file there is at a path."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _in_memory() -> Database:
    with _memory_lock:
        if "memory" not in _memory:
            _memory["memory"] = Database(Location())
            _memory["memory"].upgrade()
        return _memory["memory"]


def _make_file(path: str) -> None:
    """Make an empty file with the rights that the umask lets, which SQLite would not use."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o666))
    except OSError as error:
        reason = failure_of("unable to open").reason
        raise StoreFailed(f"{path}: {reason} ({error.strerror}).") from None


def _engine(location: Location) -> sa.Engine:
    if location.server is None:
        engine = sqlite_engine(location.file)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = sa.create_engine(
            location.server, connect_args={"connect_timeout": 10, **_keepalives("")}
        )
    except ModuleNotFoundError:
        raise MissingExtra.of("postgresql", "PostgreSQL") from None
    except (NoSuchModuleError, sa.exc.ArgumentError, ValueError):
        raise InvalidParameter("storage must be a URL that names a server but is not.") from None
    sa.event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections of a storage nobody uses any more, if they are this process's."""
    if process == os.getpid():
        engine.dispose()


def _close_before_fork() -> None:
    for database in list(_opened):
        if not database.one_connection:
            database.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork)


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    """Let the server notice a worker's machine that is gone, and sync even if it is told not to.

    The locks of a transaction last as long as the server thinks that its client is there.
    """
    sync = "current_setting('synchronous_commit')"
    settings = [f"set_config('{name}', '{n}', false)" for name, n in _keepalives("tcp_").items()]
    settings += [f"set_config('synchronous_commit', replace({sync}, 'off', 'on'), false)"]
    settings += [f"set_config('lock_timeout', '{LOCK_SECONDS * 1000:.0f}', false)"]
    connection.execute(f"SELECT {', '.join(settings)}")
    connection.commit()


def _keepalives(prefix: str) -> dict[str, int]:
    quiet, probes = SILENCE_SECONDS // 2, 3
    return {
        f"{prefix}keepalives_idle": quiet,
        f"{prefix}keepalives_interval": quiet // probes,
        f"{prefix}keepalives_count": probes,
    }


def _begin_sqlite(connection: sa.Connection) -> None:
    """Begin a transaction; one that writes waits for its turn.

    SQLite itself looks ten times a second only, and finds others there for many seconds if they
    write without a pause.
    """
    raw: Any = connection.connection.driver_connection
    options = connection.get_execution_options()
    if options.get("oddarms_reads", False):
        raw.execute("BEGIN")
        return
    deadline = time.monotonic() + options.get("oddarms_waits", LOCK_SECONDS)
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                raw.execute("BEGIN IMMEDIATE")
                return
            except raw.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                pause(TURN_SECONDS)
    finally:
        raw.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000:.0f}")
