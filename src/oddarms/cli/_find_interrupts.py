"""Ctrl-C while ``oddarms find`` runs: at once, but never in the middle of storing something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from oddarms.studies import _run, _study

AGAIN_SECONDS = 0.05
UNPROTECTED = {_study.__file__: ("run", "wait")}
PROTECTED = {_run.__file__: ("_record", "_hand_out", "_give_back")}


@contextmanager
def interrupts_between_transactions() -> Iterator[None]:
    """Raise KeyboardInterrupt only where no transaction is open and no result is in hand.

    An exception between the beginning of a transaction and the `with` around it would leave the
    storage locked, for this process too. Elsewhere, such as while commands run, it is raised at
    once. Without effect outside the main thread, which alone gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    if _is_storing(frame):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        return
    raise KeyboardInterrupt


def _is_storing(frame: FrameType | None) -> bool:
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file in UNPROTECTED and name not in UNPROTECTED[file]:
            return True
        if name in PROTECTED.get(file, ()):
            return True
        frame = frame.f_back
    return False
