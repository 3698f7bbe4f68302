"""Recorded data in Python: lists by label, arrays, and frames of any library through narwhals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import FloatArray, IntArray, Label, brief, check_labels
from oddarms.tables._files import PART_ROWS, Part, Table, opened_table, pandas_of
from oddarms.tables._values import Numbers, factorized, shown

Recorded = Any
"""Recorded data: a mapping from label to rewards; a frame of pandas, polars or pyarrow or a
relation of DuckDB, with a row per reward or with totals; a Series of pandas with the labels as its
index; an array, or a sequence of lists, with `labels`; `Rewards`; `RunHistory`; or a path."""


def _is_frame(data: object) -> bool:
    """Return whether this is a frame, a relation or a series, without asking it anything."""
    kind = type(data)
    return not isinstance(data, type) and any(
        hasattr(kind, name) for name in ("columns", "to_numpy", "__arrow_c_stream__")
    )


def by_label(data: Any, labels: Iterable[Label] | None) -> tuple[list[Label], IntArray, FloatArray]:
    """Return labels, the arm of each reward and the rewards of a mapping or of rows with labels."""
    if isinstance(data, Mapping):
        if labels is not None:
            raise InvalidParameter("Leave labels out for a mapping: its keys are the labels.")
        rows = dict(data)
    else:
        rows = _labelled(data, labels)
    names = [_plain(label) for label in rows]
    arrays = [_rewards(label, values) for label, values in rows.items()]
    arms = np.repeat(np.arange(len(arrays)), [array.size for array in arrays])
    return names, arms, np.concatenate([np.empty(0), *arrays])


def _rewards(label: Label, values: Any) -> FloatArray:
    name = f"rewards of {brief(label)}"
    try:
        array = np.asarray(values)
        if not isinstance(values, np.ndarray) and array.dtype.kind == "U":
            array = np.asarray(values, dtype=object)  # numpy makes texts of numbers beside one
    except ValueError:  # lists of several lengths
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InvalidParameter(f"{name} must be a list of numbers but got {brief(values)}.")
    return Numbers(name).of(array, lambda row, rule: InvalidParameter(f"{rule} (number {row})."))


def _labelled(data: Any, labels: Iterable[Label] | None) -> dict[Label, Any]:
    """Return the rows of an array by their labels."""
    is_array = isinstance(data, np.ndarray)
    if not is_array and (not isinstance(data, Sequence) or isinstance(data, str)):
        raise InvalidParameter(
            "data must be a frame, a path, a mapping from label to rewards, or an array with"
            f" labels, but got {type(data).__name__}."
        )
    if is_array and data.ndim != 2:
        raise InvalidParameter(
            f"data must be an array with a row for each arm but has the shape {data.shape}."
        )
    if labels is None:
        raise InvalidParameter(
            f"Give labels for an array of rewards, one for each of its {len(data):,} rows."
        )
    names = check_labels(labels)
    if len(names) != len(data):
        turn = is_array and data.shape[1] == len(names)
        raise InvalidParameter(
            f"labels must be as many as data has rows, {len(data):,}, but are {len(names):,}"
            f"{': its columns are as many, so give array.T' if turn else ''}."
        )
    return dict(zip(names, data, strict=True))


def _plain(label: Any) -> Label:
    plain: Label = label.item() if isinstance(label, np.generic) else label
    return plain


# Tables


@contextmanager
def table_of(data: Any, wanted: Sequence[str], encoding: str | None) -> Iterator[Table | None]:
    """Give a path, a frame or a mapping of columns as a table; None for anything else."""
    if isinstance(data, str | PathLike):
        with opened_table(data, wanted, encoding) as table:
            yield table
    elif encoding is not None:
        raise InvalidParameter("Leave encoding out unless data is a file.")
    elif isinstance(data, Mapping):
        yield _of_columns(data, wanted)
    else:
        yield _of_frame(data) if _is_frame(data) and not isinstance(data, np.ndarray) else None


def _of_columns(data: Mapping[Any, Any], wanted: Sequence[str]) -> Table | None:
    """Return a mapping as a table if its keys are the columns that are asked for by name."""
    if not wanted or not set(wanted) <= set(data):
        return None
    names = list(wanted)
    columns = [np.asarray(data[name]) for name in names]
    if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
        raise InvalidParameter("The columns of data must be lists of the same length.")

    def parts(labels: Sequence[int], values: Sequence[int]) -> Iterator[Part]:
        yield Part([factorized(columns[i]) for i in labels], [columns[i] for i in values])

    return Table("data", names, parts, is_file=False)


def _of_frame(data: Any) -> Table:
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtra.of("frame", "reading a data frame") from None
    pandas_of("reading a data frame")
    try:
        frame: Any = nw.from_native(data, allow_series=True)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"data must be a frame that narwhals reads but {type(data).__name__} is not:"
            f" {shown(' '.join(str(error).split()), 120)[1:-1]}."
        ) from None
    if isinstance(frame, nw.Series):
        frame = frame.alias("reward").to_frame()
    columns = list(frame.collect_schema().names())
    width = len(columns)
    index = _index(nw.maybe_get_index(frame)) if isinstance(frame, nw.DataFrame) else []

    def parts(labels: Sequence[int], values: Sequence[int]) -> Iterator[Part]:
        within = [columns[i] for i in dict.fromkeys((*labels, *values)) if i < width]
        taken = frame.select(nw.col(*within))  # names of pandas may be numbers
        if isinstance(taken, nw.LazyFrame):
            taken = _collected(taken)
        for start in range(0, len(taken), PART_ROWS):
            rows = slice(start, start + PART_ROWS)
            part = {
                i: taken.get_column(columns[i])[rows].to_numpy()
                for i in (*labels, *values)
                if i < width
            }
            part |= {width + i: level[rows] for i, level in enumerate(index)}
            yield Part([factorized(part[i]) for i in labels], [part[i] for i in values])

    places = tuple(range(width, width + len(index)))
    return Table("data", columns, parts, is_file=False, index=places)


def _collected(frame: Any) -> Any:
    try:
        return frame.collect()
    except ImportError:
        raise MissingExtra.of("parquet", "reading a relation of DuckDB") from None


def _index(index: Any) -> list[Any]:
    """Return the levels of a pandas index that was given on purpose."""
    if index is None or type(index).__name__ == "RangeIndex":
        return []
    return [index.get_level_values(i) for i in range(index.nlevels)]
