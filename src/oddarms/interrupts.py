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
    """Return the number of the signal behind an interruption; Ctrl-C if nothing says.

    What was raised may have been turned into another exception on its way.
    """
    behind: BaseException | None = error
    while behind is not None:
        if hasattr(behind, "signal"):
            return int(behind.signal)
        behind = behind.__context__
    return int(signal.SIGINT)


class _Ending:
    """The handler of `ending_signals`. It counts signals when they arrive, put off or not."""

    def __init__(self, at_once: Callable[[int], None] | None) -> None:
        self.at_once = at_once
        self.first: float | None = None
        self.raised: int | None = None

    def arrived(self, now: float) -> None:
        if self.first is None:
            self.first = now

    def ends_at_once(self) -> bool:
        """Return whether one that arrives now is the second, for which nothing is put off."""
        return self.at_once is not None and self.first is not None and not _delivering

    def __call__(self, number: int, _frame: Any) -> None:
        if self.first is not None and not _delivering:
            if time.monotonic() - self.first < SAME_SECONDS:
                return
            if self.at_once is not None:
                self.at_once(number)
        self.arrived(time.monotonic())
        self.raised = number
        raise Interrupted("", number)


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

    def end(self) -> None:
        self.restore()
        self.deliver()

    def install(self) -> None:
        self.restored = False
        for number in self.handlers:
            signal.signal(number, self._receive)

    def restore(self) -> None:
        self.restored = True  # a handler that is back may raise before the others are
        self._put_back()

    def _put_back(self) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: Any) -> None:
        if self.restored:
            self._put_back()  # what the handler raises may end `restore` before it has done so
            self.handlers[number](number, frame)
            return
        now = time.monotonic()
        handler = self._beneath(number)
        if isinstance(handler, _Ending) and handler.ends_at_once():
            handler(number, frame)
            return
        if not self.received:
            self.first = now
            if isinstance(handler, _Ending):
                handler.arrived(now)
        elif now - self.first >= SAME_SECONDS:  # somebody insists
            handler(number, frame)
        self.received.append(number)

    def _beneath(self, number: int) -> Handler:
        """Return the handler beneath this block and those around it."""
        handler = self.handlers[number]
        block = getattr(handler, "__self__", None)
        return block._beneath(number) if isinstance(block, _Block) else handler

    def deliver(self) -> None:
        """Let the handlers, restored before, have what was received."""
        received, self.received = self.received, []
        if received:
            _delivering.append(received[0])
            try:
                signal.raise_signal(received[0])
            finally:
                _delivering.pop()


_blocks: list[_Block] = []  # of the main thread, which alone gets signals
_endings: list[_Ending] = []
_delivering: list[int] = []  # signals that arrived, and were counted, before


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
    _blocks.append(block)
    try:
        block.begin()
        yield
    finally:
        _blocks.remove(block)
        block.end()


@contextmanager
def interruptible() -> Iterator[None]:
    """Obey signals at once, also in an `uninterrupted` block around this one.

    For waits at which nothing is half done: every block around it must bear an exception here.
    """
    if not _blocks or threading.current_thread() is not threading.main_thread():
        yield
        return
    blocks = _blocks[:]
    try:
        for block in reversed(blocks):
            block.restore()
        for block in blocks:
            block.deliver()
        yield
    finally:
        for block in blocks:
            block.install()


def pause(seconds: float) -> None:
    """Sleep, and obey a signal at once: `interruptible`."""
    with interruptible():
        time.sleep(seconds)


@contextmanager
def ending_signals(at_once: Callable[[int], None] | None = None) -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Interrupted`, as Ctrl-C raises its exception.

    Where the program has its own way with a signal, or ignores it as under ``nohup``, that stays.

    Parameters
    ----------
    at_once
        Called with the number of a second signal, whatever the first one has led to, also if that
        is still put off; Ctrl-C then raises `Interrupted`, too. It must not return.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    end = _Ending(at_once)
    before: dict[int, Any] = {}
    _endings.append(end)
    try:
        for number in SIGNALS:
            handler = signal.getsignal(number)
            own = handler is signal.SIG_DFL or (
                at_once is not None and handler is signal.default_int_handler
            )
            if own:
                before[number] = handler
                signal.signal(number, end)
        yield
    finally:
        _endings.remove(end)
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_if_ended() -> None:
    """Raise `Interrupted` again if somebody's code has swallowed it, as ``except:`` does."""
    if threading.current_thread() is threading.main_thread():
        for end in _endings:
            if end.raised is not None:
                raise Interrupted("", end.raised)
