"""Error rates held against delta, with a stated probability of a false alarm."""

from __future__ import annotations

FALSE_ALARM = 1e-6
"""The probability with which one check rejects an algorithm that is exactly delta-correct."""


def most_errors(runs: int, delta: float, false_alarm: float = FALSE_ALARM) -> int:
    """Return the largest number of errors in `runs` runs that a rate of delta explains.

    The smallest c with P(Binomial(runs, delta) > c) <= false_alarm, exactly.

    Examples
    --------
    >>> most_errors(100, 0.1)  # P(Binomial(100, 0.1) > 27) = 3.5e-7, and 1.2e-6 for 26
    27
    """
    from scipy.stats import binom

    return int(binom.isf(false_alarm, runs, delta))


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
