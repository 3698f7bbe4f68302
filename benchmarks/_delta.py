"""How SPADE's pulls grow as delta falls, on the same instances for all of them.

Two yardsticks: the first-order limit times log(n/delta), as for n tests at level delta/n each, and
times log(1/delta), as in the information-theoretic bound. Their ratio tends to 1 as delta falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from benchmarks._compare import SPADE, repeated, run_limits, tenths
from oddarms.experiments import Grid, Setting, run

DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12)
MOST_ARMS = 50
INSTANCES = 20
QUICK_INSTANCES = 2


@dataclass(frozen=True)
class DeltaRow:
    """One family at one delta.

    Attributes
    ----------
    limit_per_nat
        The mean of the first-order limit per unit of log(1/delta).
    over_log_n_over_delta, over_log_1_over_delta
        Mean pulls over that limit times log(n/delta) and times log(1/delta).
    wrong, runs
        Runs with a wrong answer, and all.
    pulls
        Of each run, in the same order of instances at every delta.
    """

    family: str
    n: int
    delta: float
    mean_pulls: float
    limit_per_nat: float
    over_log_n_over_delta: float
    over_log_1_over_delta: float
    wrong: int
    runs: int
    pulls: list[int]


def falling_delta(
    families: Sequence[Setting],
    instances: int,
    *,
    seed: int,
    jobs: int,
    report: Callable[[str], None],
    deltas: Sequence[float] = DELTAS,
) -> Iterator[DeltaRow]:
    """Yield every family at every delta; instances and seeds follow from the names alone."""
    for delta in deltas:
        settings = [replace(repeated(family, instances), delta=delta) for family in families]
        limits = run_limits(settings, seed=seed)
        outcomes = run(
            Grid(settings, [SPADE]),
            rng=seed,
            jobs=jobs,
            progress=tenths(f"delta = {delta:g}", report),
        )
        for summary in outcomes.summaries():
            own = [outcome for outcome in outcomes if outcome.setting == summary.setting]
            n, limit = own[0].n, fmean(limits[summary.setting])
            per_nat = limit / math.log(n / delta)
            yield DeltaRow(
                family=summary.setting,
                n=n,
                delta=delta,
                mean_pulls=summary.mean,
                limit_per_nat=per_nat,
                over_log_n_over_delta=summary.mean / limit,
                over_log_1_over_delta=summary.mean / (per_nat * math.log(1.0 / delta)),
                wrong=summary.wrong,
                runs=summary.runs,
                pulls=[outcome.pulls for outcome in own],
            )
