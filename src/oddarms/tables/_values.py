"""Recorded values in Python: numbers as people write them, lists by label, arrays and frames."""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from os import PathLike
from typing import Any, Literal

import numpy as np

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import (
    UNIT,
    FloatArray,
    IntArray,
    Label,
    brief,
    check_bounds,
    check_number,
)
from oddarms.tables._files import ABSENT, Table, opened_table, pandas_of

Bounds = tuple[float, float]
Missing = Literal["stop", "skip", "worst"]
"""What a missing reward means: an error, no sample, or the most abnormal reward."""
Recorded = Any
"""Recorded data: a mapping from label to rewards; a frame of pandas, polars or pyarrow or a
relation of DuckDB, with a row per reward or with totals; a Series of pandas with the labels as its
index; `Rewards`; `RunHistory`; or a path."""

_TRUTH = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")


# Values


class BadRow(Exception):
    """A row, counted from 0, and what is wrong with it."""

    def __init__(self, row: int, rule: str) -> None:
        super().__init__(row, rule)
        self.row, self.rule = row, rule


def factorized(values: Any) -> tuple[IntArray, list[Any]]:
    """Return a code for each value, -1 for a missing one, and the value of each code.

    With pandas, equal values have equal codes, in the order of first appearance.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:  # no file or frame was read
        return np.arange(len(values)), list(values)
    try:
        codes, distinct = pandas.factorize(values)
    except (TypeError, ValueError):  # lists and the like
        raise InvalidParameter("Labels and rewards must be texts or numbers.") from None
    return codes.astype(np.int64), distinct.tolist()


def numbers_of(name: str, values: Any, *, commas: bool = False) -> FloatArray:
    """Return a column as numbers, NaN where one is missing; `commas` allows decimal commas.

    The decimal mark of a column is either a point or a comma.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind not in "OUT":
        raise BadRow(0, f"{name} must be numbers, but its type is {brief(str(array.dtype))}")
    codes, distinct = factorized(values)
    texts = (value.strip() for value in distinct if isinstance(value, str))
    commas = commas and any(map(_WITH_COMMA.fullmatch, texts))
    found = [_number(value, commas=commas) for value in distinct]
    if None in found:
        bad = found.index(None)
        more = "; other numbers in the column have a decimal comma" if commas else ""
        rule = f"{name} must be a number, yes/no or true/false, but is {brief(distinct[bad])}{more}"
        raise BadRow(int(np.flatnonzero(codes == bad)[0]), rule)
    return np.array([*found, math.nan], dtype=np.float64)[codes]


def _number(value: Any, *, commas: bool) -> float | None:
    """Return a number, NaN if it is missing, None if it is not a number."""
    if isinstance(value, str):
        folded = value.strip().casefold()
        if folded in ABSENT:
            return math.nan
        if "_" in folded or (commas and "." in folded):  # Python would read 1_0 as 10
            return None
        if folded in _TRUTH:
            return _TRUTH[folded]
        try:
            return float(folded.replace(",", ".") if commas else folded)
        except ValueError:
            return None
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return math.nan
    if not isinstance(value, Real | Decimal | np.bool_):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


# Lists by label, and arrays


def by_label(data: Any) -> tuple[list[Label], IntArray, FloatArray]:
    """Return the labels, the arm of each reward and the rewards of a mapping."""
    if not isinstance(data, Mapping):
        raise InvalidParameter(
            "data must be a frame, a path or a mapping from label to rewards, but got"
            f" {type(data).__name__}; dict(zip(labels, array)) makes a mapping of an array."
        )
    labels = [label.item() if isinstance(label, np.generic) else label for label in data]
    arrays = [_rewards(label, values) for label, values in data.items()]
    arms = np.repeat(np.arange(len(arrays)), [array.size for array in arrays])
    return labels, arms, np.concatenate([np.empty(0), *arrays])


def _rewards(label: Label, values: Any) -> FloatArray:
    name = f"rewards of {brief(label)}"
    try:
        array = np.asarray(values)
        if not isinstance(values, np.ndarray) and array.dtype.kind == "U":
            array = np.asarray(values, dtype=object)  # numpy makes texts of numbers beside one
    except ValueError:  # lists of several lengths
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InvalidParameter(f"{name} must be a list of numbers, but got {brief(values)}.")
    try:
        return numbers_of(name, array)
    except BadRow as bad:
        raise InvalidParameter(f"{bad.rule}.") from None


# Tables


@contextmanager
def table_of(data: Any, wanted: Sequence[str], encoding: str | None) -> Iterator[Table | None]:
    """Give a path or a frame as a table; None for anything else."""
    kind = type(data)
    if isinstance(data, str | PathLike):
        with opened_table(data, wanted, encoding) as table:
            yield table
    elif encoding is not None:
        raise InvalidParameter("encoding is only for files: leave it out.")
    elif not isinstance(data, np.ndarray | type) and any(
        hasattr(kind, name) for name in ("columns", "to_numpy", "__arrow_c_stream__")
    ):
        yield _of_frame(data)
    else:
        yield None


def _of_frame(data: Any) -> Table:
    """Return a frame of any library as a table."""
    pandas = pandas_of("reading a data frame")
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtra.of("frame", "reading a data frame") from None
    try:
        frame: Any = nw.from_native(data, allow_series=True)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"data must be a frame that narwhals can read, but {type(data).__name__} is not:"
            f" {brief(str(error), 120)}."
        ) from None
    if isinstance(frame, nw.Series):
        frame = frame.alias("reward").to_frame()
    columns = list(frame.collect_schema().names())
    width = len(columns)
    index = nw.maybe_get_index(frame) if isinstance(frame, nw.DataFrame) else None
    if index is None or isinstance(index, pandas.RangeIndex):  # not given on purpose
        levels = []
    else:
        levels = [index.get_level_values(i) for i in range(index.nlevels)]

    def frames(labels: Sequence[int], values: Sequence[int]) -> Iterator[Any]:
        places = dict.fromkeys((*labels, *values))
        taken = frame.select(nw.col(*(columns[i] for i in places if i < width)))
        try:
            taken = taken.collect() if isinstance(taken, nw.LazyFrame) else taken
        except ImportError:
            raise MissingExtra.of("parquet", "reading a relation of DuckDB") from None
        found = {i: taken.get_column(columns[i]).to_numpy() for i in places if i < width}
        found |= {i: levels[i - width] for i in places if i >= width}
        yield pandas.DataFrame({i: pandas.Series(found[i]) for i in places})

    return Table(
        "data", columns, frames, is_file=False, index=tuple(range(width, width + len(levels)))
    )


# Rewards without known bounds


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
