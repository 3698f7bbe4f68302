"""What a reward counts as where rewards have no known bounds: clipped, or above a value or not."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import UNIT, FloatArray, brief, check_bounds, check_number

Bounds = tuple[float, float]


class Transform:
    """Makes rewards lie within known bounds, and counts those that it has changed.

    Parameters
    ----------
    clip
        Rewards below the first number count as it, and those above the second as that. What is
        asked is then about the means of clipped rewards.
    above
        A reward counts as 1 if it is above this number and as 0 otherwise. What is asked is then
        about the share of samples above it.

    Attributes
    ----------
    clipped
        How many rewards lay outside `clip`.
    seen
        How many rewards there were.

    Examples
    --------
    >>> slow, capped = Transform(above=0.5), Transform(clip=(0, 10))
    >>> slow.one(0.7), slow.one(0.5), capped.one(99.0), capped.one(3.0)
    (1.0, 0.0, 10.0, 3.0)
    >>> capped.said()
    '1 of 2 samples was clipped to [0, 10]'
    """

    def __init__(self, clip: Bounds | None = None, above: float | None = None) -> None:
        if clip is not None and above is not None:
            raise InvalidParameter(
                f"one of clip and above must be left out but got {brief(clip)} and {brief(above)}."
            )
        if above is not None and not math.isfinite(check_number("above", above)):
            raise InvalidParameter(f"above must be a finite number but got {above}.")
        self.clip = None if clip is None else check_bounds(clip, "clip")
        self.above = None if above is None else float(above)
        self.clipped = 0
        self.seen = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Transform, (self.clip, self.above)

    @classmethod
    def of(cls, clip: Bounds | None, above: float | None) -> Transform | None:
        """Return what the two make of rewards, None if neither is given."""
        return None if clip is None and above is None else cls(clip, above)

    @property
    def bounds(self) -> Bounds:
        """What all rewards lie within."""
        return UNIT if self.clip is None else self.clip

    def one(self, reward: Any) -> Any:
        """Return what a reward counts as; what is no number stays as it is, to be refused."""
        try:
            value = check_number("reward", float(reward) if isinstance(reward, bool) else reward)
        except InvalidParameter:
            return reward
        return self.many(np.array([value])).item()

    def many(self, rewards: FloatArray) -> FloatArray:
        """Return what rewards count as."""
        if self.above is not None:
            return np.where(np.isnan(rewards), math.nan, (rewards > self.above) * 1.0)
        a, b = self.bounds
        with self._lock:
            self.seen += rewards.size
            self.clipped += int(np.count_nonzero((rewards < a) | (rewards > b)))
        return np.clip(rewards, a, b)

    def meaning(self) -> str:
        """Return what the question is about now."""
        if self.above is not None:
            return f"means are shares of samples above {self.above:g}"
        a, b = self.bounds
        return f"means are those of rewards clipped to [{a:g}, {b:g}]"

    def said(self) -> str:
        """Return how many rewards were clipped, nothing where none could be."""
        if self.clip is None:
            return ""
        a, b = self.clip
        was = "was" if self.clipped == 1 else "were"
        return f"{self.clipped:,} of {self.seen:,} samples {was} clipped to [{a:g}, {b:g}]"
