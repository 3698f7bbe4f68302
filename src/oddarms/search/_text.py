"""A result in words, for a terminal: what Python prints is what the shell prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oddarms.problem import Question
from oddarms.search._tickets import Status
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
    style = _number_style(result.question)
    odd = [row for row in rows if row["decision"] in ("high", "low")]
    parts = [headline(result)]
    if every:
        parts.append(_arms(rows, style, "decision", most=len(rows)))
    elif odd:
        parts.append(_arms(sorted(odd, key=lambda row: -(row["mean"] or 0.0)), style, "odds"))
    parts += [f"{line}\n" for line in threshold_lines(result)]
    parts.append(f"samples: {cost(result)}\n{_comparison(result)}")
    if not result.complete:
        parts.append(f"status: {status_text(result.status)}\n")
    undecided = [row for row in rows if row["decision"] == "undecided"]
    if undecided and not every:
        parts.append("\nundecided, and about how many more samples each needs:\n")
        parts.append(_arms(sorted(undecided, key=_needs), style, "needs"))
    return "".join(parts)


def headline(result: Result) -> str:
    """Return the first line or two: the answer and what it is worth."""
    question = result.question
    odd, n, undecided = len(result.outliers), question.n, len(result.undecided)
    sure = f"right with probability at least {1.0 - question.delta:g}"
    if question.indifference > 0.0:
        sure += f",\narms within {question.indifference:g} of the threshold either way"
    if not result.complete:
        known = "is known to be an outlier" if odd == 1 else "are known to be outliers"
        still = "is undecided" if undecided == 1 else "are undecided"
        text = f"{odd:,} of {n:,} arms {known}, {undecided:,} {still}\n"
        return text + (f"what is decided is {sure}\n" if undecided < n else "")
    text = f"{odd:,} of {n:,} arms {'is an outlier' if odd == 1 else 'are outliers'} ({sure})\n"
    if not result.pulls and not result.imported:
        text += f"no sample was needed: among {n:,} arms none can be {question.k:g} sd out\n"
    return text


def status_text(status: Status) -> str:
    """Return a status and what it means."""
    running = status is Status.RUNNING
    return f"{status}: {'more samples are needed' if running else status.meaning}"


def threshold_lines(result: Result) -> list[str]:
    """Return a line for each threshold."""
    style = _number_style(result.question)
    lines = []
    for side, (estimate, lower, upper) in result.thresholds.items():
        what = f"{side} threshold, {result.question.threshold_text(side)}"
        if all(map(math.isfinite, (estimate, lower, upper))):
            ends = f"[{_number(lower, style)}, {_number(upper, style)}]"
            lines.append(f"{what}: {_number(estimate, style)}, within {ends}")
        elif result.pulls or result.imported:
            lines.append(f"{what}: not known yet")
    return lines


def cost(result: Result) -> str:
    """Return how many samples there are: made, imported, not used, and beyond the budget."""
    parts = [f"{result.pulls:,}"]
    if result.imported:
        parts.append(f"{result.imported:,} imported")
    if result.unused:
        parts.append(f"{result.unused:,} not used{'' if result.status.final else ' yet'}")
    if result.beyond:
        parts.append(f"{result.beyond:,} late ones beyond the budget, not used")
    return ", and ".join(parts)


def _comparison(result: Result) -> str:
    """Return a line about sampling all equally, where there is something to compare with."""
    equal, samples = result.equal_sampling, result.pulls + result.imported
    if equal is None or not samples:
        return ""
    text = f"sampling all equally at this guarantee (RR): about {equal:,}"
    return text + (f", {equal / samples:,.0f} times as many\n" if equal >= 2 * samples else "\n")


def _arms(rows: list[dict[str, Any]], style: str, last: str, most: int = MOST_SHOWN) -> str:
    body = [
        (
            row["label"],
            _number(row["mean"], style),
            f"[{_number(row['lower'], style)}, {_number(row['upper'], style)}]",
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
    if column == "needs":
        needed = row["pulls_needed"]
        return "?" if needed is None else f"{needed:,.0f}"
    return str(row["decision"])


def _needs(row: dict[str, Any]) -> float:
    """Return what undecided arms are sorted by: those about which nothing is known come last."""
    needed = row["pulls_needed"]
    return math.inf if needed is None else float(needed)


def _number_style(question: Question) -> str:
    """Return how to print a reward: to a ten thousandth of the rewards' range."""
    a, b = question.bounds
    digits = 4 - math.floor(math.log10(b - a))
    return f"z.{max(digits, 0)}f" if -3 <= digits <= 9 else ".5g"


def _number(value: float | None, style: str) -> str:
    return "?" if value is None else f"{value:{style}}"


def _odds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1e6:
        return f"{value:,.0f}:1"
    return f"{value:.0e}:1".replace("e+", "e") if value < LARGEST_ODDS else "over 1e100:1"
