"""How SPADE's pulls grow as delta falls, on the same instances for all of them.

Two yardsticks: the first-order limit times log(n/delta), as for n tests at level delta/n each, and
times log(1/delta), as in the information-theoretic bound. Their ratio tends to 1 as delta falls, so
SPADE's ratios to them tend to the same value, if to any. The *growth* shows sooner which: the pulls
between two delta over the limit between them, of which log(n) and other fixed costs are no part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from benchmarks._compare import SPADE, limit_per_nat, repeated, tenths
from benchmarks._tables import geometric_mean, markdown
from oddarms.experiments import Grid, Setting, run

DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12)
MOST_ARMS = 50
INSTANCES = 20
QUICK_INSTANCES = 2
LAST_STEPS = 2  # one step more or less of the least delta is mostly noise


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


def few_arms(families: Sequence[Setting]) -> list[Setting]:
    """Return the families whose searches are short enough for the least delta."""
    return [family for family in families if family.draw(seed=0).means.size <= MOST_ARMS]


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
    settings = [repeated(family, instances) for family in families]
    limits = _limits(settings, seed)
    for delta in deltas:
        grid = Grid([replace(setting, delta=delta) for setting in settings], [SPADE])
        outcomes = run(grid, rng=seed, jobs=jobs, progress=tenths(f"delta = {delta:g}", report))
        for summary in outcomes.summaries():
            own = [outcome for outcome in outcomes if outcome.setting == summary.setting]
            n, per_nat = own[0].n, limits[summary.setting]
            yield DeltaRow(
                family=summary.setting,
                n=n,
                delta=delta,
                mean_pulls=summary.mean,
                limit_per_nat=per_nat,
                over_log_n_over_delta=summary.mean / (per_nat * math.log(n / delta)),
                over_log_1_over_delta=summary.mean / (per_nat * math.log(1.0 / delta)),
                wrong=summary.wrong,
                runs=summary.runs,
                pulls=[outcome.pulls for outcome in own],
            )


def _limits(settings: Sequence[Setting], seed: int) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for cell in Grid(settings, [SPADE]).cells(seed):
        limit = limit_per_nat(cell.arms, cell.setting.k)
        found.setdefault(cell.setting.name, []).append(limit)
    return {name: fmean(limits) for name, limits in found.items()}


def by_family(rows: Sequence[DeltaRow]) -> dict[str, list[DeltaRow]]:
    """Return each family's rows, delta falling."""
    found: dict[str, list[DeltaRow]] = {}
    for row in sorted(rows, key=lambda row: -row.delta):
        found.setdefault(row.family, []).append(row)
    return found


def growth(before: DeltaRow, after: DeltaRow) -> tuple[float, float]:
    """Return the pulls from one delta to a lower one over the limit's, and the standard error."""
    limit = after.limit_per_nat * math.log(before.delta / after.delta)
    steps = [low - high for high, low in zip(before.pulls, after.pulls, strict=True)]
    spread = stdev(steps) if len(steps) > 1 else math.nan
    return fmean(steps) / limit, spread / math.sqrt(len(steps)) / limit


def delta_table(rows: Sequence[DeltaRow]) -> str:
    """Return a row per family: its ratio to both yardsticks at each delta, and its growth."""
    families = by_family(rows)
    deltas = [row.delta for row in next(iter(families.values()))]
    header = ["family", *(f"delta = {delta:g}" for delta in deltas), "growth at the end", "wrong"]
    body = [
        [
            name,
            *(_both(row.over_log_n_over_delta, row.over_log_1_over_delta) for row in own),
            "{:.2f} ± {:.2f}".format(*growth(own[-1 - LAST_STEPS], own[-1])),
            f"{sum(row.wrong for row in own)} of {sum(row.runs for row in own)}",
        ]
        for name, own in families.items()
    ]
    means = [
        _both(
            geometric_mean(row.over_log_n_over_delta for row in at),
            geometric_mean(row.over_log_1_over_delta for row in at),
        )
        for at in zip(*families.values(), strict=True)
    ]
    return markdown(header, [*body, ["geometric mean", *means, "", ""]])


def _both(over_log_n_over_delta: float, over_log_1_over_delta: float) -> str:
    return f"{over_log_n_over_delta:.2f} ({over_log_1_over_delta:.2f})"


def delta_note(rows: Sequence[DeltaRow]) -> str:
    """Return what the table shows."""
    lower, upper = sorted({row.delta for row in rows})[::LAST_STEPS][:2]
    return (
        f"Mean pulls of SPADE over {rows[0].runs} instances (the same at every delta) over the"
        " first-order limit times log(n/delta), and in brackets times log(1/delta). Growth at the"
        f" end: the pulls from delta = {upper:g} to {lower:g} over the limit's, ± standard error."
    )
