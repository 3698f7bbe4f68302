"""Small text files of labels and of results, and tables written as CSV."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.json_text import parsed
from oddarms.tables._files import STDIN, Source, name_of, opened_text
from oddarms.tables._values import Bounds, Wrong, shown

MAX_RESULTS = 10_000_000
"""In one file, all of which are in memory at a time."""
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


# Labels


def read_labels(arms: str) -> list[str]:
    """Return labels: one per line of a file or stdin, or those of a list with commas.

    Examples
    --------
    >>> read_labels("ann, bob")
    ['ann', 'bob']
    """
    if arms == STDIN or os.path.exists(arms):
        with opened_text(arms) as text:
            return _labels_in(text, name_of(arms))
    if "," not in arms:
        raise InvalidParameter(
            "arms must be a file with a label per line, - for stdin, or labels with commas"
            f" between, but there is no file {shown(arms)}."
        )
    return [label.strip() for label in arms.split(",") if label.strip()]


def _labels_in(text: Iterable[str], name: str) -> list[str]:
    """Return the labels in lines of text."""
    found: dict[str, None] = {}
    for line, wrong in _lines(text, name):
        if line in found:
            raise wrong(f"labels must be unique but {shown(line)} appears twice")
        found[line] = None
    return list(found)


def _lines(text: Iterable[str], name: str) -> Iterator[tuple[str, Wrong]]:
    """Yield the lines that are not blank, each with a function that makes an error about it."""
    for number, line in enumerate(text, 1):

        def wrong(rule: str, number: int = number) -> InvalidParameter:
            return InvalidParameter(f"{name}, line {number:,}: {rule}.")

        if line.strip():
            yield line.strip(), wrong


# Results of tickets


def read_results(source: Source, bounds: Bounds) -> list[tuple[str, float]]:
    """Return pairs of ticket and reward.

    Lines ``ticket reward``, a CSV with the columns ``ticket`` (or ``id``) and ``reward``, or a
    JSON object with these keys per line; at most ten million of them.
    """
    with opened_text(source) as text:
        results: list[tuple[str, float]] = []
        places: list[int] | None = None
        for i, (line, wrong) in enumerate(_lines(text, name_of(source))):
            places = _result_places(line) if i == 0 else places
            if i == 0 and places is not None:
                continue
            if len(results) == MAX_RESULTS:
                raise wrong(f"a file may have {MAX_RESULTS:,} results: split this one")
            ticket, reward = _pair(line, places, wrong)
            results.append((_ticket_of(ticket, wrong), _number_of("reward", reward, bounds, wrong)))
        return results


def _fields(line: str) -> list[str]:
    delimiter = next((mark for mark in ",;\t" if mark in line), ",")
    return [field.strip() for field in next(csv.reader([line], delimiter=delimiter))]


def _result_places(line: str) -> list[int] | None:
    """Return where a header has the ticket and the reward; None if a line is no header."""
    names = [name.casefold() for name in _fields(line)]
    ticket = next((name for name in ("ticket", "id") if name in names), None)
    if ticket is None or "reward" not in names:
        return None
    return [names.index(ticket), names.index("reward")]


def _pair(line: str, places: list[int] | None, wrong: Wrong) -> tuple[str, str]:
    if line.startswith("{"):
        return _object(line, wrong)
    fields = _fields(line) if places else re.split(r"[\s,;]+", line)
    if places is None and len(fields) == 2:
        return fields[0], fields[1]
    if places is None or len(fields) <= max(places):
        raise wrong(f"there must be a ticket and a reward but there is {shown(line)}")
    return fields[places[0]], fields[places[1]]


def _object(line: str, wrong: Wrong) -> tuple[str, str]:
    try:
        found: dict[str, Any] = parsed(line)
    except ValueError as error:
        raise wrong(f"the line must be a JSON object but is not: {error}") from None
    values = [found.get("ticket", found.get("id")), found.get("reward")]
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise wrong(f"the object must have a ticket and a reward but is {shown(line)}")
    ticket, reward = (str(int(v) if isinstance(v, bool) else v) for v in values)
    return ticket, reward


def _number_of(name: str, text: str, bounds: Bounds, wrong: Wrong) -> float:
    """Return a number within the bounds."""
    a, b = bounds
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if a <= value <= b:
        return value
    if math.isfinite(value):
        raise wrong(f"{name} must lie within [{a:g}, {b:g}] but is {shown(text.strip())}")
    raise wrong(f"{name} must be a finite number but is {shown(text.strip())}")


def _ticket_of(text: str, wrong: Wrong) -> str:
    """Return the id of a ticket, if it has the form of one."""
    ticket = text.strip()
    if not re.fullmatch(r"([0-9]{1,19}\.){3}[a-z2-7]{16}", ticket):
        raise wrong(
            "ticket must be an id that ask has printed, such as 17.3.204.mzxw6ytboi4dgnbt, but is"
            f" {shown(ticket)}"
        )
    return ticket
