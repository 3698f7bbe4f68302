"""Processes that record results in a database at the same time, each in one of several ways.

A way is a function of a database's URL and of how many results may be wanted at most. It does what
comes before the recording and yields a function that records once and returns how many results
that were, 0 if it has no more. Optuna is used as its documentation says, with its defaults but for
SQLite's timeout, which would end a writer that waits for seven others.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

from benchmarks._places import driver_url, file_of
from oddarms.studies import create_study, load_study

Record = Callable[[], int]
Way = Callable[[str, int], AbstractContextManager[Record]]

BATCH = 100
ARMS = 1000
ALL_IN_ONE_STEP = 1000
"""Pulls of an arm a step, so that all tickets are handed out before the first result."""
NAME = "benchmark"
LEASE = timedelta(hours=1)
LOCK_SECONDS = 60.0
PATIENCE_SECONDS = 300.0
REWARD = 0.5

BARE_TABLE = (
    "CREATE TABLE bare_rows (number {serial} PRIMARY KEY, study BIGINT, ticket BIGINT, arm BIGINT,"
    " reward DOUBLE PRECISION, worker TEXT, told DOUBLE PRECISION)"
)
BARE_INSERT = (
    "INSERT INTO bare_rows (study, ticket, arm, reward, worker, told)"
    " VALUES ({0}, {0}, {0}, {0}, {0}, {0})"
)


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
        told = [rates.get(timeout=PATIENCE_SECONDS + 10.0 * seconds) for _ in processes]
        for process in processes:
            process.join(PATIENCE_SECONDS)
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
            rates.put(_own_rate(record, seconds))
    except Exception as error:
        rates.put(f"{type(error).__name__}: {error}")
        start.abort()  # nobody waits for this one


def _own_rate(record: Record, seconds: float) -> float:
    """Return the results a second of this process, over the time it really took."""
    begin, recorded = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        more = record()
        if not more:
            break
        recorded += more
    return recorded / (time.monotonic() - begin)


# Ours


def make_study(url: str) -> None:
    """Make a study of the default algorithm."""
    create_study(NAME, range(ARMS), rng=0, storage=url)


def make_wide_study(url: str) -> None:
    """Make a study that hands out as many tickets as wanted before it needs a result."""
    create_study(NAME, range(ARMS), rng=0, storage=url, algorithm="rr", batch=ALL_IN_ONE_STEP)


def make_long_study(url: str) -> None:
    """Make a study that takes a great many results to decide: three arms are nearly outliers."""
    create_study(NAME, range(ARMS), k=3, margin=0, rng=0, storage=url)


def fill(url: str, results: int) -> int:
    """Tell at least so many results of arms with rates about 0.4; return how many."""
    study = load_study(NAME, storage=url)
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


# Optuna's


def make_optuna_study(url: str) -> None:
    """Make a study of Optuna's."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna.create_study(study_name=NAME, storage=_optuna_storage(url))


@contextmanager
def optuna_ask_and_tell(url: str, supply: int) -> Iterator[Record]:  # noqa: ARG001 - it asks as it goes
    """Ask Optuna for a trial, tell its value."""
    study = _optuna_study(url)

    def record() -> int:
        study.tell(study.ask(), REWARD)
        return 1

    yield record


@contextmanager
def optuna_tell(url: str, supply: int) -> Iterator[Record]:
    """Tell Optuna the value of a trial asked before."""
    study = _optuna_study(url)
    trials = iter([study.ask() for _ in range(supply)])

    def record() -> int:
        trial = next(trials, None)
        if trial is not None:
            study.tell(trial, REWARD)
        return int(trial is not None)

    yield record


def _optuna_study(url: str) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.load_study(
        study_name=NAME,
        storage=_optuna_storage(url),
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=optuna.pruners.NopPruner(),
    )


def _optuna_storage(url: str) -> Any:
    import optuna

    waits = {"connect_args": {"timeout": LOCK_SECONDS}} if url.startswith("sqlite") else None
    return optuna.storages.RDBStorage(url, engine_kwargs=waits)


# Bare inserts


def make_bare_table(url: str) -> None:
    """Make a table like that of our results, without indexes."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(file_of(url))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(BARE_TABLE.format(serial="INTEGER"))
        connection.close()
        return
    import psycopg

    with psycopg.connect(driver_url(url)) as server:
        server.execute(BARE_TABLE.format(serial="BIGSERIAL").encode())


def insert(url: str, supply: int) -> AbstractContextManager[Record]:  # noqa: ARG001
    """Insert a row."""
    return _inserting(url, 1)


def insert_batches(url: str, supply: int) -> AbstractContextManager[Record]:  # noqa: ARG001
    """Insert a hundred rows in one transaction."""
    return _inserting(url, BATCH)


def _inserting(url: str, batch: int) -> AbstractContextManager[Record]:
    rows = [(1, i, 5, REWARD, "worker", time.time()) for i in range(batch)]
    inserting = _sqlite_inserting if url.startswith("sqlite") else _postgresql_inserting
    return inserting(url, rows)


@contextmanager
def _sqlite_inserting(url: str, rows: list[tuple[Any, ...]]) -> Iterator[Record]:
    opened = sqlite3.connect(file_of(url), timeout=LOCK_SECONDS, isolation_level=None)
    statement = BARE_INSERT.format("?")
    with closing(opened) as connection:
        connection.execute("PRAGMA synchronous = FULL")

        def record() -> int:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, rows)
            connection.execute("COMMIT")
            return len(rows)

        yield record


@contextmanager
def _postgresql_inserting(url: str, rows: list[tuple[Any, ...]]) -> Iterator[Record]:
    import psycopg

    statement = BARE_INSERT.format("%s").encode()
    with psycopg.connect(driver_url(url), autocommit=True) as connection:

        def record() -> int:
            if len(rows) == 1:  # a transaction of one statement needs no words around it
                connection.execute(statement, rows[0])
            else:
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.executemany(statement, rows)
            return len(rows)

        yield record
