"""What an executor is, and what all of them share."""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import islice
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakSet

from oddarms.errors import BackendUnavailable, ProtocolError, WorkerLost
from oddarms.interrupts import uninterrupted

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

CONNECT_SECONDS = 10.0
"""How long a cluster may take to answer."""
LONGEST_WAIT = 1.0
"""Python does not notice a signal that arrives just before a wait begins until the wait ends."""


class Bell:
    """Tells the thread that waits that a call has ended.

    It is one lock that is taken in C. Those of `threading.Event` and `concurrent.futures.wait` are
    taken in Python, where an interruption can leave them held: then the thread that has an outcome
    waits for ever, and whoever closes the executor waits for that thread.
    """

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self, _future: object = None) -> None:
        """Wake who waits, or the next one who does."""
        with suppress(RuntimeError):  # it rings already
            self._silent.release()

    def wait(self, timeout: float | None) -> None:
        """Wait until it rings, for `timeout` seconds, or for `LONGEST_WAIT` if that is shorter."""
        longest = LONGEST_WAIT if timeout is None else min(timeout, LONGEST_WAIT)
        self._silent.acquire(timeout=longest)


def finished_of(futures: Iterable[Any]) -> list[Any]:
    """Return the futures that are done; asking one takes a lock that its thread needs, too."""
    with uninterrupted():
        return [future for future in futures if future.done()]


def seconds_left(end: float | None) -> float | None:
    """Return how long it is until a time of the monotonic clock, if there is one."""
    return None if end is None else max(end - time.monotonic(), 0.0)


class Executor(ABC):
    """Runs calls somewhere.

    Use it in a ``with`` block, or call `close`. One thread uses it at a time.

    Attributes
    ----------
    description
        Where calls run, as in "joblib, 2 processes".
    workers
        How many calls run at once.
    calls_in_submit
        Whether `submit` makes the call, and an interruption of the call leaves it.
    """

    waits_for_calls: ClassVar[bool] = False
    """Whether `close` waits for calls that have begun, as nothing can stop them."""

    def __init__(self, description: str, workers: int) -> None:
        self.description = description
        self.workers = workers
        self.calls_in_submit = False
        self._leaves_calls = False
        self._window = 2 * workers  # one call runs and one waits, so that no worker waits for us
        self._closed = False
        self._bell = Bell()
        self._unfinished: set[Future[Any]] = set()
        self._running: WeakSet[Generator[Any, None, None]] = WeakSet()

    def submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        """Let ``function(argument)`` be called, and return its future.

        The future has what the call returned or raised; `WorkerLost` if its process died, and
        trying again elsewhere did not help; `BackendUnavailable` if the cluster went away. Its
        ``cancel`` takes back a call that has not begun. Wait for it with `wait`.
        """
        self._require_open()
        future = self._submit(function, argument)
        with uninterrupted():
            if not future.done():
                self._unfinished.add(future)
                future.add_done_callback(self._unfinished.discard)
                future.add_done_callback(self._bell.ring)
        return future

    def wait(
        self, futures: Collection[Future[Outcome]], timeout: float | None = None
    ) -> set[Future[Outcome]]:
        """Return the futures that are finished or cancelled, once there is one.

        After the timeout, in seconds, the set is empty.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while futures:
            left = seconds_left(end)
            finished = finished_of(futures)
            if finished or left == 0.0:
                return set(finished)
            self._bell.wait(left)
        return set()

    def map_unordered(
        self, function: Callable[[Task], Outcome], tasks: Iterable[Task]
    ) -> Iterator[Outcome]:
        """Yield ``function(task)`` of every task, in the order in which they finish.

        Calls start in the order of the tasks, when the first result is asked for, and only a few
        per worker are under way or queued at a time. What a call raises is raised here and ends
        the rest, as does closing the iterator.

        Raises
        ------
        WorkerLost
            If a worker process died, and trying again elsewhere did not help.
        BackendUnavailable
            If the cluster went away.
        """
        self._require_open()
        results = self._results(function, tasks)
        self._running.add(results)
        return results

    def leave_calls(self) -> None:
        """Let `close` wait for no call that cannot be stopped."""
        self._leaves_calls = True

    def close(self) -> None:
        """Cancel what still runs and end what was started for this executor."""
        if self._closed:
            return
        self._closed = True
        try:
            for results in list(self._running):
                results.close()
            self._abandon(list(self._unfinished))
        finally:
            self._release()

    def _results(
        self, function: Callable[[Task], Outcome], tasks: Iterable[Task]
    ) -> Generator[Outcome, None, None]:
        """Run the calls; whatever ends this generator early cancels them."""
        waiting = iter(tasks)
        pending: set[Future[Outcome]] = set()
        finished: list[Future[Outcome]] = []
        try:
            while True:
                for task in islice(waiting, self._window - len(pending)):
                    pending.add(self.submit(function, task))
                if not pending and not finished:
                    return
                if not finished:
                    finished.extend(self.wait(pending))
                    pending.difference_update(finished)
                yield finished.pop().result()
        finally:
            self._abandon(pending)

    def _abandon(self, futures: Collection[Future[Any]]) -> None:
        """Stop calls whose outcome nobody wants, as far as they can be stopped."""
        for future in futures:
            future.cancel()

    @abstractmethod
    def _submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        """Let the function be called."""

    @abstractmethod
    def _release(self) -> None:
        """End what was started for this executor."""

    def _require_open(self) -> None:
        if self._closed:
            raise ProtocolError("the executor must be open but was closed: open another one.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def count_of(number: int, noun: str, plural: str) -> str:
    """Return "1 process", "2 processes"."""
    return f"{number} {noun if number == 1 else plural}"


def unreachable(backend: str, address: str, reason: object) -> BackendUnavailable:
    """Return the error for a cluster that cannot be used."""
    return BackendUnavailable(f"{backend} at {address} cannot be reached: {sentence_of(reason)}")


def worker_lost(backend: str, reason: object) -> WorkerLost:
    """Return the error for a worker process that died."""
    return WorkerLost(f"{backend} lost a worker: {sentence_of(reason)}")


def sentence_of(reason: object) -> str:
    """Return the first sentence of what a library says, which may go on for a page."""
    text = str(reason).strip() or type(reason).__name__
    return text.splitlines()[0].split(". ")[0].rstrip(".") + "."


@contextmanager
def shielded_from_interrupts() -> Iterator[None]:
    """Let processes and threads that start in the block never see Ctrl-C.

    A terminal sends it to every process of the program, and each worker would print a traceback.
    They inherit the blocked signal; one that arrives meanwhile reaches this process afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # else it starts in the block, and Python 3.11 then unblocks
    with uninterrupted():  # a signal that is blocked here, other threads get
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
