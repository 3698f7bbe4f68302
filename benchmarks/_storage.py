"""New databases for measurements, and what it costs to open a study."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.studies import create_study, load_study

ARMS = 1000
ALL_IN_ONE_STEP = 1000
"""Pulls of an arm a step, so that all tickets are handed out before the first result."""
NAME = "benchmark"
LEASE = timedelta(hours=1)
REWARD = 0.5
Row = dict[str, Any]


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
        url = self._server.replace("postgresql+psycopg://", "postgresql://", 1)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def places(server: str | None) -> Iterator[list[Place]]:
    """Yield SQLite, on the disk of the working directory, and PostgreSQL if a URL is given."""
    with tempfile.TemporaryDirectory(dir=".", prefix="benchmark-") as name:
        folder = Path(name)
        yield [Place(folder), *([] if server is None else [Place(folder, server)])]


def make_wide_study(url: str) -> None:
    """Make a study that hands out as many tickets as wanted before it needs a result."""
    create_study(NAME, range(ARMS), rng=0, storage=url, algorithm="rr", batch=ALL_IN_ONE_STEP)


def openings(found: list[Place], results: int, report: Callable[[str], None]) -> list[Row]:
    """Open a study with so many results in each place, which replays the whole log.

    Seconds are CPU time, without that of a server.
    """
    rows = []
    for place in found:
        report(f"opening a study with {results:,} results: {place.name}")
        url = place.new()
        try:
            told = _fill(url, results)
            began = time.process_time()
            load_study(NAME, storage=url).overview()
            row = {"storage": place.name, "arms": ARMS, "results": told}
            rows.append({**row, "seconds": time.process_time() - began})
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
