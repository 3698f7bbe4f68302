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
from oddarms.server.pages._words import Moment, arm_words, threshold

router = APIRouter()

LATEST = 50
"""Rewards in the table."""


@router.get("/studies/{name}/arms/{arm}")
def arm_page(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return the page of an arm, by its number."""
    now = snapshot_of(request, study)
    context = arm_part(now, arm)
    latest = [
        {
            "number": f"{trial.number:,}",
            "reward": f"{trial.reward:g}",
            "worker": "imported" if trial.ticket is None else visible(trial.worker or "–", 200),
            "told": Moment.of(trial.told),
        }
        for trial in study.latest_of(arm, LATEST)
    ]
    return render(
        request,
        "arm.html",
        here="studies",
        name=study.name,
        pulse=now.pulse,
        total=study.rewards_of(arm).size,
        shown=REWARDS,
        latest=latest,
        **context,
    )


@router.get("/studies/{name}/arms/{arm}/part")
def arm_news(request: Request, study: StudyToRead, arm: int) -> Response:
    """Return what is known of an arm now."""
    now = snapshot_of(request, study)
    context = arm_part(now, arm)
    return render(request, "parts/arm.html", name=study.name, pulse=now.pulse, **context)


@router.get("/studies/{name}/arms/{arm}/series.json")
def arm_data(request: Request, study: StudyToRead, arm: int) -> dict[str, Any]:
    """Return what the page draws."""
    now = snapshot_of(request, study)
    check_arm(now.view, arm)
    return arm_series(now.view, arm, study.rewards_of(arm))


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
