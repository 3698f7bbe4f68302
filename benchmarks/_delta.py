"""How SPADE's pulls grow as delta falls, on the same instances for all of them.

The yardstick is the first-order limit times log(n/delta), as for n tests at level delta/n each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from benchmarks._compare import SPADE, repeated, run_limits, tenths
from oddarms.experiments import Grid, Setting, run

DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12)
MOST_ARMS = 50
INSTANCES = 20
QUICK_INSTANCES = 2


def falling_delta(
    families: Sequence[Setting],
    instances: int,
    *,
    seed: int,
    jobs: int,
    report: Callable[[str], None],
    deltas: Sequence[float] = DELTAS,
) -> Iterator[dict[str, Any]]:
    """Yield every family at every delta; instances and seeds follow from the names alone.

    `pulls` are those of each run, in the same order of instances at every delta.
    """
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
            yield {
                "family": summary.setting,
                "n": own[0].n,
                "delta": delta,
                "mean_pulls": summary.mean,
                "over_log_n_over_delta": summary.mean / fmean(limits[summary.setting]),
                "wrong": summary.wrong,
                "runs": summary.runs,
                "pulls": [outcome.pulls for outcome in own],
            }
