"""Ctrl-C that waits a moment, so that it never falls between a transaction and its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off until the block is done.

    An exception between the beginning of a transaction and the `with` around it would leave the
    storage locked, for this process too, and one between a result and its recording would lose
    it. Where the program has a handler of its own, or outside the main thread, which alone gets
    signals, nothing changes.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *details: waiting.append(details))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if waiting:
            raise KeyboardInterrupt
