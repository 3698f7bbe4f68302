"""Uniform means whose smallest gap lies in a window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, check_k, check_number, check_whole
from oddarms.theory import gaps

_MOST_CANDIDATES = 1_000_000
_NUMBERS_PER_BATCH = 16_384


@dataclass(frozen=True)
class UniformMeans:
    """n means drawn uniformly from [0, 1], given that the smallest gap lies in a window.

    They are drawn until they fit, so they follow the conditional law exactly. The rarest window of
    the ADE paper holds one instance in 4,100, which takes a fortieth of a second to find.

    Parameters
    ----------
    n
        The number of means.
    k
        The k of the threshold theta = mean + k * standard deviation.
    smallest_gap
        The least and the greatest value of min_i |y_i - theta|, the latter possibly infinite; None
        for uniform means without a condition. Drawing raises `InvalidParameter` if none of a
        million candidates hits it; a window of probability 2e-5 or more is missed so with
        probability below 1e-8.

    Examples
    --------
    >>> draw = UniformMeans(n=900, k=2, smallest_gap=(0.119, 0.121))
    >>> y = draw(np.random.default_rng(1))
    >>> bool(0.119 <= gaps(y, k=2).min() <= 0.121)
    True
    """

    n: int
    k: float
    smallest_gap: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_whole("n", self.n, least=2))
        object.__setattr__(self, "k", check_k(self.k))
        if self.smallest_gap is not None:
            object.__setattr__(self, "smallest_gap", _check_window(self.smallest_gap))

    def __call__(self, rng: np.random.Generator) -> FloatArray:
        """Return the means of one random instance."""
        if self.smallest_gap is None:
            return rng.random(self.n)
        low, high = self.smallest_gap
        rows = max(1, _NUMBERS_PER_BATCH // self.n)
        for _ in range(0, _MOST_CANDIDATES, rows):
            y = rng.random((rows, self.n))
            smallest = _smallest_gaps(y, self.k)
            for row in y[(low <= smallest) & (smallest <= high)]:
                # rounded in another order, an edge of the window may come out just beyond it
                if low <= gaps(row, self.k).min() <= high:
                    return np.asarray(row)
        raise InvalidParameter(
            f"smallest_gap must be a window that uniform means hit but of {_MOST_CANDIDATES:,}"
            f" candidates with n = {self.n} and k = {self.k:g} none fell into ({low:g}, {high:g})."
        )


def _check_window(window: tuple[float, float]) -> tuple[float, float]:
    """Return the window (low, high) if 0 <= low < high."""
    try:
        low, high = (check_number("smallest_gap", gap) for gap in window)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"smallest_gap must be two numbers (low, high) but got {window!r}."
        ) from None
    if not 0.0 <= low < high:
        raise InvalidParameter(
            f"smallest_gap must have 0 <= low < high but got ({low:g}, {high:g})."
        )
    return low, high


def _smallest_gaps(y: FloatArray, k: float) -> FloatArray:
    """Return the smallest gap of each row."""
    theta = y.mean(axis=1) + k * y.std(axis=1)
    return np.asarray(np.abs(y - theta[:, None]).min(axis=1))
