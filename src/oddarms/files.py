"""Atomic writes of files, checks of folders, and a hash of the package's own files."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from oddarms.errors import InvalidParameter


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file atomically: a reader, or a crash, finds the old content or the new.

    A new file has the mode of the umask, a replaced one keeps its mode. A symbolic link stays; its
    target is replaced. A device or a pipe is written to directly.
    """
    data = content.encode() if isinstance(content, str) else content
    if _is_special(Path(path)):
        with open(path, "wb") as special:
            special.write(data)
    else:
        _replace(Path(os.path.realpath(path)), data)
    return Path(path)


def _is_special(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise InvalidParameter(f"{path} is a folder: name a file to write to.")
    return not stat.S_ISREG(mode)


def _replace(target: Path, data: bytes) -> None:
    beside, handle = _file_beside(target)
    try:
        with os.fdopen(handle, "wb") as file:
            _take_mode(file.fileno(), target)  # before there is anything to read
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _file_beside(target: Path) -> tuple[Path, int]:
    """Return a new file in the folder of another one; mkstemp's are private whatever the umask."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    while True:
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            return beside, os.open(beside, flags, 0o666)
        except FileExistsError:
            continue


def _take_mode(handle: int, target: Path) -> None:
    try:
        wanted = stat.S_IMODE(target.lstat().st_mode) & 0o777
    except FileNotFoundError:
        return
    if wanted != stat.S_IMODE(os.fstat(handle).st_mode):
        os.fchmod(handle, wanted)


def digest_of_package(
    patterns: Sequence[str], *versions: str, package: Path = Path(__file__).parent
) -> str:
    """Return a SHA-256 of some files of this package.

    Parameters
    ----------
    patterns
        Such as ``statistics/*.py``; each must match a file, so that a moved file is noticed.
    versions
        What else must be the same.
    package
        Where the files are.
    """
    digest = hashlib.sha256("\0".join(versions).encode())
    for pattern in patterns:
        files = sorted(package.glob(pattern))
        if not files:
            raise FileNotFoundError(f"{package} has no file {pattern}")
        for path in files:
            digest.update(f"\0{path.relative_to(package).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def writable_folder(parameter: str, path: str | Path) -> Path:
    """Return a writable folder; create it if it does not exist."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"{parameter} must be a writable folder; {folder} is not: {error.strerror or error}."
        ) from None
    return folder


def check_appendable(parameter: str, path: Path) -> None:
    """Raise if nothing can be appended to a file, which need not exist."""
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"{parameter} must be a writable file; {path} is not: {error.strerror or error}."
        ) from None


def append_text(path: Path, text: str) -> None:
    """Append a text to a file, after an empty line unless the file is empty."""
    with path.open("ab") as file:
        between = "\n" if file.tell() else ""
        file.write(f"{between}{text}".encode(errors="backslashreplace"))
