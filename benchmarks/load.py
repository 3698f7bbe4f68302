"""``python -m benchmarks.load``: clients that ask and tell over HTTP, and how long `ask` takes.

Each measurement has a new database and a new server. Clients are threads of a few processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from benchmarks._storage import LEASE, NAME, REWARD, Place, make_wide_study, places
from oddarms.studies import load_study

PROCESSES = 2
Times = tuple[list[float], list[float]]
"""Seconds of each `ask` and of each `tell`."""


@contextmanager
def serving(url: str) -> Iterator[str]:
    """Serve a storage; yield the address. Its token is in the environment meanwhile."""
    from oddarms.server import Role, Tokens

    os.environ["ODDARMS_TOKEN"] = Tokens.opened(url).make(Role.ADMIN)
    command = [sys.executable, "-u", "-m", "oddarms", "serve", "--storage", url, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1].rstrip("/")
        finally:
            process.terminate()
            process.wait(120.0)


def _clients(url: str, size: int, seconds: float, numbers: list[int]) -> tuple[float, list[Times]]:
    """Return results a second, and what each client took."""
    study = load_study(NAME, storage=url)
    began, results = time.monotonic(), [0] * (max(numbers) + 1)

    def client(number: int) -> Times:
        asks, tells = [], []
        while time.monotonic() < began + seconds:
            start = time.monotonic()
            tickets = study.ask(size, f"client {number}", LEASE)
            asked = time.monotonic()
            study.tell_many([(ticket, REWARD) for ticket in tickets], worker=f"client {number}")
            asks.append(asked - start)
            tells.append(time.monotonic() - asked)
            results[number] += len(tickets)
        return asks, tells

    with ThreadPoolExecutor(len(numbers)) as threads:
        times = list(threads.map(client, numbers))
    return sum(results) / (time.monotonic() - began), times


def measured(place: Place, clients: int, size: int, seconds: float) -> str:
    """Return a row: results a second, and seconds of `ask` and `tell`."""
    url = place.new()
    try:
        make_wide_study(url)
        shares = [list(range(i, clients, PROCESSES)) for i in range(min(PROCESSES, clients))]
        context = multiprocessing.get_context("spawn")
        with serving(url) as address, ProcessPoolExecutor(len(shares), context) as processes:
            found = list(processes.map(partial(_clients, address, size, seconds), shares))
    finally:
        place.remove(url)
    times = [own for _, several in found for own in several]
    asks, tells = (sorted(second for own in times for second in own[i]) for i in (0, 1))
    return f"{sum(rate for rate, _ in found):10,.0f} {_shown(asks)} {_shown(tells)}"


def _shown(seconds: list[float]) -> str:
    last = seconds[int(0.99 * (len(seconds) - 1))]
    return f"{statistics.median(seconds):8.3f} {last:8.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--size", type=int, default=1000, help="pulls of one `ask`")
    parser.add_argument("--storage", help="the URL of a PostgreSQL server to measure, too")
    given = parser.parse_args(arguments)
    print("storage    clients   size  results/s  ask: median, p99  tell: median, p99")
    with places(given.storage) as found:
        for place in found:
            for clients in given.clients:
                row = measured(place, clients, given.size, given.seconds)
                print(f"{place.name:12} {clients:5} {given.size:6} {row}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
