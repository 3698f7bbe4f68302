"""A database with studies: a SQLite file, PostgreSQL, or memory, behind one small interface.

- `writing` is a transaction: when its block ends without an exception everything in it is on the
  disk (SQLite: WAL with synchronous=FULL; PostgreSQL: its default), and otherwise nothing is.
- Results are appended under `appending`, and `settled` waits until all appends have ended. So
  reading up to a number that `settled` returned misses no result.
- Tickets are handed out under `alone`, one caller at a time.
- A database that was unavailable is reached again at the next call.
- A forked process has no connection of its parent's.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from copy import copy
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from oddarms.errors import InvalidParameter, MissingExtra, OddarmsError, StorageFailed, UnknownStudy
from oddarms.interrupts import ended
from oddarms.studies._schema import TABLES, VERSION, Location, location_of, statements

LOCK_SECONDS = 10.0
"""How long a call waits for others; the caller may repeat it."""
HURRY_SECONDS = 0.5
"""How long it waits once a signal has asked the program to end."""
HOLD_SECONDS = 300.0
"""A client that has locked a study and does nothing for so long, as if suspended, loses it."""
PAGES_AT_ONCE = 2000
"""Free pages of a file that are given back in one transaction."""
TURN_SECONDS = 0.001
ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""After a minute without a sign of life the server of a connection counts as gone."""
DEADLOCKS = 5
"""How often a transaction is repeated that the server has ended for another one."""
ROWS_AT_ONCE = 500
"""Rows of one INSERT; SQLite allows 32,766 values."""
LOCK_SPACE, ASK_SPACE = 0x0DDA, 0x0DDB
"""Our parts of PostgreSQL's advisory locks."""

_memory_lock = threading.Lock()
_memory: list[Database] = []
_opened: weakref.WeakSet[Database] = weakref.WeakSet()


Returned = TypeVar("Returned")


class Deadlock(StorageFailed):
    """Two transactions waited for each other, and the server has ended this one."""


class Call(Protocol[Returned]):
    """A call that `Together` makes; once it is done it has an answer, or the storage's error."""

    answer: Returned | StorageFailed | None


class Together(Generic[Returned]):
    """Combines calls that arrive during a transaction into the next one.

    A transaction takes hardly longer for twenty calls than for one, and each would have to wait for
    all before it.

    Parameters
    ----------
    make
        Makes some calls in one transaction, and then sets their answers.
    """

    def __init__(self, make: Callable[[list[Any]], None]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._calls: list[Call[Returned]] = []

    def make(self, call: Call[Returned]) -> Returned:
        """Return the answer of a call; raise its error."""
        self._calls.append(call)
        try:
            with self._lock:
                while call.answer is None:
                    self._make_with_others(call)
        finally:
            self._calls.remove(call)
        if isinstance(call.answer, StorageFailed):
            raise call.answer
        return call.answer

    def _make_with_others(self, call: Call[Returned]) -> None:
        """Make a call together with those that wait; if one of them fails, make this one alone."""
        waiting = [one for one in self._calls if one.answer is None]
        try:
            self._make(waiting)
        except (InvalidParameter, StorageFailed) as error:
            if len(waiting) == 1:
                raise
            if isinstance(error, StorageFailed) and error.passing:  # each would wait as long
                for one in waiting:
                    one.answer = copy(error)
            else:
                self._make([call])


class Database:
    """A storage; `open_database` returns it."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._engine = _engine(location)
        self.dialect = self._engine.dialect.name
        self.observe: Callable[[str, float], object] = lambda _kind, _seconds: None
        """Called with "read" or "write" and the seconds of each transaction."""
        self._process = os.getpid()
        self._turn = threading.RLock() if location.memory else nullcontext()
        self._writes = threading.Lock()
        self._file = None if location.file is None else _identity(location.file)
        self.studies: weakref.WeakSet[Any] = weakref.WeakSet()
        """What else begins anew in a forked process."""
        _opened.add(self)
        weakref.finalize(self, _dispose, self._engine, self._process)

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self.location.name

    @property
    def is_postgresql(self) -> bool:
        """Whether it is PostgreSQL; otherwise it is SQLite."""
        return self.dialect == "postgresql"

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that may write."""
        self._check_file()
        with (
            self._timed("write"),
            self._translated(),
            self._alone_here() if self.location.file else nullcontext(),
            self._engine.begin() as connection,
        ):
            if self.is_postgresql and ended():  # a signal: do not make its sender wait
                execute(connection, f"SET LOCAL lock_timeout = {HURRY_SECONDS * 1000:.0f}")
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads."""
        with (
            self._timed("read"),
            self._translated(),
            self._engine.connect().execution_options(oddarms_reads=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def _alone_here(self) -> Iterator[None]:
        """Let one thread write at a time: SQLite would let them poll, each with a connection."""
        if not self._writes.acquire(timeout=LOCK_SECONDS):
            raise StorageFailed(f"{self.name}: other threads keep it locked.", passing=True)
        try:
            yield
        finally:
            self._writes.release()

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.observe(kind, time.monotonic() - began)

    @property
    def connections(self) -> int:
        """Connections that are in use."""
        pool = self._engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    def appending(self, connection: sa.Connection, study: int, *, alone: bool = False) -> None:
        """Lock a study for appending results: shared with other writers, or exclusively."""
        if self.is_postgresql:
            lock = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
            execute(connection, f"SELECT {lock}({LOCK_SPACE}, :study)", study=study)

    def alone(self, connection: sa.Connection, study: int) -> None:
        """Lock a study exclusively, for handing out tickets or changing it."""
        if self.is_postgresql:
            execute(connection, f"SELECT pg_advisory_xact_lock({ASK_SPACE}, :study)", study=study)

    def settled(self, study: int) -> int:
        """Return the number of the last result; none with a lower number will appear later."""
        with self.reading() as connection:
            if self.is_postgresql:
                execute(
                    connection, f"SELECT pg_advisory_xact_lock({LOCK_SPACE}, :study)", study=study
                )
            last = "SELECT coalesce(max(id), 0) FROM results WHERE study = :study"
            return int(execute(connection, last, study=study).scalar_one())

    def repeated(self, call: Callable[[], Returned]) -> Returned:
        """Make a call that is one transaction; repeat it after a deadlock."""
        for _ in range(DEADLOCKS):
            try:
                return call()
            except Deadlock:
                pass
        return call()

    def insert(
        self, connection: sa.Connection, table: str, columns: list[str], rows: Any, more: str = ""
    ) -> list[Any]:
        """Insert rows, and return what the end of the statement returns.

        Python lets other threads run around each step of a statement, and may wait milliseconds
        for its turn then; so a statement inserts many rows in one step.
        """
        raw: Any = connection.connection.driver_connection
        names = ", ".join(columns)
        if self.is_postgresql and more:  # an array for each column: many parameters take long
            kinds = {"worker": "text", "reward": "float8", "told": "float8"}
            arrays = ", ".join(f"%s::{kinds.get(column, 'bigint')}[]" for column in columns)
            statement = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) {more}"
            return list(
                raw.execute(statement, [list(column) for column in zip(*rows, strict=True)])
            )
        if self.is_postgresql:
            with raw.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copying:
                for one in rows:
                    copying.write_row(one)
            return []
        row = f"({', '.join('?' * len(columns))})"
        found: list[Any] = []
        left = iter(rows)
        while some := list(islice(left, ROWS_AT_ONCE)):
            statement = (
                f"INSERT INTO {table} ({names}) VALUES {', '.join([row] * len(some))} {more}"
            )
            cursor = raw.execute(statement, list(chain.from_iterable(some)))
            found += cursor.fetchall() if more else []
        return found

    def now(self, connection: sa.Connection) -> Now:
        """Return the time by which leases go, and the time of day."""
        if self.is_postgresql:
            wall = execute(connection, "SELECT extract(epoch FROM clock_timestamp())").scalar_one()
            return Now(float(wall), float(wall), 0)
        return Now(time.time(), steady(), boot())

    def check(self) -> None:
        """Raise `StorageFailed` unless the database answers and its file is in its place."""
        self._check_file()
        with self.reading() as connection:
            execute(connection, "SELECT version FROM oddarms")

    def shrink(self) -> None:
        """Give the pages of a file that a deletion has freed back, a few in each transaction."""
        if self.location.file is None:
            return
        with self.reading() as connection:
            free = int(execute(connection, "PRAGMA freelist_count").scalar_one())
        for _ in range(0, free, PAGES_AT_ONCE):
            with self._translated(), self._alone_here(), self._engine.connect() as connection:
                raw: Any = connection.connection.driver_connection
                raw.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")  # runs to its end

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._engine.dispose()

    def begin_in_child(self) -> None:
        """Forget the parent's threads, one of which may have been writing."""
        self._writes = threading.Lock()
        for study in self.studies:
            study.begin_in_child()

    def check_integrity(self) -> list[str]:
        """Return what the database's own check finds wrong; PostgreSQL checks its pages itself."""
        if self.is_postgresql:
            return []
        with self.reading() as connection:
            found = [str(row[0]) for row in execute(connection, "PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def _check_file(self) -> None:
        """Refuse to write to a file that was moved or replaced: the data would be lost."""
        if self.location.file is not None and _identity(self.location.file) != self._file:
            raise StorageFailed(
                f"{self.name}: the file was removed or replaced while it was in use, so nothing of"
                " this call was recorded. Put it back, with its -wal file, and open it again."
            )

    # Creation

    def prepare(self, *, create: bool) -> bool:
        """Check the schema, creating it in an empty database; return False if it stays empty."""
        with self.reading() as connection:
            if self._has_schema(connection):
                return True
        if create:
            if not self.is_postgresql and not self.location.memory:
                self._use_wal()
            with self.writing() as connection:
                self.alone(connection, 0)
                if not self._has_schema(connection):
                    for statement in statements(self.dialect):
                        connection.exec_driver_sql(statement)
                    execute(
                        connection,
                        "INSERT INTO oddarms (version) VALUES (:version)",
                        version=VERSION,
                    )
        return create

    def _has_schema(self, connection: sa.Connection) -> bool:
        if not self.is_postgresql:
            _check_schema(connection.connection.driver_connection, self.name)
        tables = _tables(connection)
        if not tables:
            return False
        if "oddarms" not in tables or not tables >= TABLES:
            raise _other_tables(self.name, tables)
        version = execute(connection, "SELECT version FROM oddarms").scalar()
        if version != VERSION:
            raise StorageFailed(
                f"{self.name} was written by another version of oddarms (schema {version}, while"
                f" this one has {VERSION}): export its studies with that version."
            )
        return True

    def _use_wal(self) -> None:
        """Let readers and the writer of a new file not wait for each other, and it can shrink."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                with self._translated(), self._engine.connect() as connection:
                    raw: Any = connection.connection.driver_connection
                    raw.execute("PRAGMA auto_vacuum = INCREMENTAL")
                    raw.execute("PRAGMA journal_mode = WAL")
                    return
            except StorageFailed as error:  # changing the mode does not wait for locks
                if not error.passing or time.monotonic() > deadline:
                    raise
                time.sleep(10.0 * TURN_SECONDS)

    # Errors

    @contextmanager
    def _translated(self) -> Iterator[None]:
        if self.location.memory and self._process != os.getpid():
            raise StorageFailed(
                "memory: this storage belongs to another process; processes share a file or"
                " PostgreSQL."
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
            raise self._failed(Failure(failure_of(error).reason, passing)) from self._cause(error)
        except UnicodeDecodeError:
            raise self._failed(Failure(_DAMAGED, passing=False)) from None
        except driver.Error as error:  # `insert` does not go through SQLAlchemy
            raise self._failed(failure_of(error)) from self._cause(error)

    def _failed(self, failure: Failure) -> StorageFailed:
        safe = failure.known or self.location.is_safe(failure.reason)
        reason = failure.reason if safe else "it failed with a message that contains the password"
        kind = Deadlock if failure.reason == _DEADLOCK else StorageFailed
        return kind(f"{self.name}: {reason}.", passing=failure.passing)

    def _cause(self, error: Exception) -> Exception | None:
        return error if self.location.is_safe(str(error)) else None


def open_database(storage: str | Path | None, *, create: bool = False) -> Database:
    """Return a storage; if it is empty, create its tables or raise `UnknownStudy`."""
    location = location_of(storage)
    if location.memory:
        with _memory_lock:
            if not _memory:
                _memory.append(Database(location))
                _memory[0].prepare(create=True)
            return _memory[0]
    if create and location.file is not None and not Path(location.file).exists():
        _make_file(location.file)
    if location.file is None or Path(location.file).exists():
        _look_at_file(location.file)
        database = Database(location)
        if database.prepare(create=create):
            return database
    raise UnknownStudy(
        f"{location.name} does not exist, or has no studies: name another storage, or make a"
        " study with `oddarms study create`."
    )


# Statements


class Now(NamedTuple):
    """The time of day, for people; and the time by which leases go, with the machine's boot."""

    wall: float
    steady: float
    boot: int


@lru_cache(maxsize=256)
def _text(statement: str) -> sa.TextClause:
    return sa.text(statement)


def execute(connection: sa.Connection, statement: str, **values: Any) -> Any:
    """Execute a statement; values are parameters."""
    return connection.execute(_text(statement), values)


@cache
def boot() -> int:
    """Return a number for this boot of the machine, 0 if unknown (not Linux)."""
    try:
        digest = hashlib.sha256(Path("/proc/sys/kernel/random/boot_id").read_bytes()).digest()
    except OSError:
        return 0
    return 1 + int.from_bytes(digest[:7], "big")


def steady() -> float:
    """Return seconds of a clock that cannot be set; it runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if boot() else time.time()


# Connections


def _engine(location: Location) -> sa.Engine:
    if location.server is None:
        return _sqlite_engine(location.file)
    try:
        engine = sa.create_engine(location.server, connect_args={"connect_timeout": 5, **ALIVE})
    except ModuleNotFoundError:
        raise MissingExtra.of("postgresql", "PostgreSQL") from None
    except (NoSuchModuleError, sa.exc.ArgumentError, ValueError):
        raise InvalidParameter("storage must be a URL that names a server.") from None
    sa.event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    """Let locks end, also those of a client that is gone, and sync even if told not to."""
    sync = "current_setting('synchronous_commit')"
    limits = {"lock_timeout": LOCK_SECONDS, "idle_in_transaction_session_timeout": HOLD_SECONDS}
    settings = [f"set_config('{name}', '{n * 1000:.0f}', false)" for name, n in limits.items()]
    settings += [f"set_config('tcp_{name}', '{n}', false)" for name, n in ALIVE.items()]
    settings += [f"set_config('synchronous_commit', replace({sync}, 'off', 'on'), false)"]
    connection.execute(f"SELECT {', '.join(settings)}")
    connection.commit()


def _sqlite_engine(file: str | None) -> sa.Engine:
    if file is None:
        engine = sa.create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
    else:
        pool: Any = QueuePool if _is_writable(file) else NullPool
        engine = sa.create_engine(
            "sqlite://",
            poolclass=pool,
            creator=lambda: sqlite3.connect(_address(file), uri=True, check_same_thread=False),
        )
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _address(file: str) -> str:
    """Return the file as a URI with which SQLite does not create it.

    With read permission only, a file in use is read through the -wal file of its writers. A file
    that is not in use needs no locks.
    """
    path = quote(os.fsencode(os.path.abspath(file)))
    if _is_writable(file):
        return f"file:{path}?mode=rw"
    in_use = Path(f"{file}-wal").exists()
    return f"file:{path}?mode=ro" if in_use else f"file:{path}?mode=ro&immutable=1"


def _is_writable(file: str) -> bool:
    effective = os.access in os.supports_effective_ids
    folder = os.path.dirname(os.path.abspath(file))
    return all(os.access(path, os.W_OK, effective_ids=effective) for path in (file, folder))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, not at the first INSERT
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")  # a file may come from anywhere
    connection.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000:.0f}")


def _begin_sqlite(connection: sa.Connection) -> None:
    """Begin a transaction; one that writes waits for its turn.

    SQLite itself looks ten times a second only, and may find others there for many seconds if they
    write without a pause.
    """
    raw: Any = connection.connection.driver_connection
    if connection.get_execution_options().get("oddarms_reads", False):
        raw.execute("BEGIN")
        return
    deadline = time.monotonic() + LOCK_SECONDS
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                raw.execute("BEGIN IMMEDIATE")
                return
            except raw.OperationalError as error:
                if ended():  # a signal: do not make its sender wait
                    deadline = min(deadline, time.monotonic() + HURRY_SECONDS)
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(TURN_SECONDS)
    finally:
        raw.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000:.0f}")


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections of a storage that is no longer used, if they are this process's."""
    if process == os.getpid():
        engine.dispose()


def _close_before_fork() -> None:
    for database in list(_opened):
        if not database.location.memory:
            database.close()


def _begin_in_child() -> None:
    for database in _opened:
        database.begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork, after_in_child=_begin_in_child)


# Files


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_file(path: str) -> None:
    """Create an empty file for its owner alone; SQLite copies the mode for -wal and -shm."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        reason = failure_of("unable to open").reason
        raise StorageFailed(f"{path}: {reason} ({error.strerror}).") from None


def _look_at_file(path: str | None) -> None:
    """Refuse a file whose tables are not ours, before opening it changes its -wal file."""
    if path is None:
        return
    address = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            _check_schema(connection, path)
    except (sqlite3.Error, UnicodeDecodeError):
        pass  # opening it says what is wrong


def _check_schema(connection: Any, path: str) -> None:
    """Refuse tables that are not ours.

    A trigger, a view or a computed column would run whatever its author likes, and values of
    tables that are not strict may have any type. Some of them may be in the -wal file only, which
    is first read when the file is opened.
    """
    ours = set(statements("sqlite"))
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    alien = [
        str(name)
        for kind, name, sql in found
        if kind not in ("table", "index") or (name in TABLES and sql not in ours)
    ]
    names = {str(name) for _, name, _ in found}
    if names and "oddarms" not in names:
        raise _other_tables(path, names)
    if not alien:
        return
    if "oddarms" not in alien:
        version = connection.execute("SELECT version FROM oddarms").fetchone()
        if version != (VERSION,):
            return  # its tables may differ
    raise StorageFailed(
        f"{path} has tables that oddarms did not create, triggers or views"
        f" ({', '.join(sorted(alien)[:3])}); none of them was run."
    )


def _other_tables(name: str, tables: set[str]) -> StorageFailed:
    others = ", ".join(sorted(tables - TABLES or tables)[:3])
    return StorageFailed(
        f"{name} is a database with other tables ({others}), which were not touched: choose another"
        " file or database."
    )


_RELATIONS = """
SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'a', 'i')
)
"""


def _tables(connection: sa.Connection) -> set[str]:
    """Return the names of all tables and views, but for those of the database and extensions."""
    found = connection.exec_driver_sql(
        _RELATIONS
        if connection.dialect.name == "postgresql"
        else "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    )
    return {str(row[0]) for row in found if not str(row[0]).startswith("sqlite_")}


# What a database says when it fails


class Failure(NamedTuple):
    """A reason in words, whether a repeated call may succeed, and whether the words are ours."""

    reason: str
    passing: bool
    known: bool = False


_LOST = (
    "the connection to the server was lost, so this call may have been recorded or not: repeat it,"
    " a result that is told twice counts once"
)
_FULL = "the disk is full; nothing of this call was recorded, everything before it is"
_DEADLOCK = "two calls waited for each other; nothing of this one was recorded: repeat it"
_STARTING = "the server is starting; repeat the call"
_UNAVAILABLE = "the server cannot be reached"
_DAMAGED = "it is damaged; the command `sqlite3 FILE .recover` may save what is left"

# In this order: the first mark that the message contains decides.
_LASTING = {
    "readonly": "it cannot be written to",
    "read-only": "it cannot be written to",
    "permission denied": "this user may not do that there",
    "unable to open": "it cannot be opened: the folder must exist and be writable",
    "not a database": "it is not a SQLite file, or it is damaged",
    "malformed": _DAMAGED,
    "password authentication": "the user or the password is wrong",
    "no password supplied": "the server wants a password and none was given",
    "no pg_hba.conf entry": "the server does not let this user in from here",
    "does not exist": "there is no such database, user or table",
    "foreign key constraint": "the study was deleted",
}
_PASSING = {
    "disk is full": _FULL,
    "no space left": _FULL,
    "disk i/o error": "the disk failed; nothing of this call was recorded",
    "is locked": "another process keeps it locked",
    "lock timeout": "another process keeps it locked",
    "deadlock": _DEADLOCK,
    "too many": "the server has no connection left to give",
    "remaining connection slots": "the server has no connection left to give",
    "starting up": _STARTING,
    "not yet accepting": _STARTING,
    "recovery mode": _STARTING,
    "shutting down": "the server is shutting down",
    "connection refused": _UNAVAILABLE,
    "could not connect": _UNAVAILABLE,
    "connection failed": _UNAVAILABLE,
    "connection timeout": _UNAVAILABLE,
    "server closed the connection": _LOST,
    "terminating connection": _LOST,
    "connection is lost": _LOST,
    "connection is closed": _LOST,
    "administrator command": _LOST,
    # what psycopg says of a server that was killed between two queries
    "sending query failed": _LOST,
    "pipeline mode while busy": _LOST,
    "another command is already in progress": _LOST,
}


def failure_of(error: object, *, gone: bool = False) -> Failure:
    """Return what an error of the database means; `gone` if the connection was lost with it."""
    text = str(error).lower()
    for reasons, passing in ((_LASTING, False), (_PASSING, True)):
        known = next((reason for mark, reason in reasons.items() if mark in text), None)
        if known is not None:
            return Failure(known, passing, known=True)
    if gone:
        return Failure(_LOST, passing=True, known=True)
    return Failure(str(error).strip().partition("\n")[0].rstrip("."), passing=False)
