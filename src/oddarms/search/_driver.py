"""The one driver: asks for pulls, has them made, tells the rewards, until the search is done.

It drives anything that hands out tickets - a `Search` in memory, a worker's end of a study - and
anything that gives rewards: a source that takes whole steps, or calls that an executor makes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any, get_args

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
from oddarms.executors import AsyncExecutor
from oddarms.problem import Label, check_whole
from oddarms.search._calls import Calls, OnError
from oddarms.search._desk import POLL_SECONDS, Desk, Shown
from oddarms.search._progress import ProgressCallback, ProgressLine
from oddarms.search._result import Result
from oddarms.search._search import AHEAD, Search, check_ahead
from oddarms.search._tickets import Status, Ticket, Tickets

MOST_IN_BATCH = 1000


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
    _check_options(jobs, on_error, ahead, progress)
    line = ProgressLine() if progress is True else None
    shown = Shown(desk, line if line is not None else progress if callable(progress) else None)
    driver: Calls | _Steps | _Batches
    if isinstance(source, CalledSource):
        driver = Calls(desk, source, jobs, executor, on_error, ahead, shown)
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


def _check_options(jobs: int | None, on_error: str, ahead: float, progress: object) -> None:
    check_ahead(ahead)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidParameter(f"progress must be True, False or a function but got {progress!r}.")
    if jobs is not None:
        check_whole("jobs", jobs, least=1)
    if on_error not in get_args(OnError):
        raise InvalidParameter(
            f"on_error must be one of {', '.join(get_args(OnError))} but got {on_error!r}."
        )


@contextmanager
def _with_result(desk: Desk, driver: Calls | _Steps | _Batches) -> Iterator[None]:
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
    except (BackendUnavailable, WorkerLost) as error:
        error.result = _stopped(desk, Status.FAILED)
        error.unabsorbed = driver.unabsorbed
        raise
    except (InvalidParameter, StoreFailed):
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


class _Steps:
    """Whole steps in memory, from a source that gives all their rewards at once."""

    def __init__(self, search: Search, source: Source, shown: Shown) -> None:
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

    def __init__(self, desk: Desk, source: Source, shown: Shown) -> None:
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
                    self.shown(every=True)
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
        except BaseException as error:
            self.desk.skip_many(tickets, f"{type(error).__name__}: {error}")
            raise
        self._tell(tickets, rewards)

    def _tell(self, tickets: Tickets, rewards: list[Any]) -> None:
        """Tell all good rewards, and raise for the first bad one."""
        good: list[tuple[Ticket | str, float]] = []
        bad: list[Ticket] = []
        failure: RewardRejected | None = None
        for ticket, reward in zip(tickets, rewards, strict=True):
            try:
                good.append((ticket, self.desk.check_reward(reward)))
            except RewardRejected as error:
                bad.append(ticket)
                failure = failure or RewardRejected(f"arm {ticket.arm!r}: {error}")
        self.desk.tell_many(good)
        if failure is not None:
            self.desk.skip_many(bad, str(failure))
            raise failure


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
