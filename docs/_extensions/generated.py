"""Reference pages made from the program: the commands and their help, the requests of the server.

The site has the help of every command. The two tables are kept in the pages, for readers on
GitHub; ``python docs/_extensions/generated.py`` writes them anew.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from oddarms.cli import main
from oddarms.server import create_app

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
_COMMAND = re.compile(r"^  (\w+)  +\w", re.MULTILINE)
_TABLE = re.compile(r"^\|.*\|\n(?:\|.*\|\n)+", re.MULTILINE)


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
    for name in _COMMAND.findall(help_of(*command).partition("Commands:\n")[2]):
        yield (*command, name)
        yield from _commands_below(*command, name)


def _first_sentence(*command: str) -> str:
    return _sentence(help_of(*command).split("\n\n", maxsplit=1)[1])


def _sentence(text: str) -> str:
    """Return the first sentence of a text."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".")


def table_of_commands() -> str:
    """Return a table of all commands."""
    rows = [
        f"| `{' '.join(('oddarms', *command))}` | {_first_sentence(*command)} |"
        for command in _commands_below()
    ]
    return "\n".join(["| command | what it does |", "|---|---|", *rows, ""])


def requests() -> str:
    """Return a table of the requests that the server answers."""
    paths = create_app("memory").openapi()["paths"]
    rows = [
        f"| `{method.upper()} {path}` | {_sentence(about.get('description', ''))} |"
        for path, methods in paths.items()
        for method, about in methods.items()
    ]
    return "\n".join(["| request | what it does |", "|---|---|", *rows, ""])


TABLES = {"command-line.md": table_of_commands, "http.md": requests}


def filled(name: str) -> str:
    """Return a page of TABLES with its table as the program has it."""
    page = (REFERENCE / name).read_text(encoding="utf-8")
    return _TABLE.sub(lambda _: TABLES[name](), page, count=1)


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    del app, page
    if "<!-- commands -->" in source[0]:
        source[0] = source[0].replace("<!-- commands -->", commands())


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


if __name__ == "__main__":
    for page in TABLES:
        (REFERENCE / page).write_text(filled(page), encoding="utf-8")
