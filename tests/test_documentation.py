"""Every example that is shown is executed: docstrings, README and pages."""

from __future__ import annotations

import doctest
import importlib
import io
import pkgutil
import re
import shlex
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import ROOT
from oddarms.cli import main

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


def words_of(page: str) -> int:
    """Return how many words a page has; lines of tables and drawings are none."""
    return sum(any(map(str.isalnum, word)) for word in page.split())


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def run_blocks(page: Path, names: dict[str, Any]) -> None:
    """Run the blocks of a page in Python, which share their names."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if ">>>" in block:
            examples = doctest.DocTestParser().get_doctest(block, names, page.name, None, 0)
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            runner.run(examples, clear_globs=False)
            names.update(examples.globs)
            assert runner.failures == 0
        else:
            exec(compile(block, str(page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blocks of a page share their names, in order; they run in an empty directory."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    run_blocks(page, names)
    assert names["__name__"] == "page"


SHOWN = re.compile(r"^(?:\s|!|\$ |- |run: )*(oddarms (?:[^\n`]*\\\n)*[^\n`]*)", re.MULTILINE)
"""A command at the beginning of a line, with the lines that it goes on in."""
INLINE = re.compile(r"`(oddarms (?:analyze|demo|explain|find|reproduce|serve|study)\b[^`]*)`")


def shown_commands(text: str) -> list[list[str]]:
    """Return the words of every `oddarms COMMAND ...` in the blocks and sentences of a page."""
    blocks = re.findall(r"^(?:```[^\n]*\n.*?^```|    [^\n]*)", text, re.DOTALL | re.MULTILINE)
    found = [command for block in blocks for command in SHOWN.findall(block)]
    found += INLINE.findall(text)
    return [shlex.split(re.split(r"[|>;&)]", one)[0], comments=True) for one in found]


def test_functions_that_the_proofs_name_exist() -> None:
    text = (ROOT / "docs/explanation/proofs.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| .* \| `.*\.py` \|$", text, re.MULTILINE)
    named = re.findall(r"`(\w+)\.(\w+)`", "\n".join(table))
    assert len(named) > 20
    for module, name in named:
        if name == "py":
            assert (ROOT / "tests" / f"{module}.py").exists(), module
            continue
        floor = "algorithms" if module.startswith("_") else "statistics"
        assert hasattr(importlib.import_module(f"oddarms.{floor}.{module}"), name), name


@cache
def help_of(*command: str) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main([*command, "--help"]) == 0, command
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_that_are_shown_exist_with_their_options(page: Path) -> None:
    """Also those that nobody runs, such as the examples of the README."""
    for words in shown_commands(page.read_text(encoding="utf-8")):
        command: tuple[str, ...] = ()
        for word in words[1:]:
            listed = rf"^  {re.escape(word)}  "
            if word.startswith("-") or not re.search(listed, help_of(*command), re.MULTILINE):
                break
            command = (*command, word)
        assert command or words[1].startswith("-"), words
        known = set(re.findall(r"(?<!\w)--[a-z-]+", help_of(*command)))
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, words
