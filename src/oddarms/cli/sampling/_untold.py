"""Results that could not be stored: files of lines in the folder of a search, for its next run."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from oddarms.cli._printing import note
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.files import write_whole
from oddarms.search import Ticket
from oddarms.studies import Study, Told
from oddarms.tables import number_of, ticket_of
from oddarms.text import counted, shown

MOST_BYTES = 2**26
"""In one file, which is in memory as a whole."""
MOST_FILES = 100
_Line = tuple[bytes, tuple[str, float]]


def lines_of(results: list[tuple[Ticket, float]]) -> str:
    """Return results as lines that the next run, and `oddarms study tell --from`, take."""
    return "".join(f"{ticket.id} {reward!r}\n" for ticket, reward in results)


def keep_untold(folder: Path, results: list[tuple[Ticket, float]]) -> Path:
    """Add results to a file in the folder, so that they outlive a power cut; return the file.

    What has its name and is no regular file, or cannot be read, is left alone, and another name
    taken: untold-2.txt and so on.
    """
    for number in range(1, MOST_FILES + 1):
        path = folder / ("untold.txt" if number == 1 else f"untold-{number}.txt")
        try:
            before = _content(path)
        except FileNotFoundError:
            before = b""
        except OSError:
            continue
        if before and not before.endswith(b"\n"):
            before += b"\n"
        write_whole(path, before + lines_of(results).encode("ascii"))
        _sync(folder)
        return path
    raise FileExistsError(errno.EEXIST, "no file untold.txt can be added to", str(folder))


def tell_left_over(study: Study, folder: Path, *, quiet: bool) -> None:
    """Store results that earlier runs could not store; what is told twice counts once.

    Lines that are refused stay in their file, and a file that cannot be read stays as it is.
    """
    names = (name for name in os.listdir(folder) if re.fullmatch(r"untold(-[0-9]+)?\.txt", name))
    for path in sorted(folder / name for name in names):
        try:
            _tell_file(study, path, quiet=quiet)
        except StorageFailed:
            raise
        except OSError as error:
            note(f"{shown(path)} was left as it is: {error.strerror or error}.")


def _tell_file(study: Study, path: Path, *, quiet: bool) -> None:
    lines = [line for line in _content(path).split(b"\n") if line.strip()]
    results: list[_Line] = []
    refused: list[tuple[bytes, str]] = []
    for line in lines:
        try:
            results.append((line, _result(line, study.bounds)))
        except InvalidParameter as error:
            refused.append((line, str(error)))
    told, refused_by_study = _tell(study, results)
    refused += refused_by_study
    if not refused:
        path.unlink()
    elif told:
        write_whole(path, b"".join(line + b"\n" for line, _ in refused))
    _say(path, told, refused, quiet=quiet)


def _say(path: Path, told: list[Told], refused: list[tuple[bytes, str]], *, quiet: bool) -> None:
    conflicts = told.count(Told.CONFLICT)
    if refused:
        lines = counted(len(refused), "line")
        note(f"{lines} of {shown(path)} refused, and left there: {refused[0][1]}")
    if conflicts:
        results = counted(conflicts, "result")
        note(f"{results} of {shown(path)} stored as a conflict: another one was there and stands")
    if told and not quiet:
        note(f"{counted(len(told) - conflicts, 'result')} of an earlier run stored")


def _result(line: bytes, bounds: tuple[float, float]) -> tuple[str, float]:
    words = line.decode("ascii", "backslashreplace").split()
    if len(words) != 2:
        raise InvalidParameter(
            f"a line must be a ticket and a reward but has {counted(len(words), 'word')}."
        )
    return ticket_of(words[0]), number_of("reward", words[1], bounds)


def _tell(study: Study, results: list[_Line]) -> tuple[list[Told], list[tuple[bytes, str]]]:
    """Tell results; return what became of them, and the lines that the study refuses and why.

    One that is refused keeps all that are told with it from being recorded; it is found by halving.
    """
    try:
        return study.tell_many([result for _, result in results]), []
    except InvalidParameter as error:
        if len(results) == 1:
            return [], [(results[0][0], str(error))]
    half = len(results) // 2
    first, second = _tell(study, results[:half]), _tell(study, results[half:])
    return first[0] + second[0], first[1] + second[1]


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file; a link is not followed, and nothing is waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it must be a regular file but is not")
        if state.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it must have at most {MOST_BYTES:,} bytes but has more")
        return file.read()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
