"""Answers as Markdown: what a page shows of hostile labels, and words that fit the subject."""

from __future__ import annotations

import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import oddarms
from helpers import ROOT, Run, assert_refused
from oddarms.documents import visible
from oddarms.pytest_plugin._options import OPTIONS
from oddarms.reports import LeftOut, result_markdown
from oddarms.reports._markdown import LISTED, UNFOLDED, code
from oddarms.search import TESTS, Result, Search

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


def answer_of(labels: list[str], failing: int = 0) -> Result:
    """Return an answer in which some are abnormal and the others open."""
    search = Search(labels, k=1, margin=0.05, rng=1)
    search.import_rewards({label: [float(i < failing)] * 3 for i, label in enumerate(labels)})
    return search.result()


def shown_once(page: Page, label: str) -> bool:
    return page.cells.count(visible(label).strip(" ")) + page.cells.count(visible(label)) >= 1


def test_hostile_labels_are_text() -> None:
    page = Page(result_markdown(answer_of(HOSTILE)))
    assert page.tags <= KNOWN
    for label in HOSTILE:
        assert shown_once(page, label), label


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",))), unique=True, min_size=2))
@example(["a`|", "`a|"])
def test_any_labels_are_text(labels: list[str]) -> None:
    for label in labels:
        page = Page(f"| a | b |\n| --- | --- |\n| {code(label)} | 1 |\n")
        assert page.tags <= KNOWN
        assert page.cells[1:] == ["1"]
        assert page.cells[0].strip(" ") == visible(label).strip(" ")


def test_reasons_and_details_are_text() -> None:
    result = answer_of(["a", "b", "c"])
    reason = "<b>|`x`|</b> [l](http://x) *no*"
    text = result_markdown(
        result, subject=TESTS, left_out=[LeftOut("t", [("|", reason)])], details={"a": "<i>|`"}
    )
    page = Page(text)
    assert page.tags <= KNOWN
    assert f"|: {reason}" in page.cells
    assert "<i>|`" in page.cells


def test_many_rows_fold_and_none_is_cut() -> None:
    labels = [f"tests/{'very_' * 40}long.py::test_{i}" for i in range(LISTED + 3)]
    text = result_markdown(answer_of(labels))
    assert f"<details><summary>{LISTED - UNFOLDED} others</summary>" in text
    assert "... and 3 others" in text
    page = Page(text)
    assert sum(cell in labels for cell in page.cells) == LISTED


def test_words_fit_the_subject() -> None:
    rng = np.random.default_rng(2)
    rewards = {f"t{i}": (rng.random(300) < (0.6 if i < 1 else 0.01)) * 1.0 for i in range(8)}
    result = oddarms.find(rewards, k=1.5, margin=0.05, rng=1)
    assert result.complete
    text = result_markdown(result, subject=TESTS)
    assert text.startswith(
        "### 1 of 8 tests is abnormally flaky (right with probability at least 0.95)\n"
    )
    assert "| test | fails | interval | runs | odds |" in text
    assert "arm" not in text
    assert "sampl" not in text
    plain = result_markdown(result)
    assert plain.startswith("### 1 of 8 arms is an outlier (")
    assert "| label | mean | interval | samples | odds |" in plain


def write_history(folder: Path, runs: int, shaky: float = 0.6) -> None:
    """Write reports of six tests, one of which fails often and one always."""
    rng = np.random.default_rng(5)
    folder.mkdir()
    for run in range(runs):
        cases = [f'<testcase classname="shop" name="calm_{i}"/>' for i in range(5)]
        failure = "<failure/>" if rng.random() < shaky else ""
        cases.append(f'<testcase classname="shop" name="shaky|`">{failure}</testcase>')
        cases.append('<testcase classname="shop" name="dead"><error/></testcase>')
        cases.append('<testcase classname="shop" name="off"><skipped/></testcase>')
        text = f'<testsuite name="s" timestamp="{run}">{"".join(cases)}</testsuite>'
        (folder / f"run-{run}.xml").write_text(text)


def test_find_reads_a_history(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_history(Path("runs"), 150)
    quoted = run_command("find", "--junit", "runs/*.xml", "--k", "1", "--format", "markdown")
    assert quoted.code == 0, quoted.err
    assert "150 files, 6 tests with " in quoted.err
    assert "1 test left out of the comparison, broken, not flaky (never passed): shop::dead" in (
        quoted.err
    )
    page = Page(quoted.out)
    assert "shop::shaky|`" in page.cells
    assert "shop::dead: all 150 runs failed" in page.cells
    assert "shop::off" in page.cells
    files = sorted(map(str, Path("runs").iterdir()))
    expanded = run_command("find", "--junit", *files, "--k", "1", "-q")
    assert expanded.code == 0, expanded.err
    assert expanded.out.startswith("1 of 6 tests is abnormally flaky (right")
    assert "test           fails  interval" in expanded.out
    assert max(map(len, expanded.out.splitlines())) <= 80


def test_too_short_a_history_says_how_many_runs_are_needed(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_history(Path("runs"), 12)
    ran = run_command("find", "--junit", "runs", "--k", "1", "-q")
    assert ran.code == 3
    assert "tests are known to be abnormally flaky, 6 are undecided" in ran.out
    head = next(line for line in ran.out.splitlines() if line.startswith("test "))
    assert head.split() == ["test", "fails", "interval", "guess", "runs", "needed"]
    assert "still needed: about " in ran.out
    assert " of one test at most\n" in ran.out
    page = next(Path("output").glob("*/report.html")).read_text(encoding="utf-8")
    assert "Which of 6 tests are abnormally flaky?" in page
    assert "every run is 1 if it failed, else 0" in page
    text = re.sub(r"<(svg|style|title).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert "In the pictures, an arm is a test" in text
    assert re.findall(r"\b(?:arms?|samples?|outliers?)\b", text) == ["arm", "sample", "outlier"]
    rows = run_command("find", "--junit", "runs", "--k", "1", "-q", "--format", "csv").rows
    assert all(float(row["pulls_needed"]) > 0 for row in rows)


def test_a_history_and_a_command(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples go on from the history, which counts once; another history is refused."""
    monkeypatch.chdir(tmp_path)
    write_history(Path("runs"), 40)
    words = ["find", "--junit", "runs", "--k", "1", "--margin", "0.2", "--pull", "test {arm} != x"]
    first = run_command(*words, "--budget", "12", "-q")
    assert first.code in (0, 3), first.err
    assert " of them imported" in first.out
    again = run_command(*words, "--budget", "12")
    assert "imported before; its samples count once" in again.err
    write_history(Path("more"), 3)
    for path in Path("more").iterdir():
        path.rename(Path("runs", f"new-{path.name}"))
    changed = run_command(*words, "--budget", "12", "-q")
    assert_refused(changed, 2, "--junit must have the runs that it had", "--fresh")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a.xml"], "a.xml must be given together with --junit"),
        (["--table", "t.csv", "--reruns", "all"], "--reruns must be given together with --junit"),
        (["--junit", "a.xml", "--table", "t.csv"], "--table must be left out with --junit"),
        (["--junit", "a.xml", "--above", "1"], "--clip and --above must be left out with --junit"),
        (["--junit", "a.xml", "--missing", "worst"], "--missing worst must be left out"),
        (["--junit", "a.xml", "--arm", "x"], "--arm must be left out with --junit"),
        (["--junit", "*.xml"], "junit must match at least one file but '*.xml' matches none"),
    ],
)
def test_bad_usage_is_a_sentence(
    run_command: Run,
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(run_command("find", *words), 2, sentence)


def test_a_study_as_markdown(run_command: Run, tmp_path: Path) -> None:
    storage = f"{tmp_path}/study.db"
    study = oddarms.create_study("s", ["a|b", "c", "d"], k=1, storage=storage)
    study.import_rewards({"a|b": [1.0] * 5, "c": [0.0] * 5, "d": [0.0] * 5})
    ran = run_command("study", "result", "s", "--storage", storage, "--format", "markdown")
    assert ran.code == 0
    assert "a|b" in Page(ran.out).cells


def test_the_page_about_ci_names_options_that_exist() -> None:
    page = (ROOT / "docs" / "ci.md").read_text() + (ROOT / "docs" / "pytest.md").read_text()
    known = {option.flag for option in OPTIONS} | {"--oddarms-isolate"}
    assert set(re.findall(r"--oddarms-[a-z]+", page)) <= known


def test_the_page_about_ci_works(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands of the shell, on the history that its first block writes."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "ci.md").read_text()
    exec(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0], {})
    found = run_command("find", "--junit", "runs/*.xml")
    assert found.code == 0, found.err
    assert found.out.startswith("1 of 21 tests is abnormally flaky")
    assert "\nshop::test_payment " in found.out
    assert "broken, not flaky (never passed): shop::test_report" in found.err
    commands = re.findall(r"^oddarms (find [^\n|>]*)", page, re.MULTILINE)
    assert [shlex.split(command) for command in commands] == [
        ["find", "--junit", "runs/*.xml"],
        ["find", "--junit", "runs/*.xml", "--format", "markdown"],
    ]
