"""What a pull costs in `find`, and growth with the number of arms."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from oddarms.arms import Bernoulli
from oddarms.finding import find
from oddarms.search import Search


def cost_of_the_loop(budget: int = 40_000, repeats: int = 5) -> dict[str, float]:
    """Return the microseconds of a pull of a trivial function in a bare loop, and in `find`."""
    means = [0.1] * 19 + [0.9]
    words: dict[str, Any] = {"k": 2, "algorithm": "rr", "batch": 100, "rng": 1, "budget": budget}

    def bare() -> None:
        search = Search(len(means), **words)
        while not search.done:
            for ticket in search.ask(10):
                search.tell(ticket, means[ticket.index])

    def found() -> None:
        find([partial(float, mean) for mean in means], **words)

    costs = [1e6 * min(_seconds(run) for _ in range(repeats)) / budget for run in (bare, found)]
    return {"bare": costs[0], "find": costs[1], "ratio": costs[1] / costs[0]}


def growth(
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000),
) -> Iterator[dict[str, Any]]:
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
        yield {
            "arms": n,
            "pulls": result.pulls,
            "seconds": seconds,
            "peak_megabytes": _peak_megabytes(),
            "correct": correct,
        }


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
