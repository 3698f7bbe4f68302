"""Results recorded per second by many processes, against bare inserts with the same durability."""

from __future__ import annotations

import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddarms.studies import create_study, load_study

PROCESSES = 8
BATCH = 100
ARMS = 1000
NAME = "benchmark"
BARE_TABLE = (
    "(number {serial} PRIMARY KEY, study BIGINT, ticket BIGINT, arm BIGINT,"
    " reward DOUBLE PRECISION, worker TEXT, told DOUBLE PRECISION)"
)


@dataclass(frozen=True)
class StorageRow:
    """Rows per second: bare inserts, single tells, and tells in batches of a hundred."""

    storage: str
    bare: float
    tells: float
    batched: float

    @property
    def tells_over_bare(self) -> float:
        """Single tells as a share of bare inserts."""
        return self.tells / self.bare

    @property
    def batched_over_tells(self) -> float:
        """How many times faster tells are in batches."""
        return self.batched / self.tells


def storage_rates(url: str | None = None, seconds: float = 3.0) -> StorageRow:
    """Let eight processes insert rows, then tell results, into the same kind of database.

    Parameters
    ----------
    url
        A PostgreSQL URL, whose tables `bare_rows` and a study "benchmark" are made and deleted;
        by default a new SQLite file in the working directory, so that its disk is measured.
    seconds
        How long each of the measurements takes.
    """
    with tempfile.TemporaryDirectory(dir=".") as folder:
        place = str(Path(folder) / "bare.db") if url is None else url
        storage = str(Path(folder) / "study.db") if url is None else url
        insert = _bare_sqlite if url is None else _bare_postgresql
        _make_bare_table(place, url)
        tickets = int(seconds * 1e4)
        _make_study(storage, PROCESSES * tickets)
        before = _rate(insert, [(place, seconds)] * PROCESSES, seconds)
        starts = [1 + tickets * i for i in range(PROCESSES)]
        tells = _rate(_tell, [(storage, first, 1, seconds) for first in starts], seconds)
        again = [first + tickets // 4 for first in starts]
        batched = _rate(_tell, [(storage, first, BATCH, seconds) for first in again], seconds)
        after = _rate(insert, [(place, seconds)] * PROCESSES, seconds)
        _clean_up(storage, url)
    name = "SQLite" if url is None else "PostgreSQL"
    return StorageRow(name, (before + after) / 2.0, tells, batched)


def _rate(target: Callable[..., None], arguments: list[tuple[Any, ...]], seconds: float) -> float:
    """Run a function in as many processes as there are arguments, started together."""
    context = multiprocessing.get_context("spawn")
    start, counts = context.Barrier(len(arguments)), context.Queue()
    processes = [
        context.Process(target=target, args=(start, counts, *own), daemon=True) for own in arguments
    ]
    for process in processes:
        process.start()
    total = sum(counts.get(timeout=60.0 + 10.0 * seconds) for _ in processes)
    for process in processes:
        process.join()
    return float(total) / seconds


def _tell(start: Any, counts: Any, storage: str, first: int, batch: int, seconds: float) -> None:
    study = load_study(NAME, storage=storage)
    study.tell(first, 0.5)
    ticket, told = first + 1, 0
    start.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if batch == 1:
            study.tell(ticket, 0.5)
        else:
            study.tell_many([(ticket + i, 0.5) for i in range(batch)])
        ticket += batch
        told += batch
    counts.put(told)


def _bare_sqlite(start: Any, counts: Any, path: str, seconds: float) -> None:
    connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    rows = 0
    start.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO bare_rows (study, ticket, arm, reward, worker, told)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (1, rows, 5, 0.5, "worker", time.time()),
        )
        connection.execute("COMMIT")
        rows += 1
    connection.close()
    counts.put(rows)


def _bare_postgresql(start: Any, counts: Any, url: str, seconds: float) -> None:
    import psycopg

    rows = 0
    with psycopg.connect(url) as connection:
        start.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.execute(
                "INSERT INTO bare_rows (study, ticket, arm, reward, worker, told)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                (1, rows, 5, 0.5, "worker", time.time()),
            )
            connection.commit()
            rows += 1
    counts.put(rows)


def _make_bare_table(place: str, url: str | None) -> None:
    if url is None:
        with sqlite3.connect(place) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE bare_rows " + BARE_TABLE.format(serial="INTEGER"))
        connection.close()
        return
    import psycopg

    with psycopg.connect(url) as server:
        server.execute("DROP TABLE IF EXISTS bare_rows")
        server.execute("CREATE TABLE bare_rows " + BARE_TABLE.format(serial="BIGSERIAL"))


def _make_study(storage: str, tickets: int) -> None:
    """Make a study with many tickets handed out, more than the algorithm asks for at a time."""
    from oddarms.studies import _records as records

    study = create_study(NAME, range(ARMS), rng=0, storage=storage)
    now = time.time()
    with study._database.writing() as connection:
        places = [(i % ARMS, i // ARMS) for i in range(tickets)]
        records.add_tickets(
            study._database, connection, study._number, places, None, now, now + 3600.0
        )


def _clean_up(storage: str, url: str | None) -> None:
    from oddarms.studies import delete_study

    if url is not None:
        import psycopg

        delete_study(NAME, storage=storage)
        with psycopg.connect(url) as server:
            server.execute("DROP TABLE bare_rows")
