"""The one driver: asks for pulls, has them made, tells the rewards, until the search is done.

It drives anything that hands out tickets - a `Search` in memory, a worker's end of a study - and
anything that gives rewards: a source that takes whole steps, or calls that an executor makes.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal, Protocol, get_args

import numpy as np

from oddarms.algorithms import Pulls
from oddarms.arms import CalledSource, Source, TotalsSource
from oddarms.errors import (
    BackendUnavailable,
    InvalidParameter,
    OddarmsError,
    PullFailed,
    RewardRejected,
    SearchError,
    SearchInterrupted,
    StoreFailed,
    WorkerLost,
)
from oddarms.executors import AsyncExecutor, Executor, as_executor
from oddarms.interrupts import uninterrupted
from oddarms.problem import Label, Question, check_whole
from oddarms.search._progress import Progress, ProgressCallback, ProgressLine
from oddarms.search._result import Result
from oddarms.search._search import AHEAD, Search
from oddarms.search._tickets import Status, Ticket, Tickets

OnError = Literal["stop", "retry", "worst"]
MOST_FAILURES = 10
"""An arm that fails this often in a row, with no result between, ends the run."""
ASYNC_JOBS = 100
POLL_SECONDS = 0.5
QUEUE_SECONDS = 0.5
GRACE_SECONDS = 1.0
PROGRESS_SECONDS = 0.1
MOST_QUEUED = 2000
MOST_IN_BATCH = 1000


class Desk(Protocol):
    """Where tickets are handed out and results taken: a `Search`, or a worker's end of a study."""

    @property
    def question(self) -> Question:
        """What is asked."""
        ...

    def ask(self, n: int = 1, *, ahead: float = AHEAD) -> Tickets:
        """Hand out up to n pulls."""
        ...

    def tell_many(self, results: Iterable[tuple[Ticket | int, float]]) -> Any:
        """Take results; when this returns they are kept."""
        ...

    def skip_many(self, tickets: Iterable[Ticket | int], reason: str = "") -> None:
        """Take tickets back."""
        ...

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        ...

    def has_used(self, ticket: Ticket) -> bool:
        """Return whether a ticket's result need not be kept by the caller any more."""
        ...

    def result(self) -> Result:
        """Return what is known."""
        ...

    def progress(self) -> Progress:
        """Return how far it is."""
        ...

    def wait_for_others(self, seconds: float) -> None:
        """Wait a moment, where all pulls are with others."""
        ...


def drive(
    desk: Desk,
    source: Source | CalledSource,
    *,
    jobs: int | None = None,
    executor: Any = None,
    on_error: OnError = "stop",
    ahead: float = AHEAD,
    progress: ProgressCallback | bool | None = None,
) -> Result:
    """Make pulls until the search is done; return what was found.

    The parameters are those of `oddarms.find`. Whatever ends this, `result` of the error has what
    is known, and a study has every result that was told.
    """
    _check_options(jobs, on_error, progress)
    line = ProgressLine() if progress is True else None
    shown = _Shown(desk, line if line is not None else progress if callable(progress) else None)
    driver: _Calls | _Steps | _Batches
    if isinstance(source, CalledSource):
        driver = _Calls(desk, source, jobs, executor, on_error, ahead, shown)
    elif executor is not None or on_error != "stop" or jobs not in (None, 1):
        raise InvalidParameter(
            "jobs, executor and on_error must be left out where arms are pulled many at a time"
            f" but got {jobs!r}, {executor!r} and {on_error!r}."
        )
    elif isinstance(desk, Search):
        driver = _Steps(desk, source, shown)
    else:
        driver = _Batches(desk, source, shown)
    try:
        with _with_result(desk, driver):
            driver.run()
            return desk.result()
    finally:
        if line is not None:
            line.close()


def _check_options(jobs: int | None, on_error: str, progress: object) -> None:
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidParameter(f"progress must be True, False or a function but got {progress!r}.")
    if jobs is not None:
        check_whole("jobs", jobs, least=1)
    if on_error not in get_args(OnError):
        raise InvalidParameter(
            f"on_error must be one of {', '.join(get_args(OnError))} but got {on_error!r}."
        )


@contextmanager
def _with_result(desk: Desk, driver: _Calls | _Steps | _Batches) -> Iterator[None]:
    """Give every error that ends a run what is known, and the rewards that are not part of it."""
    try:
        yield
    except KeyboardInterrupt:
        result = _stopped(desk, Status.INTERRUPTED)
        interrupted = SearchInterrupted(
            f"interrupted after {result.pulls:,} pulls; `result` of this error has them."
        )
        interrupted.result, interrupted.unabsorbed = result, driver.unabsorbed
        raise interrupted from None
    except SearchError as error:
        error.result = _stopped(desk, Status.FAILED)
        error.unabsorbed = [*driver.unabsorbed, *error.unabsorbed]
        raise
    except (InvalidParameter, StoreFailed, BackendUnavailable, WorkerLost):
        raise  # not about a pull; what was told to a study is there
    except Exception as error:
        result = _stopped(desk, Status.FAILED)
        failure = SearchError(
            f"the search failed after {result.pulls:,} pulls, which `result` of this error"
            f" has: {type(error).__name__}: {error}"
        )
        failure.result, failure.unabsorbed = result, driver.unabsorbed
        raise failure from error


def _stopped(desk: Desk, status: Status) -> Result:
    result = desk.result()
    return result if result.status.final else replace(result, status=status)


@dataclass
class _Shown:
    """Passes the progress on, not more often than it can be read."""

    desk: Desk
    callback: ProgressCallback | None
    due: float = 0.0

    def __call__(self, *, every: bool = False) -> None:
        if self.callback is None:
            return
        is_due: Callable[[], bool] | None = getattr(self.callback, "due", None)
        if is_due is not None and not is_due():
            return
        now = time.monotonic()
        if not every and is_due is None and now < self.due:
            return
        self.due = now + PROGRESS_SECONDS
        self.callback(self.desk.progress())


class _Steps:
    """Whole steps in memory, from a source that gives all their rewards at once."""

    def __init__(self, search: Search, source: Source, shown: _Shown) -> None:
        self.search = search
        self.totals = source.pull_totals if isinstance(source, TotalsSource) else None
        self.pull = source.pull
        self.shown = shown
        self.unabsorbed: list[tuple[Label, float]] = []

    def run(self) -> None:
        with _Puller() as puller:
            while not self.search.done:
                pulls = self.search.ask_step()
                answer = puller(self.totals or self.pull, pulls, self.search.labels)
                if self.totals is None:
                    self.search.tell_step(answer)
                else:
                    self.search.tell_step_totals(*_pair(answer))
                self.shown(every=True)


class _Batches:
    """Tickets of a study, many at a time, from a source that gives their rewards at once."""

    def __init__(self, desk: Desk, source: Source, shown: _Shown) -> None:
        self.desk = desk
        self.source = source
        self.shown = shown
        self.unabsorbed: list[tuple[Label, float]] = []

    def run(self) -> None:
        with _Puller() as puller:
            while True:
                tickets = self.desk.ask(MOST_IN_BATCH, ahead=0.0)
                if tickets:
                    self._pull(puller, tickets)
                    self.shown()
                elif tickets.done:
                    return
                else:
                    self.desk.wait_for_others(POLL_SECONDS)

    def _pull(self, puller: _Puller, tickets: Tickets) -> None:
        runs = [(arm, len(list(group))) for arm, group in groupby(t.index for t in tickets)]
        pulls = Pulls(*(np.array(column, dtype=np.int64) for column in zip(*runs, strict=True)))
        try:
            rewards = list(puller(self.source.pull, pulls, self.source.labels))
            if len(rewards) != len(tickets):
                raise PullFailed(
                    f"a batch of {len(tickets)} pulls must return as many rewards but gave"
                    f" {len(rewards)}."
                )
            self.desk.tell_many(list(zip(tickets, rewards, strict=True)))
        except BaseException as error:
            self.desk.skip_many(tickets, f"{type(error).__name__}: {error}")
            raise


class _Puller:
    """Calls `pull` of a source, awaiting it where it is asynchronous."""

    def __init__(self) -> None:
        self._loop: AsyncExecutor | None = None

    def __enter__(self) -> _Puller:
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.close()

    def __call__(self, pull: Callable[..., Any], pulls: Pulls, labels: Any) -> Any:
        try:
            if not inspect.iscoroutinefunction(pull):
                return pull(*pulls)
            if self._loop is None:
                self._loop = AsyncExecutor(1)
            future = self._loop.submit(lambda arguments: pull(*arguments), pulls)
            self._loop.wait([future])
            return future.result()
        except OddarmsError:
            raise
        except Exception as error:
            alone = np.unique(pulls.indices).size == 1
            label = labels[int(pulls.indices[0])] if alone else None
            where = f"arm {label!r}" if alone else f"a step of {pulls.total} pulls"
            raise PullFailed(f"{where} raised {type(error).__name__}: {error}", label) from error


def _pair(answer: Any) -> tuple[Any, Any]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise RewardRejected("pull_totals() must return two arrays, sums and sums of squares.")
    return answer[0], answer[1]


class _Calls:
    """Keeps workers busy with calls, records what comes back, and deals with what fails."""

    def __init__(
        self,
        desk: Desk,
        source: CalledSource,
        jobs: int | None,
        executor: Any,
        on_error: OnError,
        ahead: float,
        shown: _Shown,
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
        """End early: record what is there or nearly there, give back the rest."""
        reason = "the run was interrupted"
        self._give_back(reason)
        left, end = set(self.out), time.monotonic() + GRACE_SECONDS
        while left and (done := self.executor.wait(left, max(end - time.monotonic(), 0.0))):
            left -= done
        finished = [future for future in self.out if future.done() and not future.cancelled()]
        self._record([future for future in finished if not self._is_trouble(future)])
        self.source.stop()
        self.desk.skip_many(self.out.values(), reason)

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
