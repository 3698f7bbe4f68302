"""Documents as Markdown and as one HTML page."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from helpers import Html
from oddarms.documents import Heading, Paragraph, Picture, Table, inline, to_html, to_markdown

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BLOCKS = [
    Heading("Title", 1),
    Paragraph("Text with `code`, **weight** and a < b & c."),
    Table(("name", "value"), [("a|b", "1"), ("two\nlines", "<2>")], "Caption."),
    Picture("dot.png", 'A "dot"', "Figure 1."),
    Heading("End"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dot.png").write_bytes(PIXEL)
    return tmp_path


def test_markdown() -> None:
    assert to_markdown(BLOCKS) == (
        "# Title\n\n"
        "Text with `code`, **weight** and a &lt; b & c.\n\n"
        "**Caption.**\n\n"
        "| name | value |\n"
        "| --- | --- |\n"
        "| a\\|b | 1 |\n"
        "| two lines | &lt;2> |\n\n"
        '![A "dot"](dot.png)\n\n'
        "Figure 1.\n\n"
        "## End\n"
    )


def test_html(folder: Path) -> None:
    """Well formed, with captions, words for pictures, and nothing that is fetched or run."""
    page = to_html("A & B", BLOCKS, folder)
    assert page.startswith("<!doctype html>\n")
    elements = Html(page)
    assert elements.all("html") == [{"lang": "en"}]
    assert {"charset": "utf-8"} in elements.all("meta")
    assert "A & B" in elements.words
    assert [name for name, _ in elements.tags if name in ("h1", "h2")] == ["h1", "h2"]
    text = "Text with <code>code</code>, <strong>weight</strong> and a &lt; b &amp; c."
    for part in (f"<p>{text}</p>", "<td>a|b</td>", "<td>&lt;2&gt;</td>"):
        assert part in page
    assert "<script>" not in to_html("<script>", BLOCKS, folder)
    (picture,) = elements.all("img")
    assert picture["alt"] == 'A "dot"'
    kind, data = (picture["src"] or "").split(",")
    assert (kind, base64.b64decode(data)) == ("data:image/png;base64", PIXEL)
    assert elements.all("th") == [{"scope": "col"}] * 2
    assert len(elements.all("caption")) == 1
    assert not elements.all("link") + elements.all("script")
    assert not [part for part in ("http:", "https:", "url(", "dot.png") if part in page]
    policies = [
        attributes["content"]
        for attributes in elements.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    style = re.search("<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    allowed = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none';"
    assert policies == [f"{allowed} style-src 'sha256-{digest}'"]
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert " style=" not in page  # a hash allows none of these


def test_captions_may_be_left_out(folder: Path) -> None:
    assert to_markdown([Table(("a",), [("1",)])]) == "| a |\n| --- |\n| 1 |\n"
    assert "caption" not in to_html("", [Table(("a",), [("1",)])], folder).partition("<body>")[2]
    assert to_markdown([Picture("dot.png", "dot")]) == "![dot](dot.png)\n"
    assert (
        "figcaption" not in to_html("", [Picture("dot.png", "dot")], folder).partition("<body>")[2]
    )


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("**a** and **b**", "<strong>a</strong> and <strong>b</strong>"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ('"quoted"', '"quoted"'),
    ],
)
def test_inline(text: str, html: str) -> None:
    assert inline(text) == html
