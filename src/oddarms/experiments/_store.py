"""Finished cells on disk, so that a study that was killed goes on where it was."""

from __future__ import annotations

import json
import logging
import os
import zlib
from pathlib import Path

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.experiments._cells import Measured

FILE_NAME = "cells.jsonl"

_log = logging.getLogger(__name__)


class CellStore:
    """An append-only file of finished cells: one JSON object a line, found again by its key.

    A line counts only if it is whole and its check sum is right, so a line that a crash cut off
    is done again and nothing else is lost. Several processes may append to one file. Lines of other
    studies, seeds or versions of the code have other keys and do no harm.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        try:
            self._file = self.path.open("ab", buffering=0)
            if self._ends_inside_a_line():
                self._file.write(b"\n")
        except OSError as error:
            raise InvalidParameter(
                f"{self.path} must be a file that can be read and written but is not:"
                f" {error.strerror or error}."
            ) from error

    def _ends_inside_a_line(self) -> bool:
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"

    def load(self) -> dict[str, Measured]:
        """Return the finished cells by key."""
        known: dict[str, Measured] = {}
        damaged = 0
        with self.path.open("rb") as file:
            for line in file:
                found = _parsed(line)
                if found is not None:
                    known[found[0]] = found[1]
                elif line.strip():
                    damaged += 1
        if damaged:
            _log.warning("%s has %d damaged lines, which count as not run", self.path, damaged)
        return known

    def append(self, key: str, measured: Measured) -> None:
        """Write a finished cell; it is on the disk when this returns."""
        values = measured.to_json()
        entry = {"key": key, "check": _check_sum(key, values), "measured": values}
        line = json.dumps(entry).encode() + b"\n"
        try:
            while line:  # a full disk takes a part, and refuses the rest only then
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreFailed(
                f"a finished cell could not be written to {self.path}: {error.strerror or error};"
                " the cells written before are kept."
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _check_sum(key: str, values: object) -> int:
    return zlib.crc32(f"{key} {json.dumps(values)}".encode())


def _parsed(line: bytes) -> tuple[str, Measured] | None:
    try:
        entry = json.loads(line)
        if entry["check"] != _check_sum(entry["key"], entry["measured"]):
            return None
        return entry["key"], Measured.from_json(entry["measured"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
