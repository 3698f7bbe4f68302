"""Rewards, or sufficient statistics, by arm from recorded data of any kind."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from os import PathLike
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import (
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    brief,
    check_bounds,
    check_choice,
    check_whole,
)
from oddarms.statistics.totals import possible_totals
from oddarms.tables._files import ABSENT, MAX_LINE, Table, opened_table, pandas_of
from oddarms.tables._transform import Bounds, Transform

Missing = Literal["stop", "skip", "worst"]
"""What a missing reward means: an error, no sample, or the most abnormal reward."""
Recorded = Any
"""Recorded data: a mapping from label to rewards; a frame of pandas, polars or pyarrow or a
relation of DuckDB, with a row per reward or with totals; a Series of pandas with the labels as its
index; `Rewards`; `RunHistory`; or a path."""
Columns = str | Sequence[str]
BETWEEN = " / "
"""Joins the labels of several columns."""
MAX_EXPANDED = 20_000_000
"""The most trials that become single rewards."""
MAX_COUNT = 2**53
"""The largest count; floats represent all smaller whole numbers."""
_TRUTH = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")


class Rewards(NamedTuple):
    """Single rewards in their order, and the index in `labels` of each one's arm."""

    labels: list[Label]
    arms: IntArray
    rewards: FloatArray

    def by_label(self) -> dict[Label, FloatArray]:
        """Return each arm's rewards, in their order."""
        ends = np.cumsum(np.bincount(self.arms, minlength=len(self.labels)))[:-1]
        parts = np.split(self.rewards[np.argsort(self.arms, kind="stable")], ends)
        return dict(zip(self.labels, parts, strict=False))


class Totals(NamedTuple):
    """The number of rewards of each arm, their sum and the sum of their squares.

    Attributes
    ----------
    labels
        The arms, in the order of first appearance.
    counts, sums, squares
        In the units of the rewards.
    half
        Their numbers, sums and squares in a random half of the rows.
    left_out
        Arms with fewer than `min_rows` rows, and how many they have.
    missing
        Rows without a reward, which were skipped or counted as the worst one.
    """

    labels: list[Label]
    counts: IntArray
    sums: FloatArray
    squares: FloatArray
    half: tuple[FloatArray, FloatArray, FloatArray]
    left_out: dict[Label, int]
    missing: int = 0


def read_rewards(
    data: Recorded,
    *,
    missing: Missing = "stop",
    transform: Transform | None = None,
    bounds: Bounds = UNIT,
    worst: float = 1.0,
    encoding: str | None = None,
    **columns: Columns | None,
) -> Rewards:
    """Return single rewards by arm, such as the history of a live search.

    Parameters
    ----------
    data, missing, encoding
        As for `oddarms.analyze`.
    transform
        Clips rewards or compares them with a value before they are checked.
    bounds
        The smallest and the largest reward possible.
    worst
        The most abnormal reward.
    **columns
        The names of the columns `arm` and `reward`, or `trials` and `events`, as for
        `oddarms.analyze`. Counts become single rewards, the ones first.

    Examples
    --------
    >>> found = read_rewards({"a": [0, 1, None], "b": [1, 1, 0]}, missing="skip")
    >>> found.labels, found.arms.tolist(), found.rewards.tolist()
    (['a', 'b'], [0, 0, 1, 1, 1], [0.0, 1.0, 1.0, 1.0, 0.0])
    """
    rows = _Rows(missing, transform, bounds, worst)
    arms, rewards = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for block in rows.read(data, columns, _KINDS[:2], encoding):
        if block.is_single:
            arms.append(block.arms)
            rewards.append(block.sums)
            continue
        trials_read = float(block.counts.sum())
        if trials_read > MAX_EXPANDED:
            raise InvalidParameter(
                f"At most {MAX_EXPANDED:,} trials can become single rewards, but there are"
                f" {trials_read:,.0f}: oddarms.analyze takes any number."
            )
        ones = block.sums.astype(np.int64)
        both = np.stack([ones, block.counts.astype(np.int64) - ones], axis=1).ravel()
        arms.append(np.repeat(np.repeat(block.arms, 2), both))
        rewards.append(np.repeat(np.tile([1.0, 0.0], ones.size), both))
    return Rewards(list(rows.index), np.concatenate(arms), np.concatenate(rewards))


def read_totals(
    data: Recorded,
    *,
    missing: Missing = "stop",
    transform: Transform | None = None,
    bounds: Bounds = UNIT,
    worst: float = 1.0,
    encoding: str | None = None,
    min_rows: int = 1,
    rng: int = 0,
    **columns: Columns | None,
) -> Totals:
    """Return the number, the sum and the sum of squares of each arm's rewards.

    Parameters
    ----------
    data, missing, transform, bounds, worst, encoding, **columns
        As for `read_rewards`, and also the columns `count`, `total` and `squares`. Counts may be of
        any size; rows of one arm are added up.
    min_rows
        Arms with fewer rows are left out.
    rng
        Decides which rows are in the random half.

    Examples
    --------
    >>> found = read_totals({"a": [0, 1, 1], "b": [0.5, 0.5]})
    >>> found.counts.tolist(), found.sums.tolist(), found.squares.tolist()
    ([3, 2], [2.0, 1.0], [2.0, 0.5])
    """
    check_whole("min_rows", min_rows, least=0)
    rows = _Rows(missing, transform, bounds, worst)
    random = np.random.default_rng(rng)
    sums = np.zeros((3, 0))  # at 2 i what belongs to arm i, at 2 i + 1 what is in the random half
    for block in rows.read(data, columns, _KINDS, encoding):
        sums = np.pad(sums, ((0, 0), (0, 2 * len(rows.index) - sums.shape[1])))
        where = 2 * block.arms + (random.random(block.arms.size) < 0.5)
        for row, values in zip(sums, (block.counts, block.sums, block.squares), strict=True):
            np.add.at(row, where, values)
    pairs = sums.reshape(3, -1, 2)
    counts = pairs[0].sum(axis=1).astype(np.int64)
    names = list(rows.index)
    kept = np.flatnonzero(counts >= min_rows)
    left_out = {names[i]: int(counts[i]) for i in np.flatnonzero(counts < min_rows)}
    if not kept.size:
        raise InvalidParameter(
            f"No arm has {min_rows:,} rows or more: the largest of the {len(names):,} arms has"
            f" {counts.max(initial=0):,}."
        )
    names, pairs = [names[i] for i in kept], pairs[:, kept]
    whole = pairs.sum(axis=2)
    half = pairs[:, :, 1]
    return Totals(
        names,
        counts[kept],
        whole[1],
        whole[2],
        (half[0], half[1], half[2]),
        left_out,
        rows.missing,
    )


# Blocks of rows


class _Block(NamedTuple):
    """Some rows: single rewards, or totals."""

    arms: IntArray
    counts: Any
    sums: FloatArray
    squares: FloatArray
    is_single: bool = False


Kinds = tuple[tuple[str, ...], ...]
_KINDS: Kinds = (("reward",), ("trials", "events"), ("count", "total", "squares"))
"""The columns that may have the values of a table."""


class _Rows:
    """Reads recorded data block by block and numbers the arms by first appearance."""

    def __init__(
        self, missing: Missing, transform: Transform | None, bounds: Bounds, worst: float
    ) -> None:
        self.index: dict[Label, int] = {}
        self.missing = 0
        self._rule = check_choice("missing", missing, get_args(Missing))
        self._transform, self._bounds, self._worst = transform, check_bounds(bounds), worst

    def read(
        self, data: Recorded, columns: dict[str, Any], kinds: Kinds, encoding: str | None
    ) -> Iterator[_Block]:
        """Yield the rows of recorded data, whose values are of one of the kinds."""
        words = ["arm", *(word for kind in kinds for word in kind)]
        for word in columns.keys() - words:
            raise TypeError(f"{word!r} is no column of recorded data")
        given = {word: columns[word] for word in words if columns.get(word) is not None}
        wanted = [name for names in given.values() for name in _listed(names)]
        if not isinstance(data, Rewards):
            with _table_of(data, wanted, encoding) as table:
                if table is not None:
                    yield from self._of_table(table, given, kinds)
                    return
            if given:
                raise InvalidParameter(
                    f"{' and '.join(given)} must name columns of a table, but data is a"
                    f" {type(data).__name__}: make a data frame of it."
                )
            data = Rewards(*_of_mapping(data))
        self.index = {label: i for i, label in enumerate(data.labels)}
        try:
            yield self._singles(data.arms, data.rewards, "the reward")
        except _BadRow as bad:
            label = data.labels[data.arms[bad.row]]
            raise InvalidParameter(f"arm {brief(label)}: {bad.rule}.") from None

    def _of_table(self, table: Table, given: dict[str, Any], kinds: Kinds) -> Iterator[_Block]:
        arm = _arm_places(table, given.get("arm"))
        kind, values = _value_places(table, given, kinds)
        a, b = self._bounds
        if len(kind) > 1 and self._transform is not None:
            raise InvalidParameter("clip and above need single rewards, but the table has totals.")
        if len(kind) == 2 and not a <= 0.0 < 1.0 <= b:
            raise InvalidParameter(
                f"trials and events count rewards of 0 and 1, but the bounds are [{a:g}, {b:g}]."
            )
        names = [str(table.columns[i]) for i in values]
        for frame in table.frames(arm, values):
            try:
                numbers = [
                    _numbers_of(name, frame[i].to_numpy(), commas=table.commas)
                    for name, i in zip(names, values, strict=True)
                ]
                if table.is_file:
                    frame, numbers = _filled(frame, arm, numbers)
                arms = self._arms(frame, arm, is_file=table.is_file)
                if len(kind) == 1:
                    block = self._singles(arms, numbers[0], names[0])
                else:
                    block = self._totals(arms, numbers, kind)
            except _BadRow as bad:
                row = frame.index[bad.row] + 1
                raise InvalidParameter(f"{table.name}, row {row:,}: {bad.rule}.") from None
            yield block
        if not self.index:
            raise InvalidParameter(f"{table.name} has no rows.")

    def _arms(self, frame: Any, places: list[int], *, is_file: bool) -> IntArray:
        """Return the arm of each row."""
        columns = [_factorized(frame[i]) for i in places]
        if is_file:
            columns = [(codes, [str(text).strip() for text in texts]) for codes, texts in columns]
        for column, labels in columns:
            if column.size and column.min() < 0:
                raise _BadRow(int(np.argmin(column)), "the label of the arm is missing")
            for code, label in enumerate(labels):
                if isinstance(label, str) and not 0 < len(label) <= MAX_LINE:
                    rule = f"has more than {MAX_LINE:,} characters" if label else "is empty"
                    raise _BadRow(int(np.argmax(column == code)), f"the label of the arm {rule}")
        codes, texts = columns[0] if len(columns) == 1 else _joined(columns)
        index = self.index
        arms = [index.setdefault(text, len(index)) for text in texts]
        return np.array(arms, dtype=np.int64)[codes]

    def _singles(self, arms: IntArray, rewards: FloatArray, name: str) -> _Block:
        """Return rewards within the bounds, with missing ones treated as asked."""
        gone = np.isnan(rewards)
        if gone.any() and self._rule == "stop":
            raise _BadRow(
                int(np.argmax(gone)),
                f"{name} is missing; missing='skip' leaves such rows out, which is sound only if"
                " whether a reward is missing does not depend on its value; missing='worst' counts"
                " them as the most abnormal reward",
            )
        if self._transform is not None:
            rewards = rewards.copy()
            rewards[~gone] = self._transform.many(rewards[~gone])
        a, b = self._bounds
        outside = ~gone & ~((rewards >= a) & (rewards <= b))
        if outside.any():
            row = int(np.argmax(outside))
            rule = f"{name} must lie within the bounds [{a:g}, {b:g}], but is {rewards[row]:g}"
            raise _BadRow(row, f"{rule}; for other rewards set bounds, clip or above")
        self.missing += int(np.count_nonzero(gone))
        if self._rule == "skip":
            arms, rewards = arms[~gone], rewards[~gone]
        else:
            rewards = np.where(gone, self._worst, rewards)
        return _Block(arms, 1.0, rewards, rewards**2, is_single=True)

    def _totals(self, arms: IntArray, numbers: list[FloatArray], kind: tuple[str, ...]) -> _Block:
        """Return totals that rewards within the bounds can have."""
        a, b = self._bounds
        counts, sums, squares = numbers[0], numbers[1], numbers[-1]
        with np.errstate(all="ignore"):
            right = (counts % 1 == 0) & (counts >= 0) & (counts <= MAX_COUNT)
            if len(kind) == 2:
                right &= (sums % 1 == 0) & (sums >= 0) & (sums <= counts)
                rule = "events must be a whole number from 0 to trials"
            else:
                possible = possible_totals(counts, sums, squares, self._bounds)
                right &= np.where(counts > 0, possible, (sums == 0) & (squares == 0))
                rule = f"count, total and squares must be those of rewards within [{a:g}, {b:g}]"
        if not right.all():
            row = int(np.argmin(right))
            pairs = zip(kind, numbers, strict=True)
            got = ", ".join(f"{word} {number[row]:g}" for word, number in pairs)
            raise _BadRow(row, f"{rule}, but the row has {got}")
        return _Block(arms, counts, sums, squares)


def _filled(frame: Any, arm: list[int], numbers: list[FloatArray]) -> tuple[Any, list[FloatArray]]:
    """Return the rows of a file that are not empty in the columns that are read."""
    blank: BoolArray = np.all([np.isnan(values) for values in numbers], axis=0)
    if blank.any():
        labels = frame.loc[blank, arm].astype(object)
        empty = labels.isna() | labels.map(lambda label: not str(label).strip())
        blank[blank] = empty.all(axis=1)
    return frame[~blank], [values[~blank] for values in numbers]


def _joined(labels: list[tuple[IntArray, list[Any]]]) -> tuple[IntArray, list[Any]]:
    """Return the labels of several columns as one."""
    codes, texts = labels[0][0], list(map(str, labels[0][1]))
    for more, others in labels[1:]:
        codes, pairs = _factorized(codes * len(others) + more)
        places = [divmod(pair, len(others)) for pair in pairs]
        texts = [f"{texts[i]}{BETWEEN}{others[j]}" for i, j in places]
    twice = next((text for text in texts if text.count(BETWEEN) >= len(labels)), None)
    if twice is not None:
        raise InvalidParameter(
            f"Labels of several columns are joined with {BETWEEN!r}, which is part of a label"
            f" already: {brief(twice)}."
        )
    return codes, texts


# Columns


def _listed(names: Columns) -> list[str]:
    return [names] if isinstance(names, str) or not isinstance(names, Sequence) else list(names)


def _arm_places(table: Table, arm: Columns | None) -> list[int]:
    if arm is None and table.index and not table.places("arm"):
        return list(table.index)
    names = _listed("arm" if arm is None else arm)
    if not names or (arm is None and not table.places("arm")):
        raise InvalidParameter(
            f"{table.name}: arm must name the column of labels, one of {table.listed()}."
        )
    return [table.place("arm", name) for name in names]


def _value_places(
    table: Table, given: dict[str, Any], kinds: Kinds
) -> tuple[tuple[str, ...], list[int]]:
    """Return the kind of values in a table and their places."""
    words = tuple(word for word in given if word != "arm")
    for kind in kinds:
        if words == kind or (not words and all(map(table.places, kind))):
            return kind, [table.place(word, given.get(word, word)) for word in kind]
    if words:
        choices = ", or of ".join(" and ".join(kind) for kind in kinds)
        raise InvalidParameter(f"Name the columns of {choices}; got {' and '.join(words)}.")
    raise InvalidParameter(
        f"{table.name}: reward must name the column of rewards, one of {table.listed()}."
    )


# Values


class _BadRow(Exception):
    """A row, counted from 0, and what is wrong with it."""

    def __init__(self, row: int, rule: str) -> None:
        super().__init__(row, rule)
        self.row, self.rule = row, rule


def _factorized(values: Any) -> tuple[IntArray, list[Any]]:
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


def _numbers_of(name: str, values: Any, *, commas: bool = False) -> FloatArray:
    """Return a column as numbers, NaN where one is missing; `commas` allows decimal commas.

    The decimal mark of a column is either a point or a comma.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind not in "OUT":
        raise _BadRow(0, f"{name} must be numbers, but its type is {brief(str(array.dtype))}")
    codes, distinct = _factorized(values)
    texts = (value.strip() for value in distinct if isinstance(value, str))
    commas = commas and any(map(_WITH_COMMA.fullmatch, texts))
    found = [_number(value, commas=commas) for value in distinct]
    if None in found:
        bad = found.index(None)
        more = "; other numbers in the column have a decimal comma" if commas else ""
        rule = f"{name} must be a number, yes/no or true/false, but is {brief(distinct[bad])}{more}"
        raise _BadRow(int(np.flatnonzero(codes == bad)[0]), rule)
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


# Lists by label


def _of_mapping(data: Any) -> tuple[list[Label], IntArray, FloatArray]:
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
        return _numbers_of(name, array)
    except _BadRow as bad:
        raise InvalidParameter(f"{bad.rule}.") from None


# Tables


@contextmanager
def _table_of(data: Any, wanted: Sequence[str], encoding: str | None) -> Iterator[Table | None]:
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
