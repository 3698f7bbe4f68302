"""Which rewards ``oddarms find`` reads, and a folder that is its own."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from oddarms.cli.sampling import KINDS
from oddarms.errors import InvalidParameter
from oddarms.text import shown


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
                f" {self._path.parent}: to share a study, give each --study, --storage and an"
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
