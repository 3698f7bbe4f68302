"""Calls on ray: a cluster at an address, the ray of this process, or one for the occasion."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from typing import Any

from oddarms.errors import BackendUnavailable, InvalidParameter, MissingExtra
from oddarms.executors._base import (
    CONNECT_SECONDS,
    Executor,
    count_of,
    sentence_of,
    unreachable,
    worker_lost,
)
from oddarms.executors._staged import StagedExecutor

_QUIET = {"logging_level": logging.CRITICAL, "log_to_driver": False}

_SHORT = "/tmp"  # the names of sockets have 107 bytes at most, of which ray needs 60

_END_SECONDS = 10.0

_TRIAL_SECONDS = 30.0  # of which the proxy at ray:// may need several to start a server

_TRIAL = """
import sys
import ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False)
except Exception as error:
    print(error)
    sys.exit(1)
ray.shutdown()
"""


def open_ray(jobs: int, address: str | None) -> Executor:
    """Return an executor on the cluster at the address, or on a new one with that many processes.

    If this process has already called ``ray.init``, that ray is used, and left running.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtra.of("ray", "the backend 'ray'") from None
    if ray.is_initialized():
        return _initialised(address)
    return _local(jobs) if address is None else _at(address)


def with_ray(ray: Any, jobs: int | None) -> Executor:
    """Return an executor on the ray that this process has initialised, which stays."""
    if not ray.is_initialized():
        raise InvalidParameter(
            "executor must be ray after ray.init() but that was not called: call it first."
        )
    executor = _initialised(None)
    return executor if jobs is None else RayExecutor(executor.description, jobs, ExitStack())


def _initialised(address: str | None) -> RayExecutor:
    import ray

    known = ray.get_runtime_context().gcs_address
    if address not in (None, known):
        raise InvalidParameter(
            f"address must be that of the ray this process uses, {known}, but got {address!r}: "
            "ray.shutdown() leaves it."
        )
    return _on_cluster(known, ExitStack())


def _local(jobs: int) -> RayExecutor:
    import ray

    with ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix="ray", dir=_SHORT if os.access(_SHORT, os.W_OK) else None)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(_end_local)
        try:
            ray.init(
                address="local",
                num_cpus=jobs,
                include_dashboard=False,
                _temp_dir=folder,  # shares nothing with other rays of this machine
                **_QUIET,
            )
        except Exception as error:
            raise BackendUnavailable(
                f"a local ray cannot be started: {sentence_of(error)}"
            ) from error
        described = f"ray, local, {count_of(jobs, 'process', 'processes')}"
        return RayExecutor(described, jobs, stack.pop_all())


def _end_local() -> None:
    """End the ray of this process, and wait for its processes longer than ray itself does."""
    import ray

    node = getattr(sys.modules.get("ray._private.worker"), "_global_node", None)
    started = getattr(node, "all_processes", {}).values()
    processes = [information.process for kind in started for information in kind]
    ray.shutdown()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)


def _at(address: str) -> RayExecutor:
    import ray

    _require_listener(address)
    _try_elsewhere(address)
    try:
        ray.init(address=address, **_QUIET)
    except Exception as error:
        raise unreachable("ray", address, error) from error
    with ExitStack() as stack:
        stack.callback(ray.shutdown)
        return _on_cluster(address, stack)


def _require_listener(address: str) -> None:
    """Raise if nothing listens at host:port, which ray itself takes minutes to notice."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return  # "auto", or something that ray itself will refuse
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise unreachable("ray", address, getattr(error, "strerror", None) or error) from None


def _try_elsewhere(address: str) -> None:
    """Connect in another process first: ray tries for minutes, prints and may end the process."""
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said, reason = str(error.stderr), f"no answer within {_TRIAL_SECONDS:.0f} seconds"
    else:
        if trial.returncode == 0:
            return
        said, reason = trial.stderr, trial.stdout or "ray gave up"
    if "InvalidAuthToken" in said:
        reason = "it asks for an authentication token, see RAY_AUTH_MODE in ray's documentation"
    raise unreachable("ray", address, reason)


def _on_cluster(address: str, opened: ExitStack) -> RayExecutor:
    import ray

    workers = int(ray.cluster_resources().get("CPU", 0))
    if workers == 0:
        raise BackendUnavailable(f"ray at {address} has no CPUs.")
    described = f"ray at {address}, {count_of(workers, 'worker', 'workers')}"
    return RayExecutor(described, workers, opened.pop_all())


class RayExecutor(StagedExecutor):
    """Runs calls as tasks of the ray that this process is connected to."""

    def __init__(self, description: str, workers: int, opened: ExitStack) -> None:
        import ray

        super().__init__(description, workers, most=2 * workers)
        self._opened = opened
        self._remote = ray.remote(_call)
        self._shipped: tuple[Any, Any] = (None, None)

    def _begin(self, function: Callable[[Any], Any], argument: Any) -> Any:
        import ray
        from ray import cloudpickle

        if self._shipped[0] is not function:  # which may be large: it goes to the cluster once
            shared = ray.put((sys.path, cloudpickle.dumps(function)))
            self._shipped = (function, shared)
        return self._remote.remote(self._shipped[1], cloudpickle.dumps(argument))

    def _finished(self, handles: Collection[Any], timeout: float | None) -> Iterable[Any]:
        import ray

        finished, others = ray.wait(list(handles), timeout=timeout)
        if finished and others:
            finished.extend(ray.wait(others, num_returns=len(others), timeout=0)[0])
        return list(finished)

    def _outcome(self, handle: Any) -> tuple[BaseException | None, Any]:
        try:
            return None, pickle.loads(_get(handle))
        except Exception as error:
            return error, None

    def _stop(self, handles: Collection[Any]) -> None:
        import ray

        for reference in handles:
            ray.cancel(reference, force=True)

    def _release(self) -> None:
        self._shipped = (None, None)
        self._opened.close()


def _call(shared: tuple[list[str], bytes], task: bytes) -> bytes:
    """Call the function in a worker, which can import what this process can.

    Task and result are pickled, because arrays in ray's own store are read-only.
    """
    from ray import cloudpickle

    path, function = shared
    sys.path.extend(entry for entry in path if entry not in sys.path)
    result: bytes = cloudpickle.dumps(pickle.loads(function)(pickle.loads(task)))
    return result


def _get(reference: Any) -> bytes:
    """Return what a call returned, or raise what it raised rather than ray's wrapper of it."""
    import ray
    from ray import exceptions

    try:
        result: bytes = ray.get(reference)
    except exceptions.RayTaskError as error:
        if isinstance(error.cause, Exception):
            raise error.cause from error
        raise
    except (
        exceptions.NodeDiedError,
        exceptions.ObjectLostError,
        exceptions.OutOfMemoryError,
        exceptions.WorkerCrashedError,
    ) as error:
        raise worker_lost("ray", error) from error
    return result
