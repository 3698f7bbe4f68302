"""What SPADE's decisions rest on: two ways to hold an arm against the threshold.

Both speak of the upper side with k >= 0; SPADE mirrors the rewards for the rest. `delta` is
divided as the constants say, and every share is spent on the events named beside it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.statistics.direction_box import smallest_sd
from oddarms.statistics.directions import Directions, Forecast, Tally, forecast
from oddarms.statistics.evidence import log_mean_above, log_mean_below, mean_interval
from oddarms.statistics.odd_even import OddEven
from oddarms.statistics.threshold_streams import LowerStream, MeanStream, UpperStream
from oddarms.statistics.totals import Totals
from oddarms.statistics.true_direction import TrueDirection

UNDECIDED, NORMAL, OUTLIER = 0, 1, 2

BOX_SHARE = 0.05  # the intervals of all arms, both certificates
END_SHARE = 0.03  # an end of the reported interval of the threshold
JOINT_ARMS_SHARE, NUISANCE_SHARE = 0.87, 0.01  # 0.87 + 0.05 + 2 * 0.03 + 2 * 0.01 <= 1
LEVEL_ARMS_SHARE, ODD_EVEN_SHARE, TRUE_DIRECTION_SHARE, DEGENERATE_SHARE = 0.81, 0.01, 0.01, 0.02
HYBRID_ARMS_SHARE = 0.76
# 0.81 + 0.05 + 0.03 (common lower stream) + 4 * 0.01 + 2 * 0.01 + 2 * 0.01 (mu) + 0.02 <= 1

DOUBT_DIRECTION, DOUBT_VARIANCE, SMALLEST_WEIGHT = 6.0, 2.0, 0.5
EDGE = 1e-9
WIDTHS, POWER, EVEN = np.array([0.02, 0.08, 0.3]), 3.0, 0.3


class Certificate(ABC):
    """Verdicts on all arms against one threshold, with the evidence for them.

    Attributes
    ----------
    verdicts
        Per arm 0, 1 (normal) or 2 (outlier); final.
    log_evidence
        Per arm the log e-value for the verdict it tends to.
    low, high
        An interval that contains the threshold.
    threshold_share
        How much of the doubt about the open arms is doubt about the threshold; steers only.
    """

    def __init__(self, n: int, k: float, delta: float, slack: float, arms_share: float) -> None:
        self.n = n
        self.k = k
        self.delta = delta
        self.slack = slack
        self.log_level = math.log(n / (arms_share * delta))
        self.verdicts = np.full(n, UNDECIDED, dtype=np.int8)
        self.log_evidence: FloatArray = np.zeros(n)
        self.low, self.high = -math.inf, math.inf
        self.threshold_share = 0.5
        self.common = LowerStream(n, k, leave_one_out=False)
        self.mu = MeanStream(n)

    @property
    def ready_to_focus(self) -> bool:
        """False while the rows absorbed are only half of what is needed."""
        return True

    @abstractmethod
    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Take a row; `guess` was made before it, None for the very first rows."""

    @abstractmethod
    def row_weights(self, tally: Tally, guess: Forecast) -> FloatArray:
        """Return how often to pull each arm in a row, relative to an average of 1."""

    @abstractmethod
    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Look at the open arms again."""

    def look_around(self, tally: Tally) -> None:
        """Bound from below how far each mean is from its threshold, on the events paid for."""
        self.box = mean_interval(*tally, BOX_SHARE * self.delta / self.n)
        low, high = self.box
        rate = 1.0 + max(0.0, self.k * math.sqrt(self.n - 1.0) - 1.0) / self.n
        beyond = np.maximum(self.low - high, low - self.high)
        gap = np.maximum(beyond, 0.0) / rate
        self.terms = (1.0 + gap[:, None] / WIDTHS) ** -POWER

    def bonus(self, arms: IntArray, steepness: FloatArray) -> FloatArray:
        """Return log(n w_i) at least, w_i the weight of arm i in the worst world that errs on it."""
        others = self.terms.sum(axis=0) - self.terms[arms]
        width = WIDTHS + self.slack
        x = np.maximum(steepness, 1e-300)[:, None] * width / POWER
        penalty = np.where(x < 1.0, POWER * (1.0 - x + np.log(np.minimum(x, 1.0))), 0.0)
        penalty = penalty - POWER * np.log1p(self.slack / WIDTHS)
        shares = np.exp(penalty) / (1.0 + others)
        return np.log(EVEN + (1.0 - EVEN) * self.n * shares.mean(axis=1))

    def settle(
        self, arms: IntArray, evidence: FloatArray, verdict: int, steepness: FloatArray | None = None
    ) -> None:
        """Record the evidence, and the verdict where it suffices."""
        if steepness is not None and arms.size:
            evidence = evidence + self.bonus(arms, steepness)
        self.log_evidence[arms] = evidence  # of the side looked at last
        self.verdicts[arms[evidence >= self.log_level]] = verdict

    def exclude_outliers(self, arms: IntArray) -> bool:
        """Call all open arms normal if no mean in [0, 1] can reach the threshold."""
        if self.low <= 1.0:
            return False
        self.settle(arms, np.maximum(self.log_evidence[arms], self.log_level), NORMAL)
        return True


class JointCertificate(Certificate):
    """Arm i against the threshold of the *other* arms, both doubts in one e-value.

    Suppose that it is wrong to call arm i normal: y_i >= theta_-i (+ slack). Then at y = y_i the
    stream's e-process against theta_-i <= y (- slack) and the arm's own against "mean >= y" both
    lie below supermartingales in the filtration of all pulls. Counts, weights, centres and
    directions of a step are fixed by the past, and given the past the rewards of different arms
    are independent, so the increments of the two are too: the product lies below a
    supermartingale (and a mixture times a mixture is a mixture of products). The minimum of the
    product over all y in [0, 1] is at most that. Outliers likewise. Each arm has one wrong verdict,
    so reaching n/delta' is enough for all arms together, and the two uncertainties add like
    variances.
    """

    share = JOINT_ARMS_SHARE

    def __init__(self, n: int, k: float, delta: float, indifference: float) -> None:
        # y_i - theta moves by at most 1 - c_ii per unit of y_i, c_ii >= (1 - k sqrt(n-1))/n: an arm
        # `indifference` away from theta is at least this far from theta_-i.
        slack = indifference / (1.0 + max(0.0, k * math.sqrt(n - 1.0) - 1.0) / n)
        super().__init__(n, k, delta, slack, self.share)
        self.own = LowerStream(n, k, leave_one_out=True)
        self.upper = UpperStream(n, k)

    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Enter a row into the streams; the first rows serve only the forecast."""
        if guess is None:
            return
        for stream in (self.mu, self.common, self.own, self.upper):
            stream.take(row, size, guess)

    def row_weights(self, tally: Tally, guess: Forecast) -> FloatArray:
        """Return weights like |c_j| times the reward's sd, both with the doubt about them.

        The optimal pulls of a linear function of means; with k = 3 nearly all of |c|^2 may sit
        on few arms.
        """
        d = Directions(guess.shrunk, self.k, leave_one_out=False)
        variance = np.minimum(guess.variance + DOUBT_VARIANCE / tally.pulls, 0.25)
        doubt = DOUBT_DIRECTION * d.beta**2 * variance / tally.pulls
        squares = d.c[0] ** 2 + doubt + SMALLEST_WEIGHT * d.norm / self.n
        weights = np.sqrt(squares * variance)
        relative: FloatArray = weights / weights.mean()
        return relative

    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Weigh each open arm on the side of its threshold where it seems to be."""
        self.mu_ends = self.mu.interval(NUISANCE_SHARE * self.delta)
        self.low = max(self.low, self.common.bound(END_SHARE * self.delta, self.mu_ends))
        self.high = min(self.high, self.upper.bound(END_SHARE * self.delta))
        if self.exclude_outliers(arms) or self.upper.weight == 0.0:
            return
        theta = leave_one_out_thresholds(guess.shrunk, self.own.k)
        shares = np.full(self.n, 0.5)
        self.look_around(tally)
        below = arms[guess.mean[arms] < theta[arms] + self.slack]
        above = arms[guess.mean[arms] > theta[arms] - self.slack]
        if below.size:
            shares[below] = self._weigh(below, NORMAL, tally, guess.mean[below], theta[below])
        if above.size:
            self._prepare(above)
            shares[above] = self._weigh(above, OUTLIER, tally, guess.mean[above], theta[above])
        open_arms = arms[self.verdicts[arms] == UNDECIDED]
        if open_arms.size:
            self.threshold_share = float(shares[open_arms].mean())

    def _prepare(self, arms):
        low, high = self.box
        n, m = self.n, self.n - 1
        members = np.ones((arms.size, n))
        members[np.arange(arms.size), arms] = 0.0
        sigma = float(smallest_sd(low, high, members).min())
        mu = (n * self.mu_ends[0] - high[arms].max()) / m, (n * self.mu_ends[1] - low[arms].min()) / m
        self.upper.prepare(arms, low, high, mu, sigma)

    def _weigh(
        self, arms: IntArray, verdict: int, tally: Tally, mean: FloatArray, theta: FloatArray
    ) -> FloatArray:
        """Settle what can be settled; return the threshold's share of each arm's doubt."""
        mine = tally.of(arms)
        shift = -self.slack if verdict == NORMAL else self.slack

        def joint(y: FloatArray) -> FloatArray:
            """Return the evidence against mean y of the arm and a threshold at y + shift."""
            if verdict == NORMAL:
                threshold = self.own.evidence(arms, y, shift, self.mu_ends)
                arm = log_mean_below(*mine, y)
            else:
                threshold, arm = self.upper.evidence(y, shift), log_mean_above(*mine, y)
            return np.stack([threshold[0] + arm[0], threshold[1] + arm[1], arm[1], threshold[1]])

        level = theta - shift
        beyond = level + 0.5 * (level - mean)  # steep bets may still fall at the level itself
        ends = np.clip(np.sort([mean, beyond], axis=0), 1e-6, 1.0 - 1e-6)
        evidence, y, steepness = convex_minimum(joint, ends[0], ends[1], rising_arm=verdict == NORMAL)
        self.settle(arms, evidence, verdict, steepness)
        gap = np.where(level == mean, EDGE, level - mean)
        return np.clip((level - y) / gap, 0.02, 0.98)


def leave_one_out_thresholds(y: FloatArray, k: float) -> FloatArray:
    """Return mu_-i + k sigma_-i of the arms other than i, for each i; a forecast."""
    m = y.size - 1
    centred = y - y.mean()
    mean = -centred / m
    variance = np.maximum((centred**2).sum() - centred**2, 0.0) / m - mean**2
    return y.mean() + mean + k * np.sqrt(np.maximum(variance, 0.0))


class IntervalCertificate(Certificate):
    """Arms against the far end of an interval of the common threshold: O(n), for many arms.

    With theta in [low, high] an arm is normal once its e-process against "mean >= low" reaches
    n/delta', and an outlier once that against "mean <= high" does: the evidence grows as the
    level moves away from the mean, so at y_i it would be at least as large if the verdict were
    wrong.
    """

    def __init__(self, n: int, k: float, delta: float, indifference: float) -> None:
        super().__init__(n, k, delta, indifference, LEVEL_ARMS_SHARE)
        self.odd_even = OddEven(
            n, k, end_delta=ODD_EVEN_SHARE * delta, degenerate_delta=DEGENERATE_SHARE * delta
        )
        self.sharpened = 0
        self.true_direction = TrueDirection(
            n,
            k,
            alpha=TRUE_DIRECTION_SHARE * delta,
            box_delta=BOX_SHARE * delta,
            nuisance_delta=NUISANCE_SHARE * delta,
        )

    @property
    def ready_to_focus(self) -> bool:
        """False between the two halves of a pair of sweeps."""
        return self.odd_even.balanced

    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Enter a uniform row into both bounds."""
        self.odd_even.absorb(int(size), row.total)
        self.true_direction.absorb(row, size, 0.5 if guess is None else guess.centre)
        if guess is not None:
            self.mu.take(row, size, guess)
            self.common.take(row, size, guess)

    def row_weights(self, tally: Tally, guess: Forecast) -> FloatArray:  # noqa: ARG002
        """Return equal weights: sweeps are uniform here."""
        return np.ones(self.n)

    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Hold each open arm against the end of the interval beyond which it seems to be."""
        mu = self.mu.interval(NUISANCE_SHARE * self.delta)
        common = self.common.bound(END_SHARE * self.delta, mu)
        if self.odd_even.readings > self.sharpened:
            self.sharpened = self.odd_even.readings
            self.odd_even.sharpen(self.true_direction.radius(tally, self.odd_even.sigma))
        self.low = max(self.low, common, self.odd_even.low)
        self.high = min(self.high, self.odd_even.high)
        if self.exclude_outliers(arms):
            return
        # a level may be moved away from the arms' side of it, never towards it
        low, high = min(self.low + self.slack, 1.0 - EDGE), max(self.high - self.slack, EDGE)
        mean = guess.mean[arms]
        below = arms[(mean < low) & (low >= EDGE)]
        above = arms[(mean > high) & (high <= 1.0 - EDGE)]
        levels = np.full(arms.size, low), np.full(arms.size, high)
        self.look_around(tally)
        evidence, slope = log_mean_below(*tally.of(below), levels[0][: below.size])
        self.settle(below, evidence, NORMAL, np.maximum(slope, 0.0))
        evidence, slope = log_mean_above(*tally.of(above), levels[1][: above.size])
        self.settle(above, evidence, OUTLIER, np.maximum(-slope, 0.0))
        self._share_doubt(arms[self.verdicts[arms] == UNDECIDED], tally, guess)

    def _share_doubt(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        if arms.size == 0:
            return
        radius = 0.5 * max(min(self.high, 2.0) - max(self.low, -1.0), EDGE)
        noise = guess.variance[arms] / tally.pulls[arms]
        own = float(np.sqrt(2.0 * noise * self.log_level).mean())
        self.threshold_share = radius / (radius + own)


class HybridCertificate(JointCertificate):
    """Joint evidence from uniform sweeps in pairs, beside the interval that they also give."""

    share = HYBRID_ARMS_SHARE

    def __init__(self, n: int, k: float, delta: float, indifference: float) -> None:
        super().__init__(n, k, delta, indifference)
        self.sharpened = 0
        self.odd_even = OddEven(
            n, k, end_delta=ODD_EVEN_SHARE * delta, degenerate_delta=DEGENERATE_SHARE * delta
        )
        self.true_direction = TrueDirection(
            n,
            k,
            alpha=TRUE_DIRECTION_SHARE * delta,
            box_delta=BOX_SHARE * delta,
            nuisance_delta=NUISANCE_SHARE * delta,
        )

    @property
    def ready_to_focus(self) -> bool:
        """False between the two halves of a pair of sweeps."""
        return self.odd_even.balanced

    def absorb_row(self, row: Tally, size: float, guess: Forecast | None) -> None:
        """Enter a uniform row into the streams and both bounds."""
        super().absorb_row(row, size, guess)
        self.odd_even.absorb(int(size), row.total)
        self.true_direction.absorb(row, size, 0.5 if guess is None else guess.centre)

    def row_weights(self, tally: Tally, guess: Forecast) -> FloatArray:  # noqa: ARG002
        """Return equal weights: sweeps are uniform here."""
        return np.ones(self.n)

    def decide(self, arms: IntArray, tally: Tally, guess: Forecast) -> None:
        """Sharpen the interval, then weigh the open arms."""
        if self.odd_even.readings > self.sharpened:
            self.sharpened = self.odd_even.readings
            self.odd_even.sharpen(self.true_direction.radius(tally, self.odd_even.sigma))
        self.low = max(self.low, self.odd_even.low)
        self.high = min(self.high, self.odd_even.high)
        super().decide(arms, tally, guess)



def convex_minimum(
    function: Callable[[FloatArray], FloatArray],
    low: FloatArray,
    high: FloatArray,
    *,
    rising_arm: bool,
    steps: int = 5,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E, y, s with A(u) + T(q) >= E + s |u - q| for all u, q on the wrong side of each other."""
    left, right = function(low), function(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        for step in range(steps):
            meet = low + (right[0] - left[0] - right[1] * (high - low)) / (left[1] - right[1])
            width = high - low
            y = np.where(np.isfinite(meet), meet, low + 0.5 * width)
            y = np.clip(y, low + 0.05 * width, high - 0.05 * width)
            found = function(y)
            rising = found[1] > 0.0
            low, high = np.where(rising, low, y), np.where(rising, y, high)
            left, right = np.where(rising, left, found), np.where(rising, found, right)
        meet = (right[0] - left[0] - right[1] * (high - low)) / (left[1] - right[1])
    inside = left[0] + np.minimum(left[1], 0.0) * np.clip(np.nan_to_num(meet), 0.0, high - low)
    value = np.where(
        left[1] > 0.0,
        left[0] - left[1] * low,
        np.where(right[1] < 0.0, right[0] + right[1] * (1.0 - high), inside),
    )
    steepness = np.minimum(left[2], -right[3]) if rising_arm else np.minimum(left[3], -right[2])
    steepness = np.maximum(steepness, 0.0)
    return value - steepness * (high - low), 0.5 * (low + high), steepness


class View:
    """A certificate seen through a mirror, where the side or the sign of k asks for one.

    For k < 0, mu + k sigma is the smallest of linear functions instead of the largest. On rewards
    1 - X the threshold is (1 - mu) + |k| sigma, and an arm at or above the one lies at or below
    the other: the verdicts swap.
    """

    def __init__(
        self, n: int, k: float, delta: float, *, lower: bool, form: str, indifference: float
    ) -> None:
        self.mirrored = lower != (k < 0)
        self.swapped = k < 0
        certificate = {'joint': JointCertificate, 'hybrid': HybridCertificate, 'interval': IntervalCertificate}[form]
        self.certificate: Certificate = certificate(n, abs(k), delta, indifference)
        self.guess: Forecast | None = None

    def seen(self, totals: Totals) -> Tally:
        """Return the pulls as the certificate sees them."""
        return Tally.seen(totals, mirrored=self.mirrored)

    def look(self, totals: Totals) -> None:
        """Make the forecast anew."""
        self.guess = forecast(self.seen(totals))

    def row_weights(self, totals: Totals) -> FloatArray:
        """Return the weights the certificate wants, or equal ones before any forecast."""
        if self.guess is None:
            return np.ones(self.certificate.n)
        return self.certificate.row_weights(self.seen(totals), self.guess)

    def decide(self, arms: IntArray, totals: Totals) -> None:
        """Look at the open arms again."""
        if self.guess is not None and arms.size:
            self.certificate.decide(arms, self.seen(totals), self.guess)

    @property
    def odd(self) -> BoolArray:
        """The arms found beyond the threshold."""
        odd: BoolArray = self.certificate.verdicts == (NORMAL if self.swapped else OUTLIER)
        return odd

    @property
    def normal(self) -> BoolArray:
        """The arms found on the normal side of the threshold."""
        normal: BoolArray = self.certificate.verdicts == (OUTLIER if self.swapped else NORMAL)
        return normal

    def interval(self) -> tuple[float, float]:
        """Return the interval of the threshold, unmirrored."""
        low, high = self.certificate.low, self.certificate.high
        return (1.0 - high, 1.0 - low) if self.mirrored else (low, high)
