"""Reference pages made from the program: the help of every command, the requests of the server."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from oddarms.cli import main
from oddarms.server import create_app

_COMMAND = re.compile(r"^  (\w+)  +\w", re.MULTILINE)


def help_of(*command: str) -> str:
    """Return the help of a command, as it prints it."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        main([*command, "--help"])
    return printed.getvalue()


def commands() -> str:
    """Return a section for each command, with its help."""
    sections = []
    for command in _commands_below():
        title = " ".join(("oddarms", *command))
        sections.append(f"## {title}\n\n```text\n{help_of(*command).strip()}\n```")
    return "\n\n".join(sections)


def _commands_below(*command: str) -> Iterator[tuple[str, ...]]:
    if command:
        yield command
    for name in _COMMAND.findall(help_of(*command).partition("Commands:\n")[2]):
        yield from _commands_below(*command, name)


def requests() -> str:
    """Return a table of the requests that the server answers."""
    paths = create_app("memory").openapi()["paths"]
    rows = [
        f"| `{method.upper()} {path}` | {about.get('summary', '')} |"
        for path, methods in paths.items()
        for method, about in methods.items()
    ]
    return "\n".join(["| request | what it does |", "|---|---|", *rows])


_PLACES = {"<!-- commands -->": commands, "<!-- requests -->": requests}


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    del app, page
    for place, text in _PLACES.items():
        if place in source[0]:
            source[0] = source[0].replace(place, text())


class Printed(SphinxDirective):
    """What a cell printed, for readers on GitHub; the site has the cell's own output."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Leave it out."""
        return []


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill the places of pages that are made from the program."""
    app.connect("source-read", _read)
    app.add_directive("printed", Printed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
