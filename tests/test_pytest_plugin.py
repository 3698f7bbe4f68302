"""``pytest --oddarms``: what it runs, what it says, and what other plugins cannot do to it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import deque
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import hypothesis  # noqa: F401 - pytester forgets what a run imports, and these are slow
import matplotlib.pyplot  # noqa: F401
import pytest
import scipy.special  # noqa: F401
import sqlalchemy.dialects.sqlite  # noqa: F401

from helpers import ROOT, quick_and_long
from oddarms.errors import StorageFailed
from oddarms.pytest_plugin import Settings, read_settings
from oddarms.pytest_plugin._flakiness import Kind
from oddarms.pytest_plugin._memory import COMMITS, Memory, version_of
from oddarms.pytest_plugin._running import Outcome, Status
from oddarms.pytest_plugin._sampling import AbnormalTests, FlakyTests
from oddarms.pytest_plugin._xdist import Scheduler

INSTALLED = bool(importlib.metadata.entry_points(group="pytest11", name="oddarms"))
PLUGIN = [] if INSTALLED else ["-p", "oddarms.pytest_plugin"]
OTHERS = sorted(
    {entry.name for entry in importlib.metadata.entry_points(group="pytest11")} - {"oddarms"}
)
ALONE = [
    *PLUGIN,
    "-p",
    "no:cacheprovider",
    *(word for name in OTHERS for word in ("-p", f"no:{name}")),
]
"""Without other plugins; that of Hypothesis imports it at the end of every run, for a second."""
QUICK = [
    "--oddarms",
    "--oddarms-seed=1",
    "--oddarms-rate=0.3",
    "--oddarms-delta=0.2",
    "--oddarms-precision=0.6",
]
ABNORMAL = ["--oddarms-k=1"]
CALM = "".join(f"def test_calm_{i}(): pass\n" for i in range(4))
FLAKY = "import random\ndef test_flaky(): assert random.random() < 0.3\n"


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_SHA"):
        monkeypatch.delenv(name, raising=False)


def hunt(pytester: pytest.Pytester, *words: str, ctrl_c: bool = False) -> pytest.RunResult:
    """Run a quick search in this process."""
    return pytester.runpytest_inprocess(*ALONE, *QUICK, *words, no_reraise_ctrlc=ctrl_c)


def said(result: pytest.RunResult) -> str:
    return result.stdout.str()


# What is found


def test_flaky_broken_and_skipped_tests_are_told_apart(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=CALM
        + FLAKY
        + "import pytest\n"
        + "def test_broken(): assert 1 == 2\n"
        + "@pytest.mark.skip(reason='not here')\ndef test_skipped(): pass\n"
        + "@pytest.mark.xfail\ndef test_expected(): assert 0\n"
        + "@pytest.mark.xfail(strict=True)\ndef test_strict(): pass\n"
    )
    result = hunt(pytester, "-ra")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "oddarms: looking for flaky tests for up to 10 minutes",
            "1 of 8 tests is flaky: passed and failed on the same code",
            "with probability at least 80 %, every test that fails in 30 % of its runs or*",
            "Flaky:",
            "*fails *interval  failures/runs  test",
            "* %  * to * %  *  test_it.py::test_flaky",
            "    last failure: test_it.py:6: assert * < 0.3",
            "Broken, always failed:",
            "100.0 %  * to 100.0 %  *18/18  test_it.py::test_broken",
            "    last failure: test_*assert 1 == 2",
            "100.0 %  * to 100.0 %  *18/18  test_it.py::test_strict",
            "... and 1 test left out as skipped",
            "* runs in * s",
            "*1 flaky, 2 broken, 5 clean, 1 left out as skipped in *",
        ]
    )
    assert "FAILURES" not in said(result)
    said_by_us = said(result).split("flaky?")[1].split("\n")
    assert max(map(len, said_by_us)) <= 80


def test_one_test_is_a_suite(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=CALM + FLAKY)
    result = hunt(pytester, "test_it.py::test_flaky", "--oddarms-storage=runs.db")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["1 of 1 test is flaky*", "* % *::test_flaky"])


def test_loading_the_plugin_is_cheap_and_claims_no_marker() -> None:
    code = "import sys, oddarms.pytest_plugin; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    source = Path(sys.modules["oddarms.pytest_plugin"].__file__ or "").parent
    assert not [p for p in source.glob("*.py") if "addinivalue_line" in p.read_text()]


def test_selection_works_as_always(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + "import pytest\n@pytest.mark.parametrize('x', 'abc')\n"
        + "def test_letter(x): assert x != 'c'\n"
    )
    result = hunt(pytester, "-k", "letter")
    result.stdout.fnmatch_lines(["no flaky test was found among 3", "* test_*::test_letter[[]c]"])


def test_failures_of_every_kind_are_placed_where_people_wrote_them(
    pytester: pytest.Pytester,
) -> None:
    """Of setup and teardown, unittest and its subtests, and fixtures that are not there."""
    pytester.makepyfile(
        test_it="""
import random
import unittest
import pytest

@pytest.fixture
def before():
    assert random.random() < 0.3

@pytest.fixture
def after():
    yield
    assert random.random() < 0.3

def test_setup(before): pass
def test_teardown(after): pass
def test_of_nothing(nonexistent): pass

class TestOld(unittest.TestCase):
    def setUp(self):
        self.value = random.random()

    def test_old(self):
        self.assertLess(self.value, 0.3)

    def test_parts(self):
        with self.subTest(part=1):
            self.assertLess(random.random(), 0.3)

    def test_calm(self):
        pass
"""
    )
    result = hunt(pytester, "--oddarms-out=answer")
    assert "4 of 6 tests are flaky" in said(result)
    assert "SUBFAIL" not in said(result)
    for place in ("setup: test_it.py:7:", "teardown: test_it.py:12:", "test_it.py:23: Assertion"):
        assert f"    last failure: {place}" in said(result)
    result.stdout.fnmatch_lines(["*fixture 'nonexistent' not found*"])
    cases = ElementTree.parse("answer/junit.xml").getroot().iter("testcase")
    names = {(case.get("classname"), case.get("name")) for case in cases}
    assert ("test_it.TestOld", "test_parts") in names


def test_fixtures_are_new_for_every_sample_but_those_of_the_session(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
import pytest
counts = {}

def counting(name):
    counts[name] = counts.get(name, 0) + 1
    return counts[name]

@pytest.fixture(scope="session")
def of_session():
    if counting("session") == 1:
        raise OSError("not yet")
    yield
    raise RuntimeError("the shop is burning")  # which does not cost the answer

@pytest.fixture(scope="module")
def of_module(of_session):
    counting("module")

@pytest.fixture
def of_function():
    counting("function")

class TestKlass:
    def test_one(self, of_module, of_function):
        assert not hasattr(self, "used")
        self.used = True
        assert counts["module"] == counts["function"]

def test_two(of_module, of_function): pass
def test_three(): assert counts.get("session", 0) <= 2
"""
    )
    result = hunt(pytester)
    result.stdout.re_match_lines([r"1 of 3 tests is flaky.*", r".* 1/\d\d.*", r".*::test_one"])
    result.stdout.fnmatch_lines(["a fixture of the session failed*RuntimeError: the shop*"])


def test_the_same_seed_makes_the_same_run_and_samples_differ(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
import random
import numpy

def note(text):
    with open("drawn.txt", "a") as file:
        print(text, file=file)

def test_random(): note(random.getrandbits(60))
def test_numpy(): note(numpy.random.random())
"""
    )
    drawn = []
    for _ in range(2):
        hunt(pytester, "--oddarms-budget=150")
        drawn.append(Path("drawn.txt").read_text())
        Path("drawn.txt").unlink()
    assert drawn[0] == drawn[1]
    lines = drawn[0].split()
    assert len(lines) == len(set(lines)) > 10


def test_hypothesis_draws_anew_though_it_is_told_not_to(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
from hypothesis import given, settings, strategies as st

seen = []

class TestDraws:
    @settings(derandomize=True, max_examples=2)
    @given(st.binary(min_size=8, max_size=8))
    def test_draws(self, value):
        seen.append(value)

def test_many():
    assert len(seen) < 20 or len(set(seen)) > 5
"""
    )
    result = hunt(pytester)
    assert result.ret == 0, said(result)


def test_order_rerun_and_seed_plugins_change_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=CALM + FLAKY)
    pytester.makeconftest(
        """
import random
import pytest
from _pytest.runner import runtestprotocol

def pytest_addoption(parser):
    parser.addoption("--keep", dest="randomly_reset_seed", action="store_false", default=True)

def pytest_runtest_setup(item):
    if item.config.getoption("randomly_reset_seed"):
        random.seed(1)

pytest_runtest_call = pytest_runtest_setup

def pytest_collection_modifyitems(items):
    items.reverse()

def pytest_runtest_protocol(item, nextitem):
    for _ in range(3):
        if all(report.passed for report in runtestprotocol(item, nextitem=nextitem)):
            break
    return True
"""
    )
    result = said(hunt(pytester))
    assert "1 of 5 tests is flaky" in result
    assert [word for word in result.split() if "::" in word] == ["test_it.py::test_flaky"]


# What repetition does to tests


def test_a_test_that_cannot_be_repeated_is_not_blamed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=CALM + "used = []\ndef test_once():\n    assert not used\n    used.append(1)\n"
    )
    result = hunt(pytester)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "no flaky test was found among 5",
            "Cannot be repeated in one process, and passed alone:",
            "* test_it.py::test_once",
            "    last failure: test_it.py:7: assert not *",
            "    note: failed in all 4 runs that were not the first in their process, and",
            "*4 clean, 1 not repeatable in *",
        ]
    )
    ended = said(hunt(pytester, "--oddarms-budget=60", "--oddarms-rate=0.01"))
    assert "Undecided, 4 tests:" in ended  # the other one is in the list above


def test_a_victim_of_order_is_not_called_broken(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="state = []\ndef test_polluter(): state.append(1)\n"
        "def test_victim(): assert not state\n" + CALM
    )
    result = hunt(pytester)
    assert result.ret == 1
    assert "always failed" not in said(result)
    result.stdout.fnmatch_lines(
        [
            "*::test_victim*",
            "    note:*passed alone (5 of 5 runs) and failed after other tests: it*",
        ]
    )


def test_drift_is_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM + "runs = []\ndef test_leaks():\n    runs.append(1)\n    assert len(runs) <= 9\n"
    )
    result = hunt(pytester, "--oddarms-precision=0.3", "--oddarms-rate=0.2")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["    note:*fails only after about 9 runs: something may leak; try"]
    )


def test_what_tests_do_to_their_process(pytester: pytest.Pytester) -> None:
    """Leave it, fork, or hang: pytest shows where."""
    pytester.makepyfile(
        test_it=CALM + "import os, random, multiprocessing, time\n"
        "def test_leave():\n    if random.random() < 0.5: os._exit(0)\n"
        "def test_pool():\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        assert pool.map(abs, [-1]) == [1]\n"
        "slept = []\n"
        "def test_slow():\n    if not slept: slept.append(time.sleep(2))\n"
    )
    words = [*ALONE, *QUICK, "-ofaulthandler_timeout=0.5"]
    result = pytester.runpytest_subprocess(*words, timeout=60)
    assert result.ret == 1
    result.stdout.re_match_lines(
        [
            "1 of 7 tests is flaky.*",
            r"    last failure: test_it.py:7: ProcessExit: os._exit\(0\) was called",
        ]
    )
    result.stderr.re_match_lines([r"Timeout .*", r".*test_it.py., line 13 in test_slow"])


def test_tests_that_replace_clocks_do_not_confuse_ours(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, name, getattr(time, name))  # to be restored
    pytester.makepyfile(
        CALM + "import time\ndef test_clock():\n"
        "    time.monotonic = time.perf_counter = time.time = lambda: -5063.5\n"
    )
    result = hunt(pytester)
    result.stdout.re_match_lines([r"\d+ runs in \d+\.\d s$", ".*5 clean in .*"])


def test_an_isolated_test_that_hangs_is_ended(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddarms.pytest_plugin._hunt.GRACE_SECONDS", 0.2)
    pytester.makepyfile(
        test_it="import time\ndef test_hangs(): time.sleep(600)\ndef test_quick(): pass\n"
    )
    result = hunt(pytester, "--oddarms-isolate", "--oddarms-time=1")
    result.stdout.re_match_lines([r"100.0 % .* 1/1  test_it.py::test_hangs"])


def test_a_crash_of_the_interpreter_under_isolation(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
import os, random, signal

def test_crash():
    if random.random() > 0.3:
        os.kill(os.getpid(), signal.SIGSEGV)

def test_leave():
    if random.random() > 0.3:
        os._exit(3)

used = []
def test_once():
    assert not used
    used.append(1)
"""
    )
    words = ["--oddarms-isolate", "--oddarms-jobs=2", "--oddarms-budget=40"]
    result = hunt(pytester, *words)
    assert "Fatal Python error" not in said(result) + result.stderr.str()
    assert "assert not" not in said(result)  # every run has its own process
    result.stdout.fnmatch_lines(["    last failure: the process was ended by SIGSEGV"])
    result.stdout.fnmatch_lines(
        ["    last failure: the process ended with exit code 3 and without a result"]
    )


# How it ends


@pytest.mark.parametrize(
    ("how", "isolate"),
    quick_and_long(
        [("raise KeyboardInterrupt", []), ("pytest.exit('no more')", [])],
        [("raise KeyboardInterrupt", ["--oddarms-isolate"])],
    ),
)
def test_an_interrupt_shows_what_is_known(
    pytester: pytest.Pytester, how: str, isolate: list[str]
) -> None:
    pytester.makepyfile(
        CALM
        + f"""
import os
import pytest

def test_interrupted():
    with open("count", "a") as file:
        file.write("x")
    if os.path.getsize("count") > 5:
        {how}
"""
    )
    words = ["--oddarms-storage=runs.db", "--oddarms-summary=answer.md", *isolate]
    result = hunt(pytester, *words, ctrl_c=True)
    assert result.ret == 2
    result.stdout.fnmatch_lines(
        [
            "no flaky test was found among 5",
            "* runs in * s; ended: it was interrupted",
            "*5 undecided*",
        ]
    )
    assert "no flaky test was found among 5" in Path("answer.md").read_text()


@pytest.mark.parametrize(
    "isolate", quick_and_long([["--oddarms-isolate", "--oddarms-jobs=2"]], [([],)])
)
def test_ctrl_c_twice_still_has_the_report(pytester: pytest.Pytester, isolate: list[str]) -> None:
    pytester.makepyfile(
        CALM + "import time\n"
        "def test_slow():\n    open('begun', 'w').close()\n    time.sleep(0.2)\n"
    )
    command = [sys.executable, "-m", "pytest", *ALONE, *QUICK, "--oddarms-rate=0.001", *isolate]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not Path("begun").exists() and time.monotonic() < until:
            time.sleep(0.05)
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        output, _ = process.communicate(timeout=60)
    # a signal that comes after the report ends pytest as it always does
    assert process.returncode in (2, -signal.SIGINT)
    assert "ended: it was interrupted" in output
    assert "INTERNALERROR" not in output


def test_time_is_limited(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + FLAKY)
    result = hunt(pytester, "--oddarms-time=0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "too few runs to say more: 5 tests did not run",
            "Undecided, 5 tests:",
            "* 0/0  test_*::test_calm_0",
            "0 runs in * ended: 0 seconds are over",
            "*5 undecided in*",
        ]
    )


@pytest.mark.parametrize(
    ("policy", "code"), [("broken", 1), ("flaky,abnormal", 0), ("none", 0), ("undecided", 1)]
)
def test_exit_codes_follow_the_policy(pytester: pytest.Pytester, policy: str, code: int) -> None:
    pytester.makepyfile("def test_a(): assert 0\ndef test_b(): assert 0\n")
    budget = "5" if policy == "undecided" else "100"
    result = hunt(pytester, f"--oddarms-fail-on={policy}", f"--oddarms-budget={budget}")
    assert result.ret == code
    result.stdout.fnmatch_lines(["*2 undecided in*" if budget == "5" else "*2 broken in*"])


def test_other_exit_codes_are_those_of_pytest(pytester: pytest.Pytester) -> None:
    assert hunt(pytester).ret == 5
    pytester.makepyfile(CALM)
    result = hunt(pytester, "--collect-only")
    assert result.ret == 0
    assert "4 tests collected" in said(result)
    pytester.makepyfile(test_wrong="def make():\n    return 1 / 0\nmake()\n")
    broken = hunt(pytester)
    assert broken.ret == 2
    broken.stdout.fnmatch_lines(["*return 1 / 0*", "ERROR test_wrong.py*"])


# Memory


def test_runs_of_a_version_accumulate(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + FLAKY)
    words = ["--oddarms-storage=runs.db", "--oddarms-version=one"]
    first = hunt(pytester, *words, "--oddarms-budget=20")
    first.stdout.fnmatch_lines(["stored in *runs.db as pytest @one #*"])
    second = hunt(pytester, *words)
    assert second.ret == 1
    assert ", with 20 runs of other sessions" in said(second).replace("\n  ", " ")
    third = hunt(pytester, *words)
    assert third.ret == 1
    third.stdout.fnmatch_lines(["1 of 5 tests is flaky*", "0 runs in *", "*1 flaky, 4 clean in*"])


@pytest.mark.parametrize("git", [True, False])
def test_a_new_file_and_its_changes_are_other_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git: bool
) -> None:
    for name in COMMITS:
        monkeypatch.delenv(name, raising=False)
    if git:
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            names = ["-c", "user.name=one", "-c", "user.email=one@localhost"]
            subprocess.run(["git", "-C", str(tmp_path), *names, *words], check=True)
    versions = [version_of(tmp_path)]
    for text in ("def test_a(): pass\n", "def test_a(): assert 0\n"):
        (tmp_path / "test_new.py").write_text(text)
        (tmp_path / "runs.db").write_text(text)  # what is no code does not count
        versions.append(version_of(tmp_path))
    assert len(set(versions)) == 3
    (tmp_path / "runs.db").write_text("")
    assert version_of(tmp_path) == versions[-1]


def test_answers_expire_with_the_version(pytester: pytest.Pytester) -> None:
    """A test that was fixed is not blamed any more, one that got worse is found, and both said."""
    pytester.makepyfile(test_it=CALM + FLAKY + "def test_other(): pass\n")
    assert hunt(pytester, "--oddarms-storage=runs.db", "--oddarms-version=one").ret == 1
    pytester.makepyfile(
        test_it=CALM + "import random\ndef test_flaky(): pass\n"
        # another size: in the same second, bytecode of a file of the same size would be taken
        "def test_other(): assert random.random() < 0.40\n"
    )
    result = hunt(pytester, "--oddarms-storage=runs.db", "--oddarms-version=two")
    result.stdout.fnmatch_lines(
        [
            "1 of 6 tests is flaky*",
            "* %*::test_other*",
            "    note:*new since one (*), where it passed * times",
            "No longer flaky:",
            "* test_it.py::test_flaky",
            "    note: fixed since one (*)? It failed in * of * runs",
        ]
    )


def test_a_new_test_keeps_what_is_known_of_others(pytester: pytest.Pytester) -> None:
    words = ["--oddarms-storage=runs.db", "--oddarms-version=one"]
    pytester.makepyfile(test_it=CALM)
    hunt(pytester, *words)
    pytester.makepyfile(test_it=CALM.replace("calm_0", "renamed") + "def test_new(): pass\n")
    pytester.makeconftest(
        "def pytest_runtest_setup(item):\n"
        "    with open('ran', 'a') as file: print(item.name, file=file)\n"
    )
    result = hunt(pytester, *words)
    assert result.ret == 0
    ran = Path("ran").read_text().split()
    assert {ran.count("test_new"), ran.count("test_renamed")} == {10}
    assert ran.count("test_calm_1") <= 2
    assert "5 clean" in said(result)


def test_the_version_is_the_commit_and_what_changed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=CALM)
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", *words], check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    result = hunt(pytester, "--oddarms-storage=runs.db")
    result.stdout.fnmatch_lines([f"stored in *runs.db as pytest @{commit} #*"])
    pytester.makepyfile(test_it=CALM + "# changed\n")
    result = hunt(pytester, "--oddarms-storage=runs.db")
    assert f"@{commit}+" in said(result)


def test_a_session_uses_what_another_one_finds_meanwhile(tmp_path: Path) -> None:
    settings = Settings(storage=str(tmp_path / "runs.db"), version="one", seed=1)
    one, other = (FlakyTests(["a", "b", "c"], settings) for _ in range(2))
    runs = 0
    for _ in range(40):
        for sampling in (one, other):
            sample = sampling.next()
            assert sample is not None
            failed = sample.index == 1 and runs % 3 == 0
            sampling.tell(sample, Outcome(Status.FAILED if failed else Status.PASSED))
            runs += 1
    one.finish("enough")
    other.finish("enough")
    assert one.known.kind(1) is other.known.kind(1) is Kind.FLAKY
    assert sum(case.counted.runs for case in other.known.cases) == runs
    third = FlakyTests(["c", "b", "a"], settings)
    assert sum(case.counted.runs for case in third.known.cases) == runs
    assert third.known.kind(1) is Kind.FLAKY


def test_a_storage_that_fails_does_not_cost_the_report(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StorageFailed("The disk is full.")

    monkeypatch.setattr(Memory, "_push", full)
    pytester.makepyfile(CALM + FLAKY)
    result = hunt(pytester, "--oddarms-storage=runs.db")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["1 of 5 tests is flaky*", "not all runs could be stored: The disk is full."]
    )


# Files


def test_a_file_that_cannot_be_written_does_not_stop_others(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
def test_clean_up():
    import pathlib, shutil
    shutil.rmtree("out", ignore_errors=True)
    pathlib.Path("out").touch()
"""
    )
    result = hunt(pytester, "--oddarms-out=out", "--oddarms-summary=summary.md")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*out/junit.xml was not written: *", "written: *summary.md"])


@pytest.mark.parametrize("name", quick_and_long(["quarantine.txt"], ["quarantine.json"]))
def test_a_test_stays_in_quarantine_until_it_is_found_clean(
    pytester: pytest.Pytester, name: str
) -> None:
    file = pytester.makepyfile(test_shop=CALM + FLAKY)
    option = f"--oddarms-quarantine={name}"
    hunt(pytester, option)
    before = Path(name).read_text()
    if name.endswith("txt"):
        plain = pytester.runpytest_inprocess(*ALONE, f"@{name}")
        plain.assert_outcomes(passed=4, deselected=1)
    hunt(pytester, option, "--deselect=test_shop.py::test_flaky")  # not looked at
    assert Path(name).read_text() == before
    file.write_text(CALM + "def test_flaky():\n    pass\n")
    hunt(pytester, option, "--oddarms-budget=20")  # looked at, but not enough
    assert Path(name).read_text() == before
    hunt(pytester, option)
    assert "test_flaky" not in Path(name).read_text()


def test_the_answer_in_all_files(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and messages are only text in each of them."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path.parent))
    pytester.makepyfile(
        test_it=CALM
        + "import pytest, random\n"
        + "@pytest.mark.parametrize('x', ['a|`<b>'])\n"
        + "def test_flaky(x): assert random.random() < 0.3, '| <i>'\n"
        + "def test_broken(): assert 0, '**no** 50%\\n::error::no'\n"
        + "def test_zero(): assert 0, '\\x00<&'\n"
        + "def test_skipped(): pytest.skip('later')\n"
    )
    Path("summary.md").write_text("# Before")
    words = ["--oddarms-out=answer", "--oddarms-summary=summary.md", "--oddarms-quarantine=q.json"]
    result = hunt(pytester, *words)
    assert result.ret == 1
    folder = pytester.path.name
    result.stdout.fnmatch_lines(
        [
            "written: *summary.md",
            f"::warning file={folder}/test_it.py,title=Flaky test::test_it.py::test_flaky*",
            f"::error file={folder}/test_it.py,title=Broken test::*AssertionError: *no* 50%25*",
        ]
    )
    assert "\n::error::no" not in said(result)
    text = Path("summary.md").read_text()
    assert text.startswith("# Before\n### 1 of 7 tests is flaky: passed and failed on")
    assert not [tag for tag in ("<b>", "<i>", "\x00") if tag in text]
    assert "| `test_it.py::test_broken` | 100.0 % | 80.5 to 100.0 % | 17/17 | `test_it.py:" in text
    assert "| `test_it.py::test_skipped` | `later` |" in text
    (flaky,) = json.loads(Path("q.json").read_text())["flaky"]
    document = json.loads(Path("answer/flaky.json").read_text())
    assert [test["test"] for test in document["tests"] if test["kind"] == "flaky"] == [flaky]
    page = Path("answer/report.html").read_text()
    assert "Broken, always failed" in page
    assert not [tag for tag in ("<b>", "<i>", "\x00") if tag in page]
    suite = ElementTree.parse("answer/junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("8", "3", "1")
    cases = {str(case.get("name")).partition("[")[0]: case for case in suite}
    properties = {p.get("name"): p.get("value") for p in cases["test_flaky"].iter("property")}
    assert properties["oddarms.kind"] == "flaky"
    assert 0.4 < float(properties["oddarms.rate"] or 0) < 1.0
    assert float(properties["oddarms.lower"] or 1) < float(properties["oddarms.rate"] or 0)
    assert cases["test_broken"].find("failure") is not None
    assert cases["test_skipped"].find("skipped") is not None
    assert cases["test_calm_0"].find("failure") is None


def test_warnings_are_recorded_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + "import warnings\ndef test_warns(): warnings.warn('one')\n")
    result = hunt(pytester, "-W", "always")
    result.stdout.fnmatch_lines(["*5 clean*"])
    assert "test_warns" in said(result)
    assert "17 warnings" not in said(result)


@pytest.mark.parametrize("changed", quick_and_long([True], [False]))
def test_the_action_for_github(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    """Its hunt, as a job would run it: in all tests, or in files that have changed."""
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = {step["name"]: step for step in action["runs"]["steps"]}
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    pytester.makepyfile(test_old=CALM)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "before"]):
        subprocess.run([*git, *words], check=True)
    pytester.makepyfile(test_new=FLAKY)
    for words in (["add", "."], ["commit", "-qm", "two"]):
        subprocess.run([*git, *words], check=True)
    given = {"TIME": "60", "RATE": "0.3", "TESTS": shlex.join(ALONE), "FAIL_ON": "flaky"}
    given |= {"SINCE": "before" if changed else ""}
    assert given.keys() == steps["hunt"]["env"].keys()
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.setenv(name, str(pytester.path / name))
    subprocess.run(["bash", "-e", "-c", steps["hunt"]["run"]], check=True, capture_output=True)
    assert Path("GITHUB_OUTPUT").read_text() == "code=1\n"
    assert f"### 1 of {1 if changed else 5} test" in Path("GITHUB_STEP_SUMMARY").read_text()


# Options


def test_the_ini_file_has_all_options(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\noddarms_rate = 0.1\noddarms_delta = 0.2\noddarms_precision = 0.5\n"
        "oddarms_seed = 1\noddarms_time = 1.5m\noddarms_budget = 10000\noddarms_out = there\n"
        "oddarms_storage = there.db\noddarms_version = v1\n"
        "oddarms_fail_on = flaky, undecided\noddarms_quarantine = q.txt\n"
        "oddarms_isolate = true\noddarms_jobs = 2\noddarms_summary = summary.md\n"
    )
    here = pytester.path
    assert read_settings(pytester.parseconfig(*ALONE, "--oddarms-rate=0.02")) == Settings(
        rate=0.02,
        delta=0.2,
        precision=0.5,
        seconds=90.0,
        budget=10_000,
        fail_on=("flaky", "undecided"),
        out=here / "there",
        summary=here / "summary.md",
        quarantine=here / "q.txt",
        storage="there.db",
        version="v1",
        isolate=True,
        jobs=2,
        seed=1,
    )
    endless = pytester.parseconfig(*ALONE, "--oddarms", "--oddarms-time=none")
    assert read_settings(endless).seconds is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--oddarms-k=two"], "--oddarms-k must be a number of at least 0 but got 'two'."),
        (["--oddarms-rate=1"], "--oddarms-rate must be a number between 0 and 1 but got '1'."),
        (
            ["--oddarms-budget=0"],
            "--oddarms-budget must be a whole number of at least 1 but got '0'.",
        ),
        (["--oddarms-fail-on=odd"], "--oddarms-fail-on must be one or more of flaky, abnormal,"),
        (["--oddarms-jobs=2"], "--oddarms-jobs requires --oddarms-isolate"),
        (["--oddarms-time=soon"], "--oddarms-time must be a duration such as 90 (seconds), 30s"),
        (["--oddarms-summary=."], "--oddarms-summary must be a writable file; "),
        (["--oddarms-out=test_it.py"], "--oddarms-out must be a writable folder; "),
    ],
)
def test_what_is_wrong_is_said(pytester: pytest.Pytester, words: list[str], sentence: str) -> None:
    pytester.makepyfile(test_it=CALM)
    result = pytester.runpytest_inprocess(*ALONE, "--oddarms", *words)
    assert result.ret == 4
    assert sentence in result.stderr.str()


@pytest.mark.parametrize("words", [["--oddarms-k=3"], ["--oddarms-isolate"]])
def test_options_of_the_search_need_the_search(pytester: pytest.Pytester, words: list[str]) -> None:
    pytester.makepyfile(CALM)
    result = pytester.runpytest_inprocess(*ALONE, *words)
    assert result.ret == 4
    option = words[0].partition("=")[0]
    assert f"{option} requires --oddarms." in result.stderr.str()
    assert option[2:].replace("-", "_") in result.stderr.str()  # the remedy: the ini file
    pytester.makeini("[pytest]\noddarms_k = 3\noddarms_isolate = true\n")
    plain = pytester.runpytest_inprocess(*ALONE)
    plain.assert_outcomes(passed=4)
    assert "oddarms:" not in said(plain)


# Which are abnormally flaky


def test_abnormally_flaky_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=CALM + FLAKY + "import pytest\ndef test_broken(): assert 1 == 2\n"
        "@pytest.mark.skip(reason='not here')\ndef test_skipped(): pass\n"
    )
    result = hunt(pytester, *ABNORMAL, "--oddarms-out=answer", "--oddarms-summary=summary.md")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "1 of 5 tests is abnormally flaky (right with probability at least 0.8)",
            "abnormal: the larger of mean + 1 sd and mean + 0.05",
            "* %  * to * %  *  test_it.py::test_flaky",
            "    note: abnormal",
            "Broken, always failed:",
            "* runs in * s",
            "*1 abnormal, 1 broken, 1 left out as skipped, 4 normal in *",
        ]
    )
    names = {path.name for path in Path("answer").iterdir()}
    assert names == {"report.html", "junit.xml", "flaky.json"}
    document = json.loads(Path("answer/flaky.json").read_text())
    assert document["question"] == {"rate": 0.3, "delta": 0.2, "k": 1.0}
    assert [test["test"][-10:] for test in document["tests"] if test["abnormal"]] == ["test_flaky"]
    assert "### 1 of 5 tests is abnormally flaky" in Path("summary.md").read_text()


def test_runs_of_a_search_are_stored(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + FLAKY)
    words = [*ABNORMAL, "--oddarms-storage=runs.db", "--oddarms-version=one"]
    first = hunt(pytester, *words, "--oddarms-budget=30")
    first.stdout.fnmatch_lines(["*undecided*"])
    second = hunt(pytester, *words)
    assert second.ret == 1
    second.stdout.fnmatch_lines(["1 of 5 tests is abnormally flaky*", "stored in *with 30 runs*"])
    plain = hunt(pytester, *words[1:])
    plain.stdout.fnmatch_lines(["1 of 5 tests is flaky*", "0 runs in *"])


def test_few_tests_cannot_stand_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): pass\n" + FLAKY)
    result = pytester.runpytest_inprocess(*ALONE, "--oddarms", "--oddarms-seed=1", "--oddarms-k=2")
    assert (
        "none of 2 tests can be 2 sd from the mean, whatever the runs: choose a smaller k"
        in said(result)
    )
    alone = hunt(pytester, *ABNORMAL, "-k", "test_a")
    alone.stdout.fnmatch_lines(["nothing was compared: at least two tests are needed*"])


# Workers of pytest-xdist


class Node:
    """A worker that runs what it is sent as pytest-xdist's do: once it knows what follows."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.queue: deque[int] = deque()
        self.ran: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.queue.extend(indices)


class StubHunt:
    """Begins a sampling, and shows nothing."""

    sampling: FlakyTests

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def begin(self, nodeids: list[str], workers: int) -> FlakyTests:
        kind = FlakyTests if self.settings.k is None else AbnormalTests
        self.sampling = kind(nodeids, self.settings, workers)
        return self.sampling

    def ran(self) -> None:
        pass


FLAKY_TESTS = Settings(seed=3, rate=0.1, precision=0.5)
ABNORMAL_TESTS = Settings(seed=3, k=1.0, delta=0.2)
BOTH = pytest.mark.parametrize("settings", [FLAKY_TESTS, ABNORMAL_TESTS], ids=["flaky", "k"])


def scheduler(tests: int, nodes: list[Node], settings: Settings) -> tuple[Scheduler, StubHunt]:
    stub = StubHunt(settings)
    schedule = Scheduler(stub, len(nodes))  # type: ignore[arg-type]
    for node in nodes:
        schedule.add_node(node)
    for node in nodes:
        assert not schedule.collection_is_completed
        schedule.add_node_collection(node, [f"test_{i}" for i in range(tests)])
    schedule.schedule()
    return schedule, stub


def run_one(schedule: Scheduler, node: Node) -> bool:
    if len(node.queue) < 2:
        return False
    index = node.queue.popleft()
    node.ran.append(index)
    failed = index == 0 and len(node.ran) % 3 > 0
    schedule.outcomes[node] = Outcome(Status.FAILED if failed else Status.PASSED)
    schedule.mark_test_complete(node, index)
    return True


@BOTH
def test_workers_with_a_sample_have_two_tests(settings: Settings) -> None:
    nodes = [Node("gw0"), Node("gw1"), Node("gw2")]
    schedule, stub = scheduler(5, nodes, settings)
    while not schedule.tests_finished:
        for node in () if stub.sampling.done else nodes:
            queue = schedule._queues[node]
            assert len(queue) >= 2 or all(sample.between for sample in queue)
        moved = [run_one(schedule, node) for node in nodes]
        assert any(moved)
    stub.sampling.finish("")
    assert stub.sampling.known.kind(0) is Kind.FLAKY
    assert not stub.sampling.stopped
    for node in nodes:
        same = sum(one == other for one, other in pairwise(node.ran))
        assert same <= (0.05 if settings.k else 0.3) * len(node.ran)


@BOTH
def test_next_to_a_slow_test_nearly_all_runs_count(settings: Settings) -> None:
    """A worker that is fifty times as slow as the other: it has the slow tests."""
    slow, fast = Node("gw0"), Node("gw1")
    schedule, stub = scheduler(20, [slow, fast], settings)
    while not schedule.tests_finished:
        run_one(schedule, slow)
        for _ in range(50):
            run_one(schedule, fast)
    stub.sampling.finish("")
    assert not stub.sampling.stopped
    if isinstance(stub.sampling, AbnormalTests):
        found = stub.sampling.result
        assert found is not None
        first = 20  # at least
        between = stub.sampling.runs - first - found.pulls - found.unused
        assert between < 0.1 * stub.sampling.runs


@BOTH
def test_a_worker_that_crashes_has_failed_its_test(settings: Settings) -> None:
    nodes = [Node("gw0"), Node("gw1")]
    schedule, stub = scheduler(5, nodes, settings)
    for _ in range(20):
        for node in nodes:
            run_one(schedule, node)
    crashed = nodes[0].queue[0]
    before = stub.sampling.known.cases[crashed].counted.failures
    assert schedule.remove_node(nodes[0]) is None
    assert stub.sampling.known.cases[crashed].counted.failures == before + 1
    fresh = Node("gw2")
    schedule.add_node(fresh)
    schedule.add_node_collection(fresh, [f"test_{i}" for i in range(5)])
    schedule.schedule()
    while not schedule.tests_finished:
        moved = [run_one(schedule, node) for node in (nodes[1], fresh)]
        assert any(moved)
    stub.sampling.finish("")
    assert not stub.sampling.stopped


def test_workers_must_collect_the_same() -> None:
    schedule = Scheduler(StubHunt(FLAKY_TESTS), 2)  # type: ignore[arg-type]
    one, other = Node("gw0"), Node("gw1")
    schedule.add_node_collection(one, ["a", "b"])
    with pytest.raises(pytest.UsageError, match="the same tests in the same order"):
        schedule.add_node_collection(other, ["b", "a"])


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
@BOTH
def test_what_is_under_way_when_the_time_is_over_counts(
    tmp_path: Path, settings: Settings, stored: bool
) -> None:
    """Else slow failures would count less often than quick passes."""
    storage = str(tmp_path / "runs.db") if stored else None
    chosen = Settings(k=settings.k, storage=storage, seed=1, version="one")
    kind = FlakyTests if settings.k is None else AbnormalTests
    sampling = kind([f"test_{i}" for i in range(5)], chosen, 4)
    first = [sampling.next() for _ in range(5)]
    for sample in first:
        assert sample is not None
        sampling.tell(sample, Outcome(Status.PASSED))
    under_way = [sampling.next() for _ in range(4)]
    sampling.stop("600 seconds are over")
    assert sampling.next() is None
    for sample in under_way:
        assert sample is not None
        sampling.tell(sample, Outcome(Status.FAILED, "timeout", 30.0))
    sampling.finish("")
    assert sum(case.counted.failures for case in sampling.known.cases) == 4
    assert sampling.memory is None or not sampling.memory.problem
    if storage is not None:
        with sqlite3.connect(storage) as database:
            (failures,) = database.execute("SELECT sum(reward) FROM results").fetchone()
        assert failures == 4


@pytest.mark.long
@pytest.mark.parametrize("isolate", [[], ["--oddarms-isolate"]])
def test_with_xdist(pytester: pytest.Pytester, isolate: list[str]) -> None:
    pytester.makepyfile(
        CALM
        + """
import os
import signal
import pytest

def test_flaky():  # by counting, as seeds of workers cannot be given
    with open("count", "a") as file:
        file.write("x")
    assert os.path.getsize("count") % 3 == 1

def test_broken(): assert 0

used = []
def test_once():
    assert not used
    used.append(1)

def test_crash():
    with open("crashes", "a") as file:
        file.write("x")
    if os.path.getsize("crashes") in (3, 6):
        os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.skip
def test_skipped(): pass
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "-n2", *QUICK, *isolate)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["2 of 8 tests are flaky*", "*2 flaky, 1 broken, 5 clean, 1 left out as skipped*"]
    )
    ended = "process was ended by SIGKILL" if isolate else "worker crashed while it ran this test"
    assert f"    last failure: the {ended}" in said(result)


@pytest.mark.long
def test_a_real_suite_with_planted_flaky_tests(pytester: pytest.Pytester) -> None:
    """All that are planted, no sound test, in a hundredth of the time of one process per run."""
    toolz_tests = pytest.importorskip("toolz.tests")
    folder = Path(toolz_tests.__file__).parent
    for name in ("test_itertoolz.py", "test_dicttoolz.py", "test_recipes.py"):
        pytester.path.joinpath(name).write_text((folder / name).read_text())
    pytester.makepyfile(
        test_planted="import random\n"
        "def test_often(): assert random.random() < 0.6\n"
        "def test_sometimes(): assert random.random() < 0.9\n"
    )
    begun = time.perf_counter()
    alone = pytester.runpytest_subprocess("-p", "no:xdist", "test_recipes.py::test_partitionby")
    one = time.perf_counter() - begun
    assert alone.ret == 0
    begun = time.perf_counter()
    words = ["--oddarms", "--oddarms-seed=2", "--oddarms-out=answer"]
    result = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:xdist", *words)
    all_runs = time.perf_counter() - begun
    assert result.ret == 1
    answer = json.loads(Path("answer/flaky.json").read_text())
    kinds = {test["test"]: test["kind"] for test in answer["tests"]}
    assert [test for test, kind in kinds.items() if kind != "clean"] == [
        "test_planted.py::test_often",
        "test_planted.py::test_sometimes",
    ]
    assert all_runs < answer["runs"] * one / 100
