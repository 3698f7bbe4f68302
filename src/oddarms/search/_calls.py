"""Pulls that are calls, several at a time: keep workers busy, record, deal with what fails."""

from __future__ import annotations

import math
import signal
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import nullcontext
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
from oddarms.interrupts import SAME_SECONDS, raise_if_ended, signal_of, uninterrupted
from oddarms.problem import Label
from oddarms.search._desk import POLL_SECONDS, Shown
from oddarms.search._kept import Kept
from oddarms.search._patience import PatientDesk
from oddarms.search._tickets import Status, Ticket

OnError = Literal["stop", "retry", "worst"]
"""What a pull that fails means: the end of the search, another try, or the most abnormal reward."""
MOST_FAILURES = 10
"""An arm that fails this often in a row, with no result between, ends the run."""
ASYNC_JOBS = 100
QUEUE_SECONDS = 0.5
GRACE_SECONDS = 1.0
MOST_QUEUED = 2000
INTERRUPTED = "the run was interrupted"


class Calls:
    """Keeps workers busy with calls, records what comes back, and deals with what fails.

    A ticket is in one of three places: `queued`, `out` with the future of its call, or `kept` with
    its reward or as one to be given back. It leaves the last when the desk has it, and at no other
    time, so that a failure or a signal loses none.
    """

    def __init__(
        self,
        desk: PatientDesk,
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
        self.worst = _worst(desk) if on_error == "worst" else None
        self.ahead = ahead
        self.shown = shown
        self.queued: deque[Ticket] = deque()
        self.out: dict[Future[Any], Ticket] = {}
        self.kept = Kept(desk)
        self.failures: dict[Label, int] = {}
        self.failure: PullFailed | None = None
        self.most_out = self.jobs
        self.stopped = False

    def _opened(self, jobs: int | None, executor: Any) -> Executor:
        if not self.source.is_async:
            return as_executor(executor, jobs)
        if executor is not None:
            raise InvalidParameter(
                "executor must be left out with async arms, which need none, but got"
                f" {type(executor).__name__}."
            )
        return AsyncExecutor(ASYNC_JOBS if jobs is None else jobs)

    @property
    def unabsorbed(self) -> list[tuple[Label, float]]:
        """The rewards that are not part of the result yet."""
        return self.kept.unabsorbed

    @property
    def untold(self) -> list[tuple[Ticket, float]]:
        """The rewards that the desk does not have, those of calls that have ended since too."""
        self._collect(self._good())
        return list(self.kept.untold.items())

    def run(self) -> None:
        """Go on until the search is done or a pull has failed for good."""
        try:
            while self._go_on():
                pass
        except BaseException as error:
            self._wind_up(error)
            raise
        finally:
            self.executor.close()
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
                self.shown.waiting()
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
            self._take_back("another pull failed")
            self.kept.hand_over()
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
        # a call that has begun and is not in `out` would be lost
        with nullcontext() if self.executor.calls_in_submit else uninterrupted():
            self._submit_queued()

    def _submit_queued(self) -> None:
        while self.queued:
            future = self.executor.submit(*self.source.task(self.queued[0].arm))
            if self.executor.calls_in_submit:
                raise_if_ended()  # what a call gives that was interrupted is no reward
            self.out[future] = self.queued.popleft()
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
        error = future.exception()
        if isinstance(error, _NOT_THE_ARMS) or not isinstance(error, Exception | None):
            return False
        return self.on_error == "worst" or not self._is_trouble(future)

    @uninterrupted()
    def _record(self, finished: Iterable[Future[Any]]) -> None:
        try:
            self._collect(finished)
        finally:  # one that ends the run does not take others with it
            self.kept.hand_over()

    @uninterrupted()
    def _collect(self, finished: Iterable[Future[Any]]) -> None:
        for future in finished:
            ticket = self.out[future]
            reward = self._reward(ticket, future)
            if reward is not None:
                self.kept.untold[ticket] = reward
                self.failures.pop(ticket.arm, None)
            del self.out[future]

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
        if self.worst is not None:
            return self.worst
        self.failures[ticket.arm] = self.failures.get(ticket.arm, 0) + 1
        hopeless = self.failures[ticket.arm] >= MOST_FAILURES
        self.kept.give_back([ticket], f"{type(error).__name__}: {error}")
        if self.on_error == "stop" or hopeless:
            self.failure = _failure_of(ticket, error)
            if hopeless:
                said = str(self.failure).rstrip(".")
                self.failure.args = (f"{said} ({MOST_FAILURES} times in a row).",)
        return None

    def _wind_up(self, error: BaseException) -> None:
        """End early: record what is there or nearly there, give back the rest.

        Calls in threads of ours cannot be stopped and are waited for, so what they give is
        recorded. A second signal ends the waiting and leaves them to themselves.
        """
        self.desk.hurry()
        if getattr(self.source, "shares_signals", False) and _is_signal_for_all(error):
            self._distrust_calls()
        began = time.monotonic()
        while True:
            try:
                self._end_calls()
                break
            except KeyboardInterrupt:
                if time.monotonic() - began >= SAME_SECONDS:
                    self.executor.leave_calls()
                    self._stop_source()
                    break
        self._collect(self._good())
        self.kept.give_back(self.out.values(), INTERRUPTED)
        self.kept.try_to_hand_over()

    @uninterrupted()
    def _distrust_calls(self) -> None:
        """Give all pulls under way back: what has ended us may end them, and look like a reward.

        Ctrl-C of a terminal does not reach them, but service managers signal all processes.
        """
        self.kept.give_back([*self.queued, *self.out.values()], INTERRUPTED)
        self.queued.clear()
        self.out.clear()
        self._stop_source()

    def _end_calls(self) -> None:
        """Let calls end and begin no others; may be called again if it was interrupted."""
        self._take_back(INTERRUPTED)
        self._await_calls(GRACE_SECONDS)
        self._collect([future for future in self._over() if self._counts(future)])
        self.kept.try_to_hand_over()
        self._stop_source()
        if self.executor.waits_for_calls:
            self._await_calls(math.inf)

    @uninterrupted()
    def _stop_source(self) -> None:
        if not self.stopped:
            self.source.stop()
            self.stopped = True

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

    def _good(self) -> list[Future[Any]]:
        return [future for future in self._over() if not self._is_trouble(future)]

    @uninterrupted()
    def _take_back(self, reason: str) -> None:
        """Keep the tickets of pulls that have not begun, to be given back."""
        for future in [future for future in self.out if future.cancel()]:
            self.kept.give_back([self.out[future]], reason)
            del self.out[future]
        self.kept.give_back(self.queued, reason)
        self.queued.clear()


def _is_signal_for_all(error: BaseException) -> bool:
    return isinstance(error, KeyboardInterrupt) and signal_of(error) != signal.SIGINT


_NOT_THE_ARMS = (BackendUnavailable, InvalidParameter, WorkerLost)


def _worst(desk: PatientDesk) -> float:
    """Return the most abnormal reward, asked for before a storage may be away."""
    return desk.question.worst


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
