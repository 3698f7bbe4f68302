"""A number that was given: the floor is the threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oddarms.problem import BoolArray, FloatArray
from oddarms.rules._base import Ends, Rule


@dataclass(frozen=True)
class Absolute(Rule):
    """The floor, whatever the means are; it stands for the centre, too, as there is no other.

    Examples
    --------
    >>> Absolute(floor=0.5).outliers(np.array([0.2, 0.5, 0.9])).tolist()
    [False, True, True]
    """

    name: ClassVar[str] = "absolute"

    def plain(self, means: FloatArray) -> float:  # noqa: ARG002
        """Return the floor."""
        return self.floor

    def centre(self, means: FloatArray) -> float:  # noqa: ARG002
        """Return the floor."""
        return self.floor

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:  # noqa: ARG002
        """Return the floor, twice."""
        return self.floor, self.floor

    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:  # noqa: ARG002
        """Return the floor, twice."""
        return self.floor, self.floor

    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return zeros."""
        return np.zeros(means.size)

    def centre_influence(self, means: FloatArray) -> FloatArray:
        """Return zeros."""
        return np.zeros(means.size)

    def hangs_on(self, means: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:  # noqa: ARG002
        """Return no arm."""
        return np.zeros(means.size, dtype=np.bool_)
