"""Pulls simulated per second, against numpy's bare draws, and growth with the number of arms."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from oddarms.arms import Bernoulli
from oddarms.experiments import UniformMeans
from oddarms.finding import find
from oddarms.search import Search
from oddarms.simulation import Simulation, simulate


@dataclass(frozen=True)
class SpeedRow:
    """Pulls per second of a compiled algorithm, and as a share of numpy's."""

    name: str
    pulls: int
    seconds: float
    ratio_to_numpy: float


def numpy_rate(draws: int = 1_000_000, repeats: int = 10) -> float:
    """Return Bernoulli rewards per second of ``rng.random(m) < p`` into preallocated arrays."""
    rng = np.random.default_rng(0)
    p, uniform, reward = rng.random(draws), np.empty(draws), np.empty(draws, dtype=np.bool_)

    def draw() -> None:
        rng.random(out=uniform)
        np.less(uniform, p, out=reward)

    draw()
    return draws / min(_seconds(draw) for _ in range(repeats))


def simulation_speed(n: int = 1000) -> Iterator[SpeedRow]:
    """Yield the speed of each compiled algorithm on a Figure 2a instance."""
    means = UniformMeans(n, k=2.5, smallest_gap=(0.1, 0.2))(np.random.default_rng(1))
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("ADE", "ade", {}),
        ("ADE shared", "ade", {"shared": True}),
        ("RR, batch 1", "rr", {}),
        ("WRR, batch 1", "wrr", {}),
        ("RR, batch 1000", "rr", {"batch": 1000}),
        ("WRR, batch 1000", "wrr", {"batch": 1000}),
    ]
    for name, algorithm, options in cases:

        def run(budget: int | None = None, a: str = algorithm, o: Any = options) -> Any:
            return simulate(means, k=2.5, delta=0.1, algorithm=a, rng=2, budget=budget, **o)

        run(budget=100_000)  # compiles
        rate = numpy_rate()
        start = time.perf_counter()
        pulls = int(run().pulls[0])
        seconds = time.perf_counter() - start
        yield SpeedRow(name, pulls, seconds, pulls / seconds / rate)


MAX_LOOP_RATIO = 1.3
"""A pull of a trivial function by `find`, against a bare loop of ask and tell."""


@dataclass(frozen=True)
class LoopRow:
    """Microseconds of a pull of a function that takes no time."""

    bare: float
    found: float

    @property
    def ratio(self) -> float:
        """What `find` costs, against the bare loop; at most `MAX_LOOP_RATIO`."""
        return self.found / self.bare


def cost_of_the_loop(budget: int = 40_000, repeats: int = 5) -> LoopRow:
    """Return what a pull costs in a bare loop of ask and tell, ten at a time, and in `find`."""
    means = [0.1] * 19 + [0.9]
    words: dict[str, Any] = {"k": 2, "algorithm": "rr", "batch": 100, "rng": 1, "budget": budget}

    def bare() -> None:
        search = Search(len(means), **words)
        while not search.done:
            for ticket in search.ask(10):
                search.tell(ticket, means[ticket.index])

    def found() -> None:
        find([partial(float, mean) for mean in means], **words)

    return LoopRow(
        *(1e6 * min(_seconds(run) for _ in range(repeats)) / budget for run in (bare, found))
    )


@dataclass(frozen=True)
class RunsRow:
    """Seconds that one simulated run takes, compiled and step by step."""

    name: str
    pulls: float
    steps: float
    compiled_seconds: float
    interactive_seconds: float


def whole_runs(n: int = 50, runs: int = 20) -> Iterator[RunsRow]:
    """Yield the time of whole runs of the default algorithm, which looks at all arms each step."""
    k = 2.0
    means = UniformMeans(n, k=k, smallest_gap=(0.02, 0.05))(np.random.default_rng(1))

    def run(runs: int, compiled: bool) -> Simulation:
        return simulate(means, k=k, delta=0.1, rng=2, runs=runs, compiled=compiled)

    run(1, compiled=True)  # compiles
    compiled = _seconds(lambda: run(runs, compiled=True)) / runs
    interactive = _seconds(lambda: run(runs, compiled=False)) / runs
    found = run(runs, compiled=True)
    pulls, steps = float(found.pulls.mean()), float(found.rounds.mean())
    yield RunsRow(f"SPADE, n = {n}", pulls, steps, compiled, interactive)


@dataclass(frozen=True)
class GrowthRow:
    """A whole interactive search of the default algorithm."""

    arms: int
    pulls: int
    seconds: float
    peak_megabytes: float
    correct: bool


def growth(sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)) -> Iterator[GrowthRow]:
    """Yield one search per size: one arm in a hundred at 0.9, the others within 0.1 of 0.2."""
    for n in sizes:
        rng = np.random.default_rng(n)
        means = rng.uniform(0.1, 0.3, n)
        odd = rng.choice(n, n // 100, replace=False)
        means[odd] = 0.9
        arms = Bernoulli(means)
        start = time.perf_counter()
        result = find(arms, k=3, delta=0.1, rng=1)
        seconds = time.perf_counter() - start
        correct = set(result.outliers) == set(odd.tolist())
        yield GrowthRow(n, result.pulls, seconds, _peak_megabytes(), correct)


def as_json(rows: list[Any]) -> list[dict[str, Any]]:
    """Return dataclass rows as dictionaries."""
    return [asdict(row) for row in rows]


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
