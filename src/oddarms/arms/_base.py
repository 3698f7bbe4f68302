"""What a source of rewards is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from oddarms.problem import FloatArray, IntArray, Label


@runtime_checkable
class Source(Protocol):
    """Anything with labels that can be pulled.

    `pull` returns ``counts.sum()`` rewards: first ``counts[0]`` of arm ``indices[0]``, then
    ``counts[1]`` of arm ``indices[1]``, and so on. An arm may stand in several entries.
    """

    @property
    def labels(self) -> Sequence[Label]:
        """The arms' names, in the order of the indices."""
        ...

    def pull(self, indices: IntArray, counts: IntArray) -> npt.ArrayLike:
        """Return one reward per pull, in order."""
        ...


@runtime_checkable
class SeededSource(Source, Protocol):
    """A source that draws random rewards and can be told with which generator."""

    def seeded(self, rng: np.random.Generator) -> Self:
        """Return this source drawing from `rng`, unless it has a generator of its own."""
        ...


@runtime_checkable
class TotalsSource(Source, Protocol):
    """A source that can sum up rewards without listing them, for large counts."""

    def pull_totals(self, indices: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return each entry's sum of rewards and sum of squared rewards."""
        ...
