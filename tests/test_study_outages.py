"""Storages that go away while a study is run, and signals meanwhile: nothing paid for is lost."""

from __future__ import annotations

import gc
import itertools
import logging
import math
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from oddarms import Study, create_study, load_study
from oddarms.arms import BatchFunction, Function
from oddarms.errors import (
    InvalidParameter,
    PullFailed,
    SearchInterrupted,
    StorageFailed,
)
from oddarms.search import Result, Status, _patience, drive
from oddarms.studies import Told, _database, verify
from oddarms.studies._desk import RUN_LEASE, StudyDesk
from postgresql import Server

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
        value = getattr(self._study, name)
        if name not in ("ask", "tell_many", "skip_many", "result"):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            self._fault(f"before {name}")
            answer = value(*arguments, **options)
            self._fault(f"after {name}")
            return answer

        return call


class Faulty(StudyDesk):
    """A desk of such a study."""

    def __init__(self, study: Study, fault: Callable[[str], object]) -> None:
        faulty: Any = FaultyStudy(study, fault)
        super().__init__(faulty, "w", timedelta(seconds=0.3))


def away() -> StorageFailed:
    return StorageFailed("a server: it cannot be reached.", passing=True)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make(str(tmp_path / "studies.db"))


def make(storage: str, labels: Iterable[str] = MEANS, **changes: Any) -> Study:
    words: dict[str, Any] = {"k": 1.0, "delta": 0.1, "rng": 2, **changes}
    return create_study("s", list(labels), storage=storage, **words)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_patience, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(_patience, "LONGEST_PAUSE", 0.001)


def run(study: Study, desk: StudyDesk, pulls: Pulls, how: str = "1", **options: Any) -> Result:
    """Drive a desk, by one job, by several, or in batches."""
    if how == "batch":
        return drive(desk, BatchFunction(pulls.many, study.labels), **options)
    return drive(desk, Function(pulls, study.labels), jobs=int(how), **options)


def stored(study: Study) -> list[float]:
    return sorted(trial.reward for trial in study.trials())


def assert_all_stored(study: Study, pulls: Pulls) -> None:
    assert stored(study) == sorted(pulls.paid)
    assert study.conflicts() == []
    assert verify(study).problems == []


HOW = pytest.mark.parametrize("how", [pytest.param("1", marks=pytest.mark.long), "4", "batch"])


@pytest.mark.usefixtures("short_pauses")
class TestFailuresThatPass:
    @pytest.mark.parametrize(
        ("how", "call", "when"),
        [
            pytest.param(how, call, when, marks=() if how in kinds else pytest.mark.long)
            for call, kinds in (("ask", "4"), ("tell_many", ("4", "batch")), ("result", "4"))
            for when in ("before", "after")
            for how in ("1", "4", "batch")
        ],
    )
    def test_the_call_is_repeated_whether_it_was_recorded_or_not(
        self, study: Study, how: str, call: str, when: str
    ) -> None:
        calls = Counter[str]()

        def fault(name: str) -> None:
            calls[name] += 1
            if name == f"{when} {call}" and calls[name] % 3 == 1 and calls[name] < 20:
                raise away()

        pulls = Pulls()
        result = run(study, Faulty(study, fault), pulls, how)
        assert result.outliers == ["c"]
        assert calls[f"{when} {call}"] >= 2
        assert_all_stored(study, pulls)

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_tickets_that_are_given_back(self, study: Study, when: str) -> None:
        calls = Counter[str]()

        def fault(name: str) -> None:
            calls[name] += 1
            if name == f"{when} skip_many" and calls[name] % 2 == 1:
                raise away()

        def sometimes(call: int) -> None:
            if call % 5 == 0:
                raise OSError("now and then")

        pulls = Pulls(sometimes)
        result = run(study, Faulty(study, fault), pulls, "4", on_error="retry")
        assert result.outliers == ["c"]
        assert calls[f"{when} skip_many"] >= 2
        assert study.overview().live == 0
        assert_all_stored(study, pulls)

    def test_pulls_under_way_are_finished_and_kept(self, study: Study) -> None:
        """No others are begun, as nobody hands out any."""
        meeting = threading.Barrier(4, timeout=LONG)
        pulls = Pulls(lambda call: meeting.wait() if call <= 4 else None)
        failed = Counter[str]()

        def fault(name: str) -> None:
            if name == "before ask" and failed["ask"] == 0:
                failed["ask"] = 1
                return
            if failed["all"] < 50:
                failed["all"] += 1
                assert len(pulls.paid) <= 4
                raise away()

        run(study, Faulty(study, fault), pulls, "4", ahead=0)
        assert failed["all"] == 50
        assert_all_stored(study, pulls)

    def test_it_is_said_at_first_then_now_and_then_and_when_it_is_over(
        self, study: Study, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failures = itertools.count()

        def fault(name: str) -> None:
            if name == "before tell_many" and (i := next(failures)) < 20:
                monkeypatch.setattr(_patience, "SAY_SECONDS", 0.0 if i == 9 else 60.0)
                raise away()

        with caplog.at_level(logging.WARNING, "oddarms"):
            run(study, Faulty(study, fault), Pulls(), "1", patience=timedelta(minutes=10))
        first, more, over = [record.getMessage() for record in caplog.records]
        assert first == (
            "a server: it cannot be reached. Trying again for 10 minutes; 1 result kept meanwhile."
        )
        assert more.startswith("a server: it cannot be reached. Trying again for ")
        said = r"The storage answers again after (\d+\.)?\d+ seconds, and 1 result stored\."
        assert re.fullmatch(said, over)

    def test_it_is_said_on_stderr_unless_the_program_logs_otherwise(self) -> None:
        program = (
            "from oddarms.search import patiently\n"
            "from oddarms.errors import StorageFailed\n"
            "failures = [StorageFailed('a.db: the disk is full.', passing=True)]\n"
            "def call():\n"
            "    if failures:\n"
            "        raise failures.pop()\n"
            "patiently(call, 60)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.stderr.startswith("a.db: the disk is full. Trying again for 60 seconds.\nThe ")

    def test_in_memory_too(self) -> None:
        study = make("memory", rng=3)
        failures = iter([away(), away()])

        def fault(name: str) -> None:
            if name == "before tell_many":
                for failure in failures:
                    raise failure

        pulls = Pulls()
        run(study, Faulty(study, fault), pulls, "4")
        assert_all_stored(study, pulls)


@pytest.mark.usefixtures("short_pauses")
class TestFailuresThatLast:
    @HOW
    def test_results_that_cannot_be_stored_are_in_the_error(self, study: Study, how: str) -> None:
        pulls = Pulls()

        def fault(_name: str) -> None:
            if len(pulls.paid) >= 9:
                raise away()

        with pytest.raises(StorageFailed, match="it cannot be reached") as caught:
            run(study, Faulty(study, fault), pulls, how, patience=0.05)
        error = caught.value
        assert error.untold
        number = len(error.untold)
        words = f"Not stored and only in memory: {number} result"
        assert words in str(error)
        assert [(ticket.arm, reward) for ticket, reward in error.untold] == error.unabsorbed
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
            run(study, Faulty(study, fault), pulls, "1")
        assert failures["before tell_many"] == 2, "once more at the end, and no more"
        study.tell_many(caught.value.untold)
        assert_all_stored(study, pulls)

    def test_the_last_word_does_not_wait_for_a_storage_that_hangs(
        self, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_patience, "MOMENT_SECONDS", 0.05)
        pulls = Pulls()
        hangs, released = threading.Event(), threading.Event()

        def fault(_name: str) -> None:
            if len(pulls.paid) >= 9:
                if threading.current_thread() is not threading.main_thread():
                    hangs.set()
                    released.wait(LONG)
                if not released.is_set():
                    raise away()

        started = time.monotonic()
        with pytest.raises(StorageFailed) as caught:
            run(study, Faulty(study, fault), pulls, "1", patience=0)
        assert hangs.is_set()
        assert time.monotonic() - started < LONG / 2
        released.set()
        study.tell_many(caught.value.untold)  # which may be a repetition
        assert_all_stored(study, pulls)

    def test_a_failed_pull_is_the_error_even_if_the_storage_is_away_at_the_end(
        self, study: Study
    ) -> None:
        pulls = Pulls(lambda call: 1 / (call - 9))

        def fault(name: str) -> None:
            if name == "before result":
                raise away()

        with pytest.raises(PullFailed, match="ZeroDivisionError") as caught:
            run(study, Faulty(study, fault), pulls, "1", patience=0)
        assert caught.value.result is None
        assert_all_stored(study, pulls)

    @pytest.mark.parametrize("patience", [-1, math.nan, "1m", None, True, timedelta(seconds=-1)])
    def test_patience_must_be_a_duration(self, study: Study, patience: Any) -> None:
        words = "patience must be a timedelta, or a number of seconds that is not negative, but got"
        pulls = Pulls()
        with pytest.raises(InvalidParameter, match=words):
            study.run(pulls, patience=patience)
        assert pulls.paid == []


class TestSignalsWhileTheStorageIsAway:
    @HOW
    @pytest.mark.parametrize("call", ["ask", "tell_many"])
    @pytest.mark.parametrize(
        "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
    )
    @pytest.mark.parametrize("back", [False, True], ids=["for good", "until then"])
    def test_they_are_obeyed_at_once(
        self, study: Study, how: str, call: str, number: int, back: bool
    ) -> None:
        pulls = Pulls()
        sent: list[float] = []

        def fault(name: str) -> None:
            if sent and back:
                return
            if len(pulls.paid) >= 9 and (sent or name == f"before {call}"):
                if not sent:
                    sent.append(time.monotonic())
                    os.kill(os.getpid(), number)
                raise away()

        with pytest.raises(SearchInterrupted) as caught:
            run(study, Faulty(study, fault), pulls, how)
        error = caught.value
        assert time.monotonic() - sent[0] < LONG / 2
        assert error.signal == number
        name = "interrupted" if number == signal.SIGINT else "ended by SIGTERM"
        if back:
            assert str(error).startswith(f"{name} after ")
            assert (error.result.status, error.untold) == (Status.INTERRUPTED, [])
            assert study.overview().live == 0
        else:
            assert str(error).startswith(f"{name}; the storage does not answer, but keeps what")
            assert error.result is None
        assert sorted([*stored(study), *(r for _, r in error.untold)]) == sorted(pulls.paid)
        study.tell_many(error.untold)
        assert_all_stored(study, pulls)

    def test_one_while_tickets_are_given_back(self, study: Study) -> None:
        pulls = Pulls(lambda call: 1 / (call - 9))
        sent: list[str] = []

        def fault(name: str) -> None:
            if name == "before skip_many" and not sent:
                sent.append(name)
                os.kill(os.getpid(), signal.SIGINT)
                raise away()

        with pytest.raises(SearchInterrupted):
            run(study, Faulty(study, fault), pulls, "1")
        assert_all_stored(study, pulls)

    def test_a_file_that_somebody_else_has_locked(
        self, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_database, "LOCK_SECONDS", 0.05)
        pulls = Pulls(lambda call: lock() if call == 9 else None)
        other = sqlite3.connect(study.storage, isolation_level=None, check_same_thread=False)
        times: list[float] = []

        def lock() -> None:
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(0.5, interrupt).start()

        def interrupt() -> None:
            times.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(SearchInterrupted) as caught:
            study.run(pulls)
        assert time.monotonic() - times[0] < LONG / 2
        assert caught.value.untold
        other.execute("ROLLBACK")
        other.close()
        study.tell_many(caught.value.untold)
        assert_all_stored(study, pulls)

    def test_a_desk_waits_for_a_lock_and_obeys_in_well_under_a_second(
        self, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_database, "LOCK_SECONDS", 0.05)
        desk = _patience.PatientDesk(study.desk(), LONG)
        (ticket,) = desk.ask(1)
        other = sqlite3.connect(study.storage, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        times: list[float] = []

        def interrupt() -> None:
            times.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        def tell() -> None:
            threading.Timer(0.2, interrupt).start()
            desk.tell_many([(ticket, 0.5)])

        for _ in range(50):  # the quickest one counts: the machine may be busy
            with pytest.raises(KeyboardInterrupt):
                tell()
            seconds = time.monotonic() - times[-1]
            if seconds < 0.5:
                break
        assert seconds < 0.5
        other.execute("ROLLBACK")
        other.close()
        desk.tell_many([(ticket, 0.5)])
        assert stored(study) == [0.5]


class TestFiles:
    def test_a_lock_is_outlived(self, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_database, "LOCK_SECONDS", 0.05)
        other = sqlite3.connect(study.storage, isolation_level=None, check_same_thread=False)
        pulls = Pulls(lambda call: lock() if call == 9 else None)
        unlocking = threading.Timer(0.5, other.execute, ("ROLLBACK",))

        def lock() -> None:
            other.execute("BEGIN IMMEDIATE")
            unlocking.start()

        assert study.run(pulls, jobs=4).outliers == ["c"]
        unlocking.join()
        other.close()
        assert_all_stored(study, pulls)

    def test_a_full_disk_is_outlived(self, study: Study, caplog: pytest.LogCaptureFixture) -> None:
        """The disk is full until somebody has heard of it."""
        room = {"pages": 10**6}
        pulls = Pulls(lambda call: fill() if call == 9 else None)

        def fill() -> None:
            with study._database.reading() as connection:
                room["pages"] = connection.exec_driver_sql("PRAGMA page_count").scalar_one()

        @sa.event.listens_for(study._database._engine, "begin")
        def limit(connection: Any) -> None:
            if "the disk is full" in caplog.text:
                room["pages"] = 10**6
            connection.exec_driver_sql(f"PRAGMA max_page_count = {room['pages']}")

        study.on_decision(lambda *_: None)
        with caplog.at_level(logging.WARNING, "oddarms"):
            result = study.run(pulls, jobs=4, worker="w" * 900)  # so that tickets fill pages
        assert "the disk is full" in caplog.text
        assert result.outliers == ["c"]
        assert sorted(pulls.paid) == sorted(
            trial.reward for trial in study.trials() if trial.ticket is not None
        )


class TestServers:
    @pytest.mark.parametrize(
        "times", [2, pytest.param(10, marks=pytest.mark.long)], ids=["a few times", "often"]
    )
    # psycopg warns of cursors that it could not close, as the server was gone
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_study_outlives_restarts_and_kills(
        self, postgresql: Server, times: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Every reward that a function returned is in the log, once."""
        caplog.set_level(logging.CRITICAL + 1, "sqlalchemy")  # its records keep such cursors
        storage = postgresql.new_database()
        budget = 400 * times
        study = make(
            storage, labels="ad", k=0, margin=0, budget=budget
        )  # equal means: the budget ends it
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
                outcome.append(study.run(pulls, jobs=8, lease=RUN_LEASE))
            except BaseException as error:
                outcome.append(error)

        runner = threading.Thread(target=work)
        runner.start()
        try:
            for i, end in enumerate([postgresql.stop, postgresql.kill9] * times):
                enough = len(pulls.paid) + 10 + 10 * (i % 4)
                most = enough + 50
                self.await_pulls(pulls, enough, runner)
                assert runner.is_alive(), outcome
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

    @staticmethod
    def await_pulls(pulls: Pulls, number: int, runner: threading.Thread) -> None:
        deadline = time.monotonic() + LONG
        while len(pulls.paid) < number and runner.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.002)
