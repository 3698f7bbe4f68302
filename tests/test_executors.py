"""Calls in this process, in others and on clusters: the same results, and clear words if not."""

from __future__ import annotations

import functools
import itertools
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
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
from oddarms.executors import BACKENDS, Executor, open_executor
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
    time.sleep(0.2)
    path.touch()
    return path


def start_time(number: int) -> tuple[float, int]:
    started = time.time()
    time.sleep(0.1)
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
        local_dask(n_workers=2, threads_per_worker=1) as cluster,
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
context = ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
print(context.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
"""


@contextmanager
def ray_of_another_process() -> Iterator[str]:
    command = [sys.executable, "-c", RAY_UNTIL_INPUT_ENDS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


@pytest.fixture(scope="module", params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with ExitStack() as stack:
        yield stack.enter_context(EXECUTORS[request.param]())


def only(*names: str) -> pytest.MarkDecorator:
    """Run a test with these executors."""
    return pytest.mark.parametrize("executor", names, indirect=True)


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

    def test_calls_start_in_the_order_of_the_tasks(self, executor: Executor) -> None:
        order = [number for _, number in sorted(executor.map_unordered(start_time, range(12)))]
        moves = [abs(number - place) for place, number in enumerate(order)]
        assert max(moves) <= 2 * executor.workers

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
        time.sleep(0.5)
        assert traces <= len(list(tmp_path.iterdir())) < 20

    @only("joblib", "dask", "ray")
    def test_a_call_that_always_kills_its_worker(self, executor: Executor) -> None:
        with pytest.raises(WorkerLost, match=r"^(joblib|dask|ray) lost a worker: .*\.$"):
            list(executor.map_unordered(die, [1]))
        assert sorted(executor.map_unordered(square, range(3))) == [0, 1, 4]

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
        with pytest.raises(ProtocolError, match="the executor is closed"):
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


@pytest.mark.parametrize("backend", ["joblib", "dask", "ray"])
def test_ctrl_c_ends_everything_without_a_word(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNTIL_INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, str(script), backend],
        env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "interrupted\n", "")


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
_dask.CONNECT_SECONDS = 3.0
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
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout


class TestUnavailable:
    @pytest.mark.parametrize(
        ("backend", "address"),
        [
            ("dask", "tcp://127.0.0.1:1"),
            ("dask", "nonsense"),
            ("ray", "127.0.0.1:1"),
            ("ray", "ray://127.0.0.1:1"),
            ("ray", "nonsense"),
        ],
    )
    def test_one_sentence_with_the_address(self, backend: str, address: str) -> None:
        started = time.monotonic()
        words = refusal(backend, address)
        assert re.fullmatch(
            rf"BackendUnavailable {backend} at {address} cannot be reached: .*\.\n", words
        )
        assert time.monotonic() - started < 30

    @only("ray at an address")
    def test_ray_with_another_token(self, executor: Executor) -> None:
        address = executor.description.split()[2].rstrip(",")
        words = refusal("ray", address, RAY_AUTH_TOKEN="x" * 32, RAY_NUM_REDIS_GET_RETRIES="1")
        assert "it asks for an authentication token" in words

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (b"HTTP/1.1 400 Bad Request\r\n", "what answers is not a dask scheduler"),
            (b"", r"no answer within \d+ seconds"),
        ],
    )
    def test_something_that_is_no_scheduler(
        self, answer: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.executors._dask.CONNECT_SECONDS", 2.0)
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
            ("dask", {"address": ""}, "address must be a text such as 'host:port' but got ''"),
            ("ray", {"address": 8786}, "address must be a text such as 'host:port' but got 8786"),
            ("ray", {"address": "host:1", "jobs": 2}, "jobs must be left out with an address"),
        ],
    )
    def test_address(self, backend: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidParameter, match=message):
            open_executor(backend, **options)

    def test_by_default_one_process_for_each_core(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "cpu_count", lambda: 5)
        with open_executor() as executor:
            assert executor.description == "joblib, 5 processes"


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
