"""Which tests are flaky, broken or clean: the question of ``pytest --oddarms``.

A test that has passed and failed on the same code is *flaky*, which needs no statistics. One that
has always failed is *broken*. One that has never failed is *clean* at a rate r after

    m = ceil(log(n/delta) / -log(1 - r))

runs: a test that fails in a share r of its runs, or more, passes m times in a row with probability
at most (1 - r)^m <= delta/n. So with probability at least 1 - delta, *every one* of the n tests
that fails in at least r of its runs is seen to fail.

A flaky test runs on until it has failed F times or has had F/r runs, so that its interval is narrow
(`failures_for`). Both limits are fixed in advance, so the interval of Clopper and Pearson is exact:
of such a curtailed sequence the event "at most as many failures in at least as many runs" is one
about the first so many runs, as with a fixed number of them. So a test is listed as flaky with an
interval that misses its rate with probability at most 5 %.

Tests that cannot be repeated
-----------------------------
Some sound tests fail if they run twice in one process. So runs are told apart: the *first* run of a
test in its process, runs *again* in the same process, and runs *alone*, in a process of their own
in which nothing ran before. Where all runs again fail and all others pass, the test is called
*unrepeatable*: its runs again are shown but do not count. A flaky test of any rate p looks so with
probability at most p^4 (1 - p)^6 <= 0.0012; and then it still needs m passes to be called clean.
`alone_next` says when a run should be alone.

There is no clock here, no chance and no I/O.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.binomial import clopper_pearson
from oddarms.statistics.threshold_box import bounds_over_box

MIN_FAILURES = 10
"""Runs that must all have failed before a test is called broken; more in larger suites."""
MAX_BROKEN = 0.2
"""With probability at least 1 - delta, all broken tests pass in a smaller share of their runs."""
AGAIN = 4
"""Runs again that must all have failed before a test is called unrepeatable,"""
ALONE = 5
"""and runs alone that must all have passed."""
MAX_AGAIN = 20
"""Runs again after which no run alone is expected any more."""
CONFIDENCE = 0.95
"""Of the interval of a single test."""
DRIFT = 0.001
"""Probability that a test without drift is reported as drifting."""


class Kind(StrEnum):
    """What is known of a test."""

    FLAKY = "flaky"
    BROKEN = "broken"
    CLEAN = "clean"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"


class Where(StrEnum):
    """Which run of a test it was: the first in its process, a later one, or one alone."""

    FIRST = "first"
    AGAIN = "again"
    ALONE = "alone"


@dataclass
class Tally:
    """Some runs, and how many of them failed."""

    runs: int = 0
    failures: int = 0

    @property
    def passes(self) -> int:
        """Runs that did not fail."""
        return self.runs - self.failures

    def add(self, *, failed: bool) -> None:
        """Count a run."""
        self.runs += 1
        self.failures += failed

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.runs + other.runs, self.failures + other.failures)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.runs - other.runs, self.failures - other.failures)


@dataclass
class Case:
    """The runs of one test.

    Those that are `stored` come from other sessions with the same version of the code. `order` has
    the outcomes of this session's runs but those alone, 1 for a failure. `skipped` says whether the
    first run skipped the test; `text`, why, or how it failed last.
    """

    stored: Tally = field(default_factory=Tally)
    first: Tally = field(default_factory=Tally)
    again: Tally = field(default_factory=Tally)
    alone: Tally = field(default_factory=Tally)
    order: bytearray = field(default_factory=bytearray)
    skipped: bool = False
    text: str = ""
    seconds: float = 0.0

    @property
    def timed(self) -> int:
        """The runs of this session, whether they count or not."""
        return self.first.runs + self.again.runs + self.alone.runs

    @property
    def pace(self) -> float:
        """Seconds that a run takes."""
        return self.seconds / self.timed if self.timed else 0.0

    @property
    def unrepeatable(self) -> bool:
        """True if it fails if and only if it ran before in the same process."""
        return (
            self.again.failures == self.again.runs >= AGAIN
            and self.alone.runs >= ALONE
            and self.first.runs > 0
            and self.alone.failures == self.first.failures == 0
        )

    @property
    def suspicious(self) -> bool:
        """True if it may turn out to be unrepeatable after some more runs."""
        return (
            0 < self.again.failures == self.again.runs
            and self.first.failures == self.alone.failures == 0
            and not self.unrepeatable
        )

    @property
    def here(self) -> Tally:
        """The runs of this session that count."""
        parts = [self.first, self.alone, *([] if self.unrepeatable else [self.again])]
        return Tally(sum(p.runs for p in parts), sum(p.failures for p in parts))

    @property
    def counted(self) -> Tally:
        """All runs that count."""
        return self.stored + self.here


class Flakiness:
    """What is known of n tests, and what they still need, by the options of the same names.

    Without `can_isolate`, runs alone are not possible.
    """

    def __init__(
        self,
        n: int,
        *,
        rate: float = 0.05,
        delta: float = 0.05,
        precision: float = 0.2,
        can_isolate: bool = True,
    ) -> None:
        self.rate = rate
        self.delta = delta
        self.can_isolate = can_isolate
        self.cases = [Case() for _ in range(n)]
        self.runs_to_be_clean = runs_to_exclude(n, rate, delta)
        self.runs_to_be_broken = max(runs_to_exclude(n, MAX_BROKEN, delta), MIN_FAILURES)
        self.max_failures = failures_for(precision)
        self.max_runs = math.ceil(self.max_failures / rate)

    @property
    def n(self) -> int:
        """The number of tests."""
        return len(self.cases)

    def tell(self, test: int, where: Where, *, failed: bool) -> None:
        """Take the outcome of a run; one that was skipped has not failed."""
        case = self.cases[test]
        tally: Tally = getattr(case, where.value)
        tally.add(failed=failed)
        if where is not Where.ALONE:
            case.order.append(failed)

    def skip(self, test: int) -> None:
        """Leave a test out: its first run was skipped."""
        self.cases[test].skipped = True

    def kind(self, test: int) -> Kind:
        """Return what is known of a test."""
        case = self.cases[test]
        seen = case.counted
        if case.skipped:
            return Kind.SKIPPED
        if seen.failures and seen.passes:
            return Kind.FLAKY
        if seen.failures:
            enough = seen.failures >= self.runs_to_be_broken
            return Kind.BROKEN if enough else Kind.UNDECIDED
        return Kind.CLEAN if seen.runs >= self.runs_to_be_clean else Kind.UNDECIDED

    def kinds(self) -> list[Kind]:
        """Return what is known of each test."""
        return [self.kind(test) for test in range(self.n)]

    def needed(self, test: int) -> int:
        """Return how many more runs decide what a test is; 0 if that is known."""
        case, kind = self.cases[test], self.kind(test)
        if kind is Kind.UNDECIDED:
            seen = case.counted
            goal = self.runs_to_be_broken if seen.failures else self.runs_to_be_clean
            return goal - seen.runs
        if kind is Kind.FLAKY and self.can_isolate and case.suspicious:
            missing = max(AGAIN - case.again.runs, 0) + max(ALONE - case.alone.runs, 0)
            return missing if case.again.runs < MAX_AGAIN else 0
        return 0

    def wanted(self, test: int) -> int:
        """Return about how many more runs make the interval of a flaky test narrow enough."""
        seen = self.cases[test].counted
        missing = self.max_failures - seen.failures
        if self.kind(test) is not Kind.FLAKY or missing <= 0:
            return 0
        left = self.max_runs - seen.runs
        return max(min(math.ceil(missing * seen.runs / seen.failures), left), 0)

    def abnormal(self, k: float = 2.0, margin: float = 0.05) -> set[int]:
        """Return the tests that stand out, with probability at least 1 - delta rightly so.

        Their failure rates lie at or above mean + k standard deviations and mean + margin of all
        tests that are not broken, wherever the rates lie within intervals that all hold together.
        """
        tests = [
            i
            for i, case in enumerate(self.cases)
            if case.counted.runs and self.kind(i) not in (Kind.SKIPPED, Kind.BROKEN)
        ]
        if len(tests) < 2:
            return set()
        seen = [self.cases[i].counted for i in tests]
        low, high = clopper_pearson(
            np.array([tally.failures for tally in seen]),
            np.array([tally.runs for tally in seen]),
            self.delta / (2.0 * self.n),
        )
        sd = bounds_over_box(low, high, k).most_at_low
        centre = high.mean() - (high - low) / len(tests)
        return {
            i for i, odd in zip(tests, low >= np.maximum(sd, centre + margin), strict=True) if odd
        }

    def drift(self, test: int) -> float:
        """Return the p-value of "a test's rate did not change in this session"; exact.

        Given their number, failures are spread over the runs by chance: it is the probability that
        all runs before the first failure, or more, pass. The last run is left out, which may be a
        failure because that ended the runs.
        """
        order = self.cases[test].order[:-1]
        runs, failures = len(order), sum(order)
        if failures == 0:
            return 1.0
        return math.comb(runs - order.index(1), failures) / math.comb(runs, failures)

    def drift_text(self, test: int) -> str:
        """Return what a late first failure looks like; nothing where it is not late."""
        case = self.cases[test]
        if case.suspicious or case.unrepeatable or self.drift(test) > DRIFT:
            return ""
        return f"fails only after about {case.order.index(1):,} runs"


def alone_next(first: Tally, again: Tally, alone: Tally) -> bool:
    """Return whether the next run of a test should be alone, by its runs in one process so far.

    A test that has not passed again after failing may be broken, a victim of tests before it, or
    not made to be repeated. Runs alone tell: a test that passes alone stays alone.
    """
    if again.passes:
        return False
    if first.failures:  # broken, or a victim
        return again.runs >= 1 and alone.runs < ALONE and not alone.failures
    if again.runs < AGAIN:
        return again.failures >= 2 and alone.runs < ALONE and not alone.failures
    return not alone.failures


def runs_to_exclude(n: int, rate: float, delta: float) -> int:
    """Return after how many passes of each of n tests a failure rate is excluded for all of them.

    Examples
    --------
    >>> runs_to_exclude(431, 0.05, 0.05), runs_to_exclude(1, 0.05, 0.05)
    (177, 59)
    """
    return max(math.ceil(math.log(max(n, 1) / delta) / -math.log1p(-rate) - 1e-9), 1)


def excluded_rate(runs: int, n: int, delta: float) -> float:
    """Return the least failure rate that so many passes of each of n tests exclude.

    Examples
    --------
    >>> round(excluded_rate(177, 431, 0.05), 3), excluded_rate(0, 431, 0.05)
    (0.05, 1.0)
    """
    return 1.0 - (delta / max(n, 1)) ** (1.0 / runs) if runs else 1.0


def failures_for(precision: float) -> int:
    """Return how many failures make half an interval this share of a small failure rate.

    Examples
    --------
    >>> failures_for(0.2), failures_for(0.5)
    (102, 18)
    """
    from scipy.special import gammaincinv

    tail = (1.0 - CONFIDENCE) / 2.0
    failures = 1
    while True:
        width = gammaincinv(failures + 1, 1.0 - tail) - gammaincinv(failures, tail)
        if width <= 2.0 * precision * failures:
            return failures
        failures += max(failures // 50, 1)


def fair_share(spent: FloatArray, wanted: FloatArray, available: float) -> float:
    """Return the level up to which each test may spend: what some do not need is left to others.

    Of each test, `spent` is what it has spent, such as seconds, and `wanted` what it would in all.

    Examples
    --------
    >>> fair_share(np.zeros(3), np.array([1.0, 1.0, 50.0]), 10.0)
    8.0
    >>> fair_share(np.zeros(2), np.array([1.0, 2.0]), 10.0)
    inf
    """
    if float((wanted - spent).sum()) <= available:
        return math.inf
    low, high = 0.0, float(wanted.max())
    for _ in range(50):
        level = 0.5 * (low + high)
        cost = float(np.maximum(np.minimum(wanted, level) - spent, 0.0).sum())
        low, high = (level, high) if cost <= available else (low, level)
    return round(low, 9)
