"""Files that are either there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from oddarms.errors import InvalidParameter


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file so that a reader, or a crash, finds the old content or the new, never a part."""
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp's files are private
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def writable_folder(parameter: str, path: str | Path) -> Path:
    """Return a folder that exists, making it if need be, and that files can be written to."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"{parameter} must be a folder that can be written to but {folder} is not:"
            f" {error.strerror or error}."
        ) from None
    return folder
