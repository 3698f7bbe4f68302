"""Error rates held against delta, with a stated probability of a false alarm."""

from __future__ import annotations

from oddarms.statistics.binomial import FALSE_ALARM, most_errors


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
