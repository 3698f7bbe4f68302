"""A share of wrong names: closed e-BH against its definition, and what it promises."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import oddarms
from oddarms import simulate
from oddarms.algorithms._spade_joint import NORMAL, Found, Rules, Standing, conclude
from oddarms.arms import Bernoulli
from oddarms.problem import FloatArray
from oddarms.statistics.false_discoveries import discoveries, largest_by_e_bh, supported
from oddarms.testing import assert_error_rate

FALSE_ALARM = 1e-5


def supported_by_definition(values: FloatArray, chosen: set[int], alpha: float) -> bool:
    """Try every set of names."""
    for size in range(1, values.size + 1):
        for some in combinations(range(values.size), size):
            wrong = len(chosen & set(some))
            if wrong / len(chosen) > alpha * values[list(some)].mean():
                return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_supported_is_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logs, alpha = rng.normal(2.0, 2.0, 6), rng.choice([0.05, 0.2, 0.5])
    for size in range(1, 7):
        chosen = set(np.argsort(logs)[-size:].tolist())
        assert supported(logs, size, alpha) == supported_by_definition(np.exp(logs), chosen, alpha)


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_at_least_what_plain_e_bh_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logs = np.append(rng.normal(3.0, 3.0, 30), -math.inf)
    found, least = discoveries(logs, 0.1), largest_by_e_bh(logs, 0.1)
    assert found.sum() >= least
    assert not found[-1]
    if found.any():
        assert supported(logs, int(found.sum()), 0.1)
        assert logs[found].min() >= logs[~found].max()


def test_no_evidence_names_nobody() -> None:
    assert not discoveries(np.zeros(5), 0.1).any()
    assert not discoveries(np.full(5, -math.inf), 0.1).any()


def test_huge_evidence() -> None:
    assert discoveries(np.array([1e6, math.inf, 0.0]), 0.1).tolist() == [True, True, False]


def test_names_of_true_hypotheses_are_rare() -> None:
    """All names are wrong, and e-values as bold as they may be: mean 1, nearly all or nothing."""
    rng, runs, alpha = np.random.default_rng(9), 4000, 0.2
    logs = np.where(rng.random((runs, 5)) < 0.04, math.log(25.0), -math.inf)
    named = sum(bool(discoveries(row, alpha).any()) for row in logs)
    assert_error_rate(named, runs, alpha, false_alarm=FALSE_ALARM)
    assert named > 0.5 * alpha * runs  # so that the check can see a level that is too generous


class TestSearches:
    MEANS = (0.1,) * 24 + (0.8,) * 3

    def test_fewer_samples_than_for_all_right(self) -> None:
        pulls = {
            error: simulate(
                self.MEANS, k=1.5, delta=0.2, error=error, runs=5, rng=1, compiled=False
            ).pulls.mean()
            for error in ("any", "fdr")
        }
        assert pulls["fdr"] < 0.9 * pulls["any"]

    @pytest.mark.parametrize("n", [27, 1080])
    def test_every_form_ends(self, n: int) -> None:
        means = np.repeat(self.MEANS, n // 27)
        result = oddarms.find(Bernoulli(means), k=1.5, delta=0.2, error="fdr", rng=2)
        assert result.complete
        wrong = set(result.outliers) ^ set(np.flatnonzero(means > 0.5).tolist())
        assert len(wrong) <= 0.1 * n
        assert "on average at most 10 % of the names" in str(result)

    @pytest.mark.long
    def test_the_share_of_wrong_names(self) -> None:
        """Runs with more than half of the outliers' names wrong would be 2 * 0.1 at most."""
        means = np.array([0.2] * 17 + [0.33] + [0.5] * 2)  # one arm just below the threshold
        found = simulate(means, k=1.5, delta=0.4, error="fdr", runs=40, rng=3)
        odd = found.decisions >= 2
        share = (odd & (means < 0.4)).sum(1) / np.maximum(odd.sum(1), 1)
        assert_error_rate(int((share > 0.5).sum()), 40, 0.4, false_alarm=FALSE_ALARM)
        assert found.complete.all()


def test_no_arm_is_in_both_sets() -> None:
    """What is left of one set without the other might have a larger share of wrong names."""
    rules = Rules(2.0, 2.0, 0.1, 0.3, 1.0, 5.0)
    n, normal = 11, np.array([30.0] * 10 + [1.6])
    known = Standing(
        np.zeros(n, dtype=np.int8), np.zeros(n), 0.0, 1.0, (np.zeros(n), np.ones(n)), 0.0, 0.5
    )
    outlier = np.array([30.0] * 10 + [-math.inf])
    conclude(rules, known, np.arange(n), Found(normal, outlier, np.full(n, 0.5)), 0.0185)
    assert known.verdicts.tolist() == [NORMAL] * 11
    assert supported(normal, 11, 0.0185)
