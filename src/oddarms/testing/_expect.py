"""Expected exceptions and results without a test framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import numpy as np

from oddarms.algorithms import Decision
from oddarms.rules import rule_of
from oddarms.search import Result

E = TypeVar("E", bound=BaseException)


class Caught(Generic[E]):
    """Holds the exception once it was raised."""

    error: E


@contextmanager
def raises(expected: type[E], *words: str) -> Iterator[Caught[E]]:
    """Fail unless the block raises `expected` with a message that contains every word.

    Examples
    --------
    >>> with raises(ZeroDivisionError, "division") as caught:
    ...     1 / 0
    >>> str(caught.error)
    'division by zero'
    """
    caught: Caught[E] = Caught()
    try:
        yield caught
    except expected as error:
        caught.error = error
        missing = [word for word in words if word not in str(error)]
        if missing:
            raise AssertionError(f"{missing} should be in the message {str(error)!r}.") from error
    else:
        raise AssertionError(f"{expected.__name__} should have been raised.")


def assert_consistent(result: Result) -> None:
    """Fail if the intervals of a result decide an arm that is undecided, or decided otherwise.

    All intervals hold together. So an arm whose interval lies below that of the upper threshold and
    above that of the lower one (of those there are) is normal, and one whose interval lies beyond
    that of a threshold is an outlier. For searches without an indifference.
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
