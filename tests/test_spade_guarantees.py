"""SPADE is right with probability at least 1 - delta: seeded whole runs, exact binomial bounds.

75 runs a family by default, to be quick; ODDARMS_RUNS=500 in the environment makes more. A rate
of exactly delta fails a check with probability at most 1e-6, whatever the number of runs.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from oddarms import simulate
from oddarms.testing import assert_error_rate
from oddarms.theory import threshold

RUNS = int(os.environ.get("ODDARMS_RUNS", "75"))

FAMILIES: dict[str, dict[str, Any]] = {
    "planted": {"arms": [0.05] * 19 + [0.95], "k": 2.0},
    "low rate": {"arms": [0.01] * 11 + [0.5], "k": 2.0},
    "beta rewards": {
        "arms": [0.3] * 14 + [0.9],
        "k": 2.0,
        "family": "beta",
        "concentration": 20.0,
    },
    "many arms": {"arms": [0.05] * 270 + [0.95] * 30, "k": 2.0},
    "both sides": {"arms": [0.0, 1.0] + [0.5] * 6, "k": 1.2, "side": "both"},
    "small gaps, large delta": {"arms": [0.2, 0.3, 0.8], "k": 0.5, "delta": 0.5},
    "many arms, large delta": {"arms": [0.1] * 250 + [0.9] * 50, "k": 1.0, "delta": 0.5},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_wrong_answers_are_rare(name: str) -> None:
    arguments = {"delta": 0.1, "algorithm": "spade", "runs": RUNS, "rng": 41, **FAMILIES[name]}
    found = simulate(**arguments)
    assert found.complete.all()
    assert_error_rate(int((~found.correct).sum()), RUNS, arguments["delta"])
    missed = np.abs(found.threshold - threshold(found.means, arguments["k"]))
    beyond = missed > found.threshold_radius * (1 + 1e-12)
    assert_error_rate(int(beyond.sum()), RUNS, arguments["delta"])


def test_decisions_before_a_budget_are_right() -> None:
    """With a budget that ends every run early, whatever is decided is as right."""
    means = [*np.linspace(0.2, 0.5, 12), 0.9]
    runs, delta = RUNS // 2, 0.5
    found = simulate(means, k=2.0, delta=delta, algorithm="spade", runs=runs, rng=42, budget=250)
    assert (found.pulls <= 250).all()
    assert_error_rate(int((~found.correct).sum()), runs, delta)
