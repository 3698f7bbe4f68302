"""``oddarms serve``: HTTP for workers, pages to watch them, and tokens."""

from __future__ import annotations

import os
import platform
import stat
from datetime import datetime, timedelta
from pathlib import Path

import click

from oddarms import server
from oddarms.cli import _options as opts
from oddarms.cli._options import Argument, Given, Options, command, flag, option, seconds
from oddarms.cli._terminal import emit, emit_rows, moment, note
from oddarms.errors import InvalidParameter
from oddarms.server import LONGEST, Binding, Role, Settings, Tokens, create_app, new_token
from oddarms.studies import MAX_LEASE, retried
from oddarms.text import shown

WAIT_SECONDS = 300.0
"""How long the start waits for a storage: a database may start after the server."""
MAX_NODE, MAX_PATH = 60, 120
"""Characters of a machine's name and a file's path in the note of a token."""


@command(
    None,
    "serve",
    opts.STORAGE,
    option("--host ADDRESS", str, "Address to listen on.", default="127.0.0.1"),
    opts.PORT,
    option("--token-file FILE", Path, "File with the admin's token; created if it is missing."),
    option("--root-path /PREFIX", str, "Path prefix under which a proxy serves it."),
    option(
        "--allow-host NAME",
        str,
        "Host name by which clients reach it; may be repeated.",
        multiple=True,
    ),
    flag("--open-metrics", "Let anybody read /metrics without a token."),
    option("--certificate FILE", Path, "Certificate for TLS, with --key."),
    option("--key FILE", Path, "The certificate's private key."),
    flag("--tls-elsewhere", "A proxy in front of the server does TLS."),
    flag("--json-logs", "Write the log as lines of JSON."),
    flag("--forwarded-user", "Log the name in X-Forwarded-User, which a proxy sends."),
    option(
        "--max-lease TIME",
        seconds,
        "Longest lease of a ticket.",
        "1h",
        default=MAX_LEASE.total_seconds(),
    ),
    kind=opts.Commands,
    invoke_without_command=True,
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
    if click.get_current_context().invoked_subcommand is not None:
        return
    opts.check_local(given.storage)
    token_file = given.token_file
    cert, key = (None if file is None else str(file) for file in (given.certificate, given.key))
    binding = Binding(given.host, given.port, cert, key)
    binding.check(on_purpose=given.tls_elsewhere or token_file is not None)
    settings = Settings(
        root_path=given.root_path or "",
        allowed_hosts=[*given.allow_host, *([] if given.host[:1].isdigit() else [given.host])],
        open_metrics=given.open_metrics,
        tls_elsewhere=given.tls_elsewhere,
        max_lease=timedelta(seconds=given.max_lease),
        forwarded_user=given.forwarded_user,
    )
    application = retried(lambda: create_app(given.storage, settings), WAIT_SECONDS)
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
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text + "\n")
    except OSError as error:
        raise InvalidParameter(
            f"--token-file: cannot write {shown(file)}: {error.strerror}."
        ) from None


# Tokens

token = opts.Commands("token", help="Make, list and revoke tokens: who may use the server.")
serve.add_command(token)
TOKEN: Options = (
    option("--note TEXT", str, "What the token is for, shown in the list.", default=""),
    option("--days NUMBER", float, "Days until it expires.", "never"),
    opts.STORAGE,
)


@command(token, "admin", *TOKEN)
def admin(given: Given) -> None:
    """Make a token that may do everything."""
    _make(Role.ADMIN, None, given)


@command(token, "worker", option("--study NAME", str, "Its only study.", required=True), *TOKEN)
def worker(given: Given) -> None:
    """Make a token that may work on one study.

    \b
    Example:
      oddarms serve token worker --study crowd --days 30
    """  # noqa: D301
    _make(Role.WORKER, given.study, given)


@command(token, "reader", option("--study NAME", str, "The only study it may read.", "all"), *TOKEN)
def reader(given: Given) -> None:
    """Make a token that may read all studies, or only one."""
    _make(Role.READER, given.study, given)


@command(token, "list", opts.STORAGE, opts.FORMAT)
def list_tokens(given: Given) -> None:
    """List the ids, roles and notes of tokens."""
    found = _tokens(given.storage).list()
    if given.how == "table" and not found:
        note("no tokens yet: the first start of `oddarms serve` makes one")
        return

    def when(time: datetime | None) -> object:
        return (moment(time)[:16] or "never") if given.how == "table" else time

    rows = [
        (one.id, one.role.value, one.study_name, one.note, when(one.made), when(one.expires))
        for one in found
    ]
    header = ("id", "role", "study", "note", "made", "expires")
    emit_rows(given.how, header, rows, wrap="note")


@command(token, "revoke", Argument("token", "As `list` shows it.", metavar="ID"), opts.STORAGE)
def revoke(given: Given) -> None:
    """Revoke a token; running servers refuse it within five seconds."""
    if not _tokens(given.storage).revoke(given.token):
        raise InvalidParameter(f"There is no token {given.token!r:.60}: `list` shows the ids.")
    emit(f"revoked {given.token}\n")


def _make(role: Role, study: str | None, given: Given) -> None:
    lasts = None
    if given.days is not None:
        if not 0.0 < given.days <= LONGEST.days:
            raise InvalidParameter(
                f"--days must be above 0 and at most {LONGEST.days:,}, not {given.days:g}."
            )
        lasts = timedelta(days=given.days)
    emit(_tokens(given.storage).make(role, study=study, note=given.note, lasts=lasts) + "\n")
    note("it is shown only now: give it to its user as ODDARMS_TOKEN, or in a file")


def _tokens(storage: str | None) -> Tokens:
    opts.check_local(storage)
    opts.check_lasting(storage)
    return Tokens.opened(storage)
