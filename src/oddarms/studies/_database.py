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
- A forked process has no connection of its parent's: a file's locks would not hold in it, and its
  results would be lost when the parent closes the file.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from oddarms.errors import InvalidParameter, MissingExtra, StoreFailed
from oddarms.interrupts import uninterrupted

REVISIONS = ("0001", "0002", "0003")
"""Versions of the schema, oldest first; the files of `migrations` have them."""

DEFAULT_FILE = "oddarms.db"
VARIABLE = "ODDARMS_STORAGE"
LOCK_SECONDS = 60.0
TURN_SECONDS = 0.001
HOLD_SECONDS = 300.0
"""Whoever has a study alone and does nothing for so long, as a suspended process, loses it."""
SILENCE_SECONDS = 60
"""After so long without a sign of life the other side of a connection counts as gone."""
LOCK_SPACE = 0x0DDA
"""Our part of PostgreSQL's advisory locks."""

_FORMS = "storage must be a path, sqlite:///FILE, postgresql://USER@HOST/NAME or memory"

_memory: dict[str, Database] = {}
_memory_lock = threading.Lock()
_upgrading = threading.Lock()  # alembic does one at a time
_opened: weakref.WeakSet[Database] = weakref.WeakSet()


def storage_url(storage: str | Path | None) -> str:
    """Return the URL of a storage: as given, from the environment, or a file right here.

    A path stands for a SQLite file, "memory" for one that lives as long as the process.
    """
    chosen = storage if storage is not None else os.environ.get(VARIABLE) or DEFAULT_FILE
    text = str(chosen)
    if not text.strip() or text == "sqlite:///":  # SQLite would take these for memory
        raise InvalidParameter(f"storage must name a file or a server but got {text!r}.")
    if text in ("memory", "memory:", ":memory:", "sqlite://", "sqlite:///:memory:"):
        return "sqlite://"
    scheme, mark, rest = text.partition("://")
    if mark and scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        return f"postgresql+psycopg://{rest}"
    file = rest.removeprefix("/") if mark else text
    known = not mark or scheme in ("sqlite", "sqlite+pysqlite")
    if not known or not file or "\0" in file or not isinstance(chosen, str | Path):
        shown = f"{scheme}://..." if "@" in rest else chosen  # there may be a password in it
        raise InvalidParameter(f"{_FORMS} but got {shown!r}.")
    return f"sqlite:///{file}"


class Database:
    """A storage; `open_database` returns it, at the present version."""

    lock_space = LOCK_SPACE

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = _engine(url)
        self.dialect = self._engine.dialect.name
        self._process = os.getpid()
        self._turn = threading.RLock() if self.one_connection else nullcontext()
        _opened.add(self)
        weakref.finalize(self, _dispose, self._engine, self._process)

    @property
    def one_connection(self) -> bool:
        """True if all transactions use the same connection, one after the other."""
        return self.url == "sqlite://"

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        if self.one_connection:
            return "memory"
        if self.dialect == "sqlite":
            return self.url.removeprefix("sqlite:///")
        return sa.make_url(self.url).render_as_string(hide_password=True).replace("+psycopg", "")

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that may write; Ctrl-C waits for its end."""
        with uninterrupted(), self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def statement(self) -> Iterator[sa.Connection]:
        """A transaction of one statement, which on PostgreSQL is one message to and fro."""
        if self.dialect != "postgresql":
            with self.writing() as connection:
                yield connection
            return
        with uninterrupted(), self._translated(), self._engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

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
        if self.dialect == "postgresql":
            limit = "set_config('idle_in_transaction_session_timeout', :limit, true)"
            call = sa.text(f"SELECT {limit}, {function}(:space, :study)")
            milliseconds = f"{HOLD_SECONDS * 1000:.0f}"
            connection.execute(call, {"limit": milliseconds, "space": LOCK_SPACE, "study": study})

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
        with _upgrading, self.writing() as connection:
            self.exclusive(connection, 0)
            config.attributes["connection"] = connection
            command.upgrade(config, REVISIONS[-1])

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
        except DBAPIError as error:
            gone = error.connection_invalidated
            raise self._failed(_reason(error.orig, gone=gone)) from error
        except SQLAlchemyError as error:
            raise StoreFailed(f"{self.name}: {_first_line(error)}.") from error
        except UnicodeError as error:  # in a text or, of SQLite, in a message about one
            raise StoreFailed(f"{self.name}: {_REASONS['malformed']}.") from error
        except driver.Error as error:  # `copy` does not go through SQLAlchemy
            raise self._failed(_reason(error)) from error

    def _failed(self, reason: str) -> StoreFailed:
        return StoreFailed(f"{self.name}: {reason}.", passing=reason in _PASSING)


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
            options = {"connect_args": {"connect_timeout": 10, **_keepalives("")}}
        file = url.removeprefix("sqlite:///")  # as it is: a name may have a ? in it
        target = url if file == url else sa.URL.create("sqlite", database=file)
        engine = sa.create_engine(target, **options)
    except ModuleNotFoundError:
        raise MissingExtra.of("postgresql", "PostgreSQL") from None
    except (NoSuchModuleError, sa.exc.ArgumentError, ValueError):  # of the port
        raise InvalidParameter(f"{_FORMS} but the URL given is none of these.") from None
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:
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


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, not at the first INSERT
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except connection.OperationalError as error:  # changing the mode does not wait for locks
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous = FULL")


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    """Let the server notice a worker's machine that is gone, and sync even if it is told not to.

    The locks of a transaction last as long as the server thinks that its client is there.
    """
    sync = "current_setting('synchronous_commit')"
    settings = [f"set_config('{name}', '{n}', false)" for name, n in _keepalives("tcp_").items()]
    settings += [f"set_config('synchronous_commit', replace({sync}, 'off', 'on'), false)"]
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
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(TURN_SECONDS)
    finally:
        raw.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000:.0f}")


_WENT_AWAY = (
    "the server went away and this call may have been recorded or not: repeat it, what was told"
    " twice counts once"
)
_REASONS = {
    "disk is full": "the disk is full; nothing of this call was recorded, everything before it is",
    "disk i/o error": "the disk failed; nothing of this call was recorded",
    "readonly": "it cannot be written to",
    "unable to open": "it cannot be opened: the folder must exist and be writable",
    "not a database": "it is not a SQLite file, or it is damaged",
    "malformed": "it is damaged; the command `sqlite3 FILE .recover` may save what is left",
    "is locked": f"another process has kept it locked for {LOCK_SECONDS:.0f} seconds",
    "deadlock": "two calls waited for each other; nothing of this one was recorded: repeat it",
    "no space left": "the disk is full; nothing of this call was recorded, everything before it is",
    "password authentication": "the user or the password is wrong",
    "no pg_hba.conf entry": "the server does not let this user in from here",
    "too many": "the server has no connection left to give",
    "does not exist": "there is no such database or user",
    "starting up": "the server is starting; repeat the call",
    "not yet accepting": "the server is starting; repeat the call",
    "shutting down": "the server is shutting down",
    "connection refused": "the server cannot be reached",
    "could not connect": "the server cannot be reached",
    "connection failed": "the server cannot be reached",
    "server closed the connection": _WENT_AWAY,
    "terminating connection": _WENT_AWAY,
    "connection is lost": _WENT_AWAY,
    "connection is closed": _WENT_AWAY,
    "sending query failed": _WENT_AWAY,  # what psycopg says of one that ends amid several queries
    "pipeline mode while busy": _WENT_AWAY,
    "another command is already in progress": _WENT_AWAY,
}
_PASSING = {
    _WENT_AWAY,
    *(
        _REASONS[mark]
        for mark in (
            "disk is full",
            "is locked",
            "deadlock",
            "no space left",
            "too many",
            "starting up",
            "not yet accepting",
            "shutting down",
            "connection refused",
        )
    ),
}
"""Reasons for which the same call may succeed a while later."""


def _reason(error: object, *, gone: bool = False) -> str:
    text = str(error).lower()
    known = next((reason for mark, reason in _REASONS.items() if mark in text), None)
    return known or (_WENT_AWAY if gone else _first_line(error))


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
