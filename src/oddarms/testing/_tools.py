"""Tools of the suite: consistent results, error rates, rewards that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from oddarms.algorithms import Decision
from oddarms.rules import rule_of
from oddarms.search import Result, Search
from oddarms.statistics.binomial import FALSE_ALARM, most_errors


def assert_consistent(result: Result) -> None:
    """Fail if the intervals of a result decide an arm that is undecided, or decided otherwise.

    An arm whose interval lies between those of the thresholds is normal; one whose interval lies
    beyond that of a threshold is an outlier. For searches without an indifference.
    """
    lower, upper = result.intervals.T
    normal, high, low = np.full((3, lower.size), [[True], [False], [False]])
    if "upper" in result.thresholds:
        _, least, most = result.thresholds["upper"]
        normal, high = upper < least, lower >= most
    if "lower" in result.thresholds:
        _, least, most = result.thresholds["lower"]
        low = (upper <= least) & (normal | rule_of(result.question).ordered) & ~high
        normal = normal & (lower > most)
    exempt = list(rule_of(result.question).exempt)
    for decision, decided in zip(
        (Decision.NORMAL, Decision.HIGH, Decision.LOW), (normal, high, low), strict=True
    ):
        decided[exempt] = False
        wrong = np.flatnonzero(decided & (result.decisions != decision))
        if wrong.size:
            arm = int(wrong[0])
            raise AssertionError(
                f"arm {result.labels[arm]!r} is {Decision(result.decisions[arm]).name}, but its"
                f" interval [{lower[arm]}, {upper[arm]}] and {result.thresholds} say"
                f" {decision.name}."
            )


def assert_error_rate(
    wrong: int, runs: int, delta: float, false_alarm: float = FALSE_ALARM
) -> None:
    """Fail if `wrong` errors in `runs` runs are more than a rate of delta explains.

    Parameters
    ----------
    wrong, runs
        The errors seen and the independent runs made.
    delta
        The permitted probability of an error in a run.
    false_alarm
        The probability with which this check may fail at a true rate of exactly delta.

    Examples
    --------
    >>> assert_error_rate(wrong=12, runs=100, delta=0.1)
    >>> assert_error_rate(wrong=28, runs=100, delta=0.1)
    Traceback (most recent call last):
    AssertionError: 28 errors in 100 runs, but a rate of 0.1 gives at most 27 (false alarm 1e-06).
    """
    most = most_errors(runs, delta, false_alarm)
    if wrong > most:
        raise AssertionError(
            f"{wrong} errors in {runs} runs, but a rate of {delta:g} gives at most {most}"
            f" (false alarm {false_alarm:g})."
        )


class Instance(NamedTuple):
    """Known means and the k of the question."""

    means: Sequence[float]
    k: float


class Streams:
    """Bernoulli rewards that do not depend on the order of pulls: the j-th of an arm is fixed.

    Parameters
    ----------
    means
        Probability of a 1, per arm.
    seeds
        One seed per arm, so that a permuted search can be given the permuted streams.
    """

    def __init__(self, means: Sequence[float], seeds: Sequence[int] | None = None) -> None:
        seeds = range(len(means)) if seeds is None else seeds
        self.means = means
        self._generators = [np.random.default_rng([7, seed]) for seed in seeds]

    def __call__(self, arm: int) -> float:
        """Return the next reward of an arm."""
        return float(self._generators[arm].random() < self.means[arm])


def drive(search: Search, rewards: Streams, *, steps: int | None = None) -> Result:
    """Ask and tell until the search is done, or for some steps, and return its result."""
    made = 0
    while not search.done and (steps is None or made < steps):
        pulls = search.ask_step()
        search.tell_step([rewards(int(i)) for i in np.repeat(pulls.indices, pulls.counts)])
        made += 1
    return search.result()


def assert_same(one: Result, two: Result) -> None:
    """Fail unless two results are equal, apart from their budgets and unused rewards."""
    documents = [result.to_dict() for result in (one, two)]
    for document in documents:
        del document["question"], document["unused"]
    assert documents[0] == documents[1]
