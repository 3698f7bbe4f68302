"""A result as commands print it."""

from __future__ import annotations

from collections.abc import Sequence

from oddarms.cli._printing import ResultFormat
from oddarms.reports import LeftOut, arms_csv, result_json, result_markdown
from oddarms.search import ARMS, Result, Subject, answer


def rendered(
    result: Result,
    how: ResultFormat,
    *,
    every: bool = False,
    subject: Subject = ARMS,
    left_out: Sequence[LeftOut] = (),
) -> str:
    """Return a result in words, as the result document, its arms as CSV, or as Markdown."""
    if how is ResultFormat.json:
        return result_json(result)
    if how is ResultFormat.csv:
        return arms_csv(result)
    if how is ResultFormat.markdown:
        return result_markdown(result, subject=subject, left_out=left_out, every=every)
    return answer(result, every=every, subject=subject)
