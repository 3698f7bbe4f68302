"""``pytest --oddarms``: what it runs, what it says, and what other plugins cannot do to it."""

from __future__ import annotations

import importlib.metadata
import json
import random
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import deque
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis  # noqa: F401 - pytester forgets what a run imports, and these are slow
import matplotlib.pyplot  # noqa: F401
import pytest
import scipy.special  # noqa: F401
import sqlalchemy.dialects.sqlite  # noqa: F401

from oddarms.pytest_plugin import Settings, read_settings
from oddarms.pytest_plugin._report import _how
from oddarms.pytest_plugin._running import Outcome, Verdict
from oddarms.pytest_plugin._sampling import (
    FirstRuns,
    Place,
    Record,
    Sample,
    Sampling,
    runs_to_be_broken,
)
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
    "--oddarms-k=1",
    "--oddarms-margin=0.3",
    "--oddarms-delta=0.2",
]
CALM = "".join(f"def test_calm_{i}(): pass\n" for i in range(4))
FLAKY = "import random\ndef test_flaky(): assert random.random() < 0.3\n"


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CI", raising=False)


def hunt(pytester: pytest.Pytester, *words: str, ctrl_c: bool = False) -> pytest.RunResult:
    """Run a quick search in this process."""
    return pytester.runpytest_inprocess(*ALONE, *QUICK, *words, no_reraise_ctrlc=ctrl_c)


def said(result: pytest.RunResult) -> str:
    return result.stdout.str()


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
    result = hunt(pytester)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "1 of 6 tests is abnormally flaky (right with probability at least 0.8)",
            "abnormal: the larger of mean + 1 sd and mean + 0.3, *",
            "  fails         interval     runs  test",
            " * %   * to * %  *  test_it.py::test_flaky",
            "    last: test_it.py:6: assert * < 0.3",
            "broken, not flaky; left out of the comparison:",
            "  test_*.py::test_broken",
            "    all 10 runs failed",
            "    test_*assert 1 == 2",
            "  test_*.py::test_strict",
            "left out as skipped: 1 test",
            "*1 abnormal, 2 broken, 5 normal, 1 left out as skipped in *",
        ]
    )
    assert "FAILURES" not in said(result)
    said_by_us = said(result).split("flaky?")[1].split("\n")
    assert max(map(len, said_by_us)) <= 80


def test_nothing_stands_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM)
    result = hunt(pytester)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["nothing stands out among 4 tests (*", "*4 normal in *"])


def test_without_the_option_nothing_changes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM)
    result = pytester.runpytest_inprocess(*ALONE)
    result.assert_outcomes(passed=4)
    assert "oddarms:" not in said(result)


def test_loading_the_plugin_is_cheap_and_claims_no_marker() -> None:
    code = "import sys, oddarms.pytest_plugin; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    source = Path(sys.modules["oddarms.pytest_plugin"].__file__ or "").parent
    assert not [p for p in source.glob("*.py") if "addinivalue_line" in p.read_text()]


def test_selection_works_as_always(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + FLAKY
        + "import pytest\n@pytest.mark.parametrize('x', 'abc')\n"
        + "def test_letter(x): assert x != 'c'\n"
    )
    result = hunt(pytester, "-k", "calm or flaky")
    assert "1 of 5 tests is abnormally flaky" in said(result)
    result = hunt(pytester, "-k", "letter")
    assert "test_letter[[]c]" not in said(result)
    result.stdout.fnmatch_lines(["nothing stands out among 2 tests*", "  test_*::test_letter[[]c]"])


def test_setup_and_teardown_errors_are_failures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
import random
import hypothesis  # noqa: F401
import matplotlib.pyplot  # noqa: F401
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
"""
    )
    result = hunt(pytester)
    assert "2 of 6 tests are abnormally flaky" in said(result)
    result.stdout.fnmatch_lines(["    last: setup: test_*assert*", "*"])
    result.stdout.fnmatch_lines(["    last: teardown: test_*assert*"])


def test_fixtures_are_new_for_every_sample_but_those_of_the_session(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
import hypothesis  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import pytest
counts = {}

def counting(name):
    counts[name] = counts.get(name, 0) + 1
    return counts[name]

@pytest.fixture(scope="session")
def of_session():
    if counting("session") == 1:
        raise OSError("not yet")

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
    assert result.ret == 0, said(result)
    result.stdout.fnmatch_lines(["nothing stands out among 3 tests*"])


def test_unittest_and_subtests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
import random
import unittest

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
    result = hunt(pytester)
    assert "2 of 7 tests are abnormally flaky" in said(result)
    assert "SUBFAIL" not in said(result)


def test_the_same_seed_makes_the_same_run_and_samples_differ(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
import random
import numpy

def note(text):
    with open("drawn.txt", "a") as file:
        file.write(f"{text}\\n")

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
    assert len(lines) == len(set(lines)) > 20


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
    pytester.makepyfile(CALM + FLAKY)
    plain = said(hunt(pytester)).split("flaky?")[1].split("runs in")[0]
    pytester.makeconftest(
        """
import random
import hypothesis  # noqa: F401
import matplotlib.pyplot  # noqa: F401
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
    other = hunt(pytester)
    assert "1 of 5 tests is abnormally flaky" in said(other)
    assert [w for w in plain.split() if "::" in w] == [w for w in said(other).split() if "::" in w]


def test_no_test_runs_twice_in_a_row(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + FLAKY)
    pytester.makeconftest(
        """
def pytest_runtest_setup(item):
    with open("order.txt", "a") as file:
        file.write(f"{item.name}\\n")
"""
    )
    hunt(pytester)
    order = Path("order.txt").read_text().split()
    assert len(order) > 50
    assert all(one != other for one, other in pairwise(order))


def test_only_the_first_run_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM + "used = []\ndef test_once():\n    assert not used\n    used.append(1)\n"
    )
    result = hunt(pytester)
    result.stdout.fnmatch_lines(
        ["*100.0 %*::test_once", "    only its first run passed: it may not bear*"]
    )
    isolated = hunt(pytester, "--oddarms-isolate", "--oddarms-budget=20")
    assert isolated.ret == 0
    assert "first run passed" not in said(isolated)


@pytest.mark.parametrize("budget", [24, pytest.param(40, marks=pytest.mark.long)])
def test_a_crash_of_the_interpreter_under_isolation(pytester: pytest.Pytester, budget: int) -> None:
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
"""
    )
    words = ["--oddarms-isolate", "--oddarms-jobs=2", f"--oddarms-budget={budget}"]
    result = hunt(pytester, *words)
    assert "Fatal Python error" not in said(result) + result.stderr.str()
    result.stdout.fnmatch_lines(["    last: the process was ended by SIGSEGV"])
    result.stdout.fnmatch_lines(
        ["    last: the process ended with exit code 3 and without a result"]
    )


@pytest.mark.parametrize(
    "isolate", [[], pytest.param(["--oddarms-isolate"], marks=pytest.mark.long)]
)
def test_ctrl_c_shows_what_is_known(pytester: pytest.Pytester, isolate: list[str]) -> None:
    pytester.makepyfile(
        CALM
        + """
import os

def test_interrupted():
    with open("count", "a") as file:
        file.write("x")
    if os.path.getsize("count") > 5:
        raise KeyboardInterrupt
"""
    )
    result = hunt(pytester, "--oddarms-storage=runs.db", *isolate, ctrl_c=True)
    assert result.ret == 2
    result.stdout.fnmatch_lines(
        [
            "none of 5 tests is known to be abnormally flaky yet",
            "ended: it was interrupted",
            "*5 undecided*",
        ]
    )


def test_time_is_limited(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + FLAKY)
    result = hunt(pytester, "--oddarms-time=0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "nothing was compared: 0 seconds are over: no search has begun.",
            "nothing can be said yet of these, the most suspicious first:",
            "  test_*::test_calm_0",
            "*5 undecided in*",
        ]
    )


def test_a_storage_goes_on_and_accumulates(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + FLAKY)
    first = hunt(pytester, "--oddarms-storage=runs.db", "--oddarms-budget=30")
    first.stdout.fnmatch_lines(
        ["kept in *runs.db as pytest-*", "ended: the budget*", "still needed*"]
    )
    second = hunt(pytester, "--oddarms-storage=runs.db", "--oddarms-budget=100000")
    second.stdout.fnmatch_lines(["1 of 5 tests is abnormally flaky*", "  from before: 30 runs"])
    third = hunt(pytester, "--oddarms-storage=runs.db", "--oddarms-budget=100000")
    assert third.ret == 1
    third.stdout.fnmatch_lines(
        ["1 of 5 tests is*", "  it had the answer of a search that began on*"]
    )
    other = hunt(pytester, "--oddarms-storage=runs.db", "-k", "not calm_3")
    assert "from before" not in said(other)


def test_files_are_written(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM + FLAKY + "import pytest\ndef test_broken(): assert 0, '\\x00<&'\n"
        "def test_skipped(): pytest.skip('later')\n"
    )
    hunt(pytester, "--oddarms-out=answer")
    names = {path.name for path in Path("answer").iterdir()}
    assert names == {"report.html", "result.json", "arms.csv", "junit.xml"}
    assert len(json.loads(Path("answer/result.json").read_text())["outliers"]) == 1
    assert "broken, not flaky" in Path("answer/report.html").read_text()
    suite = ElementTree.parse("answer/junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "2", "1")
    cases = {case.get("name"): case for case in suite}
    properties = {p.get("name"): p.get("value") for p in cases["test_flaky"].iter("property")}
    assert properties["oddarms.decision"] == "abnormal"
    assert 0.4 < float(properties["oddarms.rate"] or 0) < 1.0
    assert float(properties["oddarms.lower"] or 1) < float(properties["oddarms.rate"] or 0)
    assert cases["test_broken"].find("failure") is not None
    assert cases["test_skipped"].find("skipped") is not None
    assert cases["test_calm_0"].find("failure") is None


def test_the_ini_file_has_all_options(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\noddarms_k = 1\noddarms_margin = 0.3\noddarms_delta = 0.2\noddarms_seed = 1\n"
        "oddarms_time = 100\noddarms_budget = 10000\noddarms_rule = sigma\noddarms_out = there\n"
        "oddarms_storage = there.db\noddarms_study = mine\noddarms_floor = 0.01\n"
        "oddarms_isolate = true\noddarms_jobs = 2\noddarms_summary = summary.md\n"
    )
    read = read_settings(pytester.parseconfig(*ALONE, "--oddarms-k=3"))
    assert read.words == {
        "k": 3.0, "delta": 0.2, "margin": 0.3, "floor": 0.01, "rule": "sigma", "budget": 10000,
    }  # fmt: skip
    assert read.out == pytester.path / "there"
    assert read.summary == pytester.path / "summary.md"
    assert (read.seconds, read.storage, read.study) == (100.0, "there.db", "mine")
    assert (read.isolate, read.jobs, read.seed) == (True, 2, 1)


def test_a_floor_alone_asks_what_fails_more_often(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): pass\n" + FLAKY)
    result = pytester.runpytest_inprocess(
        *ALONE, "--oddarms", "--oddarms-floor=0.3", "--oddarms-seed=1"
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["1 of 2 tests is abnormally flaky*", "abnormal: 30.0 % or more"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--oddarms-k=two"], "--oddarms-k must be a number of at least 0 but got 'two'."),
        (
            ["--oddarms-budget=0"],
            "--oddarms-budget must be a whole number of at least 1 but got '0'.",
        ),
        (["--oddarms-rule=odd"], "--oddarms-rule must be one of sigma, mad, tukey, absolute but"),
        (["--oddarms-delta=2"], "--oddarms: delta must be strictly between 0 and 1 but got 2.0."),
        (["--oddarms-jobs=2"], "--oddarms-jobs must be left out without --oddarms-isolate"),
        (
            ["-k", "calm_1"],
            "1 was selected: select more with -k, -m or paths; with --oddarms",
        ),
        (["--oddarms-time=soon"], "--oddarms-time must be seconds, or a duration such as 30s, 10m"),
        (["--oddarms-summary=."], "--oddarms-summary must be a file that can be written to but"),
        (["--oddarms-out=test_it.py"], "--oddarms-out must be a folder that can be written to but"),
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
    assert f"{option} must be given together with --oddarms, which" in result.stderr.str()
    assert option[2:].replace("-", "_") in result.stderr.str()  # the remedy: the ini file
    pytester.makeini("[pytest]\noddarms_k = 3\noddarms_isolate = true\n")
    assert pytester.runpytest_inprocess(*ALONE).ret == 0


def test_the_summary_of_a_job(pytester: pytest.Pytester) -> None:
    """The answer is appended as Markdown, in which names and messages are only text."""
    pytester.makepyfile(
        test_it=CALM
        + "import pytest, random\n"
        + "@pytest.mark.parametrize('x', ['a|`<b>'])\n"
        + "def test_flaky(x): assert random.random() < 0.3, '| <i>'\n"
        + "def test_broken(): assert 0, '**no**'\n"
        + "def test_skipped(): pytest.skip('later')\n"
    )
    Path("summary.md").write_text("# Before")
    result = hunt(pytester, "--oddarms-summary=summary.md")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["written: *summary.md"])
    text = Path("summary.md").read_text()
    assert text.startswith("# Before\n### 1 of 5 tests is abnormally flaky (right with")
    assert "<b>" not in text
    assert "<i>" not in text
    assert "| `test_it.py::test_broken` |" in text
    assert "| `test_it.py::test_skipped` | `later` |" in text
    assert " runs in " in text


def test_the_summary_of_a_job_without_an_answer(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): assert 0\ndef test_b(): assert 0\n")
    hunt(pytester, "--oddarms-summary=summary.md")
    text = Path("summary.md").read_text()
    assert text.startswith("### nothing was compared: at least two tests are needed that can pass")
    assert text.count("all 10 runs failed") == 2


def test_no_time_is_spent_on_tracebacks(pytester: pytest.Pytester) -> None:
    """Those of samples, which nobody sees; an error of the collection is shown as always."""
    pytester.makeconftest(
        "import pytest\n"
        "@pytest.hookimpl(wrapper=True)\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    report = yield\n"
        "    if report.failed and item.name == 'test_deep':\n"
        "        (item.config.rootpath / 'long.txt').write_text(str(report.longrepr))\n"
        "    return report\n"
    )
    pytester.makepyfile(
        test_it=CALM + FLAKY + "def deep(n): return deep(n - 1) if n else 1 / 0\n"
        "def test_deep(): deep(30)\n"
    )
    result = hunt(pytester, "--full-trace")
    assert "test_it.py:7: ZeroDivisionError: division by zero" in said(result)
    assert Path("long.txt").read_text() == "division by zero"
    pytester.makepyfile(test_wrong="def make():\n    return 1 / 0\nmake()\n")
    broken = hunt(pytester)
    assert broken.ret == 2
    assert "return 1 / 0" in said(broken)


def test_other_exit_codes_are_those_of_pytest(pytester: pytest.Pytester) -> None:
    assert hunt(pytester).ret == 5
    pytester.makepyfile("import nothing_like_this")
    assert hunt(pytester).ret == 2
    pytester.makepyfile(CALM)
    result = hunt(pytester, "--collect-only")
    assert result.ret == 0
    assert "4 tests collected" in said(result)


def test_few_tests_cannot_stand_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): pass\n" + FLAKY)
    result = pytester.runpytest_inprocess(*ALONE, "--oddarms", "--oddarms-seed=1")
    result.stdout.fnmatch_lines(
        ["among 2 tests none can be more than 2 standard deviations out: select at least 6,"]
    )


def test_only_broken_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(): assert 0\ndef test_b(): assert 0\n")
    result = hunt(pytester)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["nothing was compared: at least two tests are needed*", "*2 broken in*"]
    )


def test_warnings_are_recorded_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CALM + "import warnings\ndef test_warns(): warnings.warn('one')\n")
    result = hunt(pytester, "-W", "always")
    result.stdout.fnmatch_lines(["*5 normal*"])
    assert "test_warns" in said(result)
    assert "17 warnings" not in said(result)


# Parts


@pytest.mark.parametrize(("n", "delta"), [(2, 0.2), (20, 0.05), (10_000, 0.01)])
def test_broken_tests_fail_more_often_than_not(n: int, delta: float) -> None:
    assert 0.5 ** runs_to_be_broken(n, delta) <= delta / n


def test_first_runs_place_every_test() -> None:
    records = [Record(name) for name in "abcde"]
    verdicts = {0: "p", 1: "f" * 20, 2: "s", 3: "ffp", 4: "fs"}
    words = {"p": Verdict.PASSED, "f": Verdict.FAILED, "s": Verdict.SKIPPED}
    first = FirstRuns(records, 0.5)
    last = None
    while not first.over:
        index = first.next(last)
        if index is None:
            last = None
            continue
        assert index != last
        last = index
        first.tell(index, Outcome(words[verdicts[index][records[index].first_runs]]))
    assert [r.place for r in records] == [
        Place.COMPARED, Place.BROKEN, Place.SKIPPED, Place.COMPARED, Place.COMPARED,
    ]  # fmt: skip
    assert [r.first_runs for r in records] == [1, 10, 1, 3, 2]


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

    def begin(self, nodeids: list[str], workers: int) -> Sampling:
        words = {"k": 1.0, "margin": 0.3, "delta": 0.2}
        self.sampling = Sampling(nodeids, settings(words), workers)
        return self.sampling

    def ran(self) -> None:
        pass


def settings(words: dict[str, Any], storage: str | None = None, seed: int = 3) -> Settings:
    return Settings(words, None, None, None, storage, "pytest", isolate=False, jobs=1, seed=seed)


def scheduler(tests: int, nodes: list[Node]) -> tuple[Scheduler, StubHunt]:
    stub = StubHunt()
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
    schedule.outcomes[node] = Outcome(Verdict.FAILED if failed else Verdict.PASSED)
    schedule.mark_test_complete(node, index)
    return True


def test_workers_with_a_sample_have_two_tests_and_never_the_same_twice() -> None:
    nodes = [Node("gw0"), Node("gw1"), Node("gw2")]
    schedule, stub = scheduler(5, nodes)
    while not schedule.tests_finished:
        for node in () if stub.sampling.done else nodes:
            queue = schedule._queues[node]
            assert len(queue) >= 2 or all(sample.between for sample in queue)
        moved = [run_one(schedule, node) for node in nodes]
        assert any(moved)
    result = stub.sampling.finish("")
    assert result is not None
    assert result.outliers == ["test_0"]
    for node in nodes:
        assert all(one != other for one, other in pairwise(node.ran))


def test_next_to_a_slow_test_nearly_all_runs_count() -> None:
    """A worker that is fifty times as slow as the other: it has the slow tests."""
    slow, fast = Node("gw0"), Node("gw1")
    schedule, stub = scheduler(20, [slow, fast])
    while not schedule.tests_finished:
        run_one(schedule, slow)
        for _ in range(50):
            run_one(schedule, fast)
    assert stub.sampling.runs_between < 0.1 * stub.sampling.runs
    result = stub.sampling.finish("")
    assert result is not None
    assert result.complete


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0)])
def test_time_is_written_as_people_do(pytester: pytest.Pytester, text: str, seconds: float) -> None:
    config = pytester.parseconfig(*PLUGIN, "--oddarms", f"--oddarms-time={text}")
    assert read_settings(config).seconds == seconds


def test_the_text_of_a_failure_is_wrapped() -> None:
    record = Record("test_a")
    record.note(Outcome(Verdict.FAILED, "a word " * 30))
    lines = _how(record, 80, isolated=False)
    assert len(lines) > 2
    assert all(len(line) <= 80 for line in lines)


def test_a_worker_that_crashes_has_failed_its_test() -> None:
    nodes = [Node("gw0"), Node("gw1")]
    schedule, stub = scheduler(5, nodes)
    for _ in range(20):
        for node in nodes:
            run_one(schedule, node)
    crashed = nodes[0].queue[0]
    counts = not schedule._queues[nodes[0]][0].between
    before = stub.sampling.records[crashed].failures
    assert schedule.remove_node(nodes[0]) is None
    assert stub.sampling.records[crashed].failures - before == counts
    fresh = Node("gw2")
    schedule.add_node(fresh)
    schedule.add_node_collection(fresh, [f"test_{i}" for i in range(5)])
    schedule.schedule()
    while not schedule.tests_finished:
        moved = [run_one(schedule, node) for node in (nodes[1], fresh)]
        assert any(moved)
    assert stub.sampling.finish("") is not None


def test_what_was_not_run_is_given_back_once() -> None:
    sampling = Sampling(["a", "b", "c"], settings({"k": 1.0}), 2)
    while (sample := sampling.next()) is not None and sample.ticket is None:
        sampling.tell(sample, Outcome(Verdict.PASSED))
    assert sample is not None
    sampling.lose(sample)
    sampling.lose(sample)
    result = sampling.finish("enough")
    assert result is not None
    assert result.pulls == 0


def searching(settings: Settings, tests: int, workers: int) -> tuple[Sampling, list[Sample]]:
    """Return a sampling after its first runs, and a sample for each worker."""
    sampling = Sampling([f"test_{i}" for i in range(tests)], settings, workers)
    while (sample := sampling.next()) is not None and sample.ticket is None:
        sampling.tell(sample, Outcome(Verdict.PASSED))
    assert sample is not None
    more = [sampling.next() for _ in range(workers - 1)]
    return sampling, [sample, *(one for one in more if one is not None)]


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
def test_what_is_under_way_when_the_time_is_over_counts(tmp_path: Path, stored: bool) -> None:
    """Else slow failures would count less often than quick passes."""
    storage = str(tmp_path / "runs.db") if stored else None
    sampling, running = searching(settings({"k": 1.0}, storage), 5, 4)
    sampling.tell(running.pop(), Outcome(Verdict.PASSED))
    sampling.stop("600 seconds are over")
    assert sampling.next() is None
    for sample in running:
        sampling.tell(sample, Outcome(Verdict.FAILED, "timeout", 30.0))
    result = sampling.finish("")
    assert result is not None
    assert result.pulls + result.unused == 4
    if sampling.study is not None:
        assert [trial.reward for trial in sampling.study.trials()] == [0.0, 1.0, 1.0, 1.0]
        assert sampling.study.overview().live == 0


def test_few_tests_and_a_floor_take_few_runs_that_are_not_used() -> None:
    """In one process, where the search often wants only the test that has just run."""
    rates = [0.02, 0.02, 0.02, 0.02, 0.3]
    question = settings({"rule": "absolute", "floor": 0.1, "k": 0.0}, seed=1)
    sampling = Sampling([f"test_{i}" for i in range(5)], question)
    rng, last = random.Random(1), None
    while (sample := sampling.next(last) or _in_between(sampling, last)) is not None:
        last = sample.index
        failed = rng.random() < rates[last]
        sampling.tell(sample, Outcome(Verdict.FAILED if failed else Verdict.PASSED))
    result = sampling.finish("")
    assert result is not None
    assert result.outliers == ["test_4"]
    assert sampling.runs < 1.2 * result.pulls


def _in_between(sampling: Sampling, last: int | None) -> Sample | None:
    return None if sampling.done else sampling.between(last)


def test_workers_must_collect_the_same() -> None:
    schedule = Scheduler(StubHunt(), 2)  # type: ignore[arg-type]
    one, other = Node("gw0"), Node("gw1")
    schedule.add_node_collection(one, ["a", "b"])
    with pytest.raises(pytest.UsageError, match="the same tests on all workers"):
        schedule.add_node_collection(other, ["b", "a"])


def test_a_session_that_cannot_be_torn_down_does_not_cost_the_answer(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
import pytest

@pytest.fixture(scope="session")
def shop():
    yield
    raise RuntimeError("the shop is burning")

@pytest.mark.parametrize("i", range(8))
def test_one(shop, i):
    pass
"""
    )
    result = pytester.runpytest(*PLUGIN, *QUICK)
    result.stdout.fnmatch_lines(
        ["a fixture of the session failed*RuntimeError: the shop*", "nothing stands out among 8*"]
    )
    assert result.ret == 0


def test_failures_are_placed_where_people_wrote_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_places="""
import unittest

class TestSums(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(1 + 1, 3)

def test_of_nothing(nonexistent):
    pass
"""
    )
    pytester.makepyfile(test_fine="def test_a(): pass\ndef test_b(): pass")
    result = pytester.runpytest(*PLUGIN, *QUICK, "--oddarms-out=answer")
    result.stdout.fnmatch_lines(["*test_places.py:5: AssertionError: 2 != 3*"])
    result.stdout.fnmatch_lines(["*fixture 'nonexistent' not found*"])
    cases = ElementTree.parse("answer/junit.xml").getroot().iter("testcase")
    names = {(case.get("classname"), case.get("name")) for case in cases}
    assert ("test_places.TestSums", "test_sum") in names


def test_pytest_exit_says_what_is_known(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import pytest
runs = []
def test_exit():
    runs.append(1)
    if len(runs) == 9:
        pytest.exit("no more")
@pytest.mark.parametrize("i", range(8))
def test_one(i):
    pass
"""
    )
    result = pytester.runpytest(*PLUGIN, "--oddarms", "--oddarms-summary=answer.md")
    result.stdout.fnmatch_lines(["none of 9 tests is known to be abnormally flaky yet"])
    assert "9 are undecided" in Path("answer.md").read_text()


def test_an_error_of_the_collection_is_called_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_wrong="import nonexistent", test_right="def test_a(): pass")
    result = pytester.runpytest(*PLUGIN, *QUICK)
    result.stdout.fnmatch_lines(["ERROR test_wrong.py*"])


@pytest.mark.parametrize("words", [{"k": 2.0}, {"delta": 0.05}, {"rule": "sigma"}])
def test_a_default_that_is_named_is_no_other_search(tmp_path: Path, words: dict[str, Any]) -> None:
    storage = str(tmp_path / "runs.db")
    names = set()
    for given in ({}, words):
        sampling, _ = searching(settings(given, storage), 7, 1)
        assert sampling.study is not None
        names.add(sampling.study.name)
        sampling.finish("")
    assert len(names) == 1


@pytest.mark.long
@pytest.mark.parametrize("isolate", [[], ["--oddarms-isolate"]])
def test_with_xdist(pytester: pytest.Pytester, isolate: list[str]) -> None:
    pytester.makepyfile(
        CALM
        + """
import os
import pytest

def test_flaky():  # by counting, as seeds of workers cannot be given
    with open("count", "a") as file:
        file.write("x")
    assert os.path.getsize("count") % 3 == 1

def test_broken(): assert 0

@pytest.mark.skip
def test_skipped(): pass
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "-n2", *QUICK, *isolate)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["1 of 5 tests is abnormally flaky*", "*1 abnormal, 1 broken, 4 normal, 1 left out*"]
    )


@pytest.mark.long
def test_a_crash_of_a_worker_of_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        CALM
        + """
import os

def test_crash():
    with open("count", "a") as file:
        file.write("x")
    if os.path.getsize("count") in (3, 6):
        os._exit(1)
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "-n2", *QUICK)
    result.stdout.fnmatch_lines(["nothing stands out among 5 tests*", "*runs in*"])
    assert result.ret == 0


@pytest.mark.long
def test_a_real_suite_with_planted_flaky_tests(pytester: pytest.Pytester) -> None:
    """The answer in at most a hundredth of the time that one process per run would take."""
    toolz_tests = pytest.importorskip("toolz.tests")
    folder = Path(toolz_tests.__file__).parent
    for name in ("test_itertoolz.py", "test_dicttoolz.py", "test_recipes.py"):
        pytester.path.joinpath(name).write_text((folder / name).read_text())
    pytester.makepyfile(
        test_planted="import random\n"
        "def test_often(): assert random.random() < 0.6\n"
        "def test_sometimes(): assert random.random() < 0.7\n"
    )
    begun = time.perf_counter()
    alone = pytester.runpytest_subprocess("-p", "no:xdist", "test_recipes.py::test_partitionby")
    one = time.perf_counter() - begun
    assert alone.ret == 0
    words = ["--oddarms", "--oddarms-seed=2", "--oddarms-out=answer"]
    begun = time.perf_counter()
    result = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:xdist", *words)
    all_runs = time.perf_counter() - begun
    assert result.ret == 1
    answer = json.loads(Path("answer/result.json").read_text())
    assert sorted(answer["outliers"]) == [
        "test_planted.py::test_often",
        "test_planted.py::test_sometimes",
    ]
    assert answer["complete"]
    assert all_runs < answer["pulls"] * one / 100
