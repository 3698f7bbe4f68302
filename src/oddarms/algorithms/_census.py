"""The census: a finite population, so many rewards of each arm, sampled without replacement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from oddarms.algorithms._base import Algorithm, Decision, Pulls, Threshold, mirrored, no_pulls
from oddarms.errors import InvalidParameter
from oddarms.problem import MAX_AT_A_TIME, FloatArray, IntArray, Side, check_whole
from oddarms.rules import Rule
from oddarms.statistics.threshold_box import Verdicts, influence, known_outliers, verdicts
from oddarms.statistics.totals import relative_error
from oddarms.statistics.without_replacement import mean_interval

FIRST = 4  # rewards of each arm before anything is planned
GROWTH = 0.1  # of a step, relative to what was seen
BISECTIONS = 60


class Census(Algorithm):
    """See some of each arm's rewards, drawn without replacement, or in the end all of them.

    An arm's mean is the average of all its rewards, of which there are ``rows[i]``. The answer is
    right with probability at least 1 - delta if each arm's rewards are seen in a random order, all
    orders alike probable and independent of those of other arms. The rewards themselves may be any
    in [0, 1]. It always ends: where all rewards are seen, the answer is certain.

    Every mean gets an interval at delta/n (`oddarms.statistics.without_replacement`); by the union
    bound all of them hold together, at all times, with probability at least 1 - delta. An arm is
    decided once it lies on one side of the threshold for all means within these intervals
    (`oddarms.statistics.threshold_box`). Both sides ask the same of the means, so that they
    share their delta. What all rewards show replaces what was likely.

    Parameters
    ----------
    side
        "upper", or "both".
    rows
        How many rewards each arm has in all: a list, or a number if it is the same for all.

    Notes
    -----
    Steps grow by a tenth. An arm is seen the more often the wider its interval is, the more the
    threshold moves with its mean, and if it is undecided. These choices do not touch the guarantee.

    Sums of rewards that are all 0 or 1 are exact, and so are ties with the threshold, where all
    rewards were seen; an arm on it is an outlier. Sums of other rewards are known up to rounding,
    about 1e-16 times their number, and an arm so close to the threshold counts as being on it.
    """

    handles_both_sides = True

    def __init__(
        self,
        n: int,
        *,
        rule: Rule,
        delta: float,
        rng: np.random.Generator,
        side: Side = "upper",
        rows: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        self.both = side == "both"
        self.rows: IntArray = _check_rows(rows, n)
        self.low: FloatArray = np.zeros(n)
        self.high: FloatArray = np.ones(n)
        self.exact = np.ones(n, dtype=np.bool_)  # whether all rewards were 0 or 1 so far
        self.planned: IntArray = np.zeros(n, dtype=np.int64)

    @property
    def left(self) -> IntArray:
        """Each arm's rewards that were not seen yet."""
        left: IntArray = self.rows - self.pulls
        return left

    # Steps

    def propose(self, limit: int) -> Pulls:
        if self.done:
            return no_pulls()
        seen, left = int(self.pulls.sum()), int(self.left.sum())
        size = FIRST * self.n if seen == 0 else max(self.n, int(GROWTH * seen))
        # at least one pull: none would say that nothing more is needed
        self.planned = shared_out(self._targets(), self.pulls, self.left, max(min(size, limit), 1))
        assert 0 < self.planned.sum() <= left
        arms = np.flatnonzero(self.planned)
        return Pulls(arms, self.planned[arms])

    def _targets(self) -> FloatArray:
        """Return in which proportion the arms should have been seen.

        The distance of each undecided arm from the threshold is known up to its own width and that
        of the threshold, which is the sum of c_j width_j. With widths s_j/sqrt(t_j), the sum over
        the undecided arms is least, for a given sum of the t_j, at t_j ~ (weight_j s_j)^(2/3).
        """
        undecided = self.undecided
        width = self.high - self.low
        weight = undecided.sum() * influence(0.5 * (self.low + self.high), self.k) + undecided
        spread = weight * width * np.sqrt(np.maximum(self.pulls, 1))
        targets: FloatArray = np.cbrt(spread) ** 2
        return np.maximum(targets, 1e-6 * max(float(targets.max()), 1e-6))

    def outlook(self) -> Iterator[Pulls]:
        left = np.where(self.undecided, self.left - self.planned, 0)
        while (left > 0).any():
            arms = np.flatnonzero(left > 0)
            yield Pulls(arms, np.ones(arms.size, dtype=np.int64))
            left[arms] -= 1

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        counts = np.bincount(pulls.indices, pulls.counts, minlength=self.n)
        self.threshold_pulls += int(counts[~self.undecided].sum())
        self._count(pulls, sums)
        self.exact[pulls.indices[(squares != sums) | (sums % 1.0 != 0.0)]] = False
        self.planned = np.zeros(self.n, dtype=np.int64)
        self.round += 1
        self._look(np.unique(pulls.indices))
        self._decide()

    def _look(self, arms: IntArray) -> None:
        """Narrow the intervals of some arms; a contradicted interval is replaced."""
        rows, seen = self.rows[arms].astype(np.float64), self.pulls[arms].astype(np.float64)
        found = rows, seen, self.sums[arms], self._doubt()[arms]
        low, high = mean_interval(*found, self.delta / self.n)
        narrow = np.maximum(low, self.low[arms]), np.minimum(high, self.high[arms])
        # an empty one, or one that all rewards contradict, says that an earlier one was wrong
        apart = (narrow[0] > narrow[1]) | (seen == rows)
        self.low[arms] = np.where(apart, low, narrow[0])
        self.high[arms] = np.where(apart, high, narrow[1])

    def _doubt(self) -> FloatArray:
        """Return how far the sums may be off because they were rounded."""
        seen = self.pulls.astype(np.float64)
        return np.where(self.exact, 0.0, relative_error(seen) * seen)

    # Decisions

    def _decide(self) -> None:
        upper = self._verdicts(mirrored=False)
        self.decisions[:] = Decision.UNDECIDED
        self.decisions[upper.normal] = Decision.NORMAL
        if self.both:
            lower = self._verdicts(mirrored=True)
            self.decisions[upper.normal & ~lower.normal] = Decision.UNDECIDED
            self.decisions[lower.odd & (upper.normal | self.rule.ordered)] = Decision.LOW
        self.decisions[upper.odd] = Decision.HIGH

    def _verdicts(self, *, mirrored: bool) -> Verdicts:
        """Return what is known on one side; the lower one is the upper one of 1 - X."""
        asked = self.k, self.rule.margin, self.rule.floor
        if self.left.any():
            return verdicts(*(self._mirrored() if mirrored else (self.low, self.high)), *asked)
        totals = self.rows - self.sums if mirrored else self.sums
        odd = known_outliers(totals, self.rows.astype(np.float64), self._doubt(), *asked)
        return Verdicts(odd, ~odd)

    def _mirrored(self) -> tuple[FloatArray, FloatArray]:
        return np.nextafter(1.0 - self.high, -1.0), np.nextafter(1.0 - self.low, 2.0)

    # Reports

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        return self.low.copy(), self.high.copy()

    def threshold(self) -> Threshold:
        low, high = self.rule.bounds(self.low, self.high)
        estimate = self.rule.threshold(np.nan_to_num(self.means, nan=0.5))
        return Threshold(float(np.clip(estimate, low, high)), low, high)

    def thresholds(self) -> dict[str, Threshold]:
        found = {"upper": self.threshold()}
        if self.both:
            low, high = self.rule.bounds(*self._mirrored())
            estimate = self.rule.threshold(1.0 - np.nan_to_num(self.means, nan=0.5))
            within = float(np.clip(estimate, low, high))
            found["lower"] = mirrored(Threshold(within, low, high))
        return found


def _check_rows(rows: int | Sequence[int] | None, n: int) -> IntArray:
    if rows is None:
        raise InvalidParameter(
            "The census requires rows, the number of rewards each arm has in all: give a list of"
            " numbers, or call find with Resampled(records, replace=False)."
        )
    if not isinstance(rows, Sequence | np.ndarray):
        return np.full(n, check_whole("rows", rows, least=1, most=MAX_AT_A_TIME), dtype=np.int64)
    if len(rows) != n:
        raise InvalidParameter(f"rows must be one number per arm ({n}) but got {len(rows)}.")
    checked = [check_whole("rows", number, least=1, most=MAX_AT_A_TIME) for number in rows]
    return np.array(checked, dtype=np.int64)


def shared_out(targets: FloatArray, seen: IntArray, left: IntArray, size: int) -> IntArray:
    """Return about `size` pulls that bring what was seen near the proportion of the targets.

    At most what is left of each arm, and all of it where that is no more than the size.
    """
    if left.sum() <= size:
        return left.copy()
    below, above = 0.0, float(((seen + np.minimum(left, size)) / targets).max())
    for _ in range(BISECTIONS):
        middle = 0.5 * (below + above)
        enough = np.minimum(np.maximum(middle * targets - seen, 0.0), left).sum() >= size
        below, above = (below, middle) if enough else (middle, above)
    wanted = np.clip(above * targets - seen, 0.0, left)
    counts: IntArray = np.floor(wanted).astype(np.int64)
    rest = max(size - int(counts.sum()), 0)
    order = np.argsort(counts - wanted, kind="stable")  # the largest fractions first
    more = order[(counts < left)[order]][:rest]
    counts[more] += 1
    return counts
