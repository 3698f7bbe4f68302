"""Formulas of numbers and sums over tables, as numpy computes them.

Compiled code takes them number by number: see `oddarms.simulation._loops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from oddarms.problem import FloatArray, IntArray

Numbers = Any
"""Floats of all arms, or of one in compiled code."""
Columns = Any
"""A table with a column for each arm, or one such column in compiled code."""
Formula = TypeVar("Formula", bound=Callable[..., Any])

FORMULAS: set[Callable[..., Any]] = set()


def elementwise(formula: Formula) -> Formula:
    """Mark a formula of `Numbers`: compiled code evaluates it for one arm after the other.

    numba would make a loop of each operation on arrays and need a tenth of a second for each.
    """
    FORMULAS.add(formula)
    return formula


def choose(condition: Numbers, yes: Numbers, no: Numbers) -> Numbers:
    """Return `yes` where the condition holds and `no` elsewhere; both are evaluated."""
    return np.where(condition, yes, no)


def row_sums(table: FloatArray) -> FloatArray:
    """Return the sum of each row."""
    sums: FloatArray = table.sum(1)
    return sums


def put(array: FloatArray, places: IntArray, values: FloatArray) -> None:
    """Set the entries at some places."""
    array[places] = values


@elementwise
def plus(x: Numbers, y: Numbers) -> Numbers:
    """Return x + y."""
    return x + y
