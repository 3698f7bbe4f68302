"""The pictures of the page, and in words what they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oddarms.documents import Block, Drawing, Heading, visible
from oddarms.plotting import file_content, plot_evidence, plot_intervals, plot_pulls
from oddarms.reports._account import LABEL_CHARACTERS, Account
from oddarms.reports._figures import DECISIONS

NARROW = (4.2, 4.8)
"""Size of a picture for a phone, in inches."""

_HOW_INTERVALS = (
    "Each arm's mean (marker) with its interval (line), from the lowest mean to the highest; of"
    " many arms of a kind a band, from the lowest to the highest end of neighbours, with the median"
    " of their means. The yellow band is the interval of the threshold, the line its estimate."
)
_HOW_PULLS = (
    "How often each arm was sampled, in the same order; of many arms of a kind a band, from the"
    " fewest to the most of neighbours. Arms near the threshold, the vertical line, are the hard"
    " ones."
)

NOT_IMPORTED = " Imported samples are not counted."


def pictures(account: Account) -> list[Block]:
    """Return the pictures for which there is something to draw."""
    result = account.result
    blocks: list[Block] = []
    if not np.isnan(result.means).all():
        blocks.append(Heading("Means and intervals", 3))
        blocks.append(
            _drawing(account, plot_intervals, _intervals_in_words(account), _HOW_INTERVALS)
        )
    if result.pulls:
        blocks.append(Heading("Samples of each arm", 3))
        how = f"{_HOW_PULLS}{NOT_IMPORTED if result.imported else ''}"
        blocks.append(_drawing(account, plot_pulls, _pulls_in_words(account), how))
    if account.trace:
        blocks.append(Heading("Over time", 3))
        how = _how_evidence(account)
        blocks.append(_drawing(account, plot_evidence, _evidence_in_words(account), how, tall=1.5))
    return [Heading("Pictures"), *blocks] if blocks else []


def _drawing(
    account: Account, draw: Callable[..., Any], words: str, caption: str, tall: float = 1.0
) -> Drawing:
    width, height = NARROW
    wide, narrow = draw(account.result), draw(account.result, size=(width, tall * height))
    return Drawing(file_content(wide), words, caption, file_content(narrow))


def _intervals_in_words(account: Account) -> str:
    result = account.result
    counts = [
        f"{int((result.decisions == decision).sum()):,} {name}"
        for decision, name in DECISIONS.items()
        if (result.decisions == decision).any()
    ]
    text = f"Intervals of {account.n:,} arms in the order of their means:"
    text += f" {', '.join(counts)}. {account.thresholds()}"
    known = result.means[~np.isnan(result.means)]
    if known.size:
        ends = f"{account.number(known.min())} to {account.number(known.max())}"
        text += f" Means reach from {ends}."
    return text


def _pulls_in_words(account: Account) -> str:
    result = account.result
    pulls = result.pulls_per_arm
    most = visible(result.labels[int(pulls.argmax())], LABEL_CHARACTERS)
    return (
        f"Samples of each arm, in the order of their means: {pulls.min():,} to {pulls.max():,},"
        f" on average {result.pulls / account.n:,.1f}; the most of arm {most}."
        f"{NOT_IMPORTED if result.imported else ''}"
    )


def _evidence_in_words(account: Account) -> str:
    trace = account.trace
    half = next((p for p in trace if 2 * p.undecided <= account.n), None)
    text = f"The search over {trace[-1].pulls:,} samples."
    if half is not None:
        text += f" Half of the arms were decided after {half.pulls:,} samples;"
    text += f" {trace[-1].undecided:,} arms are undecided at the end. {account.thresholds()}"
    return text


def _how_evidence(account: Account) -> str:
    text = (
        "From left to right, the samples taken so far, on a scale where equal steps multiply."
        " Above: how many arms were still open. Below: the interval of the threshold, which"
        " narrows as samples come in."
    )
    if account.result.evidence is None:
        return text
    return (
        f"{text} Last: the evidence for the decisions, as the logarithm of the odds. An arm is"
        " decided once its evidence passes the dotted line."
    )
