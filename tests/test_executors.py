"""Calls in this process, in others and on clusters: the same results, and clear words if not."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import multiprocessing
import os
import re
import secrets
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from pickle import PicklingError
from typing import Any

import numpy as np
import pytest

from oddarms.errors import (
    BackendUnavailable,
    InvalidParameter,
    MissingExtra,
    ProtocolError,
    WorkerLost,
)
from oddarms.executors import BACKENDS, AsyncExecutor, Executor, as_executor, open_executor
from oddarms.executors._base import sentence_of, shielded_from_interrupts
from oddarms.problem import FloatArray


class Mishap(Exception):
    """What a call may raise."""


class Adder:
    """A function that is an object."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, task: int) -> int:
        return task + self.number


def square(number: int) -> int:
    return number * number


def fail_at_three(number: int) -> int:
    if number == 3:
        raise Mishap("three is too many")
    return number


def change(array: FloatArray) -> FloatArray:
    array[0] = 1.0
    return array


def leave_trace(path: Path) -> Path:
    time.sleep(0.1)
    path.touch()
    return path


def wait_for_trace(path: Path) -> None:
    deadline = time.monotonic() + 120.0
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def leave_trace_when_let(path: Path) -> Path:
    wait_for_trace(path.parent.parent / "go")
    path.touch()
    return path


def start_time(number: int) -> tuple[float, int]:
    started = time.time()
    time.sleep(0.03)
    return started, number


def start_time_near_others(folder: Path, behind: int, number: int) -> tuple[float, int]:
    """Return when the call began; it ends when the one so far before it has begun, too.

    So a process that is held up before its clock is read is not overtaken by many calls.
    """
    started = time.time()
    (folder / str(number)).touch()
    wait_for_trace(folder / str(max(number - behind, 0)))
    time.sleep(0.03)
    return started, number


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_once(path: Path) -> str:
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@contextmanager
def serial() -> Iterator[Executor]:
    with open_executor(jobs=1) as executor:
        yield executor


@contextmanager
def threads() -> Iterator[Executor]:
    with open_executor("threads", jobs=2) as executor:
        yield executor


@contextmanager
def joblib() -> Iterator[Executor]:
    with open_executor(jobs=2) as executor:
        yield executor


@contextmanager
def dask() -> Iterator[Executor]:
    with open_executor("dask", jobs=2) as executor:
        yield executor


@contextmanager
def dask_at_an_address() -> Iterator[Executor]:
    with (
        local_dask(n_workers=2, threads_per_worker=1, processes=False, protocol="tcp") as cluster,
        open_executor("dask", address=cluster.scheduler_address) as executor,
    ):
        yield executor


@contextmanager
def ray() -> Iterator[Executor]:
    with ray_token(), open_executor("ray", jobs=2) as executor:
        yield executor


@contextmanager
def ray_at_an_address() -> Iterator[Executor]:
    with (
        ray_token(),
        ray_of_another_process() as address,
        open_executor("ray", address=address) as executor,
    ):
        yield executor


EXECUTORS: dict[str, Callable[[], AbstractContextManager[Executor]]] = {
    opened.__name__.replace("_", " "): opened
    for opened in (serial, threads, joblib, dask, dask_at_an_address, ray, ray_at_an_address)
}


def local_dask(**options: Any) -> AbstractContextManager[Any]:
    from distributed import LocalCluster

    cluster: AbstractContextManager[Any] = LocalCluster(dashboard_address=":0", **options)
    return cluster


TOKEN = secrets.token_hex(16)


@contextmanager
def ray_token() -> Iterator[None]:
    """Let every ray of this module have one token, rather than write one to the home directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", TOKEN)
        yield


RAY_UNTIL_INPUT_ENDS = """
import ray, sys
context = ray.init(
    address="local",
    num_cpus=2,
    include_dashboard=False,
    log_to_driver=False,
    _temp_dir=sys.argv[1],
)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
"""


@contextmanager
def ray_of_another_process() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # names of sockets must be short
    command = [sys.executable, "-c", RAY_UNTIL_INPUT_ENDS, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        with started(command, **pipes) as process:
            address = process.stdout.readline().strip()
            assert address, "ray did not start"
            yield address
            process.communicate(timeout=60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[Any]:
    """Start a program; whatever happens to the test, nothing is left of it."""
    with subprocess.Popen(command, text=True, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


SLOW = {"dask at an address", "ray", "ray at an address"}


def parameters(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in names]


@pytest.fixture(scope="module", params=parameters(EXECUTORS))
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with ExitStack() as stack:
        yield stack.enter_context(EXECUTORS[request.param]())


def only(*names: str) -> pytest.MarkDecorator:
    """Run a test with these executors."""
    return pytest.mark.parametrize("executor", parameters(names), indirect=True, scope="module")


def all_but(*names: str) -> pytest.MarkDecorator:
    return only(*(name for name in EXECUTORS if name not in names))


DESCRIPTIONS = {
    "serial": "this process",
    "threads": "2 threads",
    "joblib": "joblib, 2 processes",
    "dask": "dask, local, 2 processes",
    "dask at an address": r"dask at tcp://127\.0\.0\.1:\d+, 2 workers",
    "ray": "ray, local, 2 processes",
    "ray at an address": r"ray at [\d.]+:\d+, 2 workers",
}


class TestResults:
    def test_the_description_says_where_they_come_from(
        self, executor: Executor, request: pytest.FixtureRequest
    ) -> None:
        name = request.node.callspec.params["executor"]
        assert re.fullmatch(DESCRIPTIONS[name], executor.description)
        assert executor.workers == (1 if name == "serial" else 2)

    def test_each_arrives_once_and_there_are_more_than_fit_the_queue(
        self, executor: Executor
    ) -> None:
        results = list(executor.map_unordered(square, range(60)))
        assert sorted(results) == [number * number for number in range(60)]

    def test_no_tasks_no_results(self, executor: Executor) -> None:
        assert list(executor.map_unordered(square, [])) == []

    def test_functions_of_all_kinds(self, executor: Executor) -> None:
        offset = 10
        assert sorted(executor.map_unordered(lambda task: task + offset, range(3))) == [10, 11, 12]
        assert sorted(executor.map_unordered(functools.partial(pow, 2), range(3))) == [1, 2, 4]
        assert sorted(executor.map_unordered(Adder(5), range(3))) == [5, 6, 7]

    def test_arrays_belong_to_whoever_has_them(self, executor: Executor) -> None:
        (array,) = executor.map_unordered(change, [np.zeros(300_000)])
        array[1] = 2.0
        assert array[:3].tolist() == [1.0, 2.0, 0.0]

    def test_calls_start_in_the_order_of_the_tasks(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        most = 2 * executor.workers
        call = functools.partial(start_time_near_others, tmp_path, most)
        order = [number for _, number in sorted(executor.map_unordered(call, range(12)))]
        moves = [abs(number - place) for place, number in enumerate(order)]
        assert max(moves) <= most

    def test_tasks_may_be_endless(self, executor: Executor) -> None:
        tasks = itertools.count()
        results = executor.map_unordered(start_time, tasks)
        assert len(list(itertools.islice(results, 5))) == 5
        results.close()  # type: ignore[attr-defined]
        assert next(tasks) < 40

    def test_two_maps_one_after_the_other(self, executor: Executor) -> None:
        assert set(executor.map_unordered(abs, range(5))) == set(
            executor.map_unordered(abs, range(5))
        )


class TestSubmit:
    def test_a_call_and_its_result(self, executor: Executor) -> None:
        future = executor.submit(square, 3)
        assert executor.wait([future]) == {future}
        assert (future.done(), future.exception(), future.result()) == (True, None, 9)
        assert executor.submit(square, 4).result(timeout=60) == 16

    def test_what_a_call_raises(self, executor: Executor) -> None:
        future = executor.submit(fail_at_three, 3)
        executor.wait([future])
        assert type(future.exception()) is Mishap
        with pytest.raises(Mishap, match="three is too many"):
            executor.submit(fail_at_three, 3).result()

    def test_many_futures(self, executor: Executor) -> None:
        futures = {executor.submit(square, number): number for number in range(30)}
        found = []
        while futures:
            finished = executor.wait(futures)
            assert finished
            found += [(futures.pop(future), future.result()) for future in finished]
        assert sorted(found) == [(number, number * number) for number in range(30)]
        assert executor.wait([]) == set()

    @all_but("serial")
    def test_waiting_ends_with_the_first_or_the_timeout(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        slow, quick = (executor.submit(wait_for_trace, tmp_path / name) for name in ("a", "b"))
        began = time.monotonic()
        assert executor.wait([slow, quick], timeout=0.0) == set()
        assert executor.wait([slow, quick], timeout=0.05) == set()
        assert time.monotonic() - began >= 0.05
        with pytest.raises(TimeoutError):
            slow.result(timeout=0.01)
        leave_trace(tmp_path / "b")
        assert executor.wait([slow, quick]) == {quick}
        leave_trace(tmp_path / "a")
        assert executor.wait([slow]) == {slow}

    @all_but("serial")
    def test_cancelling_takes_back_what_has_not_begun(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        folder = tmp_path / "traces"
        folder.mkdir()
        paths = [folder / str(number) for number in range(30)]
        futures = [executor.submit(leave_trace_when_let, path) for path in paths]
        cancelled = {future for future in futures if future.cancel()}
        (tmp_path / "go").touch()
        assert 30 - 3 * executor.workers <= len(cancelled)
        assert executor.wait(futures) >= cancelled
        for future, path in zip(futures, paths, strict=True):
            if future not in cancelled:
                assert future.result() == path
        assert sorted(executor.map_unordered(square, range(3))) == [0, 1, 4]
        left = [path for future, path in zip(futures, paths, strict=True) if not future.cancelled()]
        assert set(folder.iterdir()) == set(left)

    @only("joblib", "ray", "dask")
    def test_what_cannot_be_sent_is_an_error_of_the_call(self, executor: Executor) -> None:
        with pytest.raises((TypeError, PicklingError), match=r"pickle|serialize"):
            executor.submit(repr, threading.Lock()).result()
        assert executor.submit(square, 2).result() == 4


class TestFailures:
    def test_an_exception_keeps_its_type_and_the_executor_goes_on(self, executor: Executor) -> None:
        with pytest.raises(Mishap, match="three is too many") as caught:
            list(executor.map_unordered(fail_at_three, range(9)))
        assert type(caught.value) is Mishap
        assert sorted(executor.map_unordered(square, range(3))) == [0, 1, 4]

    def test_closing_early_cancels_what_is_queued(self, executor: Executor, tmp_path: Path) -> None:
        results = executor.map_unordered(leave_trace, [tmp_path / str(n) for n in range(100)])
        next(results)
        results.close()  # type: ignore[attr-defined]
        assert list(results) == []
        assert sorted(executor.map_unordered(square, range(3))) == [0, 1, 4]
        traces = len(list(tmp_path.iterdir()))
        time.sleep(0.3)
        assert traces <= len(list(tmp_path.iterdir())) < 20

    @pytest.mark.long
    @only("joblib", "dask", "ray")
    def test_a_call_that_always_kills_its_worker(self, executor: Executor) -> None:
        with pytest.raises(WorkerLost, match=r"^(joblib|dask|ray) lost a worker: .*\.$"):
            list(executor.map_unordered(die, [1]))
        assert sorted(executor.map_unordered(square, range(3))) == [0, 1, 4]

    @pytest.mark.long
    @only("dask", "ray")
    def test_clusters_try_again(self, executor: Executor, tmp_path: Path) -> None:
        assert list(executor.map_unordered(die_once, [tmp_path / "died"])) == ["alive"]

    def test_after_a_lost_worker_another_executor_works(self) -> None:
        with open_executor(jobs=2) as first, pytest.raises(WorkerLost):
            list(first.map_unordered(die, [1]))
        with open_executor(jobs=2) as second:
            assert sorted(second.map_unordered(square, range(3))) == [0, 1, 4]


class TestClosing:
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_a_closed_executor_runs_nothing(self, jobs: int) -> None:
        with open_executor(jobs=jobs) as executor:
            results = executor.map_unordered(square, range(9))
            next(results)
        assert list(results) == []
        executor.close()
        with pytest.raises(ProtocolError, match="the executor must be open but was closed"):
            executor.map_unordered(square, range(3))

    @only("ray", "ray at an address")
    def test_ray_that_was_there_before_stays(self, executor: Executor) -> None:
        with open_executor("ray") as second:
            assert second.workers == 2
            assert sorted(second.map_unordered(square, range(3))) == [0, 1, 4]
        assert sorted(executor.map_unordered(square, range(3))) == [0, 1, 4]

    @only("ray")
    def test_ray_is_one_per_process(self, executor: Executor) -> None:
        with pytest.raises(InvalidParameter, match=r"the ray this process uses.* 'elsewhere:1'"):
            open_executor("ray", address="elsewhere:1")
        assert executor.workers == 2


UNTIL_INTERRUPTED = """
import sys, time
import psutil
from oddarms.executors import open_executor

if __name__ == "__main__":
    try:
        with open_executor(sys.argv[1], jobs=2) as executor:
            for result in executor.map_unordered(time.sleep, [0.1, 60, 60, 60, 60, 60]):
                print("running", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    for process in psutil.Process().children(recursive=True):
        if "resource_tracker" not in " ".join(process.cmdline()):
            print("left", process)
"""


@pytest.mark.parametrize(
    "backend",
    ["joblib", *(pytest.param(name, marks=pytest.mark.long) for name in ("dask", "ray"))],
)
def test_ctrl_c_ends_everything_without_a_word(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNTIL_INTERRUPTED)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    assert interrupted([str(script), backend], **token) == (0, "interrupted\n", "")


def interrupted(words: list[str], **environment: str) -> tuple[int, str, str]:
    """Return the end of a script that is interrupted when it says "running"."""
    with started(
        [sys.executable, *words],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == "running\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors


def test_an_interrupt_waits_until_the_workers_have_started() -> None:
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        with shielded_from_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            early = list(arrived)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (early, arrived) == ([], [signal.SIGINT])


OPEN = """
import sys
from oddarms.executors import _dask, open_executor
_dask.CONNECT_SECONDS = 0.5
try:
    open_executor(sys.argv[1], address=sys.argv[2])
except OSError as error:
    print(type(error).__name__, error)
"""


def refusal(backend: str, address: str, **environment: str) -> str:
    """Return why there is no executor, if nothing else was printed."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, backend, address],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.stdout


TYPED = """
import sys, warnings
warnings.simplefilter("error")
from oddarms.executors import open_executor

class Point:
    def __init__(self, x):
        self.x = x

def double(point):
    return Point(2 * point.x)

if __name__ == "__main__":
    with open_executor(sys.argv[1], jobs=2) as executor:
        print(sorted(point.x for point in executor.map_unordered(double, map(Point, range(3)))))
"""


SLOW_FEEDER = """
import threading, time
from joblib.externals.loky.backend import queues, resource_tracker

feed, unregister = queues.Queue._feed, resource_tracker.unregister

def feed_and_stay(*arguments):
    feed(*arguments)
    time.sleep(0.05)

def unregister_slowly(*arguments):
    if threading.current_thread().name == "QueueFeederThread":
        time.sleep(0.3)
    unregister(*arguments)

queues.Queue._feed = staticmethod(feed_and_stay)
resource_tracker.unregister = unregister_slowly
"""


@pytest.mark.parametrize(
    "script",
    [TYPED, SLOW_FEEDER + TYPED + "    time.sleep(0.1)"],
    ids=["", "locks given back late"],
)
def test_functions_and_classes_that_were_typed_in(script: str) -> None:
    """They belong to no module that a worker could import; nothing is left for loky to report."""
    done = subprocess.run(
        [sys.executable, "-", "joblib"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("[0, 2, 4]\n", "")


class TestUnavailable:
    @pytest.mark.parametrize(
        ("backend", "address"),
        [
            ("dask", "tcp://127.0.0.1:1"),
            ("dask", "nonsense"),
            ("ray", "127.0.0.1:1"),
            pytest.param("ray", "ray://127.0.0.1:1", marks=pytest.mark.long),
            pytest.param("ray", "nonsense", marks=pytest.mark.long),
        ],
    )
    def test_one_sentence_with_the_address(self, backend: str, address: str) -> None:
        words = refusal(backend, address)
        assert re.fullmatch(
            rf"BackendUnavailable {backend} at {address} cannot be reached: .*\.\n", words
        )

    @only("ray at an address")
    def test_ray_with_another_token(self, executor: Executor) -> None:
        address = executor.description.split()[2].rstrip(",")
        words = refusal("ray", address, RAY_AUTH_TOKEN="x" * 32, RAY_NUM_REDIS_GET_RETRIES="1")
        assert "it asks for an authentication token" in words

    @pytest.mark.parametrize(
        ("answer", "seconds", "reason"),
        [
            (b"HTTP/1.1 400 Bad Request\r\n", 60.0, "what answers is not a dask scheduler"),
            (b"", 0.2, r"no answer within \d+ seconds"),
        ],
    )
    def test_something_that_is_no_scheduler(
        self, answer: bytes, seconds: float, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.executors._dask.CONNECT_SECONDS", seconds)
        with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:

            def accept() -> None:
                stack.enter_context(server.accept()[0]).sendall(answer)

            threading.Thread(target=accept, daemon=True).start()
            with pytest.raises(BackendUnavailable, match=reason):
                open_executor("dask", address=f"tcp://127.0.0.1:{server.getsockname()[1]}")

    def test_a_worker_is_no_scheduler(self) -> None:
        with local_dask(n_workers=1, processes=False, protocol="tcp") as cluster:
            (worker,) = cluster.workers.values()
            with pytest.raises(BackendUnavailable, match="what answers is not a dask scheduler"):
                open_executor("dask", address=worker.address)

    def test_a_cluster_without_workers(self) -> None:
        with (
            local_dask(n_workers=0, processes=False, protocol="tcp") as cluster,
            pytest.raises(BackendUnavailable, match=r"dask at tcp://.* has no workers\."),
        ):
            open_executor("dask", address=cluster.scheduler_address)

    def test_a_scheduler_that_goes_away(self) -> None:
        with local_dask(n_workers=1, processes=False, protocol="tcp") as cluster:
            executor = open_executor("dask", address=cluster.scheduler_address)
            results = executor.map_unordered(time.sleep, [0.1, 1.0, 1.0, 1.0, 1.0])
            next(results)
        with executor, pytest.raises(BackendUnavailable, match="the scheduler went away"):
            list(results)

    def test_only_the_first_sentence_of_what_a_library_says(self) -> None:
        assert sentence_of("It failed. Read this page.\nAnd this.") == "It failed."
        assert sentence_of(OSError()) == "OSError."


class TestParameters:
    def test_backends(self) -> None:
        known = "'serial', 'threads', 'joblib', 'dask', 'ray'"
        with pytest.raises(InvalidParameter, match=f"backend must be one of {known} but got 'mpi'"):
            open_executor("mpi")

    @pytest.mark.parametrize("jobs", [0, -1, 1.5, "2", True])
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_jobs(self, backend: str, jobs: Any) -> None:
        with pytest.raises(InvalidParameter, match="jobs must be a whole number of at least 1"):
            open_executor(backend, jobs=jobs)

    @pytest.mark.parametrize(
        ("backend", "options", "message"),
        [
            ("joblib", {"address": "host:1"}, "address must be left out with the backend 'joblib'"),
            ("threads", {"address": "host:1"}, "address must be left out with the backend"),
            ("dask", {"address": ""}, "address must be a text such as 'host:port' but got ''"),
            ("ray", {"address": 8786}, "address must be a text such as 'host:port' but got 8786"),
            ("ray", {"address": "host:1", "jobs": 2}, "jobs must be left out with an address"),
        ],
    )
    def test_address(self, backend: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            open_executor(backend, **options)

    def test_one_thread_has_no_jobs(self) -> None:
        with pytest.raises(InvalidParameter, match="jobs must be left out with the backend 'ser"):
            open_executor("serial", jobs=2)
        with open_executor("serial", jobs=1) as executor:
            assert executor.description == "this process"

    def test_by_default_one_process_for_each_core(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "cpu_count", lambda: 5)
        with open_executor() as executor:
            assert executor.description == "joblib, 5 processes"


def test_processes_that_may_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
    with pytest.raises(BackendUnavailable, match=r"joblib cannot start processes .* jobs=1"):
        open_executor(jobs=2)


class TestMissingPackages:
    @pytest.mark.parametrize(
        ("backend", "package", "extra"),
        [("joblib", "joblib", "parallel"), ("dask", "distributed", "dask"), ("ray", "ray", "ray")],
    )
    def test_the_message_has_the_command(
        self, backend: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtra, match=rf"pip install 'oddarms\[{extra}\]'"):
            open_executor(backend, jobs=2)

    def test_one_process_needs_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for package in ("joblib", "distributed", "ray"):
            monkeypatch.setitem(sys.modules, package, None)
        with open_executor(jobs=1) as executor:
            assert list(executor.map_unordered(square, [1, 2])) == [1, 4]

    def test_importing_loads_none(self) -> None:
        code = (
            "import sys, oddarms.executors\n"
            "print({'joblib', 'dask', 'distributed', 'ray'} & set(sys.modules))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.strip() == "set()"


class TestThisThread:
    def test_a_call_is_made_when_it_is_submitted(self) -> None:
        with open_executor("serial") as executor:
            future = executor.submit(lambda _: threading.current_thread(), None)
            assert future.done()
            assert future.result() is threading.current_thread()

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_what_ends_a_program_is_not_kept(self, error: type[BaseException]) -> None:
        def end(_: int) -> None:
            raise error

        with open_executor("serial") as executor, pytest.raises(error):
            executor.submit(end, 1)

    def test_a_map_makes_each_call_when_its_result_is_asked_for(self) -> None:
        made: list[int] = []
        with open_executor("serial") as executor:
            results = executor.map_unordered(made.append, range(5))
            next(results)
            assert made == [0]
            next(results)
            assert made == [0, 1]


class TestThreads:
    def test_as_many_calls_at_once_as_jobs(self) -> None:
        barrier = threading.Barrier(3)
        with open_executor("threads", jobs=3) as executor:
            found = executor.map_unordered(lambda _: barrier.wait(timeout=60), range(6))
            assert sorted(found) == [0, 0, 1, 1, 2, 2]

    def test_closing_waits_for_calls_that_have_begun_and_takes_back_the_others(self) -> None:
        made: list[int] = []
        begun, release = threading.Event(), threading.Event()

        def call(number: int) -> None:
            begun.set()
            release.wait(120.0)
            made.append(number)

        def release_after_the_others_are_taken_back() -> None:
            begun.wait(120.0)
            deadline = time.monotonic() + 60.0
            while not futures[-1].cancelled() and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(0.1)  # in which one who does not wait would go on
            release.set()

        releaser = threading.Thread(target=release_after_the_others_are_taken_back)
        with open_executor("threads", jobs=1) as executor:
            futures = [executor.submit(call, number) for number in range(5)]
            assert begun.wait(120.0)
            releaser.start()
        assert made == [0]
        assert [future.cancelled() for future in futures] == [False, True, True, True, True]
        releaser.join()
        with pytest.raises(ProtocolError, match="the executor must be open but was closed"):
            executor.submit(call, 6)


async def later(number: float) -> float:
    await asyncio.sleep(0.01)
    return number


async def never(_: object) -> None:
    await asyncio.Event().wait()


class Connection:
    """Asks a server by one connection, which the first call opens and belongs to its loop."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.lock: asyncio.Lock | None = None

    async def __call__(self, word: str) -> str:
        if self.lock is None:
            self.lock = asyncio.Lock()
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        async with self.lock:
            self.writer.write(f"{word}\n".encode())
            return (await self.reader.readline()).decode().strip()

    async def close(self, _: object) -> None:
        self.writer.close()
        await self.writer.wait_closed()


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line.upper())


@contextmanager
def echo() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if asyncio has something to say, such as of an exception that nobody has seen."""
    with caplog.at_level("WARNING", "asyncio"):
        yield
    gc.collect()
    assert caplog.records == []


@pytest.mark.usefixtures("silent")
class TestEventLoop:
    def test_many_at_once_in_this_thread(self) -> None:
        threads = set()

        async def call(number: int) -> int:
            threads.add(threading.current_thread())
            await asyncio.sleep(0.2)
            return number

        began = time.monotonic()
        with AsyncExecutor() as executor:
            assert (executor.description, executor.workers) == ("this event loop", 100)
            assert sorted(executor.map_unordered(call, range(100))) == list(range(100))
        assert time.monotonic() - began < 10.0
        assert threads == {threading.current_thread()}

    def test_no_more_at_once_than_jobs(self) -> None:
        under_way, most = 0, 0

        async def call(_: int) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.001)
            under_way -= 1

        with AsyncExecutor(3) as executor:
            list(executor.map_unordered(call, range(20)))
        assert most == 3

    def test_futures(self) -> None:
        with AsyncExecutor(2) as executor:
            futures = [executor.submit(later, number) for number in range(5)]
            assert not futures[0].done()
            assert [future.cancel() for future in futures] == [False, False, True, True, True]
            assert executor.wait(futures) == set(futures[2:])
            assert [future.result() for future in futures[:2]] == [0, 1]
            assert executor.wait([executor.submit(never, 0)], timeout=0.05) == set()

    def test_one_loop_for_its_life(self) -> None:
        with echo() as port, AsyncExecutor(4) as executor:
            ask = Connection(port)
            assert executor.submit(ask, "one").result() == "ONE"
            assert sorted(executor.map_unordered(ask, ["a", "b", "c"])) == ["A", "B", "C"]
            assert executor.submit(ask.close, None).result() is None

    def test_callables_of_all_kinds(self) -> None:
        class Object:
            async def __call__(self, number: int) -> int:
                return number

        with AsyncExecutor() as executor:
            assert executor.submit(functools.partial(later), 1).result() == 1
            assert executor.submit(lambda number: later(number), 2).result() == 2
            assert executor.submit(Object(), 3).result() == 3
            assert isinstance(executor.submit(abs, -1).exception(), TypeError)

    def test_exceptions(self) -> None:
        async def fail(_: int) -> None:
            raise Mishap("no")

        async def cancel(_: int) -> None:
            raise asyncio.CancelledError

        async def cancel_oneself(_: int) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

        with AsyncExecutor() as executor:
            assert isinstance(executor.submit(fail, 1).exception(), Mishap)
            for function in (cancel, cancel_oneself):
                future = executor.submit(function, 1)
                assert executor.wait([future], timeout=60.0) == {future}
                assert isinstance(future.exception(), CancelledError)
            with pytest.raises(Mishap):
                list(executor.map_unordered(fail, range(200)))
            assert executor.submit(later, 1).result() == 1

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_what_ends_a_program(self, error: type[BaseException]) -> None:
        async def end(_: int) -> None:
            raise error

        with AsyncExecutor() as executor:
            ending, other = executor.submit(end, 1), executor.submit(later, 2)
            with pytest.raises(error):
                executor.wait([ending])
            assert executor.wait([ending, other], timeout=60.0) >= {ending}
            assert isinstance(ending.exception(), error)
            assert other.result() == 2

    def test_ctrl_c_ends_waiting_and_spoils_no_call(self) -> None:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))

        async def never_but_interrupt_soon(_: object) -> None:
            timer.start()  # not before somebody waits
            await never(_)

        with AsyncExecutor() as executor:
            futures = [executor.submit(later, 1), executor.submit(never_but_interrupt_soon, 2)]
            with pytest.raises(KeyboardInterrupt):
                executor.wait(futures[1:])
            timer.join()
            assert executor.wait(futures) == {futures[0]}
        assert isinstance(futures[1].exception(), CancelledError)

    def test_closing_cancels_and_lets_calls_clean_up(self) -> None:
        ended: list[int] = []

        async def call(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.001)
                ended.append(number)

        with AsyncExecutor(3) as executor:
            futures = [executor.submit(call, number) for number in range(5)]
            assert executor.wait(futures, timeout=0.01) == set()
            unstarted = AsyncExecutor()
            unstarted.submit(never, 1)
            unstarted.close()
        assert ended == [0, 1, 2]
        assert all(future.done() for future in futures)
        with pytest.raises(CancelledError):
            futures[0].result()
        with pytest.raises(ProtocolError, match="the executor must be open but was closed"):
            executor.submit(later, 1)
        executor.close()

    def test_a_map_that_is_left_early(self) -> None:
        with AsyncExecutor(2) as executor:
            results = executor.map_unordered(later, itertools.count())
            assert next(results) in (0, 1)
            results.close()  # type: ignore[attr-defined]
            assert executor.submit(later, 7).result() == 7

    def test_where_a_loop_runs_already(self) -> None:
        def search() -> float:
            with AsyncExecutor() as executor:
                return executor.submit(later, 3.0).result()

        async def notebook() -> float:
            remedy = r"await asyncio\.to_thread\(oddarms\.find, \.\.\.\)"
            with pytest.raises(ProtocolError, match=remedy):
                search()
            return await asyncio.to_thread(search)

        assert asyncio.run(notebook()) == 3.0


LOOP_UNTIL_INTERRUPTED = """
import asyncio
from oddarms.executors import AsyncExecutor

async def call(number):
    if number == 0:
        print("running", flush=True)
    await asyncio.sleep(60)

try:
    with AsyncExecutor() as executor:
        for _ in executor.map_unordered(call, range(500)):
            pass
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_an_event_loop_without_a_word() -> None:
    words = ["-W", "error", "-X", "dev", "-c", LOOP_UNTIL_INTERRUPTED]
    assert interrupted(words) == (0, "interrupted\n", "")


class TestWhatAUserHas:
    def test_nothing(self) -> None:
        for jobs, description in [(None, "this process"), (1, "this process"), (3, "3 threads")]:
            with as_executor(None, jobs) as executor:
                assert executor.description == description
                assert executor.submit(square, 2).result() == 4

    def test_a_pool_of_threads_stays_open(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            with as_executor(pool) as executor:
                assert executor.description == "ThreadPoolExecutor, 2 workers"
                assert sorted(executor.map_unordered(square, range(9))) == [
                    number * number for number in range(9)
                ]
                assert isinstance(executor.submit(fail_at_three, 3).exception(), Mishap)
            assert pool.submit(square, 3).result() == 9
            with as_executor(pool, 5) as executor:
                assert executor.workers == 5

    def test_closing_takes_back_our_calls_but_not_those_of_others(self) -> None:
        release = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            blocking = pool.submit(release.wait, 60)
            theirs = pool.submit(square, 3)
            with as_executor(pool) as executor:
                ours: Future[int] = executor.submit(square, 2)
                assert not ours.running()
                assert not ours.done()
            assert ours.cancelled()
            assert executor.wait([ours]) == {ours}
            release.set()
            assert (blocking.result(), theirs.result()) == (True, 9)

    def test_a_pool_whose_process_dies(self) -> None:
        with (
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
            as_executor(pool) as executor,
        ):
            assert executor.submit(square, 3).result() == 9
            with pytest.raises(WorkerLost, match="lost a worker: A process in the process pool"):
                executor.submit(die, 1).result()
            with pytest.raises(WorkerLost):
                executor.submit(square, 1)

    def test_one_of_ours_stays_open(self) -> None:
        with open_executor("threads", jobs=2) as mine:
            with as_executor(mine) as executor:
                assert (executor.description, executor.workers) == ("2 threads", 2)
                assert sorted(executor.map_unordered(square, range(5))) == [0, 1, 4, 9, 16]
            with pytest.raises(ProtocolError):
                executor.submit(square, 1)
            assert mine.submit(square, 3).result() == 9

    @only("joblib")
    def test_processes_of_ours(self, executor: Executor) -> None:
        with as_executor(executor, 1) as borrowed:
            futures = [borrowed.submit(square, number) for number in range(9)]
            while not all(future.done() for future in futures):
                borrowed.wait([future for future in futures if not future.done()])
        assert [future.result() for future in futures] == [number**2 for number in range(9)]
        with as_executor(executor) as borrowed:
            slow = borrowed.submit(time.sleep, 60)
        assert isinstance(slow.exception(), CancelledError)
        assert executor.submit(square, 3).result(timeout=60) == 9

    def test_a_dask_client_stays_open(self) -> None:
        from distributed import Client

        with (
            local_dask(n_workers=1, threads_per_worker=2, processes=False) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            with as_executor(client) as executor:
                assert re.fullmatch(r"dask at inproc://.*, 2 workers", executor.description)
                draws = {executor.submit(draw, 1).result() for _ in range(5)}
                assert len(draws) == 5  # dask takes equal calls for one unless told
            assert client.submit(square, 3).result() == 9
            with pytest.raises(InvalidParameter, match="must be the dask Client itself"):
                as_executor(client.get_executor())

    @only("ray")
    def test_the_ray_module(self, executor: Executor) -> None:
        import ray

        for jobs, workers in [(None, 2), (3, 3)]:
            with as_executor(ray, jobs) as same:
                assert same.workers == workers
                assert sorted(same.map_unordered(Adder(1), range(5))) == [1, 2, 3, 4, 5]
        assert executor.submit(square, 3).result() == 9

    @pytest.mark.long
    def test_ray_must_be_initialised(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import ray

        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        with pytest.raises(InvalidParameter, match=r"must be ray after ray\.init\(\)"):
            as_executor(ray, 2)

    @pytest.mark.parametrize("thing", [3, "dask", object(), subprocess])
    def test_anything_else(self, thing: Any) -> None:
        with pytest.raises(InvalidParameter, match=r"executor must be a concurrent\.futures exec"):
            as_executor(thing, 2)

    @pytest.mark.parametrize("jobs", [0, 1.5, "2"])
    def test_jobs(self, jobs: Any) -> None:
        with pytest.raises(InvalidParameter, match="jobs must be a whole number of at least 1"):
            as_executor(None, jobs)


def draw(_: int) -> float:
    return secrets.randbelow(10**9)
