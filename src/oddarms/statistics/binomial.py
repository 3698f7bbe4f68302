"""How many errors a rate of delta explains, with a stated probability of a false alarm."""

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
