"""The interactive algorithms and the compiled whole runs agree, pull for pull."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import VARIANTS, quick_and_long
from oddarms import Progress, find, simulate
from oddarms.arms import Bernoulli, Beta
from oddarms.simulation import Simulation
from oddarms.simulation._task import TapedBernoulli

FAMILIES: dict[str, dict[str, float]] = {
    "bernoulli": {},
    "beta": {"concentration": 3.0},
    "uniform": {"width": 0.1},
}
FIVE = [0.1, 0.3, 0.2, 0.85, 0.5]


def assert_parity(
    variant: str, means: list[float], *, runs: int = 1, delta: float = 0.1, **words: Any
) -> Simulation:
    """Fail unless compiled and interactive runs are the same; return the compiled ones."""
    algorithm, options = VARIANTS[variant]
    words = {"runs": runs, "delta": delta, "algorithm": algorithm, **options, **words}
    compiled = simulate(means, compiled=True, **words)
    interactive = simulate(means, compiled=False, **words)
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
    words = {"k": 0.7, "family": family, "side": side, "budget": 500, "rng": 21}
    assert assert_parity(variant, FIVE, **words, **FAMILIES[family]).pulls[0] > 480


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("means", "k"),
    quick_and_long(
        [([0.05, 0.02, 0.0, 1.0, 0.98], 0.0), ([0.0, 1.0], 0.0)],
        [([0.1, 0.25, 0.05, 0.95, 0.9], 0.5), ([0.1, 0.9], -0.5)],
    ),
)
def test_whole_runs(variant: str, means: list[float], k: float) -> None:
    found = assert_parity(variant, means, k=k, delta=0.3, rng=22)
    assert found.complete.all()
    assert found.correct.all()


@pytest.mark.parametrize("variant", quick_and_long(["wrr batch 7"], ["rr", "wrr"]))
@pytest.mark.parametrize("k", quick_and_long([1.5], [-1.0, 0.5]))
def test_whole_runs_of_round_robin(variant: str, k: float) -> None:
    assert assert_parity(variant, [0.02, 0.1, 0.0, 0.07, 0.03, 1.0], k=k, rng=24).complete.all()


@pytest.mark.parametrize(("k", "variant"), [(-0.5, "ade"), (-3.0, "ade shared"), (0.2, "ade")])
@pytest.mark.parametrize("budget", quick_and_long([2_500], [None]))
def test_runs_of_ade(k: float, variant: str, budget: int | None) -> None:
    """Many rounds with k other than 0, so that U_sigma matters."""
    found = assert_parity(variant, [0.0, 0.02, 1.0, 0.98], k=k, rng=25, budget=budget)
    assert found.rounds[0] > (1_000 if budget is None else 200)


@pytest.mark.long
@pytest.mark.parametrize("variant", ["ade", "ade shared"])
def test_many_arms_leave_one_by_one(variant: str) -> None:
    means = np.linspace(0.0, 1.0, 40)[np.r_[:18, 22:40]].tolist()
    found = assert_parity(variant, means, k=0.0, rng=26, budget=40_000)
    assert (found.decisions != 0).sum() > 20


@pytest.mark.parametrize("budget", [0, 1, 6, 7, 8, 36])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_smallest_budgets(variant: str, budget: int) -> None:
    assert assert_parity(variant, FIVE, k=1.0, budget=budget, rng=27).pulls[0] <= budget


@pytest.mark.parametrize("seed", quick_and_long([0], [1, 2, 3, 4, 5]))
@pytest.mark.parametrize(
    ("variant", "k", "budget"),
    [("ade", 0.0, 5_000), ("ade shared", 0.0, 5_000), ("wrr", 0.4, 3_000)],
)
def test_random_instances(seed: int, variant: str, k: float, budget: int) -> None:
    """Arms are decided at many different rounds, after pairs as well as after turns."""
    means = np.random.default_rng(seed).random(6).round(2).tolist()
    assert_parity(variant, means, k=k, delta=0.2, rng=seed, budget=budget)


@pytest.mark.long
@pytest.mark.parametrize("variant", ["ade", "ade shared", "rr", "wrr"])
@pytest.mark.parametrize("k", [-1.5, 0.0, 2.5])
def test_many_arms_for_a_while(variant: str, k: float) -> None:
    """Turns of WRR are longer the more arms there are, and some arms are always near the border."""
    means = np.random.default_rng(32).random(150).tolist()
    assert_parity(variant, means, k=k, budget=60_000, rng=33)


@pytest.mark.parametrize("variant", quick_and_long(["ade shared", "wrr batch 7"], ["ade", "wrr"]))
def test_every_moment_of_a_run(variant: str) -> None:
    """Laziness changes nothing: the compiled run stopped at any moment has the same state."""
    algorithm, options = VARIANTS[variant]
    means = [0.0, 0.3, 0.2, 0.9, 0.7, 1.0]
    words = {"k": 0.3, "delta": 0.2, "algorithm": algorithm, **options}
    trace: list[Progress] = []
    find(
        Bernoulli(means) if "batch" in options else TapedBernoulli(means),
        margin=0,
        budget=2_200,
        rng=np.random.default_rng(28).spawn(1)[0],
        progress=trace.append,
        **words,
    )
    assert len(trace) > 300
    for moment in (trace[i] for i in np.unique(np.geomspace(1, len(trace), 60).astype(int)) - 1):
        stopped = simulate(means, budget=moment.pulls, rng=28, compiled=True, **words)
        assert stopped.pulls[0] == moment.pulls
        assert stopped.rounds[0] == moment.round
        assert (stopped.decisions == 0).sum() == moment.undecided
        theta, radius = stopped.threshold[0], stopped.threshold_radius[0]
        np.testing.assert_allclose(theta - radius, moment.threshold_lower, rtol=1e-10)
        np.testing.assert_allclose(theta + radius, moment.threshold_upper, rtol=1e-10)


@pytest.mark.parametrize(
    ("arms", "find_arms", "options"),
    [
        (Bernoulli, TapedBernoulli, {}),
        (Bernoulli, Bernoulli, {"batch": 30}),
        (Beta, Beta, {"batch": 30}),
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
