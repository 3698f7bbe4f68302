"""Documents made of a few kinds of blocks, written as Markdown and as one HTML page."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 .6rem; }
h1 { margin-top: 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #d0d0d0; text-align: left;
  vertical-align: top; }
thead th { border-bottom: 2px solid #767676; }
.scroll { overflow-x: auto; margin: 1rem 0; }
figure { margin: 1.2rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; }
figcaption, .note { color: #555; font-size: .92rem; }
code { font-size: .92em; background: #8882; padding: 0 .2em; border-radius: .2em;
  overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181c; } figcaption, .note { color: #b0b0b0; }
  th, td { border-color: #444; } }
@media print { body { margin: 0; max-width: none; color: #000; background: #fff; }
  figure, tr { break-inside: avoid; } .scroll { overflow: visible; } }
"""


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        return f"{'#' * self.level} {self.text}"

    def to_html(self, folder: Path) -> str:  # noqa: ARG002
        """Return it as HTML."""
        return f"<h{self.level}>{inline(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; text between backticks is code."""

    text: str

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        return self.text

    def to_html(self, folder: Path) -> str:  # noqa: ARG002
        """Return it as HTML."""
        return f"<p>{inline(self.text)}</p>"


@dataclass(frozen=True)
class Table:
    """A table with a header; it scrolls by itself where the screen is narrow."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        table = "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)
        return f"{self.caption}\n\n{table}" if self.caption else table

    def to_html(self, folder: Path) -> str:  # noqa: ARG002
        """Return it as HTML."""
        caption = f"<caption>{inline(self.caption)}</caption>" if self.caption else ""
        head = "".join(f'<th scope="col">{inline(text)}</th>' for text in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{inline(text)}</td>" for text in row) + "</tr>\n"
            for row in self.rows
        )
        return (
            f'<div class="scroll" tabindex="0"><table>{caption}<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}</tbody></table></div>"
        )


@dataclass(frozen=True)
class Picture:
    """A picture beside the document, with what it shows in words; HTML has it inside."""

    file: str
    alternative: str
    caption: str = ""

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        picture = f"![{self.alternative}]({self.file})"
        return f"{picture}\n\n{self.caption}" if self.caption else picture

    def to_html(self, folder: Path) -> str:
        """Return it as HTML, with the file inside."""
        path = folder / self.file
        data = base64.b64encode(path.read_bytes()).decode()
        source = f"data:{MEDIA_TYPES[path.suffix]};base64,{data}"
        caption = f"<figcaption>{inline(self.caption)}</figcaption>" if self.caption else ""
        alternative = html.escape(self.alternative)
        return f'<figure><img src="{source}" alt="{alternative}">{caption}</figure>'


Block = Heading | Paragraph | Table | Picture


def to_markdown(blocks: Sequence[Block]) -> str:
    """Return a document as Markdown; pictures are links to files beside it."""
    return "\n\n".join(block.to_markdown() for block in blocks) + "\n"


def to_html(title: str, blocks: Sequence[Block], folder: Path) -> str:
    """Return a document as one self-contained page; pictures are read from the folder."""
    body = "\n".join(block.to_html(folder) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def inline(text: str) -> str:
    """Return text as HTML: escaped, `code` between backticks, **bold** between asterisks."""
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
