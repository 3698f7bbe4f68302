"""Calls in threads, in a pool of `concurrent.futures`, or by an executor that somebody else has."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Collection
from concurrent.futures import BrokenExecutor, Future
from queue import SimpleQueue
from typing import Any

from oddarms.executors._base import Executor, Outcome, Task, count_of, worker_lost


class ThreadExecutor(Executor):
    """Runs calls in threads of this process.

    A thread cannot be stopped: `close` waits for calls that have begun, unless `leave_calls` was
    called. The threads do not keep the process from ending, as those of the standard library do.
    """

    waits_for_calls = True

    def __init__(self, jobs: int) -> None:
        super().__init__(count_of(jobs, "thread", "threads"), workers=jobs)
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def _submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self._calls.put((future, function, argument))
        if len(self._threads) < self.workers:
            name = f"oddarms_{len(self._threads)}"
            thread = threading.Thread(target=_work, args=(self._calls,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return future

    def _release(self) -> None:
        for _ in self._threads:
            self._calls.put(None)
        if not self._leaves_calls:
            for thread in self._threads:
                thread.join()


_Call = tuple[Future[Any], Callable[[Any], Any], Any]


def _work(calls: SimpleQueue[_Call | None]) -> None:
    """Make calls, in a thread, until there is None."""
    while (call := calls.get()) is not None:
        future, function, argument = call
        if future.set_running_or_notify_cancel():
            try:
                result = function(argument)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        del call, future, function, argument  # or they live until the next one comes


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
        self.calls_in_submit = lender.calls_in_submit
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
