"""Results recorded per second, beside bare inserts into the same database; opening a study.

Each measurement has a new database. The two ways of a row are measured in turn, so that other load
on the machine affects both.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.studies import create_study, load_study

Record = Callable[[], int]
"""Records once and returns how many results that were, 0 if it has no more."""
Way = Callable[[str, int], AbstractContextManager[Record]]
"""Prepares recording into the database of a URL, at most so many results."""

BATCH = 100
ARMS = 1000
ALL_IN_ONE_STEP = 1000
"""Pulls of an arm a step, so that all tickets are handed out before the first result."""
NAME = "benchmark"
LEASE = timedelta(hours=1)
LOCK_SECONDS = 60.0
MAX_START_SECONDS = 300.0
REWARD = 0.5
BARE_COLUMNS = (
    "study BIGINT, ticket BIGINT, arm BIGINT, reward DOUBLE PRECISION, worker TEXT,"
    " told DOUBLE PRECISION"
)


class Place:
    """A kind of database: SQLite files in a folder, or databases of a PostgreSQL server."""

    def __init__(self, folder: Path, server: str | None = None) -> None:
        self.name = "SQLite" if server is None else "PostgreSQL"
        self._folder = folder
        self._server = server
        self._numbers = itertools.count(1)

    def new(self) -> str:
        """Return the URL of a new, empty database."""
        number = next(self._numbers)
        if self._server is None:
            return f"sqlite:///{self._folder.resolve() / f'{number}.db'}"
        import sqlalchemy as sa

        name = f"oddarms_benchmark_{number}"
        self._execute(f"DROP DATABASE IF EXISTS {name}")
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0")
        url = sa.make_url(self._server).set(drivername="postgresql+psycopg", database=name)
        return url.render_as_string(hide_password=False)

    def remove(self, url: str) -> None:
        """Remove a database."""
        name = url.rpartition("/")[2].partition("?")[0]
        if self._server is not None:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")
            return
        for part in self._folder.glob(f"{name}*"):
            part.unlink()

    def _execute(self, statement: str) -> None:
        import psycopg

        assert self._server is not None
        with psycopg.connect(_driver_url(self._server), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def places(server: str | None) -> Iterator[list[Place]]:
    """Yield SQLite, on the disk of the working directory, and PostgreSQL if a URL is given."""
    with tempfile.TemporaryDirectory(dir=".", prefix="benchmark-") as name:
        folder = Path(name)
        yield [Place(folder), *([] if server is None else [Place(folder, server)])]


def _driver_url(url: str) -> str:
    """Return a PostgreSQL URL as psycopg itself takes it."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


# Studies


def make_study(url: str) -> None:
    """Make a study of the default algorithm."""
    create_study(NAME, range(ARMS), rng=0, storage=url)


def make_wide_study(url: str) -> None:
    """Make a study that hands out as many tickets as wanted before it needs a result."""
    create_study(NAME, range(ARMS), rng=0, storage=url, algorithm="rr", batch=ALL_IN_ONE_STEP)


@contextmanager
def ask_and_tell(url: str, supply: int) -> Iterator[Record]:  # noqa: ARG001 - it asks as it goes
    """Ask for a ticket, tell its result."""
    study = load_study(NAME, storage=url)

    def record() -> int:
        tickets = study.ask(worker="worker")
        for ticket in tickets:
            study.tell(ticket, REWARD, worker="worker")
        return len(tickets)

    yield record


@contextmanager
def tell(url: str, supply: int) -> Iterator[Record]:
    """Tell the result of a ticket asked before."""
    study = load_study(NAME, storage=url)
    tickets = iter(study.ask(supply, "worker", LEASE))

    def record() -> int:
        ticket = next(tickets, None)
        if ticket is not None:
            study.tell(ticket, REWARD, worker="worker")
        return int(ticket is not None)

    yield record


@contextmanager
def tell_batches(url: str, supply: int) -> Iterator[Record]:
    """Tell a hundred results of tickets asked before at once."""
    study = load_study(NAME, storage=url)
    tickets = iter(study.ask(supply, "worker", LEASE))

    def record() -> int:
        batch = list(itertools.islice(tickets, BATCH))
        study.tell_many([(ticket, REWARD) for ticket in batch], worker="worker")
        return len(batch)

    yield record


# Bare inserts


def make_bare_table(url: str) -> None:
    """Make a table like that of our results, without indexes."""
    with _opened(url) as connection:
        if url.startswith("sqlite"):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"CREATE TABLE bare_rows ({BARE_COLUMNS})")


@contextmanager
def insert(url: str, supply: int, batch: int = 1) -> Iterator[Record]:  # noqa: ARG001
    """Insert a row, or a batch of rows in one transaction."""
    rows = [(1, i, 5, REWARD, "worker", time.time()) for i in range(batch)]
    mark = "?" if url.startswith("sqlite") else "%s"
    statement = f"INSERT INTO bare_rows VALUES ({', '.join([mark] * 6)})"
    with _opened(url) as connection:
        cursor = connection.cursor()

        def record() -> int:
            cursor.execute("BEGIN")
            cursor.executemany(statement, rows)
            cursor.execute("COMMIT")
            return len(rows)

        yield record


def insert_batches(url: str, supply: int) -> AbstractContextManager[Record]:
    """Insert a hundred rows in one transaction."""
    return insert(url, supply, BATCH)


@contextmanager
def _opened(url: str) -> Iterator[Any]:
    """Yield a connection that commits every statement and syncs every commit to the disk."""
    if url.startswith("sqlite"):
        file = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file, LOCK_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
        return
    import psycopg

    with psycopg.connect(_driver_url(url), autocommit=True) as server:
        yield server


# Rates

TASKS: dict[str, tuple[Callable[[str], None], Way, Way, int]] = {
    "ask + tell": (make_study, ask_and_tell, insert, 0),
    "tell": (make_wide_study, tell, insert, 4_000),
    f"tell by {BATCH}": (make_wide_study, tell_batches, insert_batches, 60_000),
}
"""What is prepared, our way, the bare way, and how many results a second ours may want."""


@dataclass(frozen=True)
class StorageRow:
    """Median results a second, ours and bare inserts."""

    storage: str
    writers: int
    task: str
    ours: float
    bare: float


def storage_rates(
    found: list[Place],
    writers: tuple[int, ...],
    seconds: float,
    repeats: int,
    report: Callable[[str], None],
) -> list[StorageRow]:
    """Measure all tasks in all places with all numbers of writers."""
    rows = []
    for place, number, task in itertools.product(found, writers, TASKS):
        make, ours, bare, most = TASKS[task]
        supply = max(int(most * seconds), 2 * number)
        pairs = [
            (
                _measured(place, make, ours, number, seconds, supply),
                _measured(place, make_bare_table, bare, number, seconds, 0),
            )
            for _ in range(repeats)
        ]
        medians = [statistics.median(rates) for rates in zip(*pairs, strict=True)]
        rows.append(StorageRow(place.name, number, task, *medians))
        report(f"{place.name}, {number} writers, {task}: {medians[0]:,.0f} a second")
    return rows


def _measured(
    place: Place, make: Callable[[str], None], way: Way, number: int, seconds: float, supply: int
) -> float:
    url = place.new()
    try:
        make(url)
        return rate(way, url, number, seconds, supply)
    finally:
        place.remove(url)


def rate(way: Way, url: str, writers: int, seconds: float, supply: int) -> float:
    """Return the results a second of processes that start together.

    Each records for so many seconds, or until its share of the supply is used up.
    """
    context = multiprocessing.get_context("spawn")
    start, rates = context.Barrier(writers), context.Queue()
    arguments = (start, rates, way, url, seconds, supply // writers)
    processes = [
        context.Process(target=_write, args=arguments, daemon=True) for _ in range(writers)
    ]
    try:
        for process in processes:
            process.start()
        told = [rates.get(timeout=MAX_START_SECONDS + 10.0 * seconds) for _ in processes]
        for process in processes:
            process.join(MAX_START_SECONDS)
    finally:
        for process in processes:
            process.kill()
    failures = [text for text in told if isinstance(text, str)]
    if failures:
        raise RuntimeError(f"{len(failures)} of {writers} writers failed: {failures[0]}")
    return float(sum(told))


def _write(start: Any, rates: Any, way: Way, url: str, seconds: float, supply: int) -> None:
    try:
        with way(url, supply) as record:
            record()  # opens the connection
            start.wait()
            begin, recorded = time.monotonic(), 0
            while time.monotonic() < begin + seconds and (more := record()):
                recorded += more
            rates.put(recorded / (time.monotonic() - begin))
    except Exception as error:
        rates.put(f"{type(error).__name__}: {error}")
        start.abort()


@dataclass(frozen=True)
class Opening:
    """CPU seconds to open a study that others have written, which replays the whole log."""

    storage: str
    arms: int
    results: int
    seconds: float


def openings(found: list[Place], results: int, report: Callable[[str], None]) -> list[Opening]:
    """Open a study with so many results in each place; the CPU time of a server is left out."""
    rows = []
    for place in found:
        report(f"opening a study with {results:,} results: {place.name}")
        url = place.new()
        try:
            told = _fill(url, results)
            began = time.process_time()
            load_study(NAME, storage=url).overview()
            rows.append(Opening(place.name, ARMS, told, time.process_time() - began))
        finally:
            place.remove(url)
    return rows


def _fill(url: str, results: int) -> int:
    """Tell at least so many results to a study that is hard to decide; return how many."""
    study = create_study(NAME, range(ARMS), k=3, margin=0, rng=0, storage=url)
    rng = np.random.default_rng(1)
    rates = np.clip(rng.normal(0.4, 0.05, ARMS), 0.0, 1.0)
    rates[:3] = 0.56
    told = 0
    while told < results:
        tickets = study.ask(10_000, "worker", LEASE)
        if not tickets:
            raise RuntimeError(f"the study ended after {told:,} results: {tickets.status}")
        rewards = rng.random(len(tickets)) < rates[[ticket.index for ticket in tickets]]
        study.tell_many(zip(tickets, rewards.tolist(), strict=True), worker="worker")
        told += len(tickets)
    return told
