"""Executors of `concurrent.futures` for pulls: threads, coroutines, ray.

Any other executor works, too: pools of the standard library, loky, and
``dask.distributed.Client(...).get_executor()``.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from oddarms.errors import MissingExtra, WorkerLost

if TYPE_CHECKING:  # it takes long to import
    import asyncio

__all__ = ["CoroutineExecutor", "RayExecutor", "ThreadExecutor", "unordered"]

Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class ThreadExecutor(Executor):
    """Runs calls in daemon threads, so that a call that hangs does not keep the process alive.

    Parameters
    ----------
    jobs
        How many calls run at once.

    Examples
    --------
    >>> with ThreadExecutor(2) as executor:
    ...     sorted(executor.map(abs, [-3, 1, -2]))
    [1, 2, 3]
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._abandoned = False
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call as soon as a thread is free; keyword arguments are not supported."""
        assert not kwargs
        future: Future[Any] = Future()
        self._calls.put((future, fn, args))
        if len(self._threads) < self._jobs:
            name = f"oddarms-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return future

    def abandon(self) -> None:
        """Let another thread replace one that hangs; `shutdown` does not wait for it."""
        self._jobs += 1
        self._abandoned = True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads; by default wait for the calls that are running."""
        while cancel_futures and not self._calls.empty():
            call = self._calls.get()
            if call is not None:
                call[0].cancel()
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads if wait and not self._abandoned else ():
            thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            if future.set_running_or_notify_cancel():
                try:
                    result = function(*arguments)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del call, future, function, arguments  # or they live until the next call


class CoroutineExecutor(Executor):
    """Runs coroutine functions on an event loop in another thread.

    Parameters
    ----------
    loop
        A running loop to use; by default a new one, in a thread of its own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        import asyncio

        self._loop = asyncio.new_event_loop() if loop is None else loop
        self._futures: set[Future[Any]] = set()
        self._thread: threading.Thread | None = None
        if loop is None:
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a coroutine function on the loop."""
        import asyncio

        future = asyncio.run_coroutine_threadsafe(fn(*args, **kwargs), self._loop)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel the coroutines, and close the executor's own loop."""
        del cancel_futures
        for future in list(self._futures):
            future.cancel()
        if self._thread is None or not self._thread.is_alive():
            return
        import asyncio

        ended = asyncio.run_coroutine_threadsafe(_all_ended(), self._loop)
        ended.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        if wait:
            self._thread.join()
            self._loop.close()


async def _all_ended() -> None:
    import asyncio

    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        if not task.cancelling():  # a second time would end the cleaning up
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class RayExecutor(Executor):
    """Runs calls as tasks of the ray that this process is connected to (``ray.init``).

    Parameters
    ----------
    **options
        Of ``ray.remote``, such as ``num_cpus=2``.
    """

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra.of("ray", "RayExecutor") from None
        remote = ray.remote(**options) if options else ray.remote
        self._task = remote(_call)
        self._max_workers = int(ray.cluster_resources().get("CPU", 1))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call as a task."""
        future: Future[Any] = Future()
        task: Future[Any] = self._task.remote(fn, args, kwargs).future()
        task.add_done_callback(partial(_hand_over, future))
        return future


def _hand_over(future: Future[Any], task: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    error = task.exception()
    if error is None:
        future.set_result(task.result())
    elif type(error).__name__ in ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError"):
        future.set_exception(BrokenExecutor(str(error)))
    else:
        future.set_exception(getattr(error, "cause", None) or error)


def unordered(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    threads: bool = False,
) -> Iterator[Any]:
    """Yield what a function returns for each item, as soon as it is there.

    Parameters
    ----------
    function, items
        What to call, and with what.
    jobs
        Calls at a time, by default one per core; 1 makes them here.
    executor
        Makes the calls; by default processes of this machine, started for the occasion.
    threads
        Whether threads will do instead of processes.

    Raises
    ------
    WorkerLost
        If a process dies.
    """
    if executor is None and jobs == 1:
        yield from map(function, items)
        return
    own = None if executor is not None else _own_executor(jobs or os.cpu_count() or 1, threads)
    chosen = executor or own
    assert chosen is not None
    waiting, left = set[Future[Any]](), iter(items)
    # not concurrent.futures.wait: Ctrl-C within it can leave the lock of a future locked
    done = SimpleQueue[Future[Any]]()

    def submit(items: Iterable[Any]) -> None:
        for item in items:
            future = chosen.submit(function, item)
            waiting.add(future)
            future.add_done_callback(done.put)

    try:
        submit(
            islice(left, 2 * (jobs or getattr(chosen, "_max_workers", 0) or os.cpu_count() or 1))
        )
        while waiting:
            future = done.get()
            waiting.discard(future)
            yield future.result()
            submit(islice(left, 1))
    except BrokenExecutor as error:
        raise WorkerLost(f"A worker process died: {error}") from error
    finally:
        if own is not None:
            if threads:
                for future in waiting:
                    future.cancel()
            # loky ends futures itself, and would report those that were cancelled
            early: dict[str, Any] = {"kill_workers": True} if waiting and not threads else {}
            own.shutdown(wait=True, **early)


def _own_executor(jobs: int, threads: bool) -> Executor:
    if threads:
        return ThreadExecutor(jobs)
    try:
        # it sends functions of notebooks, too
        from loky import ProcessPoolExecutor
    except ImportError:
        raise MissingExtra.of("parallel", "running on several cores") from None
    pool: Executor = ProcessPoolExecutor(jobs, initializer=_ignore_ctrl_c)
    return pool


def _ignore_ctrl_c() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)
