"""The entry point, and all commands; each is imported when it is called."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from oddarms import __version__
from oddarms.cli._terminal import EXIT_FAILED, EXIT_SIGNAL, EXIT_USAGE, drop, forgiving_stderr, note
from oddarms.errors import OddarmsError, SearchError, StorageFailed, WorkerLost

COMMANDS = {
    "analyze": "Analyze recorded data: a table, counts, JUnit reports.",
    "demo": "Find the workers who err too often in a simulated crowd.",
    "explain": "Explain k, delta and margin, and what they cost.",
    "find": "Sample items live until each of them is decided.",
    "reproduce": "Reproduce the experiments of the ADE paper.",
    "serve": "Serve studies over HTTP, for workers and for browsers.",
    "study": "Create and use studies: searches shared by many workers.",
}
"""What each command does; it is named like its module."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failed, 2 bad usage, 130 Ctrl-C."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    with forgiving_stderr():
        try:
            with app.make_context("oddarms", given, obj=list(given)) as context:
                app.invoke(context)
        except click.exceptions.Exit as end:
            return end.exit_code
        except SystemExit as end:
            return int(end.code or 0)
        except BrokenPipeError:  # a reader who has gone ends the command
            drop(sys.stdout)
            return EXIT_FAILED
        except (Exception, KeyboardInterrupt) as error:
            return _failed(error)
    return 0


def _failed(error: BaseException) -> int:
    """Say what went wrong, in a sentence; return the exit code."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return EXIT_USAGE
        case click.UsageError(ctx=context):
            where = "oddarms" if context is None else context.command_path
            note(f"error: {' '.join(error.format_message().split())} See `{where} --help`.")
            return EXIT_USAGE
        case SearchError() | StorageFailed() | WorkerLost():
            code = EXIT_FAILED
        case OddarmsError():
            code = EXIT_USAGE
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            note(f"error: {where}{(error.strerror or str(error)).rstrip('.')}.")
            return EXIT_FAILED
        case KeyboardInterrupt():
            note(str(error) or "interrupted")
            return EXIT_SIGNAL + getattr(error, "signal", signal.SIGINT)
        case _:
            raise error
    note(f"error: {error}")
    return code


class _Commands(click.Group):
    """Imports a command when it is called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> Any:
        """Return a command, None if there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"oddarms.cli._{cmd_name}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = _Commands(
    "oddarms",
    dict.fromkeys(COMMANDS, click.Command(None)),
    help="Find the abnormal ones among many things that can only be sampled at a cost.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, message="oddarms %(version)s", help="Show the version.")(app)
