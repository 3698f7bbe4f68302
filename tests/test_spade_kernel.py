"""Compiled runs of SPADE are those of the interactive algorithm, pull for pull."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from helpers import quick_and_long
from oddarms import find, simulate
from oddarms.algorithms import _spade_joint
from oddarms.algorithms._spade_certificates import JointCertificate
from oddarms.arms import Bernoulli, Beta, SimulatedArms, Uniform
from oddarms.errors import InvalidParameter
from oddarms.problem import Question
from oddarms.rules import Sigma
from oddarms.simulation import Simulation
from oddarms.simulation._task import why_not_compiled
from oddarms.statistics import worst_world
from oddarms.statistics.directions import Tally
from oddarms.statistics.threshold_streams import Lines

pytest.importorskip("numba")

import numba

from oddarms.simulation import _spade_kernel  # noqa: F401  # numba knows the formulas now

LONG = pytest.mark.long


def assert_parity(means: Any, *, runs: int = 1, **arguments: Any) -> Simulation:
    """Fail unless compiled and interactive runs are the same; return the compiled ones."""
    compiled = simulate(means, runs=runs, compiled=True, **arguments)
    interactive = simulate(means, runs=runs, compiled=False, **arguments)
    for name in ("decisions", "pulls_per_arm", "rounds", "threshold_pulls", "correct", "complete"):
        assert getattr(compiled, name).tolist() == getattr(interactive, name).tolist(), name
    np.testing.assert_allclose(compiled.threshold, interactive.threshold, rtol=1e-10)
    np.testing.assert_allclose(compiled.threshold_radius, interactive.threshold_radius, rtol=1e-10)
    return compiled


def bulk_and_one(n: int, seed: int) -> list[float]:
    """Return n - 1 means around 0.2 and one at 0.9."""
    rng = np.random.default_rng(seed)
    return [*rng.uniform(0.1, 0.3, n - 1).tolist(), 0.9]


FAMILIES = ("bernoulli", "beta", "uniform")


@pytest.mark.parametrize(
    ("n", "k", "family", "side"),
    quick_and_long(
        [
            *((6, 1.0, family, side) for family in FAMILIES for side in ("upper", "lower")),
            (3, 0.5, "beta", "upper"),
            (20, -1.0, "bernoulli", "lower"),
        ],
        [
            *((3, 0.5, family, "lower") for family in FAMILIES),
            *((20, -1.0, family, "upper") for family in FAMILIES),
        ],
    ),
)
def test_whole_runs(n: int, k: float, family: str, side: str) -> None:
    found = assert_parity(
        bulk_and_one(n, 1), k=k, delta=0.1, family=family, side=side, rng=2, indifference=0.05
    )
    assert found.complete.all()


@pytest.mark.parametrize(("n", "k"), [(20, 2.0), (50, 3.0), pytest.param(120, 3.0, marks=LONG)])
@pytest.mark.parametrize("family", ["bernoulli", "beta"])
def test_whole_runs_without_indifference(n: int, k: float, family: str) -> None:
    found = assert_parity(bulk_and_one(n, 3), k=k, delta=0.1, family=family, rng=4)
    assert found.complete.all()
    assert found.correct.all()
    assert found.outliers == [[n - 1]]


@pytest.mark.parametrize("budget", [1, 4, 5, 9, 10, 101])
def test_within_a_budget(budget: int) -> None:
    """Too few pulls for a row, for one sweep of the pilot, and steps that are cut short."""
    found = assert_parity(
        [0.5, 0.52, 0.5, 0.48, 0.6], k=1.0, delta=0.1, budget=budget, rng=5, runs=3
    )
    assert (found.pulls <= budget).all()
    assert (found.pulls > budget - 5).all()
    assert not found.complete.any()


@pytest.mark.parametrize("k", [3.0, -3.0])
def test_without_a_pull(k: float) -> None:
    found = assert_parity([0.1, 0.2, 0.9], k=k, delta=0.1, rng=6)
    assert found.pulls.tolist() == [0]
    assert found.decisions.tolist() == [[1] * 3 if k > 0.0 else [2] * 3]


@pytest.mark.parametrize(
    ("means", "side"), [([0.5, 0.5, 0.5, 0.2], "upper"), ([0.5] * 9 + [0.2], "lower")]
)
def test_an_arm_beyond_equal_ones_on_the_other_side(means: list[float], side: str) -> None:
    """Far from the threshold, it is found normal though no direction is right for long."""
    seen = means if side == "upper" else [1.0 - mean for mean in means]
    found = assert_parity(seen, k=1.0, delta=0.1, rng=1, side=side, budget=20_000)
    assert found.decisions[0, -1] == 1


@pytest.mark.parametrize("k", [1e-300, 1e-18, 1e-9])
def test_tiny_k(k: float) -> None:
    assert assert_parity([0.1, 0.2, 0.15, 0.9], k=k, delta=0.1, rng=1, budget=5_000).complete.all()


@pytest.mark.parametrize(
    "means", quick_and_long([[0.3, 0.3001, 0.2999]], [[0.5 - 2e-5, 0.5 + 2e-5]])
)
def test_tiny_gaps(means: list[float]) -> None:
    """Billions of pulls: bets that far, and intervals that are sought next to the mean."""
    assert assert_parity(means, k=0.3 * (len(means) > 2), delta=0.1, rng=1).complete.all()


@pytest.mark.parametrize("means", [[0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
def test_rewards_that_never_differ(means: list[float]) -> None:
    assert assert_parity(means, k=0.0, delta=0.1, rng=7, runs=2).complete.all()


def test_equal_estimates_of_the_other_arms_do_no_harm() -> None:
    """Where all the others are alike, the worst world is at the edge of what is searched."""
    found = assert_parity(
        [0.2, 0.7, 0.1], k=-1.0, delta=0.1, rng=788126749, runs=2, side="lower", indifference=0.1,
        budget=4_000,
    )  # fmt: skip
    assert found.complete.all()


@pytest.mark.parametrize("arms", [Bernoulli, Beta])
def test_a_run_is_find_with_the_seed_s_child(arms: Any) -> None:
    means = bulk_and_one(11, 8)
    found = simulate(arms(means), k=2.0, delta=0.1, runs=2, rng=9, compiled=True)
    for r, child in enumerate(np.random.default_rng(9).spawn(2)):
        result = find(arms(means), k=2.0, delta=0.1, margin=0, rng=child)
        assert result.pulls_per_arm.tolist() == found.pulls_per_arm[r].tolist()
        assert result.decisions.tolist() == found.decisions[r].tolist()
        assert result.threshold == pytest.approx(found.threshold[r], rel=1e-10)


OBSTACLES: list[tuple[int, dict[str, Any], str]] = [
    (513, {}, "arms must be at most 512 but are 513"),
    (5, {}, "arms must not be as many as 1 + k^2 but are 5"),
    (9, {"max_step": 5}, "max_step must be None but is 5"),
    (9, {"side": "both"}, "side must be 'upper' or 'lower' but is 'both'"),
    (9, {"bounds": (0, 2)}, "bounds must be (0.0, 1.0) but is (0.0, 2.0)"),
    (9, {"rule": "mad"}, "rule must be 'sigma' but is 'mad'"),
    (9, {"margin": 0.1}, "margin must be 0.0 but is 0.1"),
    (9, {"floor": 0.1}, "floor must be None but is 0.1"),
    (9, {"error": "fdr"}, "error must be 'fwer' but is 'fdr'"),
    (9, {"goal": "budget", "budget": 9}, "goal must be 'confidence' but is 'budget'"),
    (9, {"algorithm": "mine"}, "one of 'ade', 'rr', 'wrr', 'spade' but is 'mine'"),
]


class TestWhatIsCompiled:
    """Every condition has a reason, and where one does not hold runs go step by step."""

    @pytest.mark.parametrize(("n", "words"), [(512, {}), (9, {"max_step": None})])
    def test_nothing_is_in_the_way(self, n: int, words: dict[str, Any]) -> None:
        question = Question.of(n, {"k": 2, "delta": 0.1, "margin": 0, **words})
        assert why_not_compiled(question, Bernoulli([0.5] * n)) is None

    @pytest.mark.parametrize(("n", "words", "reason"), OBSTACLES)
    def test_words_of_the_question(self, n: int, words: dict[str, Any], reason: str) -> None:
        question = Question.of(n, {"k": 2, "delta": 0.1, "margin": 0, **words})
        assert (why_not_compiled(question, Bernoulli([0.5] * n)) or "").endswith(reason)

    @pytest.mark.parametrize(
        ("arms", "reason"),
        [
            (Uniform([0.2, 0.5, 1.5], bounds=(0, 2)), "with rewards in [0, 1], but are Uniform(3"),
            (Beta([0.2, 0.5, 0.9], 0.2), "and one below 0.05 but is 0.2"),
        ],
    )
    def test_arms(self, arms: SimulatedArms, reason: str) -> None:
        assert reason in (why_not_compiled(Question(3, k=0.5, margin=0), arms) or "")

    def test_insisting_gets_the_reason(self) -> None:
        with pytest.raises(
            InvalidParameter, match=r"where max_step must be None but is 5, but got True"
        ):
            simulate([0.1, 0.2, 0.9], k=0.5, delta=0.1, rng=1, compiled=True, max_step=5)


CONCENTRATIONS = (1e-20, 0.01, 0.2, 1.0, 10.0)
BETAS = [([0.3, 0.5, 0.9], 1e-20), ([0.06, 0.9], 0.01), ([0.01, 0.5], 1.0)]
ALL_BETAS = product(([0.3, 0.5, 0.9], [0.06, 0.9], [0.01, 0.5]), CONCENTRATIONS)


@pytest.mark.parametrize(
    ("means", "concentration"),
    quick_and_long(BETAS, [pair for pair in ALL_BETAS if pair not in BETAS]),
)
def test_beta_rewards_are_drawn_as_numpy_draws_them(
    means: list[float], concentration: float
) -> None:
    """numba redraws where powers are rounded to 0, for small parameters for ever."""
    question = {"k": 0.5, "delta": 0.1, "family": "beta", "concentration": concentration}
    found, same = (
        simulate(means, rng=1, budget=300, runs=2, compiled=compiled, **question)
        for compiled in (None, False)
    )
    assert found.pulls_per_arm.tolist() == same.pulls_per_arm.tolist()
    np.testing.assert_allclose(found.threshold, same.threshold, rtol=1e-10)


def test_a_search_without_end_ends() -> None:
    """All arms are on the threshold: 2^50 pulls are the most of any search."""
    found = simulate([0.5, 0.5], k=0.0, delta=0.1, rng=1, compiled=True)
    assert not found.complete[0]
    assert 2**50 - 2 < found.pulls[0] <= 2**50


@pytest.mark.long
def test_it_ends_alike_step_by_step() -> None:
    assert_parity([0.5, 0.5, 0.5], k=0.0, delta=0.1, rng=1)


@pytest.mark.parametrize("budget", [2**62, 2**63, 10**30])
def test_budgets_beyond_all_counts(budget: int) -> None:
    found = assert_parity([0.1, 0.2, 0.9, 0.2], k=0.5, delta=0.1, rng=1, budget=budget)
    assert found.complete.all()


def random_question(rng: np.random.Generator) -> tuple[list[float], dict[str, Any]]:
    """Return means and a question of some kind; many means are equal."""
    n, k = (
        int(rng.choice([2, 3, 4, 5, 20, 50, 120])),
        float(rng.choice([-1.0, 0.0, 0.5, 1.0, 2, 3])),
    )
    means = rng.uniform(0.06, 0.94, n)
    if rng.random() < 0.5:
        means = means.round(1).clip(0.1, 0.9)
    if rng.random() < 0.5:
        means = 0.3 * means + 0.1
        means[0] = 0.9
    question = {
        "k": k + 1e-3 * (n == 1 + k * k),
        "delta": 0.1,
        "family": str(rng.choice(["bernoulli", "beta", "uniform"])),
        "indifference": float(rng.choice([0.0, 0.02, 0.1])),
        "side": str(rng.choice(["upper", "lower"])),
        "budget": int(rng.choice([3 * n, 8 * n + 1, 40 * n + 7, 4_000])),
        "rng": int(rng.integers(2**32)),
    }
    return means.tolist(), question


@pytest.mark.parametrize(("seed", "runs"), [(11, 8), pytest.param(12, 400, marks=LONG)])
def test_many_small_runs(seed: int, runs: int) -> None:
    rng = np.random.default_rng(seed)
    ends = 0
    for _ in range(runs):
        means, question = random_question(rng)
        ends += bool(assert_parity(means, **question).complete[0])
    assert 0 < ends < runs


@numba.njit
def compiled_evidence(*arguments: Any) -> Any:
    return _spade_joint.evidence_against(*arguments)


@numba.njit
def compiled_costs(arms: Any, y: Any, k: float, stakes: Any, prices: Any) -> Any:
    return worst_world.largest_costs(arms, y, k, stakes, prices)


@pytest.mark.long
class TestLoops:
    """Loops over arms and bets give what numpy gives; compiling each of them takes a second."""

    rng = np.random.default_rng(13)
    pulls = rng.integers(2, 500, 60).astype(np.float64)
    total = np.floor(pulls * rng.random(60))
    scatter = rng.random(60) * (total - total**2 / pulls) + 1e-13

    @pytest.mark.parametrize("sign", [-1.0, 1.0])
    def test_the_evidence_on_arms(self, sign: float) -> None:
        rng = np.random.default_rng(14)
        lines = Lines(
            rng.uniform(-2.0, 2.0, 60),
            np.full(60, sign * 50.0),
            np.array([0.1, 0.3, 1.0]),
            rng.random((3, 60)),
            rng.random(60),
        )
        mean, level, others = self.total / self.pulls, rng.uniform(0.05, 0.95, 60), rng.random(60)
        arguments = (
            lines,
            sign,
            mean,
            level,
            0.2 * level,
            Tally(self.pulls, self.total, self.scatter),
            60,
            others,
            0.01,
        )
        for found, expected in zip(
            compiled_evidence(*arguments), _spade_joint.evidence_against(*arguments), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("n", [3, 20])
    def test_the_worst_world(self, n: int) -> None:
        y, stakes = self.rng.random(n), self.rng.uniform(1.0, 50.0, 6)
        arguments = np.arange(n), y, 0.9, stakes, self.rng.random((6, n))
        for found, expected in zip(
            compiled_costs(*arguments), worst_world.largest_costs(*arguments), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(("normal", "outlier"), [(50.0, -3.0), (2.0, 50.0), (2.0, 3.0)])
def test_the_evidence_kept_is_that_of_the_side_that_decides(normal: float, outlier: float) -> None:
    arms, rules = np.arange(1), _spade_joint.Rules(1.0, 1.1, 0.1, 0.0, 1.0, 10.0)
    known = JointCertificate(9, Sigma(k=1.0), 0.1, 0.0).standing
    found = _spade_joint.Found(np.array([normal]), np.array([outlier]), np.zeros(1))
    _spade_joint.conclude(rules, known, arms, found)
    assert known.log_evidence[0] == (normal if normal == 50.0 else outlier)
    assert known.verdicts[0] == (1 if normal == 50.0 else 2 if outlier == 50.0 else 0)
