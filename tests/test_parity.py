"""The interactive algorithms and the compiled whole runs agree, pull for pull."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import VARIANTS, quick_and_long
from oddarms import Progress, find, simulate
from oddarms.algorithms import create
from oddarms.arms import Bernoulli, Beta
from oddarms.rules import Sigma
from oddarms.simulation import Simulation
from oddarms.simulation._tapes import TapedBernoulli

FAMILIES: dict[str, dict[str, float]] = {
    "bernoulli": {},
    "beta": {"concentration": 3.0},
    "uniform": {"width": 0.1},
}


def assert_parity(means: list[float], *, runs: int = 2, **arguments: Any) -> Simulation:
    """Fail unless compiled and interactive runs are the same; return the compiled ones."""
    compiled = simulate(means, runs=runs, compiled=True, **arguments)
    interactive = simulate(means, runs=runs, compiled=False, **arguments)
    for name in ("decisions", "pulls_per_arm", "rounds", "threshold_pulls", "correct", "complete"):
        assert getattr(compiled, name).tolist() == getattr(interactive, name).tolist(), name
    np.testing.assert_allclose(compiled.threshold, interactive.threshold, rtol=1e-12)
    np.testing.assert_allclose(compiled.threshold_radius, interactive.threshold_radius, rtol=1e-12)
    return compiled


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("family", "side"),
    quick_and_long(
        [("bernoulli", "upper"), ("beta", "lower"), ("uniform", "upper")],
        [("bernoulli", "lower"), ("beta", "upper"), ("uniform", "lower")],
    ),
)
def test_within_a_budget(variant: str, family: str, side: str) -> None:
    algorithm, options = VARIANTS[variant]
    found = assert_parity(
        [0.1, 0.3, 0.2, 0.85, 0.5],
        k=0.7,
        delta=0.1,
        algorithm=algorithm,
        family=family,
        side=side,
        budget=500,
        rng=21,
        runs=1,
        **options,
        **FAMILIES[family],
    )
    assert (found.pulls > 480).all()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("family", "side"), quick_and_long([("bernoulli", "upper")], [("beta", "lower")])
)
def test_whole_runs(variant: str, family: str, side: str) -> None:
    algorithm, options = VARIANTS[variant]
    found = assert_parity(
        [0.1, 0.25, 0.05, 0.95, 0.9],
        k=0.0,
        delta=0.3,
        algorithm=algorithm,
        family=family,
        side=side,
        rng=22,
        runs=1,
        **options,
        **FAMILIES[family],
    )
    assert found.complete.all()
    assert found.correct.all()


@pytest.mark.parametrize("means", quick_and_long([[0.0, 1.0], [0.05, 0.1, 1.0]], [([0.1, 0.9],)]))
@pytest.mark.parametrize("variant", VARIANTS)
def test_few_arms(variant: str, means: list[float]) -> None:
    algorithm, options = VARIANTS[variant]
    assert assert_parity(
        means, k=0.0, delta=0.3, algorithm=algorithm, rng=23, **options
    ).complete.all()


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "variant", [pytest.param("rr", marks=LONG), "rr batch 7", pytest.param("wrr", marks=LONG),
                pytest.param("wrr rho 1.7", marks=LONG), "wrr batch 7"],
)  # fmt: skip
@pytest.mark.parametrize("k", [pytest.param(-1.0, marks=LONG), 0.5, 1.5])
def test_whole_runs_of_round_robin(variant: str, k: float) -> None:
    algorithm, options = VARIANTS[variant]
    found = assert_parity(
        [0.02, 0.1, 0.0, 0.07, 0.03, 1.0],
        k=k,
        delta=0.1,
        algorithm=algorithm,
        rng=24,
        runs=1,
        **options,
    )
    assert found.complete.all()


@pytest.mark.long
@pytest.mark.parametrize(("k", "shared"), [(-0.5, False), (-3.0, True), (0.2, False)])
def test_whole_runs_of_ade(k: float, shared: bool) -> None:
    """Thousands of rounds with k other than 0, so that U_sigma matters."""
    found = assert_parity(
        [0.0, 0.02, 1.0, 0.98], k=k, delta=0.1, algorithm="ade", shared=shared, rng=25, runs=1
    )
    assert found.complete.all()
    assert found.rounds[0] > 1_000


@pytest.mark.parametrize(("k", "shared"), [(-0.5, False), (-3.0, True), (0.2, False)])
def test_the_beginning_of_runs_of_ade(k: float, shared: bool) -> None:
    """The same for some hundred rounds."""
    found = assert_parity(
        [0.0, 0.02, 1.0, 0.98], k=k, delta=0.1, algorithm="ade", shared=shared, rng=25, runs=1,
        budget=2_500,
    )  # fmt: skip
    assert found.rounds[0] > 200


@pytest.mark.long
def test_many_arms_leave_one_by_one() -> None:
    means = np.linspace(0.0, 1.0, 40)[np.r_[:18, 22:40]].tolist()
    for shared in (False, True):
        found = assert_parity(
            means, k=0.0, delta=0.1, algorithm="ade", shared=shared, rng=26, runs=1, budget=40_000
        )
        assert (found.decisions != 0).sum() > 20


@pytest.mark.parametrize("budget", [0, 1, 6, 7, 8, 36])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_smallest_budgets(variant: str, budget: int) -> None:
    algorithm, options = VARIANTS[variant]
    found = assert_parity(
        [0.1, 0.3, 0.2, 0.85, 0.5],
        k=1.0,
        delta=0.1,
        algorithm=algorithm,
        budget=budget,
        rng=27,
        runs=1,
        **options,
    )
    assert found.pulls[0] <= budget


@pytest.mark.parametrize(
    ("variant", "budget"),
    quick_and_long(
        [(name, 2_200) for name in ("ade", "ade shared", "rr batch 7", "wrr", "wrr batch 7")],
        [(name, 4_000) for name in VARIANTS],
    ),
)
def test_every_moment_of_a_run(variant: str, budget: int) -> None:
    """Laziness changes nothing: the compiled run stopped at any moment has the same state."""
    algorithm, options = VARIANTS[variant]
    means = [0.0, 0.3, 0.2, 0.9, 0.7, 1.0]
    trace: list[Progress] = []
    find(
        Bernoulli(means) if "batch" in options else TapedBernoulli(means),
        k=0.3,
        delta=0.2,
        margin=0,
        algorithm=algorithm,
        budget=budget,
        rng=np.random.default_rng(28).spawn(1)[0],
        progress=trace.append,
        **options,
    )
    assert len(trace) > 300
    some = np.unique(np.geomspace(1, len(trace), 60).astype(int)) - 1
    for moment in (trace[i] for i in some):
        stopped = simulate(
            means,
            k=0.3,
            delta=0.2,
            algorithm=algorithm,
            budget=moment.pulls,
            rng=28,
            compiled=True,
            **options,
        )
        assert stopped.pulls[0] == moment.pulls
        assert stopped.rounds[0] == moment.round
        assert (stopped.decisions == 0).sum() == moment.undecided
        theta, radius = stopped.threshold[0], stopped.threshold_radius[0]
        np.testing.assert_allclose(theta - radius, moment.threshold_lower, rtol=1e-10)
        np.testing.assert_allclose(theta + radius, moment.threshold_upper, rtol=1e-10)


SEEDS = [0, *(pytest.param(seed, marks=LONG) for seed in range(1, 6))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shared", [False, True])
def test_random_instances_of_ade(seed: int, shared: bool) -> None:
    """Arms are decided at many different rounds, after pairs as well as after turns."""
    means = np.random.default_rng(seed).random(6).round(2).tolist()
    assert_parity(
        means, k=0.0, delta=0.2, algorithm="ade", shared=shared, rng=seed, runs=1, budget=8_000
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_random_instances_of_wrr(seed: int) -> None:
    means = np.random.default_rng(seed).random(6).round(2).tolist()
    assert_parity(means, k=0.4, delta=0.2, algorithm="wrr", rng=seed, runs=1, budget=4_000)


def interactive_run(
    rng: np.random.Generator, means: list[float], budget: int, **question: Any
) -> tuple[list[int], list[int]]:
    """Return pulls and decisions of the algorithm alone, on the rewards of a compiled run."""
    algorithm_rng, reward_rng = rng.spawn(2)
    algorithm = create(
        question.pop("algorithm"),
        len(means),
        rule=Sigma(k=question.pop("k")),
        rng=algorithm_rng,
        **question,
    )
    arms = TapedBernoulli(means, rng=reward_rng)
    while 0 < (pulls := algorithm.propose(budget)).total <= budget - algorithm.pulls.sum():
        algorithm.absorb(pulls, *arms.pull_totals(pulls.indices, pulls.counts))
    return algorithm.pulls.tolist(), algorithm.decisions.tolist()


@pytest.mark.parametrize("variant", [name for name in VARIANTS if "batch" not in name])
@pytest.mark.parametrize(("seed", "runs"), [(30, 8), pytest.param(31, 200, marks=LONG)])
def test_many_small_runs(variant: str, seed: int, runs: int) -> None:
    """Several tapes' length for each arm, so that many pulls are taken at a time."""
    algorithm, options = VARIANTS[variant]
    rng = np.random.default_rng(seed)
    ends = 0
    for number in range(runs):
        others = rng.random(rng.integers(5))
        easy = number % 2 == 0
        means = np.r_[0.0, 1.0, others.round() if easy else others.round(2)].tolist()
        k = 0.0 if easy else float(rng.choice([-1.0, 0.3, 0.7]))
        budget = 3_000 if easy else int(rng.integers(1, 2_000))
        question = {"k": k, "delta": 0.5, "algorithm": algorithm, "budget": budget, **options}
        child = int(rng.integers(2**32))
        found = simulate(means, rng=child, compiled=True, **question)
        (same_rng,) = np.random.default_rng(child).spawn(1)
        pulls, decisions = interactive_run(same_rng, means, **question)
        assert found.pulls_per_arm[0].tolist() == pulls
        assert found.decisions[0].tolist() == decisions
        ends += bool(found.complete[0])
    assert 0 < ends < runs


@pytest.mark.long
@pytest.mark.parametrize("variant", ["ade", "ade shared", "rr", "wrr"])
@pytest.mark.parametrize("k", [-1.5, 0.0, 2.5])
def test_many_arms_for_a_while(variant: str, k: float) -> None:
    """Turns of WRR are longer the more arms there are, and some arms are always near the border."""
    algorithm, options = VARIANTS[variant]
    means = np.random.default_rng(32).random(150).tolist()
    question = {"k": k, "delta": 0.1, "algorithm": algorithm, "budget": 60_000, **options}
    found = simulate(means, rng=33, compiled=True, **question)
    (same_rng,) = np.random.default_rng(33).spawn(1)
    pulls, decisions = interactive_run(same_rng, means, **question)
    assert found.pulls_per_arm[0].tolist() == pulls
    assert found.decisions[0].tolist() == decisions


@pytest.mark.parametrize(
    ("arms", "find_arms", "options"),
    [
        (Bernoulli, TapedBernoulli, {}),
        (Bernoulli, Bernoulli, {"batch": 3}),
        (Beta, Beta, {}),
    ],
)
def test_a_run_is_find_with_the_seed_s_child(
    arms: Any, find_arms: Any, options: dict[str, int]
) -> None:
    means = [0.1, 0.2, 0.9]
    question = {"k": 0.0, "delta": 0.3, "margin": 0.0, "algorithm": "rr", **options}
    found = simulate(arms(means), runs=2, rng=29, **question)
    for r, child in enumerate(np.random.default_rng(29).spawn(2)):
        result = find(find_arms(means), rng=child, **question)
        assert result.decisions.tolist() == found.decisions[r].tolist()
        assert result.pulls_per_arm.tolist() == found.pulls_per_arm[r].tolist()
        assert result.threshold == pytest.approx(found.threshold[r], rel=1e-12)
