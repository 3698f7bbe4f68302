"""Runs that are ended by signals, and leases that last as long as their workers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from helpers import quick_and_long
from oddarms import Study, create_study, find
from oddarms.errors import SearchInterrupted
from oddarms.search import Status
from processes import insist, wait_until

LABELS = ["a", "b", "c"]
LONG = 60.0
"""Seconds that no test takes, unless something stands still."""
LEASE = 3.0
ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def obeyed() -> Iterator[None]:
    """Handle signals as a program in a terminal does; under nohup, SIGHUP would be ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return create_study("s", LABELS, k=0, delta=0.1, storage=tmp_path / "studies.db", rng=1)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


class Pull:
    """Sends a signal to the process at one call."""

    def __init__(self, number: int, call: int = 9) -> None:
        self.number = number
        self.left = call
        self.paid = 0
        self._lock = threading.Lock()

    def __call__(self, _label: str) -> float:
        with self._lock:
            self.left -= 1
            due = self.left == 0
        if due:
            send(self.number)
            time.sleep(0.01)
        with self._lock:
            self.paid += 1
        return 0.5


def assert_sound(study: Study) -> None:
    assert (study.overview().live, study.verify().problems) == (0, [])


class TestSignals:
    @pytest.mark.parametrize("number", ENDING)
    @pytest.mark.parametrize("jobs", [1, 3])
    def test_end_a_study_cleanly(self, study: Study, number: signal.Signals, jobs: int) -> None:
        pull = Pull(number)
        before = signal.getsignal(number)
        with pytest.raises(SearchInterrupted) as caught:
            study.run(pull, jobs=jobs)
        error = caught.value
        assert error.signal == number
        name = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
        assert str(error).startswith(f"{name} after ")
        assert (error.result.status, error.untold) == (Status.INTERRUPTED, [])
        assert len(list(study.trials())) == pull.paid
        assert_sound(study)
        assert signal.getsignal(number) is before

    @pytest.mark.parametrize("number", quick_and_long(ENDING[1:2], [ENDING[0], ENDING[2]]))
    def test_end_batches_and_searches_in_memory(self, study: Study, number: int) -> None:
        pull = Pull(number)
        with pytest.raises(SearchInterrupted) as caught:
            study.run(lambda labels: [pull(label) for label in labels], batch=True)
        assert caught.value.signal == number
        assert study.overview().live == 0
        pull = Pull(number)
        with pytest.raises(SearchInterrupted) as caught:
            find({label: lambda: pull("") for label in LABELS}, k=0, jobs=2)
        assert caught.value.signal == number
        assert caught.value.result.pulls + len(caught.value.unabsorbed) == pull.paid

    @pytest.mark.parametrize("number", quick_and_long(ENDING[1:2], [ENDING[0], ENDING[2]]))
    def test_end_coroutines(self, study: Study, number: int) -> None:
        calls: list[str] = []

        async def pull(label: str) -> float:
            calls.append(label)
            if len(calls) == 9:
                asyncio.get_running_loop().call_later(0.01, send, number)
            await asyncio.sleep(0.001 if len(calls) < 9 else LONG)
            return 0.5

        with pytest.raises(SearchInterrupted) as caught:
            study.run(pull, jobs=3)
        assert caught.value.signal == number
        assert len(list(study.trials())) >= 6
        assert_sound(study)

    def test_that_are_ignored_stay_ignored(self) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        pull = Pull(signal.SIGHUP)
        found = find({label: lambda: pull("") for label in LABELS}, k=0, budget=30)
        assert (found.status, pull.paid) == (Status.BUDGET, 30)

    def test_of_the_programs_own_handlers_stay_its_own(self) -> None:
        seen: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
        try:
            pull = Pull(signal.SIGTERM)
            find({label: lambda: pull("") for label in LABELS}, k=0, budget=30)
        finally:
            signal.signal(signal.SIGTERM, before)
        assert seen == [signal.SIGTERM]

    @pytest.mark.parametrize("number", quick_and_long([signal.SIGTERM], [signal.SIGINT]))
    def test_a_second_one_ends_a_program_whose_pulls_never_do(self, number: int) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            process.send_signal(number)
            assert insist(process, number) == 0
            assert process.stdout.read() == f"stopped\n{number:d}\n".encode()


HANGS = """
import threading
import oddarms

class Pull:
    def __call__(self, label):
        if first.acquire(blocking=False):
            print("begun", flush=True)
        threading.Event().wait()

    def stop(self):
        if second.acquire(blocking=False):
            print("stopped", flush=True)

first, second = threading.Lock(), threading.Lock()
study = oddarms.create_study("s", "abc", k=0, storage="memory")
try:
    study.run(Pull(), jobs=2)
except oddarms.SearchInterrupted as error:
    assert study.overview().live == 0
    print(error.signal, flush=True)
"""


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_leases_last_while_a_worker_lives_and_no_longer(study: Study) -> None:
    """Also if the process was forked; results and returned tickets need no lease any more."""
    with study.worker("w", lease=timedelta(seconds=LEASE)) as worker:
        told, returned, *kept = worker.ask(100)
        worker.tell(told, 0.5)
        worker.skip_many([returned])
        worker.flush()
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        time.sleep(1.3 * LEASE)
        assert study.overview().live == len(kept)
        assert [study.renew([ticket], LEASE) for ticket in (told, kept[0])] == [0, 1]
    wait_until(lambda: study.overview().live == 0)
    assert study.ask(1)
