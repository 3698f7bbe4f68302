"""What ``oddarms find`` samples with: a command or a function, and a folder that is its own."""

from __future__ import annotations

import fcntl
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from oddarms.arms import Command, check_uses_label, codes_of
from oddarms.errors import InvalidParameter
from oddarms.text import shown

KINDS = ("exit-code", "stdout")


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


def reward_meanings(
    reward: str | None, reward_column: str | None, *, pull: str | None, table: Path | None
) -> tuple[str, str]:
    """Return how a command's reward is read, and the name of the table's column."""
    kind, column = "exit-code", reward_column or "reward"
    if reward is None:
        return kind, column
    if pull is not None and reward in KINDS:
        return reward, column
    if table is not None:
        return kind, reward_column or reward
    raise InvalidParameter(f"--reward must be exit-code or stdout but got {reward!r}.")


def function_of(
    pull: str | None,
    python: str | None,
    kind: str,
    timeout: float | None,
    failure_codes: str | None,
    *,
    shell: bool,
    batch: bool,
) -> Callable[[Any], Any] | None:
    """Return what samples a thing: the command, the function, or None where there is neither."""
    if pull is not None and python is not None:
        raise InvalidParameter("--pull and --python must not be given together.")
    if pull is None and (timeout is not None or shell or failure_codes is not None):
        option = "--shell" if shell else "--timeout" if timeout is not None else "--failure-codes"
        raise InvalidParameter(f"{option} must be given together with --pull, which it is for.")
    if python is None and batch:
        raise InvalidParameter("--batch must be given together with --python, which it is for.")
    if pull is not None:
        if failure_codes is not None and kind != "exit-code":
            raise InvalidParameter(
                "--failure-codes must be given with --reward exit-code, as with stdout every"
                " command that fails is a failure."
            )
        command = Command(
            pull,
            reward=kind,  # type: ignore[arg-type]
            timeout=timeout,
            shell=shell,
            failure_codes=None if failure_codes is None else codes_of(failure_codes),
        )
        check_uses_label(pull, shell=shell)
        return command
    return None if python is None else import_function(python)


class Occupied:
    """A folder that one search at a time works in."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._file: IO[bytes] | None = None

    def __enter__(self) -> None:
        self._file = self._opened()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InvalidParameter(
                "--out must be a folder in which no other search runs but one does in"
                f" {self._path.parent}; to share a study, give each --study, --storage and an"
                " --out of its own."
            ) from None

    def _opened(self) -> IO[bytes]:
        """Open the file, or make it here: a link might lead to where nothing is to be made."""
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            return os.fdopen(os.open(self._path, flags, 0o666), "rb+", 0)
        except OSError as error:
            raise InvalidParameter(
                f"--out must be a folder whose .lock is a file but {shown(self._path)} is not or"
                f" cannot be opened ({error.strerror or error}): remove it."
            ) from None

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()
