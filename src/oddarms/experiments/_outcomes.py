"""Outcomes of a comparison: tidy rows, and means with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.experiments._grid import Cell
from oddarms.files import write_whole
from oddarms.tables import csv_text
from oddarms.text import table


@dataclass(frozen=True)
class Measured:
    """What a run took, whether it decided every arm within the budget, and none wrongly."""

    pulls: int
    threshold_pulls: int
    rounds: int
    complete: bool
    correct: bool


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
            **asdict(measured),
        )


COLUMNS = tuple(column.name for column in fields(Outcome))


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

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the rows as CSV, and write them to a file if one is given."""
        text = csv_text(COLUMNS, map(astuple, self._rows))
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


def _summary(rows: list[Outcome]) -> Summary:
    from scipy.special import stdtrit

    pulls = np.array([row.pulls for row in rows], dtype=np.float64)
    half_width = math.nan
    if pulls.size > 1:
        quantile = float(stdtrit(pulls.size - 1, 0.975))
        half_width = quantile * float(pulls.std(ddof=1)) / math.sqrt(pulls.size)
    return Summary(
        figure=rows[0].figure,
        setting=rows[0].setting,
        algorithm=rows[0].algorithm,
        runs=len(rows),
        mean=float(pulls.mean()),
        half_width=half_width,
        wrong=sum(not row.correct for row in rows),
        unfinished=sum(not row.complete for row in rows),
    )


def short_number(value: float) -> str:
    """Return a number of pulls for people: "41.2 million", "7,300"."""
    return f"{value / 1e6:.3g} million" if value >= 1e6 else f"{value:,.0f}"
