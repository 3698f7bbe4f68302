"""The one answer: what a result says, as blocks that are written as text, Markdown or HTML.

What Python prints, what the command line prints, the summary of a CI job, a notebook and the
report all show these blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oddarms.algorithms import Algorithm, Decision, get_algorithm
from oddarms.documents import (
    Block,
    Details,
    Facts,
    Heading,
    Literal,
    Paragraph,
    Table,
    to_fragment,
    to_markdown,
    to_text,
)
from oddarms.problem import UNIT, IntArray, Question
from oddarms.search._tickets import Status
from oddarms.text import about, counted

if TYPE_CHECKING:
    from oddarms.search._result import Result

SHOWN, FOLDED = 20, 500
"""Rows of a table that are shown at once, and those that are folded."""
MAX_LABEL = 400
"""Characters of a label; tables wrap it."""
LARGEST_ODDS = 1e6
ROUGH = 3.0
"""By what factor an estimate of the samples to come may well be off (docs/reference/answer.md)."""
UNDECIDED = "Undecided, the most suspicious first; guesses are not proven"


@dataclass(frozen=True)
class Subject:
    """What the items and their samples are called in an answer.

    `odd`, `odd_ones` and `guess` say that one is abnormal, that several are, and in a table that
    one seems so; `label` and `mean` are heads of columns; `rate` is a mean in a sentence. With
    `shares`, means of samples that are 0 or 1 are shown in percent; `counts` says what such a
    sample means.
    """

    thing: str = "arm"
    sample: str = "sample"
    odd: str = "an outlier"
    odd_ones: str = "outliers"
    guess: str = "outlier"
    label: str = "label"
    mean: str = "mean"
    rate: str = "mean"
    shares: bool = False
    counts: str = ""

    @property
    def things(self) -> str:
        return f"{self.thing}s"

    @property
    def a_thing(self) -> str:
        return f"{'an' if self.thing[0] in 'aeiou' else 'a'} {self.thing}"

    @property
    def rates(self) -> str:
        return f"{self.rate}s"

    @property
    def samples(self) -> str:
        return f"{self.sample}s"

    def are_odd(self, count: int, *, known: bool = False) -> str:
        """Return such as "is an outlier" or "are known to be abnormally flaky"."""
        to_be = " known to be" if known else ""
        return f"is{to_be} {self.odd}" if count == 1 else f"are{to_be} {self.odd_ones}"


ARMS = Subject()
"""Things of any kind."""
TESTS = Subject(
    thing="test",
    sample="run",
    odd="abnormally flaky",
    odd_ones="abnormally flaky",
    guess="flaky",
    label="test",
    mean="fails",
    rate="failure rate",
    shares=True,
    counts="1 if it failed, else 0",
)
"""Tests of a suite, whose samples are runs."""


@dataclass(frozen=True)
class LeftOut:
    """Items that are not compared: what they are, and each with why, which may be empty."""

    title: str
    items: Sequence[tuple[str, str]]


def answer(
    result: Result,
    *,
    subject: Subject = ARMS,
    every: bool = False,
    details: Mapping[Any, str] | None = None,
    left_out: Sequence[LeftOut] = (),
    notes: Sequence[str] = (),
    shown: int = SHOWN,
    before: Sequence[Block] = (),
) -> list[Block]:
    """Return the answer: how many outliers, which, the threshold, the cost, what is open.

    Parameters
    ----------
    result, subject
        The result, complete or not, and what the arms are.
    every
        Whether to list the normal arms, too.
    details, left_out
        More about some of the arms, such as how a test failed last, and what is not compared.
    notes, before
        Further lines, and what comes before the answer.
    shown
        Rows of a table that are not folded.
    """
    first, *more = headline(result, subject)
    tables = _Tables(result, subject, details or {}, shown)
    blocks: list[Block] = [*before, Heading(first, 3), *map(Paragraph, more)]
    odds = () if result.question.algorithm == "analyze" else ("odds",)
    blocks += tables.of(outliers_of(result), odds)
    blocks.append(Facts(facts(result, subject)))
    blocks += _left_out(left_out)
    columns = ("guess",) if result.pulls_needed is None else ("guess", "needed")
    blocks += tables.of(result.suspects, columns, UNDECIDED)
    if every:
        normal = np.flatnonzero(result.decisions == Decision.NORMAL)
        order = np.argsort(-np.nan_to_num(result.means[normal]), kind="stable")
        blocks += tables.of(normal[order], odds, "Normal")
    return [*blocks, *(Paragraph(Literal(note)) for note in (*result.notes, *notes))]


def as_text(result: Result, **options: Any) -> str:
    """Return the answer for a terminal; the options are those of `answer`."""
    return to_text(answer(result, **options))


def as_markdown(result: Result, **options: Any) -> str:
    """Return the answer as Markdown, for the summary of a CI job; options as for `answer`."""
    return to_markdown(answer(result, **options))


def as_html(result: Result, **options: Any) -> str:
    """Return the answer as a piece of HTML, for a notebook; options as for `answer`."""
    return to_fragment(answer(result, **{"shown": 10, **options}))


def outliers_of(result: Result) -> IntArray:
    """Return the numbers of the outliers, the highest mean first."""
    arms = np.flatnonzero(result.decisions >= Decision.HIGH)
    return arms[np.argsort(-np.nan_to_num(result.means[arms]), kind="stable")]


def _left_out(groups: Sequence[LeftOut]) -> list[Block]:
    blocks: list[Block] = []
    for group in groups:
        rows = [
            [Literal(label), Literal(why) if why else ""] for label, why in group.items[:FOLDED]
        ]
        if rows:
            blocks.append(Table(["item", "why"], rows, group.title, named_rows=True))
        if len(group.items) > FOLDED:
            blocks.append(Paragraph(f"... and {counted(len(group.items) - FOLDED, 'other')}"))
    return blocks


# Sentences


def headline(result: Result, subject: Subject = ARMS) -> list[str]:
    """Return the first sentences: the answer, what it is worth, and what it means."""
    question = result.question
    odd, open_arms, n = len(result.outliers), len(result.undecided), question.n
    near = nearly(question)
    if not result.complete:
        lines = []
        if question.goal == "budget":
            best = len(result.guess)
            guess = f"{best:,} of {n:,} {subject.things} {subject.are_odd(best)}"
            lines.append(f"best guess: {guess} (not proven)")
        known = f"{odd:,} of {n:,} {subject.things} {subject.are_odd(odd, known=True)}{near}"
        lines.append(f"{known}, {open_arms:,} {'is' if open_arms == 1 else 'are'} undecided")
        if open_arms < n:
            lines.append(f"what is decided: {guarantee(question)}")
        return lines if odd else [*lines, *farthest(result, subject)]
    sure = guarantee(question)
    if odd:
        return [f"{odd:,} of {n:,} {subject.things} {subject.are_odd(odd)}{near} ({sure})"]
    first = f"nothing stands out among {n:,} {subject.things}{near} ({sure})"
    if (result.means == question.worst).all() and subject is not TESTS:
        worst = number(question.worst, number_style(question, subject))
        return [first, f"every {subject.sample} was {worst}, the most abnormal: is that right?"]
    if question.can_have_outliers or n >= 1.0 + question.k**2:
        return [first, *farthest(result, subject)]
    none = f"none of {n:,} {subject.things} can be {question.k:g} sd from the mean"
    return [first, f"{none}, whatever the {subject.sample}s: choose a smaller k"]


def is_proven(question: Question) -> bool:
    """Return whether a theorem bounds the error of the question's algorithm."""
    algorithm = question.algorithm
    if algorithm == "analyze":
        return question.options.get("method") == "proven"
    cls: type[Algorithm] = get_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    return cls.proven


def guarantee(question: Question) -> str:
    """Return what an answer is worth."""
    delta, options = question.delta, question.options
    if options.get("finite_population"):
        return "certain, as the rows are all there is"
    if not is_proven(question):
        return f"in simulations wrong at most {100.0 * delta:g} % of the time; not proven"
    if question.error == "fdr":
        return f"on average at most {100.0 * delta:g} % of the decisions on either side are wrong"
    looks = f", all {options['looks']:,} looks together" if "looks" in options else ""
    return f"right with probability at least {1.0 - delta:g}{looks}"


def nearly(question: Question) -> str:
    """Return what an indifference makes of the answer."""
    if question.indifference == 0.0:
        return ""
    return f", give or take {question.indifference:g} at the threshold"


def farthest(result: Result, subject: Subject = ARMS) -> list[str]:
    """Return how far out any arm can be at most; nothing where little is known."""
    style, (a, b) = number_style(result.question, subject), result.question.bounds
    words = {"upper": "above", "lower": "below"}
    parts = [
        f"more than {number(far, style)} {words[side]}"
        for side, far in result.farthest.items()
        if far < 0.75 * (b - a)
    ]
    whose = result.question.centre_phrase
    return [f"no {subject.rate} is {' or '.join(parts)} {whose}"] if parts else []


def facts(result: Result, subject: Subject = ARMS) -> list[tuple[str, str]]:
    """Return the threshold, the cost and what is open, as names and values."""
    question, style = result.question, number_style(result.question, subject)
    found = []
    for side, (estimate, lower, upper) in result.thresholds.items():
        text = question.threshold_text(side)
        if all(map(math.isfinite, (estimate, lower, upper))):
            ends = f"between {number(lower, style)} and {number(upper, style)}"
            text = f"about {number(estimate, style)}, {ends} ({text})"
        found.append((f"{side} threshold", text))
    found.append((subject.samples, cost(result)))
    if not result.complete:
        found.append(("status", status_text(result.status, subject)))
        needed = still_needed(result, subject)
        found += [("still needed", needed)] if needed else []
    return found


def status_text(status: Status, subject: Subject = ARMS) -> str:
    """Return a status and what it means."""
    running = status is Status.RUNNING
    return f"{status}: {f'more {subject.samples} are needed' if running else status.meaning}"


def cost(result: Result) -> str:
    """Return how many samples there are, and how many of them are not used."""
    text = f"{result.pulls + result.history:,}"
    if result.history:
        text += (
            f", {result.history:,} of them recorded before" if result.pulls else ", all recorded"
        )
    if result.unused:
        text += f", {result.unused:,} not used{'' if result.status.final else ' yet'}"
    return text


def still_needed(result: Result, subject: Subject = ARMS) -> str:
    """Return about how many more samples would decide the rest; nothing if unknown."""
    question = result.question
    if not question.can_have_outliers:
        return (
            f"unknown: none of {question.n:,} {subject.things} can be more than {question.k:g} sd"
            " from the mean, only exactly as far, so this may not end; choose a smaller k"
        )
    if result.all_alike:
        return f"all {subject.things} look alike; without a margin the search does not end"
    if result.pulls_needed is None:
        return ""
    known = result.pulls_needed[np.isfinite(result.pulls_needed)]
    near = result.pulls_needed.size - known.size
    parts = [f"unknown for {near:,} that may lie on the threshold"] if near else []
    if known.any():
        needed, most = rough(float(known.sum()), subject.samples), about(float(known.max()))
        parts.insert(0, f"{needed}, about {most} of one {subject.thing} at most")
    return "; ".join(parts)


def rough(needed: float, samples: str) -> str:
    """Return such as "about 390 runs (a rough guess: 130 to 1,200)"."""
    low, high = about(needed / ROUGH), about(needed * ROUGH)
    return f"about {about(needed)} {samples} (a rough guess: {low} to {high})"


# Tables of arms


class _Tables:
    """Tables of arms in the words of their subject."""

    def __init__(
        self, result: Result, subject: Subject, details: Mapping[Any, str], shown: int
    ) -> None:
        self.result, self.subject, self.details, self.shown = result, subject, details, shown
        self.style = number_style(result.question, subject)

    def of(self, arms: IntArray, columns: Sequence[str], caption: str = "") -> list[Block]:
        """Return a table of arms, further ones folded, and how many are not listed at all."""
        if not arms.size:
            return []
        blocks: list[Block] = [self._table(arms[: self.shown], columns, caption)]
        folded = arms[self.shown : self.shown + FOLDED]
        if folded.size:
            other = counted(int(arms.size) - self.shown, "other")
            blocks.append(Details(other, [self._table(folded, columns, "")]))
        return blocks

    def _table(self, arms: IntArray, columns: Sequence[str], caption: str) -> Table:
        subject, rows = self.subject, self.result.rows(arms)
        details = [self.details.get(row["label"], "") for row in rows]
        header = [subject.label, subject.mean, "interval", *columns, subject.samples]
        body = [self._cells(row, columns) for row in rows]
        numbers = [i for i, name in enumerate(header) if i and name != "guess"]
        if any(details):
            header.append("last failure")
            for cells, detail in zip(body, details, strict=True):
                cells.append(Literal(detail) if detail else "")
        return Table(header, body, caption, numbers, named_rows=True)

    def _cells(self, row: dict[str, Any], columns: Sequence[str]) -> list[str]:
        lower, upper = number(row["lower"], self.style), number(row["upper"], self.style)
        return [
            Literal(_shortened(str(row["label"]))),
            number(row["mean"], self.style),
            f"[{lower}, {upper}]",
            *(cell(row, column, self.subject) for column in columns),
            f"{row['pulls'] + row['history']:,}",
        ]


def _shortened(label: str) -> str:
    if len(label) <= MAX_LABEL:
        return label
    end = MAX_LABEL // 3
    return f"{label[: MAX_LABEL - end - 1]}…{label[len(label) - end :]}"


def cell(row: dict[str, Any], column: str, subject: Subject = ARMS) -> str:
    """Return what a column says of an arm: its odds, guess or need of samples."""
    if column == "odds":
        return odds_text(row["odds"])
    if column == "needed":
        needed = row["pulls_needed"]
        return "on the threshold?" if needed is None else about(needed)
    if row["guess"] in (None, "undecided") or row["mean"] is None:
        return "?"
    return "normal" if row["guess"] == "normal" else subject.guess


def number_style(question: Question, subject: Subject = ARMS) -> str:
    """Return how to print a reward: to a ten thousandth of the rewards' range, or in percent."""
    if subject.shares and question.bounds == UNIT:
        return ".1%"
    a, b = question.bounds
    digits = 4 - math.floor(math.log10(b - a))
    return f"z,.{max(digits, 0)}f" if -3 <= digits <= 9 else ".5g"


def number(value: float | None, style: str) -> str:
    """Return a reward as text; a question mark if it is not known."""
    return "?" if value is None or math.isnan(value) else f"{value:{style}}"


def odds_text(odds: float | None) -> str:
    """Return odds against one, cut off where more mean nothing."""
    if odds is None or math.isnan(odds):
        return "-"
    if odds > LARGEST_ODDS:
        return f"over {LARGEST_ODDS:,.0f}:1"
    return f"{odds:,.0f}:1" if odds >= 1.0 else "none"
