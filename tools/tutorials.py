"""Runs the tutorials and writes what their cells print into them, for readers on GitHub.

``python -m tools.tutorials [PAGE ...]``. The site executes the cells itself and shows their real
output, with pictures; there a block ``{printed}`` is left out.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
CELL = re.compile(
    r"(?P<cell>^```\{code-cell\}\n(?P<tags>:tags: [^\n]*\n\n?)?(?P<code>.*?)^```\n)"
    r"(?P<printed>\n```\{printed\}\n.*?^```\n)?",
    re.DOTALL | re.MULTILINE,
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def with_output(page: str) -> str:
    """Return a page whose cells were executed, each followed by what it printed."""
    cells = list(CELL.finditer(page))
    made: Any = nbformat.v4  # it has no types
    notebook = made.new_notebook()
    notebook.cells = [made.new_code_cell(cell["code"].rstrip()) for cell in cells]
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    texts = iter(_printed(cell.outputs) for cell in notebook.cells)
    return CELL.sub(lambda cell: cell["cell"] + _block(next(texts), cell["tags"]), page)


def _printed(outputs: list[Any]) -> str:
    """Return the text of a cell's output; pictures and pages have none."""
    texts = []
    for output in outputs:
        data = output.get("data", {})
        if "image/png" not in data:
            texts.append(output.get("text") or data.get("text/plain", ""))
    lines = COLOURS.sub("", "".join(texts)).strip("\n").splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _block(text: str, tags: str | None) -> str:
    hidden = tags is not None and "remove-cell" in tags
    return f"\n```{{printed}}\n{text}\n```\n" if text and not hidden else ""


def main(names: list[str]) -> None:
    """Refresh the pages with these names, or all."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ.update(COLUMNS="80", NO_COLOR="1")
    for path in sorted(TUTORIALS.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        if "```{code-cell}" in page and (not names or path.stem in names):
            path.write_text(with_output(page), encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
