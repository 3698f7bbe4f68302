"""The command line, ``oddarms`` (``pip install 'oddarms[cli]'``)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 failed, 2 bad usage, 130 Ctrl-C."""
    try:
        from oddarms.cli import _main
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        from oddarms.errors import MissingExtra

        print(f"error: {MissingExtra.of('cli', 'the command line')}", file=sys.stderr)
        return 2
    return _main.main(arguments)
