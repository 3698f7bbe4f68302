"""Ctrl-C at any moment of a wait leaves no lock held for which a worker's thread would wait."""

from __future__ import annotations

import concurrent.futures
import itertools
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from oddarms.executors import Executor
from oddarms.executors._base import LONGEST_WAIT, Bell
from oddarms.executors._joblib import JoblibExecutor
from oddarms.executors._pools import PoolExecutor

HANG_SECONDS = 60.0


class Pool(concurrent.futures.Executor):
    """Has calls that end when somebody ends them."""

    def __init__(self) -> None:
        self.calls: list[Future[Any]] = []

    def submit(self, *_: Any) -> Future[Any]:  # type: ignore[override]
        self.calls.append(Future())
        return self.calls[-1]


def of_joblib(pool: Pool) -> Executor:
    executor = JoblibExecutor(2)
    executor._pool = pool
    return executor


def of_the_library(pool: Pool) -> Executor:
    return PoolExecutor(pool, 2)


def interrupted_at(moment: int, function: Callable[[], Any]) -> bool:
    """Call a function with Ctrl-C at its n-th call or return; return whether it has so many."""
    moments = itertools.count(1)

    def watch(*_: Any) -> None:
        if next(moments) == moment:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    try:
        sys.setprofile(watch)
        try:
            function()
        finally:
            sys.setprofile(None)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("opened", [of_joblib, of_the_library])
def test_a_call_can_end_whenever_its_wait_was_interrupted(
    opened: Callable[[Pool], Executor],
) -> None:
    for moment in itertools.count(1):
        pool = Pool()
        executor = opened(pool)
        futures = [executor.submit(abs, number) for number in range(2)]
        interrupted = interrupted_at(moment, lambda: executor.wait(futures, 1e-4))  # noqa: B023
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        for call in pool.calls:
            thread = threading.Thread(target=call.set_result, args=(7,), daemon=True)
            thread.start()
            thread.join(HANG_SECONDS)
            assert not thread.is_alive(), f"after an interruption at moment {moment}"
        assert executor.wait(futures, HANG_SECONDS) <= set(futures)
        assert [future.result(HANG_SECONDS) for future in futures] == [7, 7]
        if not interrupted:
            break
    assert moment > 30


def test_a_bell_that_rang_before_anybody_waited_is_heard_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait(HANG_SECONDS)
    assert not bell._silent.acquire(blocking=False)


def test_no_wait_is_so_long_that_a_signal_before_it_goes_unnoticed() -> None:
    asked: list[float] = []

    class Silent:
        def acquire(self, timeout: float) -> None:
            asked.append(timeout)

    bell = Bell()
    bell._silent = Silent()  # type: ignore[assignment]
    for timeout in (None, 0.0, 0.25, 1e9):
        bell.wait(timeout)
    assert asked == [LONGEST_WAIT, 0.0, 0.25, LONGEST_WAIT]
