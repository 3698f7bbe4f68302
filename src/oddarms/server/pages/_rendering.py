"""From templates to responses: links, pages, notices, errors, static files."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from oddarms import __version__
from oddarms.documents import visible
from oddarms.server._access import Principal, principal_of
from oddarms.server._guards import address_of
from oddarms.server._problems import Problem

HERE = Path(__file__).resolve().parent.parent
STATIC, TEMPLATES = HERE / "static", HERE / "templates"
PARTS = "parts/"
"""Templates of parts of pages."""
NOTICES = {
    "created": "The study is created. Workers can begin.",
    "stopped": "The study is stopped: no more pulls are handed out.",
    "resumed": "The study is resumed.",
    "budget": "The budget is changed.",
    "released": "The tickets are taken back: other workers get their pulls.",
    "deleted": "The study is deleted.",
}
"""Messages after a change, by a word in a cookie, which a link of another site cannot set."""
NOTICE_COOKIE = "oddarms_done"
NOTICE_SECONDS = 60
FOR_EVER = "public, max-age=31536000, immutable"


class Links:
    """Addresses under the prefix at which the server is reached.

    Examples
    --------
    >>> links = Links("/odd")
    >>> links(), links("studies", "a/b c", "arms", 3), links("studies", "s", q="x", page="")
    ('/odd/', '/odd/studies/a%2Fb%20c/arms/3', '/odd/studies/s?q=x')
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix.rstrip("/")

    def __call__(self, *parts: str | int, **query: str) -> str:
        """Return the address of some parts; empty values of the query are left out."""
        path = "/".join(quote(str(part), safe="") for part in parts)
        given = {word: value for word, value in query.items() if value}
        return f"{self.prefix}/{path}" + (f"?{urlencode(given)}" if given else "")

    def static(self, file: str) -> str:
        """Return the address of a static file; it changes with the content."""
        return f"{self.prefix}/static/{file}?v={_fingerprint(file)}"


@cache
def _fingerprint(file: str) -> str:
    return hashlib.sha256((STATIC / file).read_bytes()).hexdigest()[:10]


class Assets(StaticFiles):
    """Static files, which browsers cache for ever under an address with a fingerprint."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file."""
        response = await super().get_response(path, scope)
        named = b"v=" in scope.get("query_string", b"")
        response.headers["Cache-Control"] = FOR_EVER if named else "no-cache"
        return response


@dataclass(frozen=True)
class Moment:
    """A time as pages show it."""

    iso: str
    exact: str
    ago: str

    @classmethod
    def of(cls, time: datetime, now: datetime | None = None) -> Moment:
        """Return how long ago something was.

        Examples
        --------
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        >>> Moment.of(noon, datetime(2026, 1, 1, 15, tzinfo=UTC)).ago
        '3 h ago'
        """
        seconds = ((now or datetime.now(UTC)) - time).total_seconds()
        return cls(time.isoformat(), f"{time:%Y-%m-%d %H:%M:%S} UTC", _ago(seconds, time))


def _ago(seconds: float, time: datetime) -> str:
    if -1.0 < seconds < 5.0:
        return "now"
    for limit, unit, name in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if abs(seconds) < limit:
            text = f"{abs(seconds) / unit:.0f} {name}"
            return f"{text} ago" if seconds > 0.0 else f"in {text}"
    return f"{time:%Y-%m-%d}"


def links_of(request: Request) -> Links:
    """Return the addresses as this request reaches them."""
    return Links(request.scope.get("root_path", ""))


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page, or a part of one."""
    principal, link = principal_of(request), links_of(request)
    done = request.cookies.get(NOTICE_COOKIE, "")
    notice = "" if template.startswith(PARTS) else NOTICES.get(done, "")
    values = {
        "link": link,
        "principal": principal,
        "guard": _guard(principal),
        "version": __version__,
        "here": "",
        "notice": notice,
        "server": str(request.base_url).rstrip("/"),
        **context,
    }
    page = HTMLResponse(_environment().get_template(template).render(values), status)
    if notice:
        page.delete_cookie(NOTICE_COOKIE, path=link())
    return page


def _guard(principal: Principal | None) -> Markup:
    """Return the hidden CSRF field of a form."""
    if principal is None or principal.csrf is None:
        return Markup("")
    return Markup('<input type="hidden" name="csrf" value="{}">').format(principal.csrf)


def see(address: str) -> RedirectResponse:
    """Return the redirect after a form."""
    return RedirectResponse(address, 303)


def see_done(request: Request, address: str, done: str) -> RedirectResponse:
    """Return the redirect after a change, whose notice the next page shows once."""
    response = see(address)
    response.set_cookie(
        NOTICE_COOKIE,
        done,
        NOTICE_SECONDS,
        path=links_of(request)(),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


def error_page(request: Request, problem: Problem) -> Response:
    """Return a problem as a page; a reader who has not signed in is redirected to the form."""
    link = links_of(request)
    if problem.status == 401 and request.method in ("GET", "HEAD"):
        wanted = address_of(request.scope["path"].removeprefix(link.prefix))
        query = f"?{request.url.query}" if request.url.query else ""
        to = "" if wanted in ("", "/") else f"{wanted}{query}"
        return RedirectResponse(link("login", next=to), 303)
    text = sentence(problem.detail)
    return render(request, "error.html", problem.status, problem=problem, text=text)


def sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def create_command(server: str, name: str) -> str:
    """Return the command that creates a study on a server."""
    return _command("create", name, "--arms", "workers.txt", "--storage", server)


def work_command(server: str, name: str) -> str:
    """Return the command that works on a study of a server.

    Examples
    --------
    >>> work_command("http://127.0.0.1:8321", "my crowd")
    "oddarms study work 'my crowd' --storage http://127.0.0.1:8321 --pull './probe {arm}'"
    """
    return _command("work", name, "--storage", server, "--pull", "./probe {arm}")


def _command(action: str, name: str, *options: str) -> str:
    words = [*options, "--", name] if name.startswith("-") else [name, *options]
    return shlex.join(["oddarms", "study", action, *words])


def prepare() -> None:
    """Compile all templates before the first request."""
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
