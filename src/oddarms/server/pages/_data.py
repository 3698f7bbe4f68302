"""What the pages draw, and files to take away."""

from __future__ import annotations

import tempfile
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from oddarms.reports import arms_csv, result_json, write_report
from oddarms.search import Result
from oddarms.server._access import StudyToRead
from oddarms.server._limits import Dear
from oddarms.server.pages._paging import whole
from oddarms.server.pages._picture import interval_columns
from oddarms.server.pages._snapshots import snapshot_of
from oddarms.server.pages._svg import interval_svg
from oddarms.server.pages._timeline import decided_series, study_series

router = APIRouter()

_drawing = Dear("the drawing of a report", waiting=3)


@router.get("/studies/{name}/picture.json")
def picture(request: Request, study: StudyToRead) -> dict[str, Any]:
    """Return the interval picture for a canvas of some width."""
    width = whole(request.query_params.get("width"), 800)
    return interval_columns(snapshot_of(request, study).view, width)


@router.get("/studies/{name}/picture.svg")
def picture_image(request: Request, study: StudyToRead) -> Response:
    """Return the interval picture as an image."""
    content = interval_svg(snapshot_of(request, study).view)
    return Response(content, media_type="image/svg+xml")


@router.get("/studies/{name}/series.json")
def series(request: Request, study: StudyToRead) -> dict[str, Any]:
    """Return decisions and evidence over time."""
    view = snapshot_of(request, study).view
    return {**study_series(view), "decided": decided_series(view)}


@router.get("/studies/{name}/download/report.html")
def report(study: StudyToRead) -> Response:
    """Return the whole story as one page to keep."""
    return _file(_report_of(study.result(), study.name), "text/html", study.name, "html")


@router.get("/studies/{name}/download/arms.csv")
def table(study: StudyToRead) -> Response:
    """Return a row for each arm, safe to open in a spreadsheet."""
    text = arms_csv(study.result(), raw=False).encode("utf-8", "backslashreplace")
    return _file(text, "text/csv", study.name, "csv")


@router.get("/studies/{name}/download/result.json")
def document(study: StudyToRead) -> Response:
    """Return the one result document."""
    return _file(result_json(study.result()).encode(), "application/json", study.name, "json")


def _report_of(result: Result, name: str) -> bytes:
    with _drawing, tempfile.TemporaryDirectory(prefix="oddarms-") as folder:
        return write_report(result, folder, title=name).read_bytes()


def _file(content: bytes, kind: str, name: str, ending: str) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
    whole_name = quote(f"{name}.{ending}", safe="")
    said = f"attachment; filename=\"{plain}.{ending}\"; filename*=UTF-8''{whole_name}"
    return Response(content, media_type=kind, headers={"Content-Disposition": said})
