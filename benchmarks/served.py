"""``python -m benchmarks.served``: results a second over HTTP, as a share of those without it.

Both are measured in turn on new databases, so that what else the machine does hits both.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks._storage import LEASE, NAME, REWARD, Place, Record, make_wide_study, places, rate
from oddarms.search import Ticket
from oddarms.studies import load_study

BATCHES = (1, 10, 100, 1000)
ASKED_AT_A_TIME = 5000
MOST = {1: 2000, 10: 20_000, 100: 60_000, 1000: 100_000}
"""Results a second that a writer may want, by the size of its batches."""
START_SECONDS = 60.0


@contextmanager
def tell_by(size: int, url: str, supply: int) -> Iterator[Record]:
    """Tell so many results at a time, of tickets asked before."""
    study = load_study(NAME, storage=url)
    tickets = iter(_asked(study.ask, supply))

    def record() -> int:
        batch = list(itertools.islice(tickets, size))
        study.tell_many([(ticket, REWARD) for ticket in batch], worker="worker")
        return len(batch)

    yield record


def _asked(ask: Callable[..., Sequence[Ticket]], supply: int) -> list[Ticket]:
    found: list[Ticket] = []
    while len(found) < supply:
        more = ask(min(supply - len(found), ASKED_AT_A_TIME), "worker", LEASE)
        if not more:
            break
        found += more
    return found


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


def measured(place: Place, size: int, writers: int, seconds: float, *, http: bool) -> float:
    """Return the results a second of some writers on a new database."""
    url = place.new()
    try:
        make_wide_study(url)
        supply = max(int(MOST[size] * seconds), 2 * size * writers)
        way = partial(tell_by, size)
        if not http:
            return rate(way, url, writers, seconds, supply)
        with serving(url) as (address, _):
            return rate(way, address, writers, seconds, supply)
    finally:
        place.remove(url)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.served", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES), choices=BATCHES)
    parser.add_argument("--storage", help="the URL of a PostgreSQL server to measure, too")
    given = parser.parse_args(arguments)
    print("storage      writers  batch    direct      HTTP  share")
    with places(given.storage) as found:
        for place, writers, size in itertools.product(found, given.writers, given.batches):
            pairs = []
            for i in range(given.repeats):
                order = (False, True) if i % 2 == 0 else (True, False)
                rates = {h: measured(place, size, writers, given.seconds, http=h) for h in order}
                pairs.append((rates[False], rates[True]))
            direct, http = (statistics.median(column) for column in zip(*pairs, strict=True))
            share = statistics.median(over / without for without, over in pairs)
            print(f"{place.name:12} {writers:7} {size:6} {direct:9,.0f} {http:9,.0f} {share:6.2f}")
    return 0


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"{time.monotonic() - began:.0f} seconds")
    sys.exit(code)
