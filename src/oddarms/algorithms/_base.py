"""What every algorithm is: a state machine that proposes pulls, absorbs rewards, reports decisions.

An algorithm sees n anonymous arms with rewards in [0, 1] and looks for means at or above the
threshold of a rule, such as mu + k sigma. Labels, other bounds, the lower side, the budget and the
checking of rewards are the business of `oddarms.search.Search`, once for all algorithms.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter, UnknownOption
from oddarms.problem import BoolArray, FloatArray, IntArray, check_number
from oddarms.rules import Ends, Rule, Sigma
from oddarms.statistics.guesses import suspicion

RESERVED = frozenset({"algorithm", "n", "rule", "delta", "rng", "side", "error", "goal"})
"""What every algorithm is made with; no option has such a name."""
UNLIMITED = 2**50
"""The most pulls of any search, and so what stands for no budget.

Sums of more rewards may be off by more than `oddarms.statistics.totals.relative_error` allows for.
"""

ROUNDING = 2.0**-48  # more than a few sums of numbers of size 1 are off

LARGEST_INDIFFERENCE = 1e6  # in ranges of the rewards; beyond it squares lose all precision


class Decision(IntEnum):
    """What is known of an arm; the values are those of the `decisions` arrays."""

    UNDECIDED = 0
    NORMAL = 1
    HIGH = 2
    LOW = 3


Decisions = npt.NDArray[np.int8]
"""An array with a `Decision` for each arm."""


class Pulls(NamedTuple):
    """A request for rewards: `counts[j]` pulls of arm `indices[j]`, for each entry j.

    An arm may stand in several entries; their rewards are absorbed entry by entry.
    """

    indices: IntArray
    counts: IntArray

    @property
    def total(self) -> int:
        """The number of rewards asked for."""
        return int(self.counts.sum())


class Threshold(NamedTuple):
    """An estimate of the threshold and an interval that contains it."""

    estimate: float
    lower: float
    upper: float


class Guesses(NamedTuple):
    """What arms seem to be, a decision where there is one. Not proven.

    A larger suspicion is that of a likelier outlier; only the order of the numbers means anything.
    """

    decisions: Decisions
    suspicion: FloatArray


class Algorithm(ABC):
    """Base class of the algorithms.

    A subclass implements `propose`, `absorb`, `intervals` and `threshold`, fills `decisions`, and
    keeps `pulls`, `sums`, `round` and `threshold_pulls` up to date (`_count` helps). It takes
    options of its own as keyword arguments with defaults.

    Parameters
    ----------
    n
        The number of arms.
    rule
        How the threshold follows from the n means.
    delta
        The permitted probability of any wrong decision.
    rng
        The only source of randomness the algorithm may use.
    """

    rules: ClassVar[frozenset[str]] = frozenset({"sigma"})
    """The names of the rules that it can take."""

    errors: ClassVar[frozenset[str]] = frozenset({"fwer"})
    """What its delta may bound; the constructor takes ``error="fdr"`` where that is one of them."""

    proven: ClassVar[bool] = True
    """False where its answers are calibrated by simulation, and no theorem bounds their error."""

    goals: ClassVar[frozenset[str]] = frozenset({"confidence"})
    """What it can aim at; the constructor takes ``goal="budget"`` where that is one of them."""

    handles_both_sides: ClassVar[bool] = False
    """True where the constructor takes ``side="both"`` and shares the pulls of both thresholds."""

    lengths: ClassVar[frozenset[str]] = frozenset()
    """Options that are lengths in units of rewards; they arrive as shares of the range b - a."""

    def __init__(self, n: int, *, rule: Rule, delta: float, rng: np.random.Generator) -> None:
        self.n = n
        self.rule = rule
        self.delta = delta
        self.rng = rng
        self.round = 0
        self.pulls: IntArray = np.zeros(n, dtype=np.int64)
        self.sums: FloatArray = np.zeros(n)
        self.decisions: Decisions = np.full(n, Decision.UNDECIDED, dtype=np.int8)
        self.threshold_pulls = 0

    @abstractmethod
    def propose(self, limit: int) -> Pulls:
        """Return the next pulls, or no entries when the search is done.

        `limit` is what the budget leaves. An algorithm that can make a smaller step should; one
        that cannot proposes what it needs, and the search ends there.
        """

    @abstractmethod
    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        """Take the rewards of the last proposal: their sum and sum of squares for each entry."""

    def outlook(self) -> Iterator[Pulls]:
        """Yield the steps that are expected behind the one that is proposed.

        Pulls are made ahead for them where workers have nothing else to do; where the guess is
        wrong, they are used later or not at all, and the guarantee stays.
        """
        arms = np.flatnonzero(self.undecided)
        while True:
            yield Pulls(arms, np.ones(arms.size, dtype=np.int64))

    @abstractmethod
    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends that contain every arm's mean; within [0, 1].

        They hold together with those of `thresholds`, so they never decide an arm that is
        undecided: if an algorithm's own rule may leave such arms open, `settle` decides them.
        (Not those of an algorithm that is not `proven`.)
        """

    @abstractmethod
    def threshold(self) -> Threshold:
        """Return the threshold's estimate and interval."""

    @property
    def k(self) -> float:
        """How many standard deviations, where the rule has such."""
        assert isinstance(self.rule, Sigma)
        return self.rule.k

    def centre(self) -> Ends:
        """Return an interval that contains the centre of the means, as the rule has it."""
        return self.rule.centre_bounds(*self.intervals())

    @property
    def done(self) -> bool:
        """True once every arm is decided."""
        return not self.undecided.any()

    @property
    def undecided(self) -> BoolArray:
        """The arms not yet decided, as a mask."""
        mask: BoolArray = self.decisions == Decision.UNDECIDED
        return mask

    @property
    def means(self) -> FloatArray:
        """Each arm's average reward; NaN before its first pull."""
        return averages(self.sums, self.pulls)

    def thresholds(self) -> dict[str, Threshold]:
        """Return the threshold of each side the algorithm looks at."""
        return {"upper": self.threshold()}

    def settle(self) -> None:
        """Decide undecided arms whose interval does not meet a threshold's; costs no delta.

        For the end of `absorb`, if the intervals are cheap.
        """
        lower, upper = self.intervals()
        found, open_ = self.thresholds(), self.undecided
        above, normal = lower >= found["upper"].upper, upper < found["upper"].lower
        if "lower" in found:
            below = (upper <= found["lower"].lower) & (normal | self.rule.ordered)
            self.decisions[open_ & below] = Decision.LOW
            normal &= lower > found["lower"].upper
        self.decisions[open_ & normal] = Decision.NORMAL
        self.decisions[open_ & above] = Decision.HIGH

    def evidence(self) -> FloatArray | None:
        """Return each arm's log e-value for its decision, where the algorithm has one."""
        return None

    def guesses(self) -> Guesses:
        """Return what each arm seems to be and how suspicious it is. Not proven.

        An arm without pulls is undecided.
        """
        means, pulls, variances = self._estimates()
        sides = [means, 1.0 - means] if "lower" in self.thresholds() else [means]
        high, *lower = (
            suspicion(y, variances, pulls, self.rule.influence(y), self.rule.threshold(y))
            for y in sides
        )
        most, odd = high, np.where(high > 0.0, Decision.HIGH, Decision.NORMAL)
        for low in lower:
            odd = np.where((low > 0.0) & (high <= 0.0), Decision.LOW, odd)
            most = np.maximum(high, low)
        odd = np.where(pulls > 0, odd, Decision.UNDECIDED)
        return Guesses(np.where(self.undecided, odd, self.decisions).astype(np.int8), most)

    def _estimates(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return averages (1/2 of an arm without pulls), pulls, and at least their variances."""
        means = np.nan_to_num(self.means, nan=0.5)
        return means, self.pulls.astype(np.float64), means * (1.0 - means)

    def pulls_needed(self) -> FloatArray | None:
        """Return about how many more pulls each arm needs, where the algorithm can tell."""
        return None

    def _count(self, pulls: Pulls, sums: FloatArray) -> None:
        np.add.at(self.pulls, pulls.indices, pulls.counts)
        np.add.at(self.sums, pulls.indices, sums)


def averages(sums: FloatArray, counts: FloatArray | IntArray) -> FloatArray:
    """Return sums / counts, NaN where the count is 0."""
    means = np.full(sums.size, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def outwards(low: float, high: float) -> Ends:
    """Return a reported interval of a threshold that has room for rounding and meets [0, 1].

    The means are there, and the intervals of arms are cut to it. An algorithm that decides by
    intervals as they were before must report no more of the threshold than it uses.
    """
    return (
        min(low - ROUNDING * (1.0 + abs(low)), 1.0),
        max(high + ROUNDING * (1.0 + abs(high)), 0.0),
    )


def mirrored(threshold: Threshold) -> Threshold:
    """Return the threshold of the lower side from that of rewards 1 - X, rounded outwards."""
    estimate, low, high = threshold
    return Threshold(1.0 - estimate, 1.0 - high - ROUNDING, 1.0 - low + ROUNDING)


def no_pulls() -> Pulls:
    """Return the empty proposal, which says that nothing more is needed."""
    return Pulls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def check_options(algorithm: type[Algorithm], options: dict[str, Any]) -> None:
    """Raise UnknownOption with the known options if one is not the algorithm's."""
    parameters = inspect.signature(algorithm).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    own = [
        parameter.name
        for parameter in parameters
        if parameter.name not in RESERVED and parameter.kind is not parameter.VAR_KEYWORD
    ]
    for name in options:
        if name in RESERVED or (name not in own and not takes_any):
            known = ", ".join(own) or "none"
            raise UnknownOption(
                f"options must be those of {algorithm.__name__} ({known}) but got {name!r}."
            )


def check_indifference(indifference: float) -> float:
    """Return the distance from the threshold within which either decision is right."""
    number = check_number("indifference", indifference)
    if not 0.0 <= number <= LARGEST_INDIFFERENCE:
        raise InvalidParameter(
            f"indifference must be at least 0 and at most {LARGEST_INDIFFERENCE:,.0f} times the"
            f" range of rewards but got {number:g} times."
        )
    return number
