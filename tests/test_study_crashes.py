"""Workers, and the database server itself, killed at any moment: nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oddarms.studies._machine import Machine, ResultRow

from oddarms.search import Result
from oddarms.studies import Status, Study, create_study, delete_study, load_study, verify
from postgresql import Server, fast_folder
from study_workers import MOST_AT_A_TIME, PATIENCE, PROCESSES, RATES, work

WORKERS = 4
KILLS = 100
ALL_AT_ONCE = 0.15
LONGEST_PAUSE = 0.3
WENT_AWAY = (
    "the server went away and this call may have been recorded or not: repeat it, what was told"
    " twice counts once."
)


class Crew:
    """Workers on one study, each with a ledger of what was acknowledged; seeded."""

    def __init__(self, storage: str, name: str, folder: Path, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.kills = 0
        self._task = (storage, name)
        self._folder = folder
        self._seed = seed
        self._started = 0
        self._ledgers: list[Path] = [Path()] * WORKERS
        self._running: list[Any] = [self._start(i) for i in range(WORKERS)]

    @property
    def _hurry(self) -> Path:
        return self._folder / "hurry"

    def _start(self, i: int) -> Any:
        self._started += 1
        seed = 1000 * self._seed + self._started
        self._ledgers[i] = ledger = self._folder / f"ledger-{self._started:04}"
        ledger.touch()
        process = PROCESSES.Process(target=work, args=(*self._task, seed, ledger, self._hurry))
        process.start()
        return process

    def somebody_at_work(self) -> int:
        """Return a worker at random of those that have told something."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            busy = [i for i, ledger in enumerate(self._ledgers) if ledger.stat().st_size]
            if busy:
                return int(self.rng.choice(busy))
            time.sleep(0.01)
        raise AssertionError("nobody told anything")

    def kill(self, which: list[int]) -> None:
        """Kill some workers with SIGKILL, all of them before any is replaced."""
        for i in which:
            assert self._running[i].is_alive(), "a worker ended before it was killed"
            self._running[i].kill()
        for i in which:
            self._running[i].join()
            self._running[i].close()
            self._running[i] = self._start(i)
        self.kills += len(which)

    def finish(self) -> None:
        """Let the workers finish the study."""
        self._hurry.touch()
        for process in self._running:
            process.join(PATIENCE)
        codes = [process.exitcode for process in self._running]
        assert codes == [0] * WORKERS

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.join()
            process.close()

    def _notes(self, kind: str) -> list[str]:
        ledgers = sorted(self._folder.glob("ledger-*"))
        lines = [line for ledger in ledgers for line in ledger.read_text().splitlines()]
        return [line.partition(" ")[2] for line in lines if line.startswith(kind)]

    def acknowledged(self) -> list[tuple[int, float]]:
        pairs = [line.split() for line in self._notes("told")]
        return [(int(ticket), float(reward)) for ticket, reward in pairs]

    def failures(self) -> list[str]:
        return self._notes("failed")


Hire = Callable[[str, int], tuple[Study, Crew]]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a memory file system: killed processes lose no more there than on a disk."""
    made = fast_folder("oddarms-crashes-")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def hire(folder: Path) -> Iterator[Hire]:
    crews = []

    def hired(storage: str, seed: int) -> tuple[Study, Crew]:
        study = create_study("shaken", range(RATES.size), k=3, delta=0.1, seed=seed, storage=storage
        )
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
    checked = verify(study)
    assert checked.problems == []
    assert checked.results == len(trials)


def never_killed_machine(study: Study) -> Result:
    """What the same results give that reach a machine in one go."""
    machine = Machine(study.question)
    rows = [ResultRow(t.number, t.ticket, int(t.arm), t.reward) for t in study.trials()]
    machine.take(rows)
    return machine.search.result()


def never_killed_study(study: Study) -> Result:
    """What a study elsewhere finds that gets the same rewards of every arm, from one worker."""
    rewards: dict[Any, list[float]] = {label: [] for label in study.labels}
    for trial in study.trials():
        rewards[trial.arm].append(trial.reward)
    coming = {label: iter(values) for label, values in rewards.items()}
    question = study.question
    fresh = create_study("calm", study.labels,
        k=question.k,
        delta=question.delta,
        seed=seed,
        storage="memory",
    )
    try:
        while not (tickets := fresh.ask(777)).done:
            fresh.tell_many([(ticket, next(coming[ticket.arm])) for ticket in tickets])
        return fresh.result()
    finally:
        delete_study("calm", storage="memory")


def assert_same_answer(one: Result, other: Result) -> None:
    assert one.outliers == other.outliers
    np.testing.assert_array_equal(one.decisions, other.decisions)
    np.testing.assert_array_equal(one.pulls_per_arm, other.pulls_per_arm)
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(one.intervals, other.intervals)
    assert one.thresholds == other.thresholds


def assert_answered_as_if_never_killed(study: Study) -> None:
    assert study.status is Status.DECIDED
    found = study.result()
    assert found.outliers == [0, 1, 2, 3, 4]
    assert_same_answer(found, never_killed_machine(study))
    assert_same_answer(found, never_killed_study(study))


def test_a_hundred_killed_workers_lose_nothing_and_change_no_answer(
    storage: str, hire: Hire
) -> None:
    study, crew = hire(storage, 1)
    rng = crew.rng
    while crew.kills < KILLS:
        time.sleep(rng.uniform(0.0, LONGEST_PAUSE))
        everybody = rng.random() < ALL_AT_ONCE
        crew.kill(list(range(WORKERS)) if everybody else [crew.somebody_at_work()])
    assert not study.done, "the load must outlast the kills"
    assert len(crew.acknowledged()) > KILLS, "workers must be killed at work"
    crew.finish()
    assert_nothing_is_lost(study, crew)
    assert_answered_as_if_never_killed(study)
    unnoted = sum(1 for _ in study.trials()) - len(crew.acknowledged())
    assert unnoted <= crew.kills * MOST_AT_A_TIME, "stored, but killed before it was noted"
    assert crew.failures() == []


def test_a_study_opened_anew_after_each_kill_is_never_behind_what_was_acknowledged(
    storage: str, hire: Hire
) -> None:
    _, crew = hire(storage, 2)
    for _ in range(5):
        time.sleep(crew.rng.uniform(0.2, 0.6))
        before = crew.acknowledged()
        crew.kill(list(range(WORKERS)))
        stored = {t.ticket: t.reward for t in load_study("shaken", storage=storage).trials()}
        assert [(ticket, stored.get(ticket)) for ticket, _ in before] == before


def test_a_killed_server_loses_nothing_that_was_acknowledged_and_work_goes_on(
    postgresql: Server, hire: Hire
) -> None:
    study, crew = hire(postgresql.new_database(), 3)
    try:
        for _ in range(5):
            time.sleep(crew.rng.uniform(0.3, 1.0))
            postgresql.kill9()
            time.sleep(crew.rng.uniform(0.0, 0.3))
            postgresql.start()
    finally:
        postgresql.start()
    crew.finish()
    study = load_study("shaken", storage=study.storage)
    assert_nothing_is_lost(study, crew)
    assert_answered_as_if_never_killed(study)
    sentences = {failure.partition(": ")[2] for failure in crew.failures()}
    assert sentences, "workers must have seen the server go"
    assert sentences <= {
        WENT_AWAY,
        "the server cannot be reached.",
        "the server is starting; repeat the call.",
    }
