"""The one driver: asks for pulls, has them made, tells the rewards, until the search is done.

It drives anything that hands out tickets - a `Search` in memory, a worker's end of a study - and
anything that gives rewards: a source that takes whole steps, or calls that an executor makes.
"""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Any, get_args

import numpy as np

from oddarms.algorithms import Pulls
from oddarms.arms import CalledSource, FiniteSource, Source, TotalsSource
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
from oddarms.interrupts import ending_signals, raise_if_ended, signal_of, uninterrupted
from oddarms.problem import IntArray, Label, brief, check_whole
from oddarms.search._calls import INTERRUPTED, Calls, OnError
from oddarms.search._desk import POLL_SECONDS, Desk, Shown
from oddarms.search._kept import Kept
from oddarms.search._notebook import progress_line
from oddarms.search._patience import PATIENCE, Patience, PatientDesk
from oddarms.search._progress import ProgressCallback
from oddarms.search._result import Result
from oddarms.search._search import AHEAD, Search, check_ahead
from oddarms.search._tickets import Status, Ticket
from oddarms.text import counted

MOST_IN_BATCH = 1000


def drive(
    desk: Desk,
    source: Source | CalledSource,
    *,
    jobs: int | None = None,
    executor: Any = None,
    on_error: OnError = "stop",
    ahead: float = AHEAD,
    patience: Patience = PATIENCE,
    progress: ProgressCallback | bool | None = None,
) -> Result:
    """Make pulls until the search is done; return what was found.

    The parameters are those of `oddarms.find`. Whatever ends this, `result` of the error has what
    is known, and a study has every result that was told; one that could not be told for all the
    patience is in `untold` of the error.

    SIGTERM and SIGHUP end it as Ctrl-C does, if it runs in the main thread: pulls under way are
    finished and recorded. A second signal leaves them to themselves; what runs in threads of this
    process cannot be stopped and goes on, for nobody, until it ends or the process does.
    """
    _check_options(jobs, on_error, ahead, progress)
    line = progress_line() if progress is True else None
    callback = line if line is not None else progress if callable(progress) else None
    try:
        with ending_signals(), _entered(desk):
            patient = PatientDesk(desk, patience)
            shown = Shown(patient.progress, callback)
            driver = _driver(patient, source, jobs, executor, on_error, ahead, shown)
            with _with_result(patient, driver):
                driver.run()
                return patient.result()
    finally:
        if line is not None:
            line.close()


def _entered(desk: Desk) -> AbstractContextManager[object]:
    return desk if isinstance(desk, AbstractContextManager) else nullcontext()


def _driver(
    desk: PatientDesk,
    source: Source | CalledSource,
    jobs: int | None,
    executor: Any,
    on_error: OnError,
    ahead: float,
    shown: Shown,
) -> Driver:
    if isinstance(source, CalledSource):
        return Calls(desk, source, jobs, executor, on_error, ahead, shown)
    if executor is not None or on_error != "stop" or jobs not in (None, 1):
        raise InvalidParameter(
            "jobs, executor and on_error must be left out where arms are pulled many at a time"
            f" but got {jobs!r}, {executor!r} and {on_error!r}."
        )
    if isinstance(desk.desk, Search):
        return _Steps(desk.desk, source, shown)
    if _finite(source) is not None:
        raise InvalidParameter(
            "arms must not come to an end where several may pull them, as in a study, but those of"
            f" {type(source).__name__} do: import the rewards."
        )
    return _Batches(desk, source, shown)


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
def _with_result(desk: PatientDesk, driver: Driver) -> Iterator[None]:
    """Give every error that ends a run what is known, and the rewards that are not part of it."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise _interrupted(desk, driver, signal_of(error)) from None
    except (SearchError, BackendUnavailable, WorkerLost) as error:
        error.result = _known(desk, Status.FAILED)
        error.untold = driver.untold
        error.unabsorbed = [*driver.unabsorbed, *error.unabsorbed]
        raise
    except StoreFailed as error:
        error.untold = driver.untold
        error.unabsorbed = driver.unabsorbed
        if error.untold:
            error.args = (f"{error} {_only_here(error.untold)}",)
        raise
    except InvalidParameter:
        raise  # not about a pull; what was told to a study is there
    except Exception as error:
        result = _known(desk, Status.FAILED)
        said = "the search failed"
        if result is not None:
            said += f" after {result.pulls:,} pulls, which `result` of this error has"
        failure = SearchError(f"{said}: {type(error).__name__}: {error}")
        failure.result, failure.untold = result, driver.untold
        failure.unabsorbed = driver.unabsorbed
        raise failure from error


def _interrupted(desk: PatientDesk, driver: Driver, number: int) -> SearchInterrupted:
    untold = driver.untold
    result = _known(desk, Status.INTERRUPTED)
    name = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    said = f"{name}; the storage does not answer, but keeps what was told."
    if result is not None:
        said = f"{name} after {result.pulls:,} pulls; `result` of this error has them."
    interrupted = SearchInterrupted(f"{said} {_only_here(untold)}".strip(), number)
    interrupted.result, interrupted.untold = result, untold
    interrupted.unabsorbed = driver.unabsorbed
    return interrupted


def _only_here(untold: list[tuple[Ticket, float]]) -> str:
    if not untold:
        return ""
    return (
        f"Not stored and only in memory: {counted(len(untold), 'result')}, which `untold` of this"
        " error has and `tell_many` of the study takes."
    )


def _known(desk: PatientDesk, status: Status) -> Result | None:
    """Return what is known; None if a storage does not say it, or nobody wants to wait for it."""
    try:
        result = desk.result()
    except (StoreFailed, KeyboardInterrupt):
        return None
    return result if result.status.final else replace(result, status=status)


class _Steps:
    """Whole steps in memory, from a source that gives all their rewards at once."""

    def __init__(self, search: Search, source: Source, shown: Shown) -> None:
        self.search = search
        self.totals = source.pull_totals if isinstance(source, TotalsSource) else None
        self.pull = source.pull
        self.finite = _finite(source)
        self.shown = shown
        self.unabsorbed: list[tuple[Label, float]] = []
        self.untold: list[tuple[Ticket, float]] = []

    def run(self) -> None:
        with _Puller() as puller:
            while not self.search.done:
                pulls = self.search.ask_step()
                left = None if self.finite is None else self.finite.rewards_left
                if left is not None and _exceed(pulls, left):
                    self._end(left, puller)
                    self.shown(every=True)
                    break
                answer = puller(self.totals or self.pull, pulls, self.search.labels)
                raise_if_ended()
                if self.totals is None:
                    self.search.tell_step(answer)
                else:
                    self.search.tell_step_totals(*_pair(answer))
                self.shown(every=True)

    def _end(self, left: IntArray, puller: _Puller) -> None:
        """Give the search the rewards that are left, too few for a step, unless it has a budget."""
        budget = self.search.question.budget
        rest = Pulls(np.flatnonzero(left), left[left > 0])
        if rest.total == 0 or (budget is not None and self.search.told + rest.total > budget):
            self.search.end({})
            return
        rewards = np.asarray(puller(self.pull, rest, self.search.labels))
        raise_if_ended()
        labels = [self.search.labels[i] for i in rest.indices.tolist()]
        parts = np.split(rewards, np.cumsum(rest.counts)[:-1])
        self.search.end(dict(zip(labels, parts, strict=True)))


def _finite(source: object) -> FiniteSource | None:
    """Return a source whose rewards come to an end, None for any other."""
    if isinstance(source, FiniteSource) and source.rewards_left is not None:
        return source
    return None


def _exceed(pulls: Pulls, left: IntArray) -> bool:
    wanted = np.bincount(pulls.indices, pulls.counts, minlength=left.size)
    return bool((wanted > left).any())


class _Batches:
    """Tickets of a study, many at a time, from a source that gives their rewards at once."""

    def __init__(self, desk: PatientDesk, source: Source, shown: Shown) -> None:
        self.desk = desk
        self.source = source
        self.shown = shown
        self.out: list[Ticket] = []
        self.kept = Kept(desk)

    @property
    def unabsorbed(self) -> list[tuple[Label, float]]:
        return self.kept.unabsorbed

    @property
    def untold(self) -> list[tuple[Ticket, float]]:
        return list(self.kept.untold.items())

    def run(self) -> None:
        with _Puller() as puller:
            try:
                while self._go_on(puller):
                    pass
            except BaseException:
                self.desk.hurry()
                self.kept.give_back(self.out, INTERRUPTED)
                self.kept.try_to_hand_over()
                raise
        self.shown(every=True)

    def _go_on(self, puller: _Puller) -> bool:
        """Have one batch of pulls made; return whether there may be more."""
        if self._ask():
            return False
        if not self.out:
            self.desk.wait_for_others(POLL_SECONDS)
            return True
        failure = self._keep(self._rewards(puller))
        self._hand_over()
        if failure is not None:
            raise failure
        self.shown()
        return True

    @uninterrupted()
    def _ask(self) -> bool:
        """Fetch tickets; return whether there are none because the study is done."""
        tickets = self.desk.ask(MOST_IN_BATCH, ahead=0.0)
        self.out.extend(tickets)
        return tickets.done and not tickets

    def _rewards(self, puller: _Puller) -> list[Any]:
        runs = [(arm, len(list(group))) for arm, group in groupby(t.index for t in self.out)]
        pulls = Pulls(*(np.array(column, dtype=np.int64) for column in zip(*runs, strict=True)))
        try:
            rewards = list(puller(self.source.pull, pulls, self.source.labels))
            raise_if_ended()
            if len(rewards) != len(self.out):
                raise PullFailed(
                    f"a batch of {len(self.out)} pulls must return as many rewards but gave"
                    f" {len(rewards)}."
                )
        except BaseException as error:
            self.kept.give_back(self.out, f"{type(error).__name__}: {error}")
            self.out.clear()
            raise
        return rewards

    @uninterrupted()
    def _keep(self, rewards: list[Any]) -> RewardRejected | None:
        """Keep all good rewards; return what is wrong with the first bad one."""
        failure: RewardRejected | None = None
        for ticket, reward in zip(self.out, rewards, strict=True):
            try:
                self.kept.untold[ticket] = self.desk.check_reward(reward)
            except RewardRejected as error:
                self.kept.give_back([ticket], f"arm {ticket.arm!r}: {error}")
                if failure is None:
                    failure = RewardRejected(f"arm {ticket.arm!r}: {error}")
                    failure.outside = error.outside
        self.out.clear()
        return failure

    @uninterrupted()
    def _hand_over(self) -> None:
        self.kept.hand_over()


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


Driver = Calls | _Steps | _Batches


def _pair(answer: Any) -> tuple[Any, Any]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise RewardRejected(
            "pull_totals() must return two arrays, sums and sums of squares, but got"
            f" {brief(answer)}."
        )
    return answer[0], answer[1]
