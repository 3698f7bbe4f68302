"""A script as a user writes it; type checkers know what each value of it is (test_typing.py)."""

from __future__ import annotations

from functools import partial
from typing import Any, assert_type

import numpy as np

import oddarms
from oddarms.errors import InvalidParameter, SearchError


def wrong_answer(worker: str) -> float:
    """Return 1 if the worker errs."""
    return float(worker == "eve")


def main() -> None:
    """Ask in every way there is."""
    workers = ["ann", "bob", "eve"]
    pulls = {worker: partial(wrong_answer, worker) for worker in workers}
    found = oddarms.find(pulls, k=1)
    assert_type(found, oddarms.Result)
    assert_type(found.pulls, int)
    found = oddarms.find(oddarms.arms.Bernoulli([0.1, 0.2, 0.9], labels=workers), k=1, rng=0)
    for label in found.outliers:
        print(label)

    question = oddarms.Question(workers, k=1, delta=0.05, bounds=(0, 1))
    search = oddarms.Search(question, rng=np.random.default_rng(1))
    while not search.done:
        for ticket in search.ask():
            assert_type(ticket, oddarms.Ticket)
            search.tell(ticket, wrong_answer(str(ticket.arm)))
    result = search.result()
    print(result.threshold, result.outliers)

    runs = oddarms.simulate([0.1, 0.2, 0.9], k=1, runs=5, rng=0)
    assert_type(runs, oddarms.Simulation)
    try:
        study = oddarms.create_study("crowd", workers, k=1, storage="memory")
        assert_type(study, oddarms.Study)
        study.run(wrong_answer)
    except SearchError as error:
        kept: Any = error.result
        print(kept)
    except InvalidParameter as error:
        print(error)


if __name__ == "__main__":
    main()
