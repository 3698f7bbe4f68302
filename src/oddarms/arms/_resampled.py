"""Arms that draw from recorded rewards, for simulations and for finite populations."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oddarms.arms._simulated import SimulatedArms
from oddarms.errors import InvalidParameter, PullFailed
from oddarms.problem import FloatArray, IntArray


class Resampled(SimulatedArms):
    """Arms whose rewards are drawn from recorded ones.

    This simulates a search on arms like these. It proves nothing about the arms: to find out what
    recorded rewards prove, use `oddarms.analyze`.

    Parameters
    ----------
    records
        A mapping from label to that arm's recorded rewards.
    replace
        True draws with replacement, without end: the rows stand for the arm's distribution. False
        draws each row once, in a random order: the rows are a finite population, and
        `oddarms.find` uses the algorithm "census".
    rng
        A generator or a seed. Without one, the ``rng`` of `oddarms.find` decides.

    Attributes
    ----------
    means, sizes
        The average of each arm's rows, and how many it has.

    Examples
    --------
    >>> audit = Resampled({"ann": [0, 0, 1, 1], "bob": [1, 1]}, replace=False, rng=1)
    >>> audit.means.tolist(), sorted(audit.pull([0], [4]).tolist())
    ([0.5, 1.0], [0.0, 0.0, 1.0, 1.0])
    """

    def __init__(
        self,
        records: Mapping[Any, npt.ArrayLike],
        *,
        replace: bool = True,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        rewards = [np.asarray(values, dtype=np.float64).ravel() for values in records.values()]
        for label, values in zip(records, rewards, strict=True):
            if values.size == 0 or not np.isfinite(values).all():
                raise InvalidParameter(f"The records of arm {label!r} must be finite numbers.")
        super().__init__([v.mean() for v in rewards], labels=list(records), rng=rng)
        self.replace = replace
        self.sizes: IntArray = np.array([v.size for v in rewards], dtype=np.int64)
        self._rewards: FloatArray = np.concatenate(rewards)
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._used: IntArray = np.zeros(self.sizes.size, dtype=np.int64)
        self._order: IntArray | None = None  # of all rows, arm by arm; drawn at the first pull

    @property
    def endless(self) -> bool:
        """Whether rewards are drawn with replacement."""
        return self.replace

    def seeded(self, rng: np.random.Generator) -> Self:
        """Return the arms with no row used; one with a generator of its own keeps its order."""
        if self.replace:
            return super().seeded(rng)
        if self._rng is not None and self._order is None:
            self._order = self._shuffled()
        arms = copy(self)
        arms._rng = rng if self._rng is None else self._rng
        arms._order = None if self._rng is None else self._order
        arms._used = np.zeros_like(self._used)
        return arms

    def _draw(self, arms: IntArray) -> FloatArray:
        if self.replace:
            rows = self._starts[arms] + self.rng.integers(self.sizes[arms])
        else:
            rows = self._next_rows(arms)
        drawn: FloatArray = self._rewards[rows]
        return drawn

    def _next_rows(self, arms: IntArray) -> IntArray:
        if self._order is None:
            self._order = self._shuffled()
        wanted = np.bincount(arms, minlength=self.sizes.size)
        short = np.flatnonzero(wanted > self.sizes - self._used)
        if short.size:
            label = self.labels[int(short[0])]
            raise PullFailed(f"arm {label!r} has no rows left.", label)
        grouped = np.argsort(arms, kind="stable")
        before = np.cumsum(wanted) - wanted
        places = np.empty(arms.size, dtype=np.int64)
        places[grouped] = np.arange(arms.size) - np.repeat(before, wanted)
        rows: IntArray = self._order[self._starts[arms] + self._used[arms] + places]
        self._used = self._used + wanted
        return rows

    def _shuffled(self) -> IntArray:
        arms = np.repeat(np.arange(self.sizes.size), self.sizes)
        return np.lexsort((self.rng.random(arms.size), arms))
