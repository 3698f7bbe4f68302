"""Forms that make and change studies."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from oddarms.documents import visible
from oddarms.errors import InvalidParameter, OddarmsError
from oddarms.problem import Question
from oddarms.randomness import seed_of
from oddarms.server._access import Admin, StudyToChange, StudyToRead, audit, check_form
from oddarms.server._problems import problem_of
from oddarms.server._state import State, state_of
from oddarms.server.pages._new import (
    USUAL,
    Upload,
    budget_of,
    given_of,
    in_words_of_the_form,
    new_study,
)
from oddarms.server.pages._rendering import links_of, render, see, see_done
from oddarms.server.pages._snapshots import forget_snapshot
from oddarms.server.pages._study_page import whole_page
from oddarms.studies._database_storage import tried_question
from oddarms.studies._storage import check_name
from oddarms.studies._study import StoredStudy

router = APIRouter()


@router.get("/new")
def form_for_new(request: Request, principal: Admin) -> Response:  # noqa: ARG001
    """Return the form for a new study."""
    return render(request, "new.html", here="new", given=USUAL, problem="")


@router.post("/new")
async def create(request: Request, principal: Admin) -> Response:  # noqa: ARG001
    """Create a study, or say in the form what is wrong with it."""
    form = await check_form(request)
    given, state = given_of(form), state_of(request)
    try:
        name, question = await run_in_threadpool(new_study, given, await _uploaded(form))
        await run_in_threadpool(_create, state, name, question)
    except OddarmsError as error:
        status, said = _said(request, error)
        return render(request, "new.html", status, here="new", given=given, problem=said)
    audit(request, "create", name, arms=question.n)
    return see_done(request, links_of(request).study(name), "created")


async def _uploaded(form: FormData) -> Upload | None:
    """Return the file that was chosen, if one was."""
    file: Any = form.get("file")
    uploaded = isinstance(file, UploadFile)
    content = await file.read() if uploaded else b""
    name = (file.filename or "") if uploaded else ""
    await form.close()
    return Upload(content, name) if content else None


def _said(request: Request, error: OddarmsError) -> tuple[int, str]:
    """Return the status of an error, and its sentence for a page."""
    problem = problem_of(error, state_of(request).storage.name)
    return problem.status, f"{problem.detail[:1].upper()}{problem.detail[1:]}"


def _create(state: State, name: str, question: Question) -> None:
    seed = seed_of(None)
    state.storage.create(check_name(name), tried_question(question, seed), seed)


@router.post("/studies/{name}/stop")
async def stop(request: Request, study: StudyToChange) -> Response:
    """Hand out no more pulls."""
    await check_form(request)
    await run_in_threadpool(_stop, study)
    return _changed(request, study, "stop", "stopped")


def _stop(study: StoredStudy) -> None:
    """Stop a study that is not stopped: why it was, somebody else has said."""
    if study.outline()[0].stopped is None:
        study.stop("stopped from the page")


@router.post("/studies/{name}/resume")
async def resume(request: Request, study: StudyToChange) -> Response:
    """Hand out pulls again."""
    await check_form(request)
    await run_in_threadpool(study.resume)
    return _changed(request, study, "resume", "resumed")


@router.post("/studies/{name}/budget")
async def raise_budget(request: Request, study: StudyToChange) -> Response:
    """Let the budget grow, or say on the page what is wrong with it."""
    form = await check_form(request)
    text = form.get("budget")
    typed = text if isinstance(text, str) else ""
    try:
        budget = _new_budget(typed, unlimited="unlimited" in form)
        await run_in_threadpool(lambda: study.revise(budget=budget))
    except OddarmsError as error:
        status, said = _said(request, error)
        given = {"budget": typed, "problem": in_words_of_the_form(said)}
        return await run_in_threadpool(whole_page, request, study, status, given)
    return _changed(request, study, "revise", "budget", budget=budget)


def _new_budget(typed: str, *, unlimited: bool) -> int | None:
    budget = budget_of(typed)
    if unlimited:
        return None
    if budget is None:
        raise InvalidParameter("budget must be a number of pulls but got none: tick “no limit”.")
    return budget


@router.get("/studies/{name}/stop")
@router.get("/studies/{name}/resume")
@router.get("/studies/{name}/budget")
def back_to_study(request: Request, study: StudyToRead) -> Response:
    """Lead to the page whose forms have these addresses."""
    return see(links_of(request).study(study.name))


@router.get("/studies/{name}/delete")
def form_for_deletion(request: Request, study: StudyToChange) -> Response:
    """Ask once more."""
    return _deletion(request, study)


@router.post("/studies/{name}/delete")
async def delete(request: Request, study: StudyToChange) -> Response:
    """Delete a study whose name was typed in."""
    form = await check_form(request)
    if form.get("again") not in (study.name, visible(study.name)):
        said = "That is not its name, so nothing was deleted."
        return await run_in_threadpool(_deletion, request, study, said)
    state = state_of(request)
    await run_in_threadpool(state.storage.delete, study.name)
    state.studies.forget(study.name)
    audit(request, "delete", study.name)
    return see_done(request, links_of(request).home(), "deleted")


def _deletion(request: Request, study: StoredStudy, problem: str = "") -> Response:
    progress = study.progress()
    return render(
        request,
        "delete.html",
        422 if problem else 200,
        here="studies",
        name=study.name,
        results=f"{progress.pulls:,}",
        arms=f"{study.n:,}",
        problem=problem,
    )


def _changed(request: Request, study: StoredStudy, action: str, done: str, **more: Any) -> Response:
    forget_snapshot(request, study)
    audit(request, action, study.name, **more)
    return see_done(request, links_of(request).study(study.name), done)
