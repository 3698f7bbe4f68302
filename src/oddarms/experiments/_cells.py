"""One cell of a comparison: a run on simulated arms and what is kept of it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.experiments._grid import CellTask
from oddarms.rules import true_outliers
from oddarms.search import Result, Snapshot
from oddarms.simulation import run_search, simulate


@dataclass(frozen=True)
class IntervalRow:
    """An arm's interval at the first or the last round; of the threshold, where arm is -1."""

    round: str
    arm: int
    estimate: float | None
    lower: float | None
    upper: float | None
    decision: str


@dataclass(frozen=True)
class Measured:
    """What a run showed. Nothing here depends on where or how fast it ran.

    Attributes
    ----------
    pulls, threshold_pulls, rounds
        Pulls in all, those made for the threshold alone, rounds.
    complete
        Whether every arm was decided before the budget ended.
    correct
        Whether no decision is wrong.
    intervals
        Intervals at the first and the last round, where the setting keeps them.
    """

    pulls: int
    threshold_pulls: int
    rounds: int
    complete: bool
    correct: bool
    intervals: tuple[IntervalRow, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Measured:
        """Return what `to_json` was called on."""
        intervals = tuple(IntervalRow(**row) for row in values["intervals"])
        return cls(**{**values, "intervals": intervals})


def measure(task: CellTask) -> Measured:
    """Make the run."""
    if task.keep_intervals:
        return _measure_with_intervals(task)
    found = simulate(task.arms, task.question, rng=task.seed)
    return Measured(
        pulls=int(found.pulls[0]),
        threshold_pulls=int(found.threshold_pulls[0]),
        rounds=int(found.rounds[0]),
        complete=bool(found.complete[0]),
        correct=bool(found.correct[0]),
    )


def _measure_with_intervals(task: CellTask) -> Measured:
    (rng,) = np.random.default_rng(task.seed).spawn(1)  # as simulate does for its first run
    result = run_search(task.question, task.arms, rng)
    is_outlier = np.logical_or.reduce(list(true_outliers(task.question, task.arms.means).values()))
    wrong = (result.decisions != Decision.UNDECIDED) & (
        (result.decisions >= Decision.HIGH) != is_outlier
    )
    return Measured(
        pulls=result.pulls,
        threshold_pulls=result.threshold_pulls,
        rounds=result.round,
        complete=result.complete,
        correct=not wrong.any(),
        intervals=_interval_rows(result),
    )


def _interval_rows(result: Result) -> tuple[IntervalRow, ...]:
    rows: list[IntervalRow] = []
    for name, snapshot in (("first", result.first), ("last", result.last)):
        if snapshot is not None:
            rows += _snapshot_rows(name, snapshot)
    return tuple(rows)


def _snapshot_rows(name: str, snapshot: Snapshot) -> list[IntervalRow]:
    threshold = next(iter(snapshot.thresholds.values()))
    estimate, lower, upper = map(_plain, threshold)
    rows = [IntervalRow(name, -1, estimate, lower, upper, "threshold")]
    for arm in range(snapshot.means.size):
        values = (snapshot.means[arm], snapshot.lower[arm], snapshot.upper[arm])
        estimate, lower, upper = map(_plain, values)
        decision = Decision(int(snapshot.decisions[arm])).name.lower()
        rows.append(IntervalRow(name, arm, estimate, lower, upper, decision))
    return rows


def _plain(value: float) -> float | None:
    """Return a number for JSON and CSV, or None where nothing is known yet."""
    return float(value) if math.isfinite(value) else None
