"""Signing in with a token, and out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse

from oddarms.server._access import check_form, log_in, log_out
from oddarms.server._problems import Problem
from oddarms.server.pages._rendering import links_of, render, see

router = APIRouter()

MOST_ADDRESS = 1_000


@router.get("/login")
def ask_for_token(request: Request) -> HTMLResponse:
    """Return the form for a token."""
    wanted = request.query_params.get("next", "")[:MOST_ADDRESS]
    return render(request, "signin.html", next=wanted, problem="", at_once=_opened_by_hand(request))


def _opened_by_hand(request: Request) -> bool:
    """Return whether no page of another site led here: its link may have a token of its own."""
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
        page = render(
            request, "signin.html", problem.status, next=wanted, problem=said, at_once=False
        )
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
