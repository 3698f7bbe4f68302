"""LUCB for any rule: intervals of all arms that hold together, and pulls where they matter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oddarms.algorithms._base import (
    UNLIMITED,
    Algorithm,
    Decision,
    Pulls,
    Threshold,
    check_indifference,
    mirrored,
    no_pulls,
)
from oddarms.algorithms._spade import CHUNK
from oddarms.errors import InvalidParameter
from oddarms.problem import BoolArray, FloatArray, IntArray, Side, check_number
from oddarms.rules import Rule
from oddarms.statistics.evidence import mean_interval, sub_gaussian_interval
from oddarms.statistics.totals import Totals

FIRST_PULLS = 4
"""Of each arm."""
GROWTH = 0.1
"""A step, as a share of the pulls that the arms it is about have: so looks are few."""
DOUBT = 4.0
"""Radii of an interval are about so many standard errors: an estimate may lie on the threshold."""
LARGEST_GROWTH = 1.0
"""Of one arm in a step: what it is pulled for may be known by then."""


def check_sd(sd: float) -> float:
    """Return a sub-Gaussian parameter, positive and finite."""
    if not 0.0 < check_number("sd", sd) < math.inf:
        raise InvalidParameter(f"sd must be positive and finite but got {sd}.")
    return float(sd)


class LUCB(Algorithm):
    """Pull the undecided arms, and those on which the bounds of the threshold hang.

    Right with probability at least 1 - delta for independent rewards in [0, 1] whose mean an arm
    keeps. Each arm has a time-uniform interval at delta/n, so that all of them hold together, at
    all times; on this event the threshold lies within the bounds that the rule has for such a box
    of means, and every decision is right: normal where an arm's interval lies below these bounds,
    outlier where it lies above. Nothing more is paid for the threshold, nor for a second side.

    A step pulls the arms by how much an undecided arm comes nearer to its decision for one pull,
    as LUCB does, but many at a time: about a tenth of the pulls that these arms have.

    Parameters
    ----------
    side
        "upper", or "both": two thresholds from the same intervals.
    indifference
        Arms whose mean lies within this distance of the threshold may be called either way:
        with probability at least 1 - delta, every arm called an outlier has
        y_i >= theta - indifference and every arm called normal has y_i < theta + indifference.
        In units of the rewards. It ends searches that tiny gaps would make endless.
    sd
        A known sub-Gaussian parameter of the rewards, in their units, such as the standard
        deviation of normal ones: E exp(l (X - y)) <= exp(l^2 sd^2 / 2). The intervals then rest on
        it instead of on the bounds and on the variance that is seen. A search still needs bounds
        that all rewards keep to, which may be wide.

    Notes
    -----
    An arm on the threshold is never decided: without indifference such a search ends by a budget.
    """

    rules = frozenset({"sigma", "mad", "tukey", "quantile", "control", "absolute"})
    handles_both_sides = True
    lengths = frozenset({"indifference", "sd"})

    def __init__(
        self,
        n: int,
        *,
        rule: Rule,
        delta: float,
        rng: np.random.Generator,
        side: Side = "upper",
        indifference: float = 0.0,
        sd: float | None = None,
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        self.indifference = check_indifference(indifference)
        self.sd = None if sd is None else check_sd(sd)
        self.totals = Totals.empty(n)
        self.low: FloatArray = np.zeros(n)
        self.high: FloatArray = np.ones(n)
        sides = ("upper", "lower") if side == "both" else ("upper",)
        self.normal = {name: np.zeros(n, dtype=np.bool_) for name in sides}
        self.odd = {name: np.zeros(n, dtype=np.bool_) for name in sides}
        for normal in self.normal.values():
            normal[list(rule.exempt)] = True
        self._merge_verdicts()

    def propose(self, limit: int) -> Pulls:
        if self.done:
            return no_pulls()
        missing = self.totals.pulls == 0
        if missing.any():
            return _pulls_of(np.where(missing, FIRST_PULLS, 0), limit)
        worth = 0.5 * (self.high - self.low) * self._worth()
        return _pulls_of(counts_of_step(self.totals.pulls, worth), limit)

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        self.threshold_pulls += int(pulls.counts[~self.undecided[pulls.indices]].sum())
        self._count(pulls, sums)
        row = Totals.empty(self.n)
        for total, values in zip(row, (pulls.counts, sums, squares), strict=True):
            np.add.at(total, pulls.indices, values)
        self._learn(row)

    def outlook(self) -> Iterator[Pulls]:
        while True:
            yield self.propose(UNLIMITED)

    def _learn(self, row: Totals) -> None:
        self.totals = self.totals.plus(row)
        self.round += 1
        pulled = np.flatnonzero(row.pulls)
        for start in range(0, pulled.size, CHUNK):
            arms = pulled[start : start + CHUNK]
            self.low[arms], self.high[arms] = self._intervals(self.totals.of(arms))
        if self.totals.pulls.min() > 0:
            self._decide()

    def _intervals(self, totals: Totals) -> tuple[FloatArray, FloatArray]:
        alpha = self.delta / self.n
        if self.sd is None:
            return mean_interval(totals.pulls, totals.total, totals.scatter, alpha)
        low, high = sub_gaussian_interval(*totals, self.sd, alpha)
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)  # where all means are

    def _decide(self) -> None:
        for side in self.normal:
            view = self._view(side)
            cutoffs = self.rule.cutoffs(view.low, view.high)
            bounds = self.rule.bounds(view.low, view.high)
            # an indifference is a distance from the threshold, which the cutoffs do not bound
            below = max(cutoffs[0], bounds[0] + self.indifference)
            from_here_on = min(cutoffs[1], bounds[1] - self.indifference)
            open_ = ~(self.normal[side] | self.odd[side])
            normal = open_ & (view.high < below)
            odd = open_ & (view.low >= from_here_on) & ~normal
            self.normal[side] |= normal
            self.odd[side] |= odd
        self._merge_verdicts()

    def _merge_verdicts(self) -> None:
        """Combine the sides; an arm beyond both thresholds, as k < 0 allows, is called high."""
        not_high = self.normal["upper"]
        if "lower" in self.normal:
            self.decisions[not_high & self.normal["lower"]] = Decision.NORMAL
            low = self.odd["lower"] & (not_high | self.rule.ordered)
            self.decisions[low] = Decision.LOW
        else:
            self.decisions[not_high] = Decision.NORMAL
        self.decisions[self.odd["upper"]] = Decision.HIGH

    # The next step

    def _worth(self) -> FloatArray:
        """Return how much nearer decisions come where an arm's interval gets narrower by a unit.

        An undecided arm's own interval counts once. The cutoffs that arms are compared with move
        with the intervals that they depend on, for every undecided arm alike.
        """
        worth = np.zeros(self.n)
        for side in self.normal:
            view, open_ = self._view(side), self._open(side)
            seems_odd = view.means >= self.rule.threshold(view.means)
            below, above = self.rule.holds(view.means, view.low, view.high)
            worth += open_
            worth += (open_ & ~seems_odd).sum() * below + (open_ & seems_odd).sum() * above
        return worth

    def _open(self, side: str) -> BoolArray:
        """Return the undecided arms that have no verdict on a side."""
        return ~(self.normal[side] | self.odd[side]) & self.undecided

    def pulls_needed(self) -> FloatArray | None:
        """Return about how many more pulls each arm needs, for itself and for the threshold.

        An interval and the threshold's bound are to become as narrow as the arm's gap seems, and
        both go with the pulls to the power -1/2. A rough guess.
        """
        if self.done:
            return np.zeros(self.n)
        if self.totals.pulls.min() == 0:
            return None
        factors = np.ones(self.n)
        for side in self.normal:
            view, open_ = self._view(side), self._open(side)
            theta, cutoffs = self.rule.threshold(view.means), self.rule.cutoffs(view.low, view.high)
            odd, held = view.means >= theta, self.rule.holds(view.means, view.low, view.high)
            own = np.where(odd, view.means - view.low, view.high - view.means)
            cutoff = np.where(odd, cutoffs[1] - theta, theta - cutoffs[0])
            gap = np.maximum(np.abs(view.means - theta), own / DOUBT) + self.indifference
            wanted = np.where(open_, np.maximum((own + cutoff) / gap, 1.05) ** 2, 1.0)
            factors = np.maximum(factors, wanted)
            for kind, holds in ((~odd, held[0]), (odd, held[1])):
                most = float(np.where(kind, wanted, 1.0).max())
                factors = np.maximum(factors, np.where(holds > 0.0, most, 1.0))
        return np.ceil(self.totals.pulls * (factors - 1.0))

    # Reports

    def _view(self, side: str) -> _View:
        if side == "upper":
            return _View(self.means, self.low, self.high)
        low, high = np.nextafter(1.0 - self.high, -np.inf), np.nextafter(1.0 - self.low, np.inf)
        return _View(1.0 - self.means, low, high)

    def _estimates(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return averages, pulls and variances."""
        pulls = self.totals.pulls
        means = np.clip(np.nan_to_num(self.means, nan=0.5), 0.0, 1.0)
        return means, pulls, self.totals.scatter / np.maximum(pulls, 1.0)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        return self.low.copy(), self.high.copy()

    def threshold(self) -> Threshold:
        return self._threshold("upper")

    def thresholds(self) -> dict[str, Threshold]:
        found = {"upper": self._threshold("upper")}
        if "lower" in self.normal:
            found["lower"] = mirrored(self._threshold("lower"))
        return found

    def _threshold(self, side: str) -> Threshold:
        if self.totals.pulls.min() == 0:
            return Threshold(math.nan, -math.inf, math.inf)
        view = self._view(side)
        low, high = self.rule.bounds(view.low, view.high)
        return Threshold(min(max(self.rule.threshold(view.means), low), high), low, high)


class _View(NamedTuple):
    """Means and intervals as one side sees them; in a mirror for the lower one."""

    means: FloatArray
    low: FloatArray
    high: FloatArray


def counts_of_step(pulls: FloatArray, worth: FloatArray) -> IntArray:
    """Return how often each arm is pulled next.

    A radius goes with the pulls to the power -1/2, so one more pull gains `worth`/pulls/2, and that
    goes with the power -3/2. The counts make this gain the same for all arms that are pulled, up to
    `LARGEST_GROWTH`, for a total of `GROWTH` of the pulls of all arms that gain anything. The total
    is smaller where only arms would be left that gain less than the best ones still do then.
    """
    gain = worth / pulls
    size = GROWTH * float(pulls[gain > 0.0].sum()) + 1.0
    most = LARGEST_GROWTH * pulls + 1.0

    def counts_at(level: float) -> FloatArray:
        counts: FloatArray = np.clip(pulls * ((gain / level) ** (2.0 / 3.0) - 1.0), 0.0, most)
        return counts

    high = float(gain.max())
    low = high / (1.0 + LARGEST_GROWTH) ** 1.5
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if counts_at(middle).sum() > size else (low, middle)
    return np.ceil(counts_at(low) - 1e-9).astype(np.int64)


def _pulls_of(counts: IntArray, limit: int) -> Pulls:
    """Return the counts as pulls, in proportion smaller where they exceed the limit."""
    total = int(counts.sum())
    if total > limit:
        ends = np.cumsum(counts) * (max(limit, 1) / total)
        counts = np.diff(np.floor(ends + 1e-9).astype(np.int64), prepend=0)
    indices = np.flatnonzero(counts)
    return Pulls(indices, counts[indices])
