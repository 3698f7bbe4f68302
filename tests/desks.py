"""Desks to be tested alike: a search in memory, and workers of studies in every storage.

`desk` is a fixture that opens desks, each about a question and with a seed. `DESKS` has its kinds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms import Question, Result, Search, create_study
from oddarms.search import PREFETCH, Desk
from oddarms.studies import Worker

_numbers = itertools.count(1)

OpenDesk = Callable[[Question, int], Desk]
"""Returns a new desk about a question, whose random choices a seed decides."""


def in_memory(_: pytest.FixtureRequest) -> OpenDesk:
    """A `Search`, with the random choices that a study of the same seed makes."""
    return lambda question, seed: Search(question, rng=np.random.default_rng(seed).spawn(2)[0])


def workers_in(storage: str | Path) -> OpenDesk:
    """Workers, each of a new study in a storage."""

    def open_desk(question: Question, seed: int) -> Desk:
        name = f"desk {next(_numbers)}"
        return create_study(name, question, rng=seed, storage=storage).worker()

    return open_desk


def sqlite(request: pytest.FixtureRequest) -> OpenDesk:
    """Workers of studies in a file."""
    folder: Path = request.getfixturevalue("tmp_path")
    return workers_in(folder / "studies.db")


def postgresql(request: pytest.FixtureRequest) -> OpenDesk:
    """Workers of studies in a database of PostgreSQL."""
    return workers_in(request.getfixturevalue("shared_database"))


def http(request: pytest.FixtureRequest) -> OpenDesk:
    """Workers of studies on a server."""
    return workers_in(request.getfixturevalue("server_address"))


DESKS: dict[str, Callable[[pytest.FixtureRequest], OpenDesk]] = {
    "search": in_memory,
    "sqlite": sqlite,
    "postgresql": postgresql,
    "http": http,
}


_PARAMS = [pytest.param(kind, marks=() if kind == "search" else pytest.mark.long) for kind in DESKS]
ON_A_FILE_TOO = pytest.mark.parametrize(
    "desk",
    [
        pytest.param(kind, marks=() if kind in ("search", "sqlite") else pytest.mark.long)
        for kind in DESKS
    ],
    indirect=True,
)


@pytest.fixture(params=_PARAMS)
def desk(request: pytest.FixtureRequest) -> OpenDesk:
    """A function that opens a desk: `desk(question, seed)`."""
    return DESKS[request.param](request)


# What a search and a study have beside what a desk has


def add_history(desk: Desk, history: Mapping[Any, Sequence[float]]) -> int:
    """Add rewards from before."""
    owner: Any = desk.study if isinstance(desk, Worker) else desk
    added: int = owner.add_history(history)
    return added


def raise_budget(desk: Desk, budget: int | None) -> None:
    """Allow more pulls."""
    owner: Any = desk.study if isinstance(desk, Worker) else desk
    owner.raise_budget(budget)


# Pulls


@cache
def reward_at(index: int, place: int, mean: float, seed: int = 1) -> float:
    """Return the reward of a place, whoever asks for it and when: 0 or 1."""
    return float(np.random.default_rng([seed, index, place]).random() < mean)


def drive(
    desk: Desk,
    means: Sequence[float],
    *,
    at_once: int = 20,
    prefetch: float = PREFETCH,
    shuffled: int | None = None,
    skipped: float = 0.0,
    most: int | None = None,
) -> Result:
    """Ask and tell until the desk is done; return its result.

    Parameters
    ----------
    desk, means
        The desk, and the arms' means.
    at_once, prefetch
        Of `ask`.
    shuffled
        A seed: tickets are then told in a random order, and some much later than others.
    skipped
        The share of the tickets that are given back.
    most
        Tell so many results and return.
    """
    rng = np.random.default_rng(shuffled)
    out: list[Any] = []
    told = 0
    with desk if isinstance(desk, Worker) else nullcontext():
        while True:
            tickets = desk.ask(at_once, prefetch=prefetch)
            if tickets.done and not out:
                return desk.result()
            out += tickets
            if shuffled is not None:
                rng.shuffle(out)
            ready = out if shuffled is None or not tickets else out[: max(len(out) // 2, 1)]
            for ticket in list(ready):
                out.remove(ticket)
                if rng.random() < skipped:
                    desk.skip_many([ticket], "because of a test")
                    continue
                desk.tell(ticket, reward_at(ticket.index, ticket.place, means[ticket.index]))
                told += 1
                if told == most:
                    desk.skip_many(out)
                    return desk.result()
