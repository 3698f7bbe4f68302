"""Rewards, or counts of them, from named columns of a table: CSV, Excel or Parquet."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import UNIT, check_bounds
from oddarms.tables._columns import Header, columns_in, header_of, listed, rows
from oddarms.tables._frames import Missing, rewards_of_counts
from oddarms.tables._lines import MOST_CHARACTERS, Lines, Source, opened
from oddarms.tables._reading import Reading
from oddarms.tables._recorded import (
    RecordedArms,
    Recording,
    Tally,
    check_several,
    no_rows,
    tallied,
)
from oddarms.tables._transforms import Transform
from oddarms.tables._values import Bounds, Wrong, number_of, shown
from oddarms.tables._workbooks import FREE_BYTES, RATIO

_DAMAGE = (OSError, ValueError, LookupError, TypeError, OverflowError, MemoryError)
"""What pyarrow raises, beside exceptions of its own, where a file is not what it says."""
_COUNT = (0.0, 2.0**53)
_FREE_ROWS = 100_000_000
"""Of any Parquet file; 16 bytes of each are kept."""


def read_rewards(
    path: Source,
    *,
    arm: str = "arm",
    reward: str = "reward",
    bounds: Bounds = UNIT,
    encoding: str | None = None,
    missing: Missing = "stop",
    worst: float | None = None,
    transform: Transform | None = None,
) -> RecordedArms:
    """Return recorded rewards from two named columns of a CSV or Parquet file, a row per pull.

    Parameters
    ----------
    path
        A CSV with a header (also ;- or tab-separated, plain or gzipped; "-" is stdin), a workbook
        of Excel, whose first sheet is read (``pip install 'oddarms[excel]'``), or a Parquet file
        (``pip install 'oddarms[parquet]'``). All but workbooks are read in a stream. Outside of
        Parquet a reward is a number, yes, no, true or false; where columns are not separated by
        commas it may have a decimal comma.
    arm, reward
        The names of the columns; those of a CSV are compared without regard to case.
    bounds
        Every reward must lie within.
    encoding
        Of a CSV, such as "latin-1" or "utf-16"; by default what its byte order mark says, or UTF-8.
    missing, worst
        What a missing reward (empty, NA, NaN, null) means: "stop" refuses it, "skip" leaves it
        out, "worst" counts it as `worst`, by default the largest.
    transform
        What a reward counts as, within the bounds.
    """
    remedy = ": --bounds, --clip and --above of `oddarms find` are for such rewards"
    reading = Reading(check_bounds(bounds), missing, worst, transform, remedy)
    if _is_parquet(path):
        recorded = _rewards_in_parquet(Path(path), arm, reward, reading)
    else:
        with opened(path, encoding) as lines:
            header = _header(lines, (arm, reward))
            recorded = tallied(lines, rewards_in(lines, header, reading))
    return replace(recorded, missing=reading.absent, copies=reading.copies.count)


def read_counts(
    path: Source,
    *,
    arm: str = "arm",
    successes: str = "successes",
    trials: str = "trials",
    encoding: str | None = None,
) -> RecordedArms:
    """Return recorded rewards of 0 and 1 that a CSV or Parquet file has counted.

    Rows of one arm are added up. The order of an arm's rewards is random, and the same for the
    same file.

    Parameters
    ----------
    path, arm, encoding
        As for `read_rewards`.
    successes, trials
        The columns with the number of rewards that are 1, and of all.
    """
    totals: dict[str, list[float]] = {}

    def add(label: str, numbers: Sequence[float], wrong: Wrong) -> None:
        if numbers[0] > numbers[1] or numbers[0] % 1 or numbers[1] % 1:
            raise wrong(
                f"{successes} must be a whole number of at most {trials} but is {numbers[0]:g} of"
                f" {numbers[1]:g}"
            )
        total = totals.setdefault(label, [0.0, 0.0])
        total[0] += numbers[0]
        total[1] += numbers[1]

    if _is_parquet(path):
        name, sha256 = str(path), _counts_in_parquet(Path(path), (arm, successes, trials), add)
    else:
        with opened(path, encoding) as lines:
            header = _header(lines, (arm, successes, trials))
            for label, *texts in rows(lines, header, filled=3):
                numbers = [
                    number_of(name, text, _COUNT, lines.wrong)
                    for name, text in zip((successes, trials), texts, strict=True)
                ]
                add(label.strip(), numbers, lines.wrong)
        name, sha256 = lines.name, lines.sha256
    return _counted(totals, name, f"{arm},{successes},{trials}", sha256)


def _counted(totals: dict[str, list[float]], name: str, layout: str, sha256: str) -> RecordedArms:
    if not totals:
        raise no_rows(name)
    labels = tuple(totals)
    check_several(name, labels)
    wins, counts = np.array(list(totals.values())).T
    rng = np.random.default_rng(int(sha256[:32], 16))
    records = {str(k): v for k, v in rewards_of_counts(labels, wins, counts, rng).items()}
    means = np.divide(wins, counts, out=np.full(len(labels), math.nan), where=counts > 0)
    return RecordedArms(labels, means, records, 0, Path(name).name, layout, sha256)


def _is_parquet(path: Source) -> bool:
    return Path(path).suffix.casefold() in (".parquet", ".pq")


def _header(lines: Lines, columns: Sequence[str]) -> Header:
    lines.check_not_empty()
    header = header_of(lines, [(column,) for column in columns])
    if header is None:
        wanted = ", ".join(map(repr, columns[:-1]))
        raise lines.wrong(
            f"there must be a header with the columns {wanted} and {columns[-1]!r} but the columns"
            f" are {listed(columns_in(lines.first()))}"
        )
    return header


def rewards_in(lines: Lines, header: Header, reading: Reading) -> Recording:
    """Return the recording of a table whose columns are an arm and a reward."""
    name, commas = header.names[1], header.delimiter != ","

    def pairs() -> Iterator[tuple[str, float | None]]:
        for arm, text in rows(lines, header, filled=1, copies=reading.copies):
            yield arm, reading.of_text(name, text, lines.wrong, commas=commas)

    return Recording(pairs(), lines.wrong, ",".join(header.names))


def _rewards_in_parquet(path: Path, arm: str, reward: str, reading: Reading) -> RecordedArms:
    tally = Tally()
    with _opened_parquet(path, (arm, reward)) as (batches, wrong, sha256):
        for labels, (values,) in batches:
            for label, value in zip(labels, values, strict=True):
                tally.mention(label)
                tally.add(label, reading.of_value(reward, value, wrong))
        digest = sha256()
    return tally.result(str(path), f"{arm},{reward}", sha256=digest)


def _counts_in_parquet(path: Path, columns: Sequence[str], add: Callable[..., None]) -> str:
    arm, *names = columns
    reading = Reading(_COUNT)
    with _opened_parquet(path, (arm, *names)) as (batches, wrong, sha256):
        for labels, values in batches:
            for label, *both in zip(labels, *values, strict=True):
                numbers = [
                    reading.of_value(name, value, wrong)
                    for name, value in zip(names, both, strict=True)
                ]
                add(label, numbers, wrong)
        return sha256()


Batches = Iterator[tuple[Iterator[str], list[list[Any]]]]


@contextmanager
def _opened_parquet(
    path: Path, columns: Sequence[str]
) -> Iterator[tuple[Batches, Wrong, Callable[[], str]]]:
    """Give the labels and the other columns of a file, part by part, and what hashes it."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra.of("parquet", "reading Parquet") from None
    if not path.is_file():
        raise InvalidParameter(f"{path} must be a file but does not exist.")
    arm, *others = columns
    try:
        with path.open("rb") as raw:
            metadata = parquet.read_metadata(raw)
            _check_columns(path, metadata.schema.to_arrow_schema(), columns)
            _check_size(path, metadata)
            # A label is kept once and not in every row: a few bytes can stand for gigabytes.
            file = parquet.ParquetFile(raw, metadata=metadata, read_dictionary=[arm])
            batches = (
                (_labels(path, batch.column(arm)), [batch.column(c).to_pylist() for c in others])
                for batch in file.iter_batches(columns=list(columns))
            )

            def sha256() -> str:
                raw.seek(0)
                return hashlib.file_digest(raw, "sha256").hexdigest()

            yield batches, lambda rule: InvalidParameter(f"{path}: {rule}."), sha256
    except InvalidParameter:
        raise
    except (pyarrow.ArrowException, *_DAMAGE) as error:
        first = shown(str(error).partition("\n")[0].rstrip("."), 200)[1:-1]
        raise InvalidParameter(f"{path} must be a Parquet file but is not: {first}.") from error


def _check_columns(path: Path, schema: Any, columns: Sequence[str]) -> None:
    """Refuse columns that are missing, or whose values could be large in every row."""
    from pyarrow import types

    for column in columns:
        if column not in schema.names:
            raise InvalidParameter(
                f"{path} must have a column {column!r} but has {listed(schema.names)}."
            )
    kinds = [schema.types[schema.names.index(column)] for column in columns]
    labels, *others = (kind.value_type if types.is_dictionary(kind) else kind for kind in kinds)
    if types.is_nested(labels) or types.is_fixed_size_binary(labels):
        raise InvalidParameter(
            f"{path} must have texts or numbers in the column {columns[0]!r} but has"
            f" {shown(str(labels))}."
        )
    for column, numbers in zip(columns[1:], others, strict=True):
        if not any(is_kind(numbers) for is_kind in (_is_number, types.is_boolean, types.is_null)):
            raise InvalidParameter(
                f"{path} must have numbers in the column {column!r} but has {shown(str(numbers))}."
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
