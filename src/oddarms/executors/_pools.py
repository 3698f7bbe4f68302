"""Calls in threads, in a pool of `concurrent.futures`, or by an executor that somebody else has."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any

from oddarms.executors._base import Executor, Outcome, Task, count_of, worker_lost


class ThreadExecutor(Executor):
    """Runs calls in threads of this process.

    A thread cannot be stopped: `close` waits for calls that have begun.
    """

    waits_for_calls = True

    def __init__(self, jobs: int) -> None:
        super().__init__(count_of(jobs, "thread", "threads"), workers=jobs)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="oddarms")

    def _submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        return self._threads.submit(function, argument)

    def _release(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


class PoolExecutor(Executor):
    """Runs calls in a pool of the standard library, or what follows it, that stays open."""

    def __init__(self, pool: concurrent.futures.Executor, jobs: int | None) -> None:
        workers = int(jobs or getattr(pool, "_max_workers", None) or 1)
        name = type(pool).__name__
        super().__init__(f"{name}, {count_of(workers, 'worker', 'workers')}", workers)
        self._pool = pool

    def _submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        try:
            return _Relayed(self._pool.submit(function, argument))
        except BrokenExecutor as error:
            raise worker_lost("the executor", error) from error

    def _release(self) -> None:
        pass


class _Relayed(Future[Any]):
    """Has the outcome of another future, and `WorkerLost` where its pool has broken."""

    def __init__(self, source: Future[Any]) -> None:
        super().__init__()
        self._source = source
        source.add_done_callback(self._relay)

    def cancel(self) -> bool:
        return self._source.cancel()  # which relays it

    def running(self) -> bool:
        return self._source.running()

    def _relay(self, source: Future[Any]) -> None:
        if source.cancelled():
            super().cancel()
            self.set_running_or_notify_cancel()
            return
        error = source.exception()
        if isinstance(error, BrokenExecutor):
            lost = worker_lost("the executor", error)
            lost.__cause__ = error
            error = lost
        if error is None:
            self.set_result(source.result())
        else:
            self.set_exception(error)


class BorrowedExecutor(Executor):
    """Runs calls by an executor that stays open."""

    def __init__(self, lender: Executor, jobs: int | None) -> None:
        super().__init__(lender.description, jobs or lender.workers)
        self._window = lender._window
        self._lender = lender

    def wait(
        self, futures: Collection[Future[Outcome]], timeout: float | None = None
    ) -> set[Future[Outcome]]:
        """Return the futures that are finished or cancelled, once there is one."""
        return self._lender.wait(futures, timeout)

    def _submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        return self._lender.submit(function, argument)

    def _abandon(self, futures: Collection[Future[Any]]) -> None:
        self._lender._abandon(futures)

    def _release(self) -> None:
        pass
