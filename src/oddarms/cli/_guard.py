"""What a command's errors look like: one sentence on stderr and an exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from oddarms.errors import OddarmsError, SearchError, StoreFailed, WorkerLost
from oddarms.text import message

P = ParamSpec("P")
EXIT_FAILED, EXIT_USAGE, EXIT_UNFINISHED, EXIT_INTERRUPTED = 1, 2, 3, 130


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Return the command with its exceptions turned into sentences and exit codes."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (SearchError, StoreFailed, WorkerLost) as error:
            _fail(str(error), EXIT_FAILED, error)
        except OddarmsError as error:
            _fail(str(error), EXIT_USAGE, error)
        except OSError as error:
            _fail(str(error), EXIT_FAILED, error)
        except KeyboardInterrupt as error:
            _fail(str(error) or "interrupted", EXIT_INTERRUPTED, error)

    return wrapper


def _fail(sentence: str, code: int, error: BaseException) -> None:
    told = message(sentence)
    print(f"error: {told}" if code != EXIT_INTERRUPTED else told, file=sys.stderr)
    raise typer.Exit(code) from error
