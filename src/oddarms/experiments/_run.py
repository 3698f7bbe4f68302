"""Run a comparison: in parallel, resumably, and with the same result however it is run."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from oddarms.errors import StorageFailed, WorkerLost
from oddarms.executors import unordered
from oddarms.experiments._grid import Cell, CellTask, Grid
from oddarms.experiments._outcomes import Measured, Outcomes
from oddarms.files import writable_folder
from oddarms.randomness import Rng
from oddarms.simulation import simulate

FILE_NAME = "cells.db"
MAX_RESTARTS = 3

_log = logging.getLogger(__name__)


@dataclass
class GridProgress:
    """The progress of a comparison.

    Attributes
    ----------
    cells, done, resumed
        All cells, the finished ones, and those that an earlier run had finished.
    pulls
        The pulls of this run.
    cost_run, cost_left
        Relative lengths of the cells finished by this run and of those left.
    """

    cells: int = 0
    done: int = 0
    resumed: int = 0
    pulls: int = 0
    cost_run: float = 0.0
    cost_left: float = 0.0

    def planned(self, cell: Cell, *, finished: bool) -> None:
        """Count a cell that is to be run, or that an earlier run finished."""
        self.cells += 1
        self.done += finished
        self.resumed += finished
        self.cost_left += 0.0 if finished else cell.expected_cost

    def finished(self, cell: Cell, measured: Measured) -> None:
        """Count a cell that was run."""
        self.done += 1
        self.pulls += measured.pulls
        self.cost_run += cell.expected_cost
        self.cost_left -= cell.expected_cost


def run(
    grid: Grid,
    *,
    rng: Rng = 0,
    folder: str | Path | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[GridProgress], None] | None = None,
) -> Outcomes:
    """Run every cell of a grid and return the outcomes in the grid's order.

    The outcomes depend on the grid and on rng alone.

    Parameters
    ----------
    grid
        The comparison.
    rng
        The seed of instances and rewards.
    folder
        The folder of ``cells.db``, which keeps finished cells. The same call resumes an
        interrupted run, and a larger grid runs only new cells.
    jobs, executor
        The number of processes, by default one per core; or an executor of concurrent.futures.
    progress
        Called with a `GridProgress` at the start and after each cell.

    Examples
    --------
    >>> from oddarms.experiments import Grid, Setting, run
    >>> grid = Grid([Setting("five workers", [0.1, 0.2, 0.1, 0.2, 0.9], k=1.5, runs=3)], ["spade"])
    >>> [row.correct for row in run(grid, jobs=1)]
    [True, True, True]
    """
    cells = list(grid.cells(rng))
    keys = [cell.task.key for cell in cells]
    store = None if folder is None else CellStore(writable_folder("folder", folder))
    try:
        known = {} if store is None else store.load()
        told = GridProgress()
        waiting: dict[str, list[Cell]] = {}
        for key, cell in zip(keys, cells, strict=True):
            told.planned(cell, finished=key in known)
            if key not in known:
                waiting.setdefault(key, []).append(cell)

        def tell() -> None:
            if progress is not None:
                progress(told)

        def keep(key: str, measured: Measured) -> None:
            if store is not None:
                store.append(key, measured)
            known[key] = measured
            for cell in waiting.pop(key):  # several if contenders differ in name alone
                told.finished(cell, measured)
                tell()

        _log.info("%d of %d runs are to be made", sum(map(len, waiting.values())), len(cells))
        tell()
        _run_waiting(waiting, keep, jobs, executor)
    finally:
        if store is not None:
            store.close()
    return Outcomes(cells, [known[key] for key in keys])


def _run_waiting(
    waiting: dict[str, list[Cell]],
    keep: Callable[[str, Measured], None],
    jobs: int | None,
    executor: Executor | None,
) -> None:
    """Run the cells, long ones first; if a worker dies, go on with the rest."""
    restarts = 0
    while waiting:
        before = len(waiting)
        order = sorted(waiting.items(), key=lambda item: -item[1][0].expected_cost)
        try:
            tasks = [(key, cells[0].task) for key, cells in order]
            for key, measured in unordered(_keyed, tasks, jobs=jobs, executor=executor):
                keep(key, measured)
        except WorkerLost as error:
            restarts = restarts + 1 if len(waiting) == before else 0
            if restarts == MAX_RESTARTS:
                raise
            _log.warning("going on with %d runs after this: %s", len(waiting), error)


def _keyed(item: tuple[str, CellTask]) -> tuple[str, Measured]:
    key, task = item
    return key, measure(task)


def measure(task: CellTask) -> Measured:
    """Make one run."""
    found = simulate(task.arms, task.question, rng=task.seed)
    return Measured(
        pulls=int(found.pulls[0]),
        threshold_pulls=int(found.threshold_pulls[0]),
        rounds=int(found.rounds[0]),
        complete=bool(found.complete[0]),
        correct=bool(found.correct[0]),
    )


class CellStore:
    """Finished cells by key, in an SQLite file that several processes may write."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        with self._failures():
            self._file = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS cells (key TEXT PRIMARY KEY, measured TEXT)"
                " WITHOUT ROWID"
            )

    def load(self) -> dict[str, Measured]:
        """Return the finished cells by key."""
        with self._failures():
            rows = self._file.execute("SELECT key, measured FROM cells").fetchall()
        return {key: Measured(**json.loads(measured)) for key, measured in rows}

    def append(self, key: str, measured: Measured) -> None:
        """Write a finished cell; it is on the disk when this returns."""
        row = key, json.dumps(asdict(measured))
        with self._failures():
            self._file.execute("INSERT OR REPLACE INTO cells VALUES (?, ?)", row)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageFailed(
                f"{self.path} cannot be read and written: {error}; finished cells are kept."
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()
