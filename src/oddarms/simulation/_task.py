"""One whole run, compiled or through `oddarms.find`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oddarms.algorithms import Decision, Decisions
from oddarms.algorithms._base import UNLIMITED
from oddarms.algorithms._round_robin import check_batch, check_rho
from oddarms.arms import SimulatedArms
from oddarms.problem import IntArray, Side
from oddarms.search import find
from oddarms.simulation._families import family_of

COMPILED = ("ade", "rr", "wrr")


class Run(NamedTuple):
    """What one run found."""

    decisions: Decisions
    pulls_per_arm: IntArray
    rounds: int
    threshold_pulls: int
    threshold: float
    threshold_radius: float


@dataclass(frozen=True)
class Task:
    """An algorithm and an instance; called with a generator, it does one run.

    The compiled and the interactive run use the generator in the same way: its first child
    decides the algorithm's choices, its second the rewards.
    """

    arms: SimulatedArms
    k: float
    delta: float
    algorithm: str
    bounds: tuple[float, float]
    side: Side
    budget: int | None
    options: dict[str, Any]
    compiled: bool

    def __call__(self, rng: np.random.Generator) -> Run:
        """Do one run."""
        return self._run_compiled(rng) if self.compiled else self._run_interactive(rng)

    def _run_interactive(self, rng: np.random.Generator) -> Run:
        result = find(
            self.arms,
            k=self.k,
            delta=self.delta,
            algorithm=self.algorithm,
            bounds=self.bounds,
            side=self.side,
            budget=self.budget,
            rng=rng,
            **self.options,
        )
        estimate, lower, upper = next(iter(result.thresholds.values()))
        return Run(
            result.decisions,
            result.pulls_per_arm,
            result.round,
            result.threshold_pulls,
            estimate,
            (upper - lower) / 2.0,
        )

    def _run_compiled(self, rng: np.random.Generator) -> Run:
        from oddarms.simulation._kernels import run_ade, run_round_robin

        means = np.array(self.arms.means)  # writable, so that a kernel has one signature
        family = family_of(self.arms)
        assert family is not None
        n = means.size
        pulls = np.zeros(n, dtype=np.int64)
        decisions = np.zeros(n, dtype=np.int8)
        mirrored = self.side == "lower"
        shared_arguments = (
            UNLIMITED if self.budget is None else self.budget,
            family.code,
            family.value(self.arms),
            mirrored,
            *rng.spawn(2),
            pulls,
            decisions,
        )
        head = (means, self.k, self.delta)
        if self.algorithm == "ade":
            shared = bool(self.options.get("shared", False))
            found = run_ade(*head, shared, *shared_arguments)
        else:
            batch = check_batch(self.options.get("batch", 1))
            rho = self._rho(n)
            found = run_round_robin(*head, rho, batch, *shared_arguments)
        rounds, threshold_pulls, threshold, radius = found
        if mirrored:
            decisions[decisions == Decision.HIGH] = Decision.LOW
            threshold = 1.0 - threshold
        return Run(decisions, pulls, rounds, threshold_pulls, threshold, radius)

    def _rho(self, n: int) -> float:
        if self.algorithm == "rr":
            return 1.0  # WRR with weight 1 is RR
        return check_rho(self.options.get("rho"), n, self.k, self.delta)
