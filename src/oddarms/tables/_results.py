"""What workers hand in: rewards under the ids of their tickets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.json_text import parsed
from oddarms.tables._columns import header_of, rows
from oddarms.tables._lines import Lines, Source, opened
from oddarms.tables._values import Bounds, number_of, shown, ticket_of

_TICKET, _REWARD = ("ticket", "id"), ("reward",)
MOST_RESULTS = 10_000_000
"""In one file, all of which are in memory at a time."""


def read_results(source: Source, bounds: Bounds) -> list[tuple[str, float]]:
    """Return pairs of ticket and reward.

    Lines ``ticket reward``, a table with a header that has ``ticket`` (or ``id``) and ``reward``,
    or a JSON object with these keys per line; at most ten million of them.
    """
    with opened(source) as lines:
        header = header_of(lines, (_TICKET, _REWARD))
        pairs = _without_header(lines) if header is None else rows(lines, header)
        results: list[tuple[str, float]] = []
        for ticket, reward in pairs:
            if len(results) == MOST_RESULTS:
                raise InvalidParameter(
                    f"{lines.name} must have at most {MOST_RESULTS:,} results but has more: split"
                    " it."
                )
            number = ticket_of(ticket, lines.wrong)
            results.append((number, number_of("reward", reward, bounds, lines.wrong)))
        return results


def _without_header(lines: Lines) -> Iterator[tuple[str, str]]:
    for line in map(str.strip, lines):
        if line:
            yield _object(lines, line) if line.startswith("{") else _words(lines, line)


def _words(lines: Lines, line: str) -> tuple[str, str]:
    words = re.split(r"[\s,;]+", line)
    if len(words) != 2:
        raise lines.wrong(f"there must be a ticket and a reward but there is {shown(line)}")
    return words[0], words[1]


def _object(lines: Lines, line: str) -> tuple[str, str]:
    try:
        found: dict[str, Any] = parsed(line)
    except ValueError as error:
        raise lines.wrong(f"the line must be a JSON object but is not: {error}") from None
    values = [next((found[k] for k in keys if k in found), None) for keys in (_TICKET, _REWARD)]
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise lines.wrong(f"the object must have a ticket and a reward but is {shown(line)}")
    ticket, reward = (str(int(v) if isinstance(v, bool) else v) for v in values)
    return ticket, reward
