"""Who is asking, and what they may do.

For routes
----------
`current(request)` returns the `Principal` of a request, or raises a `Problem` of status 401; for a
page that wants a browser, the answer is a redirect to the login. As dependencies of FastAPI:

- ``principal: Anybody``: somebody who has logged in, whatever the role.
- ``principal: Reader``, ``principal: Admin``: somebody who may read all studies, or do everything.
- ``study: StudyToRead``, ``StudyToWork``, ``StudyToChange``: the opened study of the route's
  ``{name}``, for somebody who may read it, ask and tell there, or change it. Its methods block:
  write such routes with ``def`` and not ``async def``.

A request comes with ``Authorization: Bearer TOKEN`` or with the cookie of a session, which
`log_in` gives out and `log_out` takes back.

Forms
-----
A request with a cookie that is not GET or HEAD must carry the session's CSRF token, as the header
``X-CSRF-Token`` or, in a form, as the field ``csrf``: ``principal.csrf`` has it for templates.
Routes of forms call ``await check_form(request)``, which returns the form; all others are checked
before they are called.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import HTTPConnection

from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.server._limits import ADMIN_BYTES, audit_log
from oddarms.server._problems import Problem
from oddarms.server._state import State, state_of
from oddarms.server._tokens import Role, Token
from oddarms.studies._study import StoredStudy
from oddarms.text import shown

COOKIE = "oddarms_session_"
"""Before the id of the session's token: browsers send cookies to all servers of a host."""
MOST_COOKIES = 20
"""Of one request that are looked at; those of other servers are among them."""
SESSION = timedelta(days=7)
SAFE = ("GET", "HEAD", "OPTIONS")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

Done = TypeVar("Done")


@dataclass(frozen=True)
class Principal:
    """Somebody who was let in.

    Attributes
    ----------
    token
        What is known of the token.
    csrf
        Of a browser's session: what its forms carry. None where there is no cookie.
    """

    token: Token
    csrf: str | None = None

    @property
    def role(self) -> Role:
        """What it may do."""
        return self.token.role

    @property
    def is_admin(self) -> bool:
        """Whether it may do everything."""
        return self.role is Role.ADMIN

    def may_read(self, study: int) -> bool:
        """Return whether it may see a study."""
        return self.role is not Role.WORKER or self.token.study == study

    def may_work(self, study: int) -> bool:
        """Return whether it may ask and tell in a study."""
        return self.is_admin or (self.role is Role.WORKER and self.token.study == study)


async def identified(connection: HTTPConnection, state: State) -> Principal | None:
    """Return who is asking; None if there is neither a token nor a cookie that is good.

    A token that is wrong is refused with a `Problem`; too many of them from one address are
    refused for a while, also those that come without delay.
    """
    scheme, _, text = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and text.strip():
        token = await _verified(state, text.strip())
        if token is None or token.parent is not None:  # a session is for its cookie
            raise state.wrong_tokens.problem(connection.client)
        return Principal(token)
    for _, cookie, token in await _sessions(connection, state):
        return Principal(token, csrf_of(cookie))
    return None


async def _sessions(connection: HTTPConnection, state: State) -> list[tuple[str, str, Token]]:
    """Return names and texts of the cookies that are sessions of this storage, and what they are.

    Two of one name come where another server has a path above ours.
    """
    pairs = connection.headers.get("cookie", "").split(";")
    named = [tuple(part.strip() for part in pair.split("=", 1)) for pair in pairs if "=" in pair]
    found = []
    for name, text in [pair for pair in named if pair[0].startswith(COOKIE)][:MOST_COOKIES]:
        token = await _verified(state, text)
        if token is not None and token.parent is not None:  # tokens are guessed where they count
            found.append((name, text, token))
    return found


async def _verified(state: State, text: str) -> Token | None:
    """Return what is known of a token; mostly without the detour of a thread."""
    known = state.tokens.remembered(text)
    return known or await run_in_threadpool(state.tokens.verified, text)


def csrf_of(cookie: str) -> str:
    """Return what the forms of a session carry; only who has the cookie can make it."""
    return hmac.new(cookie.encode(), b"oddarms csrf", hashlib.sha256).hexdigest()


def current(request: Request) -> Principal:
    """Return who is asking, or refuse the request."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        raise Problem(
            401,
            "unauthorized",
            "a token must be given as `Authorization: Bearer TOKEN` but there is none:"
            " `oddarms serve token` makes one.",
            {"WWW-Authenticate": "Bearer"},
        )
    return principal


def check_csrf(request: Request, principal: Principal | None) -> None:
    """Refuse what a browser sends that no page of ours has made; called before every route.

    Forms of pages are left to `check_form`.
    """
    if principal is None or principal.csrf is None or request.method in SAFE:
        return
    given = request.headers.get("x-csrf-token")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    page = not request.url.path.startswith(f"{request.scope['root_path']}/api/")
    if given is None and kind in FORMS and page:
        return
    if not hmac.compare_digest((given or "").encode(), principal.csrf.encode()):
        raise _forged()


async def check_form(request: Request) -> FormData:
    """Return the form of a request, if a page of this session has made it."""
    form = await request.form(max_part_size=ADMIN_BYTES)  # the whole is counted before
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None or principal.csrf is None:
        return form
    given = request.headers.get("x-csrf-token") or form.get("csrf")
    if not isinstance(given, str) or not hmac.compare_digest(
        given.encode(), principal.csrf.encode()
    ):
        raise _forged()
    return form


def _forged() -> Problem:
    said = "the form must be one that this session was shown but is not: load the page again."
    return Problem(403, "csrf", said)


async def log_in(request: Request, response: Response, text: str) -> Principal:
    """Begin a session with a token, as a cookie of the response; a wrong token is refused."""
    state = state_of(request)
    token = await run_in_threadpool(state.tokens.verified, text.strip())
    if token is None or token.parent is not None:  # no session prolongs itself
        raise state.wrong_tokens.problem(request.client)
    await _end_sessions(request, response)
    cookie = await run_in_threadpool(state.tokens.session, token, SESSION)
    response.set_cookie(
        f"{COOKIE}{token.id}",
        cookie,
        max_age=int(SESSION.total_seconds()),
        path=f"{request.scope['root_path']}/",
        secure=state.settings.tls_elsewhere or request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    principal = Principal(token, csrf_of(cookie))
    audit(request, "log in", principal=principal)
    return principal


async def log_out(request: Request, response: Response) -> None:
    """End the session of a request."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is not None and principal.csrf is not None:
        await _end_sessions(request, response)
        audit(request, "log out", principal=principal)


async def _end_sessions(request: Request, response: Response) -> None:
    """End all sessions of a browser here; those of other servers stay."""
    state = state_of(request)
    for name, _, token in await _sessions(request, state):
        await run_in_threadpool(state.tokens.revoke, token.id)
        response.delete_cookie(name, path=f"{request.scope['root_path']}/")


def audit(
    request: Request,
    action: str,
    study: str = "",
    *,
    principal: Principal | None = None,
    **more: Any,
) -> None:
    """Write a line about a change to the log ``oddarms.audit``: who, from where, what."""
    who = principal or current(request)
    where = shown(request.client.host).replace(" ", "_") if request.client else "-"
    words = "".join(f" {name}={value!r:.200}" for name, value in more.items())
    named = f" study={study!r}" if study else ""
    token = who.token.parent or who.token.id
    audit_log.info("%s token=%s role=%s from=%s%s%s", action, token, who.role, where, named, words)


# Dependencies of routes


def reader(principal: Annotated[Principal, Depends(current)]) -> Principal:
    """Return who is asking, who may read all studies."""
    if principal.role is Role.WORKER:
        raise _forbidden("a worker's token is for its own study")
    return principal


def admin(principal: Annotated[Principal, Depends(current)]) -> Principal:
    """Return who is asking, who may do everything."""
    if not principal.is_admin:
        raise _forbidden("this needs an admin's token")
    return principal


def study_to_read(name: str, request: Request) -> StoredStudy:
    """Return the study of a route, for somebody who may read it."""
    principal = current(request)
    wanted = name.replace("\0", "/")  # a slash within a name, see _guards
    if principal.role is Role.WORKER and principal.token.study_name != wanted:
        raise UnknownStudy(f"name must be the study of this token but got {wanted!r}.")
    study = state_of(request).studies.get(wanted)
    if not principal.may_read(study.number):
        raise UnknownStudy(f"name must be the study of this token but got {wanted!r}.")
    return study


def with_study_to_work(name: str, request: Request, work: Callable[[StoredStudy], Done]) -> Done:
    """Return what work on a study comes to, for somebody who may ask and tell there.

    A study that is open is not looked for first, which takes as long as a result: where it was
    deleted the work is refused, and is done anew if there is another one of that name now.
    """
    known = state_of(request).studies.opened(name.replace("\0", "/"))
    if known is None or not current(request).may_work(known.number):
        return work(study_to_work(name, request))
    try:
        return work(known)
    except (UnknownStudy, InvalidParameter):
        study = study_to_work(name, request)
        if study is known:
            raise
        return work(study)


def study_to_work(name: str, request: Request) -> StoredStudy:
    """Return the study of a route, for somebody who may ask and tell there."""
    study = study_to_read(name, request)
    if not current(request).may_work(study.number):
        raise _forbidden("this needs a token of a worker or an admin")
    return study


def study_to_change(name: str, request: Request) -> StoredStudy:
    """Return the study of a route, for somebody who may change it."""
    study = study_to_read(name, request)
    admin(current(request))
    return study


def _forbidden(reason: str) -> Problem:
    return Problem(403, "forbidden", f"{reason}, which was not given.")


Anybody = Annotated[Principal, Depends(current)]
Reader = Annotated[Principal, Depends(reader)]
Admin = Annotated[Principal, Depends(admin)]
StudyToRead = Annotated[StoredStudy, Depends(study_to_read)]
StudyToWork = Annotated[StoredStudy, Depends(study_to_work)]
StudyToChange = Annotated[StoredStudy, Depends(study_to_change)]
