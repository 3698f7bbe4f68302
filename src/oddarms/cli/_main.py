"""The entry point; it says so where the packages of the command line are missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failed, 2 bad usage, 130 Ctrl-C."""
    from oddarms.errors import MissingExtra

    try:
        from oddarms.cli._app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f"error: {MissingExtra.of('cli', 'the command line')}", file=sys.stderr)
        return 2
    given = sys.argv[1:] if arguments is None else list(arguments)
    from oddarms.cli._streams import forgiving_stderr

    try:
        with forgiving_stderr():
            app(given, prog_name="oddarms", obj=given)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0
