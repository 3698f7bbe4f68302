"""Runs that are ended by signals, and leases that last as long as their workers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from oddarms import Study, create_study, find, interrupts
from oddarms.errors import SearchInterrupted, StorageFailed
from oddarms.executors import open_executor
from oddarms.search import Status, Ticket, _calls
from oddarms.studies import _heartbeat, verify
from oddarms.studies._desk import RUN_LEASE, StudyDesk
from oddarms.studies._heartbeat import Heartbeat
from oddarms.studies._hurry import Hurry
from processes import wait_until

LABELS = ["a", "b", "c"]
LONG = 60.0
"""Seconds that no test takes, unless something stands still."""
ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


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


class TestSignals:
    @pytest.mark.parametrize("number", ENDING)
    @pytest.mark.parametrize("jobs", [1, 3])
    def test_end_a_study_cleanly(self, study: Study, number: int, jobs: int) -> None:
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
        assert (study.overview().live, verify(study).problems) == (0, [])
        assert signal.getsignal(number) is before

    @pytest.mark.parametrize("number", ENDING)
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

    @pytest.mark.parametrize("number", ENDING)
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
        assert (study.overview().live, verify(study).problems) == (0, [])

    def test_two_in_one_moment_are_one(self, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
        """As `timeout` sends them; the calls under way are still waited for."""
        monkeypatch.setattr(_calls, "SAME_SECONDS", LONG)
        monkeypatch.setattr(interrupts, "SAME_SECONDS", LONG)
        begun = threading.Barrier(2, timeout=LONG)
        sent = threading.Event()

        def pull(_label: str) -> float:
            if begun.wait() == 0:
                send(signal.SIGINT)
                time.sleep(0.05)
                send(signal.SIGINT)
                sent.set()
            sent.wait(LONG)
            time.sleep(0.2)
            return 0.5

        with pytest.raises(SearchInterrupted):
            study.run(pull, jobs=2)
        assert len(list(study.trials())) == 2

    def test_a_second_one_waits_for_no_thread(
        self, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The calls go on for nobody; the source is told to stop before."""
        ended, obeyed = threading.Event(), threading.Event()
        first = threading.Lock()
        stopped: list[bool] = []
        end_calls = _calls.Calls._end_calls

        def noted(calls: _calls.Calls) -> None:
            obeyed.set()
            end_calls(calls)

        class Hangs:
            def __call__(self, _label: str) -> float:
                if first.acquire(blocking=False):
                    send(signal.SIGINT)
                    assert obeyed.wait(LONG)  # or the two could be one
                    send(signal.SIGINT)
                ended.wait(2 * LONG)
                return 0.5

            def stop(self) -> None:
                stopped.append(True)

        monkeypatch.setattr(_calls.Calls, "_end_calls", noted)
        monkeypatch.setattr(_calls, "SAME_SECONDS", 0.0)
        started = time.monotonic()
        with pytest.raises(SearchInterrupted) as caught:
            study.run(Hangs(), jobs=2)
        assert time.monotonic() - started < LONG
        assert stopped == [True]
        assert caught.value.result.status is Status.INTERRUPTED
        assert study.overview().live == 0
        ended.set()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_second_one_ends_a_program_whose_pulls_never_do(self, number: int) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            process.send_signal(number)
            time.sleep(0.5)
            process.send_signal(number)
            for _ in range(10):  # on a busy machine two may count as one
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20.0)
                    break
                process.send_signal(number)
            process.kill()
            assert process.stdout.read() == f"{number:d}\n".encode()


HANGS = """
import threading
import oddarms

def pull():
    if first.acquire(blocking=False):
        print("begun", flush=True)
    threading.Event().wait()

first = threading.Lock()
try:
    oddarms.find([pull] * 3, k=0, jobs=1 + 1)
except oddarms.SearchInterrupted as error:
    print(error.signal, flush=True)
"""


def test_threads_that_were_left_end_with_their_calls() -> None:
    release = threading.Event()
    executor = open_executor("threads", jobs=2)
    future = executor.submit(release.wait, LONG)
    executor.leave_calls()
    executor.close()
    assert not future.done()
    release.set()
    assert future.result(LONG) is True
    wait_until(lambda: not any(thread.is_alive() for thread in executor._threads))


class Renewed:
    """Stands for a study: notes what is renewed, and may fail."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.renewed: list[list[Any]] = []
        self.beat = threading.Condition()
        self.hurry = Hurry()
        self.patient = 0
        self._then = then

    def hurried(self) -> contextlib.AbstractContextManager[None]:
        return self.hurry.block()

    def renew(self, tickets: Iterable[Ticket], lease: timedelta) -> int:
        assert lease == LEASE
        self.patient += not self.hurry
        with self.beat:
            self.renewed.append([ticket.id for ticket in tickets])
            self.beat.notify_all()
        self._then()
        return 0

    def await_beats(self, number: int) -> None:
        with self.beat:
            assert self.beat.wait_for(lambda: len(self.renewed) >= number, LONG)


class Ended(threading.Event):
    """An end that comes after so many waits, which are noted and take no time."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self._after = after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return len(self.waits) >= self._after


LEASE = timedelta(seconds=0.04)
ONE, TWO = (Ticket(number, "a", 0, number, None) for number in (1, 2))


def hearts() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "oddarms heartbeat"]


class TestHeartbeat:
    @pytest.fixture(autouse=True)
    def long_stop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let one that stops have the time that a busy machine takes."""
        monkeypatch.setattr(_heartbeat, "STOP_SECONDS", LONG)

    def test_tickets_that_are_out_are_renewed(self) -> None:
        study = Renewed()
        heart = Heartbeat(study, LEASE)
        heart.add([ONE, TWO])
        heart.start()
        study.await_beats(2)
        heart.remove([ONE])
        study.await_beats(len(study.renewed) + 2)
        heart.stop()
        assert study.renewed[0] == [1, 2]
        assert study.renewed[-1] == [2]
        assert hearts() == []

    def test_a_failure_is_left_to_the_next_one(self) -> None:
        def fail() -> None:
            raise StorageFailed("a server: it is away.", passing=True)

        study = Renewed(fail)
        heart = Heartbeat(study, LEASE)
        heart.add([ONE])
        heart.start()
        study.await_beats(3)
        heart.stop()

    def test_nobody_is_waited_for_and_a_failure_is_made_up_for_sooner(self) -> None:
        failures = [StorageFailed("a server: it is away.", passing=True)] * 2

        def fail_twice() -> None:
            if failures:
                raise failures.pop()

        study = Renewed(fail_twice)
        heart = Heartbeat(study, LEASE)
        heart.add([ONE])
        ended = Ended(5)
        heart._beat(ended)
        beat = LEASE.total_seconds() / 4
        assert ended.waits == pytest.approx([beat, beat / 3, beat / 3, beat, beat])
        assert (len(study.renewed), study.patient) == (4, 0)

    def test_nothing_is_renewed_after_the_end_or_without_tickets(self) -> None:
        study = Renewed()
        heart = Heartbeat(study, LEASE)
        heart.start()
        time.sleep(0.1)
        heart.stop()
        heart.add([ONE])
        time.sleep(0.1)
        assert study.renewed == []

    def test_it_ends_at_once_whatever_the_lease(self) -> None:
        heart = Heartbeat(Renewed(), timedelta(hours=1))
        started = time.monotonic()
        heart.start()
        heart.stop()
        assert time.monotonic() - started < LONG / 2
        assert hearts() == []

    def test_one_that_hangs_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_heartbeat, "STOP_SECONDS", 0.1)
        release = threading.Event()
        study = Renewed(lambda: release.wait(LONG))
        heart = Heartbeat(study, LEASE)
        heart.add([ONE])
        heart.start()
        study.await_beats(1)
        started = time.monotonic()
        heart.stop()
        assert time.monotonic() - started < LONG / 2
        release.set()
        wait_until(lambda: not hearts())

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_has_none_and_the_parents_goes_on(self) -> None:
        study = Renewed()
        heart = Heartbeat(study, LEASE)
        heart.add([ONE])
        heart.start()
        study.await_beats(1)
        child = os.fork()
        if child == 0:
            heart.add([TWO])
            heart.stop()
            os._exit(len(hearts()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        study.await_beats(len(study.renewed) + 2)
        heart.stop()
        assert study.renewed[-1] == [1]

    def test_a_desk_renews_what_it_asked_for_until_it_is_told_or_given_back(
        self, study: Study
    ) -> None:
        renewed = Renewed()
        desk = study.desk("w", LEASE)
        desk._out._study = renewed
        with desk:
            tickets = desk.ask(3)
            renewed.await_beats(1)
            desk.tell_many([(tickets[0], 0.5)])
            desk.skip_many([tickets[1]])
            assert [desk.has_used(ticket) for ticket in tickets] == [True, True, False]
            renewed.await_beats(len(renewed.renewed) + 2)
        beats = len(renewed.renewed)
        time.sleep(0.1)
        assert len(renewed.renewed) == beats
        assert renewed.renewed[0] == [ticket.id for ticket in tickets]
        assert renewed.renewed[-1] == [tickets[2].id]

    def test_it_beats_while_a_study_is_run_and_no_longer(
        self, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[int] = []

        def pull(_label: str) -> float:
            seen.append(len(hearts()))
            if len(seen) == 5:
                raise KeyboardInterrupt
            return 0.5

        monkeypatch.setattr(_calls, "GRACE_SECONDS", 0.0)
        with pytest.raises(SearchInterrupted):
            study.run(pull)
        assert seen == [1] * 5
        assert hearts() == []

    def test_find_asks_for_short_leases(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        leases: list[timedelta] = []
        ask = StudyDesk.ask

        def noted(desk: StudyDesk, *arguments: Any, **options: Any) -> Any:
            leases.append(desk.lease)
            return ask(desk, *arguments, **options)

        monkeypatch.setattr(StudyDesk, "ask", noted)
        find([lambda: 0.0, lambda: 1.0, lambda: 0.0], k=1, storage=tmp_path / "a.db")
        assert set(leases) == {RUN_LEASE}
        assert timedelta(seconds=30) <= RUN_LEASE <= timedelta(minutes=2)
