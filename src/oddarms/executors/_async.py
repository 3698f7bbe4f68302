"""Calls of coroutine functions on an event loop, in this thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from oddarms.errors import ProtocolError
from oddarms.executors._staged import StagedExecutor

if TYPE_CHECKING:  # elsewhere when it is needed, as it takes long to import
    import asyncio

MOST_COROUTINES = 100
"""How many calls are under way at once unless told."""


class AsyncExecutor(StagedExecutor):
    """Runs coroutine functions on one event loop of its own, which moves during `wait` alone.

    So what the first call makes - a session of an HTTP client, a pool of connections - the others
    can use. `close` cancels the calls under way and waits until they have ended.

    Parameters
    ----------
    jobs
        How many calls are under way at once.

    Raises
    ------
    ProtocolError
        If an event loop is running in this thread already.
    """

    def __init__(self, jobs: int = MOST_COROUTINES) -> None:
        import asyncio

        _require_no_loop()
        super().__init__("this event loop", workers=jobs, most=jobs)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def _begin(self, function: Callable[[Any], Awaitable[Any]], argument: Any) -> asyncio.Task[Any]:
        return self._runner.get_loop().create_task(_call(function, argument))

    def _finished(
        self, handles: Collection[asyncio.Task[Any]], timeout: float | None
    ) -> Iterable[asyncio.Task[Any]]:
        _require_no_loop()
        finished = self._runner.run(_first_of(handles, timeout))
        if getattr(self._runner, "_interrupt_count", 0):  # Ctrl-C just when the wait was over
            raise KeyboardInterrupt
        return finished

    def _outcome(self, handle: asyncio.Task[Any]) -> tuple[BaseException | None, Any]:
        if handle.cancelled():
            return CancelledError("the call cancelled itself."), None
        error = handle.exception()
        return error, None if error is not None else handle.result()

    def _stop(self, handles: Collection[asyncio.Task[Any]]) -> None:
        for task in handles:
            task.cancel()
        self._runner.run(_all_of(handles))

    def _release(self) -> None:
        self._runner.close()


async def _call(function: Callable[[Any], Awaitable[Any]], argument: Any) -> Any:
    return await function(argument)


async def _first_of(
    tasks: Collection[asyncio.Task[Any]], timeout: float | None
) -> set[asyncio.Task[Any]]:
    import asyncio

    done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    return done


async def _all_of(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait for the tasks, whose exceptions are then known and need not be reported."""
    import asyncio

    await asyncio.gather(*tasks, return_exceptions=True)


def _require_no_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ProtocolError(
        "async arms must be pulled where no event loop runs but one runs in this thread, as in a"
        " notebook: await asyncio.to_thread(oddarms.find, ...) instead."
    )
