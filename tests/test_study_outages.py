"""Storages that go away while a study is run, and signals meanwhile: nothing paid for is lost."""

from __future__ import annotations

import gc
import itertools
import logging
import math
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from helpers import quick_and_long
from oddarms import Question, Result, Study, create_study, load_study
from oddarms.arms import BatchFunction, Function
from oddarms.errors import SearchInterrupted, StorageFailed
from oddarms.search import Policy, Status, run
from oddarms.studies import DatabaseStorage, Told, Worker
from postgresql import Server
from processes import wait_until

MEANS = {"a": 0.0, "b": 0.05, "c": 0.9, "d": 0.0, "e": 0.1}
LONG = 60.0
"""Seconds that no test takes, unless something stands still."""


class Pulls:
    """Rewards unlike any other; `paid` has all that were returned."""

    def __init__(self, then: Callable[[int], object] = lambda _call: None) -> None:
        self.paid: list[float] = []
        self._then = then
        self._lock = threading.Lock()
        self._calls = itertools.count(1)

    def __call__(self, label: str) -> float:
        with self._lock:
            call = next(self._calls)
        self._then(call)
        reward = 0.9 * MEANS[label] + 0.1 * random.random()
        with self._lock:
            self.paid.append(reward)
        return reward

    def many(self, labels: list[str]) -> list[float]:
        return [self(label) for label in labels]


class FaultyStudy:
    """A study whose storage goes away as a function says, before or after a call."""

    def __init__(self, study: Study, fault: Callable[[str], object]) -> None:
        self._study = study
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        if name == "question":
            self._fault("before question")
        value = getattr(self._study, name)
        if name not in ("ask", "tell_many", "skip_many", "result"):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            self._fault(f"before {name}")
            answer = value(*arguments, **options)
            self._fault(f"after {name}")
            return answer

        return call


def faulty(study: Study, fault: Callable[[str], object], retry_for: float = LONG) -> Worker:
    """Return a worker of such a study; faults of its other thread are the same."""
    stand_in: Any = FaultyStudy(study, fault)
    return Worker(stand_in, "w", lease=10.0, retry_for=retry_for)


def unavailable() -> StorageFailed:
    return StorageFailed("a server: it cannot be reached.", passing=True)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make(str(tmp_path / "studies.db"))


def make(storage: str, labels: Iterable[str] = MEANS, **changes: Any) -> Study:
    words: dict[str, Any] = {"k": 1.0, "delta": 0.1, "rng": 2, **changes}
    return create_study("s", list(labels), storage=storage, **words)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddarms.studies._worker.FIRST_PAUSE", 0.001)
    monkeypatch.setattr("oddarms.studies._worker.MAX_PAUSE", 0.001)


def drive(worker: Worker, pulls: Pulls, how: str = "1", **options: Any) -> Result:
    """Run a study by one job, by several, or in batches."""
    labels = worker.study.labels
    if how == "batch":
        return run(worker, BatchFunction(pulls.many, labels), Policy(**options))
    return run(worker, Function(pulls, labels), Policy(jobs=int(how), **options))


def stored(study: Study) -> list[float]:
    return sorted(trial.reward for trial in study.trials())


def assert_all_stored(study: Study, pulls: Pulls) -> None:
    assert stored(study) == sorted(pulls.paid)
    assert study.conflicts() == []
    assert study.verify().problems == []


CALLS, WHEN = ("ask", "tell_many", "result"), ("before", "after")


@pytest.mark.usefixtures("short_pauses")
class TestOutagesThatPass:
    @pytest.mark.parametrize(
        ("how", "call", "when"),
        quick_and_long(
            [
                ("4", "ask", "after"),
                ("4", "tell_many", "before"),
                ("4", "result", "before"),
                ("1", "tell_many", "after"),
                ("batch", "ask", "before"),
            ],
            [*itertools.product(["4", "1", "batch"], CALLS, WHEN)],
        ),
    )
    def test_the_call_is_repeated_whether_it_was_recorded_or_not(
        self, study: Study, how: str, call: str, when: str
    ) -> None:
        calls = Counter[str]()

        def fault(name: str) -> None:
            calls[name] += 1
            if name == f"{when} {call}" and calls[name] % 3 == 1 and calls[name] < 20:
                raise unavailable()

        pulls = Pulls()
        result = drive(faulty(study, fault), pulls, how)
        assert result.outliers == ["c"]
        assert calls[f"{when} {call}"] >= 2
        assert study.overview().live == 0
        assert_all_stored(study, pulls)

    def test_it_is_said_at_first_and_when_it_is_over(
        self, study: Study, caplog: pytest.LogCaptureFixture
    ) -> None:
        failures = iter([unavailable() for _ in range(20)])

        def fault(name: str) -> None:
            if name == "before tell_many":
                for failure in failures:
                    raise failure

        with caplog.at_level(logging.WARNING, "oddarms"):
            drive(faulty(study, fault, retry_for=600.0), Pulls(), "1")
        first, over = [record.getMessage() for record in caplog.records]
        assert first == (
            "a server: it cannot be reached. Retrying for 10 minutes; 1 result kept meanwhile."
        )
        assert over.startswith("The storage is available again after ")

    def test_a_result_is_stored_while_another_pull_takes_long(self, study: Study) -> None:
        """So that little is lost if the process is killed meanwhile."""
        release = threading.Event()

        def slow(call: int) -> None:
            if call == 4:
                assert release.wait(LONG)

        pulls = Pulls(slow)
        runner = threading.Thread(target=study.run, args=(pulls,), kwargs={"jobs": 4})
        runner.start()
        other = load_study("s", storage=study.storage)
        try:
            wait_until(lambda: len(pulls.paid) >= 3)
            wait_until(lambda: set(pulls.paid[:3]) <= set(stored(other)), LONG)
        finally:
            release.set()
            runner.join(LONG)
        assert_all_stored(study, pulls)


@pytest.mark.usefixtures("short_pauses")
class TestOutagesThatLast:
    @pytest.mark.parametrize("how", ["1", "4", "batch"])
    def test_results_that_cannot_be_stored_are_in_the_error(self, study: Study, how: str) -> None:
        pulls = Pulls()

        def fault(_name: str) -> None:
            if len(pulls.paid) >= 9:
                raise unavailable()

        began = time.monotonic()
        with pytest.raises(StorageFailed, match="it cannot be reached") as caught:
            drive(faulty(study, fault, retry_for=0.3), pulls, how)
        assert time.monotonic() - began < LONG / 2
        error = caught.value
        assert error.untold
        assert sorted([*stored(study), *(r for _, r in error.untold)]) == sorted(pulls.paid)
        assert set(study.tell_many(error.untold)) == {Told.RECORDED}
        assert_all_stored(study, pulls)

    def test_what_does_not_pass_ends_it_at_once(self, study: Study) -> None:
        pulls = Pulls()
        failures = Counter[str]()

        def fault(name: str) -> None:
            if len(pulls.paid) >= 9 and name == "before tell_many":
                failures[name] += 1
                raise StorageFailed("a.db: it cannot be written to.")

        with pytest.raises(StorageFailed, match="it cannot be written to") as caught:
            drive(faulty(study, fault), pulls, "1")
        assert failures["before tell_many"] <= 4, "and once more at the end"
        study.tell_many(caught.value.untold)
        assert_all_stored(study, pulls)


class TestSignals:
    @pytest.mark.parametrize("how", quick_and_long(["4", "batch"], ["1"]))
    @pytest.mark.parametrize("call", ["ask", "tell_many"])
    @pytest.mark.parametrize("number", quick_and_long([signal.SIGTERM], [signal.SIGINT]))
    @pytest.mark.parametrize("back", [False, True], ids=["for good", "until then"])
    def test_are_obeyed_while_the_storage_is_unavailable(
        self, study: Study, how: str, call: str, number: int, back: bool
    ) -> None:
        pulls = Pulls()
        sent: list[float] = []

        def fault(name: str) -> None:
            if (sent and back) or threading.current_thread() is not threading.main_thread():
                return
            if len(pulls.paid) >= 9 and (sent or name == f"before {call}"):
                if not sent:
                    sent.append(time.monotonic())
                    os.kill(os.getpid(), number)
                raise unavailable()

        with pytest.raises(SearchInterrupted) as caught:
            drive(faulty(study, fault), pulls, how)
        error = caught.value
        assert time.monotonic() - sent[0] < LONG / 2
        assert error.signal == number
        if back:
            assert (error.result.status, error.untold) == (Status.INTERRUPTED, [])
            assert study.overview().live == 0
        else:
            assert error.result is None
            assert "the storage does not answer" in str(error)
        told = {*stored(study), *(reward for _, reward in error.untold)}
        assert told == set(pulls.paid)
        study.tell_many(error.untold)
        assert_all_stored(study, pulls)

    @pytest.mark.parametrize("call", ["ask", "tell", "skip", "renew"])
    def test_end_a_single_call_that_waits_for_a_lock(self, study: Study, call: str) -> None:
        one, _ = study.ask(2)
        calls: dict[str, Callable[[], object]] = {
            "ask": study.ask,
            "tell": lambda: study.tell(one, 0.5),
            "skip": lambda: study.skip(one),
            "renew": lambda: study.renew([one]),
        }
        other = sqlite3.connect(study.storage, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

        def start_and_call() -> None:
            timer.start()  # an interruption before the block that expects it would end the tests
            calls[call]()

        with pytest.raises(KeyboardInterrupt):
            start_and_call()
        timer.join()
        other.close()
        assert (stored(study), study.overview().live) == ([], 2)
        calls[call]()
        assert study.verify().ok


class TestServers:
    @pytest.mark.parametrize(
        "times", [1, pytest.param(10, marks=pytest.mark.long)], ids=["a few times", "often"]
    )
    # psycopg warns of cursors that it could not close, as the server was gone
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_study_outlives_restarts_and_kills(
        self, postgresql: Server, times: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Every reward that a function returned is in the log, once."""
        caplog.set_level(logging.CRITICAL + 1, "sqlalchemy")  # its records keep such cursors
        storage = postgresql.new_database()
        budget = 400 * times  # equal means: the budget ends it
        study = make(storage, labels="ad", k=0, margin=0, budget=budget)
        most = 0.0

        def wait_for_the_end(call: int) -> None:
            """Do not use the budget up before the next end of the server."""
            time.sleep(0.003)
            while call > most:
                time.sleep(0.002)

        pulls = Pulls(wait_for_the_end)
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append(study.run(pulls, jobs=8))
            except BaseException as error:
                outcome.append(error)

        runner = threading.Thread(target=work)
        runner.start()
        try:
            for i, end in enumerate([postgresql.stop, postgresql.kill9] * times):
                enough = len(pulls.paid) + 10 + 10 * (i % 4)
                most = enough + 50
                wait_until(lambda n=enough: len(pulls.paid) >= n or outcome, LONG)
                assert not outcome, outcome
                end()
                postgresql.start()
        finally:
            most = math.inf
            postgresql.start()
            runner.join(2 * LONG)
        assert isinstance(outcome[0], Result), outcome
        assert outcome[0].status is Status.BUDGET
        assert_all_stored(load_study("s", storage=storage), pulls)
        gc.collect()


def test_threads_that_wait_together_fail_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock does not make each of them wait for it in turn; each has an error of its own."""
    monkeypatch.setattr("oddarms.studies._database.LOCK_SECONDS", 1.0)
    storage = DatabaseStorage.opened(tmp_path / "s.db", create=True)
    study = storage.create("s", Question(range(50), k=1), 1)
    tickets, transactions = study.ask(12), list[str]()
    storage.database.observe = lambda kind, _: transactions.append(kind)
    with (
        closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other,
        ThreadPoolExecutor(len(tickets)) as pool,
    ):
        other.execute("BEGIN IMMEDIATE")
        found = [pool.submit(study.tell, ticket, 0.5) for ticket in tickets]
        errors = {one.exception() for one in found}
    assert len(errors) == len(tickets)
    assert all(isinstance(one, StorageFailed) and one.passing for one in errors)
    assert len(transactions) < len(tickets) / 2
    assert study.tell_many([(ticket, 0.5) for ticket in tickets]) == [Told.RECORDED] * 12
