"""``oddarms serve``: HTTP for workers, pages to watch them, and tokens."""

from __future__ import annotations

import inspect
import math
import os
import platform
import stat
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from oddarms import server
from oddarms.cli._main import group
from oddarms.cli._options import (
    CONTEXT,
    FORMAT,
    STORAGE,
    Given,
    Option,
    Options,
    argument,
    check_lasting,
    check_local,
    duration,
    flag,
    option,
    takes,
)
from oddarms.cli._terminal import emit, emit_rows, moment, note
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.interrupts import pause
from oddarms.server import LONGEST, Binding, Role, Tokens, create_app, new_token
from oddarms.studies import MAX_LEASE
from oddarms.text import message, shown, table

if TYPE_CHECKING:
    from fastapi import FastAPI

WAIT_SECONDS, PAUSE_SECONDS = 300.0, 0.5
"""How long the start waits for a storage that is unavailable, and how often it tries."""
MAX_NODE, MAX_PATH = 60, 120
"""Characters of a machine's name and a file's path in the note of a token."""


@takes(
    context=CONTEXT,
    storage=STORAGE,
    host=option(str, "Address to listen on.", default="127.0.0.1", metavar="ADDRESS"),
    port=option(int, "Port to listen on; 0 picks a free one.", default=8321, min=0, max=65535),
    token_file=option(Path, "File with the admin's token; created if it does not exist."),
    root_path=option(str, "Prefix under which a proxy serves it.", default="", metavar="/PREFIX"),
    allow_host=option(
        list[str], "A name by which clients reach it; may be repeated.", metavar="NAME"
    ),
    open_metrics=flag("Let everybody read /metrics."),
    certificate=option(Path, "Certificate for TLS, with --key."),
    key=option(Path, "The certificate's private key."),
    tls_elsewhere=flag("A proxy in front of it does TLS."),
    json_logs=flag("Write the log as lines of JSON."),
    forwarded_user=flag("Log the name in X-Forwarded-User, which a proxy sends."),
    max_lease=duration("Longest lease of a ticket.", "1h", MAX_LEASE.total_seconds()),
)
def serve(given: Given) -> None:
    """Serve studies over HTTP: for workers in any language, and as pages.

    The first start makes a token and prints it once, as a link. `oddarms serve token` makes more.
    SIGTERM and Ctrl-C end it after the requests under way.

    \b
    Examples:
      oddarms serve
      oddarms serve --storage postgresql://me@host/studies --port 8000
      oddarms serve token worker --study crowd
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    if given.context.invoked_subcommand is not None:
        return
    check_local(given.storage)
    token_file = given.token_file
    cert, key = (None if file is None else str(file) for file in (given.certificate, given.key))
    binding = Binding(given.host, given.port, cert, key, given.tls_elsewhere)
    binding.check(has_token=token_file is not None)
    names = [*(given.allow_host or []), *([] if binding.host[:1].isdigit() else [binding.host])]
    application = _when_available(
        lambda: create_app(
            given.storage,
            root_path=given.root_path,
            allowed_hosts=names,
            open_metrics=given.open_metrics,
            tls_elsewhere=given.tls_elsewhere,
            max_lease=timedelta(seconds=given.max_lease),
            forwarded_user=given.forwarded_user,
        )
    )
    state = application.state.oddarms
    tokens: Tokens = state.tokens
    if token_file is not None:
        _use_file(tokens, token_file)

    def started(address: str) -> None:
        where = f"{address}{state.settings.root_path}"
        emit(f"serving {shown(state.storage.name)} at {where}/\n")
        if token_file is None and not tokens.has_admin():  # only now, as it is shown only once
            first = tokens.make(Role.ADMIN, note="of the first start")
            emit(f"open this link: {where}/login#{first}\n")
            note(
                "the part after # is an admin's token: it is shown only now, is valid until it is"
                " revoked, and lets in whoever has it; `oddarms serve token` makes more"
            )

    server.run(application, binding, started, json_logs=given.json_logs)


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
                note(f"{message(error)} Waiting up to {WAIT_SECONDS:.0f} s for it.")
        pause(PAUSE_SECONDS)


def _use_file(tokens: Tokens, file: Path) -> None:
    """Accept the admin's token in a file; create it if there is no such file."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        text = new_token()
        _write_private(file, text)
        note(f"the admin's token is in {shown(file)}")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidParameter(f"--token-file: cannot read {shown(file)}: {reason}.") from None
    machine, path = shown(platform.node())[:MAX_NODE], shown(file.resolve())[-MAX_PATH:]
    for former in tokens.adopt(text, f"in a file of {machine}: {path}"):
        note(f"the token {former.id}, which was in {shown(file)} before, is revoked")
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        note(f"others can read {shown(file)}: chmod 600 protects the token")


def _write_private(file: Path, text: str) -> None:
    """Create a file that only its owner can read."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text + "\n")
    except OSError as error:
        raise InvalidParameter(
            f"--token-file: cannot write {shown(file)}: {error.strerror}."
        ) from None


# Tokens

TOKEN: Options = {
    "note": option(str, "What the token is for, shown in the list.", default=""),
    "days": option(float, "Days until it expires.", "never", min=0.001, max=LONGEST.days),
    "storage": STORAGE,
}


@takes(**TOKEN)
def admin(given: Given) -> None:
    """Make a token that may do everything.

    \b
    Example:
      oddarms serve token admin --note "my laptop"
    """  # noqa: D301
    _make(Role.ADMIN, None, given)


@takes(
    study=Option(
        str, inspect.Parameter.empty, typer.Option(metavar="NAME", help="Its only study.")
    ),
    **TOKEN,
)
def worker(given: Given) -> None:
    """Make a token that may read one study, and ask and tell there.

    \b
    Example:
      oddarms serve token worker --study crowd --days 30
    """  # noqa: D301
    _make(Role.WORKER, given.study, given)


@takes(study=option(str, "The only study it may read.", "all", metavar="NAME"), **TOKEN)
def reader(given: Given) -> None:
    """Make a token that may read all studies, or one, and change nothing.

    \b
    Example:
      oddarms serve token reader --note dashboard
    """  # noqa: D301
    _make(Role.READER, given.study, given)


@takes(storage=STORAGE, how=FORMAT)
def list_tokens(given: Given) -> None:
    """List tokens: what they may do, and their ids; not the tokens themselves.

    \b
    Example:
      oddarms serve token list
    """  # noqa: D301
    found, how = _tokens(given.storage).list(), given.how
    if how == "table" and not found:
        note("no tokens yet: the first start of `oddarms serve` makes one")
        return
    header = ("id", "role", "study", "note", "made", "expires")
    rows = [(one.id, one.role.value, one.study_name, one.note) for one in found]
    if how == "table":
        times = [(moment(t.made)[:16], moment(t.expires)[:16] or "never") for t in found]
        people = [(*(cell or "" for cell in row), *at) for row, at in zip(rows, times, strict=True)]
        emit(table(header, people, wrap="note"))
    else:
        ends = [t.expires.isoformat() if t.expires else None for t in found]
        made = [t.made.isoformat() for t in found]
        emit_rows(how, header, [(*r, m, e) for r, m, e in zip(rows, made, ends, strict=True)])


@takes(token=argument(str, "ID", "As `list` shows it."), storage=STORAGE)
def revoke(given: Given) -> None:
    """Revoke a token; running servers refuse it within five seconds.

    \b
    Example:
      oddarms serve token revoke 1f0c2ab94e77
    """  # noqa: D301
    if not _tokens(given.storage).revoke(given.token):
        raise InvalidParameter(f"There is no token {given.token!r:.60}: `list` shows the ids.")
    emit(f"revoked {given.token}\n")


def _make(role: Role, study: str | None, given: Given) -> None:
    if given.days is not None and math.isnan(given.days):  # which passes every bound
        raise InvalidParameter("--days must be a number but got nan.")
    lasts = None if given.days is None else timedelta(days=given.days)
    emit(_tokens(given.storage).make(role, study=study, note=given.note, lasts=lasts) + "\n")
    note("it is shown only now: give it to its user as ODDARMS_TOKEN, or in a file")


def _tokens(storage: str | None) -> Tokens:
    check_local(storage)
    check_lasting(storage)
    return Tokens.opened(storage)


app = group(inspect.getdoc(serve) or "", invoke_without_command=True, callback=serve)
_token = group("Make, list and revoke tokens: who may use the server.", no_args_is_help=True)
_TOKEN_COMMANDS: dict[str, Callable[..., None]] = {
    "admin": admin,
    "worker": worker,
    "reader": reader,
    "list": list_tokens,
    "revoke": revoke,
}
for _name, _command in _TOKEN_COMMANDS.items():
    _token.command(_name)(_command)
app.add_typer(_token, name="token")
