"""Right with probability at least 1 - delta, and intervals that hold, by seeded simulation.

Every check is an exact binomial bound: an algorithm that errs with probability exactly delta
fails it with probability at most 1e-6, written in `oddarms.testing.assert_error_rate`. With fewer
than 300 checks here, the whole module raises a false alarm with probability below 3e-4 at worst,
once and for all, as the seeds are fixed. The compiled algorithms make 400 runs an instance at
delta = 0.3: a true rate of 0.48 fails nearly always (`test_power`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from helpers import VARIANTS, quick_and_long
from oddarms import Result, Search, find, simulate
from oddarms.arms import Bernoulli, Beta, SimulatedArms, Uniform
from oddarms.statistics.binomial import most_errors
from oddarms.testing import Instance, Streams, assert_error_rate
from oddarms.theory import outliers, threshold

INSTANCES = {
    "one outlier": Instance([0.1, 0.15, 0.05, 0.1, 0.95, 0.12], k=1.0),
    "two outliers": Instance([0.2, 0.9, 0.1, 0.15, 0.95, 0.2, 0.1], k=0.5),
    "no outlier": Instance([0.05, 0.95, 0.1, 0.9, 0.0, 1.0], k=2.0),
    "k = 0": Instance([0.3, 0.65, 0.2, 0.7, 0.35], k=0.0),
    "k < 0": Instance([0.05, 0.9, 0.95, 1.0], k=-0.7),
    "two arms": Instance([0.45, 0.7], k=0.0),
}
WIDE = (-3.0, 5.0)


def check(instance: Instance, delta: float, runs: int, **arguments: Any) -> None:
    """Hold wrong answers and missed thresholds of whole runs against delta."""
    found = simulate(instance.means, k=instance.k, delta=delta, runs=runs, **arguments)
    assert found.complete.all()
    assert_error_rate(int((~found.correct).sum()), runs, delta)
    side = arguments.get("side", "upper")
    truth = outliers(instance.means, instance.k, side).tolist()
    assert_error_rate(sum(answer != truth for answer in found.outliers), runs, delta)
    theta = threshold(instance.means, -instance.k if side == "lower" else instance.k)
    missed = np.abs(found.threshold - theta) > found.threshold_radius
    assert_error_rate(int(missed.sum()), runs, delta)


def test_power() -> None:
    assert binom.sf(most_errors(400, 0.3), 400, 0.48) > 0.98
    assert binom.sf(most_errors(80, 0.3), 80, 0.7) > 0.95


QUICK = [
    *((variant, name) for variant in VARIANTS for name in ("two outliers", "k = 0")),
    ("ade shared", "k < 0"),
    ("rr", "two arms"),
]
ALL = [(variant, name) for variant in VARIANTS for name in INSTANCES]


@pytest.mark.parametrize(
    ("variant", "name"), quick_and_long(QUICK, [case for case in ALL if case not in QUICK])
)
def test_answers_and_thresholds(variant: str, name: str) -> None:
    algorithm, options = VARIANTS[variant]
    check(INSTANCES[name], delta=0.3, runs=400, algorithm=algorithm, rng=31, **options)


@pytest.mark.parametrize(
    ("variant", "family", "option"),
    [("wrr batch 7", "beta", {"concentration": 1.0}), ("ade shared", "uniform", {"width": 0.1})],
)
def test_other_families_and_the_lower_side(
    variant: str, family: str, option: dict[str, float]
) -> None:
    algorithm, options = VARIANTS[variant]
    words = {"algorithm": algorithm, "family": family, "side": "lower", **options, **option}
    check(Instance([0.2, 0.75, 0.2, 0.8, 0.25], k=0.1), delta=0.3, runs=400, rng=32, **words)


def holds_throughout(result: Result, arms: SimulatedArms) -> bool:
    """Whether every interval reported at the end, and every threshold on the way, is right."""
    theta = threshold(arms.means, result.question.k)
    lower, upper = result.intervals.T
    ends_hold = ((lower <= arms.means) & (arms.means <= upper)).all()
    return bool(
        ends_hold
        and all(p.threshold_lower <= theta <= p.threshold_upper for p in result.trace)
        and result.trace
    )


ARMS: dict[str, tuple[SimulatedArms, tuple[float, float]]] = {
    "Bernoulli": (Bernoulli([0.1, 0.9, 0.2, 0.8]), (0.0, 1.0)),
    "Beta": (Beta([0.1, 0.9, 0.2, 0.8], 2.0), (0.0, 1.0)),
    "Uniform on [-3, 5]": (Uniform([-2.0, 4.0, -1.5, 3.5], 1.5, bounds=WIDE), WIDE),
}
CASES = [("ade shared", "Bernoulli"), ("wrr batch 7", "Uniform on [-3, 5]")]
OTHERS = [("wrr batch 7", "Beta"), ("ade shared", "Uniform on [-3, 5]")]


@pytest.mark.parametrize(("variant", "name"), quick_and_long(CASES, OTHERS))
@pytest.mark.parametrize("budget", quick_and_long([150], [None]))
def test_intervals_of_arms_and_threshold(variant: str, name: str, budget: int | None) -> None:
    algorithm, options = VARIANTS[variant]
    arms, bounds = ARMS[name]
    delta, runs = 0.3, 80
    words = {"k": 0.0, "delta": delta, "algorithm": algorithm, "bounds": bounds, **options}
    results = [
        find(arms, budget=budget, rng=child, **words)
        for child in np.random.default_rng(34).spawn(runs)
    ]
    assert_error_rate(sum(not holds_throughout(r, arms) for r in results), runs, delta)
    wrong = sum(not set(r.outliers) <= {1, 3} or bool(set(r.normal) & {1, 3}) for r in results)
    assert_error_rate(wrong, runs, delta)
    assert all(r.complete for r in results) == (budget is None)


def test_a_decided_arm_of_ade_keeps_the_interval_that_decided_it() -> None:
    """Later pairs that hit a decided arm move neither its mean nor its interval."""
    seen: list[tuple[float, float, float]] = []
    means = [0.0, 1.0, 0.4, 0.45]
    search = Search(len(means), k=0.0, delta=0.1, algorithm="ade", shared=True, rng=35)
    rewards = Streams(means)
    while search.pulls < 3_000:
        pulls = search.ask_step()
        search.tell_step([rewards(int(i)) for i in np.repeat(pulls.indices, pulls.counts)])
        if search.algorithm.round % 50 == 0:
            result = search.result()
            if 1 in result.outliers:
                seen.append((*result.intervals[1].tolist(), float(result.means[1])))
    assert len(seen) > 5
    assert len(set(seen)) == 1
