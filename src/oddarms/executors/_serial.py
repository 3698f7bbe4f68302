"""Calls in this process, one after another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from oddarms.executors._base import Executor, Outcome, Task


class SerialExecutor(Executor):
    """Runs each call when its result is asked for."""

    def __init__(self) -> None:
        super().__init__("this process", workers=1)

    def _results(
        self, function: Callable[[Task], Outcome], tasks: Iterable[Task]
    ) -> Generator[Outcome, None, None]:
        for task in tasks:
            yield function(task)

    def _release(self) -> None:
        pass
