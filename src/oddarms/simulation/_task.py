"""One whole run, compiled or step by step through a `Search`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Decision, Decisions, get_algorithm
from oddarms.algorithms._ade import ADE
from oddarms.algorithms._base import UNLIMITED, outwards
from oddarms.algorithms._round_robin import RR, WRR, check_batch, check_rho
from oddarms.algorithms._spade import SPADE
from oddarms.algorithms._spade_certificates import JOINT_UP_TO, JointCertificate
from oddarms.arms import Bernoulli, SimulatedArms
from oddarms.problem import UNIT, FloatArray, IntArray, Label, Question
from oddarms.search import Result, Search, run
from oddarms.simulation._families import BERNOULLI, LEAST_BETA, drawn_alike, family_of
from oddarms.simulation._tapes import EMPTY, full_tape

COMPILED = ("ade", "rr", "wrr", "spade")
NO_NUMBA = "numba must be installed but is not"


PLAIN: dict[str, Any] = {
    "rule": "sigma",
    "margin": 0.0,
    "floor": None,
    "error": "fwer",
    "goal": "confidence",
    "bounds": UNIT,
}
"""Words of a question, and the only value of each that kernels know."""


def why_not_compiled(question: Question, arms: SimulatedArms) -> str | None:
    """Return what keeps runs of this question on these arms from being compiled, if anything."""
    for name, value in PLAIN.items():
        if getattr(question, name) != value:
            return f"{name} must be {value!r} but is {getattr(question, name)!r}"
    if question.side == "both":
        return "side must be 'upper' or 'lower' but is 'both'"
    if question.algorithm not in COMPILED:
        known = ", ".join(map(repr, COMPILED))
        return f"algorithm must be one of {known} but is {question.algorithm!r}"
    if question.algorithm == "spade":  # in its joint form, with whole steps
        if question.n > JOINT_UP_TO:
            return f"arms must be at most {JOINT_UP_TO} but are {question.n:,}"
        if question.n == 1 + Fraction(question.k) ** 2:
            return f"arms must not be as many as 1 + k^2 but are {question.n}"
        if (max_step := question.options.get("max_step")) is not None:
            return f"max_step must be None but is {max_step!r}"
    family = family_of(arms)
    if family is None:
        return f"arms must be Bernoulli, Beta or Uniform, with rewards in [0, 1], but are {arms!r}"
    if not drawn_alike(arms):
        return (
            "concentration must be so large that no Beta arm has both parameters at most 1 and one"
            f" below {LEAST_BETA} but is {family.value(arms):g}"
        )
    if find_spec("numba") is None:
        return NO_NUMBA
    return None


class Run(NamedTuple):
    """What one run found."""

    decisions: Decisions
    pulls_per_arm: IntArray
    rounds: int
    threshold_pulls: int
    threshold: float
    threshold_radius: float


@dataclass(frozen=True)
class Task:
    """An algorithm and an instance; called with a generator, it does one run.

    The compiled and the interactive run use the generator in the same way: its first child
    decides the algorithm's choices, its second the rewards, from tapes in both or in neither.
    """

    arms: SimulatedArms
    question: Question
    compiled: bool

    def __call__(self, rng: np.random.Generator) -> Run:
        """Do one run."""
        return self._run_compiled(rng) if self.compiled else self._run_interactive(rng)

    def _run_interactive(self, rng: np.random.Generator) -> Run:
        result = run_search(self.question, self.arms, rng)
        estimate, lower, upper = next(iter(result.thresholds.values()))
        return Run(
            result.decisions,
            result.pulls_per_arm,
            result.round,
            result.threshold_pulls,
            estimate,
            (upper - lower) / 2.0,
        )

    def _run_compiled(self, rng: np.random.Generator) -> Run:
        if self.question.algorithm == "spade":
            return self._run_spade(*rng.spawn(2))
        means = np.array(self.arms.means)  # writable, so that a kernel has one signature
        family = family_of(self.arms)
        assert family is not None
        n = means.size
        pulls = np.zeros(n, dtype=np.int64)
        decisions = np.zeros(n, dtype=np.int8)
        mirrored = self.question.side == "lower"
        algorithm_rng, reward_rng = rng.spawn(2)
        rewards = (family.code, family.value(self.arms), mirrored)
        shared_arguments = (self._limit, *rewards, algorithm_rng, reward_rng, pulls, decisions)
        head = (means, self.question.k, self.question.delta)
        options = self.question.options
        if self.question.algorithm == "ade":
            from oddarms.simulation._ade_kernel import run_ade

            shared = bool(options.get("shared", False))
            found = run_ade(*head, shared, *shared_arguments)
        else:
            from oddarms.simulation._round_robin_kernel import run_round_robin

            batch = check_batch(options.get("batch", 1))
            rho = self._rho(n)
            found = run_round_robin(*head, rho, batch, *shared_arguments)
        rounds, threshold_pulls, threshold, radius = found
        low, high = outwards(threshold - radius, threshold + radius)
        radius = (high - low) / 2.0
        if mirrored:
            decisions[decisions == Decision.HIGH] = Decision.LOW
            threshold = 1.0 - threshold
        return Run(decisions, pulls, rounds, threshold_pulls, threshold, radius)

    def _run_spade(
        self, algorithm_rng: np.random.Generator, reward_rng: np.random.Generator
    ) -> Run:
        """Make all steps of a search's SPADE at once."""
        from oddarms.simulation._spade_kernel import run_spade

        spade, family = Search(self.question, rng=algorithm_rng).algorithm, family_of(self.arms)
        assert isinstance(spade, SPADE)
        assert family is not None
        mirrored = self.question.side == "lower"
        if not spade.done:
            view = spade.views["upper"]
            certificate = view.certificate
            assert isinstance(certificate, JointCertificate)
            spade.round, spade.threshold_pulls, spade.totals, *known = run_spade(
                np.array(self.arms.means),  # writable, so that a kernel has one signature
                *(certificate.rules, certificate.rows, certificate.standing, view.mirrored),
                *(self._limit, family.code, family.value(self.arms), mirrored, reward_rng),
            )
            certificate.rows, certificate.standing = known
            spade.merge_verdicts()
        threshold, low, high = spade.threshold()
        if mirrored:
            spade.decisions[spade.decisions == Decision.HIGH] = Decision.LOW
            threshold = 1.0 - threshold
        pulls = spade.totals.pulls.astype(np.int64)
        rounds, threshold_pulls = spade.round, spade.threshold_pulls
        return Run(spade.decisions, pulls, rounds, threshold_pulls, threshold, (high - low) / 2.0)

    @property
    def _limit(self) -> int:
        budget = self.question.budget
        return UNLIMITED if budget is None else min(budget, UNLIMITED)

    def _rho(self, n: int) -> float:
        question = self.question
        if question.algorithm == "rr":
            return 1.0  # WRR with weight 1 is RR
        return check_rho(question.options.get("rho"), n, question.k, question.delta)


class TapedBernoulli(Bernoulli):
    """Bernoulli arms that play tapes as the kernels do, one reward at a time."""

    def __init__(
        self,
        means: npt.ArrayLike,
        *,
        labels: Sequence[Label] | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__(means, labels=labels, rng=rng)
        self._tapes = [EMPTY] * self.means.size

    def seeded(self, rng: np.random.Generator) -> Self:
        """Return these arms drawing from `rng`, with tapes of their own."""
        arms = super().seeded(rng)
        if arms is not self:
            arms._tapes = [EMPTY] * self.means.size
        return arms

    def pull_totals(self, indices: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return each entry's sum, twice: rewards are their own squares."""
        entries = np.repeat(np.arange(counts.size), counts)
        rewards = self.pull(indices, counts)
        ones = np.bincount(entries, rewards, minlength=counts.size).astype(np.float64)
        return ones, ones

    def _draw(self, arms: IntArray) -> FloatArray:
        return np.array([self._next(int(i)) for i in arms], dtype=np.float64)

    def _next(self, i: int) -> int:
        if self._tapes[i] == EMPTY:
            self._tapes[i] = full_tape(self.rng, float(self.means[i]), mirrored=False)
        reward = self._tapes[i] & 1
        self._tapes[i] >>= 1
        return reward


def run_search(question: Question, arms: SimulatedArms, rng: np.random.Generator) -> Result:
    """Return what a search of simulated arms finds: that of `oddarms.find` with this generator.

    Where a kernel would play its rewards from tapes, so does this.
    """
    algorithm_rng, reward_rng = rng.spawn(2)
    played = (
        TapedBernoulli(arms.means, labels=arms.labels) if _plays_tapes(question, arms) else arms
    )
    return run(Search(question, rng=algorithm_rng), played.seeded(reward_rng))


def _plays_tapes(question: Question, arms: SimulatedArms) -> bool:
    """Tell whether the kernel for this question, if there is one, plays tapes.

    That is for single Bernoulli rewards: a turn of several pulls is one binomial.
    """
    algorithm, family = question.algorithm, family_of(arms)
    cls = get_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    return (
        cls in (ADE, RR, WRR)
        and question.side != "both"
        and question.bounds == UNIT
        and family is not None
        and family.code == BERNOULLI
        and question.options.get("batch", 1) == 1
    )
