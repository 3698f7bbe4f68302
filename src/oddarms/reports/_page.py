"""The page: self-contained, offline, for a phone and for paper, and in words what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oddarms.documents import Block, Heading, Literal, Paragraph, to_html, visible
from oddarms.files import writable_folder, write_whole
from oddarms.reports._account import Account
from oddarms.reports._arm_tables import all_arms, key_figures, nearest, outliers, undecided
from oddarms.reports._files import write_arms
from oddarms.reports._pictures import pictures
from oddarms.reports._summary import summary
from oddarms.reports._words import explanations
from oddarms.search import ARMS, Result, Subject


def write_report(
    result: Result,
    folder: str | Path,
    *,
    title: str | None = None,
    notes: Sequence[str] = (),
    raw_csv: bool = False,
    subject: Subject = ARMS,
) -> Path:
    """Write ``report.html``, one self-contained page about a result, into a folder.

    Where there are too many arms for the page, ``arms.csv`` is written beside it.

    Parameters
    ----------
    result
        The result, complete or not.
    folder
        Made if it is missing.
    title
        The page's title; by default the question.
    notes
        Paragraphs to add, such as where the samples come from.
    raw_csv
        As for `write_results`.
    subject
        What the arms are, for the words of the page.

    Returns
    -------
    Path
        The page.
    """
    account = Account(result, subject)
    if title is None:
        named = "" if subject is ARMS else f" {subject.things}"
        title = f"Which of {account.n:,}{named} are {_asked(subject)}?"
    place = writable_folder("folder", folder)
    blocks: list[Block] = [
        Heading(Literal(visible(title)), 1),
        *summary(account),
        *(Paragraph(visible(note)) for note in notes),
        Heading("Key figures"),
        key_figures(account),
        *pictures(account),
        *outliers(account),
        *undecided(account),
        *nearest(account),
        *all_arms(account),
        *explanations(account),
    ]
    if account.has_file:
        write_arms(result, place, raw=raw_csv)
    content = to_html(visible(title), blocks, place).encode("utf-8", "replace")
    return write_whole(place / "report.html", content)


def _asked(subject: Subject) -> str:
    return "abnormal" if subject is ARMS else subject.odd_ones
