"""Recorded rewards, drawn with replacement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.arms._simulated import SimulatedArms
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, IntArray


class Table(SimulatedArms):
    """Arms that draw with replacement from rewards recorded earlier.

    Useful to try a search on data one already has. The arms' true means are the averages of the
    records.

    Parameters
    ----------
    records
        A mapping from label to that arm's recorded rewards.

    Examples
    --------
    >>> table = Table({"ann": [0, 0, 1, 1], "bob": [1, 1]})
    >>> table.means.tolist()
    [0.5, 1.0]
    """

    def __init__(
        self,
        records: Mapping[Any, npt.ArrayLike],
        *,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        rewards = {label: np.asarray(values, np.float64) for label, values in records.items()}
        for label, values in rewards.items():
            if values.ndim != 1 or values.size == 0:
                raise InvalidParameter(
                    f"records of arm {label!r} must be a non-empty list of numbers."
                )
            if not np.isfinite(values).all():
                raise InvalidParameter(f"records of arm {label!r} must be finite numbers.")
        super().__init__([v.mean() for v in rewards.values()], labels=list(rewards), rng=rng)
        self._rewards: FloatArray = np.concatenate(list(rewards.values()))
        self._sizes = np.array([v.size for v in rewards.values()])
        self._starts = np.cumsum(self._sizes) - self._sizes

    @classmethod
    def from_columns(
        cls,
        labels: npt.ArrayLike,
        rewards: npt.ArrayLike,
        *,
        rng: np.random.Generator | int | None = None,
    ) -> Table:
        """Return a table from two columns, an arm and a reward per row, in any order of rows."""
        names: npt.NDArray[Any] = np.asarray(labels)
        values = np.asarray(rewards, dtype=np.float64)
        if names.shape != values.shape or names.ndim != 1:
            raise InvalidParameter(
                f"labels and rewards must be columns of one length but have {names.shape}"
                f" and {values.shape}."
            )
        unique, codes = np.unique(names, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=unique.size))[:-1]
        return cls(dict(zip(unique.tolist(), np.split(values[order], ends), strict=True)), rng=rng)

    def _draw(self, arms: IntArray) -> FloatArray:
        rows = self._starts[arms] + self.rng.integers(self._sizes[arms])
        drawn: FloatArray = self._rewards[rows]
        return drawn
