"""What the packages offer, and what importing them costs."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import subprocess
import sys

import pytest

import oddarms

PACKAGES = [
    "oddarms",
    *(m.name for m in pkgutil.walk_packages(oddarms.__path__, "oddarms.") if m.ispkg),
]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_every_public_name(name: str) -> None:
    package = importlib.import_module(name)
    for key in getattr(package, "__all__", []):  # some are imported when they are first used
        getattr(package, key)
    own = {
        key
        for key, value in vars(package).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == name
    }
    listed = getattr(package, "__all__", [])
    assert own <= set(listed)


def test_the_top_has_about_twenty_names() -> None:
    assert {
        "OddarmsError", "Progress", "Question", "Result", "Search", "SearchError",
        "SearchInterrupted", "Simulation", "Status", "Study", "Ticket",
        "afind", "analyze", "create_study", "delete_study", "find", "list_studies", "load_study",
        "read_junit", "simulate",
        "algorithms", "arms", "errors", "plotting", "theory",
    } == set(oddarms.__all__)  # fmt: skip


@pytest.mark.parametrize("module", ["oddarms", "oddarms.testing"])
def test_importing_stays_light(module: str) -> None:
    heavy = ("numba", "matplotlib", "pandas", "scipy.optimize", "scipy.stats", "pytest")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
