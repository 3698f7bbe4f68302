"""Studies driven by a function: several runs at once, failures, and whatever may interrupt them."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oddarms import Study, create_study
from oddarms.errors import (
    InvalidParameter,
    PullFailed,
    RewardRejected,
    SearchError,
)
from oddarms.search import Progress, Status

MEANS = {"a": 0.0, "b": 0.05, "c": 0.9, "d": 0.0, "e": 0.1}
LONG = 60.0


def noisy(label: str) -> float:
    """Return a reward unlike any other, but so near the mean that no answer can be wrong."""
    return 0.9 * MEANS[label] + 0.1 * random.random()


def certain(label: str) -> float:
    return float(round(MEANS[label]))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make(tmp_path)


def make(folder: Path, **changes: Any) -> Study:
    words: dict[str, Any] = {"k": 1.0, "delta": 0.1, "rng": 2, **changes}
    return create_study("s", list(MEANS), storage=folder / "studies.db", **words)


def left(study: Study) -> tuple[int, Status]:
    """Return how many tickets are out, and the status."""
    overview = study.overview()
    return overview.live, overview.status


def assert_finished(study: Study, result: Any) -> None:
    assert result.status is Status.DECIDED
    assert result.high == ["c"]
    assert study.result().to_dict() == result.to_dict()
    tickets = [trial.ticket for trial in study.trials()]
    assert len(tickets) == len(set(tickets)) >= result.pulls
    assert left(study) == (0, Status.DECIDED)
    assert study.verify().problems == []


class TestExecutors:
    def test_threads_by_default(self, study: Study) -> None:
        result = study.run(noisy, jobs=3, worker="w")
        assert_finished(study, result)
        assert {trial.worker for trial in study.trials()} == {"w"}
        assert study.run(noisy).to_dict() == result.to_dict()  # nothing left to do

    def test_an_executor_that_was_shut_down(self, study: Study) -> None:
        executor = ThreadPoolExecutor(1)
        executor.shutdown()
        with pytest.raises(SearchError, match="shutdown"):
            study.run(certain, executor=executor, jobs=3)
        assert left(study) == (0, Status.RUNNING)

    @pytest.mark.parametrize(
        ("pull", "words"),
        [
            (lambda labels: [0.0] * (len(labels) - 1), "returned"),
            (lambda labels: [7.0] * len(labels), "bounds"),
            (lambda labels: 1 / (len(labels) - len(labels)), "raised ZeroDivisionError"),
            (lambda _labels: None, "TypeError"),
        ],
        ids=["too few", "out of bounds", "raises", "none"],
    )
    def test_batches_that_fail_are_given_back(self, study: Study, pull: Any, words: str) -> None:
        with pytest.raises((PullFailed, RewardRejected), match=words):
            study.run(pull, batch=True)
        assert list(study.trials()) == []
        assert left(study) == (0, Status.RUNNING)


class TestTogether:
    def test_a_process_that_is_gone_is_not_waited_for(self, study: Study) -> None:
        process = multiprocessing.get_context("fork").Process(target=_ask_and_die, args=(study,))
        process.start()
        process.join()
        assert left(study) == (5, Status.RUNNING)
        assert study.take_over() == 5
        assert left(study) == (0, Status.RUNNING)
        mine = study.worker()
        mine.ask(3)
        assert study.take_over() == 0


def _ask_and_die(study: Study) -> None:
    study.worker().ask(5)
    os._exit(0)


class TestFailures:
    def test_what_is_no_reward(self, study: Study) -> None:
        """The other results of the same moment are kept."""
        calls = itertools.count(1)

        def pull(label: str) -> Any:
            return float("nan") if next(calls) == 5 else certain(label)

        with pytest.raises(PullFailed, match="reward") as caught:
            study.run(pull, jobs=2)
        assert isinstance(caught.value.__cause__, RewardRejected)
        assert len(list(study.trials())) >= 3
        assert left(study) == (0, Status.RUNNING)
        assert_finished(study, study.run(pull))

    def test_wrong_parameters_cost_no_ticket(self, study: Study) -> None:
        wrong: list[dict[str, Any]] = [
            {"executor": "threads"},
            {"executor": ThreadPoolExecutor},
            {"jobs": 0},
            {"on_error": "ignore"},
            {"prefetch": -1},
            {"progress": 7},
            {"lease": 0},
            {"retry_for": -1},
            {"retry_for": "1m"},
        ]
        for words in wrong:
            with pytest.raises(InvalidParameter, match=next(iter(words))):
                study.run(certain, **words)
        assert study.overview().handed_out == 0

    def test_a_progress_callback_that_raises(self, study: Study) -> None:
        def progress(_progress: Progress) -> None:
            raise ZeroDivisionError

        with pytest.raises(SearchError, match="ZeroDivisionError"):
            study.run(certain, jobs=2, progress=progress)
        assert left(study) == (0, Status.RUNNING)
        assert list(study.trials())
