"""``oddarms serve``: HTTP for workers, and pages to watch them."""

from __future__ import annotations

import os
import platform
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oddarms.cli._guard import guarded
from oddarms.cli._printing import emit, note
from oddarms.cli._suggestions import SuggestingGroup
from oddarms.cli.serve._token import app as token_app
from oddarms.cli.study._storage import StorageOption
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.interrupts import pause
from oddarms.server import create_app
from oddarms.server._run import Place, run
from oddarms.server._tokens import Role, Tokens, new_text
from oddarms.studies._storage import server_address
from oddarms.text import message, shown

if TYPE_CHECKING:
    from fastapi import FastAPI

WAIT_SECONDS, PAUSE_SECONDS = 300.0, 0.5
"""How long the start waits for a storage that is unavailable, and how often it tries."""
MOST_NODE, MOST_PATH = 60, 120
"""Characters of a machine's name and a file's path in the note by which a token is known again."""


def serve(
    context: typer.Context,
    storage: StorageOption = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8321,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The admin's token; made where there is no such file."),
    ] = None,
    root_path: Annotated[
        str, typer.Option(metavar="/PREFIX", help="Under which a proxy serves it.")
    ] = "",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name clients reach it by; may be repeated."),
    ] = None,
    open_metrics: Annotated[
        bool, typer.Option("--open-metrics", help="Let everybody read /metrics.")
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For TLS, with --key.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's key.")] = None,
    tls_elsewhere: Annotated[
        bool, typer.Option("--tls-elsewhere", help="A proxy in front of it has the TLS.")
    ] = False,
) -> None:
    """Serve studies over HTTP: for workers in any language, and as pages.

    At the first start it makes a token and prints it once, as a link. `oddarms serve token`
    makes more. SIGTERM and Ctrl-C end it after the requests under way.

    \b
    Examples:
      oddarms serve
      oddarms serve --storage postgresql://me@host/studies --port 8000
      oddarms serve token worker --study crowd
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        return
    if server_address(storage) is not None:
        raise InvalidParameter("storage must be a file or database to serve but is a server.")
    place = Place(
        host,
        port,
        None if certificate is None else str(certificate),
        None if key is None else str(key),
        tls_elsewhere,
    )
    place.check(has_token=token_file is not None)
    names = [*(allow_host or []), *([] if place.host[:1].isdigit() else [place.host])]
    application = _when_available(
        lambda: create_app(
            storage,
            root_path=root_path,
            allowed_hosts=names,
            open_metrics=open_metrics,
            tls_elsewhere=tls_elsewhere,
        )
    )
    tokens: Tokens = application.state.oddarms.tokens
    if token_file is not None:
        _use_file(tokens, token_file)
    prefix = application.state.oddarms.settings.root_path

    def started(address: str) -> None:
        emit(f"serving {shown(application.state.oddarms.storage.name)} at {address}{prefix}/\n")
        if token_file is None and not tokens.has_admin():  # only now, as it is shown only once
            first = tokens.make(Role.ADMIN, note="of the first start")
            emit(f"open this link: {address}{prefix}/login#{first}\n")
            note(
                "what stands behind the # is an admin's token: it is shown only now, holds until it"
                " is revoked, and lets in whoever has it; `oddarms serve token` makes more"
            )

    run(application, place, started)


def _when_available(opened: Callable[[], FastAPI]) -> FastAPI:
    """Return the application once its storage answers; a database may start after the server."""
    until = time.monotonic() + WAIT_SECONDS
    said = False
    while True:
        try:
            return opened()
        except StorageFailed as error:
            if not error.passing or time.monotonic() > until:
                raise
            if not said:
                said = True
                note(f"{message(error)}; waiting up to {WAIT_SECONDS:.0f} s for it")
        pause(PAUSE_SECONDS)


def _use_file(tokens: Tokens, file: Path) -> None:
    """Let the admin's token in a file in; make it where there is no such file."""
    text = _in_file(file)
    if text is None:
        text = new_text()
        _write(file, text)
        note(f"the admin's token is in {shown(file)}")
    machine, path = shown(platform.node())[:MOST_NODE], shown(file.resolve())[-MOST_PATH:]
    for former in tokens.adopt(text, f"in a file of {machine}: {path}"):  # others' stay
        note(f"the token {former.id}, which was in {shown(file)} before, is revoked")
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        note(f"others than its owner can read {shown(file)}: chmod 600 keeps the token")


def _in_file(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InvalidParameter(
            f"token-file must be a file that can be read but is not: {reason}."
        ) from None


def _write(file: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text + "\n")
    except OSError as error:
        raise InvalidParameter(
            f"token-file must be a file that can be written but is not: {error.strerror}."
        ) from None


app = typer.Typer(
    cls=SuggestingGroup,
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    callback=guarded(serve),
)
app.add_typer(token_app, name="token")
