"""The entry point, and all commands; each is imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from oddarms.cli._terminal import EXIT_USAGE, forgiving_stderr, guarded, note
from oddarms.errors import MissingExtra
from oddarms.text import shown

ABOUT = "Find the abnormal ones among many things that can only be sampled at a cost."
COMMANDS = {
    "analyze": ("_analyze:analyze", "Analyze recorded data: a table, counts, JUnit reports."),
    "demo": ("_demo:demo", "Find the crowd workers who err too often, in a simulation."),
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


# Commands that suggest what a mistyped word was meant to be


class SuggestingCommand(TyperCommand):
    """A command that suggests an option of a similar name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _suggest_option(error, self)
            raise


class SuggestingGroup(TyperGroup):
    """A group of commands that suggests a command or option of a similar name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _suggest_option(error, self)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command '{shown(name)}'.{_meant(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def _suggest_option(error: Any, command: Any) -> None:
    """Give click's error about an unknown option a better message."""
    if hasattr(error, "possibilities") and hasattr(error, "option_name"):
        options = (option for parameter in command.params for option in parameter.opts)
        meant = _meant(error.option_name, (word for word in options if word.startswith("--")))
        error.possibilities = None
        error.message = f"No such option '{shown(error.option_name)}'.{meant}"


def _meant(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


# The app


class _Commands(SuggestingGroup):
    """Imports a command when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None if there is none of that name."""
        del ctx
        return _loaded(cmd_name) if cmd_name in COMMANDS else None

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
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        note(f"error: {MissingExtra.of('cli', 'the command line')}")
        raise typer.Exit(EXIT_USAGE) from None
    except MissingExtra as error:
        note(f"error: {error}")
        raise typer.Exit(EXIT_USAGE) from None
    if not isinstance(found, typer.Typer):
        one = typer.Typer(**SETTINGS)
        one.command(name, cls=SuggestingCommand)(guarded(found))
        found = one
    command = get_command(found)
    command.name = name
    return command


def group(about: str, **options: Any) -> typer.Typer:
    """Return an app for the commands of a group."""
    return typer.Typer(cls=SuggestingGroup, help=about, **SETTINGS, **options)


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
