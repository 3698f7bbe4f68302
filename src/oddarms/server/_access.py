"""Who is asking, and what they may do.

A request has ``Authorization: Bearer TOKEN``, or the cookie of a session, which `log_in` starts. A
change with a cookie must carry the session's CSRF token, in the header ``X-CSRF-Token`` or in the
form field ``csrf``: routes of forms call `check_form`, all others are checked before they run.

Routes take as dependencies ``principal: Anybody`` (with a token) or ``Admin``, and ``StudyToRead``,
``StudyToWork`` or ``StudyToChange``: the opened study of the route's ``{name}``, whose methods
block, so that such a route is a ``def``, or uses `run_in_threadpool`.

Every request passes `Guards`, one middleware around everything else, so that each answer has the
security headers and is counted.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.server._problems import Problem, Seldom, answer, is_api, request_id
from oddarms.server._state import State, state_of
from oddarms.server._tokens import Role, Token
from oddarms.studies import StoredStudy
from oddarms.text import shown

COOKIE = "oddarms_session_"
"""Before the port: browsers send cookies to all servers of a host."""
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
    def is_admin(self) -> bool:
        """Whether it allows everything."""
        return self.token.role is Role.ADMIN


async def identified(connection: HTTPConnection, state: State) -> Principal | None:
    """Return who is asking; None without a token or a valid cookie. Refuse a wrong token."""
    scheme, _, text = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and text.strip():
        token = await _verified(state, text.strip())
        if token is None or token.parent is not None:  # a session is for its cookie
            raise _wrong_token(connection)
        return Principal(token)
    return await _session(connection, state)


async def _session(connection: HTTPConnection, state: State) -> Principal | None:
    """Return who is asking by the cookie of a session."""
    cookie = connection.cookies.get(_cookie_name(connection), "")
    token = await _verified(state, cookie) if cookie else None
    if token is None or token.parent is None:
        return None
    return Principal(token, csrf_of(cookie))


def _cookie_name(connection: HTTPConnection) -> str:
    prefix = connection.scope.get("root_path", "")
    return f"{COOKIE}{connection.url.port or ''}{prefix.encode().hex()}"


async def _verified(state: State, text: str) -> Token | None:
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
    await _end_session(request, response)
    cookie = await run_in_threadpool(state.tokens.session, token, SESSION)
    response.set_cookie(
        _cookie_name(request),
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
        await _end_session(request, response)
        audit(request, "log out")


async def _end_session(request: Request, response: Response) -> None:
    state = state_of(request)
    session = await _session(request, state)
    if session is not None:
        await run_in_threadpool(state.tokens.revoke, session.token.id)
        response.delete_cookie(_cookie_name(request), path=f"{request.scope['root_path']}/")


def audit(request: Request, action: str, study: str = "", **more: Any) -> None:
    """Log a change under ``oddarms.audit``: what, which token, from where, which request."""
    who = current(request)
    known = {"token": who.token.owner, "role": who.token.role.value, "from": _address(request)}
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
    wanted = name.replace("\0", "/")  # see `oddarms.server._access`
    only = principal.token.study
    if only is None or principal.token.study_name == wanted:
        study = state_of(request).studies.get(wanted)
        if only in (None, study.number):
            return study
    raise UnknownStudy(f"This token is for another study than {wanted!r}.")


def study_to_work(name: str, request: Request) -> StoredStudy:
    """Return the study of a route, for somebody who may ask and tell there."""
    study = study_to_read(name, request)
    if current(request).token.role is Role.READER:
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


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer, unless it sets its own."""
MAX_SMALL_BODY = 16 * 2**10
"""Bytes of a body without a valid token, or where no route takes more."""
HSTS = (b"strict-transport-security", b"max-age=31536000")
"""Behind TLS: browsers do not come back without it."""
GONE = 499
"""Status in the metrics if the client closed the connection, as in nginx."""
METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")
OURS = (
    *("api", "healthz", "login", "logout", "metrics", "new", "readyz", "static", "studies"),
    "tokens",
)
"""First parts of our paths. A prefix cannot start with one: was it stripped or not?"""

_HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~-]+")
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def checked_prefix(root_path: str) -> str:
    """Return a prefix with one slash, before it; refuse one that addresses cannot have.

    Examples
    --------
    >>> checked_prefix("team/odd/"), checked_prefix("/")
    ('/team/odd', '')
    """
    inner = root_path.strip("/")
    if not inner:
        return ""
    segments = inner.split("/")
    if segments[0] in OURS or not all(_SEGMENT.fullmatch(one) for one in segments):
        raise InvalidParameter(
            f"root_path cannot be {root_path!r:.60}: use ASCII letters, digits and ._~- between"
            f" slashes, and start with none of {', '.join(OURS)}."
        )
    return f"/{inner}"


def address_of(path: str) -> str:
    r"""Return the address of a path that `Guards` has read.

    Examples
    --------
    >>> address_of("/studies/a\0b 50%")
    '/studies/a%2Fb%2050%25'
    """
    return quote(path).replace("%00", "%2F")


class Guards:
    """Middleware that lets a request pass only if nothing about it is wrong."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = app
        self._state = state
        self._prefix = state.settings.root_path
        names = (name.lower() for name in state.settings.allowed_hosts)
        self._hosts = frozenset({"localhost", *names})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given, scope = scope["method"], {**scope, "state": dict(scope.get("state", {}))}
        scope["state"]["request_id"] = identity = secrets.token_hex(8)
        request_id.set(identity)
        tls = self._state.settings.tls_elsewhere or scope["scheme"] == "https"
        sent, began = _Sent(send, identity, tls=tls), time.monotonic()
        try:
            await self._answer(scope, receive, sent)
        finally:
            self._count(given, scope, sent, time.monotonic() - began)

    async def _answer(self, scope: Scope, receive: Receive, sent: _Sent) -> None:
        request = Request(scope, receive)
        try:
            self._find_path(scope)
            self._check_host(request)
            _check_origin(request)
            scope["state"]["principal"] = await identified(request, self._state)
            check_csrf(request)
            body = _limited(request, receive)
            if scope["method"] == "HEAD":
                scope["method"] = "GET"  # the server leaves the body out
            await self._app(scope, body, sent)
        except ClientDisconnect:
            return
        except Exception as error:
            if sent.status is not None:
                raise
            await answer(request, error, self._state.hidden)(scope, receive, sent)

    def _find_path(self, scope: Scope) -> None:
        """Find the path below the prefix, whether a proxy has stripped it or not.

        A slash within the name of a study, %2F, becomes a NUL, which no name has. A slash at the
        end is ignored.
        """
        raw, prefix = scope.get("raw_path") or scope["path"].encode(), self._prefix
        if b"%00" in raw or b"\0" in raw:
            raise Problem(404, "not-found", "There is nothing at this address.")
        path = unquote(raw.replace(b"%2f", b"%00").replace(b"%2F", b"%00").decode("latin-1"))
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = path.removeprefix(prefix)
        scope["root_path"] = prefix
        scope["path"] = prefix + (path.rstrip("/") or "/")

    def _check_host(self, request: Request) -> None:
        """Refuse unknown names: another site may point its name at this machine."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not _is_one_of(hosts[0], self._hosts):
            said = "This server does not have the name in Host: `--allow-host NAME` adds one."
            raise Problem(421, "wrong-host", said)

    def _count(self, method: str, scope: Scope, sent: _Sent, seconds: float) -> None:
        method = method if method in METHODS else "other"
        route = getattr(scope.get("route"), "path", "other")  # the pattern, without names
        self._state.metrics.requests.labels(method, route, sent.status or GONE).inc()
        if "waited" not in scope["state"]:
            self._state.metrics.seconds.labels(method, route).observe(seconds)


class _Sent:
    """A `send` that adds the security headers and the request's id, and remembers the status."""

    def __init__(self, send: Send, identity: str, *, tls: bool) -> None:
        self._send = send
        self._own = [(b"x-request-id", identity.encode()), *([HSTS] if tls else [])]
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", []))
            there = {name.lower() for name, _ in headers}
            headers += [one for one in _HEADERS if one[0] not in there]
            if b"cache-control" not in there:  # a static file has a tag: browsers ask about it
                headers.append((b"cache-control", b"no-cache" if b"etag" in there else b"no-store"))
            headers += self._own
            message = {**message, "headers": headers}
        await self._send(message)


def _limited(request: Request, receive: Receive) -> Receive:
    """Return a `receive` that refuses a body which is too large.

    It may be large if there is a token, and a route that takes it: of the API or for a new study.
    """
    takes = is_api(request) or request.scope["path"].endswith("/new")
    large = takes and request.method == "POST" and principal_of(request) is not None
    most = left = MAX_BODY if large else MAX_SMALL_BODY
    said = f"The body must have at most {most:,} bytes: send it in parts."
    announced = request.headers.get("content-length", "")[:20]
    if announced.isdecimal() and int(announced) > most:
        raise Problem(413, "too-large", said, {"Connection": "close"})

    async def limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise Problem(413, "too-large", said, {"Connection": "close"})
        return message

    return limited


def _check_origin(request: Request) -> None:
    """Refuse what a page of another site sends, whatever the method; it may link to pages."""
    origins = request.headers.getlist("origin")
    foreign = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    navigates = request.headers.get("sec-fetch-mode") == "navigate"
    link = navigates and request.method in ("GET", "HEAD") and not is_api(request)
    if (foreign and not link) or not all(_is_ours(origin, request) for origin in origins):
        said = "The request comes from a page of another site."
        raise Problem(403, "wrong-origin", said)


def _is_ours(origin: str, request: Request) -> bool:
    """Return whether an Origin is that of this server's pages.

    A request over TLS must come from a page that did, too. The other way round, there may be a
    proxy that terminates TLS and does not say so.
    """
    scheme, _, host = origin.partition("://")
    schemes = ("https",) if request.url.scheme == "https" else ("http", "https")
    return scheme in schemes and host.lower() == request.headers.get("host", "").lower()


@lru_cache(maxsize=128)
def _is_one_of(host: str, names: frozenset[str]) -> bool:
    """Return whether a Host is one of some names or an IP address, which DNS cannot redirect."""
    try:
        name = (urlsplit(f"//{host}").hostname or "") if _HOST.fullmatch(host) else ""
        return name in names or bool(ipaddress.ip_address(name))
    except ValueError:
        return False
