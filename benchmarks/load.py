"""``python -m benchmarks.load``: clients that ask and tell over HTTP, and how long `ask` takes.

Each measurement has a new database and a new server. Clients are threads of a few processes.
With ``--waiting`` they wait for work instead, and the server's share of a core is measured.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._storage import ARMS, LEASE, NAME, REWARD, Place, make_wide_study, places
from oddarms.studies import Worker, create_study, load_study

PROCESSES = 2
START_SECONDS = 120.0


@contextmanager
def serving(url: str) -> Iterator[tuple[str, int]]:
    """Serve a storage; yield address and process id. Its token is in the environment meanwhile."""
    from oddarms.server import Role, Tokens

    os.environ["ODDARMS_TOKEN"] = Tokens.opened(url).make(Role.ADMIN)
    command = [sys.executable, "-u", "-m", "oddarms", "serve", "--storage", url, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1].rstrip("/"), process.pid
        finally:
            process.terminate()
            process.wait(START_SECONDS)


class _Times:
    """What one client took: seconds of each `ask` and `tell`, and results."""

    def __init__(self) -> None:
        self.asks: list[float] = []
        self.tells: list[float] = []
        self.results = 0


def _clients(start: Any, found: Any, url: str, numbers: list[int], size: int, lasts: float) -> None:
    study = load_study(NAME, storage=url)
    study.question  # noqa: B018 - the first request opens the study
    times = [_Times() for _ in numbers]
    start.wait(START_SECONDS)
    until = time.monotonic() + lasts
    threads = [
        threading.Thread(target=_client, args=(study, f"client {number}", size, until, own))
        for number, own in zip(numbers, times, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.put([(one.asks, one.tells, one.results) for one in times])


def _client(study: Any, name: str, size: int, until: float, times: _Times) -> None:
    while time.monotonic() < until:
        began = time.monotonic()
        tickets = study.ask(size, name, LEASE)
        asked = time.monotonic()
        study.tell_many([(ticket, REWARD) for ticket in tickets], worker=name)
        times.asks.append(asked - began)
        times.tells.append(time.monotonic() - asked)
        times.results += len(tickets)


def measured(place: Place, clients: int, size: int, seconds: float) -> str:
    """Return a row: results a second, and seconds of `ask` and `tell`."""
    url = place.new()
    context = multiprocessing.get_context("spawn")
    try:
        make_wide_study(url)
        with serving(url) as (address, server):
            shares = [list(range(i, clients, PROCESSES)) for i in range(min(PROCESSES, clients))]
            start, found = context.Barrier(len(shares) + 1), context.Queue()
            workers = [
                context.Process(
                    target=_clients,
                    args=(start, found, address, share, size, seconds),
                    daemon=True,
                )
                for share in shares
            ]
            for worker in workers:
                worker.start()
            start.wait(START_SECONDS)
            began, used = time.monotonic(), -cpu_seconds(server)
            times = [own for _ in workers for own in found.get(timeout=START_SECONDS + seconds)]
            took, used = time.monotonic() - began, used + cpu_seconds(server)
    finally:
        place.remove(url)
    asks = sorted(second for own in times for second in own[0])
    tells = sorted(second for own in times for second in own[1])
    rate = sum(own[2] for own in times) / took
    return f"{rate:10,.0f} {_shown(asks)} {_shown(tells)} {100.0 * used / took:7.0f} %"


def cpu_seconds(process: int) -> float:
    """Return the seconds of a core that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _shown(seconds: list[float]) -> str:
    last = seconds[int(0.99 * (len(seconds) - 1))]
    return f"{statistics.median(seconds):8.3f} {last:8.3f}"


def waiting(place: Place, clients: int, seconds: float) -> float:
    """Return the share of a core that a server uses while workers wait for another one."""
    url = place.new()
    try:
        create_study(NAME, range(ARMS), rng=0, storage=url)
        with serving(url) as (address, server):
            study = load_study(NAME, storage=address)
            while study.ask(1000, "holder", LEASE):
                pass
            desks = [Worker(study, f"worker {number}", retry_for=0.0) for number in range(clients)]
            threads = [threading.Thread(target=_wait, args=[desk], daemon=True) for desk in desks]
            for thread in threads:
                thread.start()
                time.sleep(30.0 / clients)  # not all in one moment
            began, used = time.monotonic(), -cpu_seconds(server)
            time.sleep(seconds)
            used += cpu_seconds(server)
            share = used / (time.monotonic() - began)
            study.stop()
            for thread in threads:
                thread.join(START_SECONDS)
    finally:
        place.remove(url)
    return share


def _wait(desk: Worker) -> None:
    while not desk.ask(prefetch=0.0).done:
        desk.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--size", type=int, default=1000, help="pulls of one `ask`")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--storage", help="the URL of a PostgreSQL server to measure, too")
    parser.add_argument("--waiting", type=int, help="how many workers wait")
    given = parser.parse_args(arguments)
    if given.waiting is not None:
        with places(given.storage) as found:
            for place in found:
                share = waiting(place, given.waiting, given.seconds)
                print(f"{place.name:12} {given.waiting} waiting: {100.0 * share:.1f} % of a core")
        return 0
    print("storage    clients   size  results/s  ask: median, p99  tell: median, p99  server CPU")
    with places(given.storage) as found:
        for _, place, clients in itertools.product(range(given.repeats), found, given.clients):
            row = measured(place, clients, given.size, given.seconds)
            print(f"{place.name:12} {clients:5} {given.size:6} {row}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
