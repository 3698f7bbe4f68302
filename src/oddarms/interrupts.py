"""Signals that ask the program to end, obeyed only where nothing is half done.

`Interrupts` is a block in which the first Ctrl-C, SIGTERM or SIGHUP raises `Interrupted` inside
`Interrupts.open` blocks (while a user's function runs, or while the program waits) and is
remembered elsewhere. A second signal is obeyed at once. Signals that the program ignores, as
SIGHUP under ``nohup``, or handles itself stay as they are.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
LOOK_SECONDS = 0.5
"""The longest sleep: a signal that arrives just before one begins is seen only after it."""
SAME_SECONDS = 0.25
"""A second signal so soon after the first is the same one: `timeout` and some shells send two."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end; the exit code of a program is then 128 + `signal`."""

    def __init__(self, message: str = "", number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal = int(number)


_active: list[Interrupts] = []


def ended() -> bool:
    """Return whether a signal has asked a run of this thread to end."""
    return _in_main_thread() and any(one.received is not None for one in _active)


def pause(seconds: float) -> None:
    """Sleep; a signal ends the pause at once."""
    until = time.monotonic() + seconds
    with interruptible():
        while (left := until - time.monotonic()) > 0.0:
            time.sleep(min(left, LOOK_SECONDS))


def interruptible() -> AbstractContextManager[None]:
    """A block that a signal to a run of this thread interrupts at once."""
    return _active[-1].open() if _active and _in_main_thread() else nullcontext()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class Interrupts:
    """A block in which signals are remembered, and raise only inside `open` blocks.

    Outside the main thread, which alone gets signals, it changes nothing.

    Attributes
    ----------
    received
        The number of the first signal; None before.
    at_once
        Whether a signal that arrives now raises its exception.
    """

    signals: Sequence[int] = SIGNALS

    def __init__(self) -> None:
        self.received: int | None = None
        self._at = 0.0
        self.at_once = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if self not in _active:
            _active.append(self)
        if _in_main_thread():
            for number in self.signals:
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self._handlers[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        if self in _active:  # not in a process that was forked inside
            _active.remove(self)
            self.restore()

    def restore(self) -> None:
        """Put back the handlers from before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _frame: Any) -> None:
        now = time.monotonic()
        if self.received is None:
            self.received, self._at = number, now
            if not self.at_once:
                return
        elif now - self._at < SAME_SECONDS:
            return
        raise Interrupted("", number)

    @contextmanager
    def open(self) -> Iterator[None]:
        """A block that a signal interrupts at once; also a signal that arrived before it."""
        self.check()
        self.at_once = True
        try:
            yield
        finally:
            self.at_once = False
        self.check()  # user code may have swallowed the exception

    def check(self) -> None:
        """Raise `Interrupted` if a signal has arrived."""
        if self.received is not None:
            raise Interrupted("", self.received)


# A forked process reacts to signals as it would without a run: `multiprocessing.Pool` ends its
# workers by SIGTERM. Signals wait during the fork, as one that came before the handlers are put
# back would be lost.

_masks = threading.local()


def _before_fork() -> None:
    if _active:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _after_fork() -> None:
    mask = _masks.__dict__.pop("before", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    for one in _active:
        one.restore()
    _active.clear()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
