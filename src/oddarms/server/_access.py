"""Who is asking, and what they may do.

A request has ``Authorization: Bearer TOKEN``, or the cookie of a session, which `log_in` starts. A
change with a cookie must carry the session's CSRF token, in the header ``X-CSRF-Token`` or in the
form field ``csrf``: routes of forms call `check_form`, all others are checked before they run.

Routes take as dependencies ``principal: Anybody`` (with a token) or ``Admin``, and ``StudyToRead``,
``StudyToWork`` or ``StudyToChange``: the opened study of the route's ``{name}``, whose methods
block, so that such a route is a ``def``, or uses `run_in_threadpool`.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import HTTPConnection

from oddarms.errors import UnknownStudy
from oddarms.server._problems import Problem, Seldom, is_api
from oddarms.server._state import State, state_of
from oddarms.server._tokens import Role, Token
from oddarms.studies import StoredStudy
from oddarms.text import shown

COOKIE = "oddarms_session_"
"""Before the id of the session's token: browsers send cookies to all servers of a host."""
MAX_COOKIES = 20
"""Cookies of a request that are looked at; those of other servers are among them."""
SESSION = timedelta(days=7)
MAX_BODY = 8 * 2**20
"""Bytes of the body of a request with a token."""
MAX_LOGGED = 1000
"""Characters of a value in the log."""
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

_audit = logging.getLogger("oddarms.audit")
_audit.addFilter(Seldom())


@dataclass(frozen=True)
class Principal:
    """Somebody with a valid token."""

    token: Token
    csrf: str | None = None
    """What the forms of a browser's session carry; None without a cookie."""

    @property
    def role(self) -> Role:
        """What the token allows."""
        return self.token.role

    @property
    def is_admin(self) -> bool:
        """Whether it allows everything."""
        return self.role is Role.ADMIN


async def identified(connection: HTTPConnection, state: State) -> Principal | None:
    """Return who is asking; None without a token or a valid cookie. Refuse a wrong token."""
    scheme, _, text = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and text.strip():
        token = await _verified(state, text.strip())
        if token is None or token.parent is not None:  # a session is for its cookie
            raise _wrong_token(connection)
        return Principal(token)
    for _, cookie, token in await _sessions(connection, state):
        return Principal(token, csrf_of(cookie))
    return None


async def _sessions(connection: HTTPConnection, state: State) -> list[tuple[str, str, Token]]:
    """Return name, text and token of the cookies that are sessions of this storage.

    There are two with one name if another server has a path above ours.
    """
    pairs = connection.headers.get("cookie", "").split(";")
    named = [tuple(part.strip() for part in pair.split("=", 1)) for pair in pairs if "=" in pair]
    found = []
    for name, text in [pair for pair in named if pair[0].startswith(COOKIE)][:MAX_COOKIES]:
        token = await _verified(state, text)
        if token is not None and token.parent is not None:
            found.append((name, text, token))
    return found


async def _verified(state: State, text: str) -> Token | None:
    """Return what is known of a token, mostly without a thread."""
    known = state.tokens.remembered(text)
    return known or await run_in_threadpool(state.tokens.verified, text)


def _wrong_token(connection: HTTPConnection) -> Problem:
    _audit.warning("wrong token from=%s", _address(connection))
    said = "The token is unknown, revoked or expired: `oddarms serve token` makes a new one."
    return Problem(401, "unauthorized", said, {"WWW-Authenticate": "Bearer"})


def csrf_of(cookie: str) -> str:
    """Return what the forms of a session carry; it can be computed from the cookie only."""
    return hmac.new(cookie.encode(), b"oddarms csrf", hashlib.sha256).hexdigest()


def principal_of(request: Request) -> Principal | None:
    """Return who is asking, None for somebody without a token."""
    principal: Principal | None = getattr(request.state, "principal", None)
    return principal


def current(request: Request) -> Principal:
    """Return who is asking, or refuse the request."""
    principal = principal_of(request)
    if principal is None:
        said = (
            "Send a token in the header `Authorization: Bearer TOKEN`: `oddarms serve token` makes"
            " one."
        )
        raise Problem(401, "unauthorized", said, {"WWW-Authenticate": "Bearer"})
    return principal


def check_csrf(request: Request) -> None:
    """Refuse a change that no page of ours has made; forms of pages are left to `check_form`."""
    principal = principal_of(request)
    safe = request.method in ("GET", "HEAD", "OPTIONS")
    if principal is None or principal.csrf is None or safe:
        return
    given = request.headers.get("x-csrf-token")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given is None and kind in FORMS and not is_api(request):
        return
    _compare_csrf(given, principal.csrf)


async def check_form(request: Request) -> FormData:
    """Return the form of a request, if a page of this session has made it."""
    form = await request.form(max_part_size=MAX_BODY)
    principal = principal_of(request)
    if principal is not None and principal.csrf is not None:
        _compare_csrf(request.headers.get("x-csrf-token") or form.get("csrf"), principal.csrf)
    return form


def _compare_csrf(given: object, expected: str) -> None:
    text = given if isinstance(given, str) else ""
    if not hmac.compare_digest(text.encode(), expected.encode()):
        said = "The form does not belong to this session: load the page again."
        raise Problem(403, "csrf", said)


async def log_in(request: Request, response: Response, text: str) -> None:
    """Start a session with a token, as a cookie of the response; refuse a wrong token."""
    state = state_of(request)
    token = await _verified(state, text.strip())
    if token is None or token.parent is not None:  # a session cannot prolong itself
        raise _wrong_token(request)
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
    request.state.principal = Principal(token, csrf_of(cookie))
    audit(request, "log in")


async def log_out(request: Request, response: Response) -> None:
    """End the session of a request."""
    principal = principal_of(request)
    if principal is not None and principal.csrf is not None:
        await _end_sessions(request, response)
        audit(request, "log out")


async def _end_sessions(request: Request, response: Response) -> None:
    """End all sessions that a browser has here; those of other servers stay."""
    state = state_of(request)
    for name, _, token in await _sessions(request, state):
        await run_in_threadpool(state.tokens.revoke, token.id)
        response.delete_cookie(name, path=f"{request.scope['root_path']}/")


def audit(request: Request, action: str, study: str = "", **more: Any) -> None:
    """Log a change under ``oddarms.audit``: what, which token, from where, which request."""
    who = current(request)
    known = {"token": who.token.owner, "role": who.role.value, "from": _address(request)}
    known["request"] = request.state.request_id
    given = {"study": study} if study else {}
    if state_of(request).settings.forwarded_user:
        given["user"] = shown(request.headers.get("x-forwarded-user", "-"))
    given |= more | {"name": who.token.note}
    given = {name: x[:MAX_LOGGED] if isinstance(x, str) else x for name, x in given.items()}
    words = [f"{name}={value}" for name, value in known.items()]
    words += [f"{name}={value!r:.200}" for name, value in given.items()]
    fields = {"action": action, **known, **given}
    _audit.info("%s", " ".join([action, *words]), extra={"fields": fields})


def _address(connection: HTTPConnection) -> str:
    """Return a client's address as one word; a proxy that is believed may forward any text."""
    return shown(connection.client.host).replace(" ", "_") if connection.client else "-"


# Dependencies of routes


def reader(principal: Annotated[Principal, Depends(current)]) -> Principal:
    """Return who is asking, who may read all studies."""
    if principal.token.study is not None:
        raise _forbidden("a token of an admin, or of a reader of all studies")
    return principal


def admin(principal: Annotated[Principal, Depends(current)]) -> Principal:
    """Return who is asking, who may do everything."""
    if not principal.is_admin:
        raise _forbidden("an admin's token")
    return principal


def study_to_read(name: str, request: Request) -> StoredStudy:
    """Return the study of a route, for somebody who may read it."""
    principal = current(request)
    wanted = name.replace("\0", "/")  # see `oddarms.server._guards`
    only = principal.token.study
    if only is None or principal.token.study_name == wanted:
        study = state_of(request).studies.get(wanted)
        if only in (None, study.number):
            return study
    raise UnknownStudy(f"This token is for another study than {wanted!r}.")


def study_to_work(name: str, request: Request) -> StoredStudy:
    """Return the study of a route, for somebody who may ask and tell there."""
    study = study_to_read(name, request)
    if current(request).role is Role.READER:
        raise _forbidden("a token of a worker or an admin")
    return study


def study_to_change(name: str, request: Request) -> StoredStudy:
    """Return the study of a route, for somebody who may change it."""
    study = study_to_read(name, request)
    admin(current(request))
    return study


def _forbidden(needed: str) -> Problem:
    return Problem(403, "forbidden", f"This needs {needed}.")


Anybody = Annotated[Principal, Depends(current)]
Admin = Annotated[Principal, Depends(admin)]
StudyToRead = Annotated[StoredStudy, Depends(study_to_read)]
StudyToWork = Annotated[StoredStudy, Depends(study_to_work)]
StudyToChange = Annotated[StoredStudy, Depends(study_to_change)]
