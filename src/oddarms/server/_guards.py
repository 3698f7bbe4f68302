"""What every request passes: its path, Host, Origin, token, CSRF token, and the size of its body.

One middleware around everything else, so that each answer has the security headers and is counted.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddarms.errors import InvalidParameter
from oddarms.server._access import MAX_BODY, check_csrf, identified, principal_of
from oddarms.server._problems import Problem, answer, is_api, request_id
from oddarms.server._state import State

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
            if scope["method"] == "HEAD" and not scope["path"].endswith("/events"):
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
        raw = scope.get("raw_path") or scope["path"].encode()
        mounted = scope.get("root_path", "")
        below = mounted.startswith(self._prefix)  # else it is mounted within a proxy's prefix
        scope["root_path"] = mounted if below else self._prefix.removesuffix(mounted) + mounted
        if b"%00" in raw or b"\0" in raw:
            raise Problem(404, "not-found", "There is nothing at this address.")
        path = unquote(raw.replace(b"%2f", b"%00").replace(b"%2F", b"%00").decode("latin-1"))
        for prefix in (mounted, self._prefix):
            if prefix and (path == prefix or path.startswith(f"{prefix}/")):
                path = path.removeprefix(prefix)
        scope["path"] = scope["root_path"] + (path.rstrip("/") or "/")

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
        if not route.endswith("/events") and "waited" not in scope["state"]:
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
