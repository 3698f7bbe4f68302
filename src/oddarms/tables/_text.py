"""Tables as text."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import Any


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV with Unix line ends; None is an empty field.

    Examples
    --------
    >>> print(csv_text(["arm", "odds"], [["ann", 2.5], ["bob", None]]), end="")
    arm,odds
    ann,2.5
    bob,
    """
    lines = _UnixLines()
    writer = csv.writer(lines)
    writer.writerow(header)
    writer.writerows(rows)
    return "".join(lines.lines)


class _UnixLines:
    """Takes rows that end in CR LF, so that both are quoted inside a field; keeps LF alone."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line.removesuffix("\r\n") + "\n")
