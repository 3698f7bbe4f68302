"""The answer of ``oddarms find``: on the screen and as files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.cli._printing import Format, emit, json_text, note, table
from oddarms.errors import MissingExtra
from oddarms.files import write_whole
from oddarms.problem import FloatArray
from oddarms.search import Result
from oddarms.statistics.round_robin import pulls_until_decided
from oddarms.tables import csv_text
from oddarms.theory import gaps

MOST_SHOWN = 20
COLUMNS = (
    "label",
    "decision",
    "mean",
    "lower",
    "upper",
    "odds",
    "pulls",
    "recorded",
    "more_pulls",
)


@dataclass(frozen=True, eq=False)
class Found:
    """What is known, and about how many more pulls each arm needs."""

    result: Result
    more_pulls: FloatArray | None
    indifference: float = 0.0

    @property
    def equal_sampling(self) -> int | None:
        """About how many pulls equal sampling (RR) would take at the estimated means."""
        result = self.result
        if not result.complete or result.problem.side == "both" or np.isnan(result.means).any():
            return None
        a, b = result.problem.bounds
        k = result.problem.k if result.problem.side == "upper" else -result.problem.k
        gap = float(gaps(result.means, k).min()) / (b - a)
        pulls = pulls_until_decided(gap, k, result.problem.n, result.problem.delta)
        return int(pulls) if math.isfinite(pulls) and pulls < 1e15 else None

    def rows(self) -> list[dict[str, Any]]:
        """Return what is known of each arm."""
        result = self.result
        odds = result.odds
        recorded = result.imported_per_arm
        return [
            {
                "label": label if isinstance(label, str | int) else str(label),
                "decision": Decision(int(result.decisions[i])).name.lower(),
                "mean": _finite(result.means[i]),
                "lower": _finite(result.intervals[i, 0]),
                "upper": _finite(result.intervals[i, 1]),
                "odds": None if odds is None else _finite(odds[i]),
                "pulls": int(result.pulls_per_arm[i]),
                "recorded": 0 if recorded is None else int(recorded[i]),
                "more_pulls": None if self.more_pulls is None else int(self.more_pulls[i]),
            }
            for i, label in enumerate(result.labels)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        whole = self.result.to_dict()
        rows = self.rows()
        whole["arms"] = rows
        whole["outliers"] = [row for row in rows if row["decision"] in ("high", "low")]
        whole["undecided"] = [row for row in rows if row["decision"] == "undecided"]
        whole["equal_sampling"] = self.equal_sampling
        return whole


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def write(found: Found, folder: Path) -> None:
    """Write result.json, arms.csv and, where matplotlib is there, report.html."""
    from oddarms.reports import write_report  # here, as drawing takes a second to import

    try:
        write_report(
            found.result,
            folder,
            title=f"Which of {found.result.problem.n:,} are abnormal?",
            equal_sampling=found.equal_sampling,
            pulls_needed=found.more_pulls,
            indifference=found.indifference,
        )
    except MissingExtra as error:
        note(f"no report: {error}")
    write_whole(folder / "result.json", json_text(found.to_dict()))
    rows = ([row[column] for column in COLUMNS] for row in found.rows())
    write_whole(folder / "arms.csv", csv_text(COLUMNS, rows))  # with more columns than a report's


def show(found: Found, how: Format, folder: Path, *, quiet: bool) -> None:
    """Print the answer."""
    if how is Format.json:
        emit(json_text(found.to_dict()))
    elif how is Format.csv:
        rows = ([row[column] for column in COLUMNS] for row in found.rows())
        emit(csv_text(COLUMNS, rows))
    else:
        emit(_answer(found))
    if not quiet:
        note(f"report: {folder / 'report.html'} (beside it result.json and arms.csv)")


def _answer(found: Found) -> str:
    result = found.result
    rows = found.rows()
    odd = [row for row in rows if row["decision"] in ("high", "low")]
    open_rows = [row for row in rows if row["decision"] == "undecided"]
    parts = [_headline(result, len(odd))]
    if odd:
        parts.append(_arm_table(sorted(odd, key=lambda row: -(row["mean"] or 0.0)), "odds"))
    for side, (estimate, lower, upper) in result.thresholds.items():
        if math.isfinite(lower) and math.isfinite(upper):
            parts.append(f"{side} threshold: {estimate:.4g}, within [{lower:.4g}, {upper:.4g}]\n")
    parts.append(_cost(found))
    if open_rows:
        parts.append(
            f"\nundecided: {len(open_rows):,} ({_why(result)}); about how many more samples each"
            " needs:\n"
        )
        order = sorted(open_rows, key=lambda row: row["more_pulls"] or 0)
        parts.append(_arm_table(order, "more_pulls"))
    return "".join(parts)


def _headline(result: Result, odd: int) -> str:
    n, k = result.problem.n, result.problem.k
    sure = 1.0 - result.problem.delta
    be = "is" if odd == 1 else "are"
    if not result.complete:
        known = f"{odd:,} of {n:,} {be} known to be abnormal, {len(result.undecided):,} undecided"
        return f"{known} (probability {sure:g})\n"
    head = f"{odd:,} of {n:,} {be} abnormal (right with probability at least {sure:g})\n"
    if not result.pulls and not result.imported:
        head += f"among {n:,} things none can be {k:g} standard deviations out: see a smaller --k\n"
    return head


def _why(result: Result) -> str:
    reasons = {"budget": "the budget is used up", "decided": "", "running": "not finished yet"}
    return reasons.get(result.stopped, result.stopped)


def _cost(found: Found) -> str:
    result = found.result
    text = f"samples: {result.pulls:,}"
    if result.imported:
        text += f" and {result.imported:,} recorded ones"
    equal = found.equal_sampling
    if equal is not None and result.pulls + result.imported:
        times = equal / max(result.pulls + result.imported, 1)
        text += f"\nsampling all equally at this guarantee (RR): about {equal:,}"
        text += f", {times:,.0f} times as many" if times >= 2.0 else ""
    return text + "\n"


def _arm_table(rows: list[dict[str, Any]], last: str) -> str:
    titles = {"odds": "odds", "more_pulls": "more"}
    body = [
        (
            row["label"],
            _short(row["mean"]),
            f"[{_short(row['lower'])}, {_short(row['upper'])}]",
            _odds(row["odds"]) if last == "odds" else _count(row["more_pulls"]),
            f"{row['pulls'] + row['recorded']:,}",
        )
        for row in rows[:MOST_SHOWN]
    ]
    header = ["label", "mean", "interval", titles[last], "samples"]
    text = table(header, body, right=["mean", titles[last], "samples"], shorten="label")
    hidden = len(rows) - MOST_SHOWN
    return text + (f"... and {hidden:,} more in arms.csv\n" if hidden > 0 else "")


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _odds(value: float | None) -> str:
    if value is None:
        return ""
    if value < 1e6:
        return f"{value:,.0f}:1"
    return f"{value:.0e}:1".replace("e+", "e") if value < 1e100 else "over 1e100:1"
