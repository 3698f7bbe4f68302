"""Run a comparison: in parallel, resumably, and with the same result however it is run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from oddarms.errors import WorkerLost
from oddarms.executors import open_executor
from oddarms.experiments._cells import Measured, measure
from oddarms.experiments._grid import Cell, CellTask, Grid
from oddarms.experiments._outcomes import Outcomes
from oddarms.experiments._store import CellStore
from oddarms.files import writable_folder
from oddarms.randomness import Rng

MOST_RESTARTS = 3

_log = logging.getLogger(__name__)


@dataclass
class AlgorithmProgress:
    """How far one algorithm is.

    `cost_run` and `cost_left` are guesses of the lengths of its cells, run now and still to run,
    of which only the proportion means something.
    """

    cells: int = 0
    done: int = 0
    resumed: int = 0
    pulls: int = 0
    cost_run: float = 0.0
    cost_left: float = 0.0


@dataclass
class GridProgress:
    """What a progress function is told at the start and after each cell.

    `executor` says where cells run, once they do; `algorithms` has an entry per algorithm; `pulls`
    counts those simulated now, and `resumed` the cells that were found finished.
    """

    executor: str
    algorithms: dict[str, AlgorithmProgress] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """All cells."""
        return sum(one.cells for one in self.algorithms.values())

    @property
    def done(self) -> int:
        """Finished cells, found or run."""
        return sum(one.done for one in self.algorithms.values())

    @property
    def resumed(self) -> int:
        """Cells that were found finished."""
        return sum(one.resumed for one in self.algorithms.values())

    @property
    def pulls(self) -> int:
        """Pulls simulated now."""
        return sum(one.pulls for one in self.algorithms.values())

    @property
    def cost_run(self) -> float:
        """A guess of the length of all cells run now."""
        return sum(one.cost_run for one in self.algorithms.values())

    @property
    def cost_left(self) -> float:
        """A guess of the length of all cells still to run."""
        return sum(one.cost_left for one in self.algorithms.values())


def run(
    grid: Grid,
    *,
    rng: Rng = 0,
    folder: str | Path | None = None,
    backend: str = "joblib",
    jobs: int | None = None,
    address: str | None = None,
    progress: Callable[[GridProgress], None] | None = None,
) -> Outcomes:
    """Run every cell of a grid and return the outcomes in the grid's order.

    The outcomes depend on the grid and on rng alone, not on back end, number of workers, order
    or interruptions.

    Parameters
    ----------
    grid
        What to compare.
    rng
        Decides instances and rewards. What is resumed must have been begun with the same seed.
    folder
        Where finished cells are kept (in ``cells.jsonl``). A run that was interrupted or killed
        goes on from there when started again, and a larger one makes only what is new.
    backend, jobs, address
        "joblib" (processes on this machine), "dask" or "ray"; how many workers, by default one
        per core; the address of a running cluster instead of a local one.
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
        tell = _Teller(cells, keys, known, progress)
        waiting: dict[str, list[Cell]] = {}
        for key, cell in zip(keys, cells, strict=True):
            if key not in known:
                waiting.setdefault(key, []).append(cell)

        def keep(key: str, measured: Measured) -> None:
            if store is not None:
                store.append(key, measured)
            known[key] = measured
            for cell in waiting.pop(key):  # several if contenders differ in name alone
                tell.finished(cell, measured)

        _log.info("%d of %d runs are to be made", sum(map(len, waiting.values())), len(cells))
        tell.started("")
        _run_waiting(waiting, keep, tell, backend, jobs, address)
    finally:
        if store is not None:
            store.close()
    return Outcomes(cells, [known[key] for key in keys])


def _run_waiting(
    waiting: dict[str, list[Cell]],
    keep: Callable[[str, Measured], None],
    tell: _Teller,
    backend: str,
    jobs: int | None,
    address: str | None,
) -> None:
    """Run the cells, long ones first; where a worker dies, go on with the rest.

    A cell is a task by itself, so that a long one holds up nothing but itself.
    """
    restarts = 0
    while waiting:
        before = len(waiting)
        order = sorted(waiting.items(), key=lambda item: -item[1][0].expected_cost)
        try:
            with open_executor(backend, jobs=jobs, address=address) as executor:
                tell.started(executor.description)
                tasks = [(key, cells[0].task) for key, cells in order]
                for key, measured in executor.map_unordered(_keyed, tasks):
                    keep(key, measured)
        except WorkerLost as error:
            restarts = restarts + 1 if len(waiting) == before else 0
            if restarts == MOST_RESTARTS:
                raise
            _log.warning("going on with %d runs after this: %s", len(waiting), error)


def _keyed(item: tuple[str, CellTask]) -> tuple[str, Measured]:
    key, task = item
    return key, measure(task)


class _Teller:
    """Keeps the progress and passes it on."""

    def __init__(
        self,
        cells: list[Cell],
        keys: list[str],
        known: dict[str, Measured],
        callback: Callable[[GridProgress], None] | None,
    ) -> None:
        self._callback = callback
        self._progress = GridProgress("")
        for cell, key in zip(cells, keys, strict=True):
            one = self._progress.algorithms.setdefault(cell.contender.name, AlgorithmProgress())
            one.cells += 1
            one.done += key in known
            one.resumed += key in known
            one.cost_left += 0.0 if key in known else cell.expected_cost

    def started(self, executor: str) -> None:
        self._progress.executor = executor
        self._tell()

    def finished(self, cell: Cell, measured: Measured) -> None:
        one = self._progress.algorithms[cell.contender.name]
        one.done += 1
        one.pulls += measured.pulls
        one.cost_run += cell.expected_cost
        one.cost_left -= cell.expected_cost
        self._tell()

    def _tell(self) -> None:
        if self._callback is not None:
            self._callback(self._progress)
