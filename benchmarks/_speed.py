"""What a pull costs in `find`, growth with the number of arms, how busy many workers are."""

from __future__ import annotations

import heapq
import itertools
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from oddarms.arms import Bernoulli
from oddarms.finding import find
from oddarms.problem import FloatArray
from oddarms.search import PREFETCH, Search, Ticket


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


# How busy many workers are, and at which cost in pulls: searches in virtual time

ARMS, OUTLIERS = 48, 2
JOBS = (16, 64)


def busy_workers(seeds: Sequence[int], jobs: Sequence[int] = JOBS) -> Iterator[dict[str, Any]]:
    """Yield searches of 50 Bernoulli arms whose pulls take lognormal times (sigma 1).

    `busy` is the share of the workers' time in which they made pulls.
    """
    for seed in seeds:
        means = _means(seed)
        _, alone = simulated(means, 1, 0.0, seed)
        for number, ahead in itertools.product(jobs, (0.0, PREFETCH)):
            busy, pulls = simulated(means, number, ahead, seed)
            row = {"jobs": number, "ahead": ahead, "seed": seed, "busy": busy}
            yield {**row, "pulls": pulls, "pulls_of_one": alone}


def simulated(means: FloatArray, jobs: int, ahead: float, seed: int) -> tuple[float, int]:
    """Return how busy the workers were, and how many pulls they made, of one search."""
    rng = np.random.default_rng(seed)
    streams = [_Stream(mean, [seed, arm]) for arm, mean in enumerate(means)]
    search = Search(means.size, k=2, delta=0.1, rng=seed)
    under_way: list[tuple[float, int, Ticket]] = []
    now, worked, pulls = 0.0, 0.0, 0
    while not search.done:
        for ticket in search.ask(jobs - len(under_way), prefetch=ahead):
            pulls += 1
            heapq.heappush(under_way, (now + rng.lognormal(), pulls, ticket))
        end, _, ticket = heapq.heappop(under_way)
        worked += (len(under_way) + 1) * (end - now)
        now = end
        search.tell(ticket, streams[ticket.index][ticket.place])
    return worked / (jobs * now), pulls


class _Stream:
    """The rewards of an arm, the same whoever asks for them and when."""

    def __init__(self, mean: float, seed: list[int]) -> None:
        self._mean = mean
        self._rng = np.random.default_rng(seed)
        self._rewards: list[float] = []

    def __getitem__(self, place: int) -> float:
        while len(self._rewards) <= place:
            self._rewards.append(float(self._rng.random() < self._mean))
        return self._rewards[place]


def _means(seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    bulk = np.clip(rng.normal(0.3, 0.06, ARMS), 0.0, 1.0)
    return np.concatenate([bulk, rng.uniform(0.8, 0.95, OUTLIERS)])
