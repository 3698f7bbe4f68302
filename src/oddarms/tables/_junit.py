"""JUnit reports of many runs, which CI systems keep, as recorded samples of tests.

Which samples count
-------------------
The first execution of a test in a run is a sample: 1 if it failed, 0 if it passed. Reruns in the
same run happen because the test failed, and do not count unless asked for. A skipped test is no
sample.

As in the pytest plugin, the samples of a test up to its first pass only decide whether it is
compared with the others (a test that has never passed is broken, not flaky). Used for the answer as
well, they would be a selection. The moment of the first pass is a stopping time, so the samples
after it have the distribution that they would have if the tests had been chosen in advance.

A test that passed and failed in one run, or at one commit, is flaky without any statistics. A file
in which half of the tests fail that pass elsewhere is taken for an outage and set aside.

Reports are hostile input. Document types and entities are refused, so a report can neither expand
without limit nor include other files; the depth and size of elements are limited.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from xml.parsers import expat

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, brief, check_choice
from oddarms.tables._files import STDIN, Source, name_of, opened_bytes

Reruns = Literal["first", "all"]
"""Which executions of a test in one run count."""
Damaged = Literal["stop", "skip"]
"""Whether a file that is not a report is an error or is left out."""
MAX_TESTS = 1_000_000


class RunCount(NamedTuple):
    """A test in a history.

    Attributes
    ----------
    test
        Its name.
    runs, failures
        Of all runs in which it was not skipped.
    skipped
        In how many runs it was skipped.
    place
        "compared", or why it is not: "flaky" (only reruns of it passed), "broken" (it has never
        passed) or "skipped" (always).
    """

    test: str
    runs: int
    failures: int
    skipped: int
    place: str


@dataclass(frozen=True, eq=False)
class RunHistory(Mapping[str, FloatArray]):
    """The samples of each test, 1 for a run that failed and 0 for one that passed.

    It is a mapping from test to samples, so `oddarms.analyze`, `Search.add_history` and studies
    take it as it is. Tests that have never passed, or were always skipped, are left out, and the
    runs of each test up to its first pass, which decide that and nothing else.

    Attributes
    ----------
    records
        The samples of each test that is compared with the others.
    counts
        All tests with their runs and failures, those that are left out included.
    files
        How many files were read.
    damaged
        The files that are not reports and were left out, with the reason.
    reruns
        The number of executions that do not count because they are reruns.
    copies
        Files with the same content as one before them.
    flaky
        Tests that passed and failed in one run, or in runs of one commit.
    last
        The message of each test's last failure, in one line, where reports have it.
    outages
        Files that were set aside: half of at least 20 tests that pass elsewhere failed in them.
    """

    records: dict[str, FloatArray]
    counts: tuple[RunCount, ...]
    files: int
    damaged: dict[str, str]
    reruns: int
    copies: int
    flaky: tuple[str, ...] = ()
    outages: tuple[str, ...] = ()
    last: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, test: str) -> FloatArray:
        return self.records[test]

    def __iter__(self) -> Iterator[str]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return (
            f"<RunHistory of {len(self):,} tests, {self.samples:,} runs of them in"
            f" {self.files:,} files>"
        )

    @property
    def samples(self) -> int:
        """How many runs of single tests count."""
        return sum(rewards.size for rewards in self.records.values())

    def placed(self, place: str) -> list[RunCount]:
        """Return the tests that are "compared", "flaky", "broken" or "skipped"."""
        return [count for count in self.counts if count.place == place]


def read_junit(
    sources: Source | Iterable[Source], *, reruns: Reruns = "first", damaged: Damaged = "stop"
) -> RunHistory:
    """Return the runs of tests in JUnit reports.

    Parameters
    ----------
    sources
        A file, a folder, a pattern such as ``"runs/*.xml"`` or ``"**/TEST-*.xml"``, or several of
        them. A file is one run; if the suites in it that have the same test have other timestamps,
        it is several. Files may be gzipped, and "-" is stdin.
    reruns
        "first": of a test's executions in one run the first counts, as the others exist because it
        failed. "all": all count.
    damaged
        "stop" refuses a file that is not a report or is cut off; "skip" leaves it out. That is
        sound only if the damage has nothing to do with failing tests.

    Notes
    -----
    Reports of pytest, Maven Surefire and Gradle, gotestsum and go-junit-report, jest-junit, mocha,
    Bazel, GoogleTest, ScalaTest, PHPUnit, cargo-nextest, xUnit.net and NUnit are understood.
    Errors count as failures. A test is known by its suite, class, name and file. pytest's
    expected failures count as passes. Reports with the same value of a property named "commit"
    are of the same code.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> report = '<testsuite><testcase name="{}"/><testcase name="b">{}</testcase></testsuite>'
    >>> with TemporaryDirectory() as folder:
    ...     for run in range(4):
    ...         text = report.format("a", "<failure/>" if run % 2 else "")
    ...         _ = Path(folder, f"{run}.xml").write_text(text)
    ...     history = read_junit(f"{folder}/*.xml")
    >>> {test: samples.tolist() for test, samples in history.items()}
    {'a': [0.0, 0.0, 0.0], 'b': [1.0, 0.0, 1.0]}
    >>> history.counts[1]
    RunCount(test='b', runs=4, failures=2, skipped=0, place='compared')
    """
    check_choice("reruns", reruns, get_args(Reruns))
    check_choice("damaged", damaged, get_args(Damaged))
    files = _files_of(sources)
    tally = _Tally(every=reruns == "all")
    digests, left_out = set[bytes](), dict[str, str]()
    for file in files:
        report = _Report(name_of(file))
        try:
            with opened_bytes(file) as content:
                report.read(content)
        except InvalidParameter as error:
            if damaged == "stop":
                raise InvalidParameter(
                    f"{str(error)[:-1]}; damaged='skip' (--missing skip) leaves such files out,"
                    " which is sound only if failing tests did not cause the damage."
                ) from None
            left_out[report.name] = str(error)
            continue
        tally.add(report)
        digests.add(report.hash.digest())
    read = len(files) - len(left_out)
    return tally.history(read, left_out, read - len(digests))


# Files

_ENDINGS = (".xml", ".xml.gz")


def _files_of(sources: Source | Iterable[Source]) -> list[str]:
    """Return the files that patterns, folders and paths name, each once, in natural order.

    A folder stands for all files in it, at any depth, that end in .xml or .xml.gz.
    """
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if not given:
        raise InvalidParameter("junit must name at least one file.")
    found: dict[str, str] = {}
    for source in given:
        for file in _matching(os.fspath(source)):
            found.setdefault(os.path.realpath(file) if file != STDIN else STDIN, file)
    return sorted(found.values(), key=_natural)


def _matching(source: str) -> list[str]:
    path = Path(source)
    if source == STDIN:
        return [STDIN]
    if path.is_dir():
        files = [str(file) for file in path.rglob("*") if file.name.endswith(_ENDINGS)]
        if not files:
            raise InvalidParameter(f"The folder {brief(source)} has no files that end in .xml.")
        return files
    if path.exists():
        return [source]
    files = [file for file in glob.glob(source, recursive=True) if not os.path.isdir(file)]
    if not files:
        raise InvalidParameter(
            f"No file matches {brief(source, 200)} in {os.getcwd()}: give JUnit files, a folder or"
            " a pattern such as 'runs/*.xml'."
        )
    return files


def _natural(file: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts run-2 before run-10."""
    parts = re.split("([0-9]{1,18})", file)
    return [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts]


# One report

_PIECE = 2**18
"""Bytes that are read at a time."""
MAX_TAG = 2**24
"""Bytes of one tag with its attributes, or of one comment; text between tags may be larger."""
MAX_DEPTH = 200
MAX_NAME = 10_000
"""Characters of a name."""

_ROOTS = frozenset({"testsuites", "testsuite", "assemblies", "assembly", "test-run"})
_SUITES = frozenset({"testsuite", "assembly", "test-suite"})
_CASES = frozenset({"testcase", "test", "test-case"})
"""Of JUnit, of xUnit.net and of NUnit."""
_FAILED = frozenset({"fail", "failed", "failure", "error"})
_SKIPPED = frozenset({"skip", "skipped", "ignored", "notrun", "disabled", "inconclusive"})
_CLASS_NAMES = ("classname", "class", "type")


class _Key(NamedTuple):
    """What identifies a test."""

    suite: str
    classname: str
    name: str
    file: str


class _Suite(NamedTuple):
    """A suite whose element is open."""

    name: str
    moment: str
    by_pytest: bool


@dataclass
class _Case:
    """A test in a report, and its executions."""

    key: _Key
    suite: _Suite
    depth: int
    failed: bool
    skipped: bool
    before: int = 0  # executions that failed before the last one: Surefire's flakyFailure
    after: int = 0  # and after it: rerunFailure
    text: str = ""  # the first line of a failure's message
    at_teardown: bool = False  # the second element of a test that has failed


class _Report:
    """Reads one report piece by piece."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs: _Runs = {}
        self._suites: list[_Suite] = []
        self.hash = hashlib.sha256()
        self.commit = ""
        self._depth = 0
        self._test: _Case | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_declarations
        self._parser.EntityDeclHandler = self._refuse_declarations

    def read(self, file: Any) -> None:
        """Read an open file, all of it."""
        size, at_end = 0, False
        try:
            while piece := file.read(_PIECE):
                size += len(piece)
                self.hash.update(piece)
                self._parser.Parse(piece, False)
                if size - self._parser.CurrentByteIndex > MAX_TAG:
                    raise self._wrong(f"a tag has more than {MAX_TAG:,} bytes")
            if not size:
                raise InvalidParameter(f"{self.name} is empty, so it is not a JUnit report.")
            at_end = True
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            why = "it is cut off" if at_end and self._depth else expat.ErrorString(error.code)
            raise InvalidParameter(
                f"{self.name}, line {error.lineno}: the file is not XML: {why}."
            ) from None
        except InvalidParameter:
            raise
        except (LookupError, ValueError) as error:  # an encoding that Python does not know, or NUL
            raise InvalidParameter(
                f"{self.name} is not XML in a known encoding: {error}."
            ) from None

    def _wrong(self, rule: str) -> InvalidParameter:
        line = self._parser.CurrentLineNumber
        return InvalidParameter(f"{self.name}, line {line}: {rule}.")

    def _refuse_declarations(self, *_: object) -> None:
        raise self._wrong(
            "a report must not declare a document type or entities, which could include other files"
            " or expand without limit"
        )

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self._depth += 1
        if self._depth == 1 and tag not in _ROOTS:
            raise self._wrong(
                f"a JUnit report begins with testsuites or testsuite, not with {brief(tag)}"
            )
        if self._depth > MAX_DEPTH:
            raise self._wrong(f"elements are nested more than {MAX_DEPTH} deep")
        if tag in _SUITES or self._depth == 1:
            self._begin_suite(tag, attributes)
        elif tag in _CASES and self._test is None:
            self._begin_case(attributes)
        elif self._test is None and tag == "property" and attributes.get("name") == "commit":
            self.commit = self._short(attributes.get("value", "").strip())
        elif self._test is not None and self._depth == self._test.depth + 1:
            _note(self._test, tag, attributes)

    def _begin_suite(self, tag: str, attributes: dict[str, str]) -> None:
        name = self._short(attributes.get("name", "") if tag in _SUITES else "")
        outer = self._suites[-1] if self._suites else _Suite("", "", by_pytest=False)
        moment = self._short(attributes.get("timestamp", "")) or outer.moment
        by_pytest = outer.by_pytest or (tag, attributes.get("name")) in _BY_PYTEST
        self._suites.append(_Suite(name, moment, by_pytest))

    def _begin_case(self, attributes: dict[str, str]) -> None:
        classname = next((attributes[name] for name in _CLASS_NAMES if name in attributes), "")
        key = _Key(
            self._suites[-1].name,
            self._short(classname.strip()),
            self._short(attributes.get("name", "").strip()),
            self._short(attributes.get("file", "").strip()),
        )
        words = {attributes.get(name, "").casefold() for name in ("result", "status")}
        failed, skipped = bool(words & _FAILED), bool(words & _SKIPPED)
        self._test = _Case(key, self._suites[-1], self._depth, failed, skipped)

    def _short(self, text: str) -> str:
        if len(text) > MAX_NAME:
            raise self._wrong(f"a name has {len(text):,} characters, more than {MAX_NAME:,}")
        return text

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        test = self._test
        if test is not None and self._depth == test.depth:
            self._test = None
            place = (test.key, test.suite.moment)
            if place not in self.runs:
                self.runs[place] = _Executions(array("b"), test.suite.by_pytest)
                if len(self.runs) > MAX_TESTS:
                    raise InvalidParameter(f"{self.name} has more than {MAX_TESTS:,} tests.")
            self.runs[place].add(test)
        elif tag in _SUITES or self._depth == 1:
            self._suites.pop()
        self._depth -= 1


_FAILURES = frozenset(
    f"{kind}{what}" for kind in ("flaky", "rerun") for what in ("Failure", "Error")
) | {"failure", "error"}
MAX_TEXT = 300
"""Characters that are kept of a failure."""
_BY_PYTEST = {("testsuites", "pytest tests"), ("testsuite", "pytest")}


def _note(test: _Case, tag: str, attributes: dict[str, str]) -> None:
    """Note what an element inside a test says about it."""
    if tag in _FAILURES:
        said = attributes.get("message") or attributes.get("type", "")
        test.text = said.strip().partition("\n")[0][:MAX_TEXT] or test.text
    if tag in ("failure", "error"):
        test.failed = True
        test.at_teardown = attributes.get("message", "").startswith("failed on teardown")
    elif tag in ("flakyFailure", "flakyError"):
        test.before += 1
    elif tag in ("rerunFailure", "rerunError"):
        test.after += 1
    elif tag == "skipped":
        # what pytest expects to fail, and did, has been run and is as it should be
        test.skipped = attributes.get("type") != "pytest.xfail"


# All reports


@dataclass
class _Executions:
    """What one run has of one test: 1 failed, 0 passed, -1 skipped."""

    outcomes: array[int]
    by_pytest: bool
    text: str = ""

    def add(self, case: _Case) -> None:
        """Add an element of a report."""
        self.text = case.text or self.text
        if case.at_teardown and self.by_pytest and self.outcomes and self.outcomes[-1] == FAILED:
            return  # the second element of one execution
        self.outcomes.extend([FAILED] * case.before)
        self.outcomes.append(FAILED if case.failed else SKIPPED if case.skipped else PASSED)
        self.outcomes.extend([FAILED] * case.after)

    def counted(self) -> list[int]:
        """Return the executions that were not skipped, in order.

        pytest's plugin for reruns reports an execution that failed, and was followed by another
        one, like one that passed.
        """
        found = [outcome for outcome in self.outcomes if outcome != SKIPPED]
        return [FAILED] * (len(found) - 1) + found[-1:] if self.by_pytest else found


FAILED, PASSED, SKIPPED = 1, 0, -1
_Runs = dict[tuple[_Key, str], _Executions]
"""What a file has of each test at each moment."""


MIN_OUTAGE = 20
"""Tests that a file must have before it can tell of an outage."""


class _Tally:
    """Collects the runs of tests, file by file."""

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._tests: dict[_Key, int] = {}
        self._codes, self._rewards, self._files = array("q"), array("b"), array("q")
        self._skipped = array("q")
        self._both: list[tuple[int, int]] = []
        self._names: list[str] = []
        self._commits: list[str] = []
        self._reruns = 0
        self._texts: dict[int, str] = {}

    def add(self, report: _Report) -> None:
        """Add what a file has."""
        file = len(self._names)
        self._names.append(report.name)
        self._commits.append(report.commit)
        for (key, _), executions in report.runs.items():
            code = self._tests.setdefault(key, len(self._tests))
            if code == len(self._skipped):
                self._skipped.append(0)
            if executions.text:
                self._texts[code] = executions.text
            found = executions.counted()
            self._skipped[code] += not found
            counting = found if self._every else found[:1]
            if len(set(found)) > 1:
                self._both.append((code, file))
            self._reruns += len(found) - len(counting)
            self._codes.extend([code] * len(counting))
            self._rewards.extend(counting)
            self._files.extend([file] * len(counting))
        if len(self._tests) > MAX_TESTS:
            raise InvalidParameter(f"The reports have more than {MAX_TESTS:,} tests.")

    def history(self, files: int, damaged: dict[str, str], copies: int) -> RunHistory:
        """Return the history of all files."""
        if not self._tests:
            first = f": {next(iter(damaged.values()))}" if damaged else "."
            many = f"the {files:,} of {files + len(damaged):,} files that could be read"
            raise InvalidParameter(f"There are no tests in {many}{first}")
        codes, rewards = np.array(self._codes, np.int64), np.array(self._rewards, np.float64)
        of_file = np.array(self._files, np.int64)
        outage = self._outages(codes, rewards, of_file)
        kept = ~outage[of_file]
        codes, rewards, of_file = codes[kept], rewards[kept], of_file[kept]
        flaky = {code for code, file in self._both if not outage[file]}
        flaky |= self._changed_at_a_commit(codes, rewards, of_file)
        ends = np.cumsum(np.bincount(codes, minlength=len(self._tests)))[:-1]
        parts = np.split(rewards[np.argsort(codes, kind="stable")], ends)
        names = _names_of(list(self._tests))
        records, counts = {}, []
        for code, (name, part) in enumerate(zip(names, parts, strict=True)):
            passes = np.flatnonzero(part == PASSED)
            if passes.size:
                records[name] = part[passes[0] + 1 :]
            failing = "flaky" if code in flaky else "broken"
            place = "compared" if passes.size else failing if part.size else "skipped"
            counts.append(RunCount(name, part.size, int(part.sum()), self._skipped[code], place))
        proven = tuple(names[code] for code in sorted(flaky))
        aside = tuple(self._names[file] for file in np.flatnonzero(outage))
        last = {names[code]: text for code, text in self._texts.items()}
        return RunHistory(
            records, tuple(counts), files, damaged, self._reruns, copies, proven, aside, last
        )

    def _outages(self, codes: Any, rewards: FloatArray, of_file: Any) -> Any:
        """Return for each file whether half of its tests failed, of those that pass elsewhere."""
        passing = np.bincount(codes, rewards == PASSED, len(self._tests))[codes] > 0
        sizes = np.bincount(of_file, passing, len(self._names))
        failed = np.bincount(of_file, passing * rewards, len(self._names))
        return (sizes >= MIN_OUTAGE) & (2 * failed >= sizes)

    def _changed_at_a_commit(self, codes: Any, rewards: FloatArray, of_file: Any) -> set[int]:
        """Return the tests that passed and failed at one commit."""
        numbers = {commit: number for number, commit in enumerate(dict.fromkeys(self._commits))}
        at = np.array([numbers[commit] if commit else -1 for commit in self._commits])[of_file]
        places = (codes * len(numbers) + at)[at >= 0]
        failed = rewards[at >= 0] == FAILED
        both = np.intersect1d(places[failed], places[~failed])
        return set((both // len(numbers)).tolist())


# Names


def _names_of(keys: Sequence[_Key]) -> list[str]:
    """Return a name for each test: the shortest that no other has."""
    names = [_name(key, 0) for key in keys]
    for level in (1, 2):
        counts = Counter(names)
        names = [
            name if counts[name] == 1 else _name(key, level)
            for key, name in zip(keys, names, strict=True)
        ]
    return _numbered(names)


def _name(key: _Key, level: int) -> str:
    """Return a name; on higher levels it has more of what is known."""
    node = _node_id(key)
    if level == 0 and node:
        return node
    own = _own_name(key) or "(no name)"
    first = [key.suite if level and key.suite != key.classname else ""]
    first += [key.file if level > 1 else ""]
    return "::".join([*(part for part in first if part), own])


def _own_name(key: _Key) -> str:
    """Return class and name, or the name alone where it has the class in it."""
    where = key.classname or key.suite
    if not key.name or not where:
        return key.name or where
    before = tuple(f"{where}{mark}" for mark in (".", " ", "::", "/"))  # as in shop.Login.works(1)
    if key.name == where or key.name.startswith(before) or key.name.endswith(f" {where}"):
        return key.name
    return f"{where}::{key.name}"


def _node_id(key: _Key) -> str:
    """Return pytest's name of a test whose file is known; empty for all others."""
    if not key.file.endswith(".py"):
        return ""
    module = key.file.removesuffix(".py").replace("\\", "/").replace("/", ".")
    if key.classname != module and not key.classname.startswith(f"{module}."):
        return ""
    classes = key.classname[len(module) + 1 :].split(".") if key.classname != module else []
    return "::".join([key.file, *classes, key.name])


def _numbered(names: list[str]) -> list[str]:
    """Return unique names: repeated ones get a number."""
    taken, seen = set(names), set[str]()
    result = []
    for name in names:
        own = name
        if name in seen:
            own = next(new for i in count(2) if (new := f"{name} ({i})") not in taken)
        seen.add(name)
        taken.add(own)
        result.append(own)
    return result
