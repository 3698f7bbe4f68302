"""The mean of one arm, with which all others are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oddarms.problem import BoolArray, FloatArray
from oddarms.rules._base import USUAL, Ends, Rule
from oddarms.rules._order import unit


@dataclass(frozen=True, init=False)
class Control(Rule):
    """The mean of the control arm, which is the centre too; it is never an outlier itself.

    Parameters
    ----------
    index
        Which arm it is: to an algorithm its number, in a question its label.
    margin, floor
        As for every `Rule`.

    Examples
    --------
    >>> Control(0, 0.1).outliers(np.array([0.3, 0.2, 0.35, 0.9])).tolist()
    [False, False, False, True]
    """

    name: ClassVar[str] = "control"

    index: Any = 0

    def __init__(self, index: Any = 0, margin: float = USUAL, *, floor: float = -math.inf) -> None:
        for name, value in (("index", index), ("margin", margin), ("floor", floor)):
            object.__setattr__(self, name, value)

    def _own_words(self) -> dict[str, Any]:
        return {"control": self.index}

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
