"""A result in words, for a terminal: what Python prints is what the shell prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oddarms.problem import Question
from oddarms.text import counted, table

if TYPE_CHECKING:
    from oddarms.search._result import Result

MOST_SHOWN = 20
LARGEST_ODDS = 1e100


def answer(result: Result, *, every: bool = False) -> str:
    """Return the answer: how many outliers, which, the threshold, the cost, what is open.

    Parameters
    ----------
    result
        The result.
    every
        Whether to list all arms, not only the first outliers and undecided ones.
    """
    rows = result.rows()
    odd = [row for row in rows if row["decision"] in ("high", "low")]
    parts = [headline(result)]
    if every:
        parts.append(_arms(rows, "decision", most=len(rows)))
    elif odd:
        parts.append(_arms(sorted(odd, key=lambda row: -(row["mean"] or 0.0)), "odds"))
    parts += [f"{line}\n" for line in threshold_lines(result)]
    parts.append(_cost(result))
    undecided = [row for row in rows if row["decision"] == "undecided"]
    if undecided and not every:
        parts.append(
            f"\nundecided: {len(undecided):,} ({result.status.meaning}); about how many more"
            " samples each needs:\n"
        )
        parts.append(_arms(sorted(undecided, key=lambda row: row["pulls_needed"] or 0), "needs"))
    return "".join(parts)


def headline(result: Result) -> str:
    """Return the first line or two: the answer and what it is worth."""
    question = result.question
    odd, n = len(result.outliers), question.n
    sure = f"right with probability at least {1.0 - question.delta:g}"
    if not result.complete:
        known = "is known to be an outlier" if odd == 1 else "are known to be outliers"
        return f"{odd:,} of {n:,} arms {known}, {len(result.undecided):,} undecided ({sure})\n"
    text = f"{odd:,} of {n:,} arms {'is an outlier' if odd == 1 else 'are outliers'} ({sure})\n"
    if not result.pulls and not result.imported:
        text += f"no sample was needed: among {n:,} arms none can be {question.k:g} sd out\n"
    return text


def threshold_lines(result: Result) -> list[str]:
    """Return a line for each threshold."""
    digits = _digits(result.question)
    lines = []
    for side, (estimate, lower, upper) in result.thresholds.items():
        k = result.question.k if side == "upper" else -result.question.k
        what = f"{side} threshold, mean {'-' if k < 0 else '+'} {abs(k):g} sd"
        if all(map(math.isfinite, (estimate, lower, upper))):
            ends = f"[{lower:{digits}}, {upper:{digits}}]"
            lines.append(f"{what}: {estimate:{digits}}, within {ends}")
        elif result.pulls or result.imported:
            lines.append(f"{what}: not known yet")
    return lines


def _cost(result: Result) -> str:
    text = f"samples: {result.pulls:,}"
    if result.imported:
        text += f", and {result.imported:,} imported"
    if result.unused:
        text += f", and {result.unused:,} not used{'' if result.complete else ' yet'}"
    equal = result.equal_sampling
    if equal is not None and result.pulls + result.imported:
        times = equal / (result.pulls + result.imported)
        text += f"\nsampling all equally at this guarantee (RR): about {equal:,}"
        text += f", {times:,.0f} times as many" if times >= 2.0 else ""
    return text + "\n"


def _arms(rows: list[dict[str, Any]], last: str, most: int = MOST_SHOWN) -> str:
    body = [
        (
            row["label"],
            _short(row["mean"]),
            f"[{_short(row['lower'])}, {_short(row['upper'])}]",
            _cell(row, last),
            f"{row['pulls'] + row['imported']:,}",
        )
        for row in rows[:most]
    ]
    header = ["label", "mean", "interval", last, "samples"]
    right = ["mean", "samples", *([last] if last != "decision" else [])]
    text = table(header, body, right=right, shorten="label")
    hidden = len(rows) - most
    return text + (f"... and {counted(hidden, 'other')}\n" if hidden > 0 else "")


def _cell(row: dict[str, Any], column: str) -> str:
    if column == "odds":
        return _odds(row["odds"])
    return _count(row["pulls_needed"]) if column == "needs" else str(row["decision"])


def _digits(question: Question) -> str:
    """Return how to print a threshold: to a ten thousandth of the rewards' range."""
    a, b = question.bounds
    digits = 4 - math.floor(math.log10(b - a))
    return f".{max(digits, 0)}f" if -3 <= digits <= 9 else ".5g"


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _odds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1e6:
        return f"{value:,.0f}:1"
    return f"{value:.0e}:1".replace("e+", "e") if value < LARGEST_ODDS else "over 1e100:1"
