"""Event streams: one look at a study every half second, for all who watch it here."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool

from oddarms.errors import OddarmsError
from oddarms.server._problems import Problem
from oddarms.server._tokens import Token, Tokens
from oddarms.studies import StoredStudy

LOOK_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
STREAM_SECONDS = 600.0
"""Streams end then; browsers reconnect, and present their token again."""
CHECK_SECONDS = 5.0
"""A stream ends this soon after its token was revoked."""
MAX_STREAMS = 1000
MAX_OF_A_TOKEN = 256

_log = logging.getLogger(__name__)


class Events:
    """The streams of one process; used in its event loop only."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._watches: dict[int, _Watch] = {}
        self._by_token: Counter[str] = Counter()
        self._checks: dict[str, tuple[float, asyncio.Task[bool]]] = {}
        self._closed = False

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

    async def _text(self, study: StoredStudy, token: Token) -> AsyncIterator[str]:
        self._by_token[token.owner] += 1
        watch = self._watches.setdefault(study.number, _Watch(study))
        watch.begin()
        try:
            async for part in self._parts(watch, token):
                yield part
        finally:
            self._by_token[token.owner] -= 1
            if watch.end() and self._watches.get(study.number) is watch:
                del self._watches[study.number]

    async def _parts(self, watch: _Watch, token: Token) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        until = loop.time() + STREAM_SECONDS
        yield "retry: 2000\n\n"
        seen, spoken = None, loop.time()
        while not self._closed and loop.time() < until and not watch.over:
            if not await self._holds(token):
                return
            if watch.pulse is not None and watch.pulse != seen:
                seen, spoken = watch.pulse, loop.time()
                yield f"event: change\nid: {seen}\ndata: {json.dumps({'pulse': seen})}\n\n"
                continue
            await watch.changed(min(CHECK_SECONDS, HEARTBEAT_SECONDS, until - loop.time()))
            if loop.time() - spoken >= HEARTBEAT_SECONDS:
                spoken = loop.time()
                yield ": still here\n\n"
        if watch.over:
            yield "event: deleted\ndata: {}\n\n"

    async def _holds(self, token: Token) -> bool:
        """Return whether a token is valid; one look serves all its streams for a while."""
        now = asyncio.get_running_loop().time()
        until, look = self._checks.get(token.id, (0.0, None))
        if look is None or now >= until:
            look = asyncio.create_task(run_in_threadpool(self._tokens.holds, token))
            self._checks = {one: known for one, known in self._checks.items() if known[0] > now}
            self._checks[token.id] = now + CHECK_SECONDS, look
        try:
            return await asyncio.shield(look)
        except OddarmsError as error:  # the storage is unavailable; the next look may succeed
            _log.debug("a token could not be checked: %s", error)
            return True

    def close(self) -> None:
        """End all streams, as the server ends."""
        self._closed = True
        for watch in self._watches.values():
            watch.wake()


class _Watch:
    """Looks at one study as long as somebody watches it."""

    def __init__(self, study: StoredStudy) -> None:
        self._study = study
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._event = asyncio.Event()
        self.pulse: str | None = None
        self.over = False

    def begin(self) -> None:
        """Count one more who watches."""
        self._watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._look())

    def end(self) -> bool:
        """Count one less; return whether nobody watches any more."""
        self._watchers -= 1
        if self._watchers == 0 and self._task is not None:
            self._task.cancel()
            self._task = None
        return self._watchers == 0

    def wake(self) -> None:
        """Wake up all who wait for a change."""
        self._event.set()
        self._event = asyncio.Event()

    async def changed(self, seconds: float) -> None:
        """Wait for a change, at most so long."""
        event = self._event
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await event.wait()
        except TimeoutError:
            pass

    async def _look(self) -> None:
        while not self.over:
            try:
                pulse = await run_in_threadpool(self._study.pulse)
            except LookupError:  # the study was deleted
                self.over = True
                self.wake()
                return
            except OddarmsError as error:  # the storage is unavailable; the next look may succeed
                _log.debug("a look at %r failed: %s", self._study.name, error)
            else:
                if pulse != self.pulse:
                    self.pulse = pulse
                    self.wake()
            await asyncio.sleep(LOOK_SECONDS)
