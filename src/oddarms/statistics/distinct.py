"""Distinct rows, so that something expensive is computed once for equal rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oddarms.problem import FloatArray, IntArray

_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)


def distinct_rows(*columns: FloatArray) -> tuple[IntArray, IntArray]:
    """Return one place of each distinct row, and for every row which of these is like it.

    Rows are compared by a hash, which is verified; if two different rows ever had the same one, all
    rows would count as different, which is as right and takes longer.

    Parameters
    ----------
    *columns
        Numbers, of up to three columns of the same length; none is NaN.

    Examples
    --------
    >>> first, which = distinct_rows(np.array([1.0, 2.0, 1.0]), np.array([0.0, 0.0, 0.0]))
    >>> first.tolist(), which.tolist()
    ([0, 1], [0, 1, 0])
    """
    size = columns[0].size
    key: npt.NDArray[np.uint64] = np.zeros(size, dtype=np.uint64)
    for column, multiplier in zip(columns, _MULTIPLIERS, strict=False):
        bits = np.ascontiguousarray(column, dtype=np.float64).view(np.uint64)
        key = (key ^ bits ^ (bits >> np.uint64(29))) * np.uint64(multiplier)
        key ^= key >> np.uint64(32)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    first, which = _in_order(first.astype(np.int64), which.reshape(-1).astype(np.int64))
    if all((column[first][which] == column).all() for column in columns):
        return first, which
    everything = np.arange(size, dtype=np.int64)
    return everything, everything


def _in_order(first: IntArray, which: IntArray) -> tuple[IntArray, IntArray]:
    """Return the places in the order of the rows."""
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[which]
