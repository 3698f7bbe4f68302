"""Comparisons of runs that stand up to ten instances: paired ratios and trends with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from oddarms.experiments import Outcome
from oddarms.experiments._outcomes import half_width
from oddarms.problem import FloatArray


class Estimate(NamedTuple):
    """A figure with the ends of its 95 % interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{_short(self.value)} ({_short(self.lower)} to {_short(self.upper)})"


class Runs:
    """The runs of one figure, looked up by setting and algorithm."""

    def __init__(self, rows: Iterable[Outcome]) -> None:
        self.rows = list(rows)
        self.settings = list(dict.fromkeys(row.setting for row in self.rows))
        self.algorithms = list(dict.fromkeys(row.algorithm for row in self.rows))

    @property
    def fewest(self) -> int:
        """The fewest runs of an algorithm on a setting."""
        return min(Counter((row.setting, row.algorithm) for row in self.rows).values())

    def of(self, setting: str, algorithm: str) -> list[Outcome]:
        """Return the runs of an algorithm on a setting."""
        return [row for row in self.rows if row.setting == setting and row.algorithm == algorithm]

    def mean(self, setting: str, algorithm: str) -> float:
        """Return mean pulls."""
        return float(np.mean([row.pulls for row in self.of(setting, algorithm)]))

    def ratio(self, setting: str, algorithm: str, other: str) -> Estimate:
        """Return how many times the pulls of another algorithm this one needs, on average.

        A geometric mean over pairs of runs on the same instance, with Student's interval on the
        logarithms.
        """
        pairs = zip(self.of(setting, algorithm), self.of(setting, other), strict=True)
        logs = np.array([math.log(one.pulls / two.pulls) for one, two in pairs])
        return _exponential(logs)

    def fewer(self, setting: str, algorithm: str, other: str) -> bool:
        """Return whether an algorithm clearly needs fewer pulls: the ratio is surely below 1."""
        return self.ratio(setting, algorithm, other).upper < 1.0

    def trend(self, algorithm: str, column: str, other: str | None = None) -> Estimate:
        """Return the exponent b in pulls ~ column^b, by least squares on logarithms.

        With `other`, that of the ratio of this algorithm's pulls to the other's. The interval is
        Student's for independent errors.
        """
        rows = [row for name in self.settings for row in self.of(name, algorithm)]
        y = np.log([row.pulls for row in rows])
        if other is not None:
            y = y - np.log([row.pulls for name in self.settings for row in self.of(name, other)])
        x = np.log([getattr(row, column) for row in rows])
        return _slope(x, y)


def _exponential(logs: FloatArray) -> Estimate:
    centre, width = float(logs.mean()), half_width(logs)
    width = math.inf if math.isnan(width) else width
    return Estimate(*(math.exp(value) for value in (centre, centre - width, centre + width)))


def _slope(x: FloatArray, y: FloatArray) -> Estimate:
    from scipy.special import stdtrit

    spread = x - x.mean()
    scale = float((spread**2).sum())
    if x.size < 3 or scale == 0.0:
        return Estimate(math.nan, -math.inf, math.inf)
    slope = float((spread * y).sum()) / scale
    residual = y - y.mean() - slope * spread
    error = math.sqrt(float((residual**2).sum()) / (x.size - 2) / scale)
    width = float(stdtrit(x.size - 2, 0.975)) * error
    return Estimate(slope, slope - width, slope + width)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.2g}"


def short_number(value: float) -> str:
    """Return a number of pulls for people: "41.2 million", "7,300"."""
    return f"{value / 1e6:.3g} million" if value >= 1e6 else f"{value:,.0f}"
