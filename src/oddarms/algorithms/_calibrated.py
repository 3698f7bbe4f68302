"""The calibrated rule: a careful z-test in rows, cheap and not proven; also for a fixed budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from oddarms.algorithms._base import (
    UNLIMITED,
    Algorithm,
    Decision,
    Decisions,
    Pulls,
    Threshold,
    no_pulls,
)
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, Goal, IntArray
from oddarms.rules import Rule
from oddarms.statistics.calibrated import (
    FIRST_ROWS,
    Conditions,
    Rows,
    Verdict,
    look,
    next_counts,
    next_weight,
    pulls_left,
    rounded_counts,
    stated_error,
    threshold_bound,
    verdict,
)
from oddarms.statistics.directions import tally_seen
from oddarms.statistics.evidence import mean_interval
from oddarms.statistics.totals import Totals

LEAST_ROWS = 2  # before which the spread of the means cannot be told from noise


class _Row(NamedTuple):
    """A row that was proposed, for the limit there was then."""

    weight: float
    counts: IntArray
    limit: int


class Calibrated(Algorithm):
    """Test every arm by a normal approximation, and stop when all of it seems right.

    **Not proven.** It takes fewer pulls than SPADE, and its measured errors stayed below delta
    (docs/explanation/calibrated.md). Use it where pulls are dear and a wrong answer is not a
    disaster. Dependent rewards break it. Rewards near their means, far from 0 and 1, gain least.

    Every step is a *row*, which pulls each arm at least once, so that neither the means nor the
    threshold are biased by what was looked at: see `oddarms.statistics.calibrated`. All arms are
    decided at once, when the stated probability of any error has fallen to delta.

    Parameters
    ----------
    goal
        "confidence" stops when the stated error is at most delta. "budget" spends the whole budget
        where it helps the answer most, and decides nothing: `guesses` says what seems to be so.

    Notes
    -----
    With n < 1 + k^2 arms none can reach mu + k sigma, as no standardised value of n numbers exceeds
    sqrt(n - 1): all are called normal without a pull (for k < 0: outliers). The one exception,
    all means equal, is not looked for. A margin or a floor that no mean in [0, 1] can reach makes
    all arms normal, too.

    Equal means without a margin, or an arm exactly on the threshold, have gap 0: the search then
    ends by a budget, or by a wrong answer, which time makes ever more likely.
    """

    proven = False
    goals = frozenset({"confidence", "budget"})

    def __init__(
        self,
        n: int,
        *,
        rule: Rule,
        delta: float,
        rng: np.random.Generator,
        goal: Goal = "confidence",
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        self.asked = Conditions(self.k, rule.margin, rule.floor)
        self.goal = goal
        self.totals = Totals.empty(n)
        self.rows = Rows.none(n)
        self._row: _Row | None = None
        if not self.asked.reachable(n):
            self.decisions[:] = Decision.NORMAL
        elif not any(self.asked.binds(n)):
            self.decisions[:] = Decision.HIGH

    def propose(self, limit: int) -> Pulls:
        if self.done:
            return no_pulls()
        if self.goal == "budget" and limit >= UNLIMITED:
            raise InvalidParameter(
                "goal='budget' requires a budget: give a number of pulls, or leave goal out."
            )
        if self._row is None or self._row.limit != limit:
            self._row = self._next_row(limit)
        return Pulls(np.arange(self.n), self._row.counts)

    def _next_row(self, limit: int) -> _Row:
        weight = next_weight(self.rows)
        total = round(weight * self.n)
        too_little_behind = self.goal == "budget" and limit - total < self.n
        last = total > limit or too_little_behind
        if last:
            total = max(limit, self.n)  # more than the limit ends the search
            weight = total / self.n
        counts = np.ones(self.n)
        if self.rows.number >= FIRST_ROWS:
            found = look(self.totals, self.rows, self.asked)
            counts = next_counts(self.totals, self.rows, found, verdict(found), weight, total)
            if not last:
                total = min(total, max(round(float(counts.sum())), self.n))
        return _Row(weight, rounded_counts(counts, total, self.rng.random()), limit)

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        assert self._row is not None
        self._count(pulls, sums)
        self.totals = self.totals.plus(Totals(pulls.counts.astype(np.float64), sums, squares))
        self.rows = self.rows.plus(self._row.weight, pulls.counts, sums)
        self._row = None
        self.round += 1
        if self.goal == "confidence" and self.rows.number >= FIRST_ROWS:
            found = self._verdict()
            if stated_error(self.totals.pulls, found) <= self.delta:
                self.decisions = _decisions(found)

    def outlook(self) -> Iterator[Pulls]:
        counts = np.ones(self.n, dtype=np.int64) if self._row is None else self._row.counts
        while True:
            yield Pulls(np.arange(self.n), counts.copy())

    # Reports

    def _verdict(self) -> Verdict:
        return verdict(look(self.totals, self.rows, self.asked))

    @property
    def error_estimate(self) -> float:
        """About the probability that any arm's guess is wrong, at most 1. Not proven.

        With goal "confidence" it has in it the price of stopping by looking.
        """
        if self.rows.number < LEAST_ROWS:
            return 0.0 if self.done else 1.0
        found = self._verdict()
        if self.goal == "budget":
            return min(float(found.tail.sum()), 1.0)
        return min(stated_error(self.totals.pulls, found), 1.0)

    def pulls_needed(self) -> FloatArray | None:
        """Return about how many more pulls each arm needs: `pulls_left`, a rough guess."""
        if self.done:
            return np.zeros(self.n)
        if self.goal == "budget" or self.rows.number < FIRST_ROWS:
            return None
        found = look(self.totals, self.rows, self.asked)
        return pulls_left(self.totals, found, verdict(found), self.delta)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return intervals that contain all means together with probability at least 1 - delta.

        These are proven, by e-processes as SPADE's are, at delta/n each. Decisions do not rest on
        them, and take another delta.
        """
        return mean_interval(*tally_seen(self.totals), self.delta / self.n)

    def threshold(self) -> Threshold:
        """Return the threshold's estimate and an *approximate* interval: `threshold_bound`.

        Unlike the arms' intervals it is not proven.
        """
        if self.rows.number < LEAST_ROWS:
            estimate = float(self.means.mean()) if self.rows.number else math.nan
            return Threshold(estimate, -math.inf, math.inf)
        return Threshold(*threshold_bound(self.totals, self.rows, self.asked, self.delta))


def _decisions(found: Verdict) -> Decisions:
    return np.where(found.odd, Decision.HIGH, Decision.NORMAL).astype(np.int8)
