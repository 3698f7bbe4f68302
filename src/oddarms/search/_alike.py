"""Whether two searches are the same, but for rounding: machines round sums differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

RELATIVE, ABSOLUTE = 1e-6, 1e-9


def alike(one: Any, other: Any) -> bool:
    """Return whether two objects of plain data agree up to rounding.

    Numbers with a fraction may differ by a millionth; everything else, whole numbers, decisions
    and the state of generators included, must be equal.
    """
    return all(_agree(a, b) for a, b in _pairs(one, other, set()))


def _pairs(one: Any, other: Any, seen: set[tuple[int, int]]) -> Iterator[tuple[Any, Any]]:
    """Yield the values of two trees that stand at the same place; a pair that cannot agree, too."""
    if (id(one), id(other)) in seen:
        return
    parts = _parts(one), _parts(other)
    if type(one) is not type(other) or parts[0] is None or parts[1] is None:
        yield one, other
        return
    seen.add((id(one), id(other)))
    yield list(parts[0]), list(parts[1])
    for key in parts[0].keys() & parts[1].keys():
        yield from _pairs(parts[0][key], parts[1][key], seen)


def _parts(value: Any) -> dict[Any, Any] | None:
    """Return what a value consists of, None if it is a value by itself."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if isinstance(value, np.random.Generator):
        return {"state": value.bit_generator.state}
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return None
    parts: dict[Any, Any] = vars(value)
    return parts


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, float | np.ndarray | np.generic) and type(one) is type(other):
        first, second = np.asarray(one), np.asarray(other)
        if first.shape != second.shape or first.dtype != second.dtype:
            return False
        if first.dtype.kind == "f":
            return np.allclose(first, second, RELATIVE, ABSOLUTE, equal_nan=True)
        return bool(np.array_equal(first, second))
    return bool(type(one) is type(other) and one == other)
