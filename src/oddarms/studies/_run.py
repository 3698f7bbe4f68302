"""Drive a study with a function and any executor."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from oddarms.errors import InvalidParameter, PullFailed, RewardRejected
from oddarms.problem import Label, check_whole
from oddarms.search import Result
from oddarms.studies._interrupts import uninterrupted
from oddarms.studies._tickets import Ticket

if TYPE_CHECKING:
    from oddarms.studies._study import Study

OnError = Literal["stop", "retry", "worst", "drop"]
POLL_SECONDS = 0.5
AHEAD_SECONDS = 0.5
GRACE_SECONDS = 1.0
MOST_AHEAD = 2000
MOST_IN_BATCH = 1000
MOST_FAILURES = 10
"""An arm that fails this often in a row, with no result between, ends the run."""


def run(
    study: Study,
    pull: Callable[[Any], float],
    *,
    executor: Any = None,
    jobs: int = 1,
    worker: str | None = None,
    lease: timedelta = timedelta(hours=1),
    on_error: OnError = "stop",
    progress: Callable[[Study], None] | None = None,
    batch: bool = False,
) -> Result:
    """Ask, pull and tell until the study is done; return what it found.

    Several processes may run the same study at once. Whatever ends this - an exception, Ctrl-C,
    kill - the results told before are stored, and running again goes on from there.

    Parameters
    ----------
    study
        The study.
    pull
        Called with a label, returns a reward. If it has a method `stop`, that is called when the
        run is interrupted, to end calls under way.
    executor
        A concurrent.futures executor, a dask ``Client``, or the ray module (initialised); by
        default threads.
    jobs
        Pulls at a time.
    worker, lease
        As for `Study.ask`.
    on_error
        What a pull that raises, or returns no reward, means. "stop": give its ticket back, record
        what is under way and raise `PullFailed`. "retry": give it back, to be pulled again.
        "worst": count it as the most abnormal reward. "drop": give it back and forget it, which
        keeps the guarantee only if failing has nothing to do with the reward.
    progress
        Called with the study after results were recorded.
    batch
        Whether `pull` takes a list of labels and returns a list of rewards; it is then called in
        this thread, with up to a thousand labels at a time.
    """
    jobs = check_whole("jobs", jobs, least=1)
    if on_error not in get_args(OnError):
        raise InvalidParameter(
            f"on_error must be one of {', '.join(get_args(OnError))} but got {on_error!r}."
        )
    if batch:
        if on_error != "stop" or executor is not None:
            raise InvalidParameter("batch must not be given together with on_error or executor.")
        return _run_batches(study, pull, worker, lease, progress)
    driver = _Driver(study, pull, jobs, worker, lease, on_error, progress)
    if executor is not None:
        return driver.run(_as_executor(executor))
    with ThreadPoolExecutor(jobs) as threads:
        return driver.run(threads)


class _Driver:
    """Keeps workers busy, records what comes back, and deals with what fails."""

    def __init__(
        self,
        study: Study,
        pull: Callable[[Any], float],
        jobs: int,
        worker: str | None,
        lease: timedelta,
        on_error: OnError,
        progress: Callable[[Study], None] | None,
    ) -> None:
        self.study = study
        self.pull = pull
        self.jobs = jobs
        self.worker = worker
        self.lease = lease
        self.on_error = on_error
        self.progress = progress
        self.out: dict[Future[float], Ticket] = {}
        self.failures: dict[Label, int] = {}
        self.failure: PullFailed | None = None
        self.most_out = jobs

    def run(self, executor: Any) -> Result:
        """Go on until the study is done or a pull has failed for good."""
        try:
            while self._hand_out(executor) or self.out:
                self._collect()
        except BaseException:
            self._wind_up()
            raise
        if self.failure is not None:
            self.failure.result = self.study.result()
            raise self.failure
        return self.study.result()

    @uninterrupted()
    def _hand_out(self, executor: Any) -> bool:
        """Submit pulls; return whether there may be more later."""
        if self.failure is not None:
            self._give_back("another pull failed")
            return False
        if len(self.out) > self.most_out - self.jobs / 2:
            return True
        tickets = self.study.ask(self.most_out - len(self.out), self.worker, self.lease)
        for i, ticket in enumerate(tickets):
            try:
                self.out[executor.submit(self.pull, ticket.arm)] = ticket
            except BaseException:
                self.study.skip_many(tickets[i:], "it could not be submitted")
                raise
        return not tickets.done

    def _collect(self) -> None:
        """Wait for results and record them.

        Pulls that take a moment only are queued ahead, so that they are not held up by recording.
        """
        if not self.out:  # others have the rest of the step
            self.study.wait(POLL_SECONDS, poll=POLL_SECONDS)
            return
        started = time.monotonic()
        finished, _ = wait(self.out, return_when=FIRST_COMPLETED)
        self._record(finished)
        rate = len(finished) / max(time.monotonic() - started, 1e-6)
        ahead = min(int(rate * AHEAD_SECONDS), 2 * self.most_out, MOST_AHEAD)
        self.most_out = max(self.jobs, ahead if rate > 10.0 * self.jobs else 0)
        if self.progress is not None:
            self.progress(self.study)

    @uninterrupted()
    def _record(self, finished: Iterable[Future[float]]) -> None:
        results = []
        try:
            for future in finished:
                reward = self._reward(self.out[future], future)
                ticket = self.out.pop(future)
                if reward is not None:
                    results.append((ticket, reward))
                    self.failures.pop(ticket.arm, None)
        finally:  # one that ends the run does not take others with it
            self.study.tell_many(results, worker=self.worker)

    def _reward(self, ticket: Ticket, future: Future[float]) -> float | None:
        """Return the reward of a pull, or None if it failed and the policy has dealt with it."""
        error = future.exception()
        if error is None:
            try:
                return self.study.check_reward(future.result())
            except RewardRejected as rejected:
                error = rejected
        elif isinstance(error, InvalidParameter) or not isinstance(error, Exception):
            raise error  # not the arm's fault: nothing can be pulled
        return self._failed(ticket, error)

    def _failed(self, ticket: Ticket, error: Exception) -> float | None:
        self.failures[ticket.arm] = self.failures.get(ticket.arm, 0) + 1
        hopeless = self.failures[ticket.arm] >= MOST_FAILURES
        if self.on_error == "worst":
            a, b = self.study.question.bounds
            return a if self.study.question.side == "lower" else b
        self.study.skip(ticket, f"{type(error).__name__}: {error}")
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
        finished, _ = wait(self.out, timeout=GRACE_SECONDS)
        self._record([future for future in finished if future.exception() is None])
        stop = getattr(self.pull, "stop", None)
        if stop is not None:
            stop()
        self.study.skip_many(self.out.values(), reason)

    @uninterrupted()
    def _give_back(self, reason: str) -> None:
        """Give back the tickets of pulls that have not begun; those under way are finished."""
        cancelled = [future for future in self.out if future.cancel()]
        self.study.skip_many([self.out.pop(future) for future in cancelled], reason)


def _run_batches(
    study: Study,
    pull: Callable[[Any], Any],
    worker: str | None,
    lease: timedelta,
    progress: Callable[[Study], None] | None,
) -> Result:
    """Pull many labels at a time, in this thread."""
    while True:
        tickets = study.ask(MOST_IN_BATCH, worker, lease)
        if not tickets:
            if tickets.done:
                return study.result()
            study.wait(POLL_SECONDS, poll=POLL_SECONDS)
            continue
        try:
            rewards = _rewards_of(pull, [ticket.arm for ticket in tickets])
            study.tell_many(list(zip(tickets, rewards, strict=True)), worker=worker)
        except BaseException as error:
            study.skip_many(tickets, f"{type(error).__name__}: {error}")
            raise
        if progress is not None:
            progress(study)


def _rewards_of(pull: Callable[[Any], Any], labels: list[Label]) -> list[Any]:
    try:
        rewards = list(pull(labels))
    except Exception as error:
        raise PullFailed(
            f"a batch of {len(labels)} pulls raised {type(error).__name__}: {error}"
        ) from error
    if len(rewards) != len(labels):
        raise PullFailed(
            f"a batch of {len(labels)} pulls must return as many rewards but gave {len(rewards)}."
        )
    return rewards


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


def _as_executor(executor: Any) -> Any:
    if isinstance(executor, Executor):
        return executor
    if hasattr(executor, "get_executor"):  # a dask Client
        return executor.get_executor(pure=False)  # else an arm's pulls are one, with one reward
    if executor is sys.modules.get("ray"):
        return _RayExecutor(executor)
    raise InvalidParameter(
        "executor must be a concurrent.futures executor, a dask Client or the ray module but got"
        f" {type(executor).__name__}."
    )


class _RayExecutor:
    """Just enough of an executor over ray's tasks."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._call = ray.remote(lambda function, label: function(label))
        self._sent: tuple[Any, Any] = (None, None)

    def submit(self, function: Callable[[Any], float], label: Any) -> Future[float]:
        if self._sent[0] is not function:
            self._sent = (function, self._ray.put(function))
        future: Future[float] = self._call.remote(self._sent[1], label).future()
        return future
