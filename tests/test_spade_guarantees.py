"""SPADE is right with probability at least 1 - delta: seeded whole runs, exact binomial bounds.

At delta = 0.3, where a wrong answer is as likely as it may be; a rate of exactly delta fails a
check with probability at most 1e-6. Quick families are judged together too: in all they fail at a
rate of 0.5 (`test_power`), one alone at 0.6, and very many arms, of which there are fewer runs as
they are not compiled, at 0.9; at 0.7 in the long form, which has more. Whole runs find only what is
grossly wrong, as SPADE errs far less than it may; the parts that its answers rest on are held
against alpha one by one in test_crossing, where far smaller rates show. ODDARMS_RUNS in the
environment makes more runs.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from helpers import quick_and_long
from oddarms import Simulation, simulate
from oddarms.statistics.binomial import most_errors
from oddarms.testing import assert_error_rate
from oddarms.theory import threshold

RUNS = int(os.environ.get("ODDARMS_RUNS", "80"))
FEW_RUNS = 3 * RUNS // 10  # of very many arms
DELTA = 0.3

ON_THE_LINE = 0.3 + np.sqrt(2.0) * np.std([0.2, 0.3, 0.4])  # with k = 1, of the other three
QUICK: dict[str, dict[str, Any]] = {
    "small gaps": {"instance": [0.2, 0.3, 0.8], "k": 0.5},
    "very many arms": {"instance": [0.1] * 1000 + [0.9] * 50, "k": 1.0},
    "just below": {"instance": [0.2, 0.3, 0.4, ON_THE_LINE - 1e-4], "k": 1.0, "budget": 100},
}
FAMILIES: dict[str, dict[str, Any]] = {
    "many arms": {"instance": [0.1] * 250 + [0.9] * 50, "k": 1.0},
    "planted": {"instance": [0.05] * 19 + [0.95], "k": 2.0},
    "low rate": {"instance": [0.01] * 11 + [0.5], "k": 2.0},
    "beta rewards": {
        "instance": [0.3] * 14 + [0.9],
        "k": 2.0,
        "family": "beta",
        "concentration": 20.0,
    },
    "both sides": {"instance": [0.0, 1.0] + [0.5] * 6, "k": 1.2, "side": "both"},
    "just above": {"instance": [0.2, 0.3, 0.4, ON_THE_LINE + 1e-4], "k": 1.0, "budget": 400},
    "two arms, k near 1": {"instance": [0.3, 0.6], "k": 1.0 - 1e-6},
}


def test_power() -> None:
    in_all = 24 + 2 * 160
    assert binom.sf(most_errors(in_all, DELTA), in_all, 0.5) > 0.98
    assert binom.sf(most_errors(160, DELTA), 160, 0.6) > 0.98
    assert binom.sf(most_errors(80, DELTA), 80, 0.7) > 0.95
    assert binom.sf(most_errors(24, DELTA), 24, 0.9) > 0.95


def errors(arguments: dict[str, Any], runs: int) -> tuple[int, int]:
    """Return the runs with a wrong answer and those that miss the threshold, each checked."""
    found = simulate(**{"delta": DELTA, "algorithm": "spade", "runs": runs, "rng": 41, **arguments})
    assert "budget" in arguments or found.complete.all()
    wrong, missed = int((~found.correct).sum()), misses(found, arguments["k"])
    assert_error_rate(wrong, runs, DELTA)
    assert_error_rate(missed, runs, DELTA)
    return wrong, missed


def misses(found: Simulation, k: float) -> int:
    """Return the runs whose interval of the threshold misses it."""
    distance = np.abs(found.threshold - threshold(found.means, k))
    return int((distance > found.threshold_radius * (1 + 1e-12)).sum())


@pytest.mark.parametrize("of_very_many", quick_and_long([FEW_RUNS], [RUNS]))
def test_wrong_answers_are_rare(of_very_many: int) -> None:
    runs = {name: of_very_many if name == "very many arms" else 2 * RUNS for name in QUICK}
    found = np.array([errors(arguments, runs[name]) for name, arguments in QUICK.items()])
    for wrong in found.sum(axis=0).tolist():
        assert_error_rate(wrong, sum(runs.values()), DELTA)


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
def test_wrong_answers_are_rare_elsewhere(name: str) -> None:
    errors(FAMILIES[name], max(RUNS, 300))
