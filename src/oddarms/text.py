"""Text for terminals: escaped labels, counts with their nouns, aligned columns."""

from __future__ import annotations

import math
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

WIDTH = 80
DURATIONS = "a duration such as 90 (seconds), 30s, 10m, 2h or 1d, of at most 36500d"
"""What `parse_duration` takes, for messages."""
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
MAX_SECONDS = 36_500 * SECONDS["d"]
MIN_WRAPPED = 12
BREAKS = "/:[,._- "
"""Characters after which a label may be broken: paths and ids of tests have them."""
BETWEEN = "  "
MAX_CHARACTERS = 4_000
"""Of a message."""


def shown(value: object) -> str:
    """Return a text with control and invisible characters escaped.

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
    """Return a message for a terminal: each line escaped by `shown`, a long one cut.

    Messages contain text from commands, files and servers.

    Examples
    --------
    >>> message("not " + chr(27) + "[31mred") == "not " + chr(92) + "x1b[31mred"
    True
    """
    whole = str(text)
    cut = f"{whole[:MAX_CHARACTERS]}..." if len(whole) > MAX_CHARACTERS else whole
    return "\n".join(map(shown, cut.split("\n")))


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> counted(1, "result"), counted(1234, "result")
    ('1 result', '1,234 results')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def parse_duration(text: str) -> float:
    """Return the seconds of a duration, or raise ValueError: a number, perhaps with s, m, h or d.

    Examples
    --------
    >>> parse_duration("90"), parse_duration("1.5m"), parse_duration("1 h")
    (90.0, 90.0, 3600.0)
    """
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([smhd]?)", text.strip())
    if found is None:
        raise ValueError
    seconds = float(found[1]) * SECONDS[found[2] or "s"]
    if seconds > MAX_SECONDS:
        raise ValueError
    return seconds


def duration(seconds: float) -> str:
    """Return a duration in words.

    Examples
    --------
    >>> duration(600.0), duration(1.25), duration(math.inf)
    ('10 minutes', '1.2 seconds', 'any time')
    """
    if math.isinf(seconds):
        return "any time"
    if seconds >= 90.0:
        return counted(round(seconds / 60.0), "minute")
    return f"{seconds:.2g} seconds"


def about(value: float) -> str:
    """Return a rough estimate with two significant digits.

    Examples
    --------
    >>> about(12345.6), about(float("inf"))
    ('12,000', '–')
    """
    return f"{float(f'{value:.2g}'):,.0f}" if math.isfinite(value) else "–"


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    above = sum(bool(unicodedata.combining(c)) for c in text)
    return len(text) + wide - above


def elided(text: str, most: int) -> str:
    """Return a text cut to so many columns in its middle: labels often differ at the end.

    Examples
    --------
    >>> elided("test_shop.py::test_login[eve]", 20)
    'test_sho...ogin[eve]'
    """
    if width(text) <= most:
        return text
    kept = most - 3
    first, last = text[: kept // 2], text[len(text) - (kept - kept // 2) :]
    while width(first) + width(last) > kept:
        first, last = (first[:-1], last) if width(first) > width(last) else (first, last[1:])
    return f"{first}...{last}"


def wrapped(text: str, most: int) -> list[str]:
    """Return a text broken into lines of at most so many columns.

    Examples
    --------
    >>> wrapped("tests/test_shop.py::test_login", 20)
    ['tests/test_shop.py::', 'test_login']
    """
    lines = []
    while width(text) > most and len(text) > 1:
        end = most
        while width(text[:end]) > most:
            end -= 1
        end = max(end, 1)
        good = max(text.rfind(c, 0, end) for c in BREAKS) + 1
        end = good if 2 * good > end else end
        lines.append(text[:end])
        text = text[end:]
    return [*lines, text]


def filled(text: str, most: int, indent: str = "") -> str:
    """Return a text with its lines broken between words, so that they have so many columns.

    A word that is wider, such as a path, stays whole; lines after a break begin with `indent`.

    Examples
    --------
    >>> print(filled("all is kept in output/find-tests/study.db", 20))
    all is kept in
    output/find-tests/study.db
    """
    return "\n".join(
        textwrap.fill(
            line, most, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        if width(line) > most
        else line
        for line in text.split("\n")
    )


def terminal_width() -> int:
    """Return the columns of the terminal, or 80 where there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    wrap: str | None = None,
) -> str:
    """Return columns under their header, those of `right` aligned on the right.

    The texts of the column `wrap` go on in further lines where the table would be wider than the
    terminal, or than 80 columns where there is none.

    Examples
    --------
    >>> print(table(["arm", "pulls"], [["ann", 7], ["bob", 12]], right=["pulls"]), end="")
    arm  pulls
    ann      7
    bob     12
    """
    cells = [list(header), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    place = None if wrap is None else header.index(wrap)
    if place is not None:
        line = terminal_width()
        others = sum(widths) - widths[place] + len(BETWEEN) * (len(widths) - 1)
        widths[place] = min(widths[place], max(line - others, MIN_WRAPPED))
    to_right = [name in right for name in header]
    lines = []
    for row in cells:
        for cut in [row] if place is None else _cut(row, place, widths[place]):
            parts = []
            for text, columns, is_right in zip(cut, widths, to_right, strict=True):
                blank = " " * (columns - width(text))
                parts.append(blank + text if is_right else text + blank)
            lines.append(BETWEEN.join(parts).rstrip() + "\n")
    return "".join(lines)


def _cut(row: list[str], place: int, most: int) -> list[list[str]]:
    """Return the lines of a row; the first has all cells that are not wrapped."""
    first, *more = wrapped(row[place], most)
    blank = [""] * len(row)
    return [
        [*row[:place], first, *row[place + 1 :]],
        *([*blank[:place], text, *blank[place + 1 :]] for text in more),
    ]
