"""Ctrl-C that waits a moment, so that it never falls between a transaction and its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off until the block is done; then the program's handler has it.

    An exception between the beginning of a transaction and the `with` around it would leave the
    storage locked, for this process too, one between a result and its recording would lose it, and
    one between a call that has begun and its handle would leave the call to nobody. Outside the
    main thread, which alone gets signals, and where the handler is not Python's, nothing changes.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            signal.raise_signal(signal.SIGINT)
