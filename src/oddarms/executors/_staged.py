"""Calls that are handed on a few at a time, so that the others can still be taken back."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import CancelledError, Future
from typing import Any

from oddarms.executors._base import Executor, Outcome, Task, finished_of, seconds_left
from oddarms.interrupts import uninterrupted


class StagedExecutor(Executor):
    """Holds calls back until there is room for them, and takes in outcomes while it waits.

    Clusters, processes and event loops do not tell which calls have begun. So those handed on
    count as begun, and these are few. Nothing here happens in other threads: calls are handed on,
    and futures finish, in `submit` and `wait`.

    Parameters
    ----------
    description, workers
        As for `Executor`.
    most
        How many calls to hand on at a time.
    """

    def __init__(self, description: str, workers: int, most: int) -> None:
        super().__init__(description, workers)
        self._most = most
        self._held: deque[tuple[StagedFuture, Callable[[Any], Any], Any]] = deque()
        self._begun: dict[Any, StagedFuture] = {}

    def wait(
        self, futures: Collection[Future[Outcome]], timeout: float | None = None
    ) -> set[Future[Outcome]]:
        """Return the futures that are finished or cancelled, once there is one.

        After the timeout, in seconds, the set is empty.
        """
        end = None if timeout is None else time.monotonic() + timeout
        self._begin_held()
        finished = {future for future in futures if future.done()}
        while not finished and self._begun and not self._closed:
            left = seconds_left(end)
            finished = self._settle(self._finished(self._begun.keys(), left)).intersection(futures)
            self._begin_held()
            if left == 0.0:
                break
        return finished

    def _submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        future = StagedFuture(self)
        self._held.append((future, function, argument))
        self._begin_held()
        return future

    def _begin_held(self) -> None:
        while self._held and len(self._begun) < self._most:
            with uninterrupted():  # else a call may have begun and nobody knows
                future, function, argument = self._held.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    self._begun[self._begin(function, argument)] = future
                except Exception as error:  # it cannot be pickled, or nobody is there
                    future.set_exception(error)

    def _settle(self, handles: Iterable[Any]) -> set[Future[Any]]:
        """Finish the futures of calls that have ended, and return them."""
        settled: set[Future[Any]] = set()
        for handle in handles:
            future = self._begun[handle]
            if not future.done():  # as one is that was abandoned
                _finish(future, *self._outcome(handle))
            del self._begun[handle]
            settled.add(future)
        return settled

    def _abandon(self, futures: Collection[Future[Any]]) -> None:
        """Stop the calls, which count as under way until they really have ended."""
        super()._abandon(futures)
        abandoned = set(futures)
        handles = [handle for handle, future in self._begun.items() if future in abandoned]
        for handle in handles:
            if not self._begun[handle].done():
                self._begun[handle].set_exception(CancelledError("the call was stopped."))
        if handles:
            self._stop(handles)

    @abstractmethod
    def _begin(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Hand a call on and return a handle of it."""

    @abstractmethod
    def _finished(self, handles: Collection[Any], timeout: float | None) -> Iterable[Any]:
        """Return handles of calls that are finished, once there is one or after the timeout."""

    def _when_one_is_done(self, handles: Collection[Any], timeout: float | None) -> list[Any]:
        """Return the handles, futures that ring the bell, that are done, once it has rung."""
        finished = finished_of(handles)
        if not finished:
            self._bell.wait(timeout)
            finished = finished_of(handles)
        return finished

    @abstractmethod
    def _outcome(self, handle: Any) -> tuple[BaseException | None, Any]:
        """Return what a finished call has raised, or None, and what it has returned."""

    @abstractmethod
    def _stop(self, handles: Collection[Any]) -> None:
        """Stop calls that have begun, as far as they can be stopped."""


def _finish(future: Future[Any], error: BaseException | None, result: Any) -> None:
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class StagedFuture(Future[Any]):
    """A future of a `StagedExecutor`, which goes on while somebody asks for the outcome."""

    def __init__(self, executor: StagedExecutor) -> None:
        super().__init__()
        self._executor = executor

    def result(self, timeout: float | None = None) -> Any:
        """Return what the call returned, or raise what it raised."""
        self._let_finish(timeout)
        return super().result(timeout=0.0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the call raised, or None."""
        self._let_finish(timeout)
        return super().exception(timeout=0.0)

    def _let_finish(self, timeout: float | None) -> None:
        if not self.done():
            self._executor.wait([self], timeout)
