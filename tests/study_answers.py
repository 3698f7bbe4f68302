"""What a study must answer: what a search in memory does that is fed its log."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers import ticket_number
from oddarms.search import Result
from oddarms.studies import Study
from oddarms.studies._log import ResultRow
from oddarms.studies._replay import new_search, replay


def never_killed(study: Study) -> Result:
    """What the same results give that reach a search in one go."""
    search = new_search(study.question, study.seed)
    arms = {label: arm for arm, label in enumerate(study.labels)}
    rows = []
    for trial in study.trials():
        assert trial.ticket is not None
        number = ticket_number(trial.ticket)
        rows.append(ResultRow(trial.number, number, arms[trial.arm], trial.place, trial.reward))
    replay(search, rows)
    return search.result()


def assert_same_answer(one: Result, other: Result) -> None:
    assert one.outliers == other.outliers
    np.testing.assert_array_equal(one.decisions, other.decisions)
    np.testing.assert_array_equal(one.pulls_per_arm, other.pulls_per_arm)
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(one.intervals, other.intervals)
    assert one.thresholds == other.thresholds


def rewards_told(study: Study) -> tuple[dict[Any, list[float]], dict[Any, dict[int, float]]]:
    """Return all rewards of each arm, and the first one of each of its places."""
    rewards: dict[Any, list[float]] = {label: [] for label in study.labels}
    firsts: dict[Any, dict[int, float]] = {label: {} for label in study.labels}
    for trial in study.trials():
        rewards[trial.arm].append(trial.reward)
        assert trial.place is not None
        firsts[trial.arm].setdefault(trial.place, trial.reward)
    return rewards, firsts
