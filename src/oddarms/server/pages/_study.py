"""The list of studies, the page of a study and the page of an arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from oddarms.algorithms import Decision
from oddarms.search import Status, facts, guarantee, headline, number, status_text
from oddarms.server._access import Anybody, StudyToRead
from oddarms.server._state import state_of
from oddarms.server.pages._rendering import links_of, render, see, sentence
from oddarms.server.pages._view import (
    FILTERS,
    KINDS,
    MAX_SEARCHED,
    ROWS,
    Choice,
    Kind,
    Page,
    View,
    positive,
    view_of,
)
from oddarms.studies import SORTS

router = APIRouter()

STUDIES, WORKERS, CONFLICTS, REWARDS, TRACE = 50, 50, 20, 50, 12
"""Rows of the tables."""
SYMBOLS = {
    Status.RUNNING: "▶",
    Status.WAITING: "…",
    Status.DECIDED: "✓",
    Status.BUDGET: "◼",
    Status.STOPPED: "❚❚",
    Status.ENDED: "◼",
}
LARGE = 10**15
"""Budgets from here on are not written out."""
MIN_SHARE = 4.0
"""Width of the narrowest part of a bar of 1000 that can be seen."""
COLUMNS = (
    ("label", "Arm"),
    ("interest", "Decision"),
    ("mean", "Mean"),
    ("", "Interval"),
    ("samples", "Samples"),
    ("evidence", "Odds"),
    ("needed", "Still needed"),
    ("decided", "Decided after"),
)
"""Columns of the table of arms: what sorts by them, and their headings."""


RECENT = "-seen"
STATES = {
    "": "All",
    "running": "Running",
    "waiting": "Waiting",
    "decided": "Decided",
    "budget": "Budget used up",
    "stopped": "Stopped",
}
STUDY_COLUMNS = {
    "name": "Study",
    "status": "State",
    "decided": "Decided",
    "outliers": "Outliers",
    "results": "Results",
    "rate": "A minute",
    "seen": "Last active",
}
"""Columns of the list of studies, by what sorts by them."""


# All studies


@router.get("/")
def studies(request: Request, principal: Anybody) -> Response:
    """Return a page of the list of studies; a token for one study is sent there."""
    link = links_of(request)
    if principal.token.study is not None:
        return see(link("studies", principal.token.study_name or ""))
    query, storage = request.query_params, state_of(request).storage
    search, wanted = query.get("q", "")[:MAX_SEARCHED].strip(), positive(query.get("page"), 1)
    sort = query.get("sort", RECENT)
    sort = sort if sort.removeprefix("-") in SORTS else RECENT
    status = query.get("state", "")
    status = status if status in STATES else ""
    found = storage.list(search, STUDIES, (wanted - 1) * STUDIES, sort=sort, status=status)
    page = Page(wanted, STUDIES, found.total)
    if page.number != wanted:
        found = storage.list(search, STUDIES, page.first - 1, sort=sort, status=status)

    def address(number: int = 1, **changes: str) -> str:
        chosen = {"q": search, "state": status, "sort": sort, **changes}
        chosen["sort"] = "" if chosen["sort"] == RECENT else chosen["sort"]
        return link(**chosen, page="" if number == 1 else str(number))

    return render(
        request,
        "studies.html",
        here="studies",
        page=replace(page, rows=found),
        symbols=SYMBOLS,
        search=search,
        state=status,
        states=STATES,
        sort=sort,
        columns=STUDY_COLUMNS,
        address=address,
    )


@router.get("/studies")
def all_studies(request: Request) -> Response:
    """Redirect to the list of studies."""
    return see(links_of(request)())


# A study


@router.get("/studies/{name}")
def study_page(request: Request, study: StudyToRead) -> Response:
    """Return the page of a study."""
    return whole_page(request, study)


def whole_page(
    request: Request, study: StudyToRead, status: int = 200, given: Mapping[str, str] | None = None
) -> Response:
    """Return the page of a study; `given` is a refused entry of its form, and the problem."""
    view = view_of(request, study)
    context: dict[str, Any] = {}
    for part in PARTS.values():
        context |= part(request, study, view)
    return render(
        request,
        "study.html",
        status,
        here="studies",
        name=study.name,
        pulse=view.pulse,
        question=sentence(view.question.sentence()),
        picture_words=_picture_words(view),
        rows=ROWS,
        given=given,
        **context,
    )


@router.get("/studies/{name}/parts/{part}")
def study_part(request: Request, study: StudyToRead, part: str) -> Response:
    """Return a part of the page as it is now."""
    if part not in PARTS:
        raise HTTPException(404)
    view = view_of(request, study)
    context = PARTS[part](request, study, view)
    return render(
        request, f"parts/{part}.html", name=study.name, pulse=view.pulse, given=None, **context
    )


def _summary(_request: Request, _study: StudyToRead, view: View) -> dict[str, Any]:
    """Return the answer so far, in the words of every other report."""
    overview, result = view.overview, view.result
    first, *more = map(sentence, headline(result))
    _, _, meaning = status_text(overview.status).partition(": ")
    return {
        "state": overview.status.value,
        "final": overview.status.final,
        "symbol": SYMBOLS.get(overview.status, "!"),
        "meaning": overview.stopped if overview.status is Status.STOPPED else meaning,
        "first": first,
        "more": more,
        "facts": [*_answer_facts(view), *_study_facts(view)],
        "shares": _shares(view),
        "counts": _counts(view),
    }


def _answer_facts(view: View) -> list[tuple[str, str]]:
    """Return the facts of the answer; the badge shows the status already."""
    return [(name, text) for name, text in facts(view.result) if name != "status"]


def _study_facts(view: View) -> list[tuple[str, str]]:
    overview, budget = view.overview, view.question.budget
    found = [("pulls under way", f"{overview.live:,}")]
    if budget is not None:
        found.append(("budget", f"{budget:,} pulls" if budget < LARGE else f"over {LARGE:,} pulls"))
    if overview.conflicts:
        found.append(("refused results", f"{overview.conflicts:,}"))
    return found


def _counts(view: View) -> list[tuple[Kind, str]]:
    """Return how many arms there are of each kind that the question asks for, in words."""
    sides = {"upper": Decision.HIGH, "lower": Decision.LOW}
    asked = {sides[side] for side in view.question.sides}
    always = {Decision.UNDECIDED, Decision.NORMAL} | asked
    return [
        (KINDS[decision], f"{count:,} {_plural(KINDS[decision].title, count)}")
        for decision, count in view.counts.items()
        if count or decision in always
    ]


def _plural(title: str, count: int) -> str:
    return title if count == 1 else title.replace("outlier", "outliers")


def _shares(view: View) -> list[dict[str, str]]:
    """Return the parts of a bar of width 1000, one for each kind of arm."""
    order = (Decision.HIGH, Decision.LOW, Decision.NORMAL, Decision.UNDECIDED)
    widths = {
        decision: max(1000.0 * view.counts[decision] / view.n, MIN_SHARE)
        for decision in order
        if view.counts[decision]
    }
    scale, x, parts = 1000.0 / sum(widths.values()), 0.0, []
    for decision, width in widths.items():
        name = KINDS[decision].name
        parts.append({"kind": name, "x": f"{x:.2f}", "width": f"{width * scale:.2f}"})
        x += width * scale
    return parts


def _picture_words(view: View) -> str:
    kinds = ", ".join(words for _, words in _counts(view))
    known = "; ".join(f"{name} {text}" for name, text in _thresholds(view))
    return f"Intervals of {view.n:,} arms, sorted by mean: {kinds}; {known}."


def _thresholds(view: View) -> list[tuple[str, str]]:
    return facts(view.result)[: len(view.result.thresholds)]


def _arms(request: Request, study: StudyToRead, view: View) -> dict[str, Any]:
    """Return a page of the table of arms."""
    choice, link = Choice.of(request.query_params), links_of(request)
    arms = view.arms(choice)
    page = Page(choice.page, ROWS, arms.size)
    shown = arms[max(page.first - 1, 0) : page.end]

    def address(number: int) -> str:
        return link("studies", study.name, **choice.query(page=number)) + "#arms"

    chips = ("all", "outlier", "undecided", "normal")
    return {
        "choice": choice,
        "arms": replace(page, rows=view.rows(shown)),
        "arms_address": address,
        "columns": COLUMNS,
        "chips": [(kind, FILTERS[kind][0], f"{int(view.are(kind).sum()):,}") for kind in chips],
    }


def _trace(_request: Request, _study: StudyToRead, view: View) -> dict[str, Any]:
    """Return a few moments of the search as a table."""
    trace = view.result.trace
    places = np.unique(np.linspace(0, len(trace) - 1, min(TRACE, len(trace))).astype(int))
    rows = []
    for point in (trace[place] for place in places):
        values = (point.threshold, point.threshold_lower, point.threshold_upper)
        evidence = (point.evidence_least, point.evidence_median)
        rows.append(
            [
                f"{point.pulls:,}",
                f"{point.undecided:,}",
                *(number(value, view.style) for value in values),
                *("-" if log is None else f"{log / np.log(10.0):.1f}" for log in evidence),
            ]
        )
    return {"trace": rows}


def _workers(_request: Request, study: StudyToRead, _view: View) -> dict[str, Any]:
    """Return the workers that were seen last."""
    found = study.workers()
    never = datetime.min.replace(tzinfo=UTC)
    found.sort(key=lambda worker: worker.last_seen or never, reverse=True)
    return {"workers": found[:WORKERS], "all_workers": len(found)}


def _conflicts(request: Request, study: StudyToRead, view: View) -> dict[str, Any]:
    """Return a page of the stored conflicts, the latest first."""
    before = request.query_params.get("before")
    limit = positive(before, 0) or None
    stored = study.latest_conflicts(CONFLICTS + 1, limit) if view.overview.conflicts else []
    found = stored[:CONFLICTS]
    return {
        "conflicts": found,
        "all_conflicts": view.overview.conflicts,
        "before": "" if limit is None else str(limit),
        "older": str(found[-1].number) if len(stored) > CONFLICTS else "",
    }


def _manage(_request: Request, _study: StudyToRead, view: View) -> dict[str, Any]:
    budget = view.question.budget
    typed = "" if budget is None else str(min(budget, LARGE))
    return {"stopped": view.overview.stopped, "budget": typed}


def _holders(_request: Request, study: StudyToRead, view: View) -> dict[str, Any]:
    """Return who has the tickets that a waiting study waits for."""
    found = study.holders() if view.overview.status is Status.WAITING else []
    return {"holders": found[:WORKERS], "all_holders": len(found)}


Part = Callable[[Request, StudyToRead, View], dict[str, Any]]
PARTS: dict[str, Part] = {
    "summary": _summary,
    "holders": _holders,
    "arms": _arms,
    "trace": _trace,
    "workers": _workers,
    "conflicts": _conflicts,
    "manage": _manage,
}
"""Parts of the page of a study that are loaded again when the study has changed."""


# An arm


@router.get("/studies/{name}/arms/{arm}")
def arm_page(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return the page of an arm, by its number."""
    return _arm(request, study, arm, "arm.html")


@router.get("/studies/{name}/arms/{arm}/part")
def arm_part(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return the parts of an arm's page that change."""
    return _arm(request, study, arm, "parts/arm_news.html")


def _arm(request: Request, study: StudyToRead, arm: int, template: str) -> Response:
    view = view_of(request, study)
    check_arm(view, arm)
    unused = study.number_of(arm) - int(view.samples[arm])
    yet = "" if view.overview.status.final else " yet"
    row = view.rows(np.array([arm]))[0]
    return render(
        request,
        template,
        here="studies",
        name=study.name,
        pulse=view.pulse,
        row=row,
        worth=f"What is decided: {guarantee(view.question)}" if row["decided"] != "-" else "",
        thresholds=_thresholds(view),
        unused=f"{unused:,} more recorded, not used{yet}" if unused > 0 else "",
        mixed=bool(row["history"] and view.result.unused),
        latest=study.latest_of(arm, REWARDS),
        used=int(view.samples[arm]),
    )


def check_arm(view: View, arm: int) -> None:
    """Raise for a number that no arm has."""
    if not 0 <= arm < view.n:
        raise HTTPException(404)
