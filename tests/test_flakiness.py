"""Which tests are flaky: every statement holds as often as it says, and takes no more runs."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from helpers import quick_and_long
from oddarms.pytest_plugin import Settings
from oddarms.pytest_plugin._flakiness import (
    ALONE,
    DRIFT,
    Flakiness,
    Kind,
    Tally,
    Where,
    alone_next,
    excluded_rate,
    failures_for,
    runs_to_exclude,
)
from oddarms.pytest_plugin._report import Answer
from oddarms.pytest_plugin._running import Clock, Outcome, Status
from oddarms.pytest_plugin._sampling import FlakyTests
from oddarms.report import Row
from oddarms.statistics.binomial import clopper_pearson, most_errors

FALSE_ALARM = 1e-6


def least_errors(runs: int, rate: float) -> int:
    """Return the fewest errors that a rate explains, with the same false alarm."""
    from scipy.stats import binom

    return int(binom.ppf(FALSE_ALARM, runs, rate))


def outcomes(known: Flakiness, test: int, text: str, where: Where = Where.AGAIN) -> None:
    """Tell the outcomes of runs: p or f."""
    for letter in text:
        known.tell(test, where, failed=letter == "f")


def played(known: Flakiness, rates: list[float], rng: np.random.Generator) -> None:
    """Run every test until nothing more is needed."""
    for test, rate in enumerate(rates):
        draws = iter(rng.random(known.max_runs + known.runs_to_be_clean) < rate)
        while known.needed(test) or known.wanted(test):
            known.tell(test, Where.ALONE, failed=bool(next(draws)))


# The statement about tests that have not failed


def test_a_test_at_the_rate_is_missed_as_often_as_delta_says() -> None:
    """The worst case: all tests fail exactly at the rate. Neither more misses nor far fewer."""
    n, rate, delta, suites = 8, 0.2, 0.2, 4000
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(suites):
        known = Flakiness(n, rate=rate, delta=delta, precision=0.9)
        for test in range(n):
            while known.kind(test) is Kind.UNDECIDED:
                known.tell(test, Where.ALONE, failed=rng.random() < rate)
        missed += Kind.CLEAN in known.kinds()
    exact = 1.0 - (1.0 - (1.0 - rate) ** known.runs_to_be_clean) ** n
    assert exact <= delta
    assert missed <= most_errors(suites, delta, FALSE_ALARM)
    assert least_errors(suites, exact) <= missed <= most_errors(suites, exact, FALSE_ALARM)
    shorter = 1.0 - (1.0 - (1.0 - rate) ** (known.runs_to_be_clean - 3)) ** n
    assert least_errors(suites, shorter) > most_errors(suites, delta, FALSE_ALARM)  # it would show


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("n", [1, 2, 10, 50, 215, 240, 416, 1000, 1400, 5000, 20_000])
def test_runs_to_be_clean_are_at_the_limit(n: int, rate: float) -> None:
    runs = runs_to_exclude(n, rate, 0.05)
    assert (1.0 - rate) ** runs <= 0.05 / n * (1 + 1e-9)
    assert runs <= math.log(n / 0.05) / -math.log(1.0 - rate) + 1
    assert excluded_rate(runs, n, 0.05) <= rate + 1e-9


@pytest.mark.parametrize("n", quick_and_long([1, 50, 416], [2, 1400]))
def test_a_healthy_suite_takes_at_most_one_and_a_half_times_the_limit(n: int) -> None:
    sampling = sampled(n, lambda index, rng: False)  # noqa: ARG005
    assert set(sampling.known.kinds()) == {Kind.CLEAN}
    limit = math.log(n / 0.05) / -math.log(0.95)
    assert max(case.counted.runs for case in sampling.known.cases) <= 1.5 * limit
    assert sampling.runs <= 1.5 * n * limit


def test_a_quarter_of_flaky_tests_is_told_apart_with_runs_near_the_limit() -> None:
    rates = [0.0] * 30 + [0.06, 0.1, 0.2, 0.5, 0.9, 1.0]
    sampling = sampled(len(rates), lambda index, rng: rng.random() < rates[index])
    kinds = sampling.known.kinds()
    assert kinds == [Kind.CLEAN] * 30 + [Kind.FLAKY] * 5 + [Kind.BROKEN]
    assert all(case.counted.runs <= 131 for case in sampling.known.cases[:30])


# Intervals and marks


@pytest.mark.parametrize("rate", quick_and_long([0.05, 0.5], [0.01, 0.2, 0.95]))
def test_intervals_hold_though_the_runs_end_by_what_came_out(rate: float) -> None:
    trials = 800
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(trials):
        known = Flakiness(1, precision=0.5)
        played(known, [rate], rng)
        seen = known.cases[0].counted
        low, high = Row("test", "flaky", seen.runs, seen.failures).interval
        wrong += not low <= rate <= high
    # one tail more than the interval's own two: that of never having failed
    assert wrong <= most_errors(trials, 0.075, FALSE_ALARM)


@pytest.mark.parametrize("precision", [0.2, 0.5])
def test_intervals_are_as_narrow_as_was_asked(precision: float) -> None:
    failures = failures_for(precision)
    for rate in (0.05, 0.3, 0.9):
        runs = round(failures / rate)
        (low,), (high,) = clopper_pearson(np.array([failures]), np.array([runs]), 0.025)
        assert (high - low) / 2.0 <= precision * failures / runs * 1.01
    known = Flakiness(100, precision=precision)
    outcomes(known, 0, "p" + "f" * (failures - 1))
    assert known.wanted(0) > 0
    outcomes(known, 0, "f")
    assert known.wanted(0) == 0


def test_hardly_flaky_tests_do_not_run_for_ever() -> None:
    known = Flakiness(100)
    outcomes(known, 0, "f" + "p" * (known.max_runs - 2))
    assert known.wanted(0) == 1
    outcomes(known, 0, "p")
    assert known.wanted(0) == 0


@pytest.mark.parametrize("suites", quick_and_long([40], [150]))
def test_what_is_marked_abnormal_is(suites: int) -> None:
    """Against the truth, with rates near the threshold; and what is far above it is marked."""
    truth = [0.0] * 14 + [0.1, 0.12, 0.2, 0.7]
    threshold = max(np.mean(truth) + 2 * np.std(truth), np.mean(truth) + 0.05)
    odd = {i for i, rate in enumerate(truth) if rate >= threshold}
    wrong, found = 0, 0
    rng = np.random.default_rng(3)
    for _ in range(suites):
        known = Flakiness(len(truth), delta=0.1)
        played(known, truth, rng)
        marked = known.abnormal()
        wrong += not marked <= odd
        found += 17 in marked
    assert odd == {17}
    assert wrong <= most_errors(suites, 0.1, FALSE_ALARM)
    assert found > 0.95 * suites


# Kinds


def test_kinds() -> None:
    known = Flakiness(20)
    outcomes(known, 0, "pppf")
    outcomes(known, 1, "f" * (known.runs_to_be_broken - 1))
    outcomes(known, 2, "p" * known.runs_to_be_clean)
    known.skip(3)
    assert known.kinds()[:5] == [
        Kind.FLAKY, Kind.UNDECIDED, Kind.CLEAN, Kind.SKIPPED, Kind.UNDECIDED,
    ]  # fmt: skip
    assert known.needed(1) == 1
    outcomes(known, 1, "f")
    assert known.kind(1) is Kind.BROKEN
    outcomes(known, 2, "f")
    assert known.kind(2) is Kind.FLAKY  # nothing that failed is hidden
    known.cases[4].stored = Tally(known.runs_to_be_clean, 0)  # of other sessions
    known.cases[5].stored = Tally(5, 1)
    assert known.kinds()[4:6] == [Kind.CLEAN, Kind.FLAKY]
    alone = Flakiness(20, can_isolate=False)  # nothing more is needed of suspicious tests
    outcomes(alone, 0, "p", Where.FIRST)
    outcomes(alone, 0, "ff")
    assert alone.needed(0) == 0


def test_a_test_that_cannot_be_repeated_is_judged_by_the_runs_alone() -> None:
    known = Flakiness(20)
    outcomes(known, 0, "p", Where.FIRST)
    outcomes(known, 0, "fff")
    assert known.kind(0) is Kind.FLAKY
    assert known.needed(0) > 0
    outcomes(known, 0, "p" * ALONE, Where.ALONE)
    outcomes(known, 0, "f")
    assert known.cases[0].unrepeatable
    assert known.kind(0) is Kind.UNDECIDED
    outcomes(known, 0, "p" * known.needed(0), Where.ALONE)
    assert known.kind(0) is Kind.CLEAN
    outcomes(known, 0, "f", Where.ALONE)
    assert known.kind(0) is Kind.FLAKY
    assert known.cases[0].counted.failures == 5


@pytest.mark.parametrize(
    ("first", "again", "alone"),
    [("f", "ffff", "ppppp"), ("p", "fffff", "pppf"), ("p", "fpff", "p")],
)
def test_flaky_tests_are_not_called_unrepeatable(first: str, again: str, alone: str) -> None:
    known = Flakiness(20)
    for text, where in ((first, Where.FIRST), (again, Where.AGAIN), (alone, Where.ALONE)):
        outcomes(known, 0, text, where)
    assert not known.cases[0].unrepeatable
    assert known.kind(0) is Kind.FLAKY


def test_when_a_test_runs_alone() -> None:
    def after(first: str, again: str = "", alone: str = "") -> bool:
        return alone_next(*(Tally(len(t), t.count("f")) for t in (first, again, alone)))

    assert not after("p")
    assert not after("p", "ppp")
    assert not after("p", "f")
    assert after("p", "ff")
    assert not after("p", "ffp")
    assert not after("p", "ff", "f")  # flaky, not unrepeatable
    assert not after("p", "ff", "ppppp")
    assert after("p", "ffff", "ppppp")  # it stays alone
    assert not after("f")
    assert after("f", "f")  # broken, or a victim of the tests before it?
    assert not after("f", "f", "f")
    assert not after("f", "f", "ppppp")


# Drift


@pytest.mark.parametrize("trials", quick_and_long([900], [3000]))
def test_steady_tests_are_seldom_said_to_drift(trials: int) -> None:
    rng, alarms = np.random.default_rng(4), 0
    for trial in range(trials):
        known = Flakiness(1, precision=0.5)
        rate = (0.05, 0.2, 0.5)[trial % 3]
        draws = iter(rng.random(1000) < rate)
        while known.needed(0) or known.wanted(0):
            known.tell(0, Where.AGAIN, failed=bool(next(draws)))
        alarms += known.drift(0) <= 0.05
    assert alarms <= most_errors(trials, 0.05, FALSE_ALARM)
    assert alarms > 0


def test_drift_is_seen() -> None:
    known = Flakiness(4)
    outcomes(known, 0, "p" * 100 + "f" * 102)
    outcomes(known, 1, "ppppf" * 30)
    outcomes(known, 2, "p" * 50 + "f")
    outcomes(known, 3, "p" * 8 + "fp" * 4)
    assert known.drift_text(0) == "fails only after about 100 runs"
    assert [known.drift_text(test) for test in (1, 2, 3)] == [""] * 3
    assert known.drift(0) < DRIFT < known.drift(1)
    # of 15 runs before the last one, the first 8 pass: C(7, 4)/C(15, 4)
    assert known.drift(3) == pytest.approx(35 / 1365)


# Which test runs next


class Time:
    """A clock that only runs of tests move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(Clock, "now", lambda: self.now)


def sampled(
    n: int,
    fails: Callable[[int, random.Random], bool],
    settings: Settings | None = None,
    each: Callable[[FlakyTests, int], None] = lambda sampling, index: None,  # noqa: ARG005
) -> FlakyTests:
    """Sample tests in one process until it ends."""
    sampling = FlakyTests([f"test_{i}" for i in range(n)], settings or Settings(seed=1))
    rng, last = random.Random(2), None
    while (sample := sampling.next(last)) is not None:
        assert sample.index != last or n == 1 or len(left(sampling)) == 1
        last = sample.index
        each(sampling, last)
        failed = fails(last, rng)
        status = Status.FAILED if failed else Status.PASSED
        sampling.tell(sample, Outcome(status, "why" * failed, 0.01 * (1 + last % 3)))
    return sampling


def left(sampling: FlakyTests) -> list[int]:
    known = sampling.known
    return [i for i in range(known.n) if known.needed(i) or known.wanted(i)]


def test_the_first_round_has_the_order_of_the_collection() -> None:
    order: list[int] = []
    sampled(20, lambda index, rng: bool(order.append(index)))  # noqa: ARG005
    assert order[:20] == list(range(20))
    assert order[20:40] != list(range(20))


def test_the_time_is_shared_fairly_and_the_statement_stays_true(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ninety-nine quick tests are shown clean, and a slow one gets what is left."""
    time = Time(monkeypatch)

    def pace(index: int) -> float:
        return 10.0 if index == 50 else 0.01

    settings = Settings(seed=1, seconds=600.0)
    sampling = FlakyTests([f"test_{i}" for i in range(100)], settings)
    last = None
    while (sample := sampling.next(last)) is not None:
        last = sample.index
        time.now += pace(last)
        sampling.tell(sample, Outcome(Status.PASSED, "", pace(last)))
    runs = [case.counted.runs for case in sampling.known.cases]
    assert "10 minutes are over" in sampling.stopped
    assert time.now < 615.0
    assert runs.pop(50) >= 40
    assert min(runs) == sampling.known.runs_to_be_clean


def guesses(monkeypatch: pytest.MonkeyPatch, seed: int) -> list[tuple[float, float]]:
    """Return what a session said was to go, and what was, but for its first and last tenth."""
    time, known_at = Time(monkeypatch), 0.0
    said: list[tuple[float, float, str]] = []
    rates = [0.0] * 20 + [0.05, 0.2, 0.5, 1.0][: seed % 5]

    def each(sampling: FlakyTests, index: int) -> None:
        nonlocal known_at
        time.now += 0.01 * (1 + index % 3)
        if any(map(sampling.known.needed, range(sampling.known.n))):
            known_at = time.now
        if sampling.runs % 25 == 24:
            words = sampling.progress_text().rpartition("; about ")[2].split()
            if words[-1] in ("go", "known"):
                unit = 60.0 if words[1].startswith("minute") else 1.0
                said.append((time.now, unit * float(words[0]), words[-1]))

    sampled(len(rates), lambda i, rng: rng.random() < rates[i], Settings(seed=seed), each)
    ends = {"go": time.now, "known": known_at}
    return [(s, ends[e] - at) for at, s, e in said if 0.1 * ends[e] < at < 0.9 * ends[e]]


@pytest.mark.parametrize("seeds", quick_and_long([(1, 4)], [(range(5),)]))
def test_the_time_to_go_is_right_within_a_factor_of_two(
    monkeypatch: pytest.MonkeyPatch, seeds: Iterable[int]
) -> None:
    """In nine of ten moments."""
    found = [guess for seed in seeds for guess in guesses(monkeypatch, seed)]
    assert len(found) > 100
    assert sum(0.5 <= said / left <= 2.0 for said, left in found) >= 0.9 * len(found)


@pytest.mark.parametrize(
    ("runs", "statement"),
    [
        ([200] * 20, "every test that fails in 5 % of its runs or more is listed"),
        ([2, 2] + [200] * 18, "in 5 % of its runs or more is listed, but for 2 tests with fewer"),
        ([3, 3, 3] + [200] * 17, "every test that fails in 87 % of its runs or more is listed"),
        ([10] * 20, "every test that fails in 46 % of its runs or more is listed"),
        ([9] + [10] * 19, "every test that fails in 49 % of its runs or more is listed"),
        ([1] * 3 + [10] * 17, "too few runs to say more: 3 tests ran at most once"),
        ([0] * 20, "too few runs to say more: 20 tests did not run"),
    ],
)
def test_the_statement_is_the_sharpest_that_is_true(runs: list[int], statement: str) -> None:
    sampling = FlakyTests([f"test_{i}" for i in range(len(runs))], Settings())
    for case, count in zip(sampling.known.cases, runs, strict=True):
        case.stored = Tally(count, 0)
    said = Answer(sampling).statement()
    assert statement in said
    found = re.search("fails in ([0-9.]+) %", said)
    least = sorted(runs)[2 if "2 tests" in said else 0]
    assert found is None or excluded_rate(least, 20, 0.05) <= float(found[1]) / 100.0 + 1e-12


def test_progress_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    time, said = Time(monkeypatch), []

    def each(sampling: FlakyTests, index: int) -> None:
        del index
        time.now += 0.02
        said.append(sampling.progress_text())

    sampled(10, lambda index, rng: index == 3 and rng.random() < 0.5, each=each)
    assert said[5] == "0 flaky so far; first round, 5 of 10 tests"
    assert "1 flaky so far; 0 of 10 shown clean at 5 %; " in said[500]
    assert said[500].endswith(" seconds until all others are known")
    assert said[-1].endswith("; now the intervals of 1 flaky test")
