"""ROAI-Elim and ROAI-LUCB: radius, sets and stopping as published; right as often as promised.

The one statistical check fails at a rate of exactly delta with probability 1e-6 for each of the two
algorithms, once and for all, as the seeds are fixed; what it finds out is tested beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from oddarms import Question, Search
from oddarms.algorithms import Pulls, create
from oddarms.algorithms._base import UNLIMITED
from oddarms.algorithms._roai import ROAI
from oddarms.arms import Gaussian
from oddarms.problem import FloatArray
from oddarms.rules import Mad
from oddarms.simulation import run_search
from oddarms.statistics.roai import arm_radius
from oddarms.testing import assert_error_rate
from our_conformance import ever_wrong

NAMES = ("roai-elim", "roai-lucb")
FIVE = np.array([0.1, 0.2, 0.3, 0.4, 0.9])
EASY = Gaussian([0.0, 1.0, 2.0, 3.0, 8.0], sd=0.5)
"""Median 2, MAD 1: a threshold of 5 for k = 3."""
WORDS: dict[str, Any] = {"rule": "mad", "k": 3.0, "delta": 0.1, "bounds": (-10, 20)}


def question(name: str, **words: Any) -> Question:
    return Question(5, algorithm=name, options={"sd": 0.5}, **{**WORDS, **words})


def fresh(name: str, k: float = 1.5, sd: float = 0.5) -> ROAI:
    machine = create(name, 5, rule=Mad(k=k), delta=0.1, rng=np.random.default_rng(0), sd=sd)
    assert isinstance(machine, ROAI)
    return machine


def with_radius(name: str, radius: float, k: float = 1.5) -> ROAI:
    """Return an algorithm that has seen the means above, each to within a radius."""
    pulls = Pulls(np.arange(5), np.full(5, 100))
    sd = radius / float(arm_radius(np.array([100]), 5, 0.1, 1.0)[0])
    machine = fresh(name, k, sd)
    machine.absorb(pulls, 100.0 * FIVE, 100.0 * FIVE)
    return machine


def test_the_radius_by_hand() -> None:
    # sqrt(log(4 n s^2 / delta) / (2 s)) for s = 100, n = 17, delta = 0.05
    radius = arm_radius(np.array([100]), 17, 0.05, 0.5)[0]
    assert radius == pytest.approx(math.sqrt(math.log(4 * 17 * 100**2 / 0.05) / 200))


@pytest.mark.parametrize("name", NAMES)
class TestBoth:
    def test_the_threshold_s_interval(self, name: str) -> None:
        # median in [0.26, 0.34], MAD in [0.02, 0.18], as |y - median| is at least 0.12, 0.02, 0,
        # 0.02, 0.52 and at most 0.28, 0.18, 0.08, 0.18, 0.68
        machine = with_radius(name, 0.04)
        assert machine.median == pytest.approx((0.26, 0.34))
        assert machine.mad == pytest.approx((0.02, 0.18))
        assert machine.theta == pytest.approx((0.29, 0.61))
        assert machine.threshold().estimate == pytest.approx(0.45)
        assert machine.decisions.tolist() == [1, 1, 0, 0, 2]

    def test_it_ends_when_no_interval_meets_the_threshold_s(self, name: str) -> None:
        machine = with_radius(name, 0.005)
        assert machine.done
        assert machine.decisions.tolist() == [1, 1, 1, 1, 2]
        assert machine.propose(UNLIMITED).total == 0

    def test_whole_searches(self, name: str) -> None:
        result = run_search(question(name), EASY, np.random.default_rng(1))
        assert result.outliers == [4]
        assert result.complete
        again = run_search(question(name), EASY, np.random.default_rng(1))
        assert again.to_dict() == result.to_dict()
        short = run_search(question(name, budget=40), EASY, np.random.default_rng(1))
        assert 30 < short.pulls <= 40
        assert not short.complete

    def test_both_sides(self, name: str) -> None:
        arms = Gaussian([-6.0, 1.0, 2.0, 3.0, 10.0], sd=0.5)
        found = run_search(question(name, side="both"), arms, np.random.default_rng(2))
        assert (found.low, found.high) == ([0], [4])

    def test_by_default_any_rewards_within_their_bounds(self, name: str) -> None:
        machine = Search(5, rule="mad", bounds=(0, 8), algorithm=name).algorithm
        assert isinstance(machine, ROAI)
        assert machine.sd == 0.5


def test_elim_pulls_what_meets_median_mad_or_threshold() -> None:
    """The arm at 0.1 may be as far from the median as MAD; that at 0.9 meets nothing."""
    assert with_radius("roai-elim", 0.04)._chosen().tolist() == [0, 1, 2, 3]
    # the median alone is 0.3, and 0.2 and 0.4 may be MAD; a threshold of 0.45 is met by none
    machine = with_radius("roai-elim", 0.01)
    assert machine._chosen().tolist() == [1, 2, 3]


def test_lucb_pulls_the_hardest_of_each_kind() -> None:
    """By mean 0.4 and 0.3, 0.3 and 0.2; by distance 0.1, 0.2 and 0.4; at the threshold 0.4."""
    assert with_radius("roai-lucb", 0.04)._chosen().tolist() == [0, 1, 2, 3]
    many = create(
        "roai-lucb", 100, rule=Mad(k=3.0), delta=0.1, rng=np.random.default_rng(0), sd=0.5
    )
    sums = 10.0 * np.random.default_rng(1).random(100)
    many.absorb(Pulls(np.arange(100), np.full(100, 10)), sums, sums)
    assert 2 <= many.propose(UNLIMITED).total <= 10


class TestGuarantee:
    RUNS, DELTA = 30, 0.3
    MEANS = np.array([0.1, 0.4, 0.6])

    def misses(self, name: str, monkeypatch: pytest.MonkeyPatch, narrower: float = 1.0) -> int:
        def radius(*arguments: Any) -> FloatArray:
            return narrower * arm_radius(*arguments)

        monkeypatch.setattr("oddarms.algorithms._roai.arm_radius", radius)
        words = {"rule": Mad(k=1.0), "delta": self.DELTA}
        return sum(
            ever_wrong(create(name, 3, rng=rng, **words), self.MEANS, rng, pulls=120)
            for rng in np.random.default_rng(5).spawn(self.RUNS)
        )

    @pytest.mark.parametrize("name", NAMES)
    def test_it_holds(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        assert_error_rate(self.misses(name, monkeypatch), self.RUNS, self.DELTA)

    @pytest.mark.parametrize("name", NAMES)
    def test_a_third_of_the_radius_is_found_out(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(AssertionError, match="errors in 30 runs"):
            assert_error_rate(self.misses(name, monkeypatch, 0.33), self.RUNS, self.DELTA)
