"""All algorithms on the same instances in the same run: samples, errors, ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oddarms.benchmark._instances import (
    InstanceFamily,
    held_out_families,
    instance_families,
    paper_families,
)
from oddarms.limit import first_order_program
from oddarms.problem import FloatArray
from oddarms.simulation import simulate

DELTA = 0.1
SMALL = 200
SLOW_REWARDS = 20  # drawing a Beta reward takes about this many times as long as a Bernoulli one


@dataclass(frozen=True)
class Effort:
    """How much to run: instances for SPADE, and for the others, which stop at a budget."""

    runs: int
    baseline_runs: int
    budget: int

    def with_runs(self, runs: int) -> Effort:
        """Return the effort with another number of instances."""
        return replace(self, runs=runs)

    def describe(self) -> str:
        """Return the effort in words."""
        return (
            f"delta = {DELTA}; mean pulls over {self.runs} random instances for SPADE (± 95 %) and"
            f" {self.baseline_runs} of the same for the others, which stop at {self.budget:,} pulls"
            ' (">" where they did)'
        )


@dataclass(frozen=True)
class Contender:
    """An algorithm with its options as it stands in the table."""

    name: str
    algorithm: str
    options: tuple[tuple[str, Any], ...] = ()
    is_baseline: bool = True


def contenders(n: int) -> list[Contender]:
    """Return the algorithms compared; RR and WRR with the ADE paper's batch where n is large."""
    batch = (("batch", 1000 if n >= 700 else 1),)
    return [
        Contender("SPADE", "spade", is_baseline=False),
        Contender("ADE", "ade"),
        Contender("ADE shared", "ade", (("shared", True),)),
        Contender("RR", "rr", batch),
        Contender("WRR", "wrr", batch),
    ]


@dataclass
class Measured:
    """The runs of one contender on one family; unfinished runs count with the budget they used."""

    pulls: list[int] = field(default_factory=list)
    wrong: int = 0
    unfinished: int = 0

    @property
    def mean(self) -> float:
        """Mean pulls; a lower bound of it if runs are unfinished."""
        return float(np.mean(self.pulls))

    @property
    def half_width(self) -> float:
        """Half width of a 95 % interval of the mean, by the central limit theorem."""
        if len(self.pulls) < 2:
            return math.nan
        return 1.96 * float(np.std(self.pulls, ddof=1)) / math.sqrt(len(self.pulls))


@dataclass
class Row:
    """One family: what every contender needed, and the limit."""

    family: InstanceFamily
    limit: float
    measured: dict[str, Measured]

    def ratio_to(self, name: str) -> float:
        """How many times SPADE's pulls on the same instances the other one needed."""
        other = self.measured[name]
        return other.mean / float(np.mean(self.measured["SPADE"].pulls[: len(other.pulls)]))

    @property
    def ratio_to_limit(self) -> float:
        """SPADE's pulls over those of the limit."""
        return self.measured["SPADE"].mean / self.limit


def compare(
    families: list[InstanceFamily],
    effort: Effort,
    *,
    seed: int,
    workers: int,
    report: Callable[[str], None],
) -> Iterator[Row]:
    """Yield a row per family; the same seed gives the same rows on any number of workers.

    Instance number r of a family is drawn from child r of the family's own seed. The baselines
    run on the first of the instances that SPADE runs on.
    """
    with ProcessPoolExecutor(workers) as pool:
        for family, child in zip(
            families, np.random.SeedSequence(seed).spawn(len(families)), strict=True
        ):
            report(family.name)
            tasks = [
                (family.name, instance_seed, effort.budget if r < effort.baseline_runs else 0)
                for r, instance_seed in enumerate(child.spawn(effort.runs))
            ]
            outcomes = list(pool.map(_one_instance, tasks))
            yield _row(family, outcomes)


Outcome = tuple[float, dict[str, tuple[int, bool, bool]]]


def _one_instance(task: tuple[str, np.random.SeedSequence, int]) -> Outcome:
    name, seed, budget = task
    known = [*instance_families(), *paper_families(), *held_out_families()]
    family = next(family for family in known if family.name == name)
    instance_seed, run_seed = seed.spawn(2)
    means = family.draw(np.random.default_rng(instance_seed))
    found = {}
    for contender in contenders(family.n):
        if contender.is_baseline and not budget:
            continue
        limit = budget if family.rewards == "bernoulli" else budget // SLOW_REWARDS
        options: dict[str, Any] = {**dict(family.options), **dict(contender.options)}
        simulation = simulate(
            means,
            k=family.k,
            delta=DELTA,
            algorithm=contender.algorithm,
            family=family.rewards,
            rng=np.random.default_rng(run_seed),
            budget=limit if contender.is_baseline else None,
            **options,
        )
        found[contender.name] = (
            int(simulation.pulls[0]),
            bool(simulation.correct[0]),
            bool(simulation.complete[0]),
        )
    return family_limit(family, means), found


def family_limit(family: InstanceFamily, means: FloatArray) -> float:
    """Return the first-order limit times log(n/delta), with the rewards' true variances."""
    per_nat = first_order_program(means, family.variances(means), family.k)
    return float(per_nat.sum()) * math.log(family.n / DELTA)


def _row(family: InstanceFamily, outcomes: list[Outcome]) -> Row:
    measured = {contender.name: Measured() for contender in contenders(family.n)}
    for _, found in outcomes:
        for name, (pulls, correct, complete) in found.items():
            measured[name].pulls.append(pulls)
            measured[name].wrong += not correct
            measured[name].unfinished += not complete
    return Row(family, float(np.mean([limit for limit, _ in outcomes])), measured)
