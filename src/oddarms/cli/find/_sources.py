"""What ``oddarms find`` is given: a function, bounds, and a folder that is its own."""

from __future__ import annotations

import fcntl
import importlib
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from oddarms.errors import InvalidParameter


def import_function(name: str) -> Callable[[Any], Any]:
    """Return the function that ``module:function`` names, looked for here first."""
    module_name, colon, path = name.partition(":")
    if not (colon and module_name and path):
        raise InvalidParameter(f"--python must be module:function but got {name!r}.")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise InvalidParameter(
            f"--python must name a module that can be imported but {module_name!r} cannot:"
            f" {type(error).__name__}: {error}."
        ) from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidParameter(
            f"--python must name a function but {module_name!r} has no function {path!r}."
        )
    function: Callable[[Any], Any] = found
    return function


def parse_bounds(text: str) -> tuple[float, float]:
    """Return the two numbers of ``A,B``."""
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidParameter(
            f"--bounds must be two numbers with a comma between but got {text!r}."
        ) from None
    return a, b


class Occupied:
    """A folder that one search at a time works in; entering gives the folder's name as a worker.

    The name stays the same, so that pulls which an earlier process had out when it was killed are
    known as such, and need not be waited for.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".worker"
        self._file: IO[str] | None = None

    def __enter__(self) -> str:
        self._file = self._path.open("a+", encoding="ascii")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InvalidParameter(
                "--out must be a folder in which no other search runs but one does in"
                f" {self._path.parent}; to share a study, give each --study, --storage and an"
                " --out of its own."
            ) from None
        self._file.seek(0)
        name = self._file.read().strip()
        if not name:
            name = f"find-{uuid.uuid4().hex}"
            self._file.write(name)
            self._file.flush()
        return name

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()
