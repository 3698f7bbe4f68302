"""Ctrl-C while ``oddarms find`` runs: at once, but never in the middle of storing something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from oddarms.studies import Study, _run, _study

AGAIN_SECONDS = 0.05
UNPROTECTED = {_study.__file__: ("run", "wait")}
PROTECTED = {_run.__file__: ("_record", "_hand_out", "_give_back")}


class Interrupts:
    """Raises KeyboardInterrupt only where no transaction is open and no result is in hand.

    An exception between the beginning of a transaction and the `with` around it would leave the
    storage locked, for this process too. Elsewhere, such as while commands run, it is raised at
    once. Without effect outside the main thread, which alone gets signals.
    """

    def __init__(self) -> None:
        self._pending = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGALRM):
                self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def then(self, progress: Callable[[Study], None]) -> Callable[[Study], None]:
        """Return a callback that raises what was put off, and otherwise shows the progress."""

        def checked(study: Study) -> None:
            self._raise_pending()
            progress(study)

        return checked

    def _raise_pending(self) -> None:
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        self._pending = True
        if _is_storing(frame):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            self._raise_pending()


def _is_storing(frame: FrameType | None) -> bool:
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file in UNPROTECTED and name not in UNPROTECTED[file]:
            return True
        if name in PROTECTED.get(file, ()):
            return True
        frame = frame.f_back
    return False
