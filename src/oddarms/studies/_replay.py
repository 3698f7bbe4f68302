"""From the log to the search: results in the order in which they were recorded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from oddarms.problem import Question
from oddarms.search import Search
from oddarms.studies._log import ResultRow


def new_search(question: Question, seed: int) -> Search:
    """Return a study's search at its beginning: that of `oddarms.find` with the same seed."""
    algorithm_rng, _ = np.random.default_rng(seed).spawn(2)
    return Search(question, rng=algorithm_rng)


def replay(search: Search, rows: Sequence[ResultRow]) -> None:
    """Give a search results that follow those it has; an import's must come in one call."""
    for batch, group in groupby(rows, key=lambda row: row.batch):
        if batch is not None:
            imported = list(group)
            search.take_import(
                np.array([row.arm for row in imported], dtype=np.int64),
                np.array([row.reward for row in imported]),
            )
            continue
        for row in group:
            assert row.place is not None
            search.take(row.arm, row.place, row.reward)
