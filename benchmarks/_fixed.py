"""What is done without an algorithm: as many runs of every arm, and the rule on the averages.

Three usual ways judge the same averages: mean + k standard deviations of all averages (a z-score
of k), median + k MAD, and exact tests against that estimated threshold with Benjamini-Hochberg
correction. Nothing says how likely their lists are to be wrong; here it is counted, on SPADE's
instances. `equal_until_decided` samples all arms equally until our own evidence decides them all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from pandas import DataFrame
from scipy.stats import binom, t

from benchmarks._compare import SPADE, Effort, Row, repeated
from oddarms.analysis import analyze
from oddarms.arms import Bernoulli, SimulatedArms
from oddarms.experiments import Cell, Grid, Setting
from oddarms.experiments._paper import DELTA
from oddarms.problem import FloatArray, IntArray
from oddarms.theory import outliers

RUNS_EACH = (10, 30, 50, 100)
LOOKS = [round(20 * 2 ** (i / 2)) for i in range(24)]
"""Samples of every arm when `equal_until_decided` looks."""


def fixed_runs(rows: Sequence[Row], effort: Effort, *, seed: int) -> Iterator[dict[str, Any]]:
    """Yield each number of runs for each family of a comparison.

    The last number is SPADE's mean pulls over n, rounded up, so that the cost is the same. `wrong`
    is on how many of SPADE's instances any arm was called wrongly by z-scores; `wrong_mad` and
    `wrong_tests` are the same of median + k MAD and of tests with correction, which are for rewards
    of 0 and 1.
    """
    for row in rows:
        like_spade = math.ceil(fmean(outcome.pulls for outcome in row.spade) / row.n)
        numbers = (*RUNS_EACH, like_spade)
        wrong = np.zeros((len(numbers), 3), dtype=np.int64)
        for cell in Grid([repeated(row.setting, effort.runs)], [SPADE]).cells(seed):
            wrong += _errs(cell, numbers)
        is_coin = isinstance(cell.arms, Bernoulli)
        for place, (runs_each, errors) in enumerate(zip(numbers, wrong.tolist(), strict=True)):
            yield {
                "family": row.setting.name,
                "n": row.n,
                "runs_each": runs_each,
                "pulls": runs_each * row.n,
                "wrong": errors[0],
                "runs": len(row.spade),
                "wrong_mad": errors[1],
                "wrong_tests": errors[2] if is_coin else None,
                "like_spade": place == len(RUNS_EACH),
            }


def _errs(cell: Cell, numbers: Sequence[int]) -> list[list[bool]]:
    """Return for each number of runs whether each of the three ways calls any arm wrongly.

    The rewards are independent of each other and of SPADE's, which come from the first child of
    the same seed.
    """
    _, *children = np.random.default_rng(cell.seed).spawn(1 + len(numbers))
    truth = outliers(cell.arms.means, cell.setting.k)
    return [
        [
            not np.array_equal(found, truth)
            for found in lists(averages(cell.arms, number, child), number, cell.setting.k)
        ]
        for number, child in zip(numbers, children, strict=True)
    ]


def lists(found: FloatArray, runs_each: int, k: float) -> tuple[IntArray, IntArray, IntArray]:
    """Return the outliers by z-scores, by median and MAD, and by tests with BH correction."""
    median = np.median(found)
    mad = 1.4826 * np.median(np.abs(found - median))
    theta = min(1.0, found.mean() + k * found.std())
    p = binom.sf(np.round(found * runs_each) - 1, runs_each, theta)
    order = np.argsort(p)
    passed = np.flatnonzero(p[order] <= DELTA * np.arange(1, p.size + 1) / p.size)
    by_tests = np.sort(order[: passed[-1] + 1]) if passed.size else order[:0]
    return outliers(found, k), np.flatnonzero(found >= median + k * mad), by_tests


def equal_until_decided(families: Sequence[Setting], runs: int, *, seed: int) -> Iterator[Any]:
    """Yield for each family how many samples `analyze` needs if all arms have equally many.

    `pulls` and `half_width_95` are the mean over the instances and its interval.
    """
    for family in families:
        found = [_equal(cell) for cell in Grid([repeated(family, runs)], [SPADE]).cells(seed)]
        pulls = [one[0] for one in found]
        width = t.ppf(0.975, len(pulls) - 1) * np.std(pulls, ddof=1) / math.sqrt(len(pulls))
        yield {
            "family": family.name,
            "n": family.draw(seed=0).means.size,
            "pulls": fmean(pulls),
            "half_width_95": float(width),
            "wrong": sum(finished and not right for _, right, finished in found),
            "unfinished": sum(not finished for *_, finished in found),
            "runs": len(found),
        }


def _equal(cell: Cell) -> tuple[int, bool, bool]:
    """Return pulls of all arms together, whether the list is right, and whether it is complete."""
    *_, child = np.random.default_rng(cell.seed).spawn(2 + len(RUNS_EACH) + 1)
    arms, n, k = cell.arms.seeded(child), cell.arms.means.size, cell.setting.k
    assert isinstance(arms, Bernoulli)
    truth = outliers(cell.arms.means, k)
    total, made = np.zeros(n), 0
    for look in LOOKS:
        more, _ = arms.pull_totals(np.arange(n), np.full(n, look - made))
        total, made = total + more, look
        table = {"arm": np.arange(n), "trials": np.full(n, made), "events": total.astype(int)}
        result = analyze(
            DataFrame(table),
            arm="arm",
            trials="trials",
            events="events",
            looks=len(LOOKS),
            k=k,
            delta=cell.setting.delta,
            margin=0.0,
        )
        if not result.undecided:
            return (
                made * n,
                np.array_equal(sorted(map(str, result.outliers)), sorted(map(str, truth))),
                True,
            )
    return made * n, False, False


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
