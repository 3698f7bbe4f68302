"""Calls in processes of this machine, by joblib's loky."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import BrokenExecutor, Future
from typing import Any

from oddarms.errors import BackendUnavailable, MissingExtra
from oddarms.executors._base import count_of, shielded_from_interrupts, worker_lost
from oddarms.executors._staged import StagedExecutor
from oddarms.interrupts import uninterrupted

_HANDED_ON_SECONDS = 5.0  # where a millisecond is enough

_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


class JoblibExecutor(StagedExecutor):
    """Runs calls in processes that start with the first call, and again after one has died."""

    def __init__(self, jobs: int) -> None:
        try:
            import joblib  # noqa: F401
        except ImportError:
            raise MissingExtra.of("parallel", f"jobs={jobs}") from None
        if multiprocessing.current_process().daemon:
            raise BackendUnavailable(
                "joblib cannot start processes in a process that may have none, such as a worker of"
                " multiprocessing or dask: give jobs=1."
            )
        described = f"joblib, {count_of(jobs, 'process', 'processes')}"
        super().__init__(described, workers=jobs, most=2 * jobs)
        self._pool: Any = None

    def _begin(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        with shielded_from_interrupts():
            try:
                return self._submit_to_pool(function, argument)
            except BrokenExecutor:
                self._end_pool()
                return self._submit_to_pool(function, argument)

    def _submit_to_pool(self, function: Callable[[Any], Any], argument: Any) -> Future[Any]:
        from joblib.externals.loky import ProcessPoolExecutor

        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.workers, env=_environment(self.workers))
        future: Future[Any] = self._pool.submit(function, argument)
        future.add_done_callback(self._bell.ring)
        return future

    def _finished(
        self, handles: Collection[Future[Any]], timeout: float | None
    ) -> Iterable[Future[Any]]:
        return self._when_one_is_done(handles, timeout)

    def _outcome(self, handle: Future[Any]) -> tuple[BaseException | None, Any]:
        error = handle.exception()
        if isinstance(error, BrokenExecutor):
            lost = worker_lost("joblib", error)
            lost.__cause__ = error
            return lost, None
        return error, None if error is not None else handle.result()

    def _stop(self, handles: Collection[Future[Any]]) -> None:  # noqa: ARG002
        if all(future.done() for future in self._begun.values()):  # else others need the processes
            self._end_pool()

    def _release(self) -> None:
        self._end_pool()

    def _end_pool(self) -> None:
        if self._pool is None:
            return
        self._wait_until_handed_on()
        feeder = _feeder(self._pool)
        self._pool.shutdown(wait=True, kill_workers=True)
        self._pool = None
        if feeder is not None:  # it has the last locks, and may not give them back at exit
            feeder.join(_HANDED_ON_SECONDS)

    def _wait_until_handed_on(self) -> None:
        """Let loky's thread put calls into its queue, or it fails for want of those we kill."""
        end = time.monotonic() + _HANDED_ON_SECONDS
        while time.monotonic() < end and not self._handed_on():
            time.sleep(0.001)

    def _handed_on(self) -> bool:
        with uninterrupted():
            return all(future.running() or future.done() for future in self._begun)


def _feeder(pool: Any) -> threading.Thread | None:
    """Return the thread that puts calls into a pool's queue; shutting down does not wait for it."""
    return getattr(getattr(pool, "_call_queue", None), "_thread", None)


def _environment(jobs: int) -> dict[str, str]:
    """Return variables by which libraries start no more threads than there are cores in all."""
    from joblib import cpu_count

    threads = max(cpu_count() // jobs, 1)
    return {name: os.environ.get(name, str(threads)) for name in _THREADS}
