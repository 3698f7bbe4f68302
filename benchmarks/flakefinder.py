"""``python -m benchmarks.flakefinder SUITE...``: planted flaky tests that two tools list.

Plants flaky tests of six kinds in copies of test suites, runs ``--flake-finder --flake-runs 50``,
then ``--oddarms`` for as much CPU time (its clock is the process's CPU time, so that what else the
machine does matters to neither), and counts which planted and which sound tests each tool lists.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

RATES = (1, 5, 20)
"""Percent of runs in which planted tests fail."""
PLANTED = '''
import asyncio, hashlib, random, threading, time
import pytest

ran, leaked = [0], {{}}

@pytest.fixture(autouse=True)
def count_runs():
    ran[0] += 1

def share(*parts):
    """A share in [0, 1) that the parts decide."""
    digest = hashlib.sha256(repr((SEED, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32

SEED = {seed}
EACH = pytest.mark.parametrize("which", range({copies}))
RATE = pytest.mark.parametrize("percent", {rates})

@RATE
@EACH
def test_random(percent, which):
    assert random.random() >= percent / 100

@RATE
@EACH
def test_clock(percent, which):
    assert share(time.perf_counter_ns() // 1000, which) >= percent / 100

@RATE
@EACH
def test_order(percent, which):
    assert share("order", ran[0], which) >= percent / 100  # how many planted tests ran before it

@RATE
@EACH
def test_leak(percent, which):
    period, key = 100 // percent, (percent, which)
    leaked[key] = leaked.get(key, int(share("leak", *key) * period)) + 1
    assert leaked[key] % period  # every so many runs it finds something full

@RATE
@EACH
def test_thread(percent, which):
    written = []
    late = random.random() < percent / 100
    threads = [threading.Thread(target=written.append, args=(i,)) for i in range(2)]
    for thread in reversed(threads) if late else threads:
        thread.start()
        thread.join()
    assert written == [0, 1]

@RATE
@EACH
def test_async(percent, which):
    done = []
    async def take(name, turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        done.append(name)
    async def both():
        late = random.random() < percent / 100
        await asyncio.gather(take("read", 3), take("write", 5 if late else 1))
    asyncio.run(both())
    assert done == ["write", "read"]
'''
CLOCK = """
import os
from oddarms.pytest_plugin import _running

def cpu():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system

_running.Clock.now = staticmethod(cpu)
"""


class Suite:
    """A copy of a suite with planted tests."""

    def __init__(self, source: Path, folder: Path, flakefinder: Path, tests: str) -> None:
        self.name = source.name
        self.folder = folder / source.name
        self.tests = tests
        shutil.copytree(source, self.folder)
        (folder / "cpu_clock.py").write_text(CLOCK)
        path = [self.folder / "src", self.folder, folder, flakefinder]
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.environment = kept | {
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),  # as installed packages have it
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

    def plant(self, seed: int, copies: int) -> None:
        """Plant so many tests of each kind and rate."""
        place = self.folder / self.tests / "test_zz_planted.py"
        place.write_text(PLANTED.format(seed=seed, copies=copies, rates=list(RATES)))

    def run(self, *words: str) -> float:
        """Run pytest; return the CPU seconds that it took with all its processes."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        subprocess.run(
            [*command, self.tests],
            cwd=self.folder,
            env=self.environment,
            check=False,
            stdout=(self.folder / "output.txt").open("w"),
            stderr=subprocess.STDOUT,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def flakefinder(self, runs: int) -> tuple[float, set[str]]:
        """Return the CPU seconds of flakefinder, and the tests that it lists as failed."""
        words = ["-p", "pytest_flakefinder", "--flake-finder", f"--flake-runs={runs}"]
        seconds = self.run(*words, "--tb=no", "-rfE")
        lines = (self.folder / "output.txt").read_text().splitlines()
        names = (line.split(" ")[1] for line in lines if line.startswith(("FAILED ", "ERROR ")))
        return seconds, {_without_number(name) for name in names}

    def oddarms(self, *words: str) -> tuple[float, dict[str, object]]:
        """Return the CPU seconds of oddarms, and its answer."""
        plugins = ["-p", "oddarms.pytest_plugin", "-p", "cpu_clock"]
        seconds = self.run(*plugins, "--oddarms", "--oddarms-out=answer", *words)
        answer: dict[str, object] = json.loads((self.folder / "answer/flaky.json").read_text())
        return seconds, answer


def _without_number(name: str) -> str:
    """Return the name of a test without the number that flakefinder puts before its parameters."""
    test, _, parameters = name.partition("[")
    others = parameters.rstrip("]").partition("-")[2]
    return f"{test}[{others}]" if others else test


def compared(suite: Suite, runs: int, seed: int, copies: int) -> list[str]:
    """Return a row for each tool: planted tests listed at each rate, sound tests, CPU time."""
    suite.plant(seed, copies)
    theirs, failed = suite.flakefinder(runs)
    begin, _ = suite.oddarms("--oddarms-budget=1")
    ours, answer = suite.oddarms(f"--oddarms-time={theirs - begin:.1f}s", f"--oddarms-seed={seed}")
    tests = answer["tests"]
    assert isinstance(tests, list)
    listed = {test["test"] for test in tests if test["kind"] in ("flaky", "broken")}
    rows = [
        _row("flakefinder", failed, theirs, runs * len(tests)),
        _row("oddarms", listed, ours, int(str(answer["runs"]))),
    ]
    return [f"{suite.name} {len(tests)} tests, seed {seed}: {row}" for row in rows]


def _row(tool: str, listed: set[str], seconds: float, runs: int) -> str:
    counts = Counter[str]()
    for name in listed:
        parameters = name.partition("[")[2].rstrip("]").split("-")
        counts[parameters[1] if "zz_planted" in name else "sound"] += 1
    return f"{tool} {dict(counts)} {seconds:.1f} s {runs} runs"


def main() -> None:
    """Compare, and print a line for each suite, seed and tool."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", metavar="FOLDER:TESTS")
    parser.add_argument("--flakefinder", type=Path, default=Path(), help="folder with its module")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for text in options.suites:
            source, _, tests = text.partition(":")
            suite = Suite(Path(source), Path(folder), options.flakefinder.resolve(), tests)
            for seed in options.seeds:
                for line in compared(suite, options.runs, seed, options.copies):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
