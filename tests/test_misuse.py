"""What users get wrong, and what goes wrong around them: nothing counts that should not."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any

import pytest

from oddarms import Question, Search, create_study, find, finding, load_study
from oddarms.arms import Bernoulli
from oddarms.errors import (
    InvalidParameter,
    PullFailed,
    RewardRejected,
    SearchInterrupted,
    UnknownStudy,
    WorkerLost,
)
from oddarms.executors import ThreadExecutor
from oddarms.search import Progress

QUESTION = Question(["a", "b", "c"], k=1)


@pytest.fixture(autouse=True)
def no_garbage() -> None:
    """A finalizer that runs as a signal arrives would swallow it, which pytest reports."""
    gc.collect()


def test_a_ticket_of_another_search_is_refused() -> None:
    one, two = Search(QUESTION), Search(QUESTION)
    tickets = one.ask(3)
    two.tell(two.ask(1)[0], 0.0)
    two.ask(1)
    with pytest.raises(InvalidParameter, match="Ticket '3' is not out: it was told or given back"):
        two.tell(tickets[2], 1.0)
    reversed_ = Search(["c", "b", "a"], k=1)
    reversed_.ask(6)
    with pytest.raises(InvalidParameter, match="belongs to another search"):
        reversed_.tell(tickets[0], 1.0)
    assert reversed_.told == 0


@pytest.mark.parametrize("rewards", [["1"] * 6, "010101", [b"1"] * 6, [None] * 6, [[0.0]] * 6])
def test_what_is_no_number_is_no_reward(rewards: Any) -> None:
    search = Search(QUESTION)
    assert search.ask_step().total == 6
    with pytest.raises(RewardRejected, match=r"rewards must|one reward per pull"):
        search.tell_step(rewards)
    assert search.told == 0


def test_a_class_that_is_no_algorithm() -> None:
    with pytest.raises(InvalidParameter, match="a class of Algorithm but got <class 'int'>"):
        find(Bernoulli([0.1, 0.9]), algorithm=int)  # type: ignore[arg-type]


def test_a_function_that_returns_a_coroutine() -> None:
    async def reward() -> float:
        return 0.5

    with pytest.raises(PullFailed, match="give the `async def` function itself"):
        find([lambda: reward()] * 3, k=0.5)


def test_progress_is_told_at_the_end() -> None:
    seen: list[Progress] = []
    result = find({"a": lambda: 0.0, "b": lambda: 1.0, "c": lambda: 0.0}, k=1, progress=seen.append)
    assert seen[-1].undecided == 0
    assert seen[-1].pulls == result.pulls


class Losing(ThreadExecutor):
    """Loses its worker after some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__(1)
        self._left = calls

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._left -= 1
        if self._left >= 0:
            return super().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor("a worker died."))
        return future


def test_a_lost_worker_loses_no_rewards() -> None:
    calls: list[int] = []
    arms = [lambda: calls.append(1) or 0.25] * 3
    with Losing(8) as executor, pytest.raises(WorkerLost) as caught:
        find(arms, k=0.5, executor=executor, jobs=1, prefetch=0)
    assert 6 <= len(calls) <= 8
    assert caught.value.result.pulls + len(caught.value.unabsorbed) == len(calls)


def test_two_that_begin_at_the_same_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = tmp_path / "study.db"
    arms = Bernoulli([0.1, 0.9, 0.1, 0.1])
    create_study("find", arms.labels, k=1, budget=None, storage=storage)
    answers = iter([UnknownStudy("not there yet")])

    def load(*names: Any, **words: Any) -> Any:
        for error in answers:
            raise error
        return load_study(*names, **words)

    monkeypatch.setattr(finding, "load_study", load)
    assert find(arms, k=1, storage=storage).outliers == [1]


def test_calls_that_are_waited_for_count(tmp_path: Path) -> None:
    """A thread cannot be stopped; what it gives after Ctrl-C is paid for, too."""
    begun = threading.Barrier(3)

    def interrupt() -> None:
        begun.wait(60.0)
        os.kill(os.getpid(), signal.SIGINT)

    def pull() -> float:
        begun.wait(60.0)
        time.sleep(1.3)  # longer than the moment that calls are given
        return 0.0

    storage = tmp_path / "study.db"
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(SearchInterrupted):
        find([pull] * 4, k=1, jobs=2, storage=storage)
    interrupting.join()
    assert load_study("find", storage=storage).overview().told == 2


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_closes(ignored: bool, jobs: int) -> None:
    """SIGHUP ends a search, but not under `nohup`, which ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    calls = itertools.count()

    def pull() -> float:
        if next(calls) == 12:
            os.kill(os.getpid(), signal.SIGHUP)
        return 0.5

    try:
        if ignored:
            assert find([pull] * 6, jobs=jobs, rng=1).complete
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        else:
            with pytest.raises(SearchInterrupted, match="ended by SIGHUP") as caught:
                find([pull] * 6, jobs=jobs, rng=1)
            assert caught.value.signal == signal.SIGHUP
            kept = caught.value.result.pulls + len(caught.value.unabsorbed)
            assert kept == (12 if jobs == 1 else next(calls))
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_program_s_own_handler_stays() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    calls = itertools.count()

    def pull() -> float:
        if next(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return 0.5

    try:
        assert find([pull] * 6, rng=1).complete
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
