"""Rewards from two named columns of a CSV or Parquet file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import UNIT, check_bounds
from oddarms.tables._columns import Header, columns_in, header_of, listed, rows
from oddarms.tables._lines import RATIO, Lines, Source, opened
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
        with path.open("rb") as raw, parquet.ParquetFile(raw) as file:
            names = file.schema_arrow.names
            for column in (arm, reward):
                if column not in names:
                    raise InvalidParameter(
                        f"{path} must have a column {column!r} but has {listed(names)}."
                    )
            room = _most_rows(path)
            for batch in file.iter_batches(columns=[arm, reward]):
                room -= batch.num_rows
                if room < 0:
                    raise InvalidParameter(
                        f"{path} must not have over {_most_rows(path):,} rows for its size but"
                        " does: split it."
                    )
                labels, rewards = (batch.column(name).to_pylist() for name in (arm, reward))
                for label, value in zip(labels, rewards, strict=True):
                    tally.add(_parquet_label(path, label), _parquet_reward(path, value, bounds))
            raw.seek(0)
            sha256 = hashlib.file_digest(raw, "sha256").hexdigest()
    except InvalidParameter:
        raise
    except (pyarrow.ArrowException, *_DAMAGE) as error:
        first = shown(str(error).partition("\n")[0].rstrip("."), 200)[1:-1]
        raise InvalidParameter(f"{path} must be a Parquet file but is not: {first}.") from error
    return tally.result(str(path), f"{arm},{reward}", sha256=sha256)


def _most_rows(path: Path) -> int:
    """Return how many rows a file may have, of which a few bytes can stand for any number."""
    return _FREE_ROWS + RATIO * path.stat().st_size


def _parquet_label(path: Path, label: object) -> str:
    if label is None or not str(label).strip():
        raise InvalidParameter(f"{path} must name an arm in every row but one is empty.")
    return str(label)


def _parquet_reward(path: Path, value: object, bounds: Bounds) -> float:
    a, b = bounds
    number = float(value) if isinstance(value, bool | int | float | Decimal) else math.nan
    if not a <= number <= b:
        raise InvalidParameter(
            f"{path} must have rewards within [{a:g}, {b:g}] but one is {shown(str(value))}."
        )
    return number
