"""What commands print, and how they fail.

Answers go to stdout and remarks to stderr. An error is one sentence and an exit code.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, ParamSpec

from oddarms.errors import OddarmsError, SearchError, StorageFailed, WorkerLost
from oddarms.text import filled, message, table, terminal_width

P = ParamSpec("P")
EXIT_FAILED, EXIT_USAGE, EXIT_UNFINISHED = 1, 2, 3
EXIT_SIGNAL = 128
"""Plus the signal's number: 130 for Ctrl-C."""

_PASSWORDS = (
    (re.compile(r"(://[^\s/:@]*:)[^\s@]*@"), r"\1***@"),
    (re.compile(r"(pass\w*\s*=\s*)('[^']*'|[^\s&'\"]+)", re.IGNORECASE), r"\1***"),
)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Return the command with its exceptions turned into sentences and exit codes."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        with forgiving_stderr():
            try:
                command(*args, **kwargs)
            except (SearchError, StorageFailed, WorkerLost) as error:
                _fail(error, EXIT_FAILED)
            except OddarmsError as error:
                _fail(error, EXIT_USAGE)
            except OSError as error:
                _fail(error, EXIT_FAILED)
            except KeyboardInterrupt as error:
                note(str(error) or "interrupted")
                number = getattr(error, "signal", signal.SIGINT)
                sys.exit(EXIT_SIGNAL + number)

    return wrapper


def _fail(error: Exception, code: int) -> None:
    note(f"error: {error}")
    raise SystemExit(code) from error


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
            _drop(self._stream)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            _drop(self._stream)


def _drop(stream: Any) -> None:
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
        if not isinstance(stream, _Forgiving):
            stack.enter_context(contextlib.redirect_stderr(_Forgiving(stream)))
        yield


# Output, on stdout


def emit(*parts: str) -> None:
    """Print on stdout, all of it or else an error."""
    emit_all(parts)


def emit_all(parts: Iterable[str]) -> None:
    """Print the parts of a long text as they come; a reader who has gone ends the command."""
    try:
        for part in parts:
            sys.stdout.write(_encodable(part))
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
        sys.exit(EXIT_FAILED)
    except OSError:
        _drop(sys.stdout)
        raise


def _encodable(text: str) -> str:
    """Return a text with escapes for characters that the stream cannot encode."""
    if text.isascii():
        return text
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


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
