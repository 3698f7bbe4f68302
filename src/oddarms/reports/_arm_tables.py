"""The tables of the page: key figures, and arms by what is known of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oddarms.algorithms import Decision, Threshold
from oddarms.documents import Block, Details, Heading, Literal, Paragraph, Table, visible
from oddarms.problem import IntArray
from oddarms.reports._account import (
    LABEL_CHARACTERS,
    MOST_ROWS,
    Account,
)
from oddarms.reports._figures import is_known
from oddarms.reports._formats import doubt_text, exact, many, odds_text
from oddarms.search import ARMS
from oddarms.search._text import guarantee
from oddarms.text import about

LISTED = 500
"""Rows of the tables of outliers and of undecided arms."""
NEAREST = 20
_NUMBERS = ("mean", "interval", "from the threshold", "samples", "odds", "doubt", "needed")


def key_figures(account: Account) -> Table:
    """Return the question, the answer and the cost."""
    result, question, subject = account.result, account.question, account.subject
    samples = subject.samples
    rows: list[tuple[str, str]] = [
        (subject.things, f"{question.n:,}"),
        (subject.odd_ones, f"{len(result.outliers):,}"),
        ("normal", f"{len(result.normal):,}"),
        ("undecided", f"{len(result.undecided):,}"),
        ("status", account.status),
        (samples, f"{account.samples:,}"),
    ]
    if result.imported:
        rows.append((f"{samples} imported, among these", f"{result.imported:,}"))
    if result.unused:
        rows.append((f"{samples} not used", f"{result.unused:,}"))
    if result.beyond:
        rows.append((f"late {samples} beyond the budget, not used", f"{result.beyond:,}"))
    if account.equal_sampling is not None:
        equally = f"{samples} if all {subject.things} are sampled equally"
        rows.append((equally, f"{account.equal_sampling:,}"))
    rows += [
        (f"{side} threshold", _threshold_cell(account, bound))
        for side, bound in result.thresholds.items()
    ]
    bounds = " to ".join(map(exact, question.bounds))
    rows += [
        *((f"{side} threshold is", question.threshold_text(side)) for side in question.sides),
        ("what the answer is worth", guarantee(question)),
        (f"bounds of a {subject.sample}", bounds),
        ("algorithm", visible(result.algorithm, LABEL_CHARACTERS)),
    ]
    cells = [(name, Literal(value)) for name, value in rows]
    return Table(
        ("figure", "value"), cells, "The question, the answer and the cost", named_rows=True
    )


def _threshold_cell(account: Account, bound: Threshold) -> str:
    if not is_known(bound):
        return "not known yet"
    return f"{account.number(bound.estimate)} ({account.interval(bound.lower, bound.upper)})"


def outliers(account: Account) -> list[Block]:
    """Return the arms that are known to be outliers."""
    result, subject = account.result, account.subject
    title = "Outliers" if subject is ARMS else f"{subject.odd_ones} {subject.things}".capitalize()
    blocks: list[Block] = [Heading(title)]
    arms = np.flatnonzero(result.decisions >= Decision.HIGH)
    if not arms.size:
        more = " so far" if result.undecided else ""
        return [*blocks, Paragraph(f"No {subject.thing} is known to be {subject.odd}{more}.")]
    arms = arms[np.argsort(-account.distances[arms], kind="stable")]
    return [*blocks, *_arms_table(account, arms, f"{title}, the most extreme first")]


def undecided(account: Account) -> list[Block]:
    """Return the arms that are still open, and why."""
    result = account.result
    arms = np.flatnonzero(result.decisions == Decision.UNDECIDED)
    if not arms.size:
        return []
    order = np.argsort(-result.suspicion[arms], kind="stable")
    title = f"Undecided {account.subject.things}"
    caption = f"{title}, the most suspicious first; guesses are not proven"
    return [Heading(title), *_arms_table(account, arms[order], caption)]


def nearest(account: Account) -> list[Block]:
    """Return the normal arms nearest to a threshold."""
    arms = np.flatnonzero(account.result.decisions == Decision.NORMAL)
    distances = account.distances[arms]
    arms = arms[np.argsort(distances, kind="stable")][:NEAREST]
    arms = arms[np.isfinite(account.distances[arms])]
    if not arms.size:
        return []
    caption = f"The {many(arms.size, f'normal {account.subject.thing}')} nearest to a threshold"
    return [Heading("Nearly unusual"), *_arms_table(account, arms, caption)]


def all_arms(account: Account) -> list[Block]:
    """Return every arm, or where they are."""
    result, things = account.result, account.subject.things
    title = f"All {things}"
    if account.has_file:
        text = f"All {account.n:,} {things} are in the file `arms.csv` beside this page."
        return [Heading(title), Paragraph(text)]
    arms = np.argsort(-np.nan_to_num(result.means, nan=-np.inf), kind="stable")
    caption = f"{title}, the highest {account.subject.rate} first"
    table = _arms_table(account, arms, caption, most=MOST_ROWS)
    return [Heading(title), Details(f"Show all {account.n:,} {things}", table)]


def _arms_table(account: Account, arms: IntArray, caption: str, most: int = LISTED) -> list[Block]:
    columns = ["arm", "mean", "interval", "from the threshold", "samples"]
    columns += ["odds"] if account.odds is not None else []
    decisions = {int(d) for d in account.result.decisions[arms]}
    mixed = len(decisions) > 1
    columns += ["decision"] if mixed else []
    waiting = decisions == {Decision.UNDECIDED}
    columns += ["guess", "doubt"] if waiting and account.result.guesses is not None else []
    columns += ["needed"] if waiting and account.needed is not None else []
    columns += ["why open"] if waiting else []
    rows = [_arm_row(account, int(arm), columns) for arm in arms[:most]]
    numbers = [i for i, name in enumerate(columns) if name in _NUMBERS]
    subject = account.subject
    heads = {
        "arm": subject.thing,
        "mean": subject.mean,
        "samples": subject.samples,
        "needed": f"more {subject.samples}, about",
    }
    shown = [heads.get(name, name) for name in columns]
    blocks: list[Block] = [Table(shown, rows, caption, numbers, named_rows=True)]
    if arms.size > most:
        there = "the file `arms.csv`" if account.has_file else f"the table of all {subject.things}"
        blocks.append(Paragraph(f"These are {most:,} of {arms.size:,}; {there} has all."))
    return blocks


def _arm_row(account: Account, arm: int, columns: Sequence[str]) -> list[str]:
    result = account.result
    low, high = result.intervals[arm]
    cells = {
        "arm": account.label(result.labels[arm]),
        "mean": account.number(result.means[arm]),
        "interval": account.interval(low, high),
        "from the threshold": account.number(account.distances[arm]),
        "samples": f"{int(result.pulls_per_arm[arm] + result.imported_per_arm[arm]):,}",
        "odds": "–" if account.odds is None else odds_text(float(account.odds[arm])),
        "decision": account.decision(result.decisions[arm]),
        "guess": "–" if result.guesses is None else account.decision(result.guesses[arm]),
        "doubt": "–" if result.doubts is None else doubt_text(float(result.doubts[arm])),
        "needed": "–" if account.needed is None else about(float(account.needed[arm])),
        "why open": _why_open(account, arm),
    }
    return [cells[name] for name in columns]


def _why_open(account: Account, arm: int) -> str:
    result = account.result
    if not result.pulls_per_arm[arm] and np.isnan(result.means[arm]):
        return "not sampled yet"
    distance = account.distances[arm]
    if not math.isfinite(distance):
        return "the threshold is not known yet"
    low, high = result.intervals[arm]
    half = max(high - result.means[arm], result.means[arm] - low)
    if distance >= half:
        return "the threshold is not known well enough"
    return f"known only to ± {account.number(half)}"
