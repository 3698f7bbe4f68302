"""What pages are made of: templates, links, and a study with its arms as pages show them."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary

import numpy as np
from fastapi import Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse

from oddarms import __version__
from oddarms.algorithms import Decision
from oddarms.documents import visible
from oddarms.problem import IntArray
from oddarms.search import (
    cell,
    number,
    number_style,
)
from oddarms.server._access import (
    address_of,
    principal_of,
)
from oddarms.server._problems import Problem
from oddarms.studies import Overview, StoredStudy

CSRF_FIELD = '<input type="hidden" name="csrf" value="{}">'
HERE = Path(__file__).resolve().parent
STATIC, TEMPLATES = HERE / "static", HERE / "templates"


def link(request: Request, *parts: str | int, **query: str) -> str:
    """Return the address of some parts, as this request reaches it; empty words are left out."""
    path = "/".join(quote(str(part), safe="") for part in parts)
    given = {word: value for word, value in query.items() if value}
    return f"{prefix_of(request)}/{path}" + (f"?{urlencode(given)}" if given else "")


def prefix_of(request: Request) -> str:
    """Return what is before our paths in the addresses of a request."""
    prefix: str = request.scope.get("root_path", "")
    return prefix.rstrip("/")


def ago(time: datetime) -> str:
    """Return how long ago something was, or how soon it will be.

    Examples
    --------
    >>> from datetime import timedelta
    >>> ago(datetime.now(UTC) - timedelta(hours=3))
    '3 h ago'
    """
    seconds = (datetime.now(UTC) - time).total_seconds()
    if -1.0 < seconds < 5.0:
        return "now"
    for limit, unit, name in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if abs(seconds) < limit:
            text = f"{abs(seconds) / unit:.0f} {name}"
            return f"{text} ago" if seconds > 0.0 else f"in {text}"
    return f"{time:%Y-%m-%d}"


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page."""
    principal = principal_of(request)
    csrf = principal and principal.csrf
    values = {
        "link": partial(link, request),
        "principal": principal,
        "guard": Markup(CSRF_FIELD).format(csrf) if csrf else "",
        "version": __version__,
        "here": "",
        "server": str(request.base_url).rstrip("/"),
        **context,
    }
    return HTMLResponse(_environment().get_template(template).render(values), status)


def see(address: str) -> RedirectResponse:
    """Return the redirect after a form."""
    return RedirectResponse(address, 303)


def error_page(request: Request, problem: Problem) -> Response:
    """Return a problem as a page; a reader who has not signed in is redirected to the form."""
    if problem.status == 401 and request.method in ("GET", "HEAD"):
        wanted = address_of(request.scope["path"].removeprefix(prefix_of(request)))
        query = f"?{request.url.query}" if request.url.query else ""
        return see(link(request, "login", next="" if wanted in ("", "/") else f"{wanted}{query}"))
    text = sentence(problem.detail)
    return render(request, "error.html", problem.status, problem=problem, text=text)


def sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": visible,
        "sentence": sentence,
        "ago": ago,
        "shell": shlex.quote,
        "grouped": lambda number: f"{number:,.0f}",
    }
    return environment


MAX_LABEL = 300
MAX_SEARCHED = 200
"""Characters."""
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
    "": tuple(KINDS),
    "outlier": (Decision.HIGH, Decision.LOW),
    **{kind.name: (decision,) for decision, kind in KINDS.items()},
}
"""What the table of arms may be restricted to."""


# Lists


@dataclass(frozen=True)
class Choice:
    """What a page shows of a list, read from its address; every address is valid."""

    search: str
    only: str
    sort: str
    """What it is sorted by; a minus before it reverses the order."""
    page: int
    usual: str
    """The order without a word in the address."""

    @classmethod
    def of(
        cls, query: Mapping[str, str], filters: Container[str], orders: Container[str], usual: str
    ) -> Choice:
        """Return the choice of an address."""
        only, sort = query.get("only", ""), query.get("sort", usual)
        return cls(
            query.get("q", "")[:MAX_SEARCHED].strip(),
            only if only in filters else "",
            sort if sort.removeprefix("-") in orders else usual,
            _positive(query.get("page", "")),
            usual,
        )

    def query(self, **changes: Any) -> dict[str, str]:
        """Return the query of this choice with some changes, without what is usual."""
        new = replace(self, **changes)
        sort = "" if new.sort == new.usual else new.sort
        page = "" if new.page == 1 else str(new.page)
        words = {"q": new.search, "only": new.only, "sort": sort, "page": page}
        return {word: value for word, value in words.items() if value}

    def sorted_by(self, order: str) -> str:
        """Return what the head of a column leads to: its order, or the reverse if it is chosen."""
        return order if self.sort != order else order[1:] if order[0] == "-" else f"-{order}"

    def aria_sort(self, order: str) -> str:
        """Return the attribute aria-sort of a column."""
        if self.sort.removeprefix("-") != order.removeprefix("-"):
            return "none"
        return "descending" if self.sort[0] == "-" else "ascending"


def _positive(text: str) -> int:
    return max(int(text), 1) if text.isascii() and text.isdigit() and len(text) <= 9 else 1


@dataclass(frozen=True)
class Page:
    """One page of a list; `first` and `end` are the numbers of its rows, counted from 1."""

    number: int
    last: int
    first: int
    end: int
    total: int

    @classmethod
    def of(cls, wanted: int, size: int, total: int) -> Page:
        """Return a page, or the last one if a later one is wanted.

        Examples
        --------
        >>> Page.of(9, 50, 120)
        Page(number=3, last=3, first=101, end=120, total=120)
        """
        last = max(-(-total // size), 1)
        number = min(wanted, last)
        return cls(number, last, (number - 1) * size + 1, min(number * size, total), total)


# Arms


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
        arms = self.order(choice.sort.removeprefix("-"))
        if choice.sort[0] == "-":
            arms = arms[::-1]
        if choice.only:
            arms = arms[np.isin(self.result.decisions, FILTERS[choice.only])[arms]]
        if choice.search:
            wanted = choice.search.casefold()
            found = np.array([wanted in text for text in self.folded], dtype=np.bool_)
            arms = arms[found[arms]]
        return arms

    def rows(self, arms: IntArray) -> list[dict[str, Any]]:
        """Return what tables say of some arms."""
        known = self.result.rows(arms)
        return [self._row(arm, row) for arm, row in zip(arms.tolist(), known, strict=True)]

    def _row(self, arm: int, row: dict[str, Any]) -> dict[str, Any]:
        mean, lower, upper = (number(row[key], self.style) for key in ("mean", "lower", "upper"))
        decision = Decision(int(self.result.decisions[arm]))
        still_open, after = decision is Decision.UNDECIDED, row["decided_after"]
        estimated = still_open and self.result.pulls_needed is not None
        return {
            "arm": arm,
            "label": self.label(arm),
            "kind": KINDS[decision],
            "guess": cell(row, "guess").strip("?") if still_open else "",
            "mean": mean,
            "interval": f"[{lower}, {upper}]",
            "samples": f"{row['pulls'] + row['history']:,}",
            "history": row["history"],
            "odds": cell(row, "odds"),
            "needed": cell(row, "needed") if estimated else "-",
            "decided": "-" if after is None else f"{after:,}",
        }


def _by_interest(view: View) -> IntArray:
    """Outliers, the farthest first; undecided arms, the most suspicious first; then the nearest."""
    result = view.result
    gaps = [np.abs(result.means - bound.estimate) for bound in result.thresholds.values()]
    near = np.nan_to_num(np.fmin.reduce(gaps), nan=0.0)
    group = np.where(result.decisions >= Decision.HIGH, 0, result.decisions + 1)
    rank = np.zeros(view.n) if result.ranks is None else result.ranks
    return np.lexsort((np.choose(group, [-near, rank, near]), group))


def _by(values: Callable[[View], Any]) -> Callable[[View], IntArray]:

    def order(view: View) -> IntArray:
        found = values(view)
        return np.arange(view.n) if found is None else np.argsort(found, kind="stable")

    return order


def _decided_after(view: View) -> IntArray | None:
    after = view.result.decided_after
    return None if after is None else np.where(after < 0, np.iinfo(np.int64).max, after)


ORDERS: dict[str, Callable[[View], IntArray]] = {
    "interest": _by_interest,
    "label": lambda view: np.array(sorted(range(view.n), key=view.folded.__getitem__)),
    "mean": _by(lambda view: np.nan_to_num(view.result.means, nan=-np.inf)),
    "samples": _by(lambda view: view.samples),
    "evidence": _by(lambda view: view.result.evidence),
    "needed": _by(lambda view: view.result.pulls_needed),
    "decided": _by(_decided_after),
}
"""What the arms may be sorted by."""


# Views


class _Latest:
    """The latest view of a study, and until when it is shown although the study has changed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.view: View | None = None
        self.until = 0.0


_latest: WeakKeyDictionary[StoredStudy, _Latest] = WeakKeyDictionary()
_lock = threading.Lock()


def view_of(study: StoredStudy) -> View:
    """Return a study as it is now; a large one may be as it was a moment ago."""
    with _lock:
        latest = _latest.setdefault(study, _Latest())
    with latest.lock:
        pulse, began = study.pulse(), time.monotonic()
        if latest.view is None or (latest.view.pulse != pulse and began >= latest.until):
            latest.view = View(pulse, study.overview())
            took = time.monotonic() - began
            latest.until = began + (1.0 + REUSED) * took if took > SLOW_SECONDS else 0.0
        return latest.view


def forget_view(study: StoredStudy) -> None:
    """Drop the view of a study that a page has changed."""
    with _lock:
        _latest.pop(study, None)
