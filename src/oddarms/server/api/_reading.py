"""What is known of a study."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from math import isfinite
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from oddarms.server._access import StudyToRead
from oddarms.server._limits import Dear
from oddarms.server.api._common import OF_BODY, OF_STUDY, answered, tagged, unchanged
from oddarms.server.api._models import (
    Changes,
    ConflictsOut,
    Document,
    PulseOut,
    RevisionsOut,
    StatusOut,
    TrialsOut,
    VerifiedOut,
    WorkersOut,
)
from oddarms.studies import Conflict, Trial
from oddarms.studies._documents import plain, trials_as_csv
from oddarms.studies._limits import MOST_RESULTS
from oddarms.studies._study import StoredStudy

PAGE = 1000
EXPORTED_AT_A_TIME = 5000
"""Each part is read in a transaction of its own: a slow reader keeps nobody waiting."""

After = Annotated[int, Query(ge=0, le=2**62)]
Most = Annotated[int, Query(ge=1, le=MOST_RESULTS)]

router = APIRouter(prefix="/studies/{name}", tags=["results"])
_verifying = Dear("the verification of a study")
_trying = Dear("a look at what another question would give", waiting=2)


@router.get("/result", summary="The result document", responses=OF_STUDY, response_model=Document)
def result(request: Request, study: StudyToRead, snapshots: bool = False) -> Response:
    """Return what is known, as `result.json` has it; with an ETag that changes with the study."""
    tag = f'"{study.pulse()}{int(snapshots)}"'
    document = study.result().to_dict(snapshots=snapshots)
    return unchanged(request, tag) or answered(document, headers=tagged(tag))


@router.get("/progress", summary="How far it is", responses=OF_STUDY, response_model=Document)
def progress(study: StudyToRead) -> Response:
    """Return pulls, open arms, the threshold and about how many pulls are needed."""
    values = asdict(study.progress())
    return answered({name: _finite(value) for name, value in values.items()})


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value


@router.get(
    "/status", summary="Where it stands, in a word", responses=OF_STUDY, response_model=StatusOut
)
def status(study: StudyToRead) -> Response:
    """Return the status: running, waiting, decided, budget or stopped."""
    found = study.status
    return answered({"status": found.value, "done": found.final})


@router.get(
    "/pulse",
    summary="Changes when anything has changed",
    responses=OF_STUDY,
    response_model=PulseOut,
)
def pulse(study: StudyToRead) -> Response:
    """Return a short text that is another one once anything of the study has changed."""
    return answered({"pulse": study.pulse()})


@router.get("/trials", summary="Recorded results", responses=OF_STUDY, response_model=TrialsOut)
def trials(study: StudyToRead, after: After = 0, most: Most = PAGE) -> Response:
    """Return results in the order of recording, after a number; `next` is where to go on."""
    return _page("trials", list(study.trials(after=after, most=most)), most)


class Exported(StrEnum):
    """The form of an export."""

    CSV = "csv"
    LINES = "jsonl"


@router.get(
    "/export",
    summary="All results as a stream",
    responses={200: {"content": {"text/csv": {}, "application/x-ndjson": {}}}, **OF_STUDY},
    response_class=StreamingResponse,
)
def export(
    study: StudyToRead, how: Annotated[Exported, Query(alias="format")] = Exported.CSV
) -> StreamingResponse:
    """Return every result in the order of recording, as CSV or as lines of JSON.

    In CSV a text that a spreadsheet would run has an apostrophe before it.
    """
    every = _every_trial(study)
    csv = how is Exported.CSV
    lines = trials_as_csv(every, for_spreadsheets=True) if csv else _lines(every)
    kind = "text/csv; charset=utf-8" if how is Exported.CSV else "application/x-ndjson"
    disposition = f"attachment; filename*=UTF-8''{quote(study.name, safe='')}.{how.value}"
    return StreamingResponse(
        _in_parts(lines), media_type=kind, headers={"Content-Disposition": disposition}
    )


def _every_trial(study: StoredStudy) -> Iterator[Trial]:
    after: int | None = 0
    while after is not None:
        part = list(study.trials(after=after, most=EXPORTED_AT_A_TIME))
        yield from part
        after = part[-1].number if len(part) == EXPORTED_AT_A_TIME else None


def _lines(trials: Iterator[Trial]) -> Iterator[str]:
    for trial in trials:
        yield json.dumps(plain(trial)) + "\n"


def _in_parts(lines: Iterator[str], size: int = 2**16) -> Iterator[str]:
    part: list[str] = []
    length = 0
    for line in lines:
        part.append(line)
        length += len(line)
        if length >= size:
            yield "".join(part)
            part, length = [], 0
    yield "".join(part)


@router.get(
    "/conflicts",
    summary="Results that were refused",
    responses=OF_STUDY,
    response_model=ConflictsOut,
)
def conflicts(study: StudyToRead, after: After = 0, most: Most = PAGE) -> Response:
    """Return results that differ from the first of their ticket; three of a ticket are kept."""
    return _page("conflicts", study.conflicts(after=after, most=most), most)


def _page(name: str, found: Sequence[Trial | Conflict], most: int) -> Response:
    following = found[-1].number if len(found) == most else None
    return answered({name: [plain(one) for one in found], "next": following})


@router.get(
    "/revisions", summary="Changes of the question", responses=OF_STUDY, response_model=RevisionsOut
)
def revisions(study: StudyToRead) -> Response:
    """Return all changes of the question, in their order; labels are numbers."""
    return answered({"revisions": [plain(one) for one in study.revisions()]})


@router.get(
    "/workers", summary="Who has worked on it", responses=OF_STUDY, response_model=WorkersOut
)
def workers(study: StudyToRead) -> Response:
    """Return every worker with tickets, results, rate, and when it was last seen."""
    return answered({"workers": [plain(one) for one in study.workers()]})


@router.post(
    "/what-if",
    summary="What another question would give",
    responses=OF_BODY,
    response_model=Document,
)
def what_if(study: StudyToRead, body: Changes) -> Response:
    """Return the result document of a changed question on the same samples; changes nothing."""
    with _trying:
        return answered(study.what_if(body.model_dump()).to_dict())


@router.get("/verify", summary="Replay the log", responses=OF_STUDY, response_model=VerifiedOut)
def verify(study: StudyToRead) -> Response:
    """Hold everything stored against the log; one study at a time."""
    with _verifying:
        found = study.verify()
    document = {"results": found.results, "chain": found.chain, "problems": found.problems}
    return answered({"ok": found.ok, **document})
