"""Drive a study with a function and any executor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from oddarms.errors import InvalidParameter, PullFailed
from oddarms.problem import check_whole
from oddarms.search import Result
from oddarms.studies._tickets import Ticket

if TYPE_CHECKING:
    from oddarms.studies._study import Study

POLL_SECONDS = 0.5


def run(
    study: Study,
    pull: Callable[[Any], float],
    *,
    executor: Any = None,
    jobs: int = 1,
    worker: str | None = None,
    lease: timedelta = timedelta(hours=1),
) -> Result:
    """Ask, pull and tell until the study is done; return what it found.

    Several processes may run the same study at once. Whatever ends this - an exception, Ctrl-C,
    kill - the results told before are stored, and running again goes on from there.

    Parameters
    ----------
    study
        The study.
    pull
        Called with a label, returns a reward. If it raises, its ticket is given back, pulls under
        way are finished and recorded, and `PullFailed` is raised.
    executor
        A concurrent.futures executor, a dask ``Client``, or the ray module (initialised); by
        default threads.
    jobs
        Pulls at a time.
    worker, lease
        As for `Study.ask`.
    """
    jobs = check_whole("jobs", jobs, least=1)
    if executor is None:
        with ThreadPoolExecutor(jobs) as threads:
            return _drive(study, pull, threads, jobs, worker, lease)
    return _drive(study, pull, _as_executor(executor), jobs, worker, lease)


def _drive(
    study: Study,
    pull: Callable[[Any], float],
    executor: Any,
    jobs: int,
    worker: str | None,
    lease: timedelta,
) -> Result:
    out: dict[Future[float], Ticket] = {}
    failure: PullFailed | None = None
    try:
        while True:
            done = failure is not None
            if len(out) < jobs and failure is None:
                tickets = study.ask(jobs - len(out), worker, lease)
                done = tickets.done
                for ticket in tickets:
                    out[executor.submit(pull, ticket.arm)] = ticket
            if not out and done:
                break
            failure = _collect(study, out, worker) or failure
    except BaseException:
        for future, ticket in out.items():
            future.cancel()
            study.skip(ticket, "the run was interrupted")
        raise
    if failure is not None:
        raise failure
    return study.result()


def _collect(
    study: Study, out: dict[Future[float], Ticket], worker: str | None
) -> PullFailed | None:
    """Wait for some results and tell them; return the error of a pull that failed."""
    if not out:  # others have the rest of the step
        study.wait(POLL_SECONDS, poll=POLL_SECONDS)
        return None
    finished, _ = wait(out, return_when=FIRST_COMPLETED)
    results, failure = [], None
    for future in finished:
        ticket = out.pop(future)
        error = future.exception()
        if error is None:
            results.append((ticket, future.result()))
        else:
            study.skip(ticket, f"{type(error).__name__}: {error}")
            reason = f"arm {ticket.arm!r} raised {type(error).__name__}: {error}"
            failure = PullFailed(reason, ticket.arm)
            failure.__cause__ = error
    study.tell_many(results, worker=worker)
    if failure is not None:
        failure.result = study.result()
    return failure


def _as_executor(executor: Any) -> Any:
    if isinstance(executor, Executor):
        return executor
    if hasattr(executor, "get_executor"):  # a dask Client
        return executor.get_executor()
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
        self._remote: dict[Any, Any] = {}

    def submit(self, function: Callable[[Any], float], label: Any) -> Future[float]:
        remote = self._remote.setdefault(function, self._ray.remote(function))
        future: Future[float] = remote.remote(label).future()
        return future
