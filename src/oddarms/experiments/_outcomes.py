"""What a comparison found, as tidy rows and as means with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.errors import MissingExtra
from oddarms.experiments._cells import IntervalRow, Measured
from oddarms.experiments._grid import Cell
from oddarms.files import write_whole
from oddarms.tables import csv_text


@dataclass(frozen=True)
class Outcome:
    """One run: a row of the tidy table. Seeds are those of the instance and of the run.

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
        """Join a cell and what its run showed."""
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
            pulls=measured.pulls,
            threshold_pulls=measured.threshold_pulls,
            rounds=measured.rounds,
            complete=measured.complete,
            correct=measured.correct,
            instance_seed=cell.instance_seed,
            seed=cell.seed,
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
        Mean pulls, and half the width of Student's 95 % interval of it (NaN for one run). Runs
        that a budget ended count with what they used, so with `unfinished` > 0 the mean is a
        lower bound.
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
    """All runs of a comparison in the order of its grid; the same whatever made them."""

    def __init__(self, cells: Sequence[Cell], measured: Sequence[Measured]) -> None:
        self._rows = [Outcome.of(*pair) for pair in zip(cells, measured, strict=True)]
        self._measured = measured

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def select(self, keep: Callable[[Outcome], bool]) -> list[Outcome]:
        """Return the rows that a function keeps."""
        return [row for row in self._rows if keep(row)]

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

    def to_frame(self) -> Any:
        """Return the rows as a pandas data frame (``pip install 'oddarms[frame]'``)."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra.of("frame", "a data frame") from None
        return pandas.DataFrame([_values(row) for row in self._rows], columns=COLUMNS)

    def __str__(self) -> str:
        """Return the means as a table for people."""
        rows = [("setting", "algorithm", "pulls", "95 %", "runs", "wrong", "unfinished")]
        for summary in self.summaries():
            width = "" if math.isnan(summary.half_width) else f"± {summary.half_width:,.0f}"
            rows.append(
                (
                    f"{summary.figure} {summary.setting}".strip(),
                    summary.algorithm,
                    f"{'> ' if summary.unfinished else ''}{summary.mean:,.0f}",
                    width,
                    str(summary.runs),
                    str(summary.wrong),
                    str(summary.unfinished),
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


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
