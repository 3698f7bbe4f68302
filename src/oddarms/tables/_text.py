"""Tables as text."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any

_BETWEEN = re.compile(r"([;,|\t\r\n])")
"""Where programs split a line, or may."""
_RUN = re.compile(r"'*[\s\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""How a text begins that a spreadsheet runs, or that was neutralised; the last are full-width."""
_BLANK = re.compile(r"'*[\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


def csv_text(
    header: Sequence[str], rows: Iterable[Sequence[Any]], *, for_spreadsheets: bool = False
) -> str:
    """Return a table as CSV with Unix line ends; None is an empty field.

    Parameters
    ----------
    header, rows
        The columns' names, and what stands below them.
    for_spreadsheets
        Put an apostrophe before texts that a spreadsheet would run, see `neutralised`, and quotes
        around all cells but numbers, as one may split lines at semicolons or tabs.

    Examples
    --------
    >>> print(csv_text(["arm", "odds"], [["ann", 2.5], ["bob", None]]), end="")
    arm,odds
    ann,2.5
    bob,
    """
    lines = _UnixLines()
    writer = csv.writer(
        lines, quoting=csv.QUOTE_NONNUMERIC if for_spreadsheets else csv.QUOTE_MINIMAL
    )
    writer.writerow(header)
    writer.writerows(map(_neutralised_row, rows) if for_spreadsheets else rows)
    return "".join(lines.lines)


def neutralised(text: str) -> str:
    """Return a text that a spreadsheet shows and does not run.

    An apostrophe goes before a text that begins with =, +, -, @, a tab or the end of a line, even
    behind blanks and quotes, but not before a number. So it does inside a text, behind a comma, a
    semicolon, a bar, a tab or the end of a line, where a program may split it. One goes before
    apostrophes and these, too, so that whoever reads the table finds each text again: of
    apostrophes before such a character the first was added.

    Examples
    --------
    >>> [neutralised(text) for text in ("=1+1", "'=1+1", "-1", "ann", "a;=1+1")]
    ["'=1+1", "''=1+1", '-1', 'ann', "a;'=1+1"]
    """
    found = "".join(map(_neutralised_part, _BETWEEN.split(text)))
    return f"'{found}" if _BLANK.match(text) else found


def _neutralised_part(part: str) -> str:
    runs = _RUN.match(part) is not None and _NUMBER.fullmatch(part) is None
    return f"'{part}" if runs else part


def _neutralised_row(row: Sequence[Any]) -> list[Any]:
    return [neutralised(cell) if isinstance(cell, str) else cell for cell in row]


class _UnixLines:
    """Takes rows that end in CR LF, so that both are quoted inside a field; keeps LF alone."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line.removesuffix("\r\n") + "\n")
