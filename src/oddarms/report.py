"""A result as files: ``report.html`` to read, ``result.json`` and ``arms.csv`` for programs.

The page is self-contained, works offline and on a phone, can be printed, and says in words what
its pictures show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.documents import (
    Block,
    Details,
    Heading,
    Literal,
    Paragraph,
    Picture,
    Table,
    to_html,
    visible,
)
from oddarms.files import writable_folder, write_whole
from oddarms.plotting import file_content, plot_evidence, plot_intervals, plot_pulls
from oddarms.search import ARMS, Result, Subject, answer, is_proven, number, number_style
from oddarms.statistics.binomial import clopper_pearson
from oddarms.tables import csv_text
from oddarms.text import counted

MAX_ROWS = 2_000
"""Rows of the table of all arms; with more arms the page points to arms.csv."""
MAX_LABEL = 400
"""Characters of a label."""
MAX_LISTED = 50
"""Tests of a table that are not folded."""
TAIL = 0.025
"""Of the interval of a test's failure rate, on either side."""
NARROW = (4.2, 4.8)
"""Size of a picture for a phone, in inches."""

_GUARANTEE = (
    "**What the guarantee means.** If the whole search were repeated with new {samples}, then in at"
    " least {sure} of the repetitions no {thing} at all would be called {odd} or normal wrongly,"
    " and every interval on this page would contain its true value."
)
_FDR = (
    "**What the guarantee means.** If the whole search were repeated with new {samples}, then on"
    " average at most {delta} of the {things} called {odd_ones} would be normal, and at most as"
    " large a share of those called normal would be {odd_ones}. Single decisions may be wrong."
)
_CALIBRATED = (
    "**What the answer is worth.** It is not proven. It rests on a large-sample approximation"
    " that was calibrated by simulation: on the families of arms that were tried, at most about"
    " {delta} of the searches were wrong."
)
_ASSUMPTIONS = (
    "**What it assumes.** {Samples} are independent; each lies between {low:g} and {high:g}; and"
    " the {rate} of {a_thing} stays the same during the search. If {things} drift, or fail together"
    " for a common reason, the guarantee does not hold."
)
_OVERLAP = (
    "The interval of a decided {thing} may overlap that of the threshold: a decision rests on the"
    " evidence about both together."
)
_INTERVALS = (
    "Each {thing}'s {rate} (marker) with its interval (line), from the lowest to the highest. The"
    " yellow band is the interval of the threshold, the line its estimate."
)
_PULLS = (
    "How often each {thing} was sampled, in the same order. Those near the threshold cost most."
)
_EVIDENCE = (
    "From left to right, the {samples} so far, on a logarithmic scale. Top: how many {things} were"
    " undecided. Below: the interval of the threshold and, for algorithms that have it, the"
    " evidence; {a_thing} is decided once its evidence passes the dotted line."
)


@dataclass(frozen=True)
class Row:
    """What is known of a test: of flaky ones, what every form of an answer says first.

    Attributes
    ----------
    test, kind
        Its name, and what it is: "flaky", "broken", "clean", "undecided" or "skipped".
    abnormal
        Whether it is proven to stand out.
    runs, failures
        The runs that count, and how many of them failed.
    last, hints
        How it failed last, or why it is skipped; and what may be the cause.
    seconds
        That a run takes.
    """

    test: str
    kind: str
    runs: int
    failures: int
    last: str = ""
    hints: tuple[str, ...] = ()
    seconds: float = 0.0
    abnormal: bool = False

    @property
    def rate(self) -> float:
        """The share of runs that failed."""
        return self.failures / self.runs if self.runs else 0.0

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the failure rate, wrong with probability at most 5 %."""
        low, high = clopper_pearson(np.array([self.failures]), np.array([self.runs]), TAIL)
        return float(low[0]), float(high[0])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        ends = dict(zip(("lower", "upper"), self.interval, strict=True))
        return {**asdict(self), "kind": str(self.kind), "rate": self.rate, **ends}


def table_of_tests(rows: Sequence[Row], caption: str, most: int = MAX_LISTED) -> list[Block]:
    """Return tests with failure rate, interval, failures/runs and last failure.

    Those after the first `most` are folded.
    """
    if not rows:
        return []
    header = ["test", "fails", "interval", "failures/runs", "last failure", "note"]
    cells = [
        [
            Literal(row.test),
            f"{100.0 * row.rate:.1f} %" if row.runs else "–",
            "{:.1f} to {:.1f} %".format(*(100.0 * end for end in row.interval)),
            f"{row.failures:,}/{row.runs:,}",
            Literal(visible(row.last)) if row.last else "",
            "; ".join(["abnormal"] * row.abnormal + list(row.hints)),
        ]
        for row in rows
    ]
    columns = len(header) - (not any(row[-1] for row in cells))

    def table(cells: Sequence[Sequence[str]], caption: str) -> Table:
        body, below = [row[:columns] for row in cells], range(4, columns)
        return Table(header[:columns], body, caption, (1, 2, 3), named_rows=True, below=below)

    found: list[Block] = [table(cells[:most], caption)]
    if len(rows) > most:
        rest = table(cells[most : 10 * MAX_LISTED], "")
        found.append(Details(counted(len(rows) - most, "other"), [rest]))
    return found


def write_results(result: Result, folder: str | Path, *, flaky: Sequence[Row] = ()) -> list[Path]:
    """Write ``result.json`` and ``arms.csv`` into a folder; return both paths.

    Parameters
    ----------
    result
        The result.
    folder
        Created if it is missing.
    flaky
        Tests that are known to be flaky without statistics, for ``result.json``.
    """
    place = writable_folder("folder", folder)
    return [
        write_whole(place / "result.json", result_json(result, flaky)),
        _write_arms(result, place),
    ]


def _write_arms(result: Result, folder: Path) -> Path:
    text = arms_csv(result, raw=False)
    return write_whole(folder / "arms.csv", text.encode("utf-8", "backslashreplace"))


def result_json(result: Result, flaky: Sequence[Row] = ()) -> str:
    """Return `Result.to_dict` as text, and the tests that are known to be flaky."""
    document = result.to_dict()
    if flaky:
        document["flaky"] = [row.to_dict() for row in flaky]
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def arms_csv(result: Result, *, raw: bool = True) -> str:
    """Return what is known of each arm as CSV.

    With ``raw=False`` a label that a spreadsheet would run as a formula gets an apostrophe.
    """
    rows = result.rows()
    cells = (list(row.values()) for row in rows)
    return csv_text(list(rows[0]), cells, for_spreadsheets=not raw)


def write_report(
    result: Result,
    folder: str | Path,
    *,
    title: str | None = None,
    notes: Sequence[str] = (),
    subject: Subject = ARMS,
    first: Sequence[Block] = (),
) -> Path:
    """Write ``report.html``, one self-contained page about a result; return its path.

    With too many arms for the page, ``arms.csv`` is written beside it.

    Parameters
    ----------
    result
        The result, complete or not.
    folder
        Created if it is missing.
    title
        The page's title; by default the question.
    notes
        Paragraphs to add, such as where the samples come from.
    subject
        What the arms are, for the words of the page.
    first
        What the page says before the answer.
    """
    place = writable_folder("folder", folder)
    if title is None:
        asked = "abnormal" if subject is ARMS else subject.odd_ones
        title = f"Which of {result.question.n:,} {subject.things} are {asked}?"
    blocks: list[Block] = [
        Heading(Literal(visible(title)), 1),
        Paragraph(Literal(visible(result.question.sentence()))),
        *_for_page(first, ""),
        *_for_page(answer(result, subject=subject, notes=notes), subject.odd_ones.capitalize()),
        *_pictures(result, subject),
        Heading("How to read this"),
        *map(Paragraph, _explanations(result, subject)),
        *_all_arms(result, subject),
    ]
    if result.question.n > MAX_ROWS:
        _write_arms(result, place)
    content = to_html(visible(title), blocks, place).encode("utf-8", "replace")
    return write_whole(place / "report.html", content)


def _for_page(blocks: Sequence[Block], caption: str) -> list[Block]:
    """Return the blocks of an answer below a title: one level up, and captions for all tables."""
    found: list[Block] = []
    for block in blocks:
        if isinstance(block, Heading):
            block = replace(block, level=2)
        elif isinstance(block, Table):
            caption = block.caption or caption
            block = replace(block, caption=caption)
        elif isinstance(block, Details):
            block = replace(block, blocks=_for_page(block.blocks, f"{caption}: {block.summary}"))
        found.append(block)
    return found


def _explanations(result: Result, subject: Subject) -> list[str]:
    question = result.question
    (low, high), delta = question.bounds, question.delta
    if not is_proven(question):
        text = _CALIBRATED
    else:
        text = _FDR if question.error == "fdr" else _GUARANTEE
    values = {"sure": f"{100 * (1 - delta):g} %", "low": low}
    values |= {"delta": f"{100 * delta:g} %", "high": high}
    return [_worded(each, subject, **values) for each in (text, _ASSUMPTIONS, _OVERLAP)]


def _worded(text: str, subject: Subject, **values: Any) -> str:
    words = {
        name: getattr(subject, name)
        for name in ("thing", "things", "a_thing", "samples", "rate", "odd", "odd_ones")
    }
    return text.format(**words, Samples=subject.samples.capitalize(), **values)


def _pictures(result: Result, subject: Subject) -> list[Block]:
    blocks: list[Block] = []
    if not np.isnan(result.means).all():
        blocks.append(_drawing(result, plot_intervals, _worded(_INTERVALS, subject)))
    if result.pulls:
        blocks.append(_drawing(result, plot_pulls, _worded(_PULLS, subject)))
    if result.trace:
        blocks.append(_drawing(result, plot_evidence, _worded(_EVIDENCE, subject), tall=1.5))
    return [Heading("Pictures"), *blocks] if blocks else []


def _drawing(result: Result, draw: Callable[..., Any], caption: str, tall: float = 1.0) -> Picture:
    """Return a picture in two sizes; its title says in words what it shows."""
    width, height = NARROW
    wide, narrow = draw(result), draw(result, size=(width, tall * height))
    return Picture(file_content(wide), wide.get_suptitle(), caption, file_content(narrow))


def _all_arms(result: Result, subject: Subject) -> list[Block]:
    n, things = result.question.n, subject.things
    heading = Heading(f"All {things}")
    if n > MAX_ROWS:
        return [heading, Paragraph(f"All {n:,} {things} are in `arms.csv` beside this page.")]
    order = np.argsort(-np.nan_to_num(result.means, nan=-np.inf), kind="stable")
    style = number_style(result.question, subject)
    rows = [
        [
            Literal(visible(row["label"], MAX_LABEL)),
            str(row["decision"]),
            number(row["mean"], style),
            f"[{number(row['lower'], style)}, {number(row['upper'], style)}]",
            f"{row['pulls'] + row['history']:,}",
        ]
        for row in result.rows(order)
    ]
    header = [subject.label, "decision", subject.mean, "interval", subject.samples]
    caption = f"All {things}, the highest {subject.rate} first"
    table = Table(header, rows, caption, (2, 3, 4), named_rows=True)
    return [heading, Details(f"Show all {n:,} {things}", [table])]
