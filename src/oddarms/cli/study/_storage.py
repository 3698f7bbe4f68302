"""What the commands of ``oddarms study`` have in common: which storage, study and format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from oddarms.cli._printing import Format, note
from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.studies import Study, load_study
from oddarms.text import shown

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The study.")]
FormatOption = Annotated[
    Format, typer.Option("--format", help="A table for people, JSON or CSV for programs.")
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="URL",
        help="A file, sqlite:///FILE or postgresql://USER@HOST/NAME; by default ODDARMS_STORAGE,"
        " else oddarms.db in the working directory.",
        show_default=False,
    ),
]


def opened(name: str, storage: str | None) -> Study:
    """Return a study of the storage that a command was given."""
    return load_study(name, storage=chosen(storage))


def chosen(storage: str | None, *, new: bool = False) -> str:
    """Return the storage to use, and say which where nobody has named one.

    Parameters
    ----------
    storage
        What ``--storage`` was given.
    new
        Whether a file that does not exist is made; otherwise it is taken for a mistake.
    """
    try:
        from oddarms.studies._database import DEFAULT_FILE, VARIABLE
    except ModuleNotFoundError as error:
        if error.name not in ("sqlalchemy", "alembic"):
            raise
        raise MissingExtra.of("study", "storing a study") from None
    named = storage if storage is not None else os.environ.get(VARIABLE) or None
    url = DEFAULT_FILE if named is None else named
    file = _file(url)
    if file is not None and not new and not file.exists():
        raise InvalidParameter(
            f"storage must be there but {shown(file.absolute())} is not: `oddarms study create`"
            f" makes one, and --storage or {VARIABLE} name another."
        )
    if file is not None and named is None:
        note(f"storage: {shown(file.absolute())}")
    return url


def _file(storage: str) -> Path | None:
    """Return the file of a storage, None if it is a server; refuse what ends with the command."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    from oddarms.studies._database import storage_url

    try:
        url = make_url(storage_url(storage)) if storage.strip() else None
    except ArgumentError:
        return None  # opening it says what is wrong
    if url is not None and not url.drivername.startswith("sqlite"):
        return None
    if url is None or url.database in (None, "", ":memory:"):
        raise InvalidParameter(
            f"storage must be a file or a server, which outlive the command, but got {storage!r}."
        )
    return Path(url.database)
