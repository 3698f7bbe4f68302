"""Both sides at once, for an algorithm that knows only the upper one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from oddarms.algorithms._base import Algorithm, Decision, Pulls, Threshold, mirrored, no_pulls
from oddarms.problem import FloatArray
from oddarms.rules import Ends, Rule
from oddarms.statistics.totals import mirrored_totals


class TwoSided(Algorithm):
    """Search the upper side, then the lower one on mirrored rewards, each at delta / 2.

    The two searches share no pulls. By the union bound both are right with probability at least
    1 - delta; an arm is normal once it is normal in both.
    """

    def __init__(
        self,
        algorithm: type[Algorithm],
        n: int,
        *,
        rule: Rule,
        delta: float,
        rng: np.random.Generator,
        **options: Any,
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        self.upper = algorithm(n, rule=rule, delta=delta / 2.0, rng=rng, **options)
        self.lower = algorithm(n, rule=rule, delta=delta / 2.0, rng=rng, **options)

    @property
    def _current(self) -> Algorithm:
        return self.lower if self.upper.done else self.upper

    def propose(self, limit: int) -> Pulls:
        return no_pulls() if self.done else self._current.propose(limit)

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        side = self._current
        self._count(pulls, sums)
        if side is self.lower:
            sums, squares = mirrored_totals(pulls.counts, sums, squares)
        side.absorb(pulls, sums, squares)
        self.round = self.upper.round + self.lower.round
        self.threshold_pulls = self.upper.threshold_pulls + self.lower.threshold_pulls
        self._merge_decisions()

    def outlook(self) -> Iterator[Pulls]:
        return self._current.outlook()

    def _merge_decisions(self) -> None:
        up, down = self.upper.decisions, self.lower.decisions
        self.decisions[:] = Decision.UNDECIDED
        self.decisions[(up == Decision.NORMAL) & (down == Decision.NORMAL)] = Decision.NORMAL
        self.decisions[down == Decision.HIGH] = Decision.LOW
        self.decisions[up == Decision.HIGH] = Decision.HIGH
        if self.upper.proven:
            self.settle()  # each search uses its own intervals only

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = self.upper.intervals()
        if self.lower.round:
            mirrored_lower, mirrored_upper = self.lower.intervals()
            lower = np.maximum(lower, 1.0 - mirrored_upper)
            upper = np.minimum(upper, 1.0 - mirrored_lower)
        return lower, upper

    def threshold(self) -> Threshold:
        return self.upper.threshold()

    def centre(self) -> Ends:
        return self.upper.centre()

    def thresholds(self) -> dict[str, Threshold]:
        return {"upper": self.upper.threshold(), "lower": mirrored(self.lower.threshold())}
