"""Standard error that may go away: a terminal that was closed, a reader who has ended."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
from collections.abc import Iterator
from typing import Any

from oddarms.text import filled, message, terminal_width

SHOW_CURSOR = b"\x1b[?25h"


_PASSWORDS = (
    (re.compile(r"(://[^\s/:@]*:)[^\s@]*@"), r"\1***@"),
    (re.compile(r"(pass\w*\s*=\s*)('[^']*'|[^\s&'\"]+)", re.IGNORECASE), r"\1***"),
)


def without_passwords(text: str) -> str:
    """Return a text with what looks like a password struck out, as in a mistyped argument.

    Examples
    --------
    >>> without_passwords("no such command 'postgresql://me:hunter2@host/db?sslpassword=x'")
    "no such command 'postgresql://me:***@host/db?sslpassword=***'"
    """
    for pattern, replacement in _PASSWORDS:
        text = pattern.sub(replacement, text)
    return text


class _Forgiving:
    """A stream without passwords, to which nothing is written any more once that has failed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(without_passwords(text))
        except OSError:
            self._drop()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._drop()

    def _drop(self) -> None:
        """Send it, and what waits in its buffer, to nowhere; else Python fails at its end."""
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._stream.flush()


@contextlib.contextmanager
def forgiving_stderr() -> Iterator[None]:
    """Let no command fail because nobody can read its remarks."""
    with contextlib.ExitStack() as stack:
        stream: Any = sys.stderr
        if stream is None:  # it was closed before the program began
            stream = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stack.enter_context(contextlib.redirect_stderr(_Forgiving(stream)))
        yield


def say(text: object) -> None:
    """Print a message on stderr; on a terminal its lines are broken between words.

    Elsewhere, as in a log that is searched by lines, a message stays one line.
    """
    told = message(text)
    if sys.stderr.isatty():
        told = filled(told, terminal_width())
    print(told, file=sys.stderr, flush=True)


def show_cursor() -> None:
    """Undo what a display that cannot end properly has done to the terminal, if it listens."""
    with contextlib.suppress(OSError, ValueError):
        if os.isatty(2) and select.select([], [2], [], 0.0)[1]:
            os.write(2, SHOW_CURSOR)
