"""Results recorded per second, ours beside Optuna's and bare inserts; bytes a result; opening.

All of a row is measured in turn, and the whole again as often as is wanted, so that what else the
machine does meanwhile hits all of them. Each measurement has a new database.
"""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import _writers as writers
from benchmarks._places import Place
from benchmarks._writers import Way
from oddarms.studies import load_study

MISSING_OPTUNA = "No figures of Optuna: it is not installed (`make bench` installs it)."


@dataclass(frozen=True)
class StorageEffort:
    """How long a measurement takes, how often it is made, by how many writers, and of how much.

    Attributes
    ----------
    seconds
        Of one measurement.
    repeats
        Measurements of each figure.
    writers
        Processes that write at the same time, one figure each.
    results
        For the bytes a result takes.
    opened
        Results of a study that is opened.
    """

    seconds: float
    repeats: int
    writers: tuple[int, ...]
    results: int
    opened: int = 1_000_000

    def describe(self) -> str:
        """Return it as a sentence."""
        return (
            f"Results a second: medians of {self.repeats} (and their range), of {self.seconds:g}"
            f" seconds each; bytes: of {self.results:,} results."
        )


FULL_STORAGE = StorageEffort(seconds=2.0, repeats=3, writers=(1, 8), results=2000)
QUICK_STORAGE = StorageEffort(seconds=0.3, repeats=1, writers=(1, 2), results=200, opened=20_000)


@dataclass(frozen=True)
class Method:
    """A way of recording, what has to be there before, and results a second it may want."""

    make: Callable[[str], None]
    way: Way
    most: int


@dataclass(frozen=True)
class Task:
    """What is compared: our method, Optuna's if it has one, and bare inserts."""

    name: str
    ours: Method
    optuna: Method | None
    bare: Method

    @property
    def methods(self) -> dict[str, Method]:
        """The methods there are, by who has them."""
        theirs = {} if self.optuna is None else {"optuna": self.optuna}
        return {"ours": self.ours, **theirs, "bare": self.bare}


INSERT = Method(writers.make_bare_table, writers.insert, 0)
INSERT_BATCHES = Method(writers.make_bare_table, writers.insert_batches, 0)
ASK_AND_TELL = Method(writers.make_study, writers.ask_and_tell, 0)
TELL = Method(writers.make_wide_study, writers.tell, 4_000)
TELL_BATCHES = Method(writers.make_wide_study, writers.tell_batches, 60_000)
OPTUNA_ASK_AND_TELL = Method(writers.make_optuna_study, writers.optuna_ask_and_tell, 0)
OPTUNA_TELL = Method(writers.make_optuna_study, writers.optuna_tell, 250)


def storage_tasks(*, optuna: bool) -> list[Task]:
    """Return what is compared, with Optuna or without it."""
    return [
        Task("ask + tell", ASK_AND_TELL, OPTUNA_ASK_AND_TELL if optuna else None, INSERT),
        Task("tell", TELL, OPTUNA_TELL if optuna else None, INSERT),
        Task(f"tell by {writers.BATCH}", TELL_BATCHES, None, INSERT_BATCHES),
    ]


@dataclass(frozen=True)
class StorageRow:
    """Results a second of each repeat; empty where there is no such thing.

    Attributes
    ----------
    storage, writers, task
        What was measured.
    ours, optuna, bare
        Results a second.
    our_bytes, optuna_bytes
        Bytes a result takes on the disk, where that was measured.
    """

    storage: str
    writers: int
    task: str
    ours: list[float]
    optuna: list[float]
    bare: list[float]
    our_bytes: float | None = None
    optuna_bytes: float | None = None

    @property
    def over_optuna(self) -> float | None:
        """How many times as fast as Optuna's, the median of the repeats."""
        return _median_ratio(self.ours, self.optuna)

    @property
    def over_bare(self) -> float | None:
        """How many times as fast as bare inserts, the median of the repeats."""
        return _median_ratio(self.ours, self.bare)


def _median_ratio(ours: list[float], others: list[float]) -> float | None:
    if not others:
        return None
    return statistics.median(our / other for our, other in zip(ours, others, strict=True))


def optuna_version() -> str | None:
    """Return the version of Optuna, None if it is not installed."""
    try:
        return importlib.metadata.version("optuna")
    except importlib.metadata.PackageNotFoundError:
        return None


def storage_rates(
    places: list[Place], tasks: list[Task], effort: StorageEffort, report: Callable[[str], None]
) -> list[StorageRow]:
    """Measure all tasks in all places with all numbers of writers."""
    cells = [(p, w, t) for p in places for w in effort.writers for t in tasks]
    figures: list[dict[str, list[float]]] = [{who: [] for who in t.methods} for _, _, t in cells]
    for i in range(effort.repeats):
        for (place, number, task), found in zip(cells, figures, strict=True):
            for who, method in _in_turn(task, i):
                found[who].append(_measured(place, method, number, effort.seconds))
            latest = ", ".join(f"{who} {rates[-1]:,.0f}" for who, rates in found.items())
            what = f"{place.name}, writers {number}, {task.name}"
            report(f"{i + 1} of {effort.repeats}: {what}: {latest} a second")
    sizes = {place.name: _sizes(place, tasks[0], effort.results, report) for place in places}
    return [
        _row(place, number, task, found, sizes if (number, task) == (1, tasks[0]) else {})
        for (place, number, task), found in zip(cells, figures, strict=True)
    ]


def _row(
    place: Place,
    number: int,
    task: Task,
    figures: dict[str, list[float]],
    sizes: dict[str, dict[str, float]],
) -> StorageRow:
    taken = sizes.get(place.name, {})
    return StorageRow(
        place.name,
        number,
        task.name,
        ours=figures["ours"],
        optuna=figures.get("optuna", []),
        bare=figures["bare"],
        our_bytes=taken.get("ours"),
        optuna_bytes=taken.get("optuna"),
    )


def _in_turn(task: Task, i: int) -> list[tuple[str, Method]]:
    """Return the methods, every other time in reverse: none is always the first."""
    methods = list(task.methods.items())
    return methods[::-1] if i % 2 else methods


def _measured(place: Place, method: Method, number: int, seconds: float) -> float:
    with _database(place, method) as url:
        supply = max(int(method.most * seconds), 2 * number)
        return writers.rate(method.way, url, number, seconds, supply)


def _sizes(
    place: Place, task: Task, results: int, report: Callable[[str], None]
) -> dict[str, float]:
    """Return the bytes that a result takes when this process records some, by who records."""
    sizes = {}
    recorders = {who: method for who, method in task.methods.items() if who != "bare"}
    for who, method in recorders.items():
        report(f"bytes a result: {place.name}, {who}")
        with _database(place, method) as url:
            before = place.size(url)
            with method.way(url, results) as record:
                recorded = sum(record() for _ in range(results))
            sizes[who] = (place.size(url) - before) / recorded
    return sizes


@contextmanager
def _database(place: Place, method: Method) -> Iterator[str]:
    """A new database in which all is made that the method needs."""
    url = place.new()
    try:
        method.make(url)
        yield url
    finally:
        place.remove(url)


@dataclass(frozen=True)
class Opening:
    """What it costs to open a study that others have written: the whole log is replayed.

    Attributes
    ----------
    storage, arms, results
        What was opened.
    seconds
        CPU time of the process until it knows the answer; that of a server is not included.
    """

    storage: str
    arms: int
    results: int
    seconds: float


def openings(places: list[Place], results: int, report: Callable[[str], None]) -> list[Opening]:
    """Open a study with so many results in each place."""
    rows = []
    for place in places:
        report(f"opening a study with {results:,} results: {place.name}")
        with _database(place, Method(writers.make_long_study, writers.tell, 0)) as url:
            told = writers.fill(url, results)
            began = time.process_time()
            load_study(writers.NAME, storage=url).overview()
            seconds = time.process_time() - began
        rows.append(Opening(place.name, writers.ARMS, told, seconds))
    return rows
