"""How much a client may cost: sizes of bodies, their values, their time, and wrong tokens."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import threading
import time
from collections import Counter, OrderedDict, deque
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oddarms.errors import InvalidParameter
from oddarms.server._problems import Problem, answer
from oddarms.text import shown

UNKNOWN_BYTES = 16 * 2**10
"""Of the body of somebody who was not let in."""
WORKER_BYTES = 2 * 2**20
ADMIN_BYTES = 16 * 2**20
ALL_BYTES = 64 * 2**20
"""Of all bodies that are here at a time; those of one token may be half of it."""
MOST_VALUES = 2_000_000
"""Commas and brackets of a body: each value of JSON costs many times its text."""
FORMS = (b"multipart/form-data", b"application/x-www-form-urlencoded")
BODY_SECONDS = 60.0

MAX_ARMS = 100_000
"""Of a study that is created over HTTP."""

AT_A_TIME = 10
"""Requests of one token that are answered at a time, of which each may take a thread."""

GUESSES = 10
GUESS_SECONDS = 60.0
MOST_ADDRESSES = 10_000
MOST_LOGGED = 100
"""Addresses with wrong tokens that are named in the log in a minute."""

audit_log = logging.getLogger("oddarms.audit")


def check_arms(count: int) -> None:
    """Refuse a study whose making would take minutes and gigabytes of the server."""
    if count > MAX_ARMS:
        raise InvalidParameter(
            f"arms must be at most {MAX_ARMS:,} over HTTP but got {count:,}: create the study"
            " where its storage is, with `oddarms study create`, and work on it over HTTP."
        )


class WrongTokens:
    """Counts wrong tokens by address; a right one is always let in."""

    def __init__(self) -> None:
        self._guesses: OrderedDict[str, deque[float]] = OrderedDict()
        self._logged: dict[str, float] = {}

    def problem(self, client: Any) -> Problem:
        """Return the answer to a wrong token: wrong, or too many."""
        address = _network(client.host) if client is not None else "-"
        now = time.monotonic()
        guesses = self._guesses.setdefault(address, deque(maxlen=GUESSES))
        self._guesses.move_to_end(address)
        while len(self._guesses) > MOST_ADDRESSES:
            self._guesses.popitem(last=False)
        many = len(guesses) == GUESSES and now - guesses[0] < GUESS_SECONDS
        guesses.append(now)
        self._log(address, now)
        if many:
            said = f"too many wrong tokens came from {address}: wait a minute."
            return Problem(429, "too-many-guesses", said, {"Retry-After": str(int(GUESS_SECONDS))})
        said = "the token must be one of this server but is not: `oddarms serve token` makes one."
        return Problem(401, "unauthorized", said, {"WWW-Authenticate": "Bearer"})

    def _log(self, address: str, now: float) -> None:
        """Leave one line for an address and minute, whatever comes from there."""
        if now - self._logged.get(address, -math.inf) < GUESS_SECONDS:
            return
        recent = {one: at for one, at in self._logged.items() if now - at < GUESS_SECONDS}
        if len(recent) < MOST_LOGGED:
            self._logged = {**recent, address: now}
            audit_log.warning("wrong token from=%s", shown(address).replace(" ", "_"))


def _network(address: str) -> str:
    """Return by what guesses are counted: with IPv6 a single client has 2^64 addresses.

    Examples
    --------
    >>> _network("192.0.2.7"), _network("2001:db8:1:2:3:4:5:6"), _network("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:1:2::/64', '192.0.2.7')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


class Bodies:
    """Middleware that reads bodies, counted while they come, before anything is made of them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        owner, parts = _owner(scope), _Parts()
        try:
            try:
                body = await self._read(scope, receive, parts)
            except Problem as problem:
                await answer(Request(scope), problem)(scope, receive, send)
                return
            except _Gone:
                return
            await self._app(scope, replayed(body, receive), send)
        finally:  # only now: it is here while it waits for its turn, and as long as it is answered
            self._held[owner] -= parts.size
            if not self._held[owner]:
                del self._held[owner]

    async def _read(self, scope: Scope, receive: Receive, parts: _Parts) -> bytes:
        _check_encoding(scope)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in _parts(receive):
                    parts.add(part)
                    self._held[_owner(scope)] += len(part)
                    self._check(scope, parts.size)
        except TimeoutError:
            said = f"the body must come within {BODY_SECONDS:.0f} seconds but did not."
            raise Problem(408, "slow", said, {"Connection": "close"}) from None
        body = parts.joined()
        _check_values(scope, body)
        return body

    def _check(self, scope: Scope, size: int) -> None:
        principal = scope.get("state", {}).get("principal")
        if principal is None:
            most = UNKNOWN_BYTES
        else:
            most = ADMIN_BYTES if principal.is_admin else WORKER_BYTES
        if size > most:
            said = f"the body must have at most {most:,} bytes but has more: send it in parts."
            raise Problem(413, "too-large", said, {"Connection": "close"})
        if self._held[_owner(scope)] > ALL_BYTES // 2 or self._held.total() > ALL_BYTES:
            said = "the server has too much to read at this moment: repeat the request."
            raise Problem(503, "busy", said, {"Connection": "close", "Retry-After": "1"})


class _Parts:
    """The parts of a body, and how large they are together, also once they are joined."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self.size += len(part)

    def joined(self) -> bytes:
        """Return the body, and keep nothing of it."""
        body = b"".join(self._parts)
        self._parts.clear()
        return body


def _owner(scope: Scope) -> str:
    """Return whose a request is: the id of a token, and of all who have none the same nothing."""
    principal = scope.get("state", {}).get("principal")
    return "" if principal is None else principal.token.parent or principal.token.id


class Shared:
    """Middleware that lets further requests of a token wait, so that others find a thread.

    People without a token share one line, so that none of them may hold it up by not reading: their
    turn is over when the answer begins. So is that of a stream of events, which takes no thread.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        owner = _owner(scope)
        self._users[owner] += 1
        turns = self._turns.setdefault(owner, asyncio.Semaphore(AT_A_TIME))
        turn = _Turn(turns)
        try:
            async with turn:
                await self._app(scope, receive, _over_early(turn, send, always=not owner))
        finally:
            self._users[owner] -= 1
            if not self._users[owner]:
                del self._users[owner], self._turns[owner]


class _Turn:
    """A turn that may be over before its block ends."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._mine = False

    async def __aenter__(self) -> None:
        await self._turns.acquire()
        self._mine = True

    async def __aexit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let the next one have it."""
        if self._mine:
            self._mine = False
            self._turns.release()


def _over_early(turn: _Turn, send: Send, *, always: bool) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start" and (always or is_stream(message)):
            turn.end()
        await send(message)

    return sent


def is_stream(started: Message) -> bool:
    """Return whether an answer that begins is a stream of events, which may last long."""
    kinds = (value for name, value in started.get("headers", []) if name == b"content-type")
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


class Dear:
    """What is done one at a time; while few wait for their turn, more are told to come again."""

    def __init__(self, what: str, waiting: int = 0) -> None:
        self._what = what
        self._places = threading.Semaphore(1 + waiting)
        self._turn = threading.Lock()

    def __enter__(self) -> None:
        if not self._places.acquire(blocking=False):
            said = f"{self._what} is under way already: repeat the request when that has ended."
            raise Problem(503, "busy", said, {"Retry-After": "5"})
        self._turn.acquire()

    def __exit__(self, *_: object) -> None:
        self._turn.release()
        self._places.release()


class _Gone(Exception):
    """The client has gone before its body was here."""


async def _parts(receive: Receive) -> Any:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        more = message.get("more_body", False)
        yield message.get("body", b"")


def _check_encoding(scope: Scope) -> None:
    """Refuse what nobody here unpacks."""
    for name, value in scope["headers"]:
        if name == b"content-encoding" and value.strip().lower() != b"identity":
            given = shown(value.decode("latin-1"))[:60]
            said = f"Content-Encoding must be left out but got {given}: send the body as it is."
            raise Problem(415, "unsupported-media-type", said, {"Connection": "close"})


def _check_values(scope: Scope, body: bytes) -> None:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if kinds and all(kind.startswith(FORMS) for kind in kinds):  # whose parts are counted elsewhere
        return
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > MOST_VALUES:
        said = f"the body must have at most {MOST_VALUES:,} values but has more: send it in parts."
        raise Problem(413, "too-large", said)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read to whoever comes next, and then what follows."""
    given = False

    async def again() -> Message:
        nonlocal given, body
        if given:
            return await receive()
        given = True
        message = {"type": "http.request", "body": body, "more_body": False}
        body = b""
        return message

    return again
