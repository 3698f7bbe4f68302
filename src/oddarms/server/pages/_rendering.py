"""From templates to responses: links, pages, errors, static files."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse

from oddarms import __version__
from oddarms.documents import visible
from oddarms.server._access import Principal, address_of, principal_of
from oddarms.server._problems import Problem

HERE = Path(__file__).resolve().parent.parent
STATIC, TEMPLATES = HERE / "static", HERE / "templates"


def link(request: Request, *parts: str | int, **query: str) -> str:
    """Return the address of some parts, as this request reaches it; empty words are left out."""
    path = "/".join(quote(str(part), safe="") for part in parts)
    given = {word: value for word, value in query.items() if value}
    return f"{prefix_of(request)}/{path}" + (f"?{urlencode(given)}" if given else "")


def prefix_of(request: Request) -> str:
    """Return what is before our paths in the addresses of a request."""
    prefix: str = request.scope.get("root_path", "")
    return prefix.rstrip("/")


def ago(time: datetime) -> str:
    """Return how long ago something was, or how soon it will be.

    Examples
    --------
    >>> from datetime import timedelta
    >>> ago(datetime.now(UTC) - timedelta(hours=3))
    '3 h ago'
    """
    seconds = (datetime.now(UTC) - time).total_seconds()
    if -1.0 < seconds < 5.0:
        return "now"
    for limit, unit, name in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if abs(seconds) < limit:
            text = f"{abs(seconds) / unit:.0f} {name}"
            return f"{text} ago" if seconds > 0.0 else f"in {text}"
    return f"{time:%Y-%m-%d}"


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page."""
    principal = principal_of(request)
    values = {
        "link": partial(link, request),
        "principal": principal,
        "guard": _guard(principal),
        "version": __version__,
        "here": "",
        "server": str(request.base_url).rstrip("/"),
        **context,
    }
    return HTMLResponse(_environment().get_template(template).render(values), status)


def _guard(principal: Principal | None) -> Markup:
    if principal is None or principal.csrf is None:
        return Markup("")
    return Markup('<input type="hidden" name="csrf" value="{}">').format(principal.csrf)


def see(address: str) -> RedirectResponse:
    """Return the redirect after a form."""
    return RedirectResponse(address, 303)


def error_page(request: Request, problem: Problem) -> Response:
    """Return a problem as a page; a reader who has not signed in is redirected to the form."""
    if problem.status == 401 and request.method in ("GET", "HEAD"):
        wanted = address_of(request.scope["path"].removeprefix(prefix_of(request)))
        query = f"?{request.url.query}" if request.url.query else ""
        return see(link(request, "login", next="" if wanted in ("", "/") else f"{wanted}{query}"))
    text = sentence(problem.detail)
    return render(request, "error.html", problem.status, problem=problem, text=text)


def sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": visible,
        "sentence": sentence,
        "ago": ago,
        "shell": shlex.quote,
        "grouped": lambda number: f"{number:,.0f}",
    }
    return environment
