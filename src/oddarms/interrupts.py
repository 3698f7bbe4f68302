"""Signals that end a run: turned into an exception, and put off where that would do harm."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
SAME_SECONDS = 0.25
"""A second signal so soon after the first is the same one: `timeout` and some shells send two."""

Handler = Callable[[int, Any], Any]


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end.

    Attributes
    ----------
    signal
        Its number; a shell expects the exit code 128 + that.
    """

    def __init__(self, message: str = "", number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal = int(number)


def signal_of(error: BaseException) -> int:
    """Return the number of the signal behind an interruption; Ctrl-C if it does not say."""
    return int(getattr(error, "signal", signal.SIGINT))


class _Block:
    """Signals put off by one `uninterrupted`, and the handlers they are meant for."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.received: list[int] = []
        self.first = 0.0
        self.restored = False

    def begin(self) -> None:
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self.handlers[number] = handler
        self.install()

    def install(self) -> None:
        self.restored = False
        for number in self.handlers:
            signal.signal(number, self._receive)

    def restore(self) -> None:
        self.restored = True  # a handler that is back may raise before the others are
        for number, handler in self.handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: Any) -> None:
        if self.restored:
            self.handlers[number](number, frame)
            return
        now = time.monotonic()
        if not self.received:
            self.first = now
        elif now - self.first >= SAME_SECONDS:  # somebody insists
            self._pass_on(number, frame)
        self.received.append(number)

    def _pass_on(self, number: int, frame: Any) -> None:
        """Let the handler outside all blocks have a signal."""
        handler = self.handlers[number]
        outer = getattr(handler, "__self__", None)
        if isinstance(outer, _Block):
            outer._pass_on(number, frame)
        else:
            handler(number, frame)

    def deliver(self) -> None:
        """Let the handlers, restored before, have what was received."""
        received, self.received = self.received, []
        if received:
            signal.raise_signal(received[0])


_blocks: list[_Block] = []  # of the main thread, which alone gets signals


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C, and other signals with a handler, off until the block is done.

    An exception between the beginning of a transaction and the `with` around it would leave the
    storage locked, for this process too, one between a result and its recording would lose it, and
    one between a call that has begun and its handle would leave the call to nobody. Outside the
    main thread, which alone gets signals, and where the handler is not Python's, nothing changes.
    Whoever sends a second signal is not made to wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    block = _Block()
    block.begin()
    _blocks.append(block)
    try:
        yield
    finally:
        _blocks.remove(block)
        block.restore()
        block.deliver()


def pause(seconds: float) -> None:
    """Sleep; a signal is obeyed at once, also in an `uninterrupted` block around it.

    For waits at which nothing is half done: every block around it must bear an exception here.
    """
    if not _blocks or threading.current_thread() is not threading.main_thread():
        time.sleep(seconds)
        return
    blocks = _blocks[:]
    for block in reversed(blocks):
        block.restore()
    try:
        for block in blocks:
            block.deliver()
        time.sleep(seconds)
    finally:
        for block in blocks:
            block.install()


@contextmanager
def ending_signals(at_once: Callable[[int], None] | None = None) -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Interrupted`, as Ctrl-C raises its exception.

    Where the program has its own way with a signal, or ignores it as under ``nohup``, that stays.

    Parameters
    ----------
    at_once
        Called with the number of a second signal, whatever the first one has led to; Ctrl-C then
        raises `Interrupted`, too. It must not return.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first: list[float] = []

    def end(number: int, _frame: Any) -> None:
        now = time.monotonic()
        if first and now - first[0] < SAME_SECONDS:
            return
        if first and at_once is not None:
            at_once(number)
        first[:] = [*first, now][:1]
        raise Interrupted("", number)

    before: dict[int, Any] = {}
    for number in SIGNALS:
        handler = signal.getsignal(number)
        own = handler is signal.SIG_DFL or (
            at_once is not None and handler is signal.default_int_handler
        )
        if own:
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
