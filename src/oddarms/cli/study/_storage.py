"""What the commands of ``oddarms study`` have in common: which storage, study and format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from oddarms.cli._printing import Format, note
from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.studies import Study, load_study
from oddarms.studies._storage import VARIABLE, server_address
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
        help="A file, postgresql://USER@HOST/NAME, or the http:// of a server; by default"
        " ODDARMS_STORAGE, else oddarms.db in the working directory.",
        show_default=False,
    ),
]


def opened(name: str, storage: str | None) -> Study:
    """Return a study of the storage that a command was given."""
    return load_study(name, storage=chosen(storage))


def chosen(storage: str | None, *, new: bool = False) -> str | None:
    """Check the storage to use, and say which where nobody has named one.

    Parameters
    ----------
    storage
        What ``--storage`` was given.
    new
        Whether a file that does not exist is made; otherwise it is taken for a mistake.
    """
    if server_address(storage) is not None:
        return storage
    try:
        from oddarms.studies._location import location_of
    except ModuleNotFoundError as error:
        if error.name not in ("sqlalchemy", "alembic"):
            raise
        raise MissingExtra.of("study", "storing a study") from None
    location = location_of(storage)
    if location.memory:
        raise InvalidParameter(
            "storage must be a file or a server, which outlive the command, but got memory."
        )
    if location.file is not None:
        file = Path(location.file).absolute()
        if not new and not file.exists():
            raise InvalidParameter(
                f"storage must be there but {shown(file)} is not: `oddarms study create` makes"
                f" one, and --storage or {VARIABLE} name another."
            )
        if storage is None and not os.environ.get(VARIABLE):
            note(f"storage: {shown(file)}")
    return storage
