"""What a study must answer: what a search in memory does that is fed its log."""

from __future__ import annotations

import numpy as np

from oddarms import Search
from oddarms.search import Result
from oddarms.studies import Study


def never_killed(study: Study) -> Result:
    """What the same results give that reach a search in one go."""
    asked = study.question.numbered()
    search = Search(asked, rng=np.random.default_rng(study.seed).spawn(2)[0])
    index = {label: arm for arm, label in enumerate(study.labels)}
    trials = list(study.trials())
    search.load(
        np.array([index[trial.arm] for trial in trials], dtype=np.int64),
        np.array([trial.place for trial in trials], dtype=np.int64),
        np.array([trial.reward for trial in trials]),
        np.array([trial.ticket is None for trial in trials]),
    )
    return search.result()


def assert_same_answer(one: Result, other: Result) -> None:
    np.testing.assert_array_equal(one.decisions, other.decisions)
    np.testing.assert_array_equal(one.pulls_per_arm, other.pulls_per_arm)
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(one.intervals, other.intervals)
    np.testing.assert_equal(one.thresholds, other.thresholds)
