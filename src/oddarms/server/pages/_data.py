"""Data that the pages draw, and files to download."""

from __future__ import annotations

import math
import tempfile
import threading
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Response

from oddarms.algorithms import Decision
from oddarms.plotting import file_content, plot_intervals
from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.report import arms_csv, result_json, write_report
from oddarms.server._access import StudyToRead
from oddarms.server._state import one_at_a_time
from oddarms.server.pages._study import check_arm
from oddarms.server.pages._view import KINDS, View, view_of
from oddarms.statistics.evidence import mean_interval

router = APIRouter()

MAX_WIDTH = 4_000
"""Pixels of the picture of intervals."""
LABELLED = 400
"""Up to so many arms, the picture has their labels."""
OVER_TIME = ("threshold", "threshold_lower", "threshold_upper")
EVIDENCE = tuple(f"evidence_{x}" for x in ("least", "lower_quartile", "median", "upper_quartile"))
"""Lines of the plots of a study."""
POINTS = 400
"""Of a line in a plot."""
REWARDS = 1_500
"""The latest rewards of an arm, which are drawn one by one."""
KINDS_OF_FILES = {"html": "text/html", "csv": "text/csv", "json": "application/json"}
MARKED = (Decision.UNDECIDED, Decision.LOW, Decision.HIGH)
"""Kinds whose means are marked one by one; later ones cover earlier ones."""

_drawing = threading.Lock()


# Files


@router.get("/studies/{name}/picture.png")
def picture_image(study: StudyToRead) -> Response:
    """Return the picture of the intervals as an image, for readers without scripts."""
    result = view_of(study).result
    with one_at_a_time(_drawing, "Drawing"):
        return Response(file_content(plot_intervals(result), "png"), media_type="image/png")


@router.get("/studies/{name}/download/{file}")
def download(
    study: StudyToRead, file: Literal["report.html", "arms.csv", "result.json"]
) -> Response:
    """Return a file as `find` writes it; in the table, no spreadsheet runs a label."""
    result, kind = study.result(), file.partition(".")[2]
    if kind == "json":
        content = result_json(result).encode()
    elif kind == "csv":
        content = arms_csv(result, raw=False).encode("utf-8", "backslashreplace")
    else:
        with (
            one_at_a_time(_drawing, "Drawing"),
            tempfile.TemporaryDirectory(prefix="oddarms-") as folder,
        ):
            content = write_report(result, folder, title=study.name).read_bytes()
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in study.name)
    exact = quote(f"{study.name}.{kind}", safe="")
    said = f"attachment; filename=\"{plain}.{kind}\"; filename*=UTF-8''{exact}"
    return Response(content, media_type=KINDS_OF_FILES[kind], headers={"Content-Disposition": said})


# The picture of all intervals


@router.get("/studies/{name}/picture.json")
def picture(
    study: StudyToRead, width: Annotated[int, Query(ge=50, le=MAX_WIDTH)] = 800
) -> dict[str, Any]:
    """Return what a canvas of some width draws: all arms, sorted by mean, in columns.

    A column stands for one arm or several that are next to each other by mean: `lower` and `upper`
    are the outermost ends of their intervals, `least` and `most` their means, `counts` how many
    there are of each kind, and `marks` the outermost means of the kinds that are marked. A
    column's first arm has the place `starts` in the order of the means.
    """
    view = view_of(study)
    result, order = view.result, view.order("mean")
    starts = np.linspace(0, view.n, min(view.n, width) + 1).astype(np.int64)[:-1]
    means, decisions = result.means[order], result.decisions[order]
    low = np.minimum.reduceat(result.intervals[order, 0], starts)
    high = np.maximum.reduceat(result.intervals[order, 1], starts)
    kinds = {decision: decisions == decision for decision in KINDS}
    labelled = order.tolist() if view.n <= LABELLED else None
    return {
        "n": view.n,
        "starts": starts.tolist(),
        "lower": _numbers(low),
        "upper": _numbers(high),
        "least": _numbers(np.fmin.reduceat(means, starts)),
        "most": _numbers(np.fmax.reduceat(means, starts)),
        "counts": {
            KINDS[decision].name: np.add.reduceat(mask, starts, dtype=np.int64).tolist()
            for decision, mask in kinds.items()
        },
        "marks": {KINDS[kind].name: _marks(means, kinds[kind], starts) for kind in MARKED},
        "thresholds": _thresholds(view),
        "range": _numbers(np.array(_range(view, low, high))),
        "labels": None if labelled is None else [view.label(arm) for arm in labelled],
        "arms": labelled,
    }


def _marks(means: FloatArray, mask: BoolArray, starts: IntArray) -> dict[str, Any]:
    """Return the columns that have arms of a kind, with their smallest and largest mean."""
    low = np.minimum.reduceat(np.where(mask, np.nan_to_num(means, nan=np.inf), np.inf), starts)
    high = np.maximum.reduceat(np.where(mask, np.nan_to_num(means, nan=-np.inf), -np.inf), starts)
    there = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    return {"at": there.tolist(), "low": _numbers(low[there]), "high": _numbers(high[there])}


def _thresholds(view: View) -> dict[str, list[float | None]]:
    """Return estimate and interval of each threshold that is known, within the bounds."""
    return {
        side: _numbers(np.clip(bound, *view.question.bounds))
        for side, bound in view.result.thresholds.items()
        if np.isfinite(bound).all()
    }


def _range(view: View, low: FloatArray, high: FloatArray) -> tuple[float, float]:
    """Return what the vertical axis shows: intervals and thresholds, within the bounds."""
    a, b = view.question.bounds
    ends = [x for bound in view.result.thresholds.values() for x in bound if math.isfinite(x)]
    least, most = min([float(low.min()), *ends]), max([float(high.max()), *ends])
    edge = 0.02 * max(most - least, 1e-9 * (b - a))
    return max(least - edge, a), min(most + edge, b)


def _numbers(values: FloatArray) -> list[float | None]:
    """Return numbers with the digits that a plot shows; None for those that are not finite."""
    return [float(f"{x:.6g}") if math.isfinite(x) else None for x in values.tolist()]


# A study over time


@router.get("/studies/{name}/series.json")
def series(study: StudyToRead) -> dict[str, Any]:
    """Return decisions, the first threshold and the evidence as functions of the pulls.

    Evidence is a logarithm to the base 10: 3 is a bet won 1000 to 1.
    """
    view = view_of(study)
    trace, bounds = view.result.trace, view.question.bounds

    def column(name: str) -> FloatArray:
        return np.array([getattr(point, name) for point in trace], dtype=float)

    return {
        "pulls": [point.pulls for point in trace],
        **{name: _numbers(np.clip(column(name), *bounds)) for name in OVER_TIME},
        **{name: _numbers(column(name) / math.log(10.0)) for name in EVIDENCE},
        "bounds": list(bounds),
        "decided": _decided(view),
    }


def _decided(view: View) -> dict[str, list[int]]:
    """Return how many arms were decided after how many pulls."""
    result = view.result
    after = np.full(view.n, -1) if result.decided_after is None else result.decided_after
    odd, normal = (
        np.sort(after[mask & (after >= 0)])
        for mask in (result.decisions >= Decision.HIGH, result.decisions == Decision.NORMAL)
    )
    pulls = np.unique(np.concatenate([[0], odd, normal, [result.pulls]]))
    if pulls.size > POINTS:
        pulls = pulls[np.unique(np.linspace(0, pulls.size - 1, POINTS).astype(np.int64))]
    return {
        "pulls": pulls.tolist(),
        "outliers": np.searchsorted(odd, pulls, side="right").tolist(),
        "normal": np.searchsorted(normal, pulls, side="right").tolist(),
    }


# An arm over time


@router.get("/studies/{name}/arms/{arm}/series.json")
def arm_series(study: StudyToRead, arm: int) -> dict[str, Any]:
    """Return an arm's rewards in the order of their places, their mean and its interval.

    The intervals of all n arms hold together, at all times, with probability 1 - delta.
    """
    view = view_of(study)
    check_arm(view, arm)
    rewards = study.rewards_of(arm, int(view.samples[arm]))
    a, b = view.question.bounds
    places = _places(rewards.size)
    scaled, counts = (np.clip(rewards, a, b) - a) / (b - a), places.astype(np.float64)
    sums, squares = np.cumsum(scaled)[places - 1], np.cumsum(scaled**2)[places - 1]
    scatter = np.maximum(squares - sums**2 / counts, 0.0)
    low, high = mean_interval(counts, sums, scatter, view.question.delta / view.n)
    first = max(rewards.size - REWARDS, 0)
    return {
        "total": int(rewards.size),
        "places": places.tolist(),
        "mean": _numbers(a + (b - a) * sums / counts),
        "lower": _numbers(a + (b - a) * low),
        "upper": _numbers(a + (b - a) * high),
        "first": first + 1,
        "rewards": _numbers(rewards[first:]),
        "thresholds": {side: bound[0] for side, bound in _thresholds(view).items()},
        "bounds": [a, b],
    }


def _places(total: int) -> IntArray:
    """Return after how many rewards to look; of many, evenly on a logarithmic scale."""
    if total <= POINTS:
        return np.arange(1, total + 1)
    return np.unique(np.geomspace(1, total, POINTS).round().astype(np.int64))
