"""Who watches a study is told when it changes: one look a second for all who watch it here."""

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
from oddarms.studies._study import StoredStudy

LOOK_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
STREAM_SECONDS = 600.0
"""Streams end then; browsers come back, and show their token again."""
CHECK_SECONDS = 5.0
"""After so long a stream ends whose token was revoked."""
MOST_STREAMS = 1000
MOST_OF_A_TOKEN = 256

_log = logging.getLogger(__name__)


class Events:
    """The streams of one process; used in its event loop only."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._held: dict[str, tuple[float, asyncio.Task[bool]]] = {}
        self._watches: dict[int, _Watch] = {}
        self._by_token: Counter[str] = Counter()
        self._closed = False

    @property
    def open_streams(self) -> int:
        """How many streams there are."""
        return self._by_token.total()

    def stream(self, study: StoredStudy, token: Token) -> AsyncIterator[str]:
        """Return the text of a stream, unless there are too many."""
        owner = token.parent or token.id
        if self.open_streams >= MOST_STREAMS or self._by_token[owner] >= MOST_OF_A_TOKEN:
            said = "too many event streams are open: close some, or repeat the request later."
            raise Problem(503, "busy", said, {"Retry-After": "10"})
        return self._text(study, token)

    async def _text(self, study: StoredStudy, token: Token) -> AsyncIterator[str]:
        owner = token.parent or token.id
        self._by_token[owner] += 1
        watch = self._watches.setdefault(study.number, _Watch(study))
        watch.begin()
        try:
            async for part in self._parts(watch, token):
                yield part
        finally:
            self._by_token[owner] -= 1
            if watch.end() and self._watches.get(study.number) is watch:
                del self._watches[study.number]

    async def _holds(self, token: Token) -> bool:
        """Return whether a token still holds; one look for all its streams."""
        now = asyncio.get_running_loop().time()
        until, look = self._held.get(token.id, (0.0, None))
        if look is None or now >= until:
            look = asyncio.create_task(run_in_threadpool(self._tokens.holds, token))
            self._held = {one: held for one, held in self._held.items() if held[0] > now}
            self._held[token.id] = now + CHECK_SECONDS, look
        try:
            return await asyncio.shield(look)
        except OddarmsError as error:  # the storage is away; the next look may succeed
            _log.debug("a look at a token failed: %s", error)
            return True

    async def _parts(self, watch: _Watch, token: Token) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        until = loop.time() + STREAM_SECONDS
        yield "retry: 2000\n\n"
        seen: str | None = None
        spoken = loop.time()
        while not self._closed and loop.time() < until and not watch.over:
            if not await self._holds(token):
                return
            if watch.pulse is not None and watch.pulse != seen:
                seen = watch.pulse
                spoken = loop.time()
                yield f"event: change\nid: {seen}\ndata: {json.dumps({'pulse': seen})}\n\n"
                continue
            await watch.changed(min(CHECK_SECONDS, HEARTBEAT_SECONDS, until - loop.time()))
            if loop.time() - spoken >= HEARTBEAT_SECONDS:
                spoken = loop.time()
                yield ": still here\n\n"
        if watch.over:
            yield "event: deleted\ndata: {}\n\n"

    def close(self) -> None:
        """End all streams, as the server ends; may be called from a signal handler's callback."""
        self._closed = True
        for watch in self._watches.values():
            watch.wake()


class _Watch:
    """Looks at one study as long as somebody wants to know of it."""

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
        """Let all who wait look."""
        self._event.set()
        self._event = asyncio.Event()

    async def changed(self, seconds: float) -> bool:
        """Wait for a change; return False if there was none for so long."""
        event = self._event
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def _look(self) -> None:
        while not self.over:
            try:
                pulse = await run_in_threadpool(self._study.pulse)
            except LookupError:  # it was deleted
                self.over = True
                self.wake()
                return
            except OddarmsError as error:  # the storage is away; the next look may succeed
                _log.debug("a look at %r failed: %s", self._study.name, error)
            else:
                if pulse != self.pulse:
                    self.pulse = pulse
                    self.wake()
            await asyncio.sleep(LOOK_SECONDS)
