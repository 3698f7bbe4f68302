"""Functions whose rewards are clipped, or compared with a value, as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oddarms.arms._callables import is_async
from oddarms.tables import Transform


def transformed(
    function: Callable[..., Any], transform: Transform, *, batch: bool = False
) -> Callable[..., Any]:
    """Return the function with its reward, or in a batch its rewards, transformed.

    It is awaited, stopped and signalled as the function is.
    """
    kind = _AwaitedTransformed if is_async(function) else _Transformed
    return kind(function, transform, batch=batch)


class _Transformed:
    def __init__(self, function: Callable[..., Any], transform: Transform, *, batch: bool) -> None:
        self.function = function
        self.transform = transform
        self.batch = batch
        self.needs_thread = bool(getattr(function, "needs_thread", False))
        self.shares_signals = bool(getattr(function, "shares_signals", False))

    def __call__(self, *arguments: Any) -> Any:
        return self._after(self.function(*arguments))

    def _after(self, rewards: Any) -> Any:
        if self.batch:
            return [self.transform.one(reward) for reward in rewards]
        return self.transform.one(rewards)

    def stop(self) -> None:
        stop = getattr(self.function, "stop", None)
        if stop is not None:
            stop()


class _AwaitedTransformed(_Transformed):
    async def __call__(self, *arguments: Any) -> Any:
        return self._after(await self.function(*arguments))
