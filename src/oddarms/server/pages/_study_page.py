"""One study: the answer so far, its arms, its workers, and how it came about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from oddarms.documents import visible
from oddarms.server._access import StudyToRead
from oddarms.server.pages import _words as words
from oddarms.server.pages._arms import COLUMNS, ROWS, Choice, table_of
from oddarms.server.pages._rendering import links_of, render
from oddarms.server.pages._snapshots import Snapshot, snapshot_of
from oddarms.server.pages._timeline import moments, study_series
from oddarms.server.pages._view import View
from oddarms.server.pages._words import Moment
from oddarms.studies._study import StoredStudy

router = APIRouter()

COUNTED_AT_ONCE = 50_000
"""Results and tickets whose workers are counted before the page is answered, and not behind it."""
WORKERS = 50
CONFLICTS = 20
EVIDENCE = ("least", "median")
TRACE = 12
"""Rows of the tables of workers, conflicts and of the evidence over time."""


@router.get("/studies/{name}")
def study_page(request: Request, study: StudyToRead) -> Response:
    """Return the whole page."""
    return whole_page(request, study)


def whole_page(
    request: Request,
    study: StoredStudy,
    status: int = 200,
    given: Mapping[str, str] | None = None,
) -> Response:
    """Return the whole page; `given` is what was typed into a form of it, and what is wrong."""
    now = snapshot_of(request, study)
    view = now.view
    context = {
        name: value for part in PARTS.values() for name, value in part(request, study, now).items()
    }
    return render(
        request,
        "study.html",
        status,
        here="studies",
        name=study.name,
        pulse=now.pulse,
        question=words.sentence(view.question),
        picture_words=words.picture_words(view),
        rows=ROWS,
        given=given,
        **context,
    )


@router.get("/studies/{name}/parts/{part}")
def study_part(request: Request, study: StudyToRead, part: str) -> Response:
    """Return a part of the page, as it is now."""
    if part not in PARTS:
        raise HTTPException(404)
    now = snapshot_of(request, study)
    context = PARTS[part](request, study, now)
    return render(
        request, f"parts/{part}.html", name=study.name, pulse=now.pulse, given=None, **context
    )


def _summary(request: Request, study: StoredStudy, now: Snapshot) -> dict[str, Any]:  # noqa: ARG001
    return {"summary": words.summary(now.view, now.overview)}


def _arms(request: Request, study: StoredStudy, now: Snapshot) -> dict[str, Any]:
    view, choice, links = now.view, Choice.of(request.query_params), links_of(request)
    table = table_of(view, choice)

    def address(page: int) -> str:
        return links.study(study.name, choice.query(page=page)) + "#arms"

    return {
        "choice": choice,
        "arms": table,
        "arms_address": address,
        "columns": COLUMNS,
        "chips": _chips(view),
        "keys": words.counted(view),
    }


def _chips(view: View) -> list[dict[str, str]]:
    odd = view.counts["high"] + view.counts["low"]
    counts = {
        "all": view.n,
        "outlier": odd,
        "open": view.counts["open"],
        "normal": view.counts["normal"],
    }
    names = {"all": "All", "outlier": "Outliers", "open": "Undecided", "normal": "Normal"}
    return [{"kind": k, "name": names[k], "count": f"{count:,}"} for k, count in counts.items()]


def _decisions(request: Request, study: StoredStudy, now: Snapshot) -> dict[str, Any]:  # noqa: ARG001
    return {"moments": moments(now.view)}


def _workers(request: Request, study: StoredStudy, now: Snapshot) -> dict[str, Any]:  # noqa: ARG001
    whole = "part" not in request.path_params and "workers" not in request.query_params
    found = study.workers_at_once(COUNTED_AT_ONCE) if whole else study.workers()
    if found is None:
        return {"workers": None, "more_workers": ""}
    long_ago = datetime.min.replace(tzinfo=UTC)
    found.sort(key=lambda worker: worker.last_seen or long_ago, reverse=True)
    rows = [
        {
            "name": None if worker.name is None else visible(worker.name, 200),
            "pulls": f"{worker.pulls:,}",
            "rate": "–" if worker.rate is None else _rate_text(worker.rate),
            "live": f"{worker.live:,}",
            "seen": Moment.of(worker.last_seen),
        }
        for worker in found[:WORKERS]
    ]
    more = f"{len(found):,}" if len(found) > WORKERS else ""
    return {"workers": rows, "more_workers": more}


def _rate_text(rate: float) -> str:
    """Return results a second.

    Examples
    --------
    >>> _rate_text(2941.2), _rate_text(0.01234)
    ('2,941', '0.0123')
    """
    return f"{rate:,.0f}" if rate >= 100.0 else f"{rate:.3g}"


def _conflicts(request: Request, study: StoredStudy, now: Snapshot) -> dict[str, Any]:  # noqa: ARG001
    count = now.overview.conflicts
    found = study.latest_conflicts(CONFLICTS) if count else []
    rows = [
        {
            "arm": visible(row.arm, 200),
            "first": f"{row.first:g}",
            "second": f"{row.second:g}",
            "worker": "–" if row.worker is None else visible(row.worker, 200),
            "told": Moment.of(row.told),
        }
        for row in found
    ]
    return {"conflicts": rows, "more_conflicts": f"{count:,}" if count > len(rows) else ""}


def _trace(view: View) -> list[list[str]]:
    """Return a few moments of the evidence over time, for readers of tables."""
    series = study_series(view)
    total = len(series["pulls"])
    if not total:
        return []
    places = np.unique(np.linspace(0, total - 1, min(TRACE, total)).astype(int)).tolist()
    return [
        [f"{series['pulls'][i]:,}", f"{series['open'][i]:,}"]
        + [
            "–" if series[key][i] is None else view.number(series[key][i])
            for key in ("threshold", "lower", "upper")
        ]
        + ["–" if series[key][i] is None else f"{series[key][i]:.1f}" for key in EVIDENCE]
        for i in places
    ]


def _trace_part(request: Request, study: StoredStudy, now: Snapshot) -> dict[str, Any]:  # noqa: ARG001
    return {"trace": _trace(now.view)}


def _manage(request: Request, study: StoredStudy, now: Snapshot) -> dict[str, Any]:  # noqa: ARG001
    budget = now.view.question.budget
    return {"stopped": now.overview.stopped, "budget": "" if budget is None else f"{budget:,}"}


Part = Callable[[Request, StoredStudy, Snapshot], dict[str, Any]]
PARTS: dict[str, Part] = {
    "summary": _summary,
    "arms": _arms,
    "decisions": _decisions,
    "trace": _trace_part,
    "workers": _workers,
    "conflicts": _conflicts,
    "manage": _manage,
}
"""Parts of the page that are loaded anew when something has happened."""
