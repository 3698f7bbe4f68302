"""``oddarms serve token``: who may come in."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Annotated

import typer

from oddarms.cli._guard import guarded
from oddarms.cli._printing import Format, emit, emit_rows, note
from oddarms.cli._suggestions import SuggestingCommand, SuggestingGroup
from oddarms.cli.study._show import moment
from oddarms.cli.study._storage import FormatOption, StorageOption, chosen
from oddarms.errors import InvalidParameter
from oddarms.server._tokens import LONGEST, Role, Tokens
from oddarms.studies._database_storage import DatabaseStorage
from oddarms.studies._storage import server_address
from oddarms.text import table

NoteOption = Annotated[str, typer.Option("--note", help="What it is for, for the list.")]
DaysOption = Annotated[
    float | None,
    typer.Option(min=0.001, max=LONGEST.days, help="How long it holds.", show_default="for ever"),
]


def admin(note: NoteOption = "", days: DaysOption = None, storage: StorageOption = None) -> None:
    """Make a token that may do everything.

    \b
    Example:
      oddarms serve token admin --note "my laptop"
    """  # noqa: D301
    _make(Role.ADMIN, None, note, days, storage)


def worker(
    study: Annotated[str, typer.Option(metavar="NAME", help="The only study it is for.")],
    note: NoteOption = "",
    days: DaysOption = None,
    storage: StorageOption = None,
) -> None:
    """Make a token that may read one study, and ask and tell there.

    \b
    Example:
      oddarms serve token worker --study crowd --days 30
    """  # noqa: D301
    _make(Role.WORKER, study, note, days, storage)


def reader(note: NoteOption = "", days: DaysOption = None, storage: StorageOption = None) -> None:
    """Make a token that may read all studies, and change nothing.

    \b
    Example:
      oddarms serve token reader --note dashboard
    """  # noqa: D301
    _make(Role.READER, None, note, days, storage)


def list_tokens(storage: StorageOption = None, how: FormatOption = Format.table) -> None:
    """List tokens: what they may do, and their ids; not the tokens themselves.

    \b
    Example:
      oddarms serve token list
    """  # noqa: D301
    found = _tokens(storage).list()
    header = ("id", "role", "study", "note", "made", "expires")
    rows = [
        (one.id, one.role.value, one.study_name, one.note, one.made, one.expires) for one in found
    ]
    if how is Format.table:
        if not found:
            note("no tokens yet: the first start of `oddarms serve` makes one")
            return
        shown_rows = [
            (
                *(cell or "" for cell in row[:4]),
                moment(row[4])[:16],
                moment(row[5])[:16] if row[5] else "never",
            )
            for row in rows
        ]
        emit(table(header, shown_rows, wrap="note"))
        return
    emit_rows(
        how,
        header,
        [(*row[:4], row[4].isoformat(), row[5].isoformat() if row[5] else None) for row in rows],
    )


def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    storage: StorageOption = None,
) -> None:
    """Let a token in no more; running servers know it after five seconds.

    \b
    Example:
      oddarms serve token revoke 1f0c2ab94e77
    """  # noqa: D301
    if not _tokens(storage).revoke(token):
        raise InvalidParameter(f"ID must be one that `list` shows but got {token!r:.60}.")
    emit(f"revoked {token}\n")


def _make(
    role: Role, study: str | None, said: str, days: float | None, storage: str | None
) -> None:
    if days is not None and math.isnan(days):  # which is beyond no bound
        raise InvalidParameter(f"--days must be a number but got {days}.")
    lasts = None if days is None else timedelta(days=days)
    emit(_tokens(storage).make(role, study=study, note=said, lasts=lasts) + "\n")
    note("it is shown only now: give it to its user as ODDARMS_TOKEN, or in a file")


def _tokens(storage: str | None) -> Tokens:
    if server_address(storage) is not None:
        raise InvalidParameter(
            "storage must be the file or database of the server but got its address: tokens are"
            " made where the storage is."
        )
    return Tokens(DatabaseStorage.opened(chosen(storage)))


app = typer.Typer(
    cls=SuggestingGroup,
    help="Make, list and revoke tokens: who may use the server.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("admin", cls=SuggestingCommand)(guarded(admin))
app.command("worker", cls=SuggestingCommand)(guarded(worker))
app.command("reader", cls=SuggestingCommand)(guarded(reader))
app.command("list", cls=SuggestingCommand)(guarded(list_tokens))
app.command("revoke", cls=SuggestingCommand)(guarded(revoke))
