"""Sampling without replacement: what some of an arm's rewards say of the mean of all of them.

An arm has N rewards in [0, 1] in all, with the sum M and the mean m = M/N, and they are seen in a
random order, each once. After t of them, with the sum S, two things are known.

**For certain**, as the rest of them lies in [0, 1]: S <= M <= S + N - t, or
S/N <= m <= 1 - (t - S)/N. With t = N the mean is known.

**With probability 1 - alpha, for all t at once**: E_t(M) < 1/alpha, where

    E_t(M) = B(S + 1/2, t - S + 1/2)/B(1/2, 1/2) * C(N, M)/C(N - t, M - S)

with C(N, M) = G(N + 1)/(G(M + 1) G(N - M + 1)), G the gamma function, for any real M. For rewards
0 and 1 it is the ratio of prior and posterior of a beta-binomial prior of M at the true M, the
martingale of Waudby-Smith and Ramdas (NeurIPS 2020, "Confidence sequences for sampling without
replacement"). It depends on S and t only, so that rewards may be looked at many at a time.

At the true M it is a non-negative supermartingale with E_0 = 1, for any rewards in [0, 1]; a
martingale until the rest are all 0 or all 1, if all rewards are 0 or 1: Theorem 5 of
``docs/explanation/rules.md``.

By Ville's inequality E ever reaches 1/alpha with probability at most alpha. The next reward of an
arm may be asked for or not by looking at all arms: what counts is that, given all that was seen,
each of the arm's rewards that are left is the next one with the same probability.

E_t(M) excludes all sums outside an interval, as log E_t is convex in M: its second derivative is
g(M - S + 1) - g(M + 1) + g(N - M - (t - S) + 1) - g(N - M + 1) >= 0, g the trigamma function, which
falls.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.totals import UNIT

BISECTIONS = 20
ROUNDING = 64.0 * UNIT
"""More than the relative error of a term of `Evidence`: gammaln and betaln have a few units."""


class Evidence(NamedTuple):
    """log E_t(M) of each arm as a function of M, and how far rounding may put it off.

    The error of a sum is at most that of its terms, whose relative error is below `ROUNDING`: none
    of those with M exceeds log G(N + 1) by more than a unit, and an argument that is off by a few
    units of itself moves log G by less than those units times N log(N + 1). A sum S that is off by
    `doubt` moves log E by at most 2 doubt (log(N + 1) + 2), as the derivative in S is the sum of
    two differences of digamma at arguments in [1/2, N + 1], where it lies between -1.97 and
    log(N + 1).
    """

    rows: FloatArray
    total: FloatArray
    left: FloatArray
    start: FloatArray
    """What does not depend on M."""
    error: FloatArray

    @classmethod
    def of(
        cls, rows: FloatArray, seen: FloatArray, total: FloatArray, doubt: FloatArray | float = 0.0
    ) -> Evidence:
        """Return the evidence of arms of which `seen` of `rows` rewards add up to `total`."""
        from scipy.special import betaln, gammaln

        left, mixture = rows - seen, betaln(total + 0.5, seen - total + 0.5) - math.log(math.pi)
        most, logs = gammaln(rows + 1.0), np.log1p(rows)  # B(1/2, 1/2) = pi
        start = mixture + most - gammaln(left + 1.0)
        error = ROUNDING * (np.abs(mixture) + 6.0 * (most + 1.0) + rows * logs)
        return cls(rows, total, left, start, error + 2.0 * doubt * (logs + 2.0))

    def at(self, level: FloatArray) -> FloatArray:
        """Return log E_t(M) for sums M between `total` and `total + left`."""
        from scipy.special import gammaln

        above = level - self.total
        logs = gammaln(
            np.array([above, np.maximum(self.left - above, 0.0), level, self.rows - level]) + 1.0
        )
        value: FloatArray = self.start + logs[0] + logs[1] - logs[2] - logs[3]
        return value


def mean_interval(
    rows: FloatArray, seen: FloatArray, total: FloatArray, doubt: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return intervals that each contain the mean of their arm's rows, for all times at once.

    With probability 1 - alpha each; for certain where all rows were seen. Never outside of what is
    certain.

    Parameters
    ----------
    rows, seen, total
        N, t and S of each arm, floats.
    doubt
        How far S may be off because it was rounded; 0 for rewards 0 and 1, whose sum is exact.
    alpha
        Permitted probability that the interval of an arm ever misses its mean.
    """
    twice = (np.concatenate([part, part]) for part in (rows, seen, doubt))
    rows_twice, seen_twice, doubt_twice = twice
    both = np.concatenate([total, seen - total])  # the rewards, and their distances from 1
    least = least_total(rows_twice, seen_twice, both, doubt_twice, alpha) / rows_twice
    low, missed = np.split(np.nextafter(least, -1.0), 2)
    return np.clip(low, 0.0, 1.0), np.clip(np.nextafter(1.0 - missed, 2.0), 0.0, 1.0)


def least_total(
    rows: FloatArray, seen: FloatArray, total: FloatArray, doubt: FloatArray, alpha: float
) -> FloatArray:
    """Return a lower bound on the sum M of all rows of each arm.

    The largest sum found below the estimate N S/t that E excludes. As log E is convex in M and
    does not exclude the estimate, it excludes all sums below that one, too; where the estimate
    itself is excluded, which few rewards that are neither 0 nor 1 may bring about, and where E
    excludes none, there is what is certain, S. E counts as large enough only beyond all that
    rounding can have added, and as too small only below it.
    """
    evidence, needed = Evidence.of(rows, seen, total, doubt), math.log(1.0 / alpha)
    enough, too_little = needed + evidence.error, needed - evidence.error
    estimate = np.clip(rows * (total / np.maximum(seen, 1.0)), total, total + evidence.left)
    some = (evidence.at(estimate) < too_little) & (evidence.at(total) >= enough) & (seen < rows)
    inside, outside = np.where(some, estimate, total), total
    for _ in range(BISECTIONS):
        tried = 0.5 * (inside + outside)
        excluded = evidence.at(tried) >= enough
        inside, outside = np.where(excluded, inside, tried), np.where(excluded, tried, outside)
    return np.where(some, outside, np.maximum(total - doubt, 0.0))
