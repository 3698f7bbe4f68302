"""How SPADE compares arms with the threshold: a certificate for few, many and very many arms.

All speak of the upper side with k >= 0; SPADE mirrors the rewards for the rest. `delta` is
divided as the constants say, and every share is spent on the events named beside it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction

import numpy as np

from oddarms.algorithms._base import Threshold, mirrored
from oddarms.algorithms._spade_joint import (
    BOX_SHARE,
    EDGE,
    JOINT_ARMS_SHARE,
    LOOK_AGAIN,
    NORMAL,
    OUTLIER,
    UNDECIDED,
    Box,
    Rules,
    Standing,
    box_of,
    closeness_in,
    conclude,
    decide,
    distance_rate,
    empty_rows,
    interval_of_mu,
    joint_row_weights,
    level_evidence,
    mean_within,
    narrowed,
    raised,
    rows_with,
    settle,
    within,
)
from oddarms.algorithms._spade_plans import LEAST_DOUBT
from oddarms.problem import BoolArray, Error, FloatArray, IntArray
from oddarms.rules import Sigma
from oddarms.statistics.directions import Forecast, Tally, forecast, leave_one_out_k, tally_seen
from oddarms.statistics.evidence import wide_mean_interval
from oddarms.statistics.sweeps import OddEven, TrueDirection
from oddarms.statistics.totals import Totals

JOINT_UP_TO = 512  # arms, with rows of any weights
HYBRID_UP_TO = 1024  # arms, with uniform sweeps; with more, one interval serves all of them

# An interval from sweeps: 4 ends, D, the true direction on either side, and its bounds on mu
SWEEPS_END_SHARE, DEGENERATE_SHARE, DIRECTION_SHARE = 0.01, 0.02, 0.01
HYBRID_ARMS_SHARE = 0.76  # the joint form's 0.14 and 4 * 0.01 + 0.02 + 4 * 0.01 <= 1
LEVEL_ARMS_SHARE = 0.85  # 0.85 + 0.05 and 4 * 0.01 + 0.02 + 4 * 0.01 <= 1

MOST_BETWEEN_LOOKS = 1.4  # times as many pulls, until one of very many arms is looked at again


class Certificate(ABC):
    """Verdicts on all arms against one threshold, with the evidence for them.

    Attributes
    ----------
    standing
        What is known so far.
    mu
        An interval that contains mu.
    """

    uniform = False
    """Whether rows are uniform sweeps, in pairs."""
    arms_share: float
    """The share of delta that is spent on the arms' verdicts."""
    least_doubt = LEAST_DOUBT
    """The threshold's share of the doubt counts as at least this where steps are chosen."""

    def __init__(
        self, n: int, rule: Sigma, delta: float, indifference: float, *, error: Error = "fwer"
    ) -> None:
        self.n = n
        level, fdr = math.log(n / (self.arms_share * delta)), error == "fdr"
        others_k, rate = self.leave_one_out(n, rule.k)
        self.rules = Rules(
            *(rule.k, others_k, delta, indifference / rate, rate, level),
            *(rule.margin, rule.floor, fdr),
        )
        verdicts, box = np.full(n, UNDECIDED, dtype=np.int8), (np.zeros(n), np.ones(n))
        self.standing = Standing(verdicts, np.zeros(n), -math.inf, math.inf, box, 0.0, 0.5)
        self.mu = 0.0, 1.0

    def leave_one_out(self, n: int, k: float) -> tuple[float, float]:  # noqa: ARG002
        """Return k of thresholds without one arm, and Lemma 2's rate, where these are used."""
        return 0.0, 1.0

    @abstractmethod
    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Take a row; `guess` was made before it, None for the very first rows."""

    @abstractmethod
    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Look at the open arms again."""

    def row_weights(self, tally: Tally, guess: Forecast) -> FloatArray:  # noqa: ARG002
        """Return how often to pull each arm in a row, relative to an average of 1."""
        return np.ones(self.n)

    def look(self, tally: Tally) -> None:
        """Narrow the box if there are enough new pulls."""
        pulls = float(tally.pulls.sum())
        if pulls >= LOOK_AGAIN * self.standing.pulls_seen:
            self.standing = narrowed(self.rules, self.standing, self.intervals(tally), pulls)

    def intervals(self, tally: Tally) -> Box:
        """Return intervals of all means, at the cost of BOX_SHARE."""
        return box_of(tally, self.rules.delta)

    def settle(self, arms: IntArray, tally: Tally) -> None:
        """Decide the open arms whose interval and that of the threshold do not meet."""
        settle(self.rules, self.raised, arms, tally)

    @property
    def centre(self) -> tuple[float, float]:
        """An interval of mu."""
        return mean_within(self.standing.box, self.mu)

    @property
    def final(self) -> BoolArray:
        """The arms whose verdict stays: all that have one, unless a share may be wrong."""
        named: BoolArray = self.standing.verdicts != UNDECIDED
        fdr, level = self.rules.fdr, self.rules.log_level
        return named & (self.standing.log_evidence >= level) if fdr else named

    @property
    def raised(self) -> Standing:
        """What is known, with the interval of the whole threshold: margin and floor included."""
        return raised(self.rules, self.standing, self.mu)


class JointCertificate(Certificate):
    """Arm i against the threshold of the *other* arms, both doubts in one e-value.

    The product of the arm's own evidence and the stream's is an e-process, and so is its minimum
    over all means: Theorem 8 of docs/explanation/proofs.md. Each arm has one wrong verdict, so one
    budget serves all arms together, and the two uncertainties add like variances.
    """

    arms_share = JOINT_ARMS_SHARE

    def __init__(
        self, n: int, rule: Sigma, delta: float, indifference: float, *, error: Error = "fwer"
    ) -> None:
        super().__init__(n, rule, delta, indifference, error=error)
        if not self.rules.plain:
            self.least_doubt = 0.0  # the doubt about a margin or a floor hides no bias
        self.rows = empty_rows(n, self.rules.others_k, math.log(n / delta))

    def leave_one_out(self, n: int, k: float) -> tuple[float, float]:
        """Return both."""
        return leave_one_out_k(n, k), distance_rate(n, k)

    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Enter a row into the streams; the first rows serve only the forecast."""
        if guess is not None:
            self.rows = rows_with(self.rows, row, size, guess, self.rules.margin)

    def row_weights(self, tally: Tally, guess: Forecast) -> FloatArray:
        """Return weights like |c_j| times the reward's sd: `joint_row_weights`."""
        return joint_row_weights(self.rules.k, tally, guess)

    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Weigh each open arm on the side of its threshold where it seems to be."""
        self.mu = interval_of_mu(self.rules, self.rows)
        self.standing = decide(self.rules, self.rows, self.standing, arms, tally, guess)


class SweepInterval:
    """An interval of the common threshold from uniform sweeps in pairs; O(n)."""

    def __init__(self, n: int, k: float, delta: float) -> None:
        self.odd_even = OddEven(
            n, k, end_delta=SWEEPS_END_SHARE * delta, degenerate_delta=DEGENERATE_SHARE * delta
        )
        self.true_direction = TrueDirection(
            n, k, alpha=DIRECTION_SHARE * delta, nuisance_delta=DIRECTION_SHARE * delta
        )
        self._sharpened = 0

    def absorb(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Enter a uniform row into both bounds."""
        self.odd_even.absorb(int(size), row.total)
        self.true_direction.absorb(row, size, 0.5 if guess is None else guess.centre)

    def narrowed(self, known: Standing) -> Standing:
        """Return what is known, with the threshold narrowed by this interval.

        Between the halves of a pair there is no reading with which the radius would agree.
        """
        if self.odd_even.balanced and self.odd_even.readings > self._sharpened:
            self._sharpened = self.odd_even.readings
            self.odd_even.sharpen(self.true_direction.radius(known.box, self.odd_even.sigma))
        low, high = self.odd_even.low, self.odd_even.high
        return within(known, max(known.low, low), min(known.high, high))


class HybridCertificate(JointCertificate):
    """Joint evidence from uniform sweeps in pairs, beside the interval that they also give.

    With some hundred arms the estimates of single means are poor when the threshold is already
    known well, and the interval bounds it better than the joint form's own streams do.
    """

    uniform = True
    arms_share = HYBRID_ARMS_SHARE

    def __init__(
        self, n: int, rule: Sigma, delta: float, indifference: float, *, error: Error = "fwer"
    ) -> None:
        super().__init__(n, rule, delta, indifference, error=error)
        self.sweeps = SweepInterval(n, rule.k, delta)

    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Enter a uniform row into the streams and the interval."""
        super().absorb_row(row, size, guess)
        self.sweeps.absorb(row, size, guess)

    def row_weights(self, tally: Tally, guess: Forecast) -> FloatArray:  # noqa: ARG002
        """Return equal weights: sweeps are uniform here."""
        return np.ones(self.n)

    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Sharpen the interval, then weigh the open arms."""
        self.standing = self.sweeps.narrowed(self.standing)
        super().decide(arms, tally, guess)


class IntervalCertificate(Certificate):
    """Arms against the far end of an interval of the common threshold: O(n), for many arms.

    With theta in [low, high] an arm is normal once its e-process against "mean >= low" suffices,
    and an outlier once that against "mean <= high" does: proofs.md, the end of section 10.
    """

    uniform = True
    arms_share = LEVEL_ARMS_SHARE

    def __init__(
        self, n: int, rule: Sigma, delta: float, indifference: float, *, error: Error = "fwer"
    ) -> None:
        super().__init__(n, rule, delta, indifference, error=error)
        self.sweeps = SweepInterval(n, rule.k, delta)
        self._next_look: FloatArray = np.zeros(n)  # in pulls

    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Enter a uniform row into the interval."""
        self.sweeps.absorb(row, size, guess)

    def intervals(self, tally: Tally) -> Box:
        """Return intervals of all means, wider and faster."""
        return wide_mean_interval(tally.pulls, tally.total, BOX_SHARE * self.rules.delta / self.n)

    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Hold each open arm against the end of the interval beyond which it seems to be."""
        self.standing = self.sweeps.narrowed(self.standing)
        self.mu = self.sweeps.true_direction.mean_interval()
        known, slack, log_level = self.raised, self.rules.slack, self.rules.log_level
        # names of which a share may be wrong are read at one moment
        due = arms if self.rules.fdr else arms[tally.pulls[arms] >= self._next_look[arms]]
        low, high, near = known.low + slack, known.high - slack, closeness_in(self.rules, known)
        found = level_evidence(low, high, slack, near, due, tally, guess)
        conclude(self.rules, self.standing, due, found)
        # evidence grows about as fast as the pulls
        later = due[(found.normal > -math.inf) | (found.outlier > -math.inf)]
        missing = 0.7 * (log_level / np.maximum(known.log_evidence[later], EDGE))
        self._next_look[later] = tally.pulls[later] * np.clip(missing, 1.0, MOST_BETWEEN_LOOKS)
        arms = arms[known.verdicts[arms] == UNDECIDED]
        if arms.size > 0:
            radius = 0.5 * max(min(known.high, 2.0) - max(known.low, -1.0), EDGE)
            noise = guess.variance[arms] / tally.pulls[arms]
            own = float(np.sqrt(2.0 * noise * log_level).mean())
            self.standing = self.standing._replace(threshold_share=radius / (radius + own))


def certificate_for(n: int, k: float) -> type[JointCertificate] | type[IntervalCertificate]:
    """Return the form that suits n arms: a choice by n and k alone, so nothing is paid for it.

    If n = 1 + k^2, to the last digit, an arm reaches the threshold only where all others are equal:
    no threshold without it can say so.
    """
    if n > HYBRID_UP_TO or Fraction(n) <= 1 + Fraction(k) ** 2:
        return IntervalCertificate
    return JointCertificate if n <= JOINT_UP_TO else HybridCertificate


class View:
    """A certificate seen through a mirror, where the side or the sign of k asks for one.

    On rewards 1 - X and for |k| the threshold is 1 less that of k < 0, and the verdicts swap.
    """

    def __init__(
        self,
        n: int,
        rule: Sigma,
        delta: float,
        *,
        lower: bool,
        indifference: float,
        error: Error = "fwer",
    ) -> None:
        k = rule.k
        self.mirrored = lower != (k < 0)
        self.swapped = k < 0
        seen = replace(rule, k=abs(k))
        self.certificate = certificate_for(n, k)(n, seen, delta, indifference, error=error)
        self.guess: Forecast | None = None

    def seen(self, totals: Totals) -> Tally:
        """Return the pulls as the certificate sees them."""
        return tally_seen(totals, self.mirrored)

    def look(self, totals: Totals) -> None:
        """Make the forecast anew."""
        self.guess = forecast(self.seen(totals))

    def row_weights(self, totals: Totals) -> FloatArray:
        """Return the weights the certificate wants, or equal ones before any forecast."""
        if self.guess is None:
            return np.ones(self.certificate.n)
        return self.certificate.row_weights(self.seen(totals), self.guess)

    @property
    def odd(self) -> BoolArray:
        """The arms found beyond the threshold."""
        return self._with(NORMAL if self.swapped else OUTLIER)

    @property
    def normal(self) -> BoolArray:
        """The arms found on the normal side of the threshold."""
        return self._with(OUTLIER if self.swapped else NORMAL)

    def _with(self, verdict: int) -> BoolArray:
        arms: BoolArray = self.certificate.standing.verdicts == verdict
        return arms

    def interval(self) -> tuple[float, float]:
        """Return the interval of the threshold, unmirrored."""
        low, high = self.certificate.raised[2:4]
        return mirrored(Threshold(math.nan, low, high))[1:] if self.mirrored else (low, high)
