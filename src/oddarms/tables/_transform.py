"""Rewards without known bounds: clipped, or compared with a value."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import UNIT, FloatArray, brief, check_bounds, check_number

Bounds = tuple[float, float]


class Transform:
    """Brings rewards into known bounds, and counts those that it changes.

    Parameters
    ----------
    clip
        A reward outside these two numbers counts as the nearer one. The question is then about the
        means of clipped rewards.
    above
        A reward counts as 1 if it is above this number, else as 0. The question is then about the
        share of samples above it.

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
    >>> slow.said()
    'a mean is the share of samples above 0.5'
    """

    def __init__(self, clip: Bounds | None = None, above: float | None = None) -> None:
        if clip is not None and above is not None:
            raise InvalidParameter(
                f"Give clip or above, not both, but got {brief(clip)} and {brief(above)}."
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
        """Return the transform of these two options, None if neither is given."""
        return None if clip is None and above is None else cls(clip, above)

    @property
    def bounds(self) -> Bounds:
        """The bounds of transformed rewards."""
        return UNIT if self.clip is None else self.clip

    def one(self, reward: Any) -> Any:
        """Return a reward transformed; values that are not numbers stay as they are."""
        try:
            value = check_number("reward", float(reward) if isinstance(reward, bool) else reward)
        except InvalidParameter:
            return reward
        return self.many(np.array([value])).item()

    def many(self, rewards: FloatArray) -> FloatArray:
        """Return rewards transformed; NaN stays NaN."""
        if self.above is not None:
            return np.where(np.isnan(rewards), math.nan, (rewards > self.above) * 1.0)
        a, b = self.bounds
        with self._lock:
            self.seen += rewards.size
            self.clipped += int(np.count_nonzero((rewards < a) | (rewards > b)))
        return np.clip(rewards, a, b)

    def said(self) -> str:
        """Return a sentence about what was done to the rewards."""
        if self.above is not None:
            return f"a mean is the share of samples above {self.above:g}"
        a, b = self.bounds
        was = "was" if self.clipped == 1 else "were"
        return f"{self.clipped:,} of {self.seen:,} samples {was} clipped to [{a:g}, {b:g}]"
