"""The entry point, and all commands; each is imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from oddarms.cli._terminal import EXIT_USAGE, forgiving_stderr, note
from oddarms.errors import MissingExtra

ABOUT = "Find the abnormal ones among many things that can only be sampled at a cost."
COMMANDS = {
    "analyze": ("_analyze:analyze", "Analyze recorded data: a table, counts, JUnit reports."),
    "demo": ("_demo:demo", "Find the workers who err too often in a simulated crowd."),
    "explain": ("_explain:explain", "Explain k, delta and margin, and what they cost."),
    "find": ("_find:find", "Sample items live until each of them is decided."),
    "reproduce": ("_reproduce:reproduce", "Reproduce the experiments of the ADE paper."),
    "serve": ("_serve:app", "Serve studies over HTTP, for workers and for browsers."),
    "study": ("_study:app", "Create and use studies: searches shared by many workers."),
}
"""Where each command is, as a function or an app, and what it does."""
SETTINGS: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failed, 2 bad usage, 130 Ctrl-C."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with forgiving_stderr():
            app(given, prog_name="oddarms", obj=given)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


class _Commands(TyperGroup):
    """Imports a command when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None if there is none of that name."""
        del ctx
        return _loaded(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command, or suggest one of a similar name."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = "".join(
                f" Did you mean '{n}'?" for n in get_close_matches(args[0], COMMANDS, 1)
            )
            ctx.fail(f"No such command '{args[0]}'.{close}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does, without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in sorted(COMMANDS.items())])


@cache  # building a command takes as long as running many of them
def _loaded(name: str) -> Any:
    module, _, attribute = COMMANDS[name][0].partition(":")
    try:
        found = getattr(import_module(f"oddarms.cli.{module}"), attribute)
    except MissingExtra as error:
        note(f"error: {error}")
        raise typer.Exit(EXIT_USAGE) from None
    if not isinstance(found, typer.Typer):
        one = typer.Typer(**SETTINGS)
        one.command(name)(found)
        found = one
    command = get_command(found)
    command.name = name
    return command


def group(about: str, **options: Any) -> typer.Typer:
    """Return an app for the commands of a group."""
    return typer.Typer(help=about, **SETTINGS, **options)


app = typer.Typer(
    cls=_Commands,
    help=ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    **SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        from oddarms import __version__

        typer.echo(f"oddarms {__version__}")
        raise typer.Exit


@app.callback(help=ABOUT)
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
