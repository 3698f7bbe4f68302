"""Kernels are compiled once for each state of the sources, and are never stale."""

from __future__ import annotations

import ast
import inspect
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest

import oddarms
from oddarms import simulate
from oddarms.arms import Bernoulli

pytest.importorskip("numba")

from oddarms.simulation import _kernel_cache
from oddarms.simulation._ade_kernel import run_ade
from oddarms.simulation._round_robin_kernel import run_round_robin
from oddarms.simulation._spade_kernel import run_spade

PACKAGE = Path(oddarms.__file__).parent
KERNELS = (run_ade, run_round_robin, run_spade)
RUN = """
import time
import oddarms
from oddarms.simulation._round_robin_kernel import run_round_robin

start = time.perf_counter()
found = oddarms.simulate([0.1, 0.2, 0.9], k=0.5, delta=0.1, algorithm="rr", rng=0)
seconds = time.perf_counter() - start
stats = run_round_robin.stats
print(found.pulls[0], sum(stats.cache_misses.values()), seconds, stats.cache_path, sep="\\n")
"""


class Ran(NamedTuple):
    pulls: int
    compiled: int
    seconds: float
    folder: str


def run(cache: Path, package: Path) -> Ran:
    """Simulate in a process of its own, in which every warning is an error."""
    environment = {**os.environ, "ODDARMS_CACHE": str(cache), "PYTHONPATH": str(package.parent)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    pulls, compiled, seconds, folder = done.stdout.splitlines()
    return Ran(int(pulls), int(compiled), float(seconds), folder)


@pytest.mark.long
def test_the_second_process_compiles_nothing_until_a_formula_changes(tmp_path: Path) -> None:
    cache, package = tmp_path / "cache", tmp_path / "copy" / "oddarms"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    first, second = run(cache, package), run(cache, package)
    assert (first.compiled, second.compiled) == (1, 0)
    assert (first.pulls, first.folder) == (second.pulls, second.folder)
    assert Path(first.folder).is_relative_to(cache / "kernels")
    assert second.seconds < 0.5 * first.seconds

    formulas = package / "statistics" / "round_robin.py"  # not the file of a kernel
    before, after = formulas.read_text(encoding="utf-8").split("def beta_arm(")
    wider = after.replace("    return ", "    return 2.0 * ", 1)
    formulas.write_text(f"{before}def beta_arm({wider}", encoding="utf-8")
    changed = run(cache, package)
    assert changed.compiled == 1
    assert Path(changed.folder).parent != Path(first.folder).parent
    assert changed.pulls > 1.5 * first.pulls


def test_a_folder_that_cannot_be_written_to_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ODDARMS_CACHE", str(tmp_path / "file"))
    _kernel_cache.kernel_folder.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, "oddarms"):
            double = _kernel_cache.kernel(lambda x: 2 * x)
        assert double.stats.cache_path is None
        assert double(4) == 8
    finally:
        _kernel_cache.kernel_folder.cache_clear()
    assert "kernels are compiled anew" in caplog.text


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("ODDARMS_CACHE", "")
    assert _kernel_cache.cache_folder() == Path("/home/ann/.cache/oddarms")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    assert _kernel_cache.cache_folder() == Path("/var/caches/oddarms")
    monkeypatch.setenv("ODDARMS_CACHE", "/here")
    assert _kernel_cache.cache_folder() == Path("/here")


def test_a_kernel_has_one_signature() -> None:
    """Two could be mixed up by processes that store them at a time."""
    fixed = np.array([0.05, 0.1, 0.9, 0.05])
    fixed.setflags(write=False)
    question: dict[str, Any] = {"k": 0.5, "delta": 0.1, "rng": 1, "budget": 100, "compiled": True}
    options: list[tuple[str, dict[str, Any]]] = [
        *(("ade", {"shared": True}), ("rr", {"batch": 2}), ("wrr", {"rho": 2})),
        ("spade", {"indifference": 1}),
    ]
    for algorithm, option in options:
        simulate(fixed, algorithm=algorithm, **question, **option)
        simulate(fixed[::-1], algorithm=algorithm, side="lower", **{**question, "k": 1})
        simulate(Bernoulli(fixed.tolist()), algorithm=algorithm, **{**question, "budget": None})
        for family in ("beta", "uniform"):
            simulate(fixed, algorithm=algorithm, family=family, **question)
    assert [len(kernel.signatures) for kernel in KERNELS] == [1, 1, 1]


def test_the_state_of_the_sources_has_all_that_a_kernel_uses() -> None:
    counted = {path for pattern in _kernel_cache.SOURCES for path in PACKAGE.glob(pattern)}
    used: set[FunctionType] = set()
    for kernel in KERNELS:
        _collect(kernel.py_func, used)
    assert {"run_ade", "draw", "beta_arm", "arm_radius", "log_bet"} <= {
        one.__name__ for one in used
    }
    files = {Path(inspect.getfile(function)) for function in used}
    imported = {path for file in files for path in _imports_of(file)}
    assert files | imported <= counted


def _collect(function: FunctionType, used: set[FunctionType]) -> None:
    """Add a function of this package, and all those that it calls."""
    if function in used:
        return
    used.add(function)
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        called = getattr(called, "py_func", called)
        if isinstance(called, FunctionType) and called.__module__.startswith("oddarms."):
            _collect(called, used)


def _imports_of(file: Path) -> set[Path]:
    """Return the files of this package in which a module's imported names are defined."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("oddarms"):
            continue
        module = sys.modules[node.module or ""]
        for name in node.names:
            home = getattr(getattr(module, name.name), "__module__", "")
            found.add(sys.modules[home if home.startswith("oddarms.") else module.__name__])
    return {Path(inspect.getfile(module)) for module in found}
