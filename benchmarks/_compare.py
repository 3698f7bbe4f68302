"""All algorithms on the same instances in the same run: samples, errors, ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from oddarms.arms import Beta, SimulatedArms
from oddarms.experiments import Contender, Grid, GridProgress, Outcome, Setting, Summary, run
from oddarms.experiments._paper import DELTA
from oddarms.theory import (
    ade_pulls_bound,
    first_order_program,
    rr_pulls_bound,
    spade_pulls_bound,
)

SLOW_REWARDS = 20  # drawing a Beta reward takes about this many times as long as a Bernoulli one

SPADE = Contender("SPADE", "spade")
BOUNDS = {"SPADE": spade_pulls_bound, "ADE": ade_pulls_bound, "RR": rr_pulls_bound}
"""What the theorems bound the pulls by."""
BASELINES = (
    Contender("ADE", "ade"),
    Contender("ADE shared", "ade", {"shared": True}),
    Contender("RR", "rr"),
    Contender("WRR", "wrr"),
)


@dataclass(frozen=True)
class Effort:
    """How much to run: instances for SPADE, and for the others, which stop at a budget."""

    runs: int
    baseline_runs: int
    budget: int

    def describe(self) -> str:
        """Return the effort in words."""
        return (
            f"delta = {DELTA}; mean pulls over {self.runs} random instances (of the one crowd,"
            f" runs) for SPADE (± 95 %) and {self.baseline_runs} of the same for the others, which"
            f' stop at {self.budget:,} pulls (">" where they did)'
        )

    def of_baselines(self, setting: Setting) -> Setting:
        """Return the setting as the others meet it: on the first instances, within the budget."""
        is_slow = isinstance(setting.draw(seed=0), Beta)
        budget = self.budget // SLOW_REWARDS if is_slow else self.budget
        return replace(repeated(setting, self.baseline_runs), budget=budget)


def repeated(setting: Setting, times: int) -> Setting:
    """Return the setting with so many instances, or runs where there is one instance only."""
    return replace(setting, instances=times) if setting.draws else replace(setting, runs=times)


@dataclass(frozen=True)
class Row:
    """One family: what every contender needed, and the limit.

    Attributes
    ----------
    setting
        The family.
    limits
        The limit of the instance of each of SPADE's runs.
    spade
        SPADE's runs; the others' are on the first of the same instances.
    summaries
        Of every contender, by name.
    """

    setting: Setting
    limits: list[float]
    spade: list[Outcome]
    summaries: dict[str, Summary]

    @property
    def n(self) -> int:
        """The number of arms."""
        return self.spade[0].n

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        limit = fmean(self.limits)
        return {
            "family": self.setting.name,
            "description": self.setting.data,
            "n": self.n,
            "k": self.setting.k,
            "limit": limit,
            "spade_over_limit": self.summaries[SPADE.name].mean / limit,
            "spade_runs": {
                "pulls": [outcome.pulls for outcome in self.spade],
                "limits": self.limits,
                "wrong": [place for place, one in enumerate(self.spade) if not one.correct],
            },
            "algorithms": {
                name: {
                    "runs": summary.runs,
                    "mean_pulls": summary.mean,
                    "half_width_95": summary.half_width,
                    "wrong": summary.wrong,
                    "unfinished": summary.unfinished,
                }
                for name, summary in self.summaries.items()
            },
        }


def compare(
    families: Sequence[Setting],
    effort: Effort,
    *,
    seed: int,
    jobs: int,
    report: Callable[[str], None],
    baselines: Sequence[Contender] = BASELINES,
) -> list[Row]:
    """Return a row per family; the same seed gives the same rows on any number of jobs."""
    settings = [repeated(family, effort.runs) for family in families]
    limits = run_limits(settings, seed=seed)
    spade = run(Grid(settings, [SPADE]), rng=seed, jobs=jobs, progress=tenths("SPADE", report))
    summaries = spade.summaries()
    if baselines:
        others_grid = Grid([effort.of_baselines(family) for family in families], baselines)
        others = run(others_grid, rng=seed, jobs=jobs, progress=tenths("the others", report))
        summaries += others.summaries()
    return [
        Row(
            family,
            limits[family.name],
            [row for row in spade if row.setting == family.name],
            {found.algorithm: found for found in summaries if found.setting == family.name},
        )
        for family in families
    ]


def tenths(name: str, report: Callable[[str], None]) -> Callable[[GridProgress], None]:
    """Return a progress function that reports each tenth of the runs."""
    said = -1

    def tell(progress: GridProgress) -> None:
        nonlocal said
        tenth = 10 * progress.done // progress.cells
        if tenth > said:
            said = tenth
            report(f"{name}: {progress.done:,} of {progress.cells:,} runs")

    return tell


def run_limits(settings: Sequence[Setting], *, seed: int) -> dict[str, list[float]]:
    """Return the limit of the instance of each run, by family."""
    found: dict[str, list[float]] = {}
    for cell in Grid(settings, [SPADE]).cells(seed):
        own = found.setdefault(cell.setting.name, [])
        is_new = cell.run == 0
        limit = instance_limit(cell.arms, cell.setting.k, cell.setting.delta) if is_new else own[-1]
        own.append(limit)
    return found


def with_few_arms(families: Sequence[Setting], most: int) -> list[Setting]:
    """Return the families of at most so many arms."""
    return [family for family in families if family.draw(seed=0).means.size <= most]


def instance_limit(arms: SimulatedArms, k: float, delta: float) -> float:
    """Return the first-order limit times log(n/delta), with the rewards' true variances."""
    variances = arms.means * (1.0 - arms.means)
    if isinstance(arms, Beta):
        variances = variances / (arms.concentration + 1.0)
    per_nat = float(first_order_program(arms.means, variances, k).sum())
    return per_nat * math.log(arms.means.size / delta)


def bounds_of(families: Sequence[Setting], runs: int, *, seed: int) -> list[dict[str, Any]]:
    """Return the mean of each theorem's bound on the pulls, by family."""
    rows: list[dict[str, Any]] = []
    for family in families:
        cells = list(Grid([repeated(family, runs)], [SPADE]).cells(seed))
        if not family.draws:  # one instance, run many times
            cells = cells[:1]
        means = {
            name: fmean(bound(cell.arms.means, k=family.k, delta=family.delta) for cell in cells)
            for name, bound in BOUNDS.items()
        }
        rows.append({"family": family.name, "n": cells[0].arms.means.size, **means})
    return rows
