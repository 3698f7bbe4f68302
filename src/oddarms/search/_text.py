"""A result in words, for a terminal: what Python prints is what the shell prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from oddarms.algorithms import Algorithm, get_algorithm
from oddarms.problem import Question
from oddarms.search._tickets import Status
from oddarms.text import counted, table

if TYPE_CHECKING:
    from oddarms.search._result import Result

MOST_SHOWN = 20
WIDTH = 79
LARGEST_ODDS = 1e100
MOST_OF_A_LINE = 20
"""Characters of what a threshold is made of, before its value."""


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
        parts.append(f"status: {status_text(result.status)}\n{_still_needed(result)}")
    undecided = [row for row in rows if row["decision"] == "undecided"]
    if undecided and not every:
        parts.append("\nundecided, the most suspicious first; guesses are not proven:\n")
        parts.append(_arms(sorted(undecided, key=_innocence), style, "guess"))
    return "".join(parts)


def headline(result: Result) -> str:
    """Return the first lines: the answer, what it is worth, and what it means."""
    question = result.question
    odd, n, undecided = len(result.outliers), question.n, len(result.undecided)
    sure = guarantee(question)
    if not result.complete:
        best = best_guess(result) if question.goal == "budget" else ""
        known = "is known to be an outlier" if odd == 1 else "are known to be outliers"
        still = "is undecided" if undecided == 1 else "are undecided"
        text = f"{odd:,} of {n:,} arms {known}{nearly(question)}, {undecided:,} {still}\n"
        text += f"what is decided: {sure}\n" if undecided < n else ""
        return best + (text if odd else text + farthest_text(result))
    if odd:
        text = f"{odd:,} of {n:,} arms {'is an outlier' if odd == 1 else 'are outliers'}"
        return with_guarantee(f"{text}{nearly(question)}", sure)
    text = with_guarantee(f"nothing stands out among {n:,} arms{nearly(question)}", sure)
    if not result.pulls and not result.imported:
        return text + f"no sample was needed: among {n:,} arms none can be {question.k:g} sd out\n"
    return text + farthest_text(result)


def with_guarantee(text: str, sure: str) -> str:
    """Return an answer and what it is worth, on one line if there is room."""
    room = len(text) + len(sure) + 3 <= WIDTH
    return f"{text} ({sure})\n" if room else f"{text}\n({sure})\n"


def best_guess(result: Result) -> str:
    """Return the guess about all arms, and the doubt about it, as two lines."""
    odd, n = len(result.guess), result.question.n
    return (
        f"best guess: {odd:,} of {n:,} arms {'is an outlier' if odd == 1 else 'are outliers'}\n"
        f"something in it is wrong with probability at most about {result.doubt:.2g}\n"
        "(not proven)\n"
    )


def is_proven(question: Question) -> bool:
    """Return whether a theorem bounds the error of the question's algorithm."""
    algorithm = question.algorithm
    cls: type[Algorithm] = get_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    return cls.proven


def guarantee(question: Question) -> str:
    """Return what an answer is worth."""
    delta = question.risk
    if not is_proven(question):
        return f"in simulations wrong at most {100.0 * delta:g} % of the time; not proven"
    if question.error == "fdr":
        return f"on average at most {50.0 * delta:g} % of the names on either side are wrong"
    sure = f"right with probability at least {1.0 - delta:g}"
    return f"{sure}, as margin or floor were changed" if question.revised else sure


def nearly(question: Question) -> str:
    """Return what an indifference makes of the answer."""
    if question.indifference == 0.0:
        return ""
    return f", give or take {question.indifference:g} at the threshold"


def farthest_text(result: Result) -> str:
    """Return how far out any arm can be at most, as a line; nothing where little is known."""
    style, (a, b) = _number_style(result.question), result.question.bounds
    words = {"upper": "above", "lower": "below"}
    known = {side: far for side, far in result.farthest.items() if far < 0.75 * (b - a)}
    parts = [f"more than {_number(far, style)} {words[side]}" for side, far in known.items()]
    whose = result.question.centre_phrase
    return f"no mean is {' or '.join(parts)} {whose}\n" if parts else ""


def status_text(status: Status) -> str:
    """Return a status and what it means."""
    running = status is Status.RUNNING
    return f"{status}: {'more samples are needed' if running else status.meaning}"


def threshold_lines(result: Result) -> list[str]:
    """Return a line for each threshold, or two."""
    style = _number_style(result.question)
    lines = []
    for side, (estimate, lower, upper) in result.thresholds.items():
        what, made_of = f"{side} threshold", result.question.threshold_text(side)
        if all(map(math.isfinite, (estimate, lower, upper))):
            ends = f"[{_number(lower, style)}, {_number(upper, style)}]"
            known = f"{_number(estimate, style)}, within {ends}"
        elif result.pulls or result.imported:
            known = "not known yet"
        else:
            continue
        short = len(made_of) <= MOST_OF_A_LINE
        lines += [f"{what}, {made_of}: {known}"] if short else [f"{what}: {known}", f"  {made_of}"]
    return lines


def cost(result: Result) -> str:
    """Return how many samples there are: made or imported, not used, and beyond the budget."""
    parts = [f"{result.pulls + result.imported:,}{imported_text(result)}"]
    if result.unused:
        parts.append(f"{result.unused:,} not used{'' if result.status.final else ' yet'}")
    if result.beyond:
        parts.append(f"{result.beyond:,} late ones beyond the budget, not used")
    return ", and ".join(parts)


def imported_text(result: Result) -> str:
    """Return how many of the samples were there before, to be put after their number."""
    if not result.imported:
        return ""
    return f", {result.imported:,} of them imported" if result.pulls else ", all of them imported"


def _still_needed(result: Result) -> str:
    """Return about how many more samples would decide the rest, as a line."""
    if result.all_alike:
        return "all arms look alike, so this would not end; a margin would end it\n"
    if result.pulls_needed is None or not math.isfinite(needed := float(result.pulls_needed.sum())):
        return ""
    return f"still needed: about {needed:,.0f} samples, at the present estimates\n"


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
    right = ["mean", "samples", *([last] if last == "odds" else [])]
    text = table(header, body, right=right, wrap="label")
    hidden = len(rows) - most
    return text + (f"... and {counted(hidden, 'other')}\n" if hidden > 0 else "")


def _cell(row: dict[str, Any], column: str) -> str:
    if column == "odds":
        return _odds(row["odds"])
    if column == "guess":
        if row["guess"] in (None, "undecided") or row["doubt"] is None:
            return "?"
        named = "normal" if row["guess"] == "normal" else "outlier"
        doubt = "<1%" if row["doubt"] < 0.01 else f"{row['doubt']:.0%}"
        return f"{named}, doubt {doubt}"
    return str(row["decision"])


def _innocence(row: dict[str, Any]) -> float:
    """Return what undecided arms are sorted by: about the probability that they are normal."""
    if row["guess"] is None or row["doubt"] is None:
        return 0.5
    return float(1.0 - row["doubt"] if row["guess"] == "normal" else row["doubt"])


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
