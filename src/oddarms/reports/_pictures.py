"""The pictures of the page, and in words what they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oddarms.documents import Block, Drawing, Heading, Paragraph, visible
from oddarms.plotting import file_content, plot_evidence, plot_intervals, plot_pulls
from oddarms.reports._account import LABEL_CHARACTERS, Account
from oddarms.reports._figures import DECISIONS
from oddarms.search import ARMS, Subject

NARROW = (4.2, 4.8)
"""Size of a picture for a phone, in inches."""

_HOW_INTERVALS = (
    "Each {thing}'s {rate} (marker) with its interval (line), from the lowest to the highest; of"
    " many {things} of a kind a band, from the lowest to the highest end of neighbours, with the"
    " median of their {rates}. The yellow band is the interval of the threshold, the line its"
    " estimate."
)
_HOW_PULLS = (
    "How often each {thing} was sampled, in the same order; of many {things} of a kind a band, from"
    " the fewest to the most of neighbours. Those near the threshold, the vertical line, are the"
    " hard ones."
)

NOT_IMPORTED = " Imported {samples} are not counted."


def pictures(account: Account) -> list[Block]:
    """Return the pictures for which there is something to draw."""
    result, subject = account.result, account.subject
    blocks: list[Block] = []
    if not np.isnan(result.means).all():
        blocks.append(Heading(f"{subject.rates.capitalize()} and intervals", 3))
        how = _worded(_HOW_INTERVALS, subject)
        blocks.append(_drawing(account, plot_intervals, _intervals_in_words(account), how))
    if result.pulls:
        blocks.append(Heading(f"{subject.samples.capitalize()} of each {subject.thing}", 3))
        how = _worded(f"{_HOW_PULLS}{NOT_IMPORTED if result.imported else ''}", subject)
        blocks.append(_drawing(account, plot_pulls, _pulls_in_words(account), how))
    if account.trace:
        blocks.append(Heading("Over time", 3))
        how = _how_evidence(account)
        blocks.append(_drawing(account, plot_evidence, _evidence_in_words(account), how, tall=1.5))
    if blocks and subject is not ARMS:
        blocks.insert(0, Paragraph(_other_words(subject)))
    return [Heading("Pictures"), *blocks] if blocks else []


def _other_words(subject: Subject) -> str:
    return (
        f"In the pictures, an arm is {subject.a_thing}, a sample is a {subject.sample} of it, and"
        f" an outlier is {subject.odd}."
    )


def _worded(text: str, subject: Subject) -> str:
    """Return a text in the words of its subject."""
    words = {"thing": subject.thing, "things": subject.things, "samples": subject.samples}
    return text.format(**words, rate=subject.rate, rates=subject.rates)


def _drawing(
    account: Account, draw: Callable[..., Any], words: str, caption: str, tall: float = 1.0
) -> Drawing:
    width, height = NARROW
    wide, narrow = draw(account.result), draw(account.result, size=(width, tall * height))
    return Drawing(file_content(wide), words, caption, file_content(narrow))


def _intervals_in_words(account: Account) -> str:
    result, subject = account.result, account.subject
    counts = [
        f"{int((result.decisions == decision).sum()):,} {account.decision(decision)}"
        for decision in DECISIONS
        if (result.decisions == decision).any()
    ]
    text = f"Intervals of {account.n:,} {subject.things} in the order of their {subject.rates}:"
    text += f" {', '.join(counts)}. {account.thresholds()}"
    known = result.means[~np.isnan(result.means)]
    if known.size:
        ends = f"{account.number(known.min())} to {account.number(known.max())}"
        text += f" {subject.rates.capitalize()} reach from {ends}."
    return text


def _pulls_in_words(account: Account) -> str:
    result, subject = account.result, account.subject
    pulls = result.pulls_per_arm
    most = visible(result.labels[int(pulls.argmax())], LABEL_CHARACTERS)
    text = (
        f"{subject.samples.capitalize()} of each {subject.thing}, in the order of their"
        f" {subject.rates}: {pulls.min():,} to {pulls.max():,}, on average"
        f" {result.pulls / account.n:,.1f}; the most of {subject.thing} {most}."
    )
    return text + (_worded(NOT_IMPORTED, subject) if result.imported else "")


def _evidence_in_words(account: Account) -> str:
    trace, subject = account.trace, account.subject
    half = next((p for p in trace if 2 * p.undecided <= account.n), None)
    text = f"The search over {trace[-1].pulls:,} {subject.samples}."
    if half is not None:
        text += (
            f" Half of the {subject.things} were decided after {half.pulls:,} {subject.samples};"
        )
    text += f" {trace[-1].undecided:,} {subject.things} are undecided at the end."
    text += f" {account.thresholds()}"
    return text


def _how_evidence(account: Account) -> str:
    subject = account.subject
    text = (
        f"From left to right, the {subject.samples} taken so far, on a scale where equal steps"
        f" multiply. Above: how many {subject.things} were still open. Below: the interval of the"
        f" threshold, which narrows as {subject.samples} come in."
    )
    if account.result.evidence is None:
        return text
    return (
        f"{text} Last: the evidence for the decisions, as the logarithm of the odds."
        f" {subject.a_thing.capitalize()} is decided once its evidence passes the dotted line."
    )
