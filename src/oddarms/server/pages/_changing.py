"""Forms that make and change studies."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from oddarms.errors import OddarmsError
from oddarms.randomness import seed_of
from oddarms.server._access import Admin, StudyToChange, audit, check_form
from oddarms.server._problems import problem_of
from oddarms.server._state import State, state_of
from oddarms.server.pages._new import USUAL, NewStudy, budget_of, given_of, new_study
from oddarms.server.pages._rendering import links_of, render, see
from oddarms.server.pages._snapshots import forget_snapshot
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
        made = await run_in_threadpool(new_study, given, await _uploaded(form))
        await run_in_threadpool(_create, state, made)
    except OddarmsError as error:
        problem = problem_of(error, state.storage.name)
        said = f"{problem.detail[:1].upper()}{problem.detail[1:]}"
        return render(request, "new.html", problem.status, here="new", given=given, problem=said)
    audit(request, "create", made.name, arms=made.question.n)
    if made.rewards:
        results = sum(len(rewards) for rewards in made.rewards.values())
        audit(request, "import", made.name, results=results)
    return see(links_of(request).study(made.name), "created")


async def _uploaded(form: FormData) -> bytes | None:
    """Return the content of the file that was chosen, if one was."""
    file: Any = form.get("table")
    content = await file.read() if isinstance(file, UploadFile) else b""
    await form.close()
    return content or None


def _create(state: State, made: NewStudy) -> None:
    seed = seed_of(None)
    question = tried_question(made.question, seed)
    study = state.storage.create(check_name(made.name), question, seed)
    if made.rewards:
        study.import_rewards(made.rewards, key="uploaded")


@router.post("/studies/{name}/stop")
async def stop(request: Request, study: StudyToChange) -> Response:
    """Hand out no more pulls."""
    await check_form(request)
    await run_in_threadpool(study.stop, "stopped from the page")
    return _changed(request, study, "stop", "stopped")


@router.post("/studies/{name}/resume")
async def resume(request: Request, study: StudyToChange) -> Response:
    """Hand out pulls again."""
    await check_form(request)
    await run_in_threadpool(study.resume)
    return _changed(request, study, "resume", "resumed")


@router.post("/studies/{name}/budget")
async def raise_budget(request: Request, study: StudyToChange) -> Response:
    """Let the budget grow."""
    form = await check_form(request)
    text = form.get("budget")
    budget = budget_of(text if isinstance(text, str) else "")
    await run_in_threadpool(lambda: study.revise(budget=budget))
    return _changed(request, study, "revise", "budget", budget=budget)


@router.get("/studies/{name}/delete")
def form_for_deletion(request: Request, study: StudyToChange) -> Response:
    """Ask once more."""
    return _deletion(request, study)


@router.post("/studies/{name}/delete")
async def delete(request: Request, study: StudyToChange) -> Response:
    """Delete a study whose name was typed in."""
    form = await check_form(request)
    if form.get("again") != study.name:
        said = "That is not its name, so nothing was deleted."
        return await run_in_threadpool(_deletion, request, study, said)
    state = state_of(request)
    await run_in_threadpool(state.storage.delete, study.name)
    state.studies.forget(study.name)
    audit(request, "delete", study.name)
    return see(links_of(request).home(), "deleted")


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
    return see(links_of(request).study(study.name), done)
