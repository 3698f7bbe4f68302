"""Workers, and the database server itself, killed at any moment: nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from crew import WORKERS, Crew
from oddarms.search import Status
from oddarms.studies import Study, create_study, load_study
from postgresql import Server, fast_folder
from study_answers import assert_same_answer, never_killed
from study_workers import MOST_AT_A_TIME, RATES

ARMS = RATES.size
FEW_ARMS = 150
"""Enough for some kills: some 20,000 pulls."""
MANY = pytest.mark.long
ALL_AT_ONCE = 0.15
LONGEST_PAUSE = 0.3
LOST = (
    "the connection to the server was lost, so this call may have been recorded or not: repeat it,"
    " a result that is told twice counts once."
)


Hire = Callable[..., tuple[Study, Crew]]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a memory file system: killed processes lose no more there than on a disk."""
    made = fast_folder("oddarms-crashes-")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def hire(folder: Path) -> Iterator[Hire]:
    crews = []

    def hired(storage: str, seed: int, *, arms: int = ARMS) -> tuple[Study, Crew]:
        study = create_study("shaken", range(arms), k=3, delta=0.1, rng=seed, storage=storage)
        crews.append(Crew(storage, "shaken", folder, seed))
        return study, crews[-1]

    yield hired
    for crew in crews:
        crew.end()


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return str(folder / "studies.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database()


def assert_nothing_is_lost(study: Study, crew: Crew) -> None:
    """Every acknowledged result is there, once, with its reward; the replay equals the state."""
    trials = list(study.trials())
    stored = {trial.ticket: trial.reward for trial in trials}
    assert len(stored) == len(trials)
    acknowledged = crew.acknowledged()
    assert max(Counter(ticket for ticket, _ in acknowledged).values()) == 1
    assert [(ticket, stored.get(ticket)) for ticket, _ in acknowledged] == acknowledged
    checked = study.verify()
    assert checked.problems == []
    assert checked.results == len(trials)


def assert_answered_as_if_never_killed(study: Study) -> None:
    assert study.status is Status.DECIDED
    found = study.result()
    assert found.outliers == [0, 1, 2, 3, 4]
    assert_same_answer(found, never_killed(study))
    assert_same_answer(found, load_study(study.name, storage=study.storage).result())


def assert_every_result_is_used_once(study: Study) -> None:
    """Each result has a place of its own, and an arm's mean is that of its first places."""
    found = study.result()
    rewards: dict[object, dict[int, float]] = defaultdict(dict)
    trials = list(study.trials())
    for trial in trials:
        assert trial.place not in rewards[trial.arm], "a place has two results"
        rewards[trial.arm][trial.place] = trial.reward
    assert found.pulls + found.unused == len(trials)
    for arm, (pulls, mean) in enumerate(zip(found.pulls_per_arm, found.means, strict=True)):
        assert mean == pytest.approx(np.mean([rewards[arm][place] for place in range(pulls)]))


@MANY
@pytest.mark.parametrize("kills", [8, 150])
def test_killed_workers_lose_nothing_and_change_no_answer(
    storage: str, hire: Hire, kills: int
) -> None:
    study, crew = hire(storage, 1, arms=ARMS if kills > 8 else FEW_ARMS)
    rng = crew.rng
    while crew.kills < kills:
        time.sleep(rng.uniform(0.0, LONGEST_PAUSE))
        everybody = rng.random() < ALL_AT_ONCE
        crew.kill(list(range(WORKERS)) if everybody else [crew.somebody_at_work()])
    assert not study.done, "the load must outlast the kills"
    assert len(crew.acknowledged()) > kills, "workers must be killed at work"
    crew.finish()
    assert_nothing_is_lost(study, crew)
    assert_answered_as_if_never_killed(study)
    assert_every_result_is_used_once(study)
    unnoted = sum(1 for _ in study.trials()) - len(crew.acknowledged())
    assert unnoted <= crew.kills * MOST_AT_A_TIME, "stored, but killed before it was noted"
    assert crew.failures() == []


@pytest.mark.parametrize("times", [2, pytest.param(8, marks=MANY)])
def test_a_study_opened_anew_after_each_kill_is_never_behind_what_was_acknowledged(
    storage: str, hire: Hire, times: int
) -> None:
    _, crew = hire(storage, 2)
    for _ in range(times):
        time.sleep(crew.rng.uniform(0.2, 0.6))
        crew.somebody_at_work()
        before = crew.acknowledged()
        crew.kill(list(range(WORKERS)))
        stored = {t.ticket: t.reward for t in load_study("shaken", storage=storage).trials()}
        assert before
        assert [(ticket, stored.get(ticket)) for ticket, _ in before] == before


@MANY
@pytest.mark.parametrize("times", [8])
def test_a_killed_server_loses_nothing_that_was_acknowledged_and_work_goes_on(
    postgresql: Server, hire: Hire, times: int
) -> None:
    study, crew = hire(postgresql.new_database(), 3, arms=ARMS if times > 2 else FEW_ARMS)
    try:
        for _ in range(times):
            time.sleep(crew.rng.uniform(0.3, 1.0))
            crew.somebody_at_work()
            postgresql.kill9()
            crew.wait_for_a_failure()
            postgresql.start()
    finally:
        postgresql.start()
    crew.finish()
    study = load_study("shaken", storage=study.storage)
    assert_nothing_is_lost(study, crew)
    assert_answered_as_if_never_killed(study)
    assert_every_result_is_used_once(study)
    sentences = {failure.partition(": ")[2] for failure in crew.failures()}
    assert sentences, "workers must have seen the server go"
    assert sentences <= {
        LOST,
        "the server cannot be reached.",
        "the server is starting; repeat the call.",
        "the server is shutting down.",
    }
