"""What every request must pass: the address as it was meant, Host, Origin, who asks, and CSRF."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddarms.errors import InvalidParameter, OddarmsError
from oddarms.server._access import check_csrf, identified
from oddarms.server._problems import Problem, answer, failed, storage_problem
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
LOOPBACK = ("localhost",)
KNOWN_HOSTS = 128
"""Of the headers Host seen last it is remembered what they are."""
_HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
FOREIGN_SITES = ("cross-site", "same-site")
OURS = ("api", "healthz", "login", "logout", "metrics", "new", "static", "studies")
"""With what our addresses begin: below such a prefix nobody could tell whether it was stripped."""
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~-]+")


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
            "root-path must be made of ASCII letters, digits and ._~- between slashes, and begin"
            f" with none of {', '.join(OURS)}, but got {root_path!r:.60}: choose another prefix."
        )
    return f"/{inner}"


def address_of(path: str) -> str:
    r"""Return a path as `Guards` leaves it as the address that somebody asked for.

    Examples
    --------
    >>> address_of("/studies/a\0b 50%")
    '/studies/a%2Fb%2050%25'
    """
    return quote(path).replace("%00", "%2F")


class Guards:
    """Middleware that lets a request through only if nothing about it is amiss."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = app
        self._state = state
        self._prefix = state.settings.root_path
        self._hosts = {*LOOPBACK, *(host.lower() for host in state.settings.allowed_hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["state"] = dict(scope.get("state", {}))
        request = Request(scope, receive)
        send = _guarded(send)
        try:
            self._place(scope)
            self._check_host(request)
            self._check_origin(request)
            scope["state"]["principal"] = principal = await identified(request, self._state)
            check_csrf(request, principal)
        except Problem as problem:
            await answer(request, problem)(scope, receive, send)
            return
        except OddarmsError as error:  # the storage is unavailable
            await storage_problem(request, error, self._state.hidden)(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope["method"] = "GET"
            receive, send = _without_body(send)
        await self._answered(request, receive, send)

    async def _answered(self, request: Request, receive: Receive, send: Send) -> None:
        """Answer, also where the application fails before it has begun to."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(request.scope, receive, noted)
        except Exception as error:
            if begun:
                raise
            await failed(request, error)(request.scope, receive, send)

    def _place(self, scope: Scope) -> None:
        """Find the path below the prefix, whether a proxy has stripped it or not.

        A slash within the name of a study, %2F, becomes a NUL, which no name has. One at the end
        means nothing.
        """
        raw = scope.get("raw_path") or scope["path"].encode()
        if b"%00" in raw or b"\0" in raw:
            raise Problem(404, "not-found", "there is nothing at this address.")
        path = unquote(raw.replace(b"%2f", b"%00").replace(b"%2F", b"%00").decode("latin-1"))
        mounted = scope.get("root_path", "")
        for prefix in (mounted, self._prefix):
            if prefix and (path == prefix or path.startswith(f"{prefix}/")):
                path = path.removeprefix(prefix)
        scope["root_path"] = self._outside(mounted)
        scope["path"] = scope["root_path"] + (path.rstrip("/") or "/")

    def _outside(self, mounted: str) -> str:
        """Return the prefix of our addresses: that of a proxy, and that of a mount within it."""
        if mounted.startswith(self._prefix):
            return mounted
        return self._prefix.removesuffix(mounted) + mounted

    def _check_host(self, request: Request) -> None:
        """Refuse names that are not ours: a page elsewhere may let its name mean this machine."""
        hosts = request.headers.getlist("host")
        name = _name(hosts[0]) if len(hosts) == 1 else ""
        if not (name in self._hosts or _is_address(name)):
            said = (
                "the Host of a request must be a name of this server but is not: start it with"
                " --allow-host NAME to let it in."
            )
            raise Problem(421, "wrong-host", said)

    def _check_origin(self, request: Request) -> None:
        """Refuse what a page of another site sends, whatever the method."""
        origins = request.headers.getlist("origin")
        foreign = request.headers.get("sec-fetch-site") in FOREIGN_SITES
        if not origins and not foreign:
            return
        navigation = (
            request.method in ("GET", "HEAD")
            and request.headers.get("sec-fetch-mode") == "navigate"
            and not request.url.path.startswith(f"{request.scope['root_path']}/api/")
        )
        same = all(_is_of(origin, request) for origin in origins)
        if not same or (foreign and not navigation):
            said = "the request must come from a page of this server but is of another site."
            raise Problem(403, "wrong-origin", said)


@lru_cache(maxsize=KNOWN_HOSTS)
def _name(host: str) -> str:
    """Return the name of a Host header without the port; nothing where more stands there."""
    if not _HOST.fullmatch(host):
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


@lru_cache(maxsize=KNOWN_HOSTS)
def _is_address(name: str) -> bool:
    """Return whether it is a number, which nobody can let mean another machine."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_of(origin: str, request: Request) -> bool:
    """Return whether an Origin is that of this server's pages.

    What was asked over TLS must come from a page that was, too. The other way round there may be a
    proxy that has the TLS and does not say so.
    """
    scheme, _, host = origin.partition("://")
    schemes = ("https",) if request.url.scheme == "https" else ("http", "https")
    return scheme in schemes and host.lower() == request.headers.get("host", "").lower()


_ALWAYS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_UNSTORED = (b"cache-control", b"no-store")


def _guarded(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            there = {name.lower() for name, _ in headers}
            headers += [one for one in (*_ALWAYS, _UNSTORED) if one[0] not in there]
            message = {**message, "headers": headers}
        await send(message)

    return with_headers


def _without_body(send: Send) -> tuple[Receive, Send]:
    """Answer HEAD by the head alone; to what would go on sending, the client has gone then."""
    begun = asyncio.Event()

    async def gone() -> Message:
        await begun.wait()
        return {"type": "http.disconnect"}

    async def head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})
            begun.set()

    return gone, head
