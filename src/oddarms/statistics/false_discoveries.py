"""False discovery rate: which names to give when a share of them may be wrong, from e-values.

Let w_i be numbers that sum to at most 1, and E_i an e-value against the hypothesis that the name of
arm i would be wrong, under any dependence. If every name in a list of size q has

    w_i E_i >= 1/(alpha q),

then the share of wrong names in the list is at most alpha on average, also if the list is chosen by
looking: e-BH (Wang and Ramdas 2022) with compound e-values (Ignatiadis, Wang and Ramdas 2024). Of
two lists such that no arm has a wrong name in both, the shares add up to at most alpha, on average.
``docs/explanation/fdr.md`` has the proof.
"""

from __future__ import annotations

import numpy as np

from oddarms.problem import BoolArray, FloatArray


def names(log_values: FloatArray, level: float, sure: int = 0) -> BoolArray:
    """Return the largest list of names of which each has at least level - log(size).

    Parameters
    ----------
    log_values
        The logs of n w_i E_i; minus infinity is never in the list.
    level
        log(n/alpha), with which a name would stand alone.
    sure
        Names that are in the list already, and count in its size.

    Examples
    --------
    >>> names(np.array([5.0, 4.0, 1.0]), level=4.5).tolist()
    [True, True, False]
    """
    ordered = np.sort(log_values)[::-1]
    sizes = sure + np.arange(1.0, ordered.size + 1.0)
    enough = np.flatnonzero(ordered >= level - np.log(sizes))
    if enough.size == 0:
        return np.zeros(log_values.size, dtype=np.bool_)
    named: BoolArray = log_values >= ordered[enough[-1]]
    return named
