"""All algorithms on the same instances in the same run: samples, errors, ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from oddarms.arms import Beta, SimulatedArms
from oddarms.experiments import Contender, Grid, GridProgress, Outcome, Setting, Summary, run
from oddarms.paper._settings import DELTA
from oddarms.problem import FloatArray
from oddarms.theory import first_order_program

SMALL = 200
SLOW_REWARDS = 20  # drawing a Beta reward takes about this many times as long as a Bernoulli one

SPADE = Contender("SPADE", "spade")
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

    def with_runs(self, runs: int) -> Effort:
        """Return the effort with another number of instances."""
        return replace(self, runs=runs, baseline_runs=min(runs, self.baseline_runs))

    def describe(self) -> str:
        """Return the effort in words."""
        return (
            f"delta = {DELTA}; mean pulls over {self.runs} random instances (of the one crowd,"
            f" runs) for SPADE (± 95 %) and {self.baseline_runs} of the same for the others, which"
            f' stop at {self.budget:,} pulls (">" where they did)'
        )

    def of_spade(self, setting: Setting) -> Setting:
        """Return the setting as SPADE meets it."""
        return _repeated(setting, self.runs)

    def of_baselines(self, setting: Setting) -> Setting:
        """Return the setting as the others meet it: on the first instances, within the budget."""
        is_slow = isinstance(setting.draw(seed=0), Beta)
        budget = self.budget // SLOW_REWARDS if is_slow else self.budget
        return replace(_repeated(setting, self.baseline_runs), budget=budget)


def _repeated(setting: Setting, times: int) -> Setting:
    return replace(setting, instances=times) if setting.draws else replace(setting, runs=times)


@dataclass(frozen=True)
class Row:
    """One family: what every contender needed, and the limit.

    Attributes
    ----------
    setting
        The family.
    limit
        The mean of the limit over SPADE's instances.
    spade
        SPADE's runs; the others' are on the first of the same instances.
    summaries
        Of every contender, by name.
    """

    setting: Setting
    limit: float
    spade: list[Outcome]
    summaries: dict[str, Summary]

    @property
    def n(self) -> int:
        """The number of arms."""
        return self.spade[0].n

    def ratio_to(self, name: str) -> float:
        """How many times SPADE's pulls on the same instances the other one needed."""
        other = self.summaries[name]
        return other.mean / fmean(row.pulls for row in self.spade[: other.runs])

    @property
    def ratio_to_limit(self) -> float:
        """SPADE's pulls over those of the limit."""
        return self.summaries[SPADE.name].mean / self.limit


def compare(
    families: Sequence[Setting],
    effort: Effort,
    *,
    seed: int,
    jobs: int,
    report: Callable[[str], None],
) -> list[Row]:
    """Return a row per family; the same seed gives the same rows on any number of jobs."""
    spade_grid = Grid([effort.of_spade(family) for family in families], [SPADE])
    others_grid = Grid([effort.of_baselines(family) for family in families], BASELINES)
    spade = run(spade_grid, rng=seed, jobs=jobs, progress=_tenths("SPADE", report))
    others = run(others_grid, rng=seed, jobs=jobs, progress=_tenths("the others", report))
    summaries = [*spade.summaries(), *others.summaries()]
    limits = _limits(spade_grid, seed)
    return [
        Row(
            family,
            limits[family.name],
            [row for row in spade if row.setting == family.name],
            {found.algorithm: found for found in summaries if found.setting == family.name},
        )
        for family in families
    ]


def _tenths(name: str, report: Callable[[str], None]) -> Callable[[GridProgress], None]:
    """Return a progress function that reports each tenth of the runs."""
    said = -1

    def tell(progress: GridProgress) -> None:
        nonlocal said
        tenth = 10 * progress.done // progress.cells
        if tenth > said:
            said = tenth
            report(f"{name}: {progress.done:,} of {progress.cells:,} runs")

    return tell


def _limits(grid: Grid, seed: int) -> dict[str, float]:
    """Return the mean limit of each setting's instances; a millisecond each, so in this process."""
    found: dict[str, list[float]] = {}
    for cell in grid.cells(seed):
        if cell.run == 0:
            limit = instance_limit(cell.arms, cell.setting.k, cell.setting.delta)
            found.setdefault(cell.setting.name, []).append(limit)
    return {name: fmean(limits) for name, limits in found.items()}


def instance_limit(arms: SimulatedArms, k: float, delta: float) -> float:
    """Return the first-order limit times log(n/delta), with the rewards' true variances."""
    per_nat = first_order_program(arms.means, _variances(arms), k)
    return float(per_nat.sum()) * math.log(arms.means.size / delta)


def _variances(arms: SimulatedArms) -> FloatArray:
    """Return the true variance of one reward of each arm, Bernoulli or Beta."""
    bernoulli: FloatArray = arms.means * (1.0 - arms.means)
    return bernoulli / (arms.concentration + 1.0) if isinstance(arms, Beta) else bernoulli
