"""An upper bound on SPADE's pulls; docs/explanation/spade-pulls.md has the proof, with these names.

All constants are those of the program; a test compares the ones that are written here again,
because `algorithms` is built on `theory` and cannot be imported from it.
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
from oddarms.statistics.evidence import (
    BETA_SHARE,
    degenerate_bound,
    normal_mixture_boundary,
    square_boundary,
)
from oddarms.statistics.sweeps import SWEEPS_AHEAD
from oddarms.statistics.threshold_streams import PLUG_IN_AHEAD, SMALLEST_VARIANCE

JOINT_UP_TO, HYBRID_UP_TO = 512, 1024
BOX_SHARE = 0.05
END_SHARE, DEGENERATE_SHARE, MEAN_SHARE, MEAN_AHEAD = 0.01, 0.02, 0.01, 6.0
JOINT_END_SHARE, PLUG_IN_SHARE = 0.03, 0.005
GROWTH, FIRST_SWEEPS, LONGEST_FOCUS = 0.08, 4, 20
ROW_ADVANTAGE, LEAST_DOUBT, MOST_DOUBT, LEAST_COUNT = 3.0, 0.05, 0.9, 0.25
ROWS_TO_FOCUS = ROW_ADVANTAGE * LEAST_DOUBT / (1.0 - LEAST_DOUBT)
"""Focus steps are made while the pulls of rows are at least this many times the open arms'."""
FOCUS_TO_ROWS = 1.0 + ROW_ADVANTAGE * MOST_DOUBT / (1.0 - MOST_DOUBT)
"""Rows are made while the pulls of rows are less than this many times the open arms'."""
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

    Returns
    -------
    float
        0 for n < 1 + k^2, where SPADE needs no pull. Infinite if a gap is 0, or so small that
        2^50 sweeps are not enough, and where no bound is proven: with a margin for n <= 1024
        (unless n = 1 + k^2) or k < 0.

    Examples
    --------
    >>> f"{spade_pulls_bound([0.1] * 98 + [0.9] * 2, k=3, delta=0.1):.2g}"
    '2e+07'
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
    if margin > 0.0 and (k < 0.0 or not interval):
        return math.inf
    y, paired = y if k >= 0.0 else 1.0 - y, interval or n > JOINT_UP_TO
    parts = Parts(y, abs(k), delta, margin=margin, indifference=indifference, paired=paired)
    if parts.gaps[0] == 0.0:
        return math.inf
    return min(parts.pulls_beyond_reach(), *(parts.pulls(float(split)) for split in SPLITS))


def _check_length(name: str, value: float) -> float:
    if not 0.0 <= check_number(name, value) < math.inf:
        raise InvalidParameter(f"{name} must be a finite number of at least 0 but got {value!r}.")
    return float(value)


class Schedule(NamedTuple):
    """The readings of the threshold's interval: nothing in it depends on rewards."""

    least: FloatArray
    """At most the pulls that each arm has had in rows."""
    fewest: FloatArray
    """At most the pulls of all rows."""
    most: FloatArray
    """At least the pulls of all rows."""
    radius: FloatArray
    """At most how far either end lies from the threshold; it does not grow."""
    first: int
    """The reading after the first four rows, from which on there may be focus steps."""


def row_sizes() -> FloatArray:
    """Return the sizes of the joint form's rows, the pilot included."""
    sizes = [2.0]
    total = 2.0
    while total < MAX_SWEEPS:
        sizes.append(max(1.0, GROWTH * total))
        total += sizes[-1]
    return np.array(sizes)


def _joint_schedule(n: int, k: float, delta: float, sigma: float) -> Schedule:
    """Return the readings after rows of any weights: Lemma 3 (b)."""
    size = row_sizes()
    count = np.where(np.arange(size.size) < FIRST_SWEEPS, size, np.ceil(LEAST_COUNT * size))
    weight = np.cumsum(size) - size[0]
    spent = np.cumsum(size * size / count) - size[0]
    radius = np.full(size.size, np.inf)
    root, norm, length = math.sqrt(n), (1.0 + k * k) / n, math.sqrt(n) * sigma
    for b in range(1, size.size):
        v = norm * spent[b] / 4.0
        ends = [
            normal_mixture_boundary(v, share * delta, PLUG_IN_AHEAD * norm) / weight[b]
            for share in (JOINT_END_SHARE, PLUG_IN_SHARE)
        ]
        square = square_boundary(n, spent[b] / 4.0, PLUG_IN_SHARE * delta) / weight[b] ** 2
        square += n * SMALLEST_VARIANCE
        if k == 0.0 or length >= 2.0 * math.sqrt(square):
            bias = 0.0 if k == 0.0 else k * square / (root * (length - math.sqrt(square)))
            radius[b] = sum(ends) + bias
    return Schedule(
        np.cumsum(count),
        n * np.cumsum(np.maximum(count, size - 0.5)),
        n * np.cumsum(np.where(np.arange(size.size) < FIRST_SWEEPS, size, size + count)),
        np.minimum.accumulate(radius),
        FIRST_SWEEPS - 1,
    )


def _sweeps_at_readings() -> FloatArray:
    sweeps = [2.0]
    while sweeps[-1] < MAX_SWEEPS:
        sweeps.append(sweeps[-1] + 2.0 * max(1.0, math.floor(GROWTH / 2.0 * sweeps[-1])))
    return np.array(sweeps)


def _paired_schedule(n: int, k: float, delta: float, sigma: float, margin: float) -> Schedule:
    """Return the readings after pairs of sweeps: Lemma 3 (a), or with a margin Lemma 8."""
    m = _sweeps_at_readings()
    reading = np.arange(1.0, m.size + 1.0)
    each = (1.0 + k * k) / (4.0 * n)
    u = normal_mixture_boundary(m * each, END_SHARE * delta, SWEEPS_AHEAD * each) / m
    a = normal_mixture_boundary(m / 4.0, END_SHARE * delta, SWEEPS_AHEAD / 4.0) / m
    levels = DEGENERATE_SHARE * delta / (2.0 * reading * (reading + 1.0))
    D = np.array(
        [degenerate_bound(n, h, h, level) for h, level in zip(m / 2.0, levels, strict=True)]
    )
    root, length = math.sqrt(n), math.sqrt(n) * sigma
    raised, beyond = max(margin - k * sigma, 0.0), max(k * sigma - margin, 0.0)
    known = (length > a) & ((length - a) ** 2 > 2.0 * (a * a + D))
    bias = k * (a * a + 2.0 * D) / (root * np.where(known, length - a, 1.0))
    rough = k * (np.sqrt(a * a + 2.0 * D) + 2.0 * np.maximum(a - length, 0.0)) / root
    below = raised + np.where(known, 2.0 * u + bias, np.inf)
    above = 2.0 * u + np.minimum(rough, np.where(known, 0.5 * bias, np.inf))
    above = above - raised
    if margin > 0.0:
        mean = normal_mixture_boundary(m / (4.0 * n), MEAN_SHARE * delta, MEAN_AHEAD / n) / m
        below = np.minimum(below, 2.0 * mean + beyond)
        above = np.maximum(above, 2.0 * mean - beyond)
    radius = np.minimum.accumulate(np.maximum(below, np.maximum(above, 0.0)))
    return Schedule(m, n * m, n * m, radius, FIRST_SWEEPS // 2 - 1)


class Parts:
    """The parts of the bound, for k >= 0 and means in [0, 1].

    Gaps are in order, the smallest first. `paired` tells whether rows are sweeps in pairs.
    """

    def __init__(
        self,
        y: FloatArray,
        k: float,
        delta: float,
        *,
        margin: float = 0.0,
        indifference: float = 0.0,
        paired: bool,
    ) -> None:
        self.n = n = y.size
        sigma = float(y.std()) if y.min() < y.max() else 0.0
        self.threshold = min(float(y.mean()) + max(k * sigma, margin), 2.0)
        self.indifference = min(indifference, 1.0)
        self.gaps: FloatArray = np.sort(np.abs(y - self.threshold)) + self.indifference
        if paired:
            self.schedule = _paired_schedule(n, k, delta, sigma, margin)
        else:
            self.schedule = _joint_schedule(n, k, delta, sigma)
        self.ranks = np.arange(1.0, n + 1.0) if paired else np.ones(n)
        self.paired = paired
        self.start = math.log(2.0 * n / (BOX_SHARE * delta * BETA_SHARE))

    def nats(self, pulls: FloatArray) -> FloatArray:
        """Return Lambda(N): with so many nats N pulls settle an arm at its radius."""
        return np.asarray(self.start + 0.5 * np.log(math.pi * (pulls + 0.5)))

    def arm_radius(self, pulls: FloatArray) -> FloatArray:
        """Return r(N) of Lemma 1."""
        return np.asarray(np.sqrt(self.nats(pulls) / (2.0 * pulls)))

    def arm_pulls(self, width: FloatArray) -> FloatArray:
        """Return the least N with 2 r(N) <= width; by iteration from below, then rounded up."""
        pulls = np.ones(width.size)
        for _ in range(60):
            pulls = np.maximum(2.0 * self.nats(pulls) / width**2, 1.0)
        return np.ceil(pulls * (1.0 + 1e-9))

    def pulls(self, split: float) -> float:
        """Return the bound of the theorem if the threshold takes this share of a gap."""
        needed, at = self.arm_pulls((1.0 - split) * self.gaps), self.schedule
        late = self._readings_until(split * self.gaps)
        enough = max(int(late[0]), at.first)
        if enough >= at.radius.size:
            return math.inf
        last = self._last_row(needed, enough) + self.forced(needed[0] / at.least[enough])
        if last >= at.radius.size:
            return math.inf
        return float(at.most[last] + (1.0 + GROWTH) * needed.sum() + self.early(late))

    def pulls_beyond_reach(self) -> float:
        """Return the bound for thresholds above 1: all arms are normal once the lower end is."""
        room = self.threshold + self.indifference - 1.0
        if room <= 0.0:
            return math.inf
        late = self._readings_until(np.full(self.n, room * (1.0 - 1e-9)))
        if late[0] >= self.schedule.radius.size:
            return math.inf
        return float(self.schedule.most[late[0]] + self.early(late))

    def _readings_until(self, radius: FloatArray) -> npt.NDArray[np.intp]:
        """Return the index of the first reading with a radius of at most this."""
        radii = self.schedule.radius
        return radii.size - np.searchsorted(radii[::-1], radius, side="right")

    def _last_row(self, needed: FloatArray, enough: int) -> int:
        """Return the reading after the last row that gains more than a focus step (Lemma 6)."""
        undecided = (self.ranks * needed).max() if self.paired else needed.sum()
        most = FOCUS_TO_ROWS * float(undecided)
        begun = np.flatnonzero(self.schedule.fewest[enough:] < most)
        return enough + (int(begun[-1]) + 1 if begun.size else 0)

    def forced(self, ratio: float) -> int:
        """Return how many rows come only because of LONGEST_FOCUS (Lemma 7)."""
        return max(math.floor(math.log(ratio) / (LONGEST_FOCUS * math.log1p(GROWTH))), 0)

    def early(self, late: npt.NDArray[np.intp]) -> float:
        """Return a bound on the focus pulls of arms before the readings `late` (Lemma 5)."""
        at = self.schedule
        pulls = at.most / ROWS_TO_FOCUS
        steps = LONGEST_FOCUS * (GROWTH + 1.0 / at.least) * pulls
        steps[: at.first] = 0.0
        until = np.concatenate([[0.0], np.cumsum(steps)])  # before each reading
        own = np.where(late > at.first, pulls[late - 1], 0.0) / self.ranks
        first = np.concatenate([[0.0], np.cumsum((1.0 + GROWTH) * own)])
        return float((first + np.append(until[late], 0.0)).min())
