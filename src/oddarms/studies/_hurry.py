"""Calls that wait for others for a moment only, because somebody wants to leave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Hurry(threading.local):
    """Whether calls of this thread are in a hurry; blocks of it may be nested."""

    def __init__(self) -> None:
        self._depth = 0

    def __bool__(self) -> bool:
        return self._depth > 0

    @contextmanager
    def block(self) -> Iterator[None]:
        """Let calls of this thread wait for others for a moment only."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
