"""Our own algorithms pass the suite that we ask of others', and faulty ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from oddarms.algorithms import Algorithm, Decision, Pulls, Threshold, _registry, no_pulls, register
from oddarms.problem import FloatArray
from oddarms.statistics.binomial import most_errors
from oddarms.testing import AlgorithmConformance
from our_conformance import ANSWERS, INTERVALS, JOBS, Ours, long


class Brief(Ours):
    """At a delta where errors occur at all, so that few runs say something."""

    delta = 0.3
    easy_budget = 20_000


@long(*INTERVALS, ANSWERS, "test_a_budget_is_never_exceeded")  # see test_guarantees.py
class TestADE(Brief):
    algorithm = "ade"


@long(ANSWERS)
class TestRR(Brief):
    algorithm = "rr"
    options: ClassVar = {"batch": 25}


@pytest.mark.long
class TestWRR(Brief):
    algorithm = "wrr"
    options: ClassVar = {"batch": 25, "rho": 1.5}


@long(INTERVALS[0], ANSWERS)  # see test_spade_guarantees.py
class TestSPADE(Ours):
    algorithm = "spade"
    runs = 20  # not compiled; 120 on all instances together find a rate of 0.4
    easy_budget = 20_000


@long(*INTERVALS, ANSWERS, JOBS)  # see test_lucb.py
class TestLUCB(Ours):
    algorithm = "lucb"
    runs = 20  # not compiled


@pytest.mark.long
class TestADEWithSharedSamplesAtATenth(Ours):
    algorithm = "ade"
    options: ClassVar = {"shared": True}


@pytest.mark.long
class TestSPADEInMoreRuns(Ours):
    algorithm = "spade"


class Hasty(Algorithm):
    """Pulls every arm a few times and believes what it sees."""

    def propose(self, limit: int) -> Pulls:  # noqa: ARG002
        return no_pulls() if self.done else Pulls(np.arange(self.n), np.full(self.n, 4))

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:  # noqa: ARG002
        self._count(pulls, sums)
        self.round += 1
        high = self.means >= self.threshold().estimate
        self.decisions[:] = np.where(high, Decision.HIGH, Decision.NORMAL)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        if not self.round:
            return np.zeros(self.n), np.ones(self.n)
        return np.maximum(self.means - 0.01, 0.0), np.minimum(self.means + 0.01, 1.0)

    def threshold(self) -> Threshold:
        estimate = float(self.means.mean() + self.k * self.means.std()) if self.round else 0.5
        return Threshold(estimate, estimate - 0.01, estimate + 0.01)


class Miscounting(Hasty):
    """Counts only one pull of each entry."""

    def _count(self, pulls: Pulls, sums: FloatArray) -> None:
        super()._count(Pulls(pulls.indices, np.ones_like(pulls.counts)), sums)


class Unseeded(Hasty):
    """Keeps a random source of its own."""

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        super().absorb(pulls, sums, squares)
        self.sums += 1e-6 * np.random.default_rng().random(self.n)


class Forgetful(Hasty):
    """Takes an option and does not say which it knows."""

    def __init__(self, n: int, **options: Any) -> None:
        super().__init__(n, **{name: options[name] for name in ("rule", "delta", "rng")})


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function that gives the suite of an algorithm class registered for this test."""
    monkeypatch.setattr(_registry, "_registered", dict(_registry._registered))

    def suite_of(faulty: type[Algorithm]) -> AlgorithmConformance:
        register(faulty.__name__.lower(), faulty)
        conformance = AlgorithmConformance()
        conformance.algorithm = faulty.__name__.lower()  # type: ignore[misc]
        return conformance

    return suite_of


class TestFaultyAlgorithmsAreCaught:
    """Each fault fails the tests that are there for it."""

    @pytest.mark.parametrize(
        "test",
        [
            "test_answers_are_as_right_as_promised",
            "test_all_intervals_hold_together",
            "test_intervals_hold_at_any_budget",
            "test_equal_means_end_by_budget",
            "test_an_arm_on_the_threshold_stays_open",
        ],
    )
    def test_decisions_without_evidence(self, suite: Any, test: str) -> None:
        with pytest.raises(AssertionError):
            getattr(suite(Hasty), test)()

    @pytest.mark.parametrize(
        "test", ["test_proposals_are_well_formed_and_counted", "test_deterministic_rewards"]
    )
    def test_miscounted_pulls(self, suite: Any, test: str) -> None:
        with pytest.raises(AssertionError):
            getattr(suite(Miscounting), test)()

    def test_randomness_of_its_own(self, suite: Any) -> None:
        with pytest.raises(AssertionError):
            suite(Unseeded).test_a_seed_decides_everything()

    def test_options_swallowed(self, suite: Any) -> None:
        with pytest.raises(AssertionError, match="no_such_option"):
            suite(Forgetful).test_unknown_options_are_named()


def test_the_bound_of_error_rates_is_the_exact_tail() -> None:
    # P(Binomial(3, 1/2) > 2) = 1/8, P(> 1) = 1/2
    assert most_errors(3, 0.5, false_alarm=0.125) == 2
    assert most_errors(3, 0.5, false_alarm=0.12) == 3
    assert most_errors(3, 0.5, false_alarm=0.5) == 1
