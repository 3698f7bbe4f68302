"""Text for terminals: labels made harmless, counts with their nouns, aligned columns."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Iterable, Sequence

WIDTH = 80
LEAST_SHORTENED = 12
BETWEEN = "  "
MOST_CHARACTERS = 4_000
"""Of a message."""


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


def message(text: object) -> str:
    """Return a message for a terminal: in its lines all is shown, and of a long one the beginning.

    What commands, files and servers say is part of messages, and may be anything.

    Examples
    --------
    >>> message("not " + chr(27) + "[31mred") == "not " + chr(92) + "x1b[31mred"
    True
    """
    whole = str(text)
    cut = f"{whole[:MOST_CHARACTERS]}..." if len(whole) > MOST_CHARACTERS else whole
    return "\n".join(map(shown, cut.split("\n")))


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
