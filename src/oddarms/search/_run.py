"""The one loop: ask a desk for tickets, have their pulls made, tell the rewards.

A desk is a `Search`, or a worker of a study. A source makes pulls one call at a time
(`CalledSource`: here, in threads, on an event loop or in any executor), or many at once (`Source`).
"""

from __future__ import annotations

import heapq
import inspect
import os
import random
import secrets
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from numbers import Real
from typing import Any, Literal, Protocol, get_args

import numpy as np

from oddarms.algorithms import Pulls
from oddarms.arms import CalledSource, Source, TotalsSource
from oddarms.errors import (
    InvalidParameter,
    OddarmsError,
    ProtocolError,
    PullFailed,
    RewardRejected,
    SearchError,
    SearchInterrupted,
    StorageFailed,
    WorkerLost,
)
from oddarms.executors import CoroutineExecutor, ThreadExecutor
from oddarms.interrupts import Interrupts
from oddarms.problem import Label, Question, brief, check_whole
from oddarms.search._progress import Progress, ProgressCallback, progress_line
from oddarms.search._result import Result
from oddarms.search._search import PREFETCH, Search, check_prefetch
from oddarms.search._tickets import Status, Ticket, Tickets
from oddarms.text import counted, duration

OnError = Literal["stop", "retry", "worst"]
"""What a failed pull means: the end of the search, another try, or the most abnormal reward."""
Seconds = timedelta | float
"""A duration: a timedelta or seconds."""
RETRY_FOR = timedelta(minutes=10)
"""How long a pull that fails, or a storage that is unavailable, is retried."""

COROUTINES = 100
"""How many coroutines run at once by default."""
MAX_BATCH = 1000
QUEUE_SECONDS = 0.5
MAX_QUEUED = 2000
GRACE_SECONDS = 1.0
PROGRESS_SECONDS, LOOK_SECONDS = 0.1, 0.5
"""Between two calls of a progress function, and between two looks while a pull takes long.

A wait has to end soon: a signal that arrives just before it begins is seen only afterwards.
"""
FIRST_PAUSE, MAX_PAUSE = 0.1, 30.0
"""Between tries of a pull that fails."""
INTERRUPTED = "the run was interrupted"


class Desk(Protocol):
    """Hands out tickets and takes results: a `Search`, or a worker of a study.

    A desk that has to do something meanwhile is a context manager, which `run` enters.
    """

    @property
    def question(self) -> Question: ...
    def ask(self, n: int = 1, *, prefetch: float = PREFETCH) -> Tickets: ...
    def tell(self, ticket: Ticket, reward: float) -> Any: ...
    def skip_many(self, tickets: Iterable[Ticket], reason: str = "") -> None: ...
    def check_reward(self, reward: Any) -> float: ...
    def result(self) -> Result: ...
    def progress(self) -> Progress: ...
    def wait(self) -> None:
        """Wait a moment: other workers have all pulls that are open now."""


@dataclass(frozen=True)
class Policy:
    """How pulls are made, and what happens if one fails; the parameters of `oddarms.find`."""

    jobs: int | None = None
    executor: Executor | None = None
    on_error: OnError = "stop"
    timeout: Seconds | None = None
    retry_for: Seconds = RETRY_FOR
    prefetch: float = PREFETCH
    until: Callable[[], bool] | None = None
    """Asked before each ticket: once it returns True, no more pulls are made."""

    def __post_init__(self) -> None:
        check_prefetch(self.prefetch)
        if self.jobs is not None:
            check_whole("jobs", self.jobs, least=1)
        if self.on_error not in get_args(OnError):
            known = ", ".join(map(repr, get_args(OnError)))
            raise InvalidParameter(f"on_error must be one of {known} but got {self.on_error!r}.")
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise InvalidParameter(
                "executor must be an executor of concurrent.futures but got"
                f" {type(self.executor).__name__}: for dask give Client(...).get_executor(), for"
                " ray oddarms.executors.RayExecutor()."
            )
        seconds_of("retry_for", self.retry_for)
        if self.timeout is not None and seconds_of("timeout", self.timeout) == 0.0:
            raise InvalidParameter("timeout must be longer than 0 seconds.")


def seconds_of(name: str, value: Seconds) -> float:
    """Return a duration in seconds: a timedelta, or a number that is not negative."""
    seconds: Any = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not float(seconds) >= 0.0:
        raise InvalidParameter(
            f"{name} must be a timedelta or a number of seconds, at least 0, but got {value!r}."
        )
    return float(seconds)


def run(
    desk: Desk,
    source: Source | CalledSource,
    policy: Policy | None = None,
    progress: ProgressCallback | bool | None = None,
) -> Result:
    """Make pulls until the search is done; return what was found.

    Whatever ends it, `result` of the error has what is known. The first Ctrl-C, SIGTERM or SIGHUP
    lets pulls under way finish and records them; a second one abandons them.
    """
    policy = policy or Policy()
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidParameter(f"progress must be True, False or a function but got {progress!r}.")
    line = progress_line() if progress is True else None
    with (
        Interrupts() as interrupts,
        line or nullcontext(),
        desk if isinstance(desk, AbstractContextManager) else nullcontext(),
    ):
        shown = _Shown(desk, line or (progress if callable(progress) else None))
        try:
            driver_of(source, policy)(desk, source, policy, shown, interrupts).run()
            return desk.result()
        except KeyboardInterrupt as error:
            raise _interrupted(desk, getattr(error, "signal", signal.SIGINT)) from None
        except (SearchError, WorkerLost, StorageFailed) as error:
            if isinstance(error, StorageFailed) and interrupts.received is not None:
                raise _interrupted(desk, interrupts.received) from error
            _attach(error, desk, Status.FAILED)
            raise
        except (InvalidParameter, ProtocolError):
            raise  # not about a pull
        except Exception as error:
            failure: SearchError | WorkerLost
            if isinstance(error, BrokenExecutor):
                failure = WorkerLost(f"A process of the executor died: {error}")
            else:
                failure = SearchError(f"the search failed: {type(error).__name__}: {error}")
            _attach(failure, desk, Status.FAILED)
            raise failure from error


def driver_of(source: Source | CalledSource, policy: Policy) -> type[_Driver]:
    """Return the driver that makes the pulls of a source under a policy."""
    if not isinstance(source, CalledSource):
        calls = policy.executor, policy.timeout, policy.on_error, policy.jobs or 1
        if calls != (None, None, "stop", 1):
            raise InvalidParameter(
                "Arms that are pulled many at a time take no jobs, executor, on_error or timeout:"
                " leave them out."
            )
        return _Batches
    given = policy.executor
    if source.is_async and not (given is None or isinstance(given, CoroutineExecutor)):
        raise InvalidParameter("Coroutines run on an event loop: leave out executor.")
    needs_none = not (source.is_async or source.needs_thread) and policy.timeout is None
    return _Here if needs_none and given is None and policy.jobs in (None, 1) else _Concurrent


def _attach(error: Any, desk: Desk, status: Status) -> None:
    """Attach to an error the result so far, and rewards that are not yet used or stored."""
    with suppress(StorageFailed, KeyboardInterrupt):
        error.result = desk.result()
        if not error.result.status.final:
            error.result = replace(error.result, status=status)
    if isinstance(desk, Search):
        error.unabsorbed = [*desk.waiting_rewards(), *error.unabsorbed]
    else:
        error.untold = list(getattr(desk, "untold", {}).items())


def _interrupted(desk: Desk, number: int) -> SearchInterrupted:
    name = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    error = SearchInterrupted(name, number)
    _attach(error, desk, Status.INTERRUPTED)
    if error.result is None:
        said = f"{name}; the storage does not answer, but has all results that were stored."
    else:
        said = f"{name} after {error.result.pulls:,} pulls; `result` of this error has them."
    if error.untold:
        said += (
            f" Not stored: {counted(len(error.untold), 'result')}, which `untold` of this error"
            " has; `Study.tell_many` takes them."
        )
    error.args = (said,)
    return error


class _Shown:
    """Calls the progress function, at most ten times a second."""

    def __init__(self, desk: Desk, callback: ProgressCallback | None) -> None:
        self._desk = desk
        self._callback = callback
        self._due = 0.0
        self.wanted = callback is not None

    def __call__(self, *, every: bool = False) -> None:
        if self._callback is None:
            return
        due = getattr(self._callback, "due", None)
        now = time.monotonic()
        if due() if due is not None else (every or now >= self._due):
            self._due = now + PROGRESS_SECONDS
            self._callback(self._desk.progress())


class _Driver(ABC):
    """Makes the pulls of a source; `retry_at` decides whether a call that failed is retried."""

    def __init__(
        self, desk: Desk, source: Any, policy: Policy, shown: _Shown, interrupts: Interrupts
    ) -> None:
        self.desk, self.source, self.policy = desk, source, policy
        self.shown, self.interrupts = shown, interrupts
        self.timeout = None if policy.timeout is None else seconds_of("timeout", policy.timeout)
        self.retry_for = seconds_of("retry_for", policy.retry_for)
        self.failing: dict[Label, tuple[float, int]] = {}  # since when, and how often

    @abstractmethod
    def run(self) -> None:
        """Make pulls until the desk is done, or the policy says so."""

    def stopping(self) -> bool:
        return self.policy.until is not None and self.policy.until()

    def sleep_until(self, moment: float) -> bool:
        """Sleep; return whether to go on."""
        while (left := moment - time.monotonic()) > 0.0 and not self.stopping():
            with self.interrupts.open():
                time.sleep(min(left, LOOK_SECONDS))
        return not self.stopping()

    def retry_at(self, ticket: Ticket, error: BaseException) -> float | None:
        """Return when to repeat a pull that failed; None if it counts as the worst reward."""
        not_of_this_pull = isinstance(error, InvalidParameter | BrokenExecutor)
        if not_of_this_pull or not isinstance(error, Exception):
            raise error
        after = getattr(error, "retry_after", None)
        if after is None and self.policy.on_error == "worst":
            return None
        if after is None and self.policy.on_error == "stop":
            raise _failure_of(ticket, error)
        now = time.monotonic()
        since, times = self.failing.get(ticket.arm, (now, 0))
        self.failing[ticket.arm] = since, times + 1
        if now - since >= self.retry_for:
            raise _failure_of(ticket, error, f" ({times + 1} times in {duration(now - since)}).")
        return min(now + _pause(after, times), since + self.retry_for)


def _pause(after: Any, times: int) -> float:
    """Return the seconds before the next try: the error's `retry_after`, or longer each time."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if isinstance(seconds, Real) and float(seconds) >= 0.0:
        return float(seconds)
    longest = min(FIRST_PAUSE * 2.0 ** min(times, 30), MAX_PAUSE)
    return random.uniform(0.5, 1.0) * longest  # so that workers do not try in step


class _Here(_Driver):
    """Calls made one after the other in this thread."""

    def run(self) -> None:
        batch = 1
        while not self.stopping():
            tickets = self.desk.ask(batch, prefetch=0.0)
            if not tickets:
                if tickets.done:
                    break
                self.desk.wait()
                continue
            began = time.monotonic()
            self._make(tickets)
            took = time.monotonic() - began
            batch = min(2 * batch, MAX_BATCH) if took < PROGRESS_SECONDS else max(batch // 2, 1)
            self.shown()
        self.shown(every=True)

    def _make(self, tickets: list[Ticket]) -> None:
        """Make the pulls of some tickets; give back those without a result, also after an error."""
        task, tell, interrupts = self.source.task, self.desk.tell, self.interrupts
        told = 0
        try:
            for ticket in tickets:
                interrupts.check()
                if told and self.stopping():
                    return
                function, argument = task(ticket.arm)
                try:
                    interrupts.at_once = True
                    reward = function(argument)
                    interrupts.at_once = False
                    interrupts.check()  # the function may have swallowed the exception
                    tell(ticket, reward)
                except StorageFailed:
                    raise
                except Exception as error:
                    interrupts.at_once = False
                    if not self._repeat(ticket, error):
                        return
                told += 1
        finally:
            interrupts.at_once = False
            if told < len(tickets):
                self.desk.skip_many(tickets[told:], INTERRUPTED)

    def _repeat(self, ticket: Ticket, error: Exception) -> bool:
        """Repeat a pull that failed until it is told; return False if the policy ends it."""
        function, argument = self.source.task(ticket.arm)
        while (again := self.retry_at(ticket, error)) is not None:
            if not self.sleep_until(again):
                return False
            try:
                with self.interrupts.open():
                    reward = function(argument)
                self.desk.tell(ticket, reward)
            except StorageFailed:
                raise
            except Exception as another:
                error = another
            else:
                del self.failing[ticket.arm]
                return True
        self.failing.pop(ticket.arm, None)
        self.desk.tell(ticket, self.desk.question.worst)
        return True


class _Concurrent(_Driver):
    """Calls made by an executor: threads, an event loop, processes, a cluster.

    A ticket is in one of three places: in `queued`, with the time before which it is not called,
    in `out` with the future of its call, or told or given back.
    """

    def run(self) -> None:
        own = self.policy.executor is None
        self.executor, self.jobs = self._executor()
        self.room = self.jobs
        self.queued: list[tuple[float, int, Ticket]] = []  # a heap
        self.out: dict[Future[Any], tuple[Ticket, float]] = {}
        self.name, self.number = secrets.token_hex(8), 0
        wait_at_end = True
        try:
            while self._go_on():
                pass
        except BaseException as error:
            wait_at_end = self._wind_up(error)
            raise
        finally:
            if own:
                self.executor.shutdown(wait=wait_at_end, cancel_futures=True)
        self.shown(every=True)

    def _executor(self) -> tuple[Executor, int]:
        jobs, executor = self.policy.jobs, self.policy.executor
        if self.source.is_async:
            return executor or CoroutineExecutor(), jobs or COROUTINES
        if executor is None:
            return ThreadExecutor(jobs or 1), jobs or 1
        return executor, jobs or getattr(executor, "_max_workers", None) or os.cpu_count() or 1

    def _go_on(self) -> bool:
        """Hand out pulls and take results; return whether there may be more."""
        started = time.monotonic()
        more = self._fetch()
        self._submit(started)
        if not self.out:
            if not more and not self.queued:
                return False
            self._sleep()
            return True
        with self.interrupts.open():
            done, _ = wait(self.out, self._seconds_to_wait(), FIRST_COMPLETED)
        finished = [future for future in self.out if future in done]  # in the order of submission
        for future in finished:
            self._record(future)
        self._end_late_calls()
        self._size_up(len(finished) / max(time.monotonic() - started, 1e-6))
        self.shown()
        return True

    def _fetch(self) -> bool:
        """Fetch tickets; return whether there may be more later."""
        if self.stopping():
            self._give_back_queued()
            return False
        busy = len(self.out) + len(self.queued)
        quick = self.room > self.jobs  # then ask for many at a time
        if busy > self.room - (self.jobs / 2 if quick else 1):
            return True
        tickets = self.desk.ask(self.room - busy, prefetch=0.0)
        self._queue(tickets)
        idle = self.jobs - busy - len(tickets)
        if idle > 0 and self.policy.prefetch > 0.0 and tickets.status is Status.WAITING:
            tickets = self.desk.ask(idle, prefetch=self.policy.prefetch)
            self._queue(tickets)
        return not tickets.done

    def _queue(self, tickets: Iterable[Ticket], at: float = 0.0) -> None:
        for ticket in tickets:
            self.number += 1
            heapq.heappush(self.queued, (at, self.number, ticket))

    def _submit(self, now: float) -> None:
        while self.queued and self.queued[0][0] <= now:
            _, number, ticket = heapq.heappop(self.queued)
            function, argument = self.source.task(ticket.arm)
            try:
                future = self.executor.submit(_called, function, argument, (self.name, number))
            except BaseException:
                self._queue([ticket])
                raise
            self.out[future] = ticket, now

    def _sleep(self) -> None:
        if self.queued:
            self.sleep_until(self.queued[0][0])
        else:
            self.desk.wait()

    def _seconds_to_wait(self) -> float:
        """Return the seconds until the next retry, timeout or look."""
        now = time.monotonic()
        times = [now + LOOK_SECONDS, *(at for at, _, _ in self.queued[:1])]
        if self.timeout is not None:
            times += [began + self.timeout for _, began in self.out.values()]
        return max(min(times) - now, 0.0)

    def _record(self, future: Future[Any]) -> None:
        ticket, _ = self.out.pop(future)
        try:
            value = self.desk.check_reward(future.result())
        except BaseException as error:
            self._deal_with(ticket, error)
        else:
            self.desk.tell(ticket, value)
            self.failing.pop(ticket.arm, None)

    def _deal_with(self, ticket: Ticket, error: BaseException) -> None:
        try:
            again = self.retry_at(ticket, error)
        except BaseException:
            self.desk.skip_many([ticket], f"{type(error).__name__}: {error}")
            raise
        if again is None:
            self.desk.tell(ticket, self.desk.question.worst)
        else:
            self._queue([ticket], again)

    def _end_late_calls(self) -> None:
        if self.timeout is None:
            return
        now = time.monotonic()
        for future, (ticket, began) in list(self.out.items()):
            if now - began < self.timeout or future.done():
                continue
            if not future.cancel() and isinstance(self.executor, ThreadExecutor):
                self.executor.abandon()
            del self.out[future]
            late = PullFailed(
                f"arm {ticket.arm!r} took longer than {duration(self.timeout)}.", ticket.arm
            )
            late.late = True
            self._deal_with(ticket, late)

    def _size_up(self, rate: float) -> None:
        """Choose how many tickets to hold: more than `jobs` where pulls take only a moment.

        Not where nothing but `jobs` limits how many run at a time, and not where a timeout counts.
        """
        limited = isinstance(self.executor, ThreadExecutor) or self.policy.jobs is None
        quick = rate > 10.0 * self.jobs and self.timeout is None
        quick = quick and limited and not self.source.is_async
        queue = min(int(rate * QUEUE_SECONDS), 2 * self.room, MAX_QUEUED)
        self.room = max(self.jobs, queue if quick else 0)

    def _wind_up(self, error: BaseException) -> bool:
        """End early: record results that are done or about to be, give back the other tickets.

        Calls in threads cannot be stopped and are waited for, unless a second signal comes. Return
        whether all calls have ended.
        """
        signalled = isinstance(error, KeyboardInterrupt)
        if signalled and self.source.shares_signals and self.interrupts.received != signal.SIGINT:
            self._give_back()  # the signal may have ended commands, whose exit codes mean nothing
        for future in [future for future in self.out if future.cancel()]:
            self.desk.skip_many([self.out.pop(future)[0]], INTERRUPTED)
        ended = True
        self.interrupts.at_once = True
        try:
            if signalled:
                wait(self.out, GRACE_SECONDS)
                self.source.stop()
            if isinstance(self.executor, ThreadExecutor) or not signalled:
                wait(self.out, self._seconds_to_wait() if self.timeout is not None else None)
        except KeyboardInterrupt:
            ended = False
            self.source.stop()
        self.interrupts.at_once = False
        ended = ended and all(future.done() for future in self.out)
        for future in [future for future in self.out if future.done()]:
            ticket, _ = self.out.pop(future)
            try:
                self.desk.tell(ticket, self.desk.check_reward(future.result()))
            except BaseException as failure:
                self.desk.skip_many([ticket], f"{type(failure).__name__}: {failure}")
        self._give_back()
        return ended

    def _give_back(self) -> None:
        self._give_back_queued()
        if self.out:
            self.desk.skip_many([ticket for ticket, _ in self.out.values()], INTERRUPTED)
            self.out.clear()

    def _give_back_queued(self) -> None:
        if self.queued:
            self.desk.skip_many([ticket for _, _, ticket in self.queued], INTERRUPTED)
            self.queued.clear()


def _called(function: Callable[[Any], Any], argument: Any, call: tuple[str, int]) -> Any:
    """Make a call, or return its coroutine.

    `call` makes it differ from all others: dask takes equal calls for one, whose result it knows.
    """
    del call
    return function(argument)


def _failure_of(ticket: Ticket, error: Exception, more: str = "") -> PullFailed:
    failure = error
    if not isinstance(failure, PullFailed):
        kind = "" if isinstance(error, RewardRejected) else f"{type(error).__name__}: "
        failure = PullFailed(f"arm {ticket.arm!r}: {kind}{error}", ticket.arm)
        failure.__cause__ = error
    if more:
        failure.args = (str(failure).rstrip(".") + more,)
    return failure


class _Batches(_Driver):
    """Pulls of a source that gives many rewards at once."""

    def run(self) -> None:
        if isinstance(self.desk, Search):
            self._run_steps(self.desk)
            return
        while self._go_on():
            self.shown()
        self.shown(every=True)

    def _run_steps(self, search: Search) -> None:
        source = self.source
        totals = source.pull_totals if isinstance(source, TotalsSource) else None
        while not search.done and not self.stopping():
            pulls = search.ask_step()
            answer = _pulled(totals or source.pull, pulls, source.labels, self.interrupts)
            if totals is None:
                search.tell_step(answer)
            else:
                search.tell_step_totals(*_pair(answer))
            self.shown(every=True)

    def _go_on(self) -> bool:
        """Make the pulls of some tickets; return whether there may be more."""
        if self.stopping():
            return False
        tickets = self.desk.ask(MAX_BATCH, prefetch=0.0)
        if not tickets:
            if not tickets.done:
                self.desk.wait()
            return not tickets.done
        told = 0
        try:
            rewards = [self.desk.check_reward(reward) for reward in self._rewards(tickets)]
            for ticket, reward in zip(tickets, rewards, strict=True):
                told += 1  # also if this fails: the desk has it
                self.desk.tell(ticket, reward)
        except BaseException as error:
            self.desk.skip_many(tickets[told:], f"{type(error).__name__}: {error}")
            raise
        return True

    def _rewards(self, tickets: Tickets) -> list[Any]:
        by_ticket = getattr(self.source, "pull_tickets", None)
        if by_ticket is not None:
            rewards: list[Any] = by_ticket(tickets)
            return rewards
        groups = [(arm, len(list(group))) for arm, group in groupby(t.index for t in tickets)]
        pulls = Pulls(*(np.array(column, dtype=np.int64) for column in zip(*groups, strict=True)))
        rewards = list(_pulled(self.source.pull, pulls, self.source.labels, self.interrupts))
        if len(rewards) != len(tickets):
            raise PullFailed(f"a batch of {len(tickets)} pulls returned {len(rewards)} rewards.")
        return rewards


def _pulled(pull: Callable[..., Any], pulls: Pulls, labels: Any, interrupts: Interrupts) -> Any:
    try:
        with interrupts.open():
            answer = pull(*pulls)
            if inspect.iscoroutine(answer):
                import asyncio

                answer = asyncio.run(answer)
            return answer
    except OddarmsError:
        raise
    except Exception as error:
        alone = np.unique(pulls.indices).size == 1
        label = labels[int(pulls.indices[0])] if alone else None
        where = f"arm {label!r}" if alone else f"a step of {pulls.total} pulls"
        raise PullFailed(f"{where} raised {type(error).__name__}: {error}", label) from error


def _pair(answer: Any) -> tuple[Any, Any]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise RewardRejected(
            f"pull_totals() must return sums and sums of squares but returned {brief(answer)}."
        )
    return answer[0], answer[1]
