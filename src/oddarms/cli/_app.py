"""All commands, each in its own file."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from oddarms.cli._guard import EXIT_USAGE, guarded
from oddarms.cli._suggestions import SuggestingCommand, SuggestingGroup
from oddarms.errors import MissingExtra

COMMANDS = {
    "demo": (
        "oddarms.cli._demo:demo",
        "Find the crowd workers who err too often, in a simulation.",
    ),
    "explain": (
        "oddarms.cli._explain:explain",
        "Teach what k, delta and margin mean, and what they cost.",
    ),
    "find": (
        "oddarms.cli.find:find",
        "Find the abnormal ones: sample things until each is decided.",
    ),
    "reproduce": (
        "oddarms.cli._reproduce:reproduce",
        "Reproduce the experiments of the ADE paper (AAAI 2020).",
    ),
    "serve": (
        "oddarms.cli.serve:app",
        "Serve studies over HTTP, for workers and for browsers.",
    ),
    "study": (
        "oddarms.cli.study:app",
        "Ask and tell from the shell: searches shared by many workers.",
    ),
}
"""A function or an app for each command, imported when it is called, and what it does."""


class _Commands(SuggestingGroup):
    """Imports a command when it is wanted, as one needs what another does not."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None if there is none of that name."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.commands[cmd_name] = _loaded(cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does; none is imported for that."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in sorted(COMMANDS.items())])


@cache  # to make one takes as long as many a command
def _loaded(name: str) -> Any:
    module, _, attribute = COMMANDS[name][0].partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        print(f"error: {MissingExtra.of('cli', 'the command line')}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    if not isinstance(found, typer.Typer):
        one = typer.Typer(add_completion=False, rich_markup_mode=None)
        one.command(name, cls=SuggestingCommand)(guarded(found))
        found = one
    command = get_command(found)
    command.name = name
    return command


app = typer.Typer(
    cls=_Commands,
    help="Find the abnormal ones among many things that can only be sampled at a cost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from oddarms import __version__

        typer.echo(f"oddarms {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find the abnormal ones among many things that can only be sampled at a cost."""
