"""Pulls that are calls, several at a time: keep workers busy, record, deal with what fails."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Literal

from oddarms.arms import CalledSource
from oddarms.errors import (
    BackendUnavailable,
    InvalidParameter,
    PullFailed,
    RewardRejected,
    WorkerLost,
)
from oddarms.executors import AsyncExecutor, Executor, as_executor
from oddarms.interrupts import uninterrupted
from oddarms.problem import Label
from oddarms.search._desk import POLL_SECONDS, Desk, Shown
from oddarms.search._tickets import Status, Ticket

OnError = Literal["stop", "retry", "worst"]
MOST_FAILURES = 10
"""An arm that fails this often in a row, with no result between, ends the run."""
ASYNC_JOBS = 100
QUEUE_SECONDS = 0.5
GRACE_SECONDS = 1.0
MOST_QUEUED = 2000


class Calls:
    """Keeps workers busy with calls, records what comes back, and deals with what fails."""

    def __init__(
        self,
        desk: Desk,
        source: CalledSource,
        jobs: int | None,
        executor: Any,
        on_error: OnError,
        ahead: float,
        shown: Shown,
    ) -> None:
        self.desk = desk
        self.source = source
        self.executor = self._opened(jobs, executor)
        self.jobs = self.executor.workers if jobs is None else jobs
        self.on_error = on_error
        self.ahead = ahead
        self.shown = shown
        self.queued: deque[Ticket] = deque()
        self.out: dict[Future[Any], Ticket] = {}
        self.told: list[tuple[Ticket, float]] = []
        self.failures: dict[Label, int] = {}
        self.failure: PullFailed | None = None
        self.most_out = self.jobs

    def _opened(self, jobs: int | None, executor: Any) -> Executor:
        if not self.source.is_async:
            return as_executor(executor, jobs)
        if executor is not None:
            raise InvalidParameter("executor must be left out with async arms, which need none.")
        return AsyncExecutor(ASYNC_JOBS if jobs is None else jobs)

    @property
    def unabsorbed(self) -> list[tuple[Label, float]]:
        """The rewards that were told but are not part of the result yet."""
        self._forget_used()
        return [(ticket.arm, reward) for ticket, reward in self.told]

    def run(self) -> None:
        """Go on until the search is done or a pull has failed for good."""
        with self.executor:
            try:
                while self._go_on():
                    pass
            except BaseException:
                self._wind_up()
                raise
        if self.failure is not None:
            raise self.failure
        self.shown(every=True)

    def _go_on(self) -> bool:
        """Hand out pulls and take results; return whether there may be more."""
        started = time.monotonic()
        more = self._hand_out()
        self._submit()
        if not self.out:
            if more and not self.queued:  # others have the rest
                self.desk.wait_for_others(POLL_SECONDS)
            return more
        done = self.executor.wait(self.out)
        finished = [future for future in self.out if future in done]  # in the order of submission
        self._record(finished)
        rate = len(finished) / max(time.monotonic() - started, 1e-6)
        # Pulls that take a moment only are queued, so that they are not held up by recording.
        queue = min(int(rate * QUEUE_SECONDS), 2 * self.most_out, MOST_QUEUED)
        self.most_out = max(self.jobs, queue if rate > 10.0 * self.jobs else 0)
        self.shown()
        return True

    @uninterrupted()
    def _hand_out(self) -> bool:
        """Fetch tickets; return whether there may be more later."""
        if self.failure is not None:
            self._give_back("another pull failed")
            return False
        if len(self.out) > self.most_out - self.jobs / 2:
            return True
        tickets = self.desk.ask(self.most_out - len(self.out), ahead=0.0)
        self.queued.extend(tickets)
        idle = self.jobs - len(self.out) - len(tickets)
        if idle > 0 and self.ahead > 0.0 and tickets.status is Status.WAITING:
            tickets = self.desk.ask(idle, ahead=self.ahead)
            self.queued.extend(tickets)
        return not tickets.done

    def _submit(self) -> None:
        while self.queued:
            ticket = self.queued[0]
            future = self.executor.submit(*self.source.task(ticket.arm))
            self.out[future] = ticket
            self.queued.popleft()
            if future.done() and self._is_trouble(future):
                return  # one that was called here is dealt with before the next

    def _is_trouble(self, future: Future[Any]) -> bool:
        if future.exception() is not None:
            return True
        try:
            self.desk.check_reward(future.result())
        except RewardRejected:
            return True
        return False

    def _counts(self, future: Future[Any]) -> bool:
        """Return whether a call that is over gave a reward; a failure may be one."""
        if isinstance(future.exception(), _NOT_THE_ARMS):
            return False
        return self.on_error == "worst" or not self._is_trouble(future)

    @uninterrupted()
    def _record(self, finished: Iterable[Future[Any]]) -> None:
        results: list[tuple[Ticket | int, float]] = []
        try:
            for future in finished:
                reward = self._reward(self.out[future], future)
                ticket = self.out.pop(future)
                if reward is not None:
                    results.append((ticket, reward))
                    self.told.append((ticket, reward))
                    self.failures.pop(ticket.arm, None)
        finally:  # one that ends the run does not take others with it
            self.desk.tell_many(results)
            if len(self.told) > 2 * MOST_QUEUED:
                self._forget_used()

    def _forget_used(self) -> None:
        self.told = [pair for pair in self.told if not self.desk.has_used(pair[0])]

    def _reward(self, ticket: Ticket, future: Future[Any]) -> float | None:
        """Return the reward of a pull, or None if it failed and the policy has dealt with it."""
        error = future.exception()
        if error is None:
            try:
                return self.desk.check_reward(future.result())
            except RewardRejected as rejected:
                error = rejected
        elif isinstance(error, _NOT_THE_ARMS) or not isinstance(error, Exception):
            raise error
        return self._failed(ticket, error)

    def _failed(self, ticket: Ticket, error: Exception) -> float | None:
        if self.on_error == "worst":
            a, b = self.desk.question.bounds
            return a if self.desk.question.side == "lower" else b
        self.failures[ticket.arm] = self.failures.get(ticket.arm, 0) + 1
        hopeless = self.failures[ticket.arm] >= MOST_FAILURES
        self.desk.skip_many([ticket], f"{type(error).__name__}: {error}")
        if self.on_error == "stop" or hopeless:
            self.failure = _failure_of(ticket, error)
            if hopeless:
                said = str(self.failure).rstrip(".")
                self.failure.args = (f"{said} ({MOST_FAILURES} times in a row).",)
        return None

    def _wind_up(self) -> None:
        """End early: record what is there or nearly there, give back the rest.

        Calls in threads of ours have to be waited for anyway, so what they give is recorded.
        """
        reason = "the run was interrupted"
        self._give_back(reason)
        try:
            self._await_calls(GRACE_SECONDS)
            self._record([future for future in self._over() if self._counts(future)])
        finally:  # or a second Ctrl-C would wait for calls that nobody ends
            self.source.stop()
        if self.executor.waits_for_calls:
            self._await_calls(math.inf)
        self._record([future for future in self._over() if not self._is_trouble(future)])
        self.desk.skip_many(self.out.values(), reason)

    def _await_calls(self, seconds: float) -> None:
        left, end = set(self.out), time.monotonic() + seconds
        while left:
            timeout = max(end - time.monotonic(), 0.0)
            done = self.executor.wait(left, None if math.isinf(timeout) else timeout)
            if not done:
                return
            left -= done

    def _over(self) -> list[Future[Any]]:
        return [future for future in self.out if future.done() and not future.cancelled()]

    @uninterrupted()
    def _give_back(self, reason: str) -> None:
        """Give back the tickets of pulls that have not begun; those under way are finished."""
        cancelled = [future for future in self.out if future.cancel()]
        given_back = [*self.queued, *(self.out.pop(future) for future in cancelled)]
        self.queued.clear()
        self.desk.skip_many(given_back, reason)


_NOT_THE_ARMS = (BackendUnavailable, InvalidParameter, WorkerLost)


def _failure_of(ticket: Ticket, error: Exception) -> PullFailed:
    if isinstance(error, PullFailed):
        return error
    if isinstance(error, RewardRejected):
        failure = PullFailed(f"arm {ticket.arm!r}: {error}", ticket.arm)
    else:
        what = f"arm {ticket.arm!r} raised {type(error).__name__}: {error}"
        failure = PullFailed(what, ticket.arm)
    failure.__cause__ = error
    return failure
