"""Draws the house of packages for CONTRIBUTING.md from the contract that import-linter enforces.

``python -m tools.house`` writes it into the page; a test says if the page is behind.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- the house: make house draws it -->\n", "<!-- end of the house -->\n"
WIDTH, NAME = 78, 14


def floors() -> list[list[str]]:
    """Return the modules of each layer, the highest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def drawn() -> str:
    """Return the house as text: each floor may use those below it."""
    rows = ["┌" + "─" * WIDTH + "┐"]
    for number, floor in enumerate(floors()):
        if number:
            rows.append("├" + "─" * WIDTH + "┤")
        for name in floor:
            rows += [f"│ {line:<{WIDTH - 2}} │" for line in _lines_of(name)]
    return "\n".join([*rows, "└" + "─" * WIDTH + "┘"])


def page_with_house(page: str) -> str:
    """Return the text of a page with the house as it is now."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n```text\n{drawn()}\n```\n\n{END}{after}"


def sentence_of(name: str) -> str:
    """Return the first line of a module's docstring."""
    parts = name.split(".")
    path = ROOT.joinpath(*(["src"] if parts[0] == "oddarms" else []), *parts)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0].replace("`", "")


def _lines_of(name: str) -> list[str]:
    lines = textwrap.wrap(sentence_of(name), WIDTH - 3 - NAME)
    names = [name.removeprefix("oddarms."), *[""] * len(lines)]
    return [f"{one:<{NAME}} {line}" for one, line in zip(names, lines, strict=False)]


if __name__ == "__main__":
    PAGE.write_text(page_with_house(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
