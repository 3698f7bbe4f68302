"""What commands print: tables for people, JSON and CSV for programs, notes on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import typer

from oddarms.cli._guard import EXIT_FAILED
from oddarms.tables import csv_text

WIDTH = 80
LEAST_SHORTENED = 12
BETWEEN = "  "


class Format(StrEnum):
    """How a command prints what it found."""

    table = "table"
    json = "json"
    csv = "csv"


def shown(value: object) -> str:
    """Return a text for one cell of a table: what would move the cursor or is invisible, escaped.

    Examples
    --------
    >>> shown("a" + chr(10) + "b") == "a" + chr(92) + "nb"
    True
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> counted(1, "result"), counted(1234, "result")
    ('1 result', '1,234 results')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    above = sum(bool(unicodedata.combining(c)) for c in text)
    return len(text) + wide - above


def shortened(text: str, most: int) -> str:
    """Return a text cut to so many columns, with dots where something is missing.

    Examples
    --------
    >>> shortened("a long label", 9)
    'a long...'
    """
    if width(text) <= most:
        return text
    kept = text[: most - 3]
    while width(kept) > most - 3:
        kept = kept[:-1]
    return f"{kept}..."


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    shorten: str | None = None,
) -> str:
    """Return aligned columns.

    Parameters
    ----------
    header, rows
        The columns' names, and what stands below them.
    right
        The columns that are aligned on the right.
    shorten
        The column whose texts are shortened until the table is as wide as the terminal, or 80
        columns where there is none.

    Examples
    --------
    >>> print(table(["arm", "pulls"], [["ann", 7], ["bob", 12]], right=["pulls"]), end="")
    arm  pulls
    ann      7
    bob     12
    """
    cells = [list(header), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    if shorten is not None:
        place = header.index(shorten)
        line = shutil.get_terminal_size((WIDTH, 24)).columns
        others = sum(widths) - widths[place] + len(BETWEEN) * (len(widths) - 1)
        widths[place] = min(widths[place], max(line - others, LEAST_SHORTENED))
        for row in cells:
            row[place] = shortened(row[place], widths[place])
    to_right = [name in right for name in header]
    lines = []
    for row in cells:
        parts = []
        for text, columns, is_right in zip(row, widths, to_right, strict=True):
            blank = " " * (columns - width(text))
            parts.append(blank + text if is_right else text + blank)
        lines.append(BETWEEN.join(parts).rstrip() + "\n")
    return "".join(lines)


def json_text(value: Any) -> str:
    """Return a value as JSON in ASCII."""
    return json.dumps(value, indent=1) + "\n"


def emit_rows(how: Format, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows for programs: CSV, or a JSON list of objects."""
    if how is Format.csv:
        emit(csv_text(header, rows))
    else:
        emit(json_text([dict(zip(header, row, strict=True)) for row in rows]))


def emit(*parts: str) -> None:
    """Print on stdout, all of it or else an error; a reader who has gone ends the command."""
    emit_all(parts)


def emit_all(parts: Iterable[str]) -> None:
    """Print the parts of a long text as they come."""
    try:
        for part in parts:
            sys.stdout.write(_encodable(part))
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        raise typer.Exit(EXIT_FAILED) from None
    except OSError:
        _drop_stdout()
        raise


def _encodable(text: str) -> str:
    """Return a text with what the stream has no bytes for written out."""
    if text.isascii():
        return text
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _drop_stdout() -> None:
    """Let Python, when it ends, not try once more to write what could not be written."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Print a remark for people, on stderr."""
    print(text, file=sys.stderr, flush=True)
