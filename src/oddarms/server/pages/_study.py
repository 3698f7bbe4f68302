"""The list of studies, the page of a study and the page of an arm.

Elements with the attribute `data-part` are loaded again when the study has changed, and after a
search, a link in a list or the head of a column (static/app.js).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from oddarms.algorithms import Decision
from oddarms.search import Status, facts, guarantee, headline, number, status_text
from oddarms.server._access import Anybody, StudyToRead
from oddarms.server._state import state_of
from oddarms.server.pages._rendering import link, render, see, sentence
from oddarms.server.pages._view import FILTERS, KINDS, ORDERS, Choice, Kind, Page, View, view_of
from oddarms.studies import SORTS, StoredStudy

router = APIRouter()

STUDIES, ARMS, WORKERS, CONFLICTS, REWARDS, TRACE = 50, 20, 50, 20, 50, 12
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
STATES = {
    "": "All",
    "running": "Running",
    "waiting": "Waiting",
    "decided": "Decided",
    "budget": "Budget used up",
    "stopped": "Stopped",
}
STUDY_COLUMNS = (
    ("name", "Study"),
    ("status", "State"),
    ("-decided", "Decided"),
    ("-outliers", "Outliers"),
    ("-results", "Results"),
    ("-rate", "A minute"),
    ("-seen", "Last active"),
)
ARM_COLUMNS = (
    ("label", "Arm"),
    ("interest", "Decision"),
    ("-mean", "Mean"),
    ("", "Interval"),
    ("-samples", "Samples"),
    ("-evidence", "Odds"),
    ("-needed", "Still needed"),
    ("decided", "Decided after"),
)
"""Columns of the tables: the order that their heads lead to first, and the heads."""


# All studies


@router.get("/")
def studies(request: Request, principal: Anybody) -> Response:
    """Return a page of the list of studies; a token for one study is sent there."""
    if principal.token.study is not None:
        return see(link(request, "studies", principal.token.study_name or ""))
    choice = Choice.of(request.query_params, STATES, SORTS, "-seen")
    storage, words = state_of(request).storage, {"sort": choice.sort, "status": choice.only}
    rows = storage.list(choice.search, STUDIES, (choice.page - 1) * STUDIES, **words)
    page = Page.of(choice.page, STUDIES, rows.total)
    if page.number != choice.page:
        rows = storage.list(choice.search, STUDIES, page.first - 1, **words)
    return render(
        request,
        "studies.html",
        here="studies",
        choice=choice,
        page=page,
        rows=rows,
        symbols=SYMBOLS,
        states=STATES,
        columns=STUDY_COLUMNS,
        address=lambda **changes: link(request, **choice.query(**changes)),
    )


@router.get("/studies")
def all_studies(request: Request) -> Response:
    """Redirect to the list of studies."""
    return see(link(request))


# A study


@router.get("/studies/{name}")
def study_page(request: Request, study: StudyToRead) -> Response:
    """Return the page of a study."""
    return whole_page(request, study)


def whole_page(
    request: Request, study: StoredStudy, status: int = 200, given: Mapping[str, str] | None = None
) -> Response:
    """Return the page of a study; `given` is a refused entry of its form, and the problem."""
    view = view_of(study)
    waits, budget = view.overview.status is Status.WAITING, view.question.budget
    return render(
        request,
        "study.html",
        status,
        here="studies",
        name=study.name,
        pulse=view.pulse,
        question=sentence(view.question.sentence()),
        picture_words=_picture_words(view),
        given=given,
        stopped=view.overview.stopped,
        budget="" if budget is None else str(min(budget, LARGE)),
        holders=study.holders() if waits else [],
        workers=_workers(study),
        shown=WORKERS,
        all_conflicts=view.overview.conflicts,
        conflicts=study.latest_conflicts(CONFLICTS) if view.overview.conflicts else [],
        trace=_trace(view),
        **_summary(view),
        **_arms(request, study, view),
    )


def _summary(view: View) -> dict[str, Any]:
    """Return the answer so far, in the words of every other report."""
    overview, result = view.overview, view.result
    first, *more = map(sentence, headline(result))
    _, _, meaning = status_text(overview.status).partition(": ")
    answered = [(name, text) for name, text in facts(result) if name != "status"]  # it has a badge
    return {
        "state": overview.status.value,
        "symbol": SYMBOLS.get(overview.status, "!"),
        "meaning": overview.stopped if overview.status is Status.STOPPED else meaning,
        "first": first,
        "more": more,
        "facts": [*answered, *_study_facts(view)],
        "shares": _shares(view),
        "counts": _counts(view),
    }


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
    found = []
    for decision, count in view.counts.items():
        title = KINDS[decision].title
        words = title if count == 1 else title.replace("outlier", "outliers")
        if count or decision in always:
            found.append((KINDS[decision], f"{count:,} {words}"))
    return found


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


def _arms(request: Request, study: StoredStudy, view: View) -> dict[str, Any]:
    """Return a page of the table of arms."""
    choice = Choice.of(request.query_params, FILTERS, ORDERS, "interest")
    arms = view.arms(choice)
    page = Page.of(choice.page, ARMS, arms.size)
    outliers = view.counts[Decision.HIGH] + view.counts[Decision.LOW]
    return {
        "choice": choice,
        "columns": ARM_COLUMNS,
        "page": page,
        "rows": view.rows(arms[page.first - 1 : page.end]),
        "page_size": ARMS,
        "address": lambda **changes: (
            link(request, "studies", study.name, **choice.query(**changes)) + "#arms"
        ),
        "chips": (
            ("", "All", view.n),
            ("outlier", "Outliers", outliers),
            ("undecided", "Undecided", view.counts[Decision.UNDECIDED]),
            ("normal", "Normal", view.counts[Decision.NORMAL]),
        ),
    }


def _trace(view: View) -> list[list[str]]:
    """Return a few moments of the search as rows of a table."""
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
    return rows


def _workers(study: StoredStudy) -> list[Any]:
    """Return all workers, the one seen last first."""
    never = datetime.min.replace(tzinfo=UTC)
    return sorted(study.workers(), key=lambda one: one.last_seen or never, reverse=True)


# An arm


@router.get("/studies/{name}/arms/{arm}")
def arm_page(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return the page of an arm, by its number."""
    view = view_of(study)
    check_arm(view, arm)
    unused = study.number_of(arm) - int(view.samples[arm])
    yet = "" if view.overview.status.final else " yet"
    row = view.rows(np.array([arm]))[0]
    return render(
        request,
        "arm.html",
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
