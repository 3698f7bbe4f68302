"""Signing in with a token, and out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse

from oddarms.server._access import Principal, check_form, log_in, log_out
from oddarms.server._problems import Problem
from oddarms.server.pages._rendering import links_of, render, see

router = APIRouter()

MOST_ADDRESS = 1_000


@router.get("/login")
def ask_for_token(request: Request) -> HTMLResponse:
    """Return the form for a token."""
    wanted = request.query_params.get("next", "")[:MOST_ADDRESS]
    return _form(request, wanted, at_once=_opened_by_hand(request))


def _form(
    request: Request, wanted: str, status: int = 200, problem: str = "", *, at_once: bool = False
) -> HTMLResponse:
    principal: Principal | None = getattr(request.state, "principal", None)
    session = principal is not None and principal.csrf is not None and not problem
    return render(
        request,
        "signin.html",
        status,
        next=wanted,
        problem=problem,
        at_once=at_once,
        ask_again=not _opened_by_hand(request),
        go_on=links_of(request).prefix + safe_address(wanted) if session else "",
    )


def _opened_by_hand(request: Request) -> bool:
    """Return whether no page of another site led here.

    Its link may have a token of its own; and browsers do not send the cookie along with it, so that
    the page asks again by itself.
    """
    return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")


@router.post("/login")
async def sign_in(request: Request) -> Response:
    """Begin a session, and go where somebody wanted to go."""
    form = await request.form()
    token, wanted = (form.get(name) for name in ("token", "next"))
    token = token.strip() if isinstance(token, str) else ""
    wanted = wanted if isinstance(wanted, str) else ""
    response = see(links_of(request).prefix + safe_address(wanted))
    try:
        await log_in(request, response, token)
    except Problem as problem:
        said = "Too many wrong tokens came from here. Wait a minute, then try again."
        if problem.status != 429:
            said = (
                "This server does not know that token. Tokens are case-sensitive; copy all of it."
            )
        page = _form(request, wanted, problem.status, said)
        page.headers.update(problem.headers)
        return page
    return response


@router.post("/logout")
async def sign_out(request: Request) -> Response:
    """End the session."""
    await check_form(request)
    response = see(links_of(request).sign_in())
    await log_out(request, response)
    return response


def safe_address(wanted: str) -> str:
    """Return an address of this server; the list of studies for any other.

    Examples
    --------
    >>> safe_address("/studies/a"), safe_address("//evil.example"), safe_address("https://a.b")
    ('/studies/a', '/', '/')
    """
    harmless = len(wanted) <= MOST_ADDRESS and wanted.isprintable() and "\\" not in wanted
    return wanted if harmless and wanted.startswith("/") and not wanted.startswith("//") else "/"
