"""Forms: signing in and out, creating, changing and deleting studies, tokens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from oddarms.documents import visible
from oddarms.errors import InvalidParameter, OddarmsError
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K
from oddarms.server._access import (
    Admin,
    StudyToChange,
    audit,
    check_form,
    log_in,
    log_out,
    principal_of,
)
from oddarms.server._problems import Problem, problem_of
from oddarms.server._state import State, state_of
from oddarms.server._tokens import LONGEST, Role
from oddarms.server.pages._rendering import link, prefix_of, render, see, sentence
from oddarms.server.pages._study import forget_view, whole_page
from oddarms.studies import StoredStudy

router = APIRouter()

MAX_ADDRESS = 1_000
DEFAULTS = {
    "name": "",
    "arms": "",
    "k": f"{DEFAULT_K:g}",
    "margin": "",
    "side": "upper",
    "low": "0",
    "high": "1",
    "delta": f"{DEFAULT_DELTA:g}",
    "budget": "",
}
"""Fields of the form for a new study."""


# Signing in and out


@router.get("/login")
def ask_for_token(request: Request) -> HTMLResponse:
    """Return the form for a token."""
    wanted = request.query_params.get("next", "")[:MAX_ADDRESS]
    return _token_form(request, wanted)


def _token_form(
    request: Request, wanted: str, status: int = 200, problem: str = ""
) -> HTMLResponse:
    principal = principal_of(request)
    has_session = principal is not None and principal.csrf is not None and not problem
    # A page of another site may have a link with a token of its own; and browsers do not send the
    # cookie along with such a link, so that the page asks again by itself.
    direct = request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return render(
        request,
        "signin.html",
        status,
        next=wanted,
        problem=problem,
        at_once=direct and not problem,
        ask_again=not direct,
        go_on=_target(request, wanted) if has_session else "",
    )


@router.post("/login")
async def sign_in(request: Request) -> Response:
    """Begin a session and go to the page that was asked for."""
    form = await request.form()
    token, wanted = _text(form, "token").strip(), _text(form, "next")
    response = see(_target(request, wanted))
    try:
        await log_in(request, response, token)
    except Problem as problem:
        return _token_form(request, wanted, problem.status, problem.detail)
    return response


@router.post("/logout")
async def sign_out(request: Request) -> Response:
    """End the session."""
    await check_form(request)
    response = see(link(request, "login"))
    await log_out(request, response)
    return response


def _target(request: Request, wanted: str) -> str:
    harmless = len(wanted) <= MAX_ADDRESS and wanted.isprintable() and "\\" not in wanted
    local = harmless and wanted.startswith("/") and not wanted.startswith("//")
    return prefix_of(request) + (wanted if local else "/")


# A new study


@router.get("/new")
def form_for_new(request: Request, _: Admin) -> Response:
    """Return the form for a new study."""
    return render(request, "new.html", here="new", given=DEFAULTS, problem="")


@router.post("/new")
async def create(request: Request, _: Admin) -> Response:
    """Create a study, or show the form again with the problem."""
    form = await check_form(request)
    given = {key: _text(form, key, usual) for key, usual in DEFAULTS.items()}
    try:
        study = await run_in_threadpool(_create, state_of(request), given)
    except OddarmsError as error:
        status, said = _said(request, error)
        return render(request, "new.html", status, here="new", given=given, problem=said)
    audit(request, "create", study.name, arms=study.n)
    return see(link(request, "studies", study.name))


def _create(state: State, given: dict[str, str]) -> StoredStudy:
    labels = [line.strip() for line in given["arms"].splitlines() if line.strip()]
    if not labels:
        raise InvalidParameter("arms are missing: type them in, one a line.")
    words: dict[str, Any] = {
        "k": _number("k", given["k"]),
        "delta": _number("delta", given["delta"]),
        "margin": _number("margin", given["margin"]) if given["margin"].strip() else None,
        "side": given["side"],
        "bounds": (_number("bounds", given["low"]), _number("bounds", given["high"])),
        "budget": _budget(given["budget"]),
    }
    return state.create(given["name"].strip(), labels, words)


def _number(name: str, text: str, kind: Callable[[str], Any] = float) -> Any:
    try:
        return kind(text)
    except ValueError:
        whole = "whole " if kind is int else ""
        raise InvalidParameter(f"{name} must be a {whole}number but got {text!r:.60}.") from None


def _budget(text: str) -> int | None:
    return _number("budget", text, int) if text.strip() else None


# Tokens


@router.get("/tokens")
def token_page(request: Request, _: Admin) -> Response:
    """Return the tokens, and the form for a new one."""
    return _token_page(request)


def _token_page(
    request: Request, status: int = 200, *, made: str = "", problem: str = ""
) -> Response:
    listed = state_of(request).tokens.list()
    return render(
        request, "tokens.html", status, here="tokens", tokens=listed, made=made, problem=problem
    )


@router.post("/tokens")
async def change_tokens(request: Request, _: Admin) -> Response:
    """Make a token and show it for the only time, or revoke one."""
    form, tokens = await check_form(request), state_of(request).tokens
    revoked = _text(form, "revoke")
    if revoked:
        if await run_in_threadpool(tokens.revoke, revoked):
            audit(request, "revoke token", id=revoked)
        return see(link(request, "tokens"))
    role, study, note = (_text(form, key) for key in ("role", "study", "note"))
    days = _text(form, "days").strip()
    try:
        if role not in list(Role):
            raise InvalidParameter("role must be worker, reader or admin.")
        most = LONGEST.days + 1  # which is refused, as is 0; a timedelta has an end, too
        lasts = timedelta(days=max(0, min(_number("days", days, int), most))) if days else None
        made = await run_in_threadpool(
            tokens.make, Role(role), study=study.strip() or None, note=note, lasts=lasts
        )
    except OddarmsError as error:
        status, said = _said(request, error)
        return await run_in_threadpool(_token_page, request, status, problem=said)
    audit(request, "make token", study, made=role, note=note)
    return await run_in_threadpool(_token_page, request, made=made)


# Changes


@router.post("/studies/{name}")
async def change(request: Request, study: StudyToChange) -> Response:
    """Change a study and show it again; or show its page with the problem."""
    form = await check_form(request)
    action = _text(form, "action")
    try:
        words = await run_in_threadpool(_change, state_of(request), study, form)
    except OddarmsError as error:
        status, said = _said(request, error)
        given = {"budget": _text(form, "budget"), "problem": said}
        return await run_in_threadpool(whole_page, request, study, status, given)
    forget_view(study)
    audit(request, action, study.name, **words)
    return see(link(request) if action == "delete" else link(request, "studies", study.name))


def _change(state: State, study: StoredStudy, form: FormData) -> dict[str, Any]:
    match _text(form, "action"):
        case "stop":
            if study.overview().stopped is None:  # else the earlier reason stays
                study.stop("stopped from the page")
        case "resume":
            study.resume()
        case "budget":
            budget = _budget(_text(form, "budget"))
            study.raise_budget(budget)
            return {"budget": budget}
        case "release" | "release all" as action:
            worker = _text(form, "worker") or None  # an empty one has asked without a name
            everybody = [one.worker for one in study.holders()]
            gone = [worker] if action == "release" else everybody
            count = sum(state.release(study, one, "released from the page") for one in gone)
            return {"worker": ", ".join(one or "" for one in gone), "tickets": count}
        case "delete":
            if _text(form, "again") not in (study.name, visible(study.name)):
                raise InvalidParameter("That is not the study's name, so nothing was deleted.")
            state.delete(study)
        case _:
            raise HTTPException(404)
    return {}


def _said(request: Request, error: OddarmsError) -> tuple[int, str]:
    problem = problem_of(error, state_of(request).storage.name)
    return problem.status, sentence(problem.detail)


def _text(form: FormData, key: str, usual: str = "") -> str:
    value = form.get(key)
    return value if isinstance(value, str) else usual
