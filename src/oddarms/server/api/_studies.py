"""Studies: list, create, delete, change."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from oddarms.errors import InvalidParameter
from oddarms.problem import Label, Question
from oddarms.randomness import seed_of
from oddarms.server._access import Admin, Anybody, StudyToChange, StudyToRead, audit
from oddarms.server._limits import check_arms
from oddarms.server._state import state_of
from oddarms.server._tokens import Role
from oddarms.server.api._common import OF_BODY, OF_STUDY, answered, problems
from oddarms.server.api._models import (
    Changes,
    Count,
    Document,
    Import,
    NewStudy,
    Stop,
    StudiesOut,
)
from oddarms.studies._database_storage import tried_question
from oddarms.studies._documents import study_document, summary_document
from oddarms.studies._imports import Part
from oddarms.studies._storage import check_name
from oddarms.studies._study import StoredStudy

MOST_LISTED = 1000

router = APIRouter(prefix="/studies", tags=["studies"])


@router.get("", summary="List studies", responses=problems(), response_model=StudiesOut)
def list_studies(
    request: Request,
    principal: Anybody,
    search: Annotated[str, Query(max_length=200)] = "",
    most: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
    skip: Annotated[int, Query(ge=0, le=2**53)] = 0,
    newest: bool = False,
) -> Response:
    """Return a page of the studies, and how many there are; a worker sees its own."""
    if principal.role is Role.WORKER:
        assert principal.token.study is not None
        found = state_of(request).storage.summary_of(principal.token.study)
        own = [] if found is None else [summary_document(found)]
        return answered({"studies": own, "total": len(own)})
    page = state_of(request).storage.list(search, most, skip, newest=newest)
    return answered({"studies": [summary_document(one) for one in page], "total": page.total})


@router.post(
    "",
    status_code=201,
    summary="Create a study",
    responses=problems(400, 408, 409, 413, 415),
    response_model=Document,
)
def create(request: Request, _: Admin, body: NewStudy) -> Response:
    """Create a study; the answer is what `GET /studies/{name}` gives."""
    words = body.model_dump(exclude={"name", "arms", "seed"})
    check_name(body.name)
    check_arms(body.arms if isinstance(body.arms, int) else len(body.arms))
    seed = seed_of(_seed(body.seed))
    question = tried_question(Question(body.arms, **words), seed)
    study = state_of(request).storage.create(body.name, question, seed)
    audit(request, "create", body.name)
    return answered(_document(study), 201)


def _seed(given: int | str | None) -> int | None:
    if isinstance(given, str):
        if not (given.isascii() and given.isdigit() and len(given) <= 100):
            raise InvalidParameter(f"seed must be a whole number but got {given!r:.60}.")
        return int(given)
    return given


@router.get("/{name}", summary="Where a study stands", responses=OF_STUDY, response_model=Document)
def show(study: StudyToRead, result: bool = False) -> Response:
    """Return all about a study but its arms; with `result` the whole result document, too."""
    return answered(_document(study, with_result=result))


def _document(study: StoredStudy, *, with_result: bool = False) -> dict[str, Any]:
    pulse = study.pulse()
    overview = study.overview()
    result = overview.result.to_dict(snapshots=with_result)
    document = study_document(study, overview, result)
    del document["storage"]  # which is the server's own business
    document |= {"seed": str(study.seed), "pulse": pulse}
    return {**document, "result": result} if with_result else document


@router.get(
    "/{name}/question",
    summary="The question, with all labels",
    responses=OF_STUDY,
    response_model=Document,
)
def question(study: StudyToRead) -> Response:
    """Return the question in force, as `Question.from_dict` takes it."""
    study.progress()  # reads changes that others have made
    return answered({**study.question.to_dict(), "seed": str(study.seed)})


@router.delete("/{name}", status_code=204, summary="Delete a study", responses=OF_STUDY)
def delete(request: Request, study: StudyToChange) -> Response:
    """Delete a study with all its results, for good."""
    state = state_of(request)
    state.storage.delete(study.name)
    state.studies.forget(study.name)
    audit(request, "delete", study.name)
    return Response(status_code=204)


@router.post("/{name}/import", summary="Import rewards", responses=OF_BODY)
def import_rewards(request: Request, study: StudyToChange, body: Import) -> Count:
    """Record rewards that nobody asked for; a second import with the same key adds none."""
    given = body.rewards
    pairs = list(given.items()) if isinstance(given, dict) else given
    rewards: dict[Label, list[Any]] = dict(pairs)
    if len(rewards) != len(pairs):
        raise InvalidParameter("rewards must name each arm once but one is there twice.")
    if body.digest is None:
        count = study.import_rewards(rewards, key=body.key)
    else:
        count = study.import_part(rewards, body.key, Part(body.start, body.digest))
    audit(request, "import", study.name, results=count)
    return Count(count=count)


@router.post(
    "/{name}/revise", summary="Change the question", responses=OF_BODY, response_model=Document
)
def revise(request: Request, study: StudyToChange, body: Changes) -> Response:
    """Ask a somewhat different question: margin, floor, indifference or a larger budget."""
    changes = body.model_dump()
    study.revise(**changes)
    audit(request, "revise", study.name, **{word: changes[word] for word in sorted(changes)})
    return answered(_document(study))


@router.post("/{name}/stop", summary="Stop a study", responses=OF_BODY, response_model=Document)
def stop(request: Request, study: StudyToChange, body: Stop) -> Response:
    """Hand out no more tickets until it is resumed; results of those that are out are taken."""
    study.stop(body.reason)
    audit(request, "stop", study.name, reason=body.reason)
    return answered(_document(study))


@router.post(
    "/{name}/resume",
    summary="Let a stopped study go on",
    responses=OF_STUDY,
    response_model=Document,
)
def resume(request: Request, study: StudyToChange) -> Response:
    """Hand out tickets again."""
    study.resume()
    audit(request, "resume", study.name)
    return answered(_document(study))
