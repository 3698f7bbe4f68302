"""What is done without an algorithm: as many runs of every arm, and the rule on the averages.

An arm is called an outlier if its average is at least mean + k standard deviations of all averages.
Nothing says how likely that is to be wrong; here it is counted, on SPADE's instances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from benchmarks._compare import SPADE, Effort, Row
from benchmarks._tables import markdown
from oddarms.arms import Bernoulli, SimulatedArms
from oddarms.experiments import Cell, Grid
from oddarms.problem import FloatArray
from oddarms.theory import outliers

RUNS_EACH = (10, 30, 100)


@dataclass(frozen=True)
class FixedRow:
    """A number of runs of every arm of a family.

    Attributes
    ----------
    runs_each, pulls
        Runs of every arm, and of all arms together.
    wrong, runs
        On how many of SPADE's instances (of the one crowd, runs) any arm was called wrongly, of
        how many.
    like_spade
        Whether the number is SPADE's mean pulls over n, rounded up, so that the cost is the same.
    """

    family: str
    n: int
    runs_each: int
    pulls: int
    wrong: int
    runs: int
    like_spade: bool = False


def fixed_runs(rows: Sequence[Row], effort: Effort, *, seed: int) -> Iterator[FixedRow]:
    """Yield each number of runs for each family of a comparison, the one like SPADE's last."""
    for row in rows:
        like_spade = math.ceil(fmean(outcome.pulls for outcome in row.spade) / row.n)
        numbers = (*RUNS_EACH, like_spade)
        wrong = np.zeros(len(numbers), dtype=np.int64)
        for cell in Grid([effort.of_spade(row.setting)], [SPADE]).cells(seed):
            wrong += _errs(cell, numbers)
        for place, (runs_each, errors) in enumerate(zip(numbers, wrong.tolist(), strict=True)):
            yield FixedRow(
                row.setting.name,
                row.n,
                runs_each,
                runs_each * row.n,
                errors,
                len(row.spade),
                like_spade=place == len(RUNS_EACH),
            )


def _errs(cell: Cell, numbers: Sequence[int]) -> list[bool]:
    """Return for each number of runs whether any arm is called wrongly.

    The rewards are independent of each other and of SPADE's, which come from the first child of
    the same seed.
    """
    _, *children = np.random.default_rng(cell.seed).spawn(1 + len(numbers))
    truth = outliers(cell.arms.means, cell.setting.k)
    return [
        not np.array_equal(outliers(averages(cell.arms, number, child), cell.setting.k), truth)
        for number, child in zip(numbers, children, strict=True)
    ]


def averages(arms: SimulatedArms, runs_each: int, rng: np.random.Generator) -> FloatArray:
    """Return every arm's average over a number of runs."""
    n = arms.means.size
    indices, counts = np.arange(n), np.full(n, runs_each)
    seeded = arms.seeded(rng)
    if isinstance(seeded, Bernoulli):
        totals, _ = seeded.pull_totals(indices, counts)
    else:
        totals = seeded.pull(indices, counts).reshape(n, runs_each).sum(axis=1)
    return np.asarray(totals / runs_each)


def fixed_table(rows: Sequence[FixedRow]) -> str:
    """Return a row per family: the pulls and the wrong answers of each number of runs."""
    families: dict[str, list[FixedRow]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    header = ["family", "n"]
    for number in RUNS_EACH:
        header += [f"{number} runs each: pulls", "wrong"]
    header += ["as many pulls as SPADE: runs each", "pulls", "wrong"]
    return markdown(header, [_table_row(own) for own in families.values()])


def _table_row(rows: Sequence[FixedRow]) -> list[str]:
    cells = [rows[0].family, f"{rows[0].n:,}"]
    for row in rows:
        cells += [f"{row.runs_each:,}"] if row.like_spade else []
        cells += [f"{row.pulls:,}", f"{row.wrong} of {row.runs}"]
    return cells
