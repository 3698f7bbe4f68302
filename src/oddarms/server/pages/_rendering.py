"""From templates to answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse

from oddarms import __version__
from oddarms.documents import visible
from oddarms.server._access import Principal
from oddarms.server._guards import address_of
from oddarms.server._problems import Problem
from oddarms.server._tokens import Role
from oddarms.server.pages._commands import create_command, work_command
from oddarms.server.pages._links import Links

PARTS = "parts/"
TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
NOTICES = {
    "stopped": ("good", "The study is stopped: no more pulls are handed out."),
    "resumed": ("good", "The study goes on."),
    "budget": ("good", "The budget is changed."),
    "created": ("good", "The study is there. Workers can begin."),
    "deleted": ("good", "The study is deleted."),
}
"""What is said after a change, by a word in a cookie: a link to a page cannot have it."""
DONE = "oddarms_done"
DONE_SECONDS = 60
ROLES = {Role.ADMIN: "admin", Role.WORKER: "worker", Role.READER: "read only"}


@dataclass(frozen=True)
class Access:
    """What the one who looks may do, as templates ask."""

    name: str
    may_create: bool
    may_change: bool

    @classmethod
    def of(cls, principal: Principal | None) -> Access | None:
        """Return what somebody may do; None for somebody who has not signed in."""
        if principal is None:
            return None
        return cls(ROLES[principal.role], principal.is_admin, principal.is_admin)


def links_of(request: Request) -> Links:
    """Return the addresses as this request reaches them."""
    return Links(request.scope.get("root_path", ""))


def server_of(request: Request) -> str:
    """Return the address of the server, as commands take it."""
    return str(request.base_url).rstrip("/")


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page, or a part of one."""
    principal: Principal | None = getattr(request.state, "principal", None)
    links = links_of(request)
    whole = not template.startswith(PARTS)
    kind, text = NOTICES.get(request.cookies.get(DONE, ""), ("", "")) if whole else ("", "")
    values = {
        "links": links,
        "access": Access.of(principal),
        "guard": lambda: _guard(principal),
        "version": __version__,
        "here": "",
        "notice": {"kind": kind, "text": text} if text else None,
        "server": server_of(request),
        **context,
    }
    page = HTMLResponse(_environment().get_template(template).render(values), status)
    if text:
        page.delete_cookie(DONE, path=f"{links.prefix}/")
    return page


def see(address: str) -> RedirectResponse:
    """Return the answer to a form: look there."""
    return RedirectResponse(address, 303)


def see_done(request: Request, address: str, done: str) -> RedirectResponse:
    """Return the answer to a form: look there, where it is said once what was done."""
    response, path = see(address), f"{links_of(request).prefix}/"
    secure = request.url.scheme == "https"
    response.set_cookie(
        DONE, done, DONE_SECONDS, path=path, secure=secure, httponly=True, samesite="strict"
    )
    return response


def error_page(request: Request, problem: Problem) -> Response | None:
    """Return a problem as a page; somebody who has not signed in is sent there."""
    links = links_of(request)
    if problem.status == 401 and request.method in ("GET", "HEAD"):
        wanted = address_of(request.scope["path"].removeprefix(links.prefix))
        query = f"?{request.url.query}" if request.url.query else ""
        to = {} if wanted in ("", "/") else {"next": f"{wanted}{query}"}
        return RedirectResponse(links.sign_in() + (f"?{urlencode(to)}" if to else ""), 303)
    heading = _HEADINGS.get(problem.status, problem.title)
    text = _TEXTS.get(problem.code, problem.detail[:1].upper() + problem.detail[1:])
    return render(
        request, "error.html", problem.status, heading=heading, text=text, code=problem.status
    )


_HEADINGS = {
    401: "Please sign in",
    403: "Not allowed",
    404: "Not found",
    409: "Already there",
    413: "Too large",
    422: "That does not work",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "The storage is busy",
}


_TEXTS = {
    "unknown-study": "There is no study of that name here. It may have been deleted, or the address"
    " has a mistake.",
    "not-found": "There is nothing at this address.",
    "too-large": "That is more than this server takes at once. Go back, and what you typed is still"
    " there. A larger study is created where its storage is, with oddarms study create.",
}


def _guard(principal: Principal | None) -> Markup:
    """Return the hidden field that tells a form of ours from others."""
    if principal is None or principal.csrf is None:
        return Markup("")
    return Markup('<input type="hidden" name="csrf" value="{}">').format(principal.csrf)


def prepare() -> None:
    """Read all templates, so that the first page does not wait for them."""
    for name in _environment().list_templates():
        _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.globals.update(create_command=create_command, work_command=work_command)
    return environment
