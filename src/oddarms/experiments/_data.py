"""Arms read from a file: recorded rewards, known means, or a crowd's responses and their gold.

Layouts are recognised from the content; any file may be compressed with gzip.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import FloatArray, check_bounds

_LAYOUTS = (("arm", "reward"), ("arm", "mean"), ("worker", "label", "gold"))
_DELIMITERS = ",;\t"
_GOLD_NAMES = ("responses_gt.txt", "gold.txt", "ground_truth.txt", "groundTruth.txt")
_ITEM_FIRST_NAMES = ("responses_eval", "responses_nFold")
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1f\udc80-\udcff]")  # the last are undecodable bytes


@dataclass(frozen=True, eq=False)
class RecordedArms:
    """Arms whose rewards or means were read from a file.

    Attributes
    ----------
    labels
        The arms' names, in the order of first appearance.
    means
        The mean of each arm; where single rewards are known, their average.
    records
        Each arm's recorded rewards, or None where only the means are known.
    left_out
        The number of responses without a gold label, which are in no record.
    source
        The name of the file.
    layout
        The columns that were read, as "arm,reward" or "worker item label".
    """

    labels: tuple[str, ...]
    means: FloatArray
    records: dict[str, FloatArray] | None
    left_out: int
    source: str
    layout: str = ""

    @property
    def binary(self) -> bool:
        """True if all rewards are 0 or 1; arms of which only means are known are simulated so."""
        if self.records is None:
            return True
        return all(np.isin(rewards, (0.0, 1.0)).all() for rewards in self.records.values())

    def digest(self) -> str:
        """Return a SHA-256 that tells apart data with other labels, means or rewards."""
        parts = {"means": self.means} if self.records is None else self.records
        sizes = [part.size for part in parts.values()]
        result = hashlib.sha256(
            json.dumps([self.records is None, self.labels, sizes]).encode("ascii")
        )
        for part in parts.values():
            result.update(part.astype("<f8").tobytes())
        return result.hexdigest()


def read_arms(
    path: str | PathLike[str], *, gold: str | PathLike[str] | None = None
) -> RecordedArms:
    """Return the arms that a file describes, in whichever of these layouts it has.

    - A table with a header, its columns separated by commas, semicolons or tabs: ``arm,reward``
      with a row per pull, ``arm,mean`` with a row per arm, or ``worker,label,gold`` with a row per
      response. Other columns are ignored.
    - The layout of the SQUARE benchmark: lines ``worker item label`` without a header, and a
      second file with lines ``item label``.

    A worker is an arm, and the reward of a response is 1 if its label differs from the gold one,
    as numbers where both are numbers and otherwise as text. Responses without a gold label are
    left out and counted.

    Parameters
    ----------
    path
        The file, plain or compressed with gzip, in UTF-8.
    gold
        The second file of SQUARE's layout; by default the first that exists beside `path` of its
        own name with ``_gt`` for ``_eval`` or ``gt_`` for ``responses_``, ``responses_gt.txt``,
        ``gold.txt``, ``ground_truth.txt`` and ``groundTruth.txt``.

    Notes
    -----
    SQUARE is given ``responses.txt`` with lines `worker item label` but itself writes
    ``responses_eval.txt`` and ``responses_nFold_*.txt`` with lines `item worker label`, all of
    them numbers. The column that has more than twice as many of the gold file's items is taken for
    the items; if neither has, the name of the file decides. `RecordedArms.layout` says what was
    read.
    """
    file = Path(path)
    with _opened(file) as lines:
        header = _header(lines)
        if header is None:
            return _read_responses(lines, _gold_file(file, gold))
        if gold is not None:
            raise InvalidParameter(
                f"gold must be left out for a table with a header such as {file} but got {gold}."
            )
        return _read_table(lines, header)


def read_rewards(
    path: str | PathLike[str],
    *,
    arm: str = "arm",
    reward: str = "reward",
    bounds: tuple[float, float] = (0.0, 1.0),
) -> RecordedArms:
    """Return recorded rewards from two named columns of a CSV or Parquet file, a row per pull.

    Parameters
    ----------
    path
        A CSV with a header (also ;- or tab-separated, plain or gzipped), or a Parquet file
        (``pip install 'oddarms[parquet]'``). It is read in a stream.
    arm, reward
        The names of the columns; those of a CSV are compared without regard to case.
    bounds
        Every reward must lie within.
    """
    file = Path(path)
    limits = check_bounds(bounds)
    if file.suffix.casefold() in (".parquet", ".pq"):
        return _read_parquet(file, arm, reward, limits)
    with _opened(file) as lines:
        header = _named_header(lines, (arm, reward))
        tally = _Tally()
        for label, text in _rows(lines, header):
            tally.add(label, _number(lines, reward, text, limits))
        return tally.result(lines.path, ",".join(header.layout), "")


def _named_header(lines: _Lines, columns: tuple[str, str]) -> _Header:
    line = lines.peek()
    wanted = tuple(column.strip().casefold() for column in columns)
    for delimiter in _DELIMITERS:
        names = [name.strip().casefold() for name in next(csv.reader([line], delimiter=delimiter))]
        if set(wanted) <= set(names):
            return _Header(delimiter, names, wanted)
    found = _listed(re.split(f"[{_DELIMITERS}]", line))
    raise lines.wrong(
        f"there must be a header with the columns {columns[0]!r} and {columns[1]!r} but the columns"
        f" are {found}"
    )


def _read_parquet(path: Path, arm: str, reward: str, bounds: tuple[float, float]) -> RecordedArms:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra.of("parquet", "reading Parquet") from None
    if not path.is_file():
        raise InvalidParameter(f"{path} must be a file but does not exist.")
    tally = _Tally()
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for column in (arm, reward):
                if column not in names:
                    raise InvalidParameter(
                        f"{path} must have a column {column!r} but has {_listed(names)}."
                    )
            for batch in file.iter_batches(columns=[arm, reward]):
                labels, rewards = (batch.column(name).to_pylist() for name in (arm, reward))
                for label, value in zip(labels, rewards, strict=True):
                    tally.add(_parquet_label(path, label), _parquet_reward(path, value, bounds))
    except (pyarrow.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0].rstrip(".")
        raise InvalidParameter(f"{path} must be a Parquet file but is not: {first}.") from error
    return tally.result(path, f"{arm},{reward}", "")


def _parquet_label(path: Path, label: object) -> str:
    if label is None or not str(label).strip():
        raise InvalidParameter(f"{path} must name an arm in every row but one is empty.")
    return str(label)


def _parquet_reward(path: Path, value: object, bounds: tuple[float, float]) -> float:
    a, b = bounds
    number = float(value) if isinstance(value, bool | int | float | Decimal) else math.nan
    if not a <= number <= b:
        raise InvalidParameter(
            f"{path} must have rewards within [{a:g}, {b:g}] but one is {_shown(str(value))}."
        )
    return number


class _Lines:
    """The lines of a text file, checked to be text, with the number of the last one read."""

    def __init__(self, path: Path, text: Iterator[str]) -> None:
        self.path = path
        self.number = 0
        self._text = text
        self._held: str | None = None

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if self._held is not None:
            line, self._held = self._held, None
            return line
        line = next(self._text)
        self.number += 1
        found = _NOT_TEXT.search(line)
        if found is not None:
            raise self.wrong(f"the file must be text in UTF-8 but has {_byte(found[0])}")
        return line

    def peek(self) -> str:
        """Return the first line that is not blank, without taking it."""
        for line in self:
            if line.strip():
                self._held = line
                return line
        raise InvalidParameter(f"{self.path} must have rows but is empty.")

    def fields(self, form: str) -> Iterator[list[str]]:
        """Return the fields of every line: as many words as the form has, or parts between tabs."""
        width = len(form.split())
        for line in self:
            fields = _fields(line, width)
            if fields is not None:
                yield fields
            elif line.strip():
                raise self.wrong(
                    f"there must be {width} fields {form!r} but there are {len(line.split())}"
                )

    def wrong(self, rule: str) -> InvalidParameter:
        """Return the error for the line that was read last."""
        return InvalidParameter(f"{self.path}, line {self.number}: {rule}.")


@contextmanager
def _opened(path: Path) -> Iterator[_Lines]:
    lines = _Lines(path, iter(()))
    try:
        with path.open("rb") as raw, _text(raw) as text:
            lines = _Lines(path, iter(text))
            yield lines
    except FileNotFoundError as error:
        raise InvalidParameter(f"{path} must be a file but does not exist.") from error
    except IsADirectoryError as error:
        raise InvalidParameter(f"{path} must be a file but is a directory.") from error
    except PermissionError as error:
        raise InvalidParameter(f"{path} must be readable but permission is denied.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidParameter(f"{path} must be a whole gzip file but is damaged.") from error
    except OSError as error:
        raise InvalidParameter(
            f"{path} must be readable but reading failed: {error.strerror or error}."
        ) from error
    except csv.Error as error:
        raise lines.wrong(f"the table must be well-formed but is not: {error}") from error


def _text(raw: io.BufferedReader) -> io.TextIOWrapper:
    is_gzip = raw.peek(2)[:2] == b"\x1f\x8b"
    content = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if is_gzip else raw
    return io.TextIOWrapper(content, "utf-8-sig", errors="surrogateescape", newline="")


def _byte(character: str) -> str:
    return f"the byte 0x{ord(character) & 0xFF:02x}"


class _Header(NamedTuple):
    delimiter: str
    names: list[str]
    layout: tuple[str, ...]


def _header(lines: _Lines) -> _Header | None:
    """Return the header of a table, or None for SQUARE's layout."""
    line = lines.peek()
    for delimiter in _DELIMITERS:
        row = next(csv.reader([line], delimiter=delimiter))
        names = [name.strip().casefold() for name in row]
        for layout in _LAYOUTS:
            if set(layout) <= set(names):
                return _Header(delimiter, names, layout)
    separated = "\t" in line or not set(_DELIMITERS) & set(line)
    header_words = {name for layout in _LAYOUTS for name in layout} & set(line.casefold().split())
    if separated and _fields(line, 3) is not None and len(header_words) < 2:
        return None
    wanted = " or ".join(",".join(layout) for layout in _LAYOUTS)
    raise lines.wrong(
        f"there must be a header with the columns {wanted}, or a response 'worker item label',"
        f" but the columns are {_listed(re.split(f'[{_DELIMITERS}]', line))}"
    )


def _listed(columns: list[str], most: int = 10) -> str:
    shown = ", ".join(_shown(column.strip()) for column in columns[:most])
    return shown if len(columns) <= most else f"{shown} and {len(columns) - most} more"


def _shown(text: str, most: int = 60) -> str:
    return repr(text if len(text) <= most else f"{text[:most]}...")


def _fields(line: str, width: int) -> list[str] | None:
    """Return the parts of a line, between tabs or else between spaces, if they are `width`."""
    if "\t" in line:
        between_tabs = [field.strip() for field in line.split("\t")]
        if len(between_tabs) == width and all(between_tabs):
            return between_tabs
    words = line.split()
    return words if len(words) == width else None


def _read_table(lines: _Lines, header: _Header) -> RecordedArms:
    layout = header.layout
    for column in layout:
        if header.names.count(column) > 1:
            raise lines.wrong(f"the column {column!r} must be there once but is there twice")
    rows = _rows(lines, header)
    if layout == ("arm", "mean"):
        return _read_means(lines, rows)
    tally = _Tally()
    if layout == ("arm", "reward"):
        for arm, text in rows:
            tally.add(arm, _number(lines, "reward", text))
    else:
        for worker, label, gold in rows:
            tally.add(worker, float(_same(label) != _same(gold)) if gold else None)
    return tally.result(lines.path, ",".join(layout), "its gold column")


def _rows(lines: _Lines, header: _Header) -> Iterator[tuple[str, ...]]:
    """Return the wanted columns of every row below the header, stripped."""
    wanted = itemgetter(*map(header.names.index, header.layout))
    width = len(header.names)
    reader = csv.reader(lines, delimiter=header.delimiter, strict=True)
    next(reader)
    for row in reader:
        if not "".join(row).strip():
            continue
        if len(row) != width:
            raise lines.wrong(f"there must be {width} fields but there are {len(row)}")
        values = tuple(map(str.strip, wanted(row)))
        if not all(values[:2]):  # of the columns, only gold may be empty
            raise lines.wrong(f"{header.layout[values.index('')]} must not be empty")
        yield values


def _read_means(lines: _Lines, rows: Iterable[tuple[str, ...]]) -> RecordedArms:
    means: dict[str, float] = {}
    for arm, text in rows:
        if arm in means:
            raise lines.wrong(f"an arm must have one mean but {_shown(arm)} has a second one")
        means[arm] = _number(lines, "mean", text)
    if not means:
        raise _no_rows(lines.path)
    _check_several(lines.path, tuple(means))
    values = np.array(list(means.values()))
    return RecordedArms(tuple(means), values, None, 0, lines.path.name, "arm,mean")


def _no_rows(path: Path) -> InvalidParameter:
    return InvalidParameter(f"{path} must have rows but has only a header.")


def _number(
    lines: _Lines, column: str, text: str, bounds: tuple[float, float] = (0.0, 1.0)
) -> float:
    a, b = bounds
    try:
        value = math.nan if "_" in text else float(text)  # Python would read 1_0 as 10
    except ValueError:
        value = math.nan
    if a <= value <= b:
        return value
    if math.isfinite(value):
        raise lines.wrong(
            f"rewards must lie within [{a:g}, {b:g}] but the {column} is {_shown(text)}"
        )
    raise lines.wrong(f"the {column} must be a finite number but is {_shown(text)}")


@lru_cache(maxsize=4096)
def _same(label: str) -> str | Decimal:
    """Return what is the same for labels that are: 1 and 1.0 are, and so are equal texts."""
    try:
        number = Decimal(label)
    except InvalidOperation:
        return label
    return number if number.is_finite() and "_" not in label else label


class _Column:
    """A column of texts that repeat, each kept once, in the order of first appearance."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.codes = array("q")

    def append(self, text: str) -> None:
        self.codes.append(self.texts.setdefault(text, len(self.texts)))

    def __iter__(self) -> Iterator[str]:
        texts = list(self.texts)
        return (texts[code] for code in self.codes)


class _Tally:
    """Collects rewards row by row; those of None are left out and counted."""

    def __init__(self) -> None:
        self._arms = _Column()
        self._rewards = array("d")
        self._left_out = 0

    def add(self, arm: str, reward: float | None) -> None:
        if reward is None:
            self._left_out += 1
        else:
            self._arms.append(arm)
            self._rewards.append(reward)

    def result(self, path: Path, layout: str, gold: str) -> RecordedArms:
        if not self._rewards and self._left_out == 0:
            raise _no_rows(path)
        if not self._rewards:
            raise InvalidParameter(
                f"{path} must have responses with a gold label but {gold} has one for none of"
                f" the {self._left_out}."
            )
        labels = tuple(self._arms.texts)
        _check_several(path, labels)
        arms, rewards = np.array(self._arms.codes), np.array(self._rewards)
        ends = np.cumsum(np.bincount(arms))[:-1]
        parts = np.split(rewards[np.argsort(arms, kind="stable")], ends)
        # fsum rounds once, so that the order of rows does not matter.
        means = np.array([math.fsum(part.tolist()) / part.size for part in parts])
        records = dict(zip(labels, parts, strict=True))
        return RecordedArms(labels, means, records, self._left_out, path.name, layout)


def _check_several(path: Path, labels: tuple[str, ...]) -> None:
    if len(labels) < 2:
        raise InvalidParameter(
            f"{path} must have at least 2 arms but has only {_shown(labels[0])}."
        )


def _gold_file(path: Path, gold: str | PathLike[str] | None) -> Path:
    if gold is not None:
        return Path(gold)
    name = path.name.removesuffix(".gz")
    own = (name.replace("_eval", "_gt"), name.replace("responses_", "gt_", 1))
    names = [other for other in dict.fromkeys((*own, *_GOLD_NAMES)) if other != name]
    for other in names:
        for file in (path.with_name(other), path.with_name(f"{other}.gz")):
            if file.is_file():
                return file
    raise InvalidParameter(
        f"{path} must have a file with gold labels, 'item label' on each line, but none of"
        f" {', '.join(names)} is beside it: name it with --gold FILE (in Python, gold=)."
    )


def _read_gold(path: Path) -> dict[str, str]:
    gold: dict[str, str] = {}
    with _opened(path) as lines:
        lines.peek()
        for item, label in lines.fields("item label"):
            known = gold.setdefault(item, label)
            if _same(known) != _same(label):
                raise lines.wrong(
                    f"an item must have one gold label but {_shown(item)} has {_shown(known)}"
                    f" and {_shown(label)}"
                )
    return gold


def _read_responses(lines: _Lines, gold_file: Path) -> RecordedArms:
    gold = _read_gold(gold_file)
    first, second, labels = _Column(), _Column(), _Column()
    for one, other, label in lines.fields("worker item label"):
        first.append(one)
        second.append(other)
        labels.append(label)
    item_first = _is_item_first(lines.path.name, gold, first, second)
    items, workers = (first, second) if item_first else (second, first)
    tally = _Tally()
    for worker, item, label in zip(workers, items, labels, strict=True):
        known = gold.get(item)
        tally.add(worker, None if known is None else float(_same(label) != _same(known)))
    layout = "item worker label" if item_first else "worker item label"
    return tally.result(lines.path, layout, str(gold_file))


def _is_item_first(name: str, gold: dict[str, str], first: _Column, second: _Column) -> bool:
    """Tell which column has the items; see the notes of `read_arms`."""
    in_first, in_second = (len(gold.keys() & column.texts.keys()) for column in (first, second))
    if in_first > 2 * in_second:
        return True
    return in_second <= 2 * in_first and name.startswith(_ITEM_FIRST_NAMES)
