"""Values as people write them: numbers, yes and no, what is missing, bounds, tickets."""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import (
    UNIT,
    FloatArray,
    IntArray,
    brief,
    check_bounds,
    check_choice,
    check_number,
)

Bounds = tuple[float, float]
Missing = Literal["stop", "skip", "worst"]
"""What a missing reward means: an error, no sample, or the most abnormal reward."""
Wrong = Callable[[str], InvalidParameter]
"""Makes the error of a broken rule."""

ABSENT = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
_TRUTH = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")


# Columns


def factorized(values: Any) -> tuple[IntArray, list[Any]]:
    """Return a code for each value, -1 for a missing one, and what the codes stand for."""
    pandas = sys.modules.get("pandas")
    if pandas is not None:  # which has read the file, or the frame; it hashes faster
        try:
            codes, distinct = pandas.factorize(values)
        except (TypeError, ValueError):  # lists and the like
            raise InvalidParameter("Labels and rewards must be texts or numbers.") from None
        return codes.astype(np.int64), distinct.tolist()
    index: dict[Any, int] = {None: -1}
    found = [index.setdefault(value, len(index) - 1) for value in np.asarray(values).tolist()]
    return np.array(found, dtype=np.int64), list(index)[1:]


class Numbers:
    """Turns a column, part by part, into numbers; a missing one is NaN.

    Parameters
    ----------
    name
        The column, for messages.
    commas
        Whether 0,5 is a number. In one column it is always a point or always a comma.
    """

    def __init__(self, name: str, *, commas: bool = False) -> None:
        self.name = name
        self.mark = ""
        self._commas = commas

    def of(self, values: Any, wrong_at: Callable[[int, str], InvalidParameter]) -> FloatArray:
        """Return the numbers of some rows; `wrong_at` makes the error of one of them."""
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array.astype(np.float64)
        if array.dtype.kind not in "OUT":
            rule = f"{self.name} must be numbers but has the type {brief(str(array.dtype))}"
            raise wrong_at(0, rule)
        codes, distinct = factorized(values)
        found = [self._number(value) for value in distinct]
        bad = next((code for code, number in enumerate(found) if number is None), None)
        if bad is not None:
            row = int(np.flatnonzero(codes == bad)[0])
            raise wrong_at(row, self._rule(distinct[bad]))
        return np.array([*found, math.nan], dtype=np.float64)[codes]

    def _number(self, value: Any) -> float | None:
        """Return a number, NaN for one that is missing, None for what is no number."""
        if isinstance(value, str):
            return self._text(value.strip())
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            return math.nan
        if not isinstance(value, Real | Decimal | np.bool_):
            return None
        try:
            return float(value)
        except OverflowError:
            return math.inf

    def _text(self, text: str) -> float | None:
        folded = text.casefold()
        if folded in ABSENT:
            return math.nan
        if folded in _TRUTH:
            return _TRUTH[folded]
        if self._commas and ("," in text or "." in text):
            comma = _WITH_COMMA.fullmatch(text) is not None
            mark = "," if comma else "."
            if self.mark and self.mark != mark:
                return None
            self.mark = mark
            text = text.replace(",", ".") if comma else text
        try:
            return None if "_" in text else float(text)  # Python would read 1_0 as 10
        except ValueError:
            return None

    def _rule(self, value: Any) -> str:
        rule = f"{self.name} must be a number, yes/no or true/false but is {brief(value)}"
        if self._commas and self.mark and re.search("[.,]", str(value)):
            mark = "comma" if self.mark == "," else "point"
            return f"{rule}; other numbers in the column have a decimal {mark}"
        return rule


def check_missing(missing: Missing) -> Missing:
    """Return what a missing reward means if it is one of the three words."""
    checked: Missing = check_choice("missing", missing, get_args(Missing))
    return checked


def shown(text: str, most: int = 60) -> str:
    """Return a text for a message, shortened."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


# Rewards without known bounds


class Transform:
    """Makes rewards lie within known bounds, and counts those that it has changed.

    Parameters
    ----------
    clip
        A reward outside these two numbers counts as the nearer one. The question is then about the
        means of clipped rewards.
    above
        A reward counts as 1 if it is above this number and as 0 otherwise. The question is then
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
        """Return a reward transformed; a value that is no number is returned as it is."""
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
        """Return in words what was done to the rewards."""
        if self.above is not None:
            return f"a mean is the share of samples above {self.above:g}"
        a, b = self.bounds
        was = "was" if self.clipped == 1 else "were"
        return f"{self.clipped:,} of {self.seen:,} samples {was} clipped to [{a:g}, {b:g}]"
