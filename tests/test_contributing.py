"""CONTRIBUTING.md: its drawing is true, and its worked examples work."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from helpers import ROOT
from oddarms.algorithms import _registry
from oddarms.testing import AlgorithmConformance
from test_documentation import run_blocks, words_of

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def names_of_the_page() -> dict[str, Any]:
    """Run the page's blocks and return what they define."""
    module = types.ModuleType("contributing")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    names: dict[str, Any] = vars(module)
    run_blocks(ROOT / "CONTRIBUTING.md", names)
    return names


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    registered = dict(_registry._registered)
    yield names_of_the_page()
    del sys.modules["contributing"]
    _registry._registered.clear()
    _registry._registered.update(registered)


def test_the_page_is_short() -> None:
    assert words_of(PAGE) <= 1500
    assert words_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")) <= 300


def floors_of_the_page() -> dict[str, int]:
    """Return the floor of each package in the drawing, counted from the top."""
    drawing = PAGE.partition("```text\n")[2].partition("```")[0]
    floors: dict[str, int] = {}
    for number, floor in enumerate(drawing.split("\n\n")):
        for line in floor.splitlines():
            names = re.match(r"[\w, ]+?(?=  |$)", line[13:])
            floors |= dict.fromkeys(names[0].split(", "), number) if names else {}
    return floors


def test_no_package_imports_one_of_a_higher_floor() -> None:
    package, drawn = ROOT / "src" / "oddarms", floors_of_the_page()
    there = set()
    for file in package.rglob("*.py"):
        name = file.relative_to(package).parts[0].removesuffix(".py")
        if name in ("__init__", "__main__"):
            continue
        there.add(name)
        text = file.read_text(encoding="utf-8")
        for other in re.findall(r"^\s*(?:from|import) oddarms\.(\w+)", text, re.MULTILINE):
            assert drawn[other] >= drawn[name], f"{file} imports {other}"
    assert there == set(drawn)


@pytest.mark.long
@pytest.mark.usefixtures("names")
class TestTheAlgorithmOfThePage(AlgorithmConformance):
    algorithm = "everybody"
    runs = 20
    simulated_budget = 3_000
    test_jobs_do_not_change_the_runs = None  # the page is no module that processes can import


def test_the_page_shows_how_to_test_an_algorithm(names: dict[str, Any]) -> None:
    shown = names["TestEverybody"]
    assert issubclass(shown, AlgorithmConformance)
    assert shown.algorithm == TestTheAlgorithmOfThePage.algorithm
    shown().test_deterministic_rewards()
    shown().test_unknown_options_are_named()
