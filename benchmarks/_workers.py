"""How busy many workers are, and at which cost in pulls: searches in virtual time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from oddarms import Search
from oddarms.problem import FloatArray
from oddarms.search import PREFETCH, Ticket

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
