"""Answers as Markdown: what a page shows of hostile labels, and words that fit the subject."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import oddarms
from helpers import ROOT, Run
from oddarms.documents import Literal, markdown, visible
from oddarms.search import TESTS, LeftOut, Result, Search, as_markdown

RENDER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
KNOWN = {
    "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "strong", "ul", "li", "br",
    "details", "summary",
}  # fmt: skip


class Page(HTMLParser):
    """The tags of a page, and the texts of its cells and items."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self._open: list[str] = []
        self.feed(RENDER.render(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style"}
        self.tags.add(tag)
        self._open.append(tag)
        if tag in ("td", "li"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if {"td", "li"} & set(self._open):
            self.cells[-1] += data


HOSTILE = [
    "a|b", "a\\|b", "`", "``a`", "<script>alert(1)</script>", "a\nb", "| --- |", "**bold**",
    "[x](http://evil)", "&lt;", "\\", "a\\", "` | `", "</code><img src=x>", "<!--", "@user", "$x$",
    ":bug:", "~~no~~", "</details>", "# head", " a ", "\u202eevil",
]  # fmt: skip


MANY = 300


def answer_of(labels: list[str], failing: int = 0) -> Result:
    """Return an answer in which some are abnormal and the others open."""
    search = Search(labels, k=1, margin=0.05, rng=1)
    search.add_history({label: [float(i < failing)] * 3 for i, label in enumerate(labels)})
    return search.result()


def shown_once(page: Page, label: str) -> bool:
    return page.cells.count(visible(label).strip(" ")) + page.cells.count(visible(label)) >= 1


def test_hostile_labels_reasons_and_details_are_text() -> None:
    reason = "<b>|`x`|</b> [l](http://x) *no*"
    left_out = [LeftOut("t", [("|", reason)])]
    details = {HOSTILE[0]: "<i>|`"}
    page = Page(as_markdown(answer_of(HOSTILE), left_out=left_out, details=details))
    assert page.tags <= KNOWN
    assert {reason, "<i>|`"} <= set(page.cells)
    for label in HOSTILE:
        assert shown_once(page, label), label


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",))), unique=True, min_size=2))
@example(["a`|", "`a|"])
def test_any_labels_are_text(labels: list[str]) -> None:
    for label in labels:
        page = Page(f"| a | b |\n| --- | --- |\n| {markdown(Literal(label))} | 1 |\n")
        assert page.tags <= KNOWN
        assert page.cells[1:] == ["1"]
        assert page.cells[0].strip(" ") == visible(label).strip(" ")


def test_many_rows_fold_and_none_is_cut() -> None:
    labels = [f"tests/{'very_' * 40}long.py::test_{i}" for i in range(MANY)]
    text = as_markdown(answer_of(labels))
    assert re.search(r"<details><summary>\d+ others</summary>", text)
    page = Page(text)
    assert sum(cell in labels for cell in page.cells) == MANY


def test_words_fit_the_subject() -> None:
    rng = np.random.default_rng(2)
    rewards = {f"t{i}": (rng.random(300) < (0.6 if i < 1 else 0.01)) * 1.0 for i in range(8)}
    result = oddarms.analyze(rewards, k=1.5)
    result = replace(result, notes=())
    assert result.complete
    text = as_markdown(result, subject=TESTS)
    assert text.startswith(
        "### 1 of 8 tests is abnormally flaky (right with probability at least 0.95)\n"
    )
    assert "| test | fails | interval | runs |" in text
    assert "arm" not in text
    assert "sampl" not in text
    plain = as_markdown(result)
    assert plain.startswith("### 1 of 8 arms is an outlier (")
    assert "| label | mean | interval | samples |" in plain


def test_a_study_as_markdown(run_command: Run, tmp_path: Path) -> None:
    storage = f"{tmp_path}/study.db"
    study = oddarms.create_study("s", ["a|b", "c", "d"], k=1, storage=storage)
    study.add_history({"a|b": [1.0] * 5, "c": [0.0] * 5, "d": [0.0] * 5})
    ran = run_command("study", "result", "s", "--storage", storage, "--format", "markdown")
    assert ran.code == 0
    assert "a|b" in Page(ran.out).cells


def test_the_page_about_ci_works(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands, on the reports that its first block writes."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text()
    exec(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0], {})
    commands = re.findall(r"^oddarms (analyze [^\n|>]*)", page, re.MULTILINE)
    assert commands
    for command in commands:
        found = run_command(*shlex.split(command))
        assert found.code in (0, 3), found.err
