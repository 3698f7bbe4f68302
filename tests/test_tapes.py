"""Tapes: rewards in the bits of a number, exactly as likely as they should be, and in order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

from helpers import VARIANTS, quick_and_long
from oddarms import find, simulate
from oddarms.arms import Bernoulli
from oddarms.simulation._tapes import LENGTH, full_tape

FALSE_ALARM = 1e-6
PROBABILITIES = [0.0, 1.0, 0.5, 0.1, 0.9, 1 / 3, 2.0**-60, 1.0 - 2.0**-53, 0.625]


class Recorded(np.random.Generator):
    """A generator that remembers what it gave."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.given: list[float] = []

    def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
        self.given.append(super().random())
        return self.given[-1]


def rewards_of(tape: int) -> list[int]:
    """Return the rewards on a tape, the next one first."""
    return [tape >> j & 1 for j in range(tape.bit_length() - 1)]


@pytest.mark.parametrize("p", PROBABILITIES)
def test_a_reward_says_whether_a_uniform_number_is_below_p(p: float) -> None:
    """The j-th bits of all draws are one uniform number; p is compared as a fraction."""
    for seed in range(20):
        rng = Recorded(seed)
        tape = full_tape(rng, p, mirrored=False)
        words = [int(value * 2**LENGTH) for value in rng.given]
        assert [word / 2**LENGTH for word in words] == rng.given
        rewards = rewards_of(tape)
        assert len(rewards) == LENGTH
        for j, reward in enumerate(rewards):
            digits = [word >> j & 1 for word in words]
            known = sum((Fraction(d, 2**i) for i, d in enumerate(digits, 1)), Fraction(0))
            below, above = known + Fraction(1, 2 ** len(digits)) <= p, known >= p
            assert (below, above) == (reward == 1, reward == 0)


def test_a_mirrored_tape_has_the_other_rewards() -> None:
    plain = full_tape(np.random.default_rng(1), 0.3, mirrored=False)
    mirrored = full_tape(np.random.default_rng(1), 0.3, mirrored=True)
    assert rewards_of(mirrored) == [1 - reward for reward in rewards_of(plain)]


def test_how_often_each_reward_is_one_and_two_next_to_each_other_are() -> None:
    """53 + 52 counts at a false alarm of 1e-6 in all; off by 0.03 would be found out."""
    rng, runs, p = np.random.default_rng(2), 20_000, 0.3
    rewards = np.array([rewards_of(full_tape(rng, p, mirrored=False)) for _ in range(runs)])
    ones, both = rewards.sum(axis=0), (rewards[:, 1:] & rewards[:, :-1]).sum(axis=0)
    level = FALSE_ALARM / (2 * LENGTH - 1)
    for counts, rate in ((ones, p), (both, p * p)):
        low, high = binom.interval(1.0 - level, runs, rate)
        assert ((counts >= low) & (counts <= high)).all()
    assert binom.interval(1.0 - level, runs, p)[1] / runs < p + 0.03


@pytest.mark.parametrize("variant", quick_and_long(["wrr"], ["ade", "ade shared", "rr"]))
@pytest.mark.parametrize(
    ("means", "runs"), quick_and_long([([0.05, 1.0], 50)], [([0.0, 0.9, 0.95, 0.1], 400)])
)
def test_runs_are_as_long_as_those_of_single_draws(
    variant: str, means: list[float], runs: int
) -> None:
    """Compiled runs from tapes against interactive ones without: false alarm 1e-6 each.

    With 2,000 compiled runs, 50 find out a distance of 0.39 between the distributions, and 400
    one of 0.15.
    """
    pytest.importorskip("numba")
    algorithm, options = VARIANTS[variant]
    question = {"k": 0.0, "delta": 0.9, "algorithm": algorithm, **options}
    taped = simulate(means, runs=2_000, rng=5, compiled=True, **question).pulls
    children = np.random.default_rng(6).spawn(runs)
    single = [find(Bernoulli(means), rng=rng, margin=0, **question).pulls for rng in children]
    assert len(set(single)) > 5
    assert ks_2samp(taped, single).pvalue > FALSE_ALARM
