"""Connections of clients that say nothing, never come to an end, or do not read, are closed."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
HEADER_BYTES = 64 * 2**10
MOST_CONNECTIONS = 4000
READ_SECONDS = 60.0
READ_BYTES = 2**16
"""A client must read so much of what waits for it in so many seconds."""
MOST_UNREAD = 256 * 2**20
"""Bytes that wait for all clients together."""


class GuardedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with a time and a size for the head of each request.

    Beyond `most` connections, the one whose client has kept the server waiting longest, for a head,
    a body, or to read an answer, makes room for a new one: who is silent locks nobody out.
    """

    most = MOST_CONNECTIONS
    unread: ClassVar[dict[GuardedProtocol, None]] = {}
    """Those whose clients have more to read than the system holds for them, in that order."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._head = 0
        self._in_head = False
        self._unanswered: deque[Any] = deque()
        self.idle_since = time.monotonic()

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn to do something."""
        return self.is_idle or self.cycle.more_body or self in self.unread

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > self.most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, or of the next one while this one is being answered."""
        if self.is_idle and self._deadline is None:
            self._await_head()
        if self.is_idle or self._in_head:
            self._head += len(data)
            if self._head > ADMITTED:
                self.transport.abort()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Wait no longer: the head of a request is here."""
        self._in_head, self._head = False, 0
        too_large = self._head_bytes() > HEADER_BYTES
        self._stop_waiting()
        if too_large:
            self.transport.abort()
            return
        super().on_headers_complete()
        while self._unanswered and self._unanswered[0].response_complete:
            self._unanswered.popleft()
        if self.cycle is not None:
            self._unanswered.append(self.cycle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything, and tell those who answer; uvicorn tells the last one only."""
        self._stop_waiting()
        self._has_read()
        for cycle in self._unanswered:
            cycle.disconnected = cycle.disconnected or not cycle.response_complete
            cycle.message_event.set()
        self._unanswered.clear()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self.unread[self] = None
        self._await_reader(self.waiting_bytes)
        while sum(one.waiting_bytes for one in self.unread) > MOST_UNREAD:
            slowest = next(iter(self.unread))
            slowest._has_read()
            slowest.transport.abort()

    def resume_writing(self) -> None:
        """Wait no longer: the client has read."""
        self._has_read()
        super().resume_writing()

    @property
    def waiting_bytes(self) -> int:
        """How much of its answers the client has not read."""
        return self.transport.get_write_buffer_size()

    def _await_reader(self, before: int) -> None:
        self._reading = self.loop.call_later(READ_SECONDS, self._check_reader, before)

    def _check_reader(self, before: int) -> None:
        """Abort where nothing was read; `close` would wait for the client."""
        now = self.waiting_bytes
        if now > before - READ_BYTES:
            self._has_read()
            self.transport.abort()
        else:
            self._await_reader(now)

    def _has_read(self) -> None:
        self.unread.pop(self, None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _await_head(self) -> None:
        self._head = 0
        self.idle_since = time.monotonic()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.is_idle and not self.transport.is_closing():
            self.transport.abort()

    def _make_room(self) -> None:
        silent = [
            one
            for one in self.connections
            if isinstance(one, GuardedProtocol) and one is not self and one.waits
        ]
        oldest = min(silent, key=lambda one: one.idle_since, default=self)
        oldest.transport.abort()


ADMITTED = 2 * HEADER_BYTES + 2**18
"""Bytes before the head of a request is complete; a part may have the beginning of its body."""
