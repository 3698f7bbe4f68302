"""Which files a pattern, a folder or a list of paths names."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path

from oddarms.errors import InvalidParameter
from oddarms.tables._files import STDIN, Source
from oddarms.tables._values import shown

ENDINGS = (".xml", ".xml.gz")


def files_of(sources: Source | Iterable[Source]) -> list[str]:
    """Return the files that patterns, folders and paths name, each once, in natural order.

    A folder stands for all files in it, at any depth, that end in .xml or .xml.gz.
    """
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if not given:
        raise InvalidParameter("junit must name at least one file but got none.")
    found: dict[str, str] = {}
    for source in given:
        for file in _matching(os.fspath(source)):
            found.setdefault(os.path.realpath(file) if file != STDIN else STDIN, file)
    return sorted(found.values(), key=_natural)


def _matching(source: str) -> list[str]:
    path = Path(source)
    if source == STDIN:
        return [STDIN]
    if path.is_dir():
        files = [str(file) for file in path.rglob("*") if file.name.endswith(ENDINGS)]
        if not files:
            raise InvalidParameter(
                f"junit must be a folder with files that end in .xml but {shown(source)} has none."
            )
        return files
    if path.exists():
        return [source]
    if not glob.has_magic(source):
        raise InvalidParameter(
            f"junit must be files, a folder or a pattern such as 'runs/*.xml' but"
            f" {shown(source, 200)} does not exist in {os.getcwd()}."
        )
    files = [file for file in glob.glob(source, recursive=True) if not os.path.isdir(file)]
    if not files:
        raise InvalidParameter(
            f"junit must match at least one file but {shown(source, 200)} matches none in"
            f" {os.getcwd()}."
        )
    return files


def _natural(file: str) -> list[tuple[int, int, str]]:
    """Return what puts run-2 before run-10."""
    parts = re.split("([0-9]{1,18})", file)
    return [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts]
