"""Calls in this thread, one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from oddarms.executors._base import Executor, Outcome, Task


class SerialExecutor(Executor):
    """Runs each call when it is submitted; Ctrl-C in a call leaves `submit` as itself."""

    def __init__(self) -> None:
        super().__init__("this process", workers=1)
        self.calls_in_submit = True
        self._window = 1

    def _submit(self, function: Callable[[Task], Outcome], argument: Task) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        try:
            future.set_result(function(argument))
        except Exception as error:
            future.set_exception(error)
        return future

    def _release(self) -> None:
        pass
