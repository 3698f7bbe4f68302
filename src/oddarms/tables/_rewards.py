"""Rewards from two named columns of a CSV or Parquet file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import UNIT, check_bounds
from oddarms.tables._columns import Header, columns_in, header_of, listed, rows
from oddarms.tables._lines import FREE_BYTES, MOST_CHARACTERS, RATIO, Lines, Source, opened
from oddarms.tables._recorded import RecordedArms, Recording, Tally, tallied
from oddarms.tables._values import Bounds, number_of, shown

_DAMAGE = (OSError, ValueError, LookupError, TypeError, OverflowError, MemoryError)
"""What pyarrow raises, beside exceptions of its own, where a file is not what it says."""
_FREE_ROWS = 100_000_000
"""Of any Parquet file; 16 bytes of each are kept."""


def read_rewards(
    path: Source, *, arm: str = "arm", reward: str = "reward", bounds: Bounds = UNIT
) -> RecordedArms:
    """Return recorded rewards from two named columns of a CSV or Parquet file, a row per pull.

    Parameters
    ----------
    path
        A CSV with a header (also ;- or tab-separated, plain or gzipped; "-" is stdin), or a
        Parquet file (``pip install 'oddarms[parquet]'``). It is read in a stream.
    arm, reward
        The names of the columns; those of a CSV are compared without regard to case.
    bounds
        Every reward must lie within.
    """
    limits = check_bounds(bounds)
    if Path(path).suffix.casefold() in (".parquet", ".pq"):
        return _read_parquet(Path(path), arm, reward, limits)
    with opened(path) as lines:
        lines.check_not_empty()
        header = header_of(lines, ((arm,), (reward,)))
        if header is None:
            raise lines.wrong(
                f"there must be a header with the columns {arm!r} and {reward!r} but the columns"
                f" are {listed(columns_in(lines.first()))}"
            )
        return tallied(lines, rewards_in(lines, header, limits))


def rewards_in(lines: Lines, header: Header, bounds: Bounds) -> Recording:
    """Return the recording of a table whose columns are an arm and a reward."""
    name = header.names[1]

    def pairs() -> Iterator[tuple[str, float]]:
        for arm, text in rows(lines, header):
            yield arm, number_of(name, text, bounds, lines.wrong)

    return Recording(pairs(), lines.wrong, ",".join(header.names))


def _read_parquet(path: Path, arm: str, reward: str, bounds: Bounds) -> RecordedArms:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra.of("parquet", "reading Parquet") from None
    if not path.is_file():
        raise InvalidParameter(f"{path} must be a file but does not exist.")
    tally = Tally()
    try:
        with path.open("rb") as raw:
            metadata = parquet.read_metadata(raw)
            _check_columns(path, metadata.schema.to_arrow_schema(), arm, reward)
            _check_size(path, metadata)
            # A label is kept once and not in every row: a few bytes can stand for gigabytes.
            file = parquet.ParquetFile(raw, metadata=metadata, read_dictionary=[arm])
            for batch in file.iter_batches(columns=[arm, reward]):
                rewards = batch.column(reward).to_pylist()
                for label, value in zip(_labels(path, batch.column(arm)), rewards, strict=True):
                    tally.add(label, _parquet_reward(path, value, bounds))
            raw.seek(0)
            sha256 = hashlib.file_digest(raw, "sha256").hexdigest()
    except InvalidParameter:
        raise
    except (pyarrow.ArrowException, *_DAMAGE) as error:
        first = shown(str(error).partition("\n")[0].rstrip("."), 200)[1:-1]
        raise InvalidParameter(f"{path} must be a Parquet file but is not: {first}.") from error
    return tally.result(str(path), f"{arm},{reward}", sha256=sha256)


def _check_columns(path: Path, schema: Any, arm: str, reward: str) -> None:
    """Refuse columns that are missing, or whose values could be large in every row."""
    from pyarrow import types

    for column in (arm, reward):
        if column not in schema.names:
            raise InvalidParameter(
                f"{path} must have a column {column!r} but has {listed(schema.names)}."
            )
    kinds = [schema.types[schema.names.index(column)] for column in (arm, reward)]
    labels, numbers = (kind.value_type if types.is_dictionary(kind) else kind for kind in kinds)
    if types.is_nested(labels) or types.is_fixed_size_binary(labels):
        raise InvalidParameter(
            f"{path} must have texts or numbers in the column {arm!r} but has {shown(str(labels))}."
        )
    if not any(is_kind(numbers) for is_kind in (_is_number, types.is_boolean, types.is_null)):
        raise InvalidParameter(
            f"{path} must have numbers in the column {reward!r} but has {shown(str(numbers))}."
        )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _check_size(path: Path, metadata: Any) -> None:
    """Refuse what would be far larger in memory, before it is read."""
    size = path.stat().st_size
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) > _FREE_ROWS + RATIO * size:
        raise InvalidParameter(
            f"{path} must not have over {_FREE_ROWS + RATIO * size:,} rows for its size but does:"
            " split it."
        )
    if sum(group.total_byte_size for group in groups) > FREE_BYTES + RATIO * size:
        raise InvalidParameter(
            f"{path} must not inflate to over {RATIO} times its size and"
            f" {FREE_BYTES // 2**10:,} KiB but does: if it is what you want, write it uncompressed."
        )


def _labels(path: Path, column: Any) -> Iterator[str]:
    """Return the label of each row, those of a dictionary made once."""
    from pyarrow import DictionaryArray

    if not isinstance(column, DictionaryArray):
        return (_parquet_label(path, label) for label in column.to_pylist())
    codes = column.indices.to_pylist()
    labels = {
        code: _parquet_label(path, None if code is None else column.dictionary[code].as_py())
        for code in dict.fromkeys(codes)
    }
    return (labels[code] for code in codes)


def _parquet_label(path: Path, label: object) -> str:
    if label is None or not str(label).strip():
        raise InvalidParameter(f"{path} must name an arm in every row but one is empty.")
    text = str(label)
    if len(text) > MOST_CHARACTERS:
        raise InvalidParameter(
            f"{path} must have labels of at most {MOST_CHARACTERS:,} characters but one has"
            f" {len(text):,}."
        )
    return text


def _parquet_reward(path: Path, value: object, bounds: Bounds) -> float:
    a, b = bounds
    number = float(value) if isinstance(value, bool | int | float | Decimal) else math.nan
    if not a <= number <= b:
        raise InvalidParameter(
            f"{path} must have rewards within [{a:g}, {b:g}] but one is {shown(str(value))}."
        )
    return number
