"""Event streams, and requests that wait for work: one look at a study every half second for all."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from oddarms.errors import OddarmsError
from oddarms.search import Tickets
from oddarms.server._problems import Problem
from oddarms.server._tokens import Token, Tokens
from oddarms.studies import StoredStudy

if TYPE_CHECKING:
    from oddarms.server._api import Ask

LOOK_SECONDS = 0.5
PAUSE_SECONDS = 0.05
"""Between two looks of a request that waits for work, however much changes."""
HEARTBEAT_SECONDS = 15.0
STREAM_SECONDS = 600.0
"""Streams end then; browsers reconnect, and present their token again."""
CHECK_SECONDS = 5.0
"""A stream ends this soon after its token was revoked."""
MAX_STREAMS = 1000
MAX_OF_A_TOKEN = 256


class Events:
    """The streams of one process; used in its event loop only."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._watches: dict[int, _Watch] = {}
        self._by_token: Counter[str] = Counter()
        self._checks: dict[str, tuple[float, asyncio.Task[bool]]] = {}
        self._closed = False
        self._asking: set[asyncio.Task[Tickets]] = set()

    @property
    def waiting(self) -> int:
        """How many requests wait for work."""
        return len(self._asking)

    @property
    def open_streams(self) -> int:
        """How many streams there are."""
        return self._by_token.total()

    def stream(self, study: StoredStudy, token: Token) -> AsyncIterator[str]:
        """Return the text of a stream, unless there are too many."""
        if self.open_streams >= MAX_STREAMS or self._by_token[token.owner] >= MAX_OF_A_TOKEN:
            said = "Too many event streams are open: close some, or repeat the request later."
            raise Problem(503, "busy", said, {"Retry-After": "10"})
        return self._text(study, token)

    @contextmanager
    def _watching(self, study: StoredStudy) -> Iterator[_Watch]:
        watch = self._watches.get(study.number)
        if watch is None:
            watch = self._watches[study.number] = _Watch(study)
        watch.watchers += 1
        try:
            yield watch
        finally:
            watch.watchers -= 1
            if not watch.watchers:
                watch.task.cancel()
                del self._watches[study.number]

    async def _text(self, study: StoredStudy, token: Token) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        seen, spoken, until = None, loop.time(), loop.time() + STREAM_SECONDS
        self._by_token[token.owner] += 1
        try:
            with self._watching(study) as watch:
                yield "retry: 2000\n\n"
                while not self._closed and loop.time() < until and not watch.over:
                    if not await self._holds(token):
                        return
                    if watch.pulse is not None and watch.pulse != seen:
                        seen, spoken = watch.pulse, loop.time()
                        yield f"event: change\nid: {seen}\ndata: {json.dumps({'pulse': seen})}\n\n"
                        continue
                    await watch.changed(min(CHECK_SECONDS, until - loop.time()))
                    if loop.time() - spoken >= HEARTBEAT_SECONDS:
                        spoken = loop.time()
                        yield ": still here\n\n"
                if watch.over:
                    yield "event: deleted\ndata: {}\n\n"
        finally:
            self._by_token[token.owner] -= 1

    async def _holds(self, token: Token) -> bool:
        """One look serves all streams of a token for a while."""
        now = asyncio.get_running_loop().time()
        until, look = self._checks.get(token.id, (0.0, None))
        if look is None or now >= until:
            look = asyncio.create_task(run_in_threadpool(self._tokens.holds, token))
            self._checks = {one: known for one, known in self._checks.items() if known[0] > now}
            self._checks[token.id] = now + CHECK_SECONDS, look
        try:
            return await asyncio.shield(look)
        except OddarmsError:  # the storage is unavailable; the next look may succeed
            return True

    async def tickets(
        self, study: StoredStudy, token: Token, request: Request, body: Ask
    ) -> Tickets:
        """Ask a study, and wait for work as long as the body of the request says.

        A wait ends when the client goes, the token is revoked or the server ends, too.
        """

        def ask() -> Tickets:
            return study.ask(body.n, body.worker, body.lease, prefetch=body.prefetch, key=body.key)

        tickets = await run_in_threadpool(ask)
        if tickets or tickets.done or not body.wait or len(self._asking) >= MAX_STREAMS:
            return tickets
        request.state.waited = True
        with self._watching(study) as watch:
            asking = asyncio.create_task(watch.work(ask))
            gone = asyncio.ensure_future(request.receive())
            self._asking.add(asking)
            try:
                valid = await self._ended({asking, gone}, token, body.wait)
            finally:
                self._asking.discard(asking)
                asking.cancel()  # which does not interrupt an `ask`
                await asyncio.wait({asking})
                gone.cancel()
        found = tickets if asking.cancelled() else asking.result()
        if gone.done() and not gone.cancelled():
            if found:
                await run_in_threadpool(study.skip_many, list(found), "the client is gone")
            raise ClientDisconnect
        if not valid:
            raise Problem(401, "unauthorized", "The token was revoked.")
        return found

    async def _ended(self, tasks: set[asyncio.Future[Any]], token: Token, seconds: float) -> bool:
        """Wait for the first task, or the time; return whether the token is still valid."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0.0 and not self._closed:
            done, _ = await asyncio.wait(
                tasks, timeout=min(left, CHECK_SECONDS), return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                break
            if not await self._holds(token):
                return False
        return True

    def changed(self, study: StoredStudy) -> None:
        """Let a request that waits for work look again; any thread may say so."""
        watch = self._watches.get(study.number)
        if watch is not None:
            watch.loop.call_soon_threadsafe(watch.news.set)

    def close(self) -> None:
        """End all streams and waits, as the server ends."""
        self._closed = True
        for watch in self._watches.values():
            watch.wake()
        for task in self._asking:
            task.cancel()


class _Watch:
    """Looks at one study as long as somebody watches it."""

    def __init__(self, study: StoredStudy) -> None:
        self._study = study
        self.loop = asyncio.get_running_loop()
        self.watchers = 0
        self.pulse: str | None = None
        self.over = False
        """Whether the study was deleted."""
        self.news = asyncio.Event()
        """Set when there may be work."""
        self._turn, self._event = asyncio.Lock(), asyncio.Event()
        self.task = asyncio.create_task(self._look())

    async def work(self, ask: Callable[[], Tickets]) -> Tickets:
        """Ask until there is work, one request after the other: nobody else has to look."""
        async with self._turn:
            while True:
                self.news.clear()
                asking = asyncio.create_task(run_in_threadpool(ask))
                try:
                    tickets = await asyncio.shield(asking)
                except asyncio.CancelledError:  # tickets must not be lost
                    return await asking
                if tickets or tickets.done:
                    return tickets
                await asyncio.sleep(PAUSE_SECONDS)
                await self.news.wait()

    def wake(self) -> None:
        """Wake up all who wait for a change."""
        self.news.set()
        self._event.set()
        self._event = asyncio.Event()

    async def changed(self, seconds: float) -> None:
        """Wait for a change, at most so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), max(seconds, 0.0))

    async def _look(self) -> None:
        while not self.over:
            pulse = self.pulse
            try:
                pulse = await run_in_threadpool(self._study.pulse)
            except LookupError:  # the study was deleted
                self.over = True
            except OddarmsError:  # the storage is unavailable; the next look may succeed
                pass
            if self.over or pulse != self.pulse:
                self.pulse = pulse
                self.wake()
            await asyncio.sleep(LOOK_SECONDS)
