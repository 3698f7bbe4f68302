"""The problem: which of n means lie at or above `mean + k * standard deviation` of all n means.

The standard deviation is the population one (divide by n) and an arm exactly on the threshold
counts as an outlier, as in Zhang et al. (AAAI 2020), eq. (1).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Label = Hashable
Side = Literal["upper", "lower", "both"]


def check_number(name: str, value: Any) -> float:
    """Return the value of a parameter as a float, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(f"{name} must be a number but got {value!r}.")
    return float(value)


def check_k(k: float) -> float:
    """Return k as a float; any finite number is allowed."""
    if not math.isfinite(check_number("k", k)):
        raise InvalidParameter(f"k must be a finite number but got {k}.")
    return float(k)


def check_delta(delta: float) -> float:
    """Return delta as a float strictly between 0 and 1."""
    if not 0.0 < check_number("delta", delta) < 1.0:
        raise InvalidParameter(f"delta must be strictly between 0 and 1 but got {delta}.")
    return float(delta)


def check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the reward bounds (a, b), finite and with a < b."""
    try:
        a, b = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InvalidParameter(f"bounds must be two numbers (a, b) but got {bounds!r}.") from None
    if not (math.isfinite(a) and math.isfinite(b) and a < b and math.isfinite(b - a)):
        raise InvalidParameter(f"bounds must be finite with a < b but got ({a:g}, {b:g}).")
    return a, b


def check_side(side: str) -> Side:
    """Return the side if it is one of upper, lower and both."""
    if side not in get_args(Side):
        raise InvalidParameter(f"side must be 'upper', 'lower' or 'both' but got {side!r}.")
    return side  # type: ignore[return-value]


def check_whole(name: str, value: Any, *, least: int) -> int:
    """Return the value of a parameter that counts something as an int, at least `least`."""
    number = not isinstance(value, bool) and isinstance(value, Real)
    if not number or value % 1 != 0 or value < least:
        raise InvalidParameter(
            f"{name} must be a whole number of at least {least} but got {value!r}."
        )
    return int(value)


def check_budget(budget: int | None) -> int | None:
    """Return the budget in pulls, at least 0, or None for no limit."""
    if budget is None:
        return None
    return check_whole("budget", budget, least=0)


def check_means(means: npt.ArrayLike) -> FloatArray:
    """Return at least two finite means as a float array."""
    array = np.asarray(means, dtype=np.float64)
    if array.ndim != 1:
        raise InvalidParameter(f"means must be one-dimensional but got shape {array.shape}.")
    check_number_of_arms(array.size)
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidParameter(f"means must be finite numbers but means[{bad}] is {array[bad]}.")
    return array


def check_number_of_arms(n: int) -> int:
    """Return n if there are at least two arms to compare."""
    if n < 2:
        raise InvalidParameter(f"arms must be at least 2 but got {n}.")
    return n


def check_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return the labels as a tuple: at least two, hashable, no duplicates."""
    result = tuple(x.item() if isinstance(x, np.generic) else x for x in labels)
    check_number_of_arms(len(result))
    seen: set[Label] = set()
    for label in result:
        try:
            known = label in seen
        except TypeError:
            raise InvalidParameter(f"labels must be hashable but got {label!r}.") from None
        if known:
            raise InvalidParameter(f"labels must be unique but {label!r} appears twice.")
        seen.add(label)
    return result


@dataclass(frozen=True)
class Problem:
    """What a search is asked: the arms' labels, k, delta, the reward bounds and the side.

    Construction validates, so that whatever holds a `Problem` holds a sound one.
    """

    labels: tuple[Label, ...]
    k: float
    delta: float
    bounds: tuple[float, float] = (0.0, 1.0)
    side: Side = "upper"

    def __init__(
        self,
        labels: Sequence[Label] | int,
        *,
        k: float,
        delta: float,
        bounds: tuple[float, float] = (0.0, 1.0),
        side: Side = "upper",
    ) -> None:
        names = range(labels) if isinstance(labels, int | np.integer) else labels
        object.__setattr__(self, "labels", check_labels(names))
        object.__setattr__(self, "k", check_k(k))
        object.__setattr__(self, "delta", check_delta(delta))
        object.__setattr__(self, "bounds", check_bounds(bounds))
        object.__setattr__(self, "side", check_side(side))

    @property
    def n(self) -> int:
        """The number of arms."""
        return len(self.labels)
