"""False discovery rate: which names to give when a share of them may be wrong, from e-values.

Let E_1, ..., E_n be e-values, each against the hypothesis that its name would be wrong, under any
dependence. For the set N of names that would be wrong, the average of their e-values is an e-value
E_N too. A set R of names is *supported* at level alpha if for every set S of names

    |R and S| / |R| <= alpha * (average of E_i over S).

Take S = N: the share of wrong names in R is at most alpha E_N, whose expectation is at most alpha,
also if R is chosen among all supported sets by looking (closed e-BH, arXiv 2504.11759). Plain e-BH
(Wang and Ramdas 2022), E_i >= n/(alpha |R|) for all i in R, is a special case.
"""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import BoolArray, FloatArray

LARGEST_LOG = 600.0
CANDIDATES = 40


def supported(log_values: FloatArray, size: int, alpha: float) -> bool:
    """Return whether the `size` largest e-values are a supported set.

    For the worst S with r names of R, these are the r smallest of R, and of the others all with
    E_j < c r, c = 1/(alpha |R|): with sums over both, sum E >= c r |S| is asked for, that is
    sum_r E + sum_j min(E_j - c r, 0) >= c r^2. Both sides are sums of non-negative numbers, and the
    left one is lowered, the right one raised by what rounding may have done to it.
    """
    values = np.exp(np.minimum(np.sort(log_values), LARGEST_LOG))
    rest, chosen = values[: values.size - size], values[values.size - size :]
    needed = np.arange(1.0, size + 1.0) / (alpha * size)
    sums = np.concatenate([[0.0], np.cumsum(rest)])
    few = np.searchsorted(rest, needed)
    have, missing = np.cumsum(chosen) + sums[few], needed * (few + np.arange(1.0, size + 1.0))
    slack = 4.0 * values.size * np.finfo(np.float64).eps
    return bool((have * (1.0 - slack) >= missing * (1.0 + slack)).all())


def largest_by_e_bh(log_values: FloatArray, alpha: float) -> int:
    """Return the size of the set of plain e-BH: the largest q with E_[q] >= n/(alpha q)."""
    ordered = np.sort(log_values)[::-1]
    ranks = np.arange(1.0, ordered.size + 1.0)
    enough = np.flatnonzero(ordered >= math.log(ordered.size / alpha) - np.log(ranks))
    return int(enough[-1]) + 1 if enough.size else 0


def discoveries(log_values: FloatArray, alpha: float) -> BoolArray:
    """Return a supported set of names, the largest of those tried; minus infinity is never in it.

    All names that have evidence are tried first, then smaller sets of the largest e-values.
    """
    most, least = int((log_values > -math.inf).sum()), largest_by_e_bh(log_values, alpha)
    sizes = np.unique(np.linspace(least, most, CANDIDATES).astype(np.int64))[::-1]
    larger = (int(size) for size in sizes if size > least)
    size = next((size for size in larger if supported(log_values, size, alpha)), least)
    chosen: BoolArray = np.zeros(log_values.size, dtype=np.bool_)
    chosen[np.argsort(-log_values, kind="stable")[:size]] = True
    return chosen
