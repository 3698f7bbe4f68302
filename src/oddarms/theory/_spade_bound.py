"""An upper bound on SPADE's pulls; docs/explanation/spade-pulls.md has the proof, with these names.

It is proven for more than 512 arms, where rows are uniform sweeps, and for n = 1 + k^2. All
constants are those of the program; a test compares the ones that are written here again, because
`algorithms` is built on `theory` and cannot be imported from it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter
from oddarms.problem import (
    FloatArray,
    check_bounds,
    check_delta,
    check_k,
    check_means,
    check_number,
)
from oddarms.statistics.evidence import BETA_SHARE, degenerate_bound, normal_mixture_boundary
from oddarms.statistics.odd_even import SWEEPS_AHEAD

JOINT_UP_TO, HYBRID_UP_TO = 512, 1024
BOX_SHARE, END_SHARE, DEGENERATE_SHARE, LEVEL_ARMS_SHARE = 0.05, 0.01, 0.02, 0.85
MEAN_SHARE, MEAN_AHEAD = 0.01, 6.0
GROWTH, FIRST_SWEEPS, LONGEST_FOCUS, ROW_ADVANTAGE = 0.08, 4.0, 20, 3.0
MAX_ODDS = 49.0
"""Odds of the threshold's share of the doubt where it is at most 0.98 and at least 0.02."""
MIN_VARIANCE, EDGE = 1e-4, 1e-9
MAX_SWEEPS = 2.0**50
"""Searches end there, so a bound beyond it is none."""
SPLITS: FloatArray = np.linspace(0.1, 0.9, 33)
"""Shares of a gap that the threshold may take; the bound holds for each of them."""


def spade_pulls_bound(
    means: npt.ArrayLike,
    *,
    k: float,
    delta: float,
    bounds: tuple[float, float] = (0.0, 1.0),
    margin: float = 0.0,
    indifference: float = 0.0,
    binary: bool = False,
) -> float:
    """Return an upper bound on SPADE's pulls that holds with probability at least 1 - delta.

    With that probability the answer is right and the number of pulls is at most this bound. For
    one side, ``error="fwer"``, no floor and no history. The proof and all constants are in
    docs/explanation/spade-pulls.md. The bound is far above what is measured.

    Parameters
    ----------
    means, k, delta, bounds
        The question, as in `ade_pulls_bound`.
    margin, indifference
        Those of the question, in units of the rewards.
    binary
        Whether every reward is one of the two bounds. Then variances follow from means, and the
        bound is smaller.

    Returns
    -------
    float
        0 for n < 1 + k^2, where SPADE needs no pull. Infinite where no bound is proven: for
        n <= 512 (unless n = 1 + k^2), for n <= 1024 or k < 0 with a margin, and if a gap is 0.

    Examples
    --------
    >>> means = [0.1] * 980 + [0.2] * 980 + [0.9] * 40
    >>> f"{spade_pulls_bound(means, k=3, delta=0.1):.2g}"
    '9.2e+06'
    """
    y = check_means(means)
    a, b = check_bounds(bounds)
    if y.min() < a or y.max() > b:
        raise InvalidParameter(f"means must lie within the bounds {a:g} and {b:g} of the rewards.")
    y = np.clip((y - a) / (b - a), 0.0, 1.0)
    k, n = check_k(k), y.size
    margin = _check_length("margin", margin) / (b - a)
    indifference = _check_length("indifference", indifference) / (b - a)
    check_delta(delta)
    reach = Fraction(n) - 1 - Fraction(k) ** 2
    if reach < 0:
        return 0.0
    interval = n > HYBRID_UP_TO or reach == 0
    proven = interval or (n > JOINT_UP_TO and margin == 0.0)
    if not proven or (k < 0.0 and margin > 0.0):
        return math.inf
    parts = Parts(
        y if k >= 0.0 else 1.0 - y,
        abs(k),
        delta,
        margin=margin,
        indifference=indifference,
        interval=interval,
        binary=binary,
    )
    if parts.gaps[0] == 0.0:
        return math.inf
    return min(parts.pulls_beyond_reach(), *(parts.pulls(float(split)) for split in SPLITS))


def _check_length(name: str, value: float) -> float:
    if not 0.0 <= check_number(name, value) < math.inf:
        raise InvalidParameter(f"{name} must be a finite number of at least 0 but got {value!r}.")
    return float(value)


class Schedule(NamedTuple):
    """The readings of the threshold's interval: nothing in it depends on rewards."""

    sweeps: FloatArray
    radius: FloatArray
    """At most how far either end lies from the threshold; it does not grow."""
    half_width: FloatArray


def _sweeps_at_readings() -> FloatArray:
    sweeps = [2.0]
    while sweeps[-1] < MAX_SWEEPS:
        sweeps.append(sweeps[-1] + 2.0 * max(1.0, math.floor(GROWTH / 2.0 * sweeps[-1])))
    return np.array(sweeps)


class _Threshold(NamedTuple):
    """What an outlier must reach, and its parts."""

    mu: float
    sigma: float
    theta: float
    """mu + k sigma."""
    whole: float
    """The larger one of mu + k sigma and mu + margin."""


def _schedule(n: int, k: float, delta: float, at: _Threshold, margin: float) -> Schedule:
    """Return the radii of Lemma 3, or with a margin those of Lemma 8."""
    m = _sweeps_at_readings()
    reading = np.arange(1.0, m.size + 1.0)
    each = (1.0 + k * k) / (4.0 * n)
    u = normal_mixture_boundary(m * each, END_SHARE * delta, SWEEPS_AHEAD * each) / m
    a = normal_mixture_boundary(m / 4.0, END_SHARE * delta, SWEEPS_AHEAD / 4.0) / m
    levels = DEGENERATE_SHARE * delta / (2.0 * reading * (reading + 1.0))
    D = np.array(
        [degenerate_bound(n, h, h, level) for h, level in zip(m / 2.0, levels, strict=True)]
    )
    root, length = math.sqrt(n), math.sqrt(n) * at.sigma
    known = (length > a) & ((length - a) ** 2 > 2.0 * (a * a + D))
    bias = k * (a * a + 2.0 * D) / (root * np.where(known, length - a, 1.0))
    rough = k * (np.sqrt(a * a + 2.0 * D) + 2.0 * np.maximum(a - length, 0.0)) / root
    below = at.whole - at.theta + np.where(known, 2.0 * u + bias, np.inf)
    above = 2.0 * u + np.minimum(rough, np.where(known, 0.5 * bias, np.inf))
    above = above - (at.whole - at.theta)
    if margin > 0.0:
        mean = normal_mixture_boundary(m / (4.0 * n), MEAN_SHARE * delta, MEAN_AHEAD / n) / m
        beyond = at.whole - at.mu - margin
        below = np.minimum(below, 2.0 * mean + beyond)
        above = np.maximum(above, 2.0 * mean - beyond)
    below, above = np.minimum.accumulate(below), np.minimum.accumulate(np.maximum(above, 0.0))
    half_width = np.clip(0.5 * (below + above), 0.5 * EDGE, 1.5)
    return Schedule(m, np.maximum(below, above), half_width)


class Parts:
    """The parts of the bound, for k >= 0 and means in [0, 1].

    Arms are in the order of their gaps, the smallest first.
    """

    def __init__(
        self,
        y: FloatArray,
        k: float,
        delta: float,
        *,
        margin: float = 0.0,
        indifference: float = 0.0,
        interval: bool,
        binary: bool,
    ) -> None:
        self.n = y.size
        self.interval, self.binary = interval, binary
        mu, sigma = float(y.mean()), float(y.std()) if y.min() < y.max() else 0.0
        theta = mu + k * sigma
        at = _Threshold(mu, sigma, theta, max(theta, mu + margin) if margin > 0.0 else theta)
        self.threshold, self.indifference = min(at.whole, 2.0), min(indifference, 1.0)
        nearest = y[np.argsort(np.abs(y - self.threshold), kind="stable")]
        self.gaps: FloatArray = np.abs(nearest - self.threshold) + self.indifference
        self.lowest, self.highest = np.minimum.accumulate(nearest), np.maximum.accumulate(nearest)
        self.schedule = _schedule(self.n, k, delta, at, margin)
        self.start = math.log(2.0 * self.n / (BOX_SHARE * delta * BETA_SHARE))
        self.log_level = math.log(self.n / (LEVEL_ARMS_SHARE * delta))

    def nats(self, pulls: FloatArray) -> FloatArray:
        """Return Lambda(N): with so many nats N pulls settle an arm at its radius."""
        result: FloatArray = self.start + 0.5 * np.log(math.pi * (pulls + 0.5))
        return result

    def arm_radius(self, pulls: FloatArray) -> FloatArray:
        """Return r(N) of Lemma 1."""
        result: FloatArray = np.sqrt(self.nats(pulls) / (2.0 * pulls))
        return result

    def arm_pulls(self, width: FloatArray) -> FloatArray:
        """Return the least N with 2 r(N) <= width; by iteration from below, then rounded up."""
        pulls = np.ones(width.size)
        for _ in range(60):
            pulls = np.maximum(2.0 * self.nats(pulls) / width**2, 1.0)
        return np.ceil(pulls * (1.0 + 1e-9))

    def pulls(self, split: float) -> float:
        """Return the bound of the theorem if the threshold takes this share of a gap."""
        needed = self.arm_pulls((1.0 - split) * self.gaps)
        sweeps = self.schedule.sweeps
        late = self._readings_until(split * self.gaps)
        enough = max(int(late[0]), 1)  # the second reading has FIRST_SWEEPS
        if enough >= sweeps.size:
            return math.inf
        last = self._last_row(needed, enough) + self.forced(needed[0] / sweeps[enough])
        if last >= sweeps.size:
            return math.inf
        focus = needed.sum() + self._early(split * self.gaps, late).sum()
        return float(self.n * sweeps[last] + (1.0 + GROWTH) * focus)

    def pulls_beyond_reach(self) -> float:
        """Return the bound for thresholds above 1: all arms are normal once the lower end is."""
        room = self.threshold + self.indifference - 1.0
        if room <= 0.0:
            return math.inf
        late = self._readings_until(np.array([room * (1.0 - EDGE)]))
        if late[0] >= self.schedule.sweeps.size:
            return math.inf
        rows = self.n * float(self.schedule.sweeps[late[0]])
        return rows + (1.0 + GROWTH) * float(self._early(np.full(self.n, room), late).sum())

    def _readings_until(self, radius: FloatArray) -> npt.NDArray[np.intp]:
        """Return the index of the first reading with a radius of at most this."""
        radii = self.schedule.radius
        return radii.size - np.searchsorted(radii[::-1], radius, side="right")

    def _last_row(self, needed: FloatArray, enough: int) -> int:
        """Return the reading after the last pair that gains more than a focus step (Lemma 6)."""
        m = self.schedule.sweeps[enough:]
        arms = np.arange(1.0, self.n + 1.0)
        if self.interval:
            before = np.concatenate([[0.0], m[:-1]])
            some = np.maximum(np.searchsorted(-needed, -before, side="left"), 1)
            doubt = np.sqrt(2.0 * self.least_variance(m, some) * self.log_level)
            odds = self.schedule.half_width[enough:] / doubt * float((arms * needed**1.5).max())
        else:
            odds = np.full(m.size, MAX_ODDS * float((arms * needed).max()))
        most = 2.0 * float((arms * needed).max()) + ROW_ADVANTAGE * odds
        begun = np.flatnonzero(self.n * m < most)
        return enough + (int(begun[-1]) + 1 if begun.size else 0)

    def least_variance(self, m: FloatArray, some: npt.NDArray[np.intp]) -> FloatArray:
        """Return at most the estimated variances of the first `some` arms after m sweeps."""
        if not self.binary:
            return np.full(m.size, MIN_VARIANCE)
        r = self.arm_radius(m)
        low = np.maximum(self.lowest[some - 1] - r, 0.0)
        high = np.minimum(self.highest[some - 1] + r, 1.0)
        least = np.minimum(low * (1.0 - low), high * (1.0 - high)) * m / (m + 1.0)
        result: FloatArray = np.maximum(least, MIN_VARIANCE)
        return result

    def forced(self, ratio: float) -> int:
        """Return how many pairs come only because of LONGEST_FOCUS (Lemma 7)."""
        return max(math.floor(math.log(ratio) / (LONGEST_FOCUS * math.log1p(GROWTH))), 0)

    def _early(self, width: FloatArray, late: npt.NDArray[np.intp]) -> FloatArray:
        """Return bounds on the pulls of arms before the reading `late` (Lemma 5).

        Up to then the interval of the threshold may be wider than `width`.
        """
        before = np.where(late > 1, self.schedule.sweeps[np.maximum(late - 1, 0)], 0.0)
        rank, rows = np.arange(1.0, self.n + 1.0), self.n * before
        odds = math.sqrt(2.0 * self.log_level) / ROW_ADVANTAGE
        most: FloatArray = (
            (odds * rows / (width * rank)) ** (2.0 / 3.0)
            if self.interval
            else MAX_ODDS / ROW_ADVANTAGE * rows / rank
        )
        return most
