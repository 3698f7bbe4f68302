"""Executors of every kind: the same answers, clear words if one fails, and an end to all calls."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest

from helpers import quick_and_long
from oddarms import Result, Status, find
from oddarms.errors import InvalidParameter, MissingExtra, PullFailed, WorkerLost
from oddarms.executors import CoroutineExecutor, RayExecutor, ThreadExecutor, unordered

RATES = (0.1, 0.1, 0.9, 0.1, 0.2, 0.1)
WORDS: dict[str, Any] = {"k": 1.0, "delta": 0.1, "rng": 5}


class Mishap(Exception):
    """What a call may raise."""


def rate(number: int) -> float:
    return RATES[number]


def fail(number: int) -> float:
    raise Mishap(f"no {number}")


def die() -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def draw() -> float:
    return secrets.randbelow(10**9) / 10**9


def square(number: int) -> int:
    return number * number


def square_or_fail(number: int) -> int:
    if number == 3:
        raise Mishap("three is too many")
    return number * number


def arms_of(function: Callable[[int], float]) -> list[Callable[[], float]]:
    return [partial(function, number) for number in range(len(RATES))]


@contextmanager
def dask() -> Iterator[Executor]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client.get_executor()


@contextmanager
def ray() -> Iterator[Executor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")  # or it writes a token to the home directory
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # its processes import this module
        import ray as module  # which reads both

        options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False}
        module.init(address="local", num_cpus=2, **options)
        try:
            yield RayExecutor(num_cpus=1)
        finally:
            module.shutdown()


@contextmanager
def loky() -> Iterator[Executor]:
    from loky import ProcessPoolExecutor as Loky

    with Loky(2) as pool:
        yield pool


EXECUTORS: dict[str, Callable[[], Any]] = {
    "our threads": lambda: ThreadExecutor(3),
    "ray": ray,
    "a pool of processes": lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
    "loky": loky,
    "dask": dask,
    "a pool of threads": lambda: ThreadPoolExecutor(3),
}


@pytest.fixture(
    scope="module",
    params=quick_and_long(list(EXECUTORS)[::2], list(EXECUTORS)[1::2]),
)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with EXECUTORS[request.param]() as opened:
        yield opened


def known(result: Result) -> dict[str, Any]:
    return {**result.to_dict(), "unused": None}


class TestEveryExecutor:
    def test_the_answer(self, executor: Executor) -> None:
        alone = find(arms_of(rate), **WORDS)
        assert alone.outliers == [2]
        assert known(find(arms_of(rate), executor=executor, **WORDS)) == known(alone)

    def test_what_a_call_raises(self, executor: Executor) -> None:
        with pytest.raises(PullFailed, match=r"arm \d.*no \d") as caught:
            find(arms_of(fail), executor=executor, **WORDS)
        assert isinstance(caught.value.__cause__, Mishap)
        assert caught.value.result.status is Status.FAILED

    def test_equal_calls_are_made_each_time(self, executor: Executor) -> None:
        """Some clusters take a call for one that they know the result of."""
        arms = [draw] * 5
        found = find(arms, executor=executor, jobs=4, budget=60, algorithm="rr", batch=4, **WORDS)
        assert len(set(found.means.tolist())) == 5

    def test_unordered(self, executor: Executor) -> None:
        results = unordered(square, range(30), executor=executor, jobs=2)
        assert sorted(results) == [number**2 for number in range(30)]
        with pytest.raises(Mishap, match="three is too many"):
            list(unordered(square_or_fail, range(9), executor=executor))


class TestLostProcesses:
    @pytest.mark.parametrize("on_error", quick_and_long(["worst"], ["stop", "retry"]))
    def test_end_a_search(self, on_error: Any) -> None:
        arms = [*arms_of(rate)[1:], die]
        with (
            ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
            pytest.raises(WorkerLost, match="A process of the executor died") as caught,
        ):
            find(arms, executor=pool, on_error=on_error, **WORDS)
        assert caught.value.result.status is Status.FAILED

    def test_end_a_map(self) -> None:
        with pytest.raises(WorkerLost, match="A worker process died"):
            list(unordered(lambda _: die(), range(3), jobs=2))
        assert sorted(unordered(square, range(3), jobs=2)) == [0, 1, 4]


class TestUnordered:
    @pytest.mark.parametrize("how", [{"jobs": 1}, {"jobs": 2}, {"jobs": 2, "threads": True}])
    def test_each_once(self, how: dict[str, Any]) -> None:
        offset = 10
        found = list(unordered(lambda number: number + offset, range(20), **how))
        assert sorted(found) == list(range(10, 30))
        assert list(unordered(square, [], **how)) == []

    def test_endless_items_are_fetched_as_needed(self) -> None:
        items = itertools.count()
        results = unordered(square, items, jobs=2, threads=True)
        assert len(list(itertools.islice(results, 5))) == 5
        results.close()  # type: ignore[attr-defined]
        assert next(items) < 15


class TestThreads:
    def test_no_more_than_jobs(self) -> None:
        now, most, lock = 0, 0, threading.Lock()

        def call(_: int) -> None:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.001)
            with lock:
                now -= 1

        with ThreadExecutor(3) as executor:
            list(executor.map(call, range(30)))
        assert most == 3

    def test_closing_waits_for_what_runs_and_cancels_the_rest(self) -> None:
        begun, release = threading.Event(), threading.Event()

        def call(number: int) -> int:
            begun.set()
            release.wait(60.0)
            return number

        executor = ThreadExecutor(1)
        futures = [executor.submit(call, number) for number in range(4)]
        assert begun.wait(60.0)
        closing = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True})
        closing.start()
        while not futures[-1].cancelled():
            time.sleep(0.001)
        assert closing.is_alive()
        release.set()
        closing.join()
        assert futures[0].result() == 0
        assert all(future.cancelled() for future in futures[1:])

    def test_a_call_that_hangs_does_not_keep_the_program(self) -> None:
        program = """
import time, oddarms
from oddarms.errors import PullFailed
def hang():
    time.sleep(600)
try:
    oddarms.find([hang] * 5, timeout=0.1, k=1)
except PullFailed as error:
    print(error)
"""
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
        )
        assert "took longer than 0.1 seconds" in ran.stdout


@pytest.fixture
def silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if asyncio has something to say, such as of an exception that nobody has seen."""
    with caplog.at_level("WARNING", "asyncio"):
        yield
    gc.collect()
    assert caplog.records == []


@pytest.mark.usefixtures("silent")
class TestCoroutines:
    def test_many_at_once_in_one_thread(self) -> None:
        threads, now, most = set(), 0, 0

        async def pull() -> float:
            nonlocal now, most
            threads.add(threading.current_thread())
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1
            return 0.5

        words: dict[str, Any] = {"algorithm": "rr", "batch": 100, "budget": 1000, **WORDS}
        find([pull] * 5, **words)
        assert (len(threads), most) == (1, 100)
        most = 0
        find([pull] * 5, jobs=3, **words)
        assert most == 3

    def test_closing_cancels_and_lets_calls_clean_up(self) -> None:
        ended = []

        async def call(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.001)
                ended.append(number)

        begun = threading.Event()

        async def begin() -> None:
            begun.set()

        with CoroutineExecutor() as executor:
            futures = [executor.submit(call, number) for number in range(3)]
            executor.submit(begin)
            assert begun.wait(60.0)
        assert sorted(ended) == [0, 1, 2]
        for future in futures:
            with pytest.raises(CancelledError):
                future.result(timeout=60)

    def test_no_other_executor_runs_them(self) -> None:
        async def pull() -> float:
            return 0.5

        with (
            ThreadPoolExecutor(2) as pool,
            pytest.raises(InvalidParameter, match="event loop: leave out executor"),
        ):
            find([pull] * 5, executor=pool)

    @pytest.mark.parametrize("number", quick_and_long([signal.SIGTERM], [signal.SIGINT]))
    def test_a_signal_ends_a_search_without_a_word(self, number: int) -> None:
        program = """
import asyncio, oddarms

async def pull():
    print("running", flush=True)
    await asyncio.sleep(600)

try:
    oddarms.find([pull] * 5, jobs=1)
except oddarms.SearchInterrupted as error:
    print(error.signal, error.result.pulls)
"""
        with subprocess.Popen(
            [sys.executable, "-W", "error", "-X", "dev", "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            process.send_signal(number)
            said, wrong = process.communicate(timeout=120)
        assert (process.returncode, said, wrong) == (0, f"{int(number)} 0\n", "")


class TestWhatIsNoExecutor:
    def test_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Client:
            """Of dask."""

        wrong: list[tuple[dict[str, Any], str]] = [
            *(
                ({"executor": thing}, "an executor of concurrent")
                for thing in (3, "dask", object())
            ),
            ({"executor": Client()}, r"give Client\(\.\.\.\)\.get_executor\(\)"),
            *(({"jobs": jobs}, "jobs must be a whole number") for jobs in (0, 1.5, "2")),
        ]
        for words, said in wrong:
            with pytest.raises(InvalidParameter, match=said):
                find(arms_of(rate), **words)
        monkeypatch.setitem(sys.modules, "ray", None)
        with pytest.raises(MissingExtra, match=r"pip install 'oddarms\[ray\]'"):
            RayExecutor()
        monkeypatch.setitem(sys.modules, "loky", None)
        with pytest.raises(MissingExtra, match=r"pip install 'oddarms\[parallel\]'"):
            list(unordered(square, range(3), jobs=2))

    def test_a_pool_that_is_broken(self) -> None:
        class Broken(Executor):
            def submit(self, *_: Any, **__: Any) -> Any:
                raise BrokenExecutor("gone")

        with pytest.raises(WorkerLost, match="gone"):
            find(arms_of(rate), executor=Broken(), **WORDS)
