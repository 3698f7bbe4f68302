"""ROAI-Elim and ROAI-LUCB of Zhu, Katariya and Nowak, "Robust Outlier Arm Identification".

ICML 2020, Algorithms 1 and 2, for median + k MAD; as baselines. Where the paper leaves something
open we do as the authors' code does: the estimates of a distance |y_i - median| and of the
threshold are the middles of their intervals. The code differs from the paper, and from us, in three
ways: each pull is of one arm drawn from the set that a round would pull whole, its radius is a
little smaller, and its k is multiplied by 1.4826.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from oddarms.algorithms._base import Algorithm, Decision, Pulls, Threshold, no_pulls, outwards
from oddarms.algorithms._lucb import check_sd
from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.rules import Ends, Mad, Rule, middle, separate_bounds
from oddarms.statistics.roai import arm_radius


class ROAI(Algorithm):
    """What both algorithms share: intervals, the threshold's bounds, when to stop.

    Right with probability at least 1 - delta for independent rewards in [0, 1], or sub-Gaussian
    ones. A round pulls some arms once each; the search ends when no arm's interval meets that of
    the threshold. Decisions are final only then.

    Parameters
    ----------
    sd
        The sub-Gaussian parameter of the rewards, in their units; by default half their range,
        which is right for all rewards that keep to their bounds.
    """

    rules = frozenset({"mad"})
    lengths = frozenset({"sd"})

    def __init__(
        self, n: int, *, rule: Rule, delta: float, rng: np.random.Generator, sd: float = 0.5
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        assert isinstance(rule, Mad)
        self.sd = check_sd(sd)
        self.y_hat: FloatArray = np.full(n, np.nan)
        self.L: FloatArray = np.full(n, -np.inf)
        self.U: FloatArray = np.full(n, np.inf)
        self.median: Ends = (-math.inf, math.inf)
        self.mad: Ends = (-math.inf, math.inf)
        self.theta: Ends = (-math.inf, math.inf)
        self.L_AD: FloatArray = np.zeros(n)
        self.U_AD: FloatArray = np.full(n, np.inf)

    @abstractmethod
    def _chosen(self) -> IntArray:
        """Return the arms that the next round pulls."""

    def propose(self, limit: int) -> Pulls:  # noqa: ARG002 - a round cannot be made smaller
        if self.done:
            return no_pulls()
        arms = self._chosen() if self.round else np.arange(self.n)
        return Pulls(arms, np.ones(arms.size, dtype=np.int64))

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:  # noqa: ARG002
        self.threshold_pulls += int(pulls.counts[~self.undecided[pulls.indices]].sum())
        self._count(pulls, sums)
        self.round += 1
        self.y_hat = self.sums / self.pulls
        radius = arm_radius(self.pulls, self.n, self.delta, self.sd)
        self.L, self.U = self.y_hat - radius, self.y_hat + radius
        assert isinstance(self.rule, Mad)
        found = separate_bounds(self.L, self.U, self.rule.k)
        self.median, self.mad, self.L_AD, self.U_AD = found[:4]
        self.theta = self.rule.raised(found[4], self.median)
        below, above = self.theta[0] > self.U, self.theta[1] < self.L
        self.decisions[:] = Decision.UNDECIDED
        self.decisions[below], self.decisions[above] = Decision.NORMAL, Decision.HIGH

    def outlook(self) -> Iterator[Pulls]:
        while True:
            yield self.propose(1)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        return np.clip(self.L, 0.0, 1.0), np.clip(self.U, 0.0, 1.0)

    def threshold(self) -> Threshold:
        low, high = self.theta
        return Threshold(0.5 * (low + high) if self.round else math.nan, *outwards(low, high))


class ROAIElim(ROAI):
    """Pull every arm whose interval meets that of the median, of the MAD or of the threshold."""

    def _chosen(self) -> IntArray:
        in_median = _meets(self.L, self.U, self.median)  # A_median
        in_mad = _meets(self.L_AD, self.U_AD, self.mad)  # A_MAD
        return np.flatnonzero(in_median | in_mad | self.undecided)


class ROAILUCB(ROAI):
    """Pull at most ten arms: those that are hardest to tell from the median, MAD and threshold."""

    def _chosen(self) -> IntArray:
        m = self.n + 1 - middle(self.n)  # the median is the m-th largest
        by_mean = np.argsort(-self.y_hat, kind="stable")
        by_distance = np.argsort(-0.5 * (self.L_AD + self.U_AD), kind="stable")
        arms: list[int] = []
        for largest in (m - 1, m):  # J_{m-1} and J_m
            arms += _hardest(by_mean[:largest], by_mean[largest:], self.L, self.U)
            arms += _hardest(by_distance[:largest], by_distance[largest:], self.L_AD, self.U_AD)
        high = self.y_hat >= self.threshold().estimate
        odd, normal = (np.flatnonzero(self.undecided & kind) for kind in (high, ~high))
        return np.unique([*arms, *_hardest(odd, normal, self.L, self.U)])


def _meets(low: FloatArray, high: FloatArray, interval: Ends) -> BoolArray:
    found: BoolArray = (low <= interval[1]) & (high >= interval[0])
    return found


def _hardest(upper: IntArray, lower: IntArray, low: FloatArray, high: FloatArray) -> list[int]:
    """Return the arm that may be lowest of the upper set, and highest of the lower set."""
    found = []
    if upper.size:
        found.append(int(upper[low[upper].argmin()]))
    if lower.size:
        found.append(int(lower[high[lower].argmax()]))
    return found
