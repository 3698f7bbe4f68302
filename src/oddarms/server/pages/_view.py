"""A study at one moment, as many requests look at it: counts, orders and rows of its arms."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from starlette.requests import Request

from oddarms.algorithms import Decision
from oddarms.documents import visible
from oddarms.problem import BoolArray, IntArray
from oddarms.search import number, number_style, odds_text
from oddarms.server._access import StudyToRead
from oddarms.studies import Overview
from oddarms.text import about

ROWS = 20
"""Arms on a page of their table."""
MAX_LABEL = 300
MAX_SEARCHED = 200
"""Characters."""
MAX_VIEWS, MAX_ARMS = 32, 500_000
"""Views that are kept, and the arms of all of them, beyond the latest one."""
SLOW_SECONDS = 0.05
REUSED = 3.0
"""A view that took longer than `SLOW_SECONDS` is shown for this many times as long."""


class Kind(NamedTuple):
    """A decision as pages show it; the style sheet and the scripts use `name`."""

    name: str
    title: str
    symbol: str


KINDS = {
    Decision.HIGH: Kind("high", "outlier above", "▲"),
    Decision.LOW: Kind("low", "outlier below", "▼"),
    Decision.UNDECIDED: Kind("undecided", "undecided", "◇"),
    Decision.NORMAL: Kind("normal", "normal", "●"),
}
"""The most remarkable first."""
FILTERS = {
    "all": ("All", tuple(KINDS)),
    "outlier": ("Outliers", (Decision.HIGH, Decision.LOW)),
    "high": ("Above", (Decision.HIGH,)),
    "low": ("Below", (Decision.LOW,)),
    "undecided": ("Undecided", (Decision.UNDECIDED,)),
    "normal": ("Normal", (Decision.NORMAL,)),
}
"""What the table of arms may be restricted to."""


class View:
    """A study at one moment; orders of the arms are computed once and kept."""

    def __init__(self, pulse: str, overview: Overview) -> None:
        self.pulse = pulse
        self.overview = overview
        self.result = overview.result
        self.question = overview.result.question
        self.n = self.question.n
        self.style = number_style(self.question)
        self._orders: dict[str, IntArray] = {}

    @cached_property
    def samples(self) -> IntArray:
        """Per arm its pulls and its history."""
        return self.result.pulls_per_arm + self.result.history_per_arm

    @cached_property
    def counts(self) -> dict[Decision, int]:
        """How many arms there are of each kind."""
        found = np.bincount(self.result.decisions, minlength=len(KINDS))
        return {decision: int(found[decision]) for decision in KINDS}

    @cached_property
    def folded(self) -> list[str]:
        """Labels for a search that ignores case."""
        return [str(label).casefold() for label in self.result.labels]

    def label(self, arm: int) -> str:
        """Return an arm's label without invisible characters."""
        return visible(self.result.labels[arm], MAX_LABEL)

    def order(self, key: str) -> IntArray:
        """Return all arms in the order of a column."""
        if key not in self._orders:
            self._orders[key] = ORDERS[key](self)
        return self._orders[key]

    def arms(self, choice: Choice) -> IntArray:
        """Return the arms that a choice selects, in its order."""
        order = self.order(choice.sort)
        arms = order[::-1] if choice.down else order
        if choice.kind != "all":
            arms = arms[self.are(choice.kind)[arms]]
        if choice.search:
            wanted = choice.search.casefold()
            found = np.array([wanted in text for text in self.folded], dtype=np.bool_)
            arms = arms[found[arms]]
        return arms

    def are(self, kind: str) -> BoolArray:
        """Return which arms a filter lets through."""
        return np.isin(self.result.decisions, FILTERS[kind][1])

    def rows(self, arms: IntArray) -> list[dict[str, Any]]:
        """Return what tables say of some arms."""
        known = self.result.rows(arms)
        return [self._row(arm, row) for arm, row in zip(arms.tolist(), known, strict=True)]

    def _row(self, arm: int, row: Mapping[str, Any]) -> dict[str, Any]:
        mean, lower, upper = (number(row[key], self.style) for key in ("mean", "lower", "upper"))
        kind = KINDS[Decision(int(self.result.decisions[arm]))]
        still_open, needed, after = (
            kind.name == "undecided",
            row["pulls_needed"],
            row["decided_after"],
        )
        return {
            "arm": arm,
            "label": self.label(arm),
            "kind": kind,
            "guess": self._guess(row) if still_open else "",
            "mean": mean,
            "interval": f"[{lower}, {upper}]",
            "samples": f"{row['pulls'] + row['history']:,}",
            "history": row["history"],
            "odds": odds_text(row["odds"]),
            "needed": about(needed) if still_open and needed is not None else "-",
            "decided": "-" if after is None else f"{after:,}",
        }

    @staticmethod
    def _guess(row: Mapping[str, Any]) -> str:
        """Return what an undecided arm seems to be."""
        if row["mean"] is None or row["guess"] in (None, "undecided"):
            return ""
        return "normal" if row["guess"] == "normal" else "outlier"


def _by_interest(view: View) -> IntArray:
    """Outliers, the farthest first; undecided arms, the most suspicious first; then the nearest."""
    result = view.result
    gaps = [np.abs(result.means - bound.estimate) for bound in result.thresholds.values()]
    near = np.nan_to_num(np.fmin.reduce(gaps), nan=0.0)
    group = np.where(result.decisions >= Decision.HIGH, 0, result.decisions + 1)
    rank = np.zeros(view.n) if result.ranks is None else result.ranks
    return np.lexsort((np.choose(group, [-near, rank, near]), group))


def _by_label(view: View) -> IntArray:
    return np.array(sorted(range(view.n), key=view.folded.__getitem__), dtype=np.int64)


def _by_mean(view: View) -> IntArray:
    return np.argsort(np.nan_to_num(view.result.means, nan=-np.inf), kind="stable")


def _by(values: Callable[[View], Any]) -> Callable[[View], IntArray]:
    """Return an order by an array of the result, which may be missing."""

    def order(view: View) -> IntArray:
        found = values(view)
        return np.arange(view.n) if found is None else np.argsort(found, kind="stable")

    return order


def _decided_after(view: View) -> IntArray | None:
    """Return when arms were decided; undecided ones come last."""
    after = view.result.decided_after
    return None if after is None else np.where(after < 0, np.iinfo(np.int64).max, after)


ORDERS: dict[str, Callable[[View], IntArray]] = {
    "interest": _by_interest,
    "label": _by_label,
    "mean": _by_mean,
    "samples": _by(lambda view: view.samples),
    "evidence": _by(lambda view: view.result.evidence),
    "needed": _by(lambda view: view.result.pulls_needed),
    "decided": _by(_decided_after),
}
"""What the arms may be sorted by."""
LARGEST_FIRST = frozenset({"mean", "samples", "evidence", "needed"})


@dataclass(frozen=True)
class Choice:
    """Which arms a table shows, read from the query of an address; every query is valid."""

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
            search=query.get("q", "")[:MAX_SEARCHED].strip(),
            kind=kind if kind in FILTERS else "all",
            sort=sort if sort in ORDERS else "interest",
            down=query.get("down") == "1",
            page=positive(query.get("page"), 1),
        )

    def query(self, **changes: Any) -> dict[str, str]:
        """Return the query of this choice with some changes, without defaults."""
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
        """Return the query for another order, or for the same one reversed."""
        down = not self.down if self.sort == key else key in LARGEST_FIRST
        return self.query(sort=key, down=down, page=1)

    def aria_sort(self, key: str) -> str:
        """Return the attribute aria-sort of a column."""
        if self.sort != key:
            return "none"
        return "descending" if self.down else "ascending"


@dataclass(frozen=True)
class Page:
    """One page of a list.

    Examples
    --------
    >>> page = Page(9, 50, 120)
    >>> page.number, page.last, page.first, page.end
    (3, 3, 101, 120)
    """

    wanted: int
    size: int
    total: int
    rows: list[Any] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The number of the last page."""
        return max(-(-self.total // self.size), 1)

    @property
    def number(self) -> int:
        """The number of this page; the last one if a later one is wanted."""
        return min(self.wanted, self.last)

    @property
    def first(self) -> int:
        """The number of the first row, counted from 1; 0 for an empty list."""
        return (self.number - 1) * self.size + 1 if self.total else 0

    @property
    def end(self) -> int:
        """The number of the last row."""
        return min(self.number * self.size, self.total)


def positive(text: str | None, otherwise: int) -> int:
    """Return a positive whole number from an address, or the default."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 9):
        return otherwise
    return max(int(text), 1)


class Views:
    """The latest views of the studies that people look at, shared by all requests."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[View, float]] = OrderedDict()
        self._locks: dict[tuple[str, int], threading.Lock] = {}
        self._lock = threading.Lock()

    def of(self, study: StudyToRead) -> View:
        """Return the study as it is now; a large one may be as it was a moment ago."""
        key = (study.name, study.number)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            pulse, began = study.pulse(), time.monotonic()
            view, until = self._kept.get(key, (None, 0.0))
            if view is not None and (view.pulse == pulse or began < until):
                return view
            view = View(pulse, study.overview())
            self._keep(key, view, time.monotonic() - began)
            return view

    def forget(self, study: StudyToRead) -> None:
        """Drop the view of a study that was changed from a page."""
        key = (study.name, study.number)
        with self._lock:
            self._kept.pop(key, None)
            self._locks.pop(key, None)

    def _keep(self, key: tuple[str, int], view: View, took: float) -> None:
        until = time.monotonic() + REUSED * took if took > SLOW_SECONDS else 0.0
        with self._lock:
            self._kept[key] = view, until
            self._kept.move_to_end(key)
            arms = sum(kept[0].n for kept in self._kept.values())
            while len(self._kept) > 1 and (len(self._kept) > MAX_VIEWS or arms > MAX_ARMS):
                gone, (old, _) = self._kept.popitem(last=False)
                self._locks.pop(gone, None)
                arms -= old.n


def views_of(request: Request) -> Views:
    """Return the views of this application."""
    state = request.app.state
    if not hasattr(state, "views"):
        state.views = Views()
    views: Views = state.views
    return views


def view_of(request: Request, study: StudyToRead) -> View:
    """Return a study as the pages of this application show it now."""
    return views_of(request).of(study)
