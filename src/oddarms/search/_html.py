"""A result as a piece of HTML, for notebooks: what `_text` says, with long lists folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.documents import Block, Details, Literal, Paragraph, Table, to_fragment, visible
from oddarms.search._text import (
    cell,
    comparison,
    cost,
    figures,
    headline,
    number_style,
    status_text,
    still_needed,
    threshold_lines,
)
from oddarms.text import counted

if TYPE_CHECKING:
    from oddarms.problem import IntArray
    from oddarms.search._result import Result

SHOWN, FOLDED = 10, 200
"""Rows of a table that are seen at once, and those that are seen when asked for."""
MOST_CHARACTERS = 400
"""Of a label; the table wraps it."""


def result_html(result: Result) -> str:
    """Return what is known, for a notebook: the question, the answer, and tables of arms."""
    return to_fragment(result_blocks(result))


def result_blocks(result: Result, shown: int = SHOWN) -> list[Block]:
    """Return what is known: the question, the answer, outliers, thresholds, cost, what is open.

    Parameters
    ----------
    result
        The result, complete or not.
    shown
        Rows of a table that are not folded.
    """
    first, *more = headline(result).splitlines()
    blocks: list[Block] = [
        Paragraph(Literal(visible(result.question.sentence()))),
        Paragraph(" ".join([f"**{first}**", *more])),
    ]
    odd = np.flatnonzero(result.decisions >= Decision.HIGH)
    odd = odd[np.argsort(-result.means[odd], kind="stable")]
    blocks += _arms(result, odd, "odds", "Outliers", shown)
    blocks += _figures(result)
    still_open = np.flatnonzero(result.decisions == Decision.UNDECIDED)
    still_open = still_open[np.argsort(-result.suspicion[still_open], kind="stable")]
    caption = "Undecided, the most suspicious first; guesses are not proven"
    return [*blocks, *_arms(result, still_open, "guess", caption, shown)]


def _figures(result: Result) -> list[Paragraph]:
    lines = [*threshold_lines(result), f"samples: {cost(result)}", comparison(result)]
    if not result.complete:
        needed = still_needed(result).strip().split("\n")
        lines += [f"status: {status_text(result.status)}", *needed]
    return [Paragraph(Literal(visible(line.strip()))) for line in lines if line]


def _arms(
    result: Result, arms: IntArray, last: str, caption: str, shown: int
) -> list[Table | Details | Paragraph]:
    """Return a table of arms, the rest of it folded, and how many are not there at all."""
    if not arms.size:
        return []
    blocks: list[Table | Details | Paragraph] = [_table(result, arms[:shown], last, caption)]
    hidden = arms[shown : shown + FOLDED]
    if hidden.size:
        blocks.append(Details(f"{hidden.size:,} more", [_table(result, hidden, last, "")]))
    left = int(arms.size) - shown - FOLDED
    if left > 0:
        blocks.append(Paragraph(f"... and {counted(left, 'other')}: `to_frame()` has all."))
    return blocks


def _table(result: Result, arms: IntArray, last: str, caption: str) -> Table:
    header = ["label", "mean", "interval", last, "samples"]
    style = number_style(result.question)
    rows: list[list[Any]] = []
    for row in result.rows(arms):
        mean, interval, samples = figures(row, style)
        label = Literal(visible(row["label"], MOST_CHARACTERS))
        rows.append([label, mean, interval, cell(row, last), samples])
    numbers = (1, 2, 3, 4) if last == "odds" else (1, 2, 4)
    return Table(header, rows, caption, numbers, named_rows=True)
