"""The documentation site: it builds without a warning, has everything, and needs no other host."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import oddarms
from benchmarks.page import PAGES, filled
from helpers import ROOT

DOCS = ROOT / "docs"
INTERNAL = {
    "analysis",
    "cli",
    "documents",
    "files",
    "finding",
    "interrupts",
    "json_text",
    "problem",
    "pytest_plugin",
    "randomness",
    "text",
}
"""Modules that nobody imports from outside; what they offer is reached in another way."""


def build(folder: Path, *options: str, **environment: str) -> None:
    """Build the site as `make docs` does; a warning fails it."""
    pytest.importorskip("sphinx", reason="the group docs is not installed")
    options = ("--quiet", "--fail-on-warning", "--keep-going", *options, "-d", f"{folder}/doctrees")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(folder / "site")],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert built.returncode == 0, built.stderr


def test_all_pages_can_be_built(tmp_path: Path) -> None:
    """With every link, but without the reference of most modules; no tutorial runs."""
    build(tmp_path, "-b", "dummy", "-D", "public_modules=oddarms", ODDARMS_DOCS_EXECUTE="off")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the whole site, built once; tutorials run from top to bottom."""
    folder = tmp_path_factory.mktemp("docs")
    build(folder, ODDARMS_DOCS_EXECUTE="force")
    return folder / "site"


class Links(HTMLParser):
    """The ids of a page, and what it points to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("script", "img", "iframe") and "src" in values:
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loads.append(values["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


@pytest.mark.long
def test_links_within_the_site_lead_somewhere(site: Path, pages: dict[Path, Links]) -> None:
    dead = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in page.links
        if not leads_somewhere(path, link, pages)
    ]
    assert dead == []


def leads_somewhere(path: Path, link: str, pages: dict[Path, Links]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return parts.scheme in ("http", "https", "mailto")
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target not in pages:
        return target.is_file()
    return not parts.fragment or unquote(parts.fragment) in pages[target].ids


@pytest.mark.long
def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Links]) -> None:
    away = [
        f"{path.relative_to(site)}: {source}"
        for path, page in pages.items()
        for source in page.loads
        if urlsplit(source).netloc
    ]
    assert away == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", styles)


@pytest.mark.long
def test_the_search_knows_what_people_look_for(site: Path) -> None:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    assert {"docnames", "terms", "titleterms", "objects"} <= set(index)
    for word in ("flaki", "outlier", "threshold", "latenc", "crowd"):
        assert any(term.startswith(word) for term in index["terms"]), word


def test_every_public_module_is_in_the_reference() -> None:
    """The directive `public` lists all public names of a module."""
    pages = "".join(page.read_text("utf-8") for page in DOCS.glob("reference/*.md"))
    documented = set(re.findall(r"(?:public::|automodule::|parts of) ([\w.]+)", pages))
    modules = {module.name for module in pkgutil.iter_modules(oddarms.__path__)} - INTERNAL
    public = {f"oddarms.{name}" for name in modules if not name.startswith("_")}
    assert {"oddarms", *public} <= documented


ROW = re.compile(
    r'class="row-\w+"><td><p><a [^>]*title="([\w.]+)".*?</td>\s*<td>(.*?)</td>', re.DOTALL
)


@pytest.mark.long
def test_tables_say_of_every_name_what_it_is(site: Path) -> None:
    """Of a constant too: not what its type is, such as "Convert a string or number to a float"."""
    said = {
        name: re.sub(r"<[^>]+>", "", cell).strip()
        for path in (site / "reference").glob("*.html")
        for name, cell in ROW.findall(path.read_text(encoding="utf-8"))
    }
    assert len(said) > 300
    assert [name for name, text in said.items() if not text] == []
    assert said["oddarms.search.PREFETCH"].startswith("The share of the results so far")
    assert said["oddarms.search.RETRY_FOR"].startswith("How long a pull that fails")


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_those_of_the_benchmark(name: str) -> None:
    """`python -m benchmarks.page docs` would change nothing."""
    report = json.loads((DOCS / "benchmark.json").read_text(encoding="utf-8"))
    page = (DOCS / name).read_text(encoding="utf-8")
    assert "<!-- benchmark.json: " in page
    assert filled(page, report) == page


def test_sentences_agree_with_the_benchmark() -> None:
    report = json.loads((DOCS / "benchmark.json").read_text(encoding="utf-8"))
    pages = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("explanation/*.md")}

    def all_in(part: str, key: str) -> set[Any]:
        return {row[key] for row in report[part]}

    calibrated, budget = report["calibrated"], report["budget"]
    sizes = all_in("calibrated", "n")
    assert (
        f"{len(all_in('calibrated', 'family'))} families of {min(sizes)} to {max(sizes)} arms,"
        f" {calibrated[0]['runs']} runs each; in most of them no answer was wrong"
    ) in pages["calibrated.md"]
    assert sum(row["wrong"] == 0 for row in calibrated) > len(calibrated) / 2
    assert max(row["pulls"] / row["limit"] for row in calibrated) < 10.5  # "about ten times"
    assert all(row["wrong"] <= row["delta"] * row["runs"] for row in calibrated)  # questions.md
    runs = {row["way"]: row["runs"] for row in budget}
    assert (
        f"{len(all_in('budget', 'family'))} families, {runs['equal']} instances each"
        f" ({runs['SPADE']} for SPADE)"
    ) in pages["benchmark.md"]
    assert (len(all_in("delta", "family")), all_in("delta", "runs")) == (7, {20})
    assert "over seven families, 20 instances each" in pages["benchmark.md"]
    assert {row["algorithms"]["SPADE"]["runs"] for row in report["samples"]} == {100}
    assert {row["runs"] for part in ("equal", "calibrated_beside") for row in report[part]} == {100}
    assert "SPADE takes fewer samples [in every experiment we ran]" in pages["compare.md"]
    for row in [*report["samples"], *report["held_out"], *report["fresh"]]:
        pulls = {name: one["mean_pulls"] for name, one in row["algorithms"].items()}
        assert min(pulls, key=lambda name: pulls[name]) == "SPADE"
    for row in report["paper"]:
        assert {one["runs"] for one in row["algorithms"].values()} == {40}


def test_sentences_agree_with_recorded_tables() -> None:
    report = json.loads((DOCS / "benchmark.json").read_text(encoding="utf-8"))["recorded"]
    page = (DOCS / "explanation" / "one-look.md").read_text(encoding="utf-8")
    ratios = {row[0]: float(row[-1]) for row in report["analyze_tables"]["rows"]}
    crowd = ("HyunCatherines, workers by error", "the same, 20 rows or more")
    assert max(ratios.pop(name) for name in crowd) < 1.0 / 3.0
    assert "fewer than a third of the z-test's decisions" in page
    assert f"Elsewhere it makes at least {min(ratios.values()):.2f} of them" in page
    rows = report["flakefinder"]["rows"]
    assert rows[6][0] == "all three"
    counts = [[int(cell.split()[0]) for cell in row[2:5]] for row in rows[:8]]
    for tool in (0, 1):  # flakefinder, then oddarms
        *suites, total = counts[tool::2]
        assert [sum(rate) for rate in zip(*suites, strict=True)] == total


def test_the_readme_is_short_and_shows_what_to_type() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert any("pytest --oddarms" in line for line in lines[:25])
    for command in ("make run", "make test"):
        assert any(line.startswith(command) for line in lines)


def test_the_readme_shows_what_the_tutorial_prints() -> None:
    """Lines may be folded differently."""
    shown = (ROOT / "README.md").read_text(encoding="utf-8").split("```")[1]
    printed = " ".join((DOCS / "tutorials" / "flaky.md").read_text(encoding="utf-8").split())
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert [line for line in lines if line != "..." and line not in printed] == []


@pytest.mark.long
def test_pages_made_from_the_program_have_every_command_and_request(site: Path) -> None:
    commands = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for title in ("oddarms find", "oddarms study ask", "oddarms serve token"):
        assert f">{title}<" in commands
    assert "--on-error" in commands
    requests = (site / "reference" / "http.html").read_text(encoding="utf-8")
    assert "/api/v1/studies/{name}/ask" in requests


def generated() -> ModuleType:
    """Return the extension that makes reference pages from the program."""
    spec = importlib.util.spec_from_file_location("generated", DOCS / "_extensions/generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["command-line.md", "http.md"])
def test_tables_of_the_reference_are_those_of_the_program(name: str) -> None:
    """`python docs/_extensions/generated.py` would change nothing."""
    pytest.importorskip("sphinx", reason="the group docs is not installed")
    assert generated().filled(name) == (DOCS / "reference" / name).read_text(encoding="utf-8")


def test_every_variable_is_explained() -> None:
    page = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert {f"`{name}`" for name in re.findall(r"\bODDARMS_[A-Z_]+\b", source)} <= set(
        re.findall(r"`\w+`", page)
    )


def test_links_of_the_readme_lead_to_files() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert urlsplit(link).scheme or (ROOT / link).exists(), f"{name}: {link}"


@pytest.mark.parametrize("page", sorted(DOCS.glob("tutorials/*.md")), ids=lambda page: page.stem)
def test_tutorials_show_what_they_print_on_github_too(page: Path) -> None:
    """`python -m tools.tutorials` writes it."""
    text = page.read_text(encoding="utf-8")
    assert text.count("```{printed}") > 2 or "{code-cell}" not in text


def test_every_extra_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (DOCS / "how-to" / "install.md").read_text(encoding="utf-8")
    table = page[page.index("| extra |") :]
    assert [name for name in project["optional-dependencies"] if f"`{name}`" not in table] == []


@pytest.mark.long
def test_tutorials_run_from_top_to_bottom(site: Path) -> None:
    assert "<math" in (site / "tutorials" / "research.html").read_text(encoding="utf-8")
    page = (site / "tutorials" / "flaky.html").read_text(encoding="utf-8")
    assert "test_stock_is_updated" in page
    assert "tests are flaky" in page
    assert len(list(site.rglob("_images/*.png"))) > 12
