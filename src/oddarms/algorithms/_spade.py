"""SPADE, Shared-Pool Adaptive Double Exploration: few samples, and every one used twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from fractions import Fraction
from itertools import islice

import numpy as np

from oddarms.algorithms._base import (
    UNLIMITED,
    Algorithm,
    Decision,
    Pulls,
    Threshold,
    averages,
    check_indifference,
    no_pulls,
)
from oddarms.algorithms._spade_certificates import View, certificate_for
from oddarms.algorithms._spade_joint import BOX_SHARE
from oddarms.algorithms._spade_plans import (
    Steps,
    estimated_threshold,
    less_than_a_row,
    next_step,
    steps_after,
)
from oddarms.errors import InvalidParameter
from oddarms.problem import (
    MAX_AT_A_TIME,
    Error,
    FloatArray,
    IntArray,
    Side,
    check_whole,
)
from oddarms.rules import Ends, Rule, Sigma
from oddarms.statistics.directions import Forecast, tally_seen
from oddarms.statistics.evidence import mean_interval
from oddarms.statistics.totals import Totals
from oddarms.theory import first_order_program

LEAST_VARIANCE = 0.2  # of a reward, in gaps, where pulls to come are guessed: by experiment
TYPICAL_OVERHEAD = 2.0  # of an arm's pulls over an oracle's, where they are guessed: by experiment
MIXTURE_COST = 2.5  # nats by which the evidence of an arm is behind that of the best bet, about
MOST_PLANS = 300  # that are looked ahead for a guess; each adds 8 % to some arms
REPORTED = 1.0 - 1e-9  # intervals are wider than those used, by more than rounding can do
CHUNK = 65_536  # arms at a time, where intervals of a great many are computed


class SPADE(Algorithm):
    """Use the pulls that every arm needs anyway to know the threshold as well.

    Right with probability at least 1 - delta for rewards in [0, 1] that are independent, across
    arms too, each arm's with one mean: identical distributions are not needed. The default.

    A *row* pulls every arm, those that move the threshold more often, and serves all arms and the
    threshold; a *focus* step pulls the undecided arms only. The step with the larger gain per
    pull is taken; steps grow geometrically, so a search has few of them and each one is a batch.
    Decisions rest on e-values, see `oddarms.algorithms._spade_certificates`; forecasts steer.

    Parameters
    ----------
    side
        "upper", or "both": two thresholds at delta/2 each, which share all pulls.
    indifference
        Arms whose mean lies within this distance of the threshold may be called either way:
        with probability at least 1 - delta, every arm called an outlier has
        y_i >= theta - indifference and every arm called normal has y_i < theta + indifference.
        In units of the rewards. It ends searches that tiny gaps would make endless.
    max_step
        At most this many pulls are asked for at a time. The plan, and so the answer's guarantee,
        does not change; a row comes in several parts.

    Notes
    -----
    With n < 1 + k^2 arms none can reach mu + k sigma, as no standardised value of n numbers exceeds
    sqrt(n - 1): all are called normal without a pull (for k < 0: outliers). The one exception,
    all means equal, is not looked for.
    """

    handles_both_sides = True
    errors = frozenset({"fwer", "fdr"})
    lengths = frozenset({"indifference"})

    def __init__(
        self,
        n: int,
        *,
        rule: Rule,
        delta: float,
        rng: np.random.Generator,
        side: Side = "upper",
        error: Error = "fwer",
        indifference: float = 0.0,
        max_step: int | None = None,
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        assert isinstance(rule, Sigma)
        k = rule.k
        if error == "fdr" and side == "both":
            raise InvalidParameter(
                "side must be 'upper' or 'lower' where error is 'fdr' but got 'both'."
            )
        self.error = error
        self.indifference = check_indifference(indifference)
        if max_step is not None:
            max_step = check_whole("max_step", max_step, least=1, most=MAX_AT_A_TIME)
        self.max_step = max_step
        self.paired = certificate_for(n, k).uniform  # rows are uniform sweeps, in pairs of one size
        self.totals = Totals.empty(n)
        self.steps = Steps()
        self._plan: _Plan | None = None
        if Fraction(n) < 1 + Fraction(k) ** 2:
            self.views: dict[str, View] = {}
            self.decisions[:] = Decision.NORMAL if k >= 0 else Decision.HIGH
            return
        sides = ("upper", "lower") if side == "both" else ("upper",)
        self.views = {
            name: View(
                n,
                rule,
                delta / len(sides),
                lower=name == "lower",
                indifference=self.indifference,
                error=error,
            )
            for name in sides
        }

    def propose(self, limit: int) -> Pulls:
        """Return the next part of the plan, or of a new one."""
        if self.done:
            return no_pulls()
        if self._plan is None:
            plan = self._next_plan(limit)
            if plan.total > limit:
                if self.pulls.any() or limit <= 0:  # better not begun than broken off
                    return plan.next_part(None)
                plan = _Plan(less_than_a_row(self.n, limit), 0.0, self._guesses())
            self._plan = plan
        return self._plan.next_part(self.max_step)

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        """Collect the plan's rewards; once they are complete, learn from them and decide."""
        assert self._plan is not None
        self.pulls[pulls.indices] += pulls.counts
        self.sums[pulls.indices] += sums
        self._plan.receive(pulls, sums, squares)
        if self._plan.complete:
            plan, self._plan = self._plan, None
            decided = ~self.undecided
            if plan.size > 0.0:
                self.threshold_pulls += int(plan.counts[decided].sum())
            self._learn(plan)
            self._decide()

    def outlook(self) -> Iterator[Pulls]:
        """Yield the rest of the plan, then the plans that would follow at the present estimates."""
        if self._plan is not None:
            part, rest = self._plan.next_part(self.max_step), self._plan.missing
            rest[part.indices] -= part.counts
            yield _pulls_of(rest)
        for counts in self._plans_to_come(self._lasts()):
            yield _pulls_of(counts)

    def _plans_to_come(self, lasts: FloatArray) -> Iterator[IntArray]:
        """Yield the counts of the plans after the present one, if arms are decided as guessed."""
        imagined = copy(self)
        if self._plan is not None:
            imagined._imagine(self._plan, lasts)
        while not imagined.done:
            plan = imagined._next_plan(UNLIMITED)
            yield plan.counts
            imagined._imagine(plan, lasts)

    def _lasts(self) -> FloatArray:
        """Return about how many pulls each arm has when it is decided.

        By its evidence, which grows in proportion to the pulls, less what the mixtures of bets
        cost; and, while there is less than half of the evidence that suffices, by an oracle's
        allocation at the present estimates as well.
        """
        pulls, evidence = self.totals.pulls, self.evidence()
        level = max(view.certificate.rules.log_level for view in self.views.values())
        missing = (level + MIXTURE_COST) / np.maximum(evidence + MIXTURE_COST, 1e-9)
        by_evidence = np.maximum(pulls, 1.0) * np.maximum(missing, 1.0)
        if any(view.guess is None for view in self.views.values()):
            return by_evidence
        oracle = TYPICAL_OVERHEAD * np.maximum.reduce([self._oracle(side) for side in self.views])
        trust = np.clip(2.0 * evidence / level, 0.0, 1.0)
        guessed: FloatArray = by_evidence**trust * np.maximum(oracle, pulls) ** (1.0 - trust)
        return guessed

    def _imagine(self, plan: _Plan, lasts: FloatArray) -> None:
        """Count a plan's pulls as made, and arms with enough as decided; for a copy only."""
        self._plan = None
        self.totals = self.totals._replace(pulls=self.totals.pulls + plan.counts)
        self.steps = steps_after(self.steps, plan.counts, plan.size)
        decided = self.undecided & (self.totals.pulls >= lasts)
        self.decisions = np.where(decided, Decision.NORMAL, self.decisions)

    def _guesses(self) -> dict[str, Forecast | None]:
        return {name: view.guess for name, view in self.views.items()}

    def _learn(self, plan: _Plan) -> None:
        """Enter the rewards of a plan, into the streams those of a row."""
        if plan.size > 0.0:
            for name, view in self.views.items():
                row = view.seen(plan.received)
                view.certificate.absorb_row(row, plan.size, plan.guesses[name])
        self.steps = steps_after(self.steps, plan.counts, plan.size)
        self.totals = self.totals.plus(plan.received)
        self.round += 1
        if self.steps.rows >= (2 if self.paired else 1) and self.totals.pulls.min() > 0:
            for view in self.views.values():
                view.look(self.totals)

    def _decide(self) -> None:
        """Decide the arms for which the evidence suffices."""
        for view in self.views.values():
            tally, certificate = view.seen(self.totals), view.certificate
            certificate.look(tally)
            open_arms = self._to_look_at(view)
            if self.steps.rows >= 2 and view.guess is not None and open_arms.size:
                certificate.decide(open_arms, tally, view.guess)
            certificate.settle(self._to_look_at(view), tally)
        if self.views:
            self.merge_verdicts()

    def _to_look_at(self, view: View) -> IntArray:
        """Return the arms without a final verdict on a side; names that are not final are open."""
        if self.error == "fdr":
            self.decisions[:] = Decision.UNDECIDED
        return np.flatnonzero(self.undecided & ~view.certificate.final)

    def merge_verdicts(self) -> None:
        """Combine the sides; an arm beyond both thresholds, as k < 0 allows, is called high."""
        upper, lower = self.views["upper"], self.views.get("lower")
        if lower is None:
            self.decisions[upper.normal] = Decision.NORMAL
        else:
            self.decisions[upper.normal & lower.normal] = Decision.NORMAL
            self.decisions[lower.odd & (upper.normal | self.rule.ordered)] = Decision.LOW
        self.decisions[upper.odd] = Decision.HIGH

    # The next step

    def _next_plan(self, limit: int) -> _Plan:
        views = self.views.values()
        share = max(view.certificate.standing.threshold_share for view in views)
        least = max(view.certificate.least_doubt for view in views)
        weights = np.maximum.reduce([view.row_weights(self.totals) for view in views])
        counts, size = next_step(
            *(self.steps, self.paired, share, least, weights),
            *(self.totals.pulls, self.undecided, limit),
        )
        return _Plan(counts, size, self._guesses())

    # Reports

    @property
    def means(self) -> FloatArray:
        """Each arm's average reward, those of an unfinished step included."""
        known = self._known()
        return averages(known.total, known.pulls)

    def _known(self) -> Totals:
        return self.totals if self._plan is None else self.totals.plus(self._plan.received)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return intervals that contain all means together; part of the events delta pays for.

        They are no narrower than those by which arms are settled, so rewards of an unfinished step
        are not in them.
        """
        alpha = BOX_SHARE * self.delta / (max(len(self.views), 1) * self.n) * REPORTED
        p, s, q = tally_seen(self.totals)
        _, first, which = np.unique(p + 1j * s, return_index=True, return_inverse=True)
        if (q[first][which] != q).any():  # else arms that are alike have the same interval
            first = which = np.arange(self.n)
        chunks = [first[i : i + CHUNK] for i in range(0, first.size, CHUNK)]
        ends = [mean_interval(p[some], s[some], q[some], alpha) for some in chunks]
        low, high = (np.concatenate(side) for side in zip(*ends, strict=True))
        return low[which], high[which]

    def threshold(self) -> Threshold:
        """Return the upper threshold."""
        return self._threshold("upper", self.k)

    def thresholds(self) -> dict[str, Threshold]:
        """Return the threshold of each side."""
        found = {"upper": self.threshold()}
        if "lower" in self.views:
            found["lower"] = self._threshold("lower", -self.k)
        return found

    def _threshold(self, side: str, k: float) -> Threshold:
        low, high = self.views[side].interval() if side in self.views else (-math.inf, math.inf)
        if self.totals.pulls.min() == 0:
            return Threshold(math.nan, low, high)
        pulls, total = self.totals.pulls, self.totals.total
        estimate = estimated_threshold(k, pulls, total, self.totals.scatter)
        mu = float(self.means.mean())
        if self.k >= 0.0:
            mirrored = side == "lower"
            theta, mu = (1.0 - estimate, 1.0 - mu) if mirrored else (estimate, mu)
            theta = self.rule.raised((theta, theta), (mu, mu))[0]
            estimate = 1.0 - theta if mirrored else theta
        return Threshold(min(max(estimate, low), high), low, high)

    def centre(self) -> Ends:
        """Return an interval of the mean of all means; part of the events delta pays for."""
        if not self.views:
            return super().centre()
        view = self.views["upper"]
        low, high = view.certificate.centre
        return (1.0 - high, 1.0 - low) if view.mirrored else (low, high)

    def _estimates(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return averages, pulls and variances."""
        known, means = self._known(), np.nan_to_num(self.means, nan=0.5)
        variances = known.scatter / np.maximum(known.pulls, 1.0)
        return means, known.pulls, variances

    def evidence(self) -> FloatArray:
        """Return each arm's log e-value towards its verdict; the weaker one of two sides.

        Valid on the events that bound the threshold, so up to a probability of 0.25 delta.
        """
        if not self.views:
            return np.full(self.n, np.inf)
        logs = {name: view.certificate.standing.log_evidence for name, view in self.views.items()}
        weakest: FloatArray = np.minimum.reduce(list(logs.values()))
        for name, decision in (("lower", Decision.LOW), ("upper", Decision.HIGH)):
            if name in logs:
                weakest = np.where(self.decisions == decision, logs[name], weakest)
        return weakest

    def pulls_needed(self) -> FloatArray | None:
        """Return about how many more pulls each arm needs, for itself and for the threshold.

        The steps that would follow if every arm were decided when `_lasts` guesses it. A rough
        guess and no bound; docs/reference/answer.md says how good it was where we tried it.
        """
        if self.done:
            return np.zeros(self.n)
        if self.steps.rows < 2 or any(view.guess is None for view in self.views.values()):
            return None
        lasts = self._lasts()
        needed = np.zeros(self.n) if self._plan is None else self._plan.missing.astype(np.float64)
        for counts in islice(self._plans_to_come(lasts), MOST_PLANS):
            needed += counts
        least = np.where(self.undecided, np.maximum(lasts - self.totals.pulls, 1.0), 0.0)
        return np.ceil(np.maximum(needed, least))

    def _oracle(self, side: str) -> FloatArray:
        """Return the pulls of each arm that an oracle would make from the start."""
        view = self.views[side]
        k = self.k if side == "upper" else -self.k
        guess = view.guess
        assert guess is not None
        mean = 1.0 - guess.shrunk if view.mirrored else guess.shrunk
        distance = np.abs(mean - self._threshold(side, k).estimate)
        doubt = np.sqrt(guess.variance / self.totals.pulls)  # an estimate may lie on the threshold
        gaps = np.maximum(distance, doubt) + self.indifference
        # rewards that were all alike are still not known to be: their cost goes with 1 / gap
        variance = np.maximum(guess.variance, LEAST_VARIANCE * np.minimum(gaps, 0.5))
        per_nat = first_order_program(mean, variance, k, gaps=gaps)
        return view.certificate.rules.log_level * np.where(np.isfinite(per_nat), per_nat, 0.0)


class _Plan:
    """A step: how often each arm is pulled, and what has come back. Size 0 is a focus step.

    The forecasts are kept as they were when the step was planned.
    """

    def __init__(self, counts: IntArray, size: float, guesses: dict[str, Forecast | None]) -> None:
        self.counts = counts
        self.size = size
        self.guesses = guesses
        self.received = Totals.empty(counts.size)
        self._asked = 0

    @property
    def total(self) -> int:
        """All pulls of the plan."""
        return int(self.counts.sum())

    @property
    def missing(self) -> IntArray:
        """Pulls of each arm that have not come back."""
        return self.counts - self.received.pulls.astype(np.int64)

    @property
    def complete(self) -> bool:
        """True once all has come back."""
        return self._asked == self.total

    def next_part(self, most: int | None) -> Pulls:
        """Return the next pulls of the plan, arm by arm, at most `most`."""
        counts = self.counts
        if most is not None:
            ends = np.cumsum(counts)
            window = np.clip(self._asked + most - (ends - counts), 0, counts)
            counts = window - np.clip(self._asked - (ends - counts), 0, counts)
        return _pulls_of(counts)

    def receive(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        """Take the rewards of a part."""
        self._asked += pulls.total
        self.received.pulls[pulls.indices] += pulls.counts
        self.received.total[pulls.indices] += sums
        self.received.squares[pulls.indices] += squares


def _pulls_of(counts: IntArray) -> Pulls:
    indices = np.flatnonzero(counts)
    return Pulls(indices, counts[indices])
