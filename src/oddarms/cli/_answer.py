"""A result as commands print it."""

from __future__ import annotations

from oddarms.cli._printing import Format
from oddarms.reports import arms_csv, result_json
from oddarms.search import Result, answer


def rendered(result: Result, how: Format, *, every: bool = False) -> str:
    """Return a result in words, as the result document, or its arms as CSV."""
    if how is Format.json:
        return result_json(result)
    return arms_csv(result) if how is Format.csv else answer(result, every=every)
