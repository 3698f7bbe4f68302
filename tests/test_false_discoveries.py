"""A share of wrong names: e-BH against its definition, what it promises, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import oddarms
from helpers import quick_and_long
from oddarms import Search, simulate
from oddarms.algorithms import Pulls
from oddarms.algorithms._spade import SPADE, _Plan
from oddarms.algorithms._spade_joint import NORMAL, OUTLIER, Found, Rules, Standing, conclude
from oddarms.algorithms._spade_plans import next_size
from oddarms.arms import Bernoulli
from oddarms.problem import FloatArray
from oddarms.rules import Sigma
from oddarms.statistics.false_discoveries import names
from oddarms.testing import assert_error_rate

FALSE_ALARM = 1e-5


@pytest.mark.parametrize("rng", np.random.default_rng(0).spawn(12))
def test_the_largest_list_by_its_definition(rng: np.random.Generator) -> None:
    logs, level, sure = rng.normal(2.0, 2.0, 12).round(1), 4.0, int(rng.integers(4))
    sizes = [
        size
        for size in range(1, 13)
        if (np.sort(logs)[-size:] >= level - math.log(size + sure)).all()
    ]
    found = names(logs, level, sure)
    assert found.sum() == max(sizes, default=0)
    assert not found.any() or logs[found].min() > logs[~found].max(initial=-math.inf)
    assert found[logs >= level].all()  # what stands alone is in every list


def test_no_evidence_names_nobody() -> None:
    assert not names(np.zeros(5), 3.0).any()
    assert not names(np.full(5, -math.inf), 3.0, sure=1000).any()
    assert names(np.array([1e6, math.inf, 0.0]), 3.0).tolist() == [True, True, False]


def test_the_share_of_wrong_names() -> None:
    """E-values as bold as they may be, nearly all or nothing, with weights that sum to 1.

    Half of the names would be wrong, with seven tenths of the weight. The mean share is a bounded
    average, so a level that is half as large again shows.
    """
    rng, runs, alpha, n = np.random.default_rng(9), 20_000, 0.3, 10
    weights = np.array([0.3] + [0.1] * 4 + [0.06] * 5)
    wrong, level = np.arange(n) < 5, math.log(n / alpha)
    shares = np.zeros(runs)
    for run in range(runs):
        size = float(rng.integers(1, 6))  # of the list in which a wrong name would just be
        with np.errstate(divide="ignore"):
            e = np.where(
                rng.random(n) < alpha * weights * size, 1.0 / (alpha * weights * size), 0.0
            )
            e[5 : 5 + int(size) - 1] = math.inf
            named = names(np.log(n * weights * e), level)
        shares[run] = (named & wrong).sum() / max(named.sum(), 1)
    most = 0.7 * alpha
    assert shares.mean() <= most + 5.0 * shares.std() / math.sqrt(runs)
    assert shares.mean() > 0.7 * most


class TestSearches:
    MEANS = (0.1,) * 24 + (0.8,) * 3

    @pytest.mark.parametrize("n", [27, 1080])
    def test_every_form_ends(self, n: int) -> None:
        means = np.repeat(self.MEANS, n // 27)
        result = oddarms.find(Bernoulli(means), k=1.5, delta=0.2, error="fdr", rng=2)
        assert result.complete
        wrong = set(result.outliers) ^ set(np.flatnonzero(means > 0.5).tolist())
        assert len(wrong) <= 0.1 * n
        assert "on average at most 20 % of the decisions" in str(result)

    @pytest.mark.long
    def test_the_share_of_wrong_names(self) -> None:
        """Runs with more than half of a list wrong would be 2 * 0.3 at most."""
        means = np.array([0.2] * 17 + [0.33] + [0.5] * 2)  # one arm just below the threshold
        found = simulate(means, k=1.5, delta=0.3, error="fdr", runs=60, rng=3)
        odd, normal = found.decisions >= 2, found.decisions == 1
        false = (odd & (means < 0.4)).sum(1) / np.maximum(odd.sum(1), 1)
        missed = (normal & (means > 0.4)).sum(1) / np.maximum(normal.sum(1), 1)
        much = np.maximum(false, missed) > 0.5
        assert_error_rate(int(much.sum()), 60, 0.6, false_alarm=FALSE_ALARM)
        assert found.complete.all()


Draw = Callable[[np.random.Generator, float, int], FloatArray]


def lomax(rng: np.random.Generator, mean: float, size: int) -> FloatArray:
    return np.minimum(1.5 * mean * rng.pareto(2.5, size), 1.0)


def spikes(rng: np.random.Generator, mean: float, size: int) -> FloatArray:
    return np.where(rng.random(size) < (mean - 0.02) / 0.88, 0.9, 0.02)


def quiet(rng: np.random.Generator, mean: float, size: int) -> FloatArray:
    return rng.beta(50.0 * mean, 50.0 * (1.0 - mean), size)


def coins(rng: np.random.Generator, mean: float, size: int) -> FloatArray:
    return (rng.random(size) < mean) * 1.0


BULK = [0.2, 0.23, 0.26, 0.29, 0.32, 0.35, 0.38]
FAMILIES: dict[str, tuple[Draw, list[float], float, float]] = {
    "Lomax": (lomax, [0.05] * 28 + [0.08] * 2 + [0.4, 0.5], 2.0, 0.0),
    "Lomax, near": (lomax, [0.1] * 17 + [0.15, 0.35, 0.4], 1.5, 0.0),
    "rare spikes": (spikes, [0.03] * 20 + [0.12], 2.0, 0.0),
    "quiet": (quiet, BULK * 3 + [0.75], 2.0, 0.0),
    "coins": (coins, BULK * 3 + [0.8], 2.0, 0.0),
    "six coins": (coins, [0.1, 0.2, 0.3, 0.2, 0.1, 0.9], 1.0, 0.0),
    "healthy": (coins, [0.0] * 30, 2.0, 0.05),
    "low rates": (coins, [0.01] * 28 + [0.15, 0.2], 2.0, 0.05),
}


def take_rows(machine: SPADE, rewards: FloatArray) -> None:
    """Enter the rewards of all arms as rows of the usual sizes, whatever the plan would be."""
    used = 0
    arms = np.arange(machine.n)
    while used + (size := math.ceil(next_size(machine.steps, machine.paired))) <= rewards.shape[1]:
        row, counts = rewards[:, used : used + size], np.full(machine.n, size)
        plan = _Plan(counts, float(size), machine._guesses())
        plan.receive(Pulls(arms, counts), row.sum(1), (row * row).sum(1))
        machine._learn(plan)
        used += size
    machine._decide()


class TestNeverDearer:
    """What is decided where nothing may be wrong is decided where a share may be."""

    @pytest.mark.parametrize("name", FAMILIES)
    def test_on_the_same_samples(self, name: str) -> None:
        draw, means, k, margin = FAMILIES[name]
        more = 0
        for seed, size in ((1, 25), (3, 40), (5, 63), (7, 100), (9, 200), (11, 280)):
            rng = np.random.default_rng(seed)
            rewards = np.array([draw(rng, mean, size) for mean in means], dtype=float)
            rule = Sigma(k=k, margin=margin)
            strict, loose = (
                SPADE(len(means), rule=rule, delta=0.1, rng=rng, error=error)
                for error in ("fwer", "fdr")
            )
            for machine in (strict, loose):
                take_rows(machine, rewards)
            decided = ~strict.undecided
            assert (loose.decisions[decided] == strict.decisions[decided]).all()
            more += int((loose.decisions != strict.decisions).sum())
        assert more > 0

    @pytest.mark.parametrize(
        ("name", "seeds"),
        quick_and_long(
            [(name, range(1)) for name in ("Lomax, near", "quiet", "six coins", "healthy")],
            [(name, range(3)) for name in FAMILIES],
        ),
    )
    def test_in_whole_searches(self, name: str, seeds: range) -> None:
        """The s-th reward of an arm is the same in both; their steps are not."""
        for seed in seeds:
            strict, loose = (self.pulls(name, seed, error) for error in ("fwer", "fdr"))
            assert loose <= strict

    def pulls(self, name: str, seed: int, error: str) -> int:
        draw, means, k, margin = FAMILIES[name]
        search = Search(len(means), k=k, margin=margin, delta=0.1, error=error)
        children = np.random.default_rng(seed).spawn(len(means))
        while not search.done:
            pulls = search.ask_step()
            rewards = [
                draw(children[arm], means[arm], int(count))
                for arm, count in zip(pulls.indices, pulls.counts, strict=True)
            ]
            search.tell_step(np.concatenate(rewards))
        return search.pulls


class TestConclude:
    N = 11
    RULES = Rules(2.0, 2.0, 0.1, 0.3, 1.0, math.log(11 / 0.1), fdr=True)

    def concluded(self, normal: FloatArray, outlier: FloatArray) -> Standing:
        n = self.N
        known = Standing(
            np.zeros(n, dtype=np.int8), np.zeros(n), 0.0, 1.0, (np.zeros(n), np.ones(n)), 0.0, 0.5
        )
        found = Found(normal, outlier, np.full(n, 0.5))
        conclude(self.RULES, known, np.arange(n), found)
        return known

    def test_no_arm_is_in_both_lists(self) -> None:
        """What is left of one list without the other might have a larger share of wrong names."""
        normal = np.array([3.0] * 10 + [2.5])
        known = self.concluded(normal, np.array([4.0] * 10 + [-math.inf]))
        assert known.verdicts.tolist() == [NORMAL] * 11
        assert known.log_evidence.tolist() == normal.tolist()

    def test_final_names_count_in_the_size_of_their_list(self) -> None:
        normal = np.array([9.0] * 3 + [3.5] + [-math.inf] * 7)
        known = self.concluded(normal, np.array([-math.inf] * 9 + [9.0, 3.5]))
        assert known.verdicts.tolist() == [NORMAL] * 4 + [0] * 5 + [OUTLIER, 0]
