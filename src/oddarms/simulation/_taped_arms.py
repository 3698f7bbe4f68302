"""Bernoulli arms with tapes, for runs step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from oddarms.arms import Bernoulli
from oddarms.problem import FloatArray, IntArray, Label
from oddarms.simulation._tapes import EMPTY, full_tape


class TapedBernoulli(Bernoulli):
    """Bernoulli arms that play tapes as the kernels do, one reward at a time."""

    def __init__(
        self,
        means: npt.ArrayLike,
        *,
        labels: Sequence[Label] | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__(means, labels=labels, rng=rng)
        self._tapes = [EMPTY] * self.means.size

    def seeded(self, rng: np.random.Generator) -> Self:
        """Return these arms drawing from `rng`, with tapes of their own."""
        arms = super().seeded(rng)
        if arms is not self:
            arms._tapes = [EMPTY] * self.means.size
        return arms

    def pull_totals(self, indices: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return each entry's sum, twice: rewards are their own squares."""
        entries = np.repeat(np.arange(counts.size), counts)
        rewards = self.pull(indices, counts)
        ones = np.bincount(entries, rewards, minlength=counts.size).astype(np.float64)
        return ones, ones

    def _draw(self, arms: IntArray) -> FloatArray:
        return np.array([self._next(int(i)) for i in arms], dtype=np.float64)

    def _next(self, i: int) -> int:
        if self._tapes[i] == EMPTY:
            self._tapes[i] = full_tape(self.rng, float(self.means[i]), mirrored=False)
        reward = self._tapes[i] & 1
        self._tapes[i] >>= 1
        return reward
