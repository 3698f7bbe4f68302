"""CONTRIBUTING.md: its drawing is that of the contract, and its worked examples work."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from helpers import ROOT
from oddarms.algorithms import _registry
from oddarms.testing import AlgorithmConformance
from test_documentation import run_blocks, words_of
from tools import house

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


class TestHouse:
    def test_the_page_has_it_as_it_is(self) -> None:
        assert house.page_with_house(PAGE) == PAGE, "`make house` draws it again"

    def test_every_package_has_a_floor(self) -> None:
        package = ROOT / "src" / "oddarms"
        there = {
            path.stem
            for path in package.iterdir()
            if (path.suffix == ".py" or (path / "__init__.py").exists())
            and path.stem not in ("__init__", "__pycache__")
        }
        drawn = {name.removeprefix("oddarms.") for floor in house.floors() for name in floor}
        assert there == drawn - {"benchmarks"}

    def test_every_module_says_what_it_is(self) -> None:
        names = [name for floor in house.floors() for name in floor]
        assert [name for name in names if not house.sentence_of(name)] == []

    def test_it_fits_80_columns(self) -> None:
        assert {len(line) for line in house.drawn().splitlines()} == {80}


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
