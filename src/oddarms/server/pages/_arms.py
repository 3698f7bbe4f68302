"""The table of arms: searched, sorted and paged on the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.problem import IntArray
from oddarms.reports._formats import odds_text
from oddarms.server.pages._paging import Page, whole
from oddarms.server.pages._view import KINDS, NAMES, ORDERS, SYMBOLS, View
from oddarms.text import about

ROWS = 20
MOST_SEARCHED = 200
"""Characters of what is searched for."""


@dataclass(frozen=True)
class Choice:
    """Which arms are looked at, as the address says it; whatever stands there, it is a choice."""

    search: str = ""
    kind: str = "all"
    sort: str = "interest"
    down: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Choice:
        """Return the choice of an address."""
        kind, sort = query.get("kind", "all"), query.get("sort", "interest")
        return cls(
            search=query.get("q", "")[:MOST_SEARCHED].strip(),
            kind=kind if kind in ("all", "outlier", *NAMES) else "all",
            sort=sort if sort in ORDERS else "interest",
            down=query.get("down", "") == "1",
            page=whole(query.get("page"), 1),
        )

    def query(self, **changes: Any) -> dict[str, str]:
        """Return the address of this choice, with some parts changed, without what is usual."""
        chosen = {**vars(self), **changes}
        words = {
            "q": chosen["search"],
            "kind": "" if chosen["kind"] == "all" else chosen["kind"],
            "sort": "" if chosen["sort"] == "interest" else chosen["sort"],
            "down": "1" if chosen["down"] else "",
            "page": "" if chosen["page"] == 1 else str(chosen["page"]),
        }
        return {word: value for word, value in words.items() if value}

    def sorted_by(self, key: str) -> dict[str, str]:
        """Return the address with another order: the other way round if it is this one already."""
        down = not self.down if self.sort == key else key in LARGEST_FIRST
        return self.query(sort=key, down=down, page=1)

    def aria_sort(self, key: str) -> str:
        """Return how a column is sorted, as a screen reader is told."""
        if self.sort != key:
            return "none"
        return "descending" if self.down else "ascending"


COLUMNS = (
    ("label", "Arm"),
    ("interest", "Decision"),
    ("mean", "Mean"),
    ("", "Interval"),
    ("samples", "Samples"),
    ("evidence", "Odds"),
    ("needed", "To go"),
    ("decided", "Decided after"),
)
"""What may be sorted by, and the headings."""
LARGEST_FIRST = frozenset({"mean", "samples", "evidence", "needed"})


def table_of(view: View, choice: Choice) -> Page:
    """Return the rows of one page of the table."""
    page = Page.of(_chosen(view, choice), choice.page, ROWS, int)
    view.look_at(page.rows)
    return replace(page, rows=[arm_row(view, arm) for arm in page.rows])


def _chosen(view: View, choice: Choice) -> IntArray:
    order = view.order(choice.sort)
    arms = order[::-1] if choice.down else order
    if choice.kind != "all":
        arms = arms[_of_kind(view, choice.kind)[arms]]
    if choice.search:
        wanted, folded = choice.search.casefold(), view.folded
        found = np.fromiter((wanted in text for text in folded), dtype=bool, count=view.n)
        arms = arms[found[arms]]
    return arms


def _of_kind(view: View, kind: str) -> Any:
    decisions = view.result.decisions
    if kind == "outlier":
        return decisions >= Decision.HIGH
    return decisions == next(decision for decision, name in KINDS.items() if name == kind)


def arm_row(view: View, arm: int) -> dict[str, Any]:
    """Return what the table, and an arm's own page, say of an arm."""
    result, kind = view.result, view.kind(arm)
    after = None if result.decided_after is None else int(result.decided_after[arm])
    odds = None if view.odds is None else float(view.odds[arm])
    needed = None if result.pulls_needed is None else float(result.pulls_needed[arm])
    return {
        "arm": arm,
        "label": view.label(arm),
        "kind": kind,
        "decision": NAMES[kind],
        "symbol": SYMBOLS[kind],
        "guess": _guess(view, arm) if kind == "open" else "",
        "mean": view.number(result.means[arm]),
        "interval": view.interval(*view.ends(arm)),
        "samples": f"{int(view.samples_per_arm[arm]):,}",
        "imported": int(result.imported_per_arm[arm]),
        "odds": "–" if odds is None else odds_text(odds),
        "needed": "–" if kind != "open" or needed is None else f"≈ {about(needed)}",
        "decided": f"{after:,} pulls" if after is not None and after >= 0 else "–",
    }


def _guess(view: View, arm: int) -> str:
    """Return what an open arm seems to be, which is not proven."""
    guesses = view.result.guesses
    if guesses is None or not (guesses[arm] and view.samples_per_arm[arm]):
        return ""
    return f"likely {NAMES[KINDS[Decision(int(guesses[arm]))]]}"
