"""The package: what is in it, what is said where an extra is missing, and the files about it."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import ROOT
from tools import package, smoke

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
OPTIONAL = {
    "cli": ["click"],
    "simulate": ["numba"],
    "plot": ["matplotlib"],
    "frame": ["narwhals", "pandas"],
    "study": ["sqlalchemy"],
    "postgresql": ["psycopg"],
    "parquet": ["pyarrow"],
    "parallel": ["loky"],
    "ray": ["ray"],
    "pytest": ["pytest"],
    "server": ["fastapi", "starlette", "uvicorn", "jinja2"],
    "remote": ["httpx"],
    "excel": ["openpyxl"],
}
"""The modules of each extra."""
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return package.built(tmp_path_factory.mktemp("dist"))


class TestArchives:
    def test_the_wheel_has_the_package_and_nothing_else(self, archives: dict[str, Path]) -> None:
        (wheel,) = (path for name, path in archives.items() if name.endswith(".whl"))
        assert wheel.name == f"oddarms-{oddarms.__version__}-py3-none-any.whl"
        assert "oddarms/py.typed" in package.check_wheel(wheel)

    def test_the_sdist_has_the_tests(self, archives: dict[str, Path]) -> None:
        (sdist,) = (path for name, path in archives.items() if name.endswith(".tar.gz"))
        package.check_sdist(sdist)

    @pytest.mark.long
    def test_a_second_build_is_the_same(self, archives: dict[str, Path], tmp_path: Path) -> None:
        package.compare(archives, package.built(tmp_path))

    @pytest.mark.long
    def test_the_wheel_in_an_empty_environment(self, archives: dict[str, Path]) -> None:
        (wheel,) = (path for name, path in archives.items() if name.endswith(".whl"))
        package.try_in_empty_environment(wheel)


class TestExtras:
    def test_each_is_tried(self) -> None:
        assert smoke.NEEDS.keys() == OPTIONAL.keys() == EXTRAS.keys() - {"all"}

    def test_each_is_missing_in_one_sentence(self, tmp_path: Path) -> None:
        """In a process that can import none of their modules, as in an empty environment."""
        modules = [module for names in OPTIONAL.values() for module in names]
        script = (
            f"import sys, importlib.machinery as m\n"
            f"gone = {modules!r}\n"
            "class Gone(m.PathFinder):\n"
            "    @classmethod\n"
            "    def find_spec(cls, name, path=None, target=None):\n"
            "        if name.partition('.')[0] in gone: return None\n"
            "        return m.PathFinder.find_spec(name, path, target)\n"
            "sys.meta_path[:] = [f for f in sys.meta_path if f is not m.PathFinder] + [Gone]\n"
            f"sys.path.insert(0, {str(ROOT)!r})\n"
            "from tools import smoke\n"
            "smoke.main([])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == len(smoke.named()) >= 12

    def test_every_requirement_has_a_lowest_version(self) -> None:
        wanted = [*PROJECT["project"]["dependencies"], *(r for rs in EXTRAS.values() for r in rs)]
        assert [r for r in wanted if ">=" not in r and not r.startswith("oddarms[")] == []


class TestFiles:
    def test_the_version_has_one_home(self) -> None:
        citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        assert f"\nversion: {oddarms.__version__}\n" in citation
        assert PROJECT["project"]["dynamic"] == ["version"]
        assert oddarms.__version__ == importlib.metadata.version("oddarms")

    @pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
    def test_actions_are_pinned_by_hash(self, workflow: Path) -> None:
        used = re.findall(r"uses: (\S+)(.*)", workflow.read_text(encoding="utf-8"))
        assert used
        for action, comment in used:
            assert action.startswith("./") or re.search(r"@[0-9a-f]{40}$", action), action
            assert action.startswith("./") or re.search(r"# v\d+\.\d+\.\d+$", comment), comment

    def test_workflows_run_what_make_has_on_every_python(self) -> None:
        text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
        targets = set(re.findall(r"run: make (\S+)", text))
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert targets == {"test", "test-lowest", "package"}
        assert all(f"\n{target}: " in makefile for target in targets)
        classifiers = " ".join(PROJECT["project"]["classifiers"])
        pythons = re.findall(r"Python :: (3\.\d+)", classifiers)
        assert f"python: [{', '.join(map('{!r}'.format, pythons))}]".replace("'", '"') in text

    def test_hooks_are_pinned_by_hash_and_ruff_is_the_lowest_of_the_checks(self) -> None:
        text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
        pinned = re.findall(r"rev: ([0-9a-f]{40})  # frozen: v", text)
        assert len(pinned) == text.count("repo: https://") == 4
        (hook,) = re.findall(r"ruff-pre-commit\n.*# frozen: v(\S+)", text)
        assert f"ruff>={hook}" in PROJECT["dependency-groups"]["lint"]


def test_randomness_is_called_rng_everywhere() -> None:
    """SPEC 7: no function takes a seed or a random state under another name."""
    others = {"seed", "random_state", "random_seed", "generator"}
    made_by_us = {
        "Cell",
        "Outcome",
        "Settings",
        "StoredStudy",
        "Study",
        "checked_question",
    }  # the seed itself
    wrong = [
        f"{module}.{name}({parameter})"
        for module, name, function in _public_functions()
        for parameter in inspect.signature(function).parameters
        if parameter in others and name not in made_by_us
    ]
    assert wrong == []


def _public_functions() -> Iterator[tuple[str, str, Any]]:
    for found in pkgutil.walk_packages(oddarms.__path__, "oddarms."):
        if not found.ispkg or found.name.startswith(("oddarms.studies.migrations", "oddarms.cli")):
            continue
        module = importlib.import_module(found.name)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                yield found.name, name, value
