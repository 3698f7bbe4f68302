"""What commands print: answers on stdout, remarks on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from oddarms.text import filled, message, table, terminal_width

EXIT_FAILED, EXIT_USAGE, EXIT_UNFINISHED = 1, 2, 3
EXIT_SIGNAL = 128
"""Plus the signal's number: 130 for Ctrl-C."""

_PASSWORDS = (
    (re.compile(r"(://[^\s/:@]*:)[^\s@]*@"), r"\1***@"),
    (re.compile(r"(pass\w*\s*=\s*)('[^']*'|[^\s&'\"]+)", re.IGNORECASE), r"\1***"),
)


# Remarks, on stderr


def note(text: object) -> None:
    """Print a remark on stderr; on a terminal its lines are broken between words.

    Elsewhere, as in a log that is searched by lines, a remark stays one line.
    """
    told = message(text)
    if sys.stderr.isatty():
        told = filled(told, terminal_width())
    print(told, file=sys.stderr, flush=True)


def without_passwords(text: str) -> str:
    """Return a text in which everything that looks like a password is replaced by stars.

    Examples
    --------
    >>> without_passwords("no such command 'postgresql://me:hunter2@host/db?sslpassword=x'")
    "no such command 'postgresql://me:***@host/db?sslpassword=***'"
    """
    for pattern, replacement in _PASSWORDS:
        text = pattern.sub(replacement, text)
    return text


class _Forgiving:
    """A stream that hides passwords, and drops all output once writing has failed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(without_passwords(text))
        except OSError:
            drop(self._stream)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            drop(self._stream)


def drop(stream: Any) -> None:
    """Redirect a broken stream to the null device: Python flushes it again at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


@contextlib.contextmanager
def forgiving_stderr() -> Iterator[None]:
    """A block in which a closed or broken stderr does not make a command fail."""
    with contextlib.ExitStack() as stack:
        stream: Any = sys.stderr
        if stream is None:  # it was closed before the program began
            stream = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stack.enter_context(contextlib.redirect_stderr(_Forgiving(stream)))
        yield


# Output, on stdout


def emit(*parts: str) -> None:
    """Print on stdout, all of it or else an error."""
    emit_all(parts)


def emit_all(parts: Iterable[str]) -> None:
    """Print the parts of a long text as they come, or raise `OSError`."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        for part in parts:  # with escapes for what the stream cannot encode
            sys.stdout.write(part.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError:
        drop(sys.stdout)
        raise


def json_text(value: Any) -> str:
    """Return a value as JSON in ASCII."""
    return json.dumps(value, indent=1) + "\n"


def emit_rows(
    how: str,
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    wrap: str | None = None,
) -> None:
    """Print rows: aligned for people, or as CSV or a JSON list of objects for programs."""
    if how == "table":
        numbers = [name in right for name in header]
        cells = [list(map(_cell, row, numbers)) for row in rows]
        emit(table(header, cells, right=right, wrap=wrap))
        return
    plain = [[v.isoformat() if isinstance(v, datetime) else v for v in row] for row in rows]
    if how == "csv":
        from oddarms.tables import csv_text  # reads files with numpy, which takes time to import

        emit(csv_text(header, plain))
    else:
        emit(json_text([dict(zip(header, row, strict=True)) for row in plain]))


def _cell(value: Any, is_number: bool) -> str:
    if isinstance(value, datetime):
        return moment(value)
    if is_number:
        return f"{value:,.0f}"
    return "" if value is None else str(value)


def moment(time: datetime | None) -> str:
    """Return a time for people."""
    return "" if time is None else time.strftime("%Y-%m-%d %H:%M:%S UTC")
