"""Every example that is shown is executed: docstrings, README and pages."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import oddarms
from helpers import ROOT
from oddarms.cli._app import app

MODULES = [
    "oddarms",
    *(
        m.name
        for m in pkgutil.walk_packages(oddarms.__path__, "oddarms.")
        if not m.name.endswith("__main__")
    ),
]
PAGES = [path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if path.exists()]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks of a page share their names, in order; they run in an empty directory."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if ">>>" in block:
            examples = doctest.DocTestParser().get_doctest(block, names, page.name, None, 0)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            runner.run(examples, clear_globs=False)
            names.update(examples.globs)
            assert runner.failures == 0, capsys.readouterr().out
        else:
            exec(compile(block, str(page), "exec"), names)
    assert names["__name__"] == "page"


SHOWN = re.compile(r"^(?:\s|!|\$ |- |run: )*(oddarms (?:[^\n`]*\\\n)*[^\n`]*)", re.MULTILINE)
"""A command of the shell at the beginning of a line, with the lines that it goes on in."""


def shown_commands(text: str) -> list[list[str]]:
    """Return the words of every `oddarms COMMAND ...` in the blocks of a page."""
    blocks = re.findall(r"^(?:```[^\n]*\n.*?^```|    [^\n]*)", text, re.DOTALL | re.MULTILINE)
    found = [command for block in blocks for command in SHOWN.findall(block)]
    return [shlex.split(re.split(r"[|>;&)]", one)[0], comments=True) for one in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_that_are_shown_exist_with_their_options(page: Path) -> None:
    """Also those that nobody runs, such as the examples of the README."""
    commands = get_command(app)
    for words in shown_commands(page.read_text(encoding="utf-8")):
        command = commands
        rest = words[1:]
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            command = command.get_command(None, rest.pop(0))
            assert command is not None, words
        known = {name for parameter in command.params for name in parameter.opts}
        known |= {name for parameter in command.params for name in parameter.secondary_opts}
        given = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert given <= known | {"--help"}, words
