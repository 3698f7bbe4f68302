"""What CI systems keep already: JUnit reports of many runs, as recorded samples of tests.

Which samples count
-------------------
A test whose first execution in a run failed is a sample of 1, one that passed a sample of 0. What
follows in the same run, a rerun, exists because the test failed, and does not count unless asked
for. A test that was skipped is no sample.

As in the pytest plugin, the samples of a test up to its first pass decide whether it is compared
with the others (one that has never passed is broken, not flaky), and nothing else: had they been
used for the answer, too, a test would have come in by having passed, and its rewards would be a
selection. The moment of the first pass is a stopping time, so what follows is as it would be had
somebody named the tests in advance, and the answer is right about these tests.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import FloatArray, check_choice
from oddarms.tables._files import Source, name_of, opened_bytes
from oddarms.tables._junit_files import files_of
from oddarms.tables._junit_names import names_of
from oddarms.tables._junit_xml import Case, Key, Report

Reruns = Literal["first", "all"]
"""Which executions of a test in one run count."""
Damaged = Literal["stop", "skip"]
"""What a file that is no report means: an error, or nothing."""
MOST_TESTS = 1_000_000


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
        "compared", or why it is not: "broken" (it has never passed) or "skipped" (always).
    """

    test: str
    runs: int
    failures: int
    skipped: int
    place: str


@dataclass(frozen=True, eq=False)
class RunHistory(Mapping[str, FloatArray]):
    """The samples of each test, 1 for a run that failed and 0 for one that passed.

    It is a mapping from test to samples, so `oddarms.find`, `Search.import_rewards` and studies
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
        The files that were left out as they are no reports, and why.
    reruns
        Executions that do not count, as they are reruns of a test in a run.
    copies
        Files with the same bytes as one before them.
    sha256
        Of all files, which tells whether they were read before.
    """

    records: dict[str, FloatArray]
    counts: tuple[RunCount, ...]
    files: int
    damaged: dict[str, str]
    reruns: int
    copies: int
    sha256: str

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
        """Return the tests that are compared, "broken" or "skipped"."""
        return [count for count in self.counts if count.place == place]

    def to_frame(self) -> Any:
        """Return one row per test, with its runs and failures, as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra.of("frame", "to_frame()") from None
        return pd.DataFrame(self.counts, columns=RunCount._fields)


def read_junit(
    sources: Source | Iterable[Source], *, reruns: Reruns = "first", damaged: Damaged = "stop"
) -> RunHistory:
    """Return the runs of tests that JUnit reports tell of.

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
        "stop" refuses a file that is no report, or is cut off; "skip" leaves it out. That is sound
        only if being damaged has nothing to do with tests that fail.

    Notes
    -----
    Reports of pytest, Maven Surefire and Gradle, gotestsum and go-junit-report, jest-junit, mocha,
    Bazel, GoogleTest, ScalaTest, PHPUnit, cargo-nextest, xUnit.net and NUnit are understood.
    Errors count as failures. A test is known by its suite, class, name and file. pytest's
    expected failures count as passes.

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
    files = files_of(sources)
    tally = _Tally(every=reruns == "all")
    whole, digests, left_out = hashlib.sha256(), set[bytes](), dict[str, str]()
    for file in files:
        try:
            runs, digest = _read(file)
        except InvalidParameter as error:
            if damaged == "stop":
                raise
            left_out[name_of(file)] = str(error)
            continue
        tally.add(runs)
        digests.add(digest)
        whole.update(digest)
    read = len(files) - len(left_out)
    return tally.history(read, left_out, read - len(digests), whole.hexdigest())


@dataclass
class _Executions:
    """What one run has of one test: 1 failed, 0 passed, -1 skipped."""

    outcomes: array[int]
    by_pytest: bool

    def add(self, case: Case) -> None:
        """Add an element of a report."""
        if case.at_teardown and self.by_pytest and self.outcomes and self.outcomes[-1] == FAILED:
            return  # the second element of one execution
        self.outcomes.extend([FAILED] * case.before)
        self.outcomes.append(SKIPPED if case.reward is None else int(case.reward))
        self.outcomes.extend([FAILED] * case.after)

    def counted(self) -> list[int]:
        """Return the executions that were not skipped, in order.

        pytest's plugin for reruns reports an execution that failed, and was followed by another
        one, like one that passed.
        """
        found = [outcome for outcome in self.outcomes if outcome != SKIPPED]
        return [FAILED] * (len(found) - 1) + found[-1:] if self.by_pytest else found


FAILED, PASSED, SKIPPED = 1, 0, -1
_Runs = dict[tuple[Key, str], _Executions]
"""What a file has of each test at each moment."""


def _read(file: str) -> tuple[_Runs, bytes]:
    """Return what a file has, all of it or an error, and its hash."""
    runs: _Runs = {}
    name = name_of(file)
    report = Report(name)
    with opened_bytes(file) as content:
        for case in report.cases(content):
            place = (case.key, case.moment)
            if place not in runs:
                runs[place] = _Executions(array("b"), case.by_pytest)
                if len(runs) > MOST_TESTS:
                    raise _too_many(name)
            runs[place].add(case)
        return runs, report.hash.digest()


def _too_many(name: str) -> InvalidParameter:
    return InvalidParameter(f"{name} must have at most {MOST_TESTS:,} tests but has more.")


class _Tally:
    """Collects the runs of tests, file by file."""

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._tests: dict[Key, int] = {}
        self._codes, self._rewards = array("q"), array("b")
        self._skipped = array("q")
        self._reruns = 0

    def add(self, runs: _Runs) -> None:
        """Add what a file has."""
        for (key, _), executions in runs.items():
            code = self._tests.setdefault(key, len(self._tests))
            if code == len(self._skipped):
                self._skipped.append(0)
            found = executions.counted()
            self._skipped[code] += not found
            counting = found if self._every else found[:1]
            self._reruns += len(found) - len(counting)
            self._codes.extend([code] * len(counting))
            self._rewards.extend(counting)
        if len(self._tests) > MOST_TESTS:
            raise _too_many("junit")

    def history(self, files: int, damaged: dict[str, str], copies: int, sha256: str) -> RunHistory:
        """Return all that was collected."""
        if not self._tests:
            first = f": {next(iter(damaged.values()))}" if damaged else "."
            many = f"in the {files:,} of {files + len(damaged):,} files that were read"
            raise InvalidParameter(f"junit must have tests but has none {many}{first}")
        codes, rewards = np.array(self._codes, np.int64), np.array(self._rewards, np.float64)
        ends = np.cumsum(np.bincount(codes, minlength=len(self._tests)))[:-1]
        parts = np.split(rewards[np.argsort(codes, kind="stable")], ends)
        records, counts = {}, []
        for name, part, skipped in zip(
            names_of(list(self._tests)), parts, self._skipped, strict=True
        ):
            passes = np.flatnonzero(part == PASSED)
            if passes.size:
                records[name] = part[passes[0] + 1 :]
            place = "compared" if passes.size else "broken" if part.size else "skipped"
            counts.append(RunCount(name, part.size, int(part.sum()), skipped, place))
        return RunHistory(records, tuple(counts), files, damaged, self._reruns, copies, sha256)
