"""Pages that are files of the repository's root, such as CHANGELOG.md, with links that fit here."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

PAGES = {
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "conduct": "CODE_OF_CONDUCT.md",
}
_LINK = re.compile(r"\]\((?!#|[a-z]+:)([^)#\s]+)")


def _target(file: str) -> str:
    """Return where a link of the root leads from a page of the site."""
    for page, name in PAGES.items():
        if file == name:
            return f"{page}.md"
    return file.removeprefix("docs/") if file.startswith("docs/") else f"../{file}"


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    if page in PAGES:
        path = Path(app.srcdir).parent / PAGES[page]
        app.env.note_dependency(str(path))
        text = path.read_text(encoding="utf-8")
        source[0] = _LINK.sub(lambda link: f"]({_target(link[1])}", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Have these pages read from the root."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
