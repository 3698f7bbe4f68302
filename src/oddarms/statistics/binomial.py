"""How many errors a rate of delta explains, with a stated probability of a false alarm."""

from __future__ import annotations

import numpy as np

from oddarms.problem import FloatArray

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


def clopper_pearson(
    failures: FloatArray, runs: FloatArray, tail: float
) -> tuple[FloatArray, FloatArray]:
    """Return the exact lower and upper limits of failure rates, each wrong with this probability.

    Examples
    --------
    >>> low, high = clopper_pearson(np.array([0, 5]), np.array([59, 10]), 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.222], [0.05, 0.778])
    """
    from scipy.special import betaincinv

    passes = runs - failures
    low = np.where(failures > 0, betaincinv(np.maximum(failures, 1), passes + 1, tail), 0.0)
    high = np.where(passes > 0, betaincinv(failures + 1, np.maximum(passes, 1), 1.0 - tail), 1.0)
    return low, high
