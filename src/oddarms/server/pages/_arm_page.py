"""One arm: its rewards over time, and what they say."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from oddarms.documents import visible
from oddarms.search import Result
from oddarms.server._access import StudyToRead
from oddarms.server.pages._arm_series import REWARDS, arm_series
from oddarms.server.pages._arms import arm_row
from oddarms.server.pages._rendering import render
from oddarms.server.pages._snapshots import Snapshot, snapshot_of
from oddarms.server.pages._view import View
from oddarms.server.pages._words import Moment, arm_words, not_yet, threshold
from oddarms.studies._study import StoredStudy

router = APIRouter()

LATEST = 50
"""Rewards in the table."""


@router.get("/studies/{name}/arms/{arm}")
def arm_page(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return the page of an arm, by its number."""
    return _rendered(request, study, arm, "arm.html", here="studies", shown=REWARDS)


@router.get("/studies/{name}/arms/{arm}/part")
def arm_news(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return what is known of an arm now."""
    return _rendered(request, study, arm, "parts/arm_news.html")


def _rendered(
    request: Request, study: StoredStudy, arm: int, template: str, **context: Any
) -> Response:
    now = snapshot_of(request, study)
    known = arm_part(now, arm)  # which refuses an arm that is not there
    return render(
        request,
        template,
        name=study.name,
        pulse=now.pulse,
        latest=_latest(study, now.view, arm),
        unused=_unused(study, now, arm),
        **known,
        **context,
    )


def _latest(study: StoredStudy, view: View, arm: int) -> list[dict[str, Any]]:
    """Return the latest rewards; those that are used have the numbers that the plots have."""
    number, used = int(view.samples_per_arm[arm]), int(view.result.pulls_per_arm[arm])
    rows = []
    for trial in study.latest_of(arm, LATEST):
        is_used = trial.place is None or trial.place < used
        rows.append(
            {
                "number": f"{number:,}" if is_used else "",
                "reward": f"{trial.reward:g}",
                "worker": "imported" if trial.ticket is None else visible(trial.worker or "–", 200),
                "told": Moment.of(trial.told),
            }
        )
        number -= is_used
    return rows


def _unused(study: StoredStudy, now: Snapshot, arm: int) -> str:
    """Return how many rewards of an arm are recorded that the search has not used."""
    more = study.number_of(arm) - int(now.view.samples_per_arm[arm])
    return f"{more:,} more recorded, not used{not_yet(now.overview)}" if more > 0 else ""


@router.get("/studies/{name}/arms/{arm}/series.json")
def arm_data(request: Request, study: StudyToRead, arm: int) -> dict[str, Any]:
    """Return what the page draws."""
    now = snapshot_of(request, study)
    check_arm(now.view, arm)
    used = int(now.view.result.pulls_per_arm[arm])
    return arm_series(now.view, arm, study.rewards_of(arm, used))


def arm_part(now: Snapshot, arm: int) -> dict[str, Any]:
    """Return what is known of an arm."""
    view = now.view
    check_arm(view, arm)
    nearest = _nearest_side(view.result, arm)
    _, value, more = threshold(view, nearest)
    return {
        "row": arm_row(view, arm),
        "words": arm_words(view, arm),
        "threshold": value,
        "threshold_more": more,
    }


def _nearest_side(result: Result, arm: int) -> str:
    mean = float(result.means[arm])
    sides = result.thresholds
    return min(sides, key=lambda side: abs(sides[side].estimate - mean))


def check_arm(view: View, arm: int) -> None:
    """Refuse the number of an arm that is not there."""
    if not 0 <= arm < view.n:
        raise HTTPException(404)
