"""Every example that is shown is executed: docstrings, README and pages."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import ROOT

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
