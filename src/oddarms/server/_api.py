"""The HTTP API: ``/api/v1`` for workers, ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from oddarms.errors import InvalidParameter
from oddarms.problem import DEFAULT_DELTA
from oddarms.search import PREFETCH, Tickets
from oddarms.server._access import (
    Admin,
    Anybody,
    StudyToChange,
    StudyToRead,
    StudyToWork,
    audit,
    current,
    reader,
)
from oddarms.server._problems import Problem
from oddarms.server._state import MAX_ARMS, one_at_a_time, state_of
from oddarms.server._tokens import LONGEST, MAX_NOTE, Role
from oddarms.studies import LEASE, Holder, StoredStudy, Told, Trial, WorkerRecord, wire
from oddarms.tables import csv_text

PAGE = 1000
EXPORTED_AT_A_TIME = 5000
"""Results of one page of an export; each is read in a transaction of its own."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem (RFC 9457).",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemOut"}}
        },
    }
}

Document = dict[str, Any]
Reward = Annotated[Any, Field(json_schema_extra={"type": "number"})]
"""Checked by the study, whose error says what is wrong."""
Label = StrictStr | StrictInt
Text = Annotated[str, Field(max_length=wire.MAX_TEXT)]
Key = Annotated[str, Field(max_length=wire.MAX_KEY)]
Lease = Annotated[float, Field(gt=0.0, le=1e9, allow_inf_nan=False, description="Seconds.")]
"""The study checks it: how long it may be is a setting of the server."""
TicketId = Annotated[str, Field(max_length=wire.MAX_TICKET_ID)]
TicketIds = Annotated[list[TicketId], Field(max_length=wire.MAX_RESULTS, fail_fast=True)]


# Bodies of requests; the library itself checks what the values mean


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, values: Any) -> Any:
        """Refuse a great many members at once: Pydantic would make an error of each."""
        if isinstance(values, dict) and len(values) > len(cls.model_fields):
            known = ", ".join(cls.model_fields)
            said = "It has {count} members, and there are only {known}"
            raise PydanticCustomError("members", said, {"count": len(values), "known": known})
        return values


class NewStudy(_Body):
    """A study to create: its arms, and the words of a `Question`."""

    name: str = Field(min_length=1, max_length=200)
    arms: Annotated[list[Label], Field(fail_fast=True)] | int = Field(
        description=f"Labels, texts or whole numbers, at most {MAX_ARMS:,}; or how many."
    )
    k: float | None = None
    delta: float = DEFAULT_DELTA
    bounds: tuple[float, float] = (0.0, 1.0)
    side: str = "upper"
    budget: int | None = None
    rule: str = "sigma"
    margin: float | None = None
    floor: float | None = None
    control: Label | None = None
    quantile: float | None = None
    error: str = "fwer"
    goal: str = "confidence"
    algorithm: str | None = None
    options: dict[str, Any] = Field({}, description="Options of the algorithm.")
    seed: int | None = Field(None, description="As a text if it is long; drawn if missing.")


class Ask(_Body):
    """How many pulls are wanted, and by whom."""

    n: int = Field(1, ge=1, le=wire.MAX_RESULTS)
    worker: Text | None = None
    lease: Lease = LEASE.total_seconds()
    prefetch: float = Field(PREFETCH, ge=0.0, allow_inf_nan=False)
    key: Key | None = Field(None, description="Repeat the request with it for the same tickets.")
    wait: float = Field(
        0.0, ge=0.0, le=wire.MAX_WAIT, description="Seconds to wait while there is nothing to do."
    )


class Tell(_Body):
    """Results of tickets."""

    results: list[tuple[TicketId, Reward]] = Field(
        max_length=wire.MAX_RESULTS, fail_fast=True, description="Pairs of ticket and reward."
    )
    worker: Text | None = None


class Skip(_Body):
    """Tickets to give back."""

    tickets: TicketIds
    reason: Text = ""


class Release(_Body):
    """A worker whose tickets are taken back; null for who asked without a name."""

    worker: Text | None
    reason: Text = ""


class Renew(_Body):
    """Tickets whose pulls are still under way."""

    tickets: TicketIds
    lease: Lease = LEASE.total_seconds()


class History(_Body):
    """Rewards from before the study, in their order."""

    rows: list[tuple[int, Reward]] = Field(
        max_length=wire.MAX_HISTORY,
        fail_fast=True,
        description="Pairs of an arm's number, from 0, and a reward.",
    )
    key: Key | None = Field(None, description="A second request with it records nothing.")


class Budget(_Body):
    """A larger budget; null for none."""

    budget: int | None


class Stop(_Body):
    """Why a study is stopped."""

    reason: Text = ""


class NewToken(_Body):
    """A token to be made."""

    role: Role
    study: Text | None = None
    note: str = Field("", max_length=MAX_NOTE)
    days: float | None = Field(None, gt=0.0, le=LONGEST.days)


# Answers


class ProblemOut(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str


def answered(document: Document) -> Response:
    """Return a large document as JSON, without validation: it was made here."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Response(text, media_type="application/json")


# Work

work = APIRouter(prefix="/api/v1/studies/{name}", tags=["work"], responses=PROBLEMS)


@work.post("/ask", response_model=Document)
async def ask(request: Request, study: StudyToWork, body: Ask) -> Response:
    """Hand out up to n pulls; fewer, or none, if there is nothing to do until results arrive.

    With `wait` it answers when there is something to do, or after so many seconds.
    """

    def asked() -> Tickets:
        return study.ask(body.n, body.worker, body.lease, prefetch=body.prefetch, key=body.key)

    state, token = state_of(request), current(request).token
    study.checked_ask(body.n, body.worker, body.lease, body.prefetch, body.key, body.wait)
    tickets = await state.waits.tickets(request, token, study, body, asked)
    state.metrics.leases.labels("granted").inc(len(tickets))
    document = {"status": tickets.status.value, "done": tickets.done, "decided": tickets.decided}
    ends = [wire.plain(ticket) for ticket in tickets[:1]]  # they end together
    listed = [vars(ticket) | {"expires": ends[0]["expires"]} for ticket in tickets]
    return answered({**document, "tickets": listed})


@work.post("/tell", response_model=dict[str, list[Told]])
def tell(request: Request, study: StudyToWork, body: Tell) -> Response:
    """Record results; when this answers they are stored for good. It may be repeated.

    The answer has for each result whether it was recorded, repeated, or in conflict with the first
    one.
    """
    told = study.tell_many(body.results, worker=body.worker)
    for outcome, count in Counter(told).items():
        state_of(request).metrics.told.labels(outcome.value).inc(count)
    state_of(request).waits.changed(study)
    return answered({"told": told})


@work.post("/skip")
def skip(request: Request, study: StudyToWork, body: Skip) -> dict[str, int]:
    """Give back tickets without results; return how many were out."""
    count = study.skip_many(body.tickets, body.reason)
    state_of(request).metrics.leases.labels("returned").inc(count)
    state_of(request).waits.changed(study)
    return {"count": count}


@work.post("/release")
def release(request: Request, study: StudyToWork, body: Release) -> dict[str, int]:
    """Take back all tickets that a worker has out, if it is gone; return how many."""
    count = state_of(request).release(study, body.worker, body.reason)
    audit(request, "release", study.name, worker=body.worker, tickets=count, reason=body.reason)
    return {"count": count}


@work.post("/renew")
def renew(request: Request, study: StudyToWork, body: Renew) -> dict[str, int]:
    """Let leases last so many seconds from now; return how many do."""
    count = study.renew(body.tickets, body.lease)
    state_of(request).metrics.leases.labels("renewed").inc(count)
    return {"count": count}


# Studies

studies = APIRouter(prefix="/api/v1/studies", tags=["studies"], responses=PROBLEMS)


@studies.get("")
def list_studies(
    request: Request,
    principal: Anybody,
    search: Annotated[str, Query(max_length=200)] = "",
    most: Annotated[int, Query(ge=1, le=1000)] = 100,
    skip: Annotated[int, Query(ge=0, le=2**53)] = 0,
    sort: Annotated[str, Query(description="A minus before it: the largest first.")] = "name",
    status: str = "",
) -> Document:
    """Return a page of the studies, and how many there are; a token of one study sees that one."""
    storage, only = state_of(request).storage, principal.token.study_name
    if principal.token.study is None:
        page = storage.list(search, most, skip, sort=sort, status=status)
        found, total = list(page), page.total
    else:
        there = only is not None and storage.number_of(only) == principal.token.study
        found = [one for one in storage.list(only or "") if there and one.name == only]
        total = len(found)
    return {"studies": [wire.summary_document(one) for one in found], "total": total}


@studies.post("", status_code=201)
def create(request: Request, _: Admin, body: NewStudy) -> Document:
    """Create a study; the answer is that of `GET /studies/{name}`."""
    words = body.model_dump(exclude={"name", "arms", "seed"})
    study = state_of(request).create(body.name, body.arms, words, body.seed)
    audit(request, "create", body.name)
    return _document(study)


@studies.get("/{name}", response_model=Document)
def show(study: StudyToRead, result: bool = False) -> Response:
    """Return all about a study but its arms; with `result` also the whole result."""
    return answered(_document(study, with_result=result))


def _document(study: StoredStudy, *, with_result: bool = False) -> dict[str, Any]:
    pulse = study.pulse()
    overview = study.overview()
    result = overview.result.to_dict(snapshots=with_result)
    document = wire.study_document(study, overview, result)
    del document["storage"]  # its location is not for clients
    document |= {"seed": str(study.seed), "pulse": pulse}
    return {**document, "result": result} if with_result else document


@studies.get("/{name}/question", response_model=Document)
def question(study: StudyToRead) -> Response:
    """Return the question with all labels, as `Question.from_dict` takes it, and the seed."""
    return answered({**study.question.to_dict(), "seed": str(study.seed)})


@studies.delete("/{name}", status_code=204)
def delete(request: Request, study: StudyToChange) -> Response:
    """Delete a study with all its results, for good."""
    state_of(request).delete(study)
    audit(request, "delete", study.name)
    return Response(status_code=204)


@studies.post("/{name}/history")
def add_history(request: Request, study: StudyToChange, body: History) -> dict[str, int]:
    """Record rewards from before the study, without tickets; return how many.

    Rows are recorded in their order, which must not depend on the rewards.
    """
    wrong = next((arm for arm, _ in body.rows if not 0 <= arm < study.n), None)
    if wrong is not None:
        raise InvalidParameter(f"rows has an arm {wrong}, but arms are 0 to {study.n - 1}.")
    arms = np.array([arm for arm, _ in body.rows], dtype=np.int64)
    rewards = np.array([study.check_reward(reward) for _, reward in body.rows], dtype=float)
    count = study.add_rows(arms, rewards, body.key)
    audit(request, "history", study.name, results=count)
    return {"count": count}


@studies.post("/{name}/budget")
def raise_budget(request: Request, study: StudyToChange, body: Budget) -> Document:
    """Allow more pulls, or any number; a study that the budget stopped goes on."""
    study.raise_budget(body.budget)
    audit(request, "budget", study.name, budget=body.budget)
    return _document(study)


@studies.post("/{name}/stop")
def stop(request: Request, study: StudyToChange, body: Stop) -> Document:
    """Hand out no more tickets until it is resumed; results of those that are out are taken."""
    study.stop(body.reason)
    audit(request, "stop", study.name, reason=body.reason)
    return _document(study)


@studies.post("/{name}/resume")
def resume(request: Request, study: StudyToChange) -> Document:
    """Hand out tickets again."""
    study.resume()
    audit(request, "resume", study.name)
    return _document(study)


# Results

results = APIRouter(prefix="/api/v1/studies/{name}", tags=["results"], responses=PROBLEMS)
After = Annotated[int, Query(ge=0, le=2**62)]
Most = Annotated[int, Query(ge=1, le=wire.MAX_RESULTS)]
_verifying = threading.Lock()


@results.get("/result", response_model=Document)
def result(study: StudyToRead, snapshots: bool = False) -> Response:
    """Return what is known, as `result.json` has it."""
    return answered(study.result().to_dict(snapshots=snapshots))


@results.get("/progress")
def progress(study: StudyToRead) -> Document:
    """Return pulls, open arms, the threshold and about how many pulls are needed."""
    values = asdict(study.progress())
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            values[name] = None
    return values


@results.get("/status")
def status(study: StudyToRead) -> dict[str, str | bool]:
    """Return the status, and whether no more tickets will be handed out."""
    found = study.status
    return {"status": found.value, "done": found.final}


@results.get("/pulse")
def pulse(study: StudyToRead) -> dict[str, str]:
    """Return a short text that changes when anything of the study has changed."""
    return {"pulse": study.pulse()}


@results.get("/trials", response_model=dict[str, list[Document] | int | None])
def trials(study: StudyToRead, after: After = 0, most: Most = PAGE) -> Response:
    """Return results in the order of recording, after a number; continue after `next`."""
    return _page("trials", list(study.trials(after=after, most=most)), most)


@results.get("/conflicts", response_model=dict[str, list[Document] | int | None])
def conflicts(study: StudyToRead, after: After = 0, most: Most = PAGE) -> Response:
    """Return results that differ from the first one of their ticket, three of each ticket."""
    return _page("conflicts", study.conflicts(after=after, most=most), most)


def _page(name: str, found: list[Any], most: int) -> Response:
    following = found[-1].number if len(found) == most else None
    return answered({name: [wire.plain(one) for one in found], "next": following})


@results.get(
    "/export",
    responses={200: {"content": {"text/csv": {}}}},
    response_class=StreamingResponse,
)
def export(study: StudyToRead) -> StreamingResponse:
    """Return every result in the order of recording, as CSV.

    A text that a spreadsheet would run has an apostrophe before it.
    """
    disposition = f"attachment; filename*=UTF-8''{quote(study.name, safe='')}.csv"
    headers = {"Content-Disposition": disposition}
    return StreamingResponse(_csv_of(study), media_type="text/csv; charset=utf-8", headers=headers)


def _csv_of(study: StoredStudy) -> Iterator[str]:
    columns = list(Trial.__dataclass_fields__)
    yield csv_text(columns, [])
    after = 0
    while page := list(study.trials(after=after, most=EXPORTED_AT_A_TIME)):
        rows = [list(wire.plain(trial).values()) for trial in page]
        yield csv_text(columns, rows, for_spreadsheets=True).partition("\n")[2]
        after = page[-1].number


@results.get("/workers")
def workers(study: StudyToRead) -> dict[str, list[WorkerRecord]]:
    """Return every worker with tickets, results, rate, and when it was last seen."""
    return {"workers": study.workers()}


@results.get("/holders")
def holders(study: StudyToRead) -> dict[str, list[Holder]]:
    """Return who has tickets out that the step waits for, since when, and when leases end."""
    return {"holders": study.holders()}


@results.get("/verify")
def verify(study: StudyToRead) -> Document:
    """Check the database's integrity and replay the log; one study at a time."""
    with one_at_a_time(_verifying, "The verification of a study"):
        found = study.verify()
    return {"ok": found.ok, "results": found.results, "problems": found.problems}


# Tokens

tokens = APIRouter(prefix="/api/v1/tokens", tags=["tokens"], responses=PROBLEMS)


@tokens.get("")
def list_tokens(request: Request, _: Admin) -> dict[str, list[dict[str, str | None]]]:
    """Return all tokens but sessions of browsers, the oldest first; never a token itself."""
    return {"tokens": [one.document() for one in state_of(request).tokens.list()]}


@tokens.post("", status_code=201)
def make_token(request: Request, _: Admin, body: NewToken) -> dict[str, str]:
    """Make a token; the answer shows it for the only time."""
    lasts = None if body.days is None else timedelta(days=body.days)
    made = state_of(request).tokens.make(body.role, study=body.study, note=body.note, lasts=lasts)
    audit(request, "make token", body.study or "", made=body.role.value, note=body.note)
    return {"token": made}


@tokens.delete("/{token}", status_code=204)
def revoke_token(request: Request, _: Admin, token: str) -> Response:
    """Revoke a token, by its id, with the sessions that were started with it."""
    if not state_of(request).tokens.revoke(token):
        raise Problem(404, "not-found", "There is no token with this id.")
    audit(request, "revoke token", id=token)
    return Response(status_code=204)


# The server itself

server = APIRouter(tags=["server"], responses=PROBLEMS)


@server.get("/healthz", openapi_extra={"security": []})
async def healthz() -> dict[str, str]:
    """Answer as long as the process does; needs no token."""
    return {"status": "ok"}


@server.get("/readyz", openapi_extra={"security": []})
def readyz(request: Request) -> dict[str, str]:
    """Answer as long as the storage does and its file is in place; needs no token."""
    state_of(request).storage.database.check()
    return {"status": "ok"}


@server.get("/metrics", responses={200: {"content": {"text/plain": {}}}}, response_class=Response)
def metrics(request: Request) -> Response:
    """Return what this process has done and has open, for Prometheus."""
    state = state_of(request)
    if not state.settings.open_metrics:
        reader(current(request))
    return Response(state.metrics.text(), media_type=CONTENT_TYPE_LATEST)


@server.get("/api/v1/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Document:
    """Return the OpenAPI document of all routes, as this request reaches them."""
    described: Document = request.app.openapi()
    return {**described, "servers": [{"url": request.scope["root_path"] or "/"}]}


def completed(described: dict[str, Any]) -> dict[str, Any]:
    """Return FastAPI's OpenAPI document with what it does not know: tokens and problems."""
    components = dict(described.get("components", {}))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schemas = components.get("schemas", {})
    components["schemas"] = {**schemas, "ProblemOut": ProblemOut.model_json_schema()}
    return {**described, "components": components, "security": [{"token": []}]}


router = APIRouter()
for _part in (work, studies, results, tokens, server):
    router.include_router(_part)
