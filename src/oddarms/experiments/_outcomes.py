"""Outcomes of a comparison: tidy rows, means with intervals, ratios and trends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddarms.experiments._grid import Cell
from oddarms.files import write_whole
from oddarms.problem import FloatArray
from oddarms.tables import csv_text
from oddarms.text import table


@dataclass(frozen=True)
class IntervalRow:
    """The interval of an arm, or of the threshold (arm -1), at the first or the last round."""

    round: str
    arm: int
    estimate: float | None
    lower: float | None
    upper: float | None
    decision: str


@dataclass(frozen=True)
class Measured:
    """The measurements of a run.

    Attributes
    ----------
    pulls, threshold_pulls, rounds
        All pulls, those made for the threshold alone, and rounds.
    complete
        Whether every arm was decided before the budget ended.
    correct
        Whether no decision is wrong.
    intervals
        Intervals at the first and the last round, if the setting keeps them.
    """

    pulls: int
    threshold_pulls: int
    rounds: int
    complete: bool
    correct: bool
    intervals: tuple[IntervalRow, ...] = ()


MEASURED = ("pulls", "threshold_pulls", "rounds", "complete", "correct")


@dataclass(frozen=True)
class Outcome:
    """One run: a row of the table. The seeds are those of the instance and of the run.

    ``oddarms.simulate(means, k=k, delta=delta, algorithm=..., rng=seed)`` repeats it.
    """

    figure: str
    setting: str
    data: str
    n: int
    k: float
    delta: float
    smallest_gap: float
    outliers: int
    instance: int
    algorithm: str
    run: int
    pulls: int
    threshold_pulls: int
    rounds: int
    complete: bool
    correct: bool
    instance_seed: int
    seed: int

    @classmethod
    def of(cls, cell: Cell, measured: Measured) -> Outcome:
        """Return the row of a cell and its run."""
        return cls(
            figure=cell.setting.figure,
            setting=cell.setting.name,
            data=cell.setting.data,
            n=cell.arms.means.size,
            k=float(cell.setting.k),
            delta=float(cell.setting.delta),
            smallest_gap=cell.smallest_gap,
            outliers=cell.outliers,
            instance=cell.instance,
            algorithm=cell.contender.name,
            run=cell.run,
            instance_seed=cell.instance_seed,
            seed=cell.seed,
            **{name: getattr(measured, name) for name in MEASURED},
        )


COLUMNS = tuple(column.name for column in fields(Outcome))
INTERVAL_COLUMNS = (
    "figure",
    "setting",
    "instance",
    "algorithm",
    "run",
    *(column.name for column in fields(IntervalRow)),
)


@dataclass(frozen=True)
class Summary:
    """The runs of one algorithm on one setting.

    Attributes
    ----------
    mean, half_width
        Mean pulls, and half the width of its 95 % interval (Student's; NaN for one run). With
        `unfinished` > 0 the mean is a lower bound.
    wrong, unfinished, runs
        Runs with a wrong decision, runs that a budget ended, all runs.
    """

    figure: str
    setting: str
    algorithm: str
    runs: int
    mean: float
    half_width: float
    wrong: int
    unfinished: int


class Outcomes(Sequence[Outcome]):
    """All runs of a comparison, in the order of its grid."""

    def __init__(self, cells: Sequence[Cell], measured: Sequence[Measured]) -> None:
        self._rows = [Outcome.of(*pair) for pair in zip(cells, measured, strict=True)]
        self._measured = measured

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def summaries(self) -> list[Summary]:
        """Return mean pulls with intervals per setting and algorithm, in the grid's order."""
        groups: dict[tuple[str, str, str], list[Outcome]] = {}
        for row in self._rows:
            groups.setdefault((row.figure, row.setting, row.algorithm), []).append(row)
        return [_summary(rows) for rows in groups.values()]

    def intervals(self) -> Iterator[tuple[Any, ...]]:
        """Yield the kept intervals, with the columns INTERVAL_COLUMNS."""
        for row, measured in zip(self._rows, self._measured, strict=True):
            place = (row.figure, row.setting, row.instance, row.algorithm, row.run)
            for interval in measured.intervals:
                yield (*place, *_values(interval))

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the rows as CSV, and write them to a file if one is given."""
        text = csv_text(COLUMNS, (_values(row) for row in self._rows))
        if path is not None:
            write_whole(path, text)
        return text

    def __str__(self) -> str:
        """Return the means as a table for people."""
        header = ("setting", "algorithm", "pulls", "95 %", "runs", "wrong", "unfinished")
        rows = [
            (
                f"{row.figure} {row.setting}".strip(),
                row.algorithm,
                f"{'> ' if row.unfinished else ''}{row.mean:,.0f}",
                "" if math.isnan(row.half_width) else f"± {row.half_width:,.0f}",
                row.runs,
                row.wrong,
                row.unfinished,
            )
            for row in self.summaries()
        ]
        return table(header, rows).rstrip("\n")


def _values(row: Outcome | IntervalRow) -> tuple[Any, ...]:
    return tuple(getattr(row, column.name) for column in fields(row))


def _summary(rows: list[Outcome]) -> Summary:
    pulls = np.array([row.pulls for row in rows], dtype=np.float64)
    return Summary(
        figure=rows[0].figure,
        setting=rows[0].setting,
        algorithm=rows[0].algorithm,
        runs=len(rows),
        mean=float(pulls.mean()),
        half_width=half_width(pulls),
        wrong=sum(not row.correct for row in rows),
        unfinished=sum(not row.complete for row in rows),
    )


def half_width(values: Any, confidence: float = 0.95) -> float:
    """Return half the width of Student's interval of a mean; NaN for fewer than two values."""
    from scipy.special import stdtrit

    sample = np.asarray(values, dtype=np.float64)
    if sample.size < 2:
        return math.nan
    quantile = float(stdtrit(sample.size - 1, 0.5 + confidence / 2.0))
    return quantile * float(sample.std(ddof=1)) / math.sqrt(sample.size)


class Estimate(NamedTuple):
    """A figure with the ends of its 95 % interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{_short(self.value)} ({_short(self.lower)} to {_short(self.upper)})"


class Runs:
    """The runs of one figure, by setting and algorithm."""

    def __init__(self, rows: Iterable[Outcome]) -> None:
        self.rows = list(rows)
        self.settings = list(dict.fromkeys(row.setting for row in self.rows))
        self.algorithms = list(dict.fromkeys(row.algorithm for row in self.rows))

    @property
    def fewest(self) -> int:
        """The fewest runs of an algorithm on a setting."""
        return min(Counter((row.setting, row.algorithm) for row in self.rows).values())

    def of(self, setting: str, algorithm: str) -> list[Outcome]:
        """Return the runs of an algorithm on a setting."""
        return [row for row in self.rows if row.setting == setting and row.algorithm == algorithm]

    def mean(self, setting: str, algorithm: str) -> float:
        """Return mean pulls."""
        return float(np.mean([row.pulls for row in self.of(setting, algorithm)]))

    def ratio(self, setting: str, algorithm: str, other: str) -> Estimate:
        """Return the geometric mean of an algorithm's pulls divided by another's.

        Over pairs of runs on the same instance, with Student's interval of the logarithms.
        """
        pairs = zip(self.of(setting, algorithm), self.of(setting, other), strict=True)
        logs = np.array([math.log(one.pulls / two.pulls) for one, two in pairs])
        centre, width = float(logs.mean()), half_width(logs)
        width = math.inf if math.isnan(width) else width
        return Estimate(*(math.exp(value) for value in (centre, centre - width, centre + width)))

    def fewer(self, setting: str, algorithm: str, other: str) -> bool:
        """Return whether an algorithm clearly needs fewer pulls than another."""
        return self.ratio(setting, algorithm, other).upper < 1.0

    def trend(self, algorithm: str, column: str, other: str | None = None) -> Estimate:
        """Return the exponent b in pulls ~ column^b, by least squares on logarithms.

        With `other`, of this algorithm's pulls divided by the other's. The interval is Student's.
        """
        rows = [row for name in self.settings for row in self.of(name, algorithm)]
        y = np.log([row.pulls for row in rows])
        if other is not None:
            y = y - np.log([row.pulls for name in self.settings for row in self.of(name, other)])
        x = np.log([getattr(row, column) for row in rows])
        return _slope(x, y)


def _slope(x: FloatArray, y: FloatArray) -> Estimate:
    from scipy.special import stdtrit

    spread = x - x.mean()
    scale = float((spread**2).sum())
    if x.size < 3 or scale == 0.0:
        return Estimate(math.nan, -math.inf, math.inf)
    slope = float((spread * y).sum()) / scale
    residual = y - y.mean() - slope * spread
    error = math.sqrt(float((residual**2).sum()) / (x.size - 2) / scale)
    width = float(stdtrit(x.size - 2, 0.975)) * error
    return Estimate(slope, slope - width, slope + width)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.2g}"


def short_number(value: float) -> str:
    """Return a number of pulls for people: "41.2 million", "7,300"."""
    return f"{value / 1e6:.3g} million" if value >= 1e6 else f"{value:,.0f}"
