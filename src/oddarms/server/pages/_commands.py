"""Commands that pages show, to be copied into a shell."""

from __future__ import annotations

import shlex

EXAMPLE = "./probe {arm}"
"""A program in place of the reader's own."""


def create_command(server: str, name: str) -> str:
    """Return the command that creates a study on a server."""
    return _command("create", name, "--arms", "workers.txt", "--storage", server)


def work_command(server: str, name: str) -> str:
    """Return the command that works on a study of a server.

    Examples
    --------
    >>> work_command("http://127.0.0.1:8321", "my crowd")
    "oddarms study work 'my crowd' --storage http://127.0.0.1:8321 --pull './probe {arm}'"
    """
    return _command("work", name, "--storage", server, "--pull", EXAMPLE)


def _command(action: str, name: str, *options: str) -> str:
    """Return a command; a name that looks like an option stands at the end."""
    words = [*options, "--", name] if name.startswith("-") else [name, *options]
    return shlex.join(["oddarms", "study", action, *words])
