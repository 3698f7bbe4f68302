"""The mean of one arm, with which all others are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oddarms.problem import BoolArray, FloatArray
from oddarms.rules._base import Ends, Rule
from oddarms.rules._order import unit


@dataclass(frozen=True)
class Control(Rule):
    """The mean of the control arm, which is the centre too; it is never an outlier itself.

    Parameters
    ----------
    index
        Which arm it is.

    Examples
    --------
    >>> Control(index=0, margin=0.1).outliers(np.array([0.3, 0.2, 0.35, 0.9])).tolist()
    [False, False, False, True]
    """

    name: ClassVar[str] = "control"

    index: int = 0

    @property
    def exempt(self) -> tuple[int, ...]:
        """The control arm."""
        return (self.index,)

    def plain(self, means: FloatArray) -> float:
        """Return the control's mean."""
        return float(means[self.index])

    def centre(self, means: FloatArray) -> float:
        """Return the control's mean."""
        return float(means[self.index])

    def plain_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the control's interval."""
        return float(low[self.index]), float(high[self.index])

    def centre_bounds(self, low: FloatArray, high: FloatArray) -> Ends:
        """Return the control's interval."""
        return self.plain_bounds(low, high)

    def plain_influence(self, means: FloatArray) -> FloatArray:
        """Return 1 for the control."""
        return unit(means.size, self.index)

    def centre_influence(self, means: FloatArray) -> FloatArray:
        """Return 1 for the control."""
        return unit(means.size, self.index)

    def hangs_on(self, means: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:  # noqa: ARG002
        """Return the control, and no other arm."""
        mask: BoolArray = np.arange(means.size) == self.index
        return mask
