"""``oddarms explain`` on samples that are there: what they prove, and what another question would.

Every line is the answer to its own question, on the same samples; that one may choose among them
by looking is not paid for, so the page says what to ask next time, or of what comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.cli.study._storage import chosen
from oddarms.errors import InvalidParameter
from oddarms.problem import Question
from oddarms.search import Result, Search, Status
from oddarms.search._text import headline, rough
from oddarms.tables import bounds_of, read_rewards
from oddarms.text import about, counted, shown, table

HARDEST = 5
Ask = Callable[[dict[str, Any]], Result]


def of_samples(
    words: dict[str, Any],
    path: Path | None,
    arm: str,
    reward: str,
    bounds: str,
    study: str | None,
    storage: str | None,
) -> str:
    """Return what samples prove, what is missing, and what other options would make of them."""
    if path is not None and study is not None:
        raise InvalidParameter("one of --table and --study must be left out but got both.")
    if path is not None:
        asked = {**words, "bounds": bounds_of(bounds)}
        return _told(*_of_table(path, arm, reward, asked))
    assert study is not None
    return _told(*_of_study(study, storage))


def _of_table(path: Path, arm: str, reward: str, words: dict[str, Any]) -> tuple[Result, Ask]:
    recorded = read_rewards(path, arm=arm, reward=reward, bounds=words["bounds"])

    def ask(changes: dict[str, Any]) -> Result:
        search = Search(list(recorded.labels), rng=0, **{**words, **changes})
        search.import_rewards(recorded.records or {})
        search.stop(Status.ENDED)
        return search.result()

    return ask({}), ask


def _of_study(name: str, storage: str | None) -> tuple[Result, Ask]:
    from oddarms.studies import load_study

    study = load_study(name, storage=chosen(storage))
    return study.result(), study.what_if


def _told(result: Result, ask: Ask) -> str:
    question = result.question
    samples = counted(result.pulls + result.history, "sample")
    text = f"{question.sentence()}\n\n{samples}: {headline(result)}"
    return text + _missing(result) + _choices(result, question, ask)


def _missing(result: Result) -> str:
    """Return how many more samples are needed, and for which arms most of them."""
    if result.complete or not result.undecided:
        return ""
    needed = result.pulls_needed
    if needed is None:
        return "\nHow many more are needed is not known yet.\n"
    open_arms = np.flatnonzero(result.decisions == Decision.UNDECIDED)
    hardest = open_arms[np.argsort(-needed[open_arms], kind="stable")][:HARDEST]
    rows = [[shown(result.labels[i]), about(float(needed[i]))] for i in hardest.tolist()]
    return f"\nStill needed: {rough(float(needed.sum()), 'samples')}; most by these:\n\n" + table(
        ["thing", "samples"], rows, right=["samples"], wrap="thing"
    )


def _choices(result: Result, question: Question, ask: Ask) -> str:
    rows = [_row("as asked", result)]
    for name, changes in _changes(question).items():
        try:
            rows.append(_row(name, ask(changes)))
        except InvalidParameter:
            continue  # this question cannot be asked in that way
    header = ["option", "outliers", "normal", "undecided"]
    return "\nThe same samples, asked otherwise (choosing by looking is not paid for):\n\n" + table(
        header, rows, right=header[1:]
    )


def _changes(question: Question) -> dict[str, dict[str, Any]]:
    width = question.bounds[1] - question.bounds[0]
    larger = 2.0 * question.margin if question.margin > 0.0 else 0.05 * width
    near = 0.02 * width
    return {
        f"--margin {larger:g}": {"margin": larger},
        f"--indifference {near:g}": {"indifference": near},
        "--error fdr": {"error": "fdr"},
        f"--delta {min(4.0 * question.delta, 0.5):g}": {"delta": min(4.0 * question.delta, 0.5)},
    }


def _row(name: str, result: Result) -> list[str]:
    parts = (result.outliers, result.normal, result.undecided)
    return [name, *(f"{len(part):,}" for part in parts)]
