"""Tables with a header, their columns separated by commas, semicolons or tabs."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from oddarms.tables._lines import MOST_CHARACTERS, Lines
from oddarms.tables._values import shown

DELIMITERS = ",;\t"

Column = tuple[str, ...]
"""The names that a column may have, in any case."""


class Header(NamedTuple):
    """Which columns of a table are read, under which of their names."""

    delimiter: str
    width: int
    names: tuple[str, ...]
    places: tuple[int, ...]


def header_of(lines: Lines, columns: Sequence[Column]) -> Header | None:
    """Return where the columns are, or None if the first line does not name them all."""
    first = lines.first()
    for delimiter in DELIMITERS:
        row = next(csv.reader([first], delimiter=delimiter), [])
        names = [name.strip().casefold() for name in row]
        found = [
            next((name for name in column if name.strip().casefold() in names), None)
            for column in columns
        ]
        wanted = tuple(name.strip().casefold() for name in found if name is not None)
        if len(wanted) < len(columns):
            continue
        for name in wanted:
            if names.count(name) > 1:
                raise lines.wrong(f"the column {name!r} must be there once but is there twice")
        return Header(delimiter, len(names), wanted, tuple(map(names.index, wanted)))
    return None


class Copies:
    """Counts rows that are equal in all columns, by their hashes."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, row: Sequence[str]) -> None:
        """Add a row."""
        self._hashes.append(hash(tuple(row)))

    @property
    def count(self) -> int:
        """How many rows are like one before them."""
        return len(self._hashes) - int(np.unique(np.array(self._hashes)).size)


def rows(
    lines: Lines, header: Header, *, filled: int = 2, copies: Copies | None = None
) -> Iterator[tuple[str, ...]]:
    """Return the wanted columns of every row below the header, of which the first are filled.

    With `copies`, rows are counted there, unless there are no columns but the wanted ones: then
    equal rows are as they should be.
    """
    wanted = itemgetter(*header.places)
    lines_of_row = _LinesOfRow(lines)
    reader = csv.reader(lines_of_row, delimiter=header.delimiter, strict=True)
    next(reader)
    for row in reader:
        lines_of_row.characters = 0
        if not "".join(row).strip():
            continue
        if len(row) != header.width:
            raise lines.wrong(f"there must be {header.width} fields but there are {len(row)}")
        values: tuple[str, ...] = wanted(row)
        if tuple(value.strip().casefold() for value in values) == header.names:
            raise lines.wrong(
                "the header must be there once but is here again: remove it where files were joined"
            )
        if copies is not None and header.width > len(header.places):
            copies.add(row)
        for name, value in zip(header.names[:filled], values, strict=False):
            if not value.strip():
                raise lines.wrong(f"{name} must have a value but is empty")
        yield values


class _LinesOfRow:
    """The lines of a table, no more of which are one row than could be one line."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.characters = 0

    def __iter__(self) -> _LinesOfRow:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.characters += len(line)
        if self.characters > MOST_CHARACTERS:
            raise self._lines.wrong(
                f"a row must have at most {MOST_CHARACTERS:,} characters but has more"
            )
        return line


def columns_in(line: str) -> list[str]:
    """Return what may be the columns of a line, for a message."""
    return re.split(f"[{DELIMITERS}]", line)


def first_column(lines: Lines) -> str:
    """Return the name of the first column, whatever separates the columns."""
    line = lines.first()
    rows = [next(csv.reader([line], delimiter=delimiter), [""]) for delimiter in DELIMITERS]
    return max(rows, key=len)[0].strip()


def listed(columns: list[str], most: int = 10) -> str:
    """Return the names of columns for a message."""
    text = ", ".join(shown(column.strip()) for column in columns[:most])
    return text if len(columns) <= most else f"{text} and {len(columns) - most} more"
