"""Calls in processes of this machine, by joblib and its loky."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from typing import Any

from oddarms.errors import MissingExtra
from oddarms.executors._base import (
    Executor,
    Outcome,
    Task,
    count_of,
    shielded_from_interrupts,
    worker_lost,
)


class JoblibExecutor(Executor):
    """Runs calls in joblib's processes, which start with the first call."""

    def __init__(self, jobs: int) -> None:
        try:
            import joblib  # noqa: F401
        except ImportError:
            raise MissingExtra.of("parallel", f"jobs={jobs}") from None
        super().__init__(f"joblib, {count_of(jobs, 'process', 'processes')}", workers=jobs)
        self._started = False

    def _results(
        self, function: Callable[[Task], Outcome], tasks: Iterable[Task]
    ) -> Generator[Outcome, None, None]:
        from joblib import Parallel, delayed
        from joblib.externals.loky import BrokenProcessPool

        self._started = True
        parallel = Parallel(
            n_jobs=self.workers,
            backend="loky",
            return_as="generator_unordered",
            pre_dispatch=self._window,
            batch_size=1,
            max_nbytes=None,  # else a large array reaches the function as a read-only file
        )
        call = delayed(function)
        try:
            with ExitStack() as stack:
                with shielded_from_interrupts():
                    results = parallel(call(task) for task in tasks)
                    stack.callback(_close, results)
                for result in results:  # noqa: UP028 `yield from` would close them, and so warn
                    yield result
        except BrokenProcessPool as error:
            raise worker_lost("joblib", error) from error

    def _release(self) -> None:
        if not self._started:
            return
        from joblib.externals.loky import get_reusable_executor

        # joblib has one pool per process, which would stay for five minutes
        get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def _close(results: Any) -> None:
    """Cancel the calls without joblib's warning of results that nobody took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        results.close()
