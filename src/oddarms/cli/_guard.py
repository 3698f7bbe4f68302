"""What a command's errors look like: one sentence on stderr and an exit code."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from oddarms.cli._streams import forgiving_stderr, say, show_cursor
from oddarms.errors import OddarmsError, SearchError, StorageFailed, WorkerLost
from oddarms.interrupts import ending_signals, signal_of

P = ParamSpec("P")
EXIT_FAILED, EXIT_USAGE, EXIT_UNFINISHED = 1, 2, 3
EXIT_SIGNAL = 128  # and the signal's number: 130 is that of Ctrl-C


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Return the command with its exceptions turned into sentences and exit codes."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        with forgiving_stderr(), ending_signals(at_once=_end_at_once):
            try:
                command(*args, **kwargs)
            except (SearchError, StorageFailed, WorkerLost) as error:
                _fail(str(error), EXIT_FAILED, error)
            except OddarmsError as error:
                _fail(str(error), EXIT_USAGE, error)
            except OSError as error:
                _fail(str(error), EXIT_FAILED, error)
            except KeyboardInterrupt as error:
                _fail(str(error) or "interrupted", EXIT_SIGNAL + signal_of(error), error)

    return wrapper


def _fail(sentence: str, code: int, error: BaseException) -> None:
    say(sentence if code > EXIT_SIGNAL else f"error: {sentence}")
    raise typer.Exit(code) from error


def _end_at_once(number: int) -> None:
    """End the process, whatever its threads do: a second signal says that the first is too slow."""
    arms = sys.modules.get("oddarms.arms")  # not imported if no command was run
    try:
        if arms is not None:
            arms.kill_commands()
        show_cursor()
    finally:
        os._exit(EXIT_SIGNAL + number)
