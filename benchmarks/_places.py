"""Where the storage benchmark writes: new and empty databases, and how large they are."""

from __future__ import annotations

import importlib
import itertools
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

MISSING_SERVER = "No rows of PostgreSQL: it is not installed here, and --storage names none."


class Place(Protocol):
    """A kind of database."""

    name: str

    def version(self) -> str:
        """Return the version of the database's programs."""

    def new(self) -> str:
        """Return the SQLAlchemy URL of a new, empty database."""

    def size(self, url: str) -> int:
        """Return the bytes that a database takes on the disk."""

    def remove(self, url: str) -> None:
        """Remove a database that nobody uses any more."""


class Files:
    """SQLite files in a folder."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    def version(self) -> str:
        """Return the version of SQLite."""
        return sqlite3.sqlite_version

    def new(self) -> str:
        """Return the URL of a file that does not exist yet."""
        return f"sqlite:///{self._folder.resolve() / f'{next(self._numbers)}.db'}"

    def size(self, url: str) -> int:
        """Return the bytes of a file and of what SQLite keeps beside it, after a checkpoint."""
        file = file_of(url)
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*"))

    def remove(self, url: str) -> None:
        """Remove a file and what is beside it."""
        file = file_of(url)
        for part in file.parent.glob(f"{file.name}*"):
            part.unlink()


class Databases:
    """Databases of a PostgreSQL server, whose names begin with "oddarms_benchmark"."""

    name = "PostgreSQL"

    def __init__(self, url: str) -> None:
        self._server = driver_url(url)
        self._numbers = itertools.count(1)

    def version(self) -> str:
        """Return the version of the server."""
        import psycopg

        with psycopg.connect(self._server) as connection:
            return str(connection.info.parameter_status("server_version"))

    def new(self) -> str:
        """Make a database."""
        import sqlalchemy as sa

        name = f"oddarms_benchmark_{next(self._numbers)}"
        self._execute(f"DROP DATABASE IF EXISTS {name}")
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0")
        server = sa.make_url(self._server)
        url = server.set(drivername="postgresql+psycopg", database=name)
        return url.render_as_string(hide_password=False)

    def size(self, url: str) -> int:
        """Return the bytes of all tables with their indexes."""
        import psycopg

        with psycopg.connect(driver_url(url)) as connection:
            found = connection.execute(
                "SELECT COALESCE(SUM(pg_total_relation_size(relid)), 0) FROM pg_stat_user_tables"
            ).fetchone()
        assert found is not None
        return int(found[0])

    def remove(self, url: str) -> None:
        """Remove a database."""
        self._execute(f"DROP DATABASE {url.rpartition('/')[2].partition('?')[0]} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(statement.encode())


def file_of(url: str) -> Path:
    """Return the file that a SQLite URL names."""
    return Path(url.removeprefix("sqlite:///"))


def driver_url(url: str) -> str:
    """Return a PostgreSQL URL as psycopg itself takes it."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


@contextmanager
def places(url: str | None) -> Iterator[list[Place]]:
    """Yield SQLite and, where there is one, PostgreSQL; both on the working directory's disk.

    Parameters
    ----------
    url
        Of a PostgreSQL server, as a user who may make databases; by default a server is started,
        if its programs are installed.
    """
    with tempfile.TemporaryDirectory(dir=".", prefix="benchmark-") as folder:
        files: list[Place] = [Files(Path(folder))]
        if url is not None:
            yield [*files, Databases(url)]
            return
        with _own_server() as own:
            yield [*files, *([] if own is None else [Databases(own)])]


@contextmanager
def _own_server() -> Iterator[str | None]:
    """Yield the URL of a server that runs until the block ends, None if there are no programs."""
    tests = str(Path(__file__).resolve().parents[1] / "tests")
    if tests not in sys.path:  # its modules import each other by name
        sys.path.append(tests)
    postgresql = importlib.import_module("postgresql")
    binaries = postgresql.find_binaries()
    if binaries is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(dir=".", prefix="benchmark-postgresql-")).resolve()
    try:
        server = postgresql.Server(binaries, folder)
        try:
            server.start()
            yield server.url
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
