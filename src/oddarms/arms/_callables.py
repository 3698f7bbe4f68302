"""Arms that are pulled by calling something: a function for each, or one for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import IntArray, Label, brief, check_labels
from oddarms.tables import Transform

Task = tuple[Callable[[Any], Any], Any]
"""A function and what to call it with, for any executor."""


@runtime_checkable
class CalledSource(Protocol):
    """Arms of which each pull is one call; calls may run in parallel, in any thread or process.

    Attributes
    ----------
    labels
        The arms' names.
    is_async
        Whether calls return coroutines.
    needs_thread
        Whether calls must not run in the main thread, where a signal may interrupt them.
    shares_signals
        Whether a signal that ends this process may also reach what the calls run.
    """

    labels: Sequence[Label]
    is_async: bool
    needs_thread: bool
    shares_signals: bool

    def task(self, label: Label) -> Task:
        """Return the call that makes a pull of an arm."""
        ...

    def stop(self) -> None:
        """End the calls under way, as far as that is possible."""
        ...


class Callables:
    """Arms given as functions without arguments that return one reward each.

    Parameters
    ----------
    functions
        A mapping from label to function, or a sequence of functions labelled 0, 1, 2, ...
        ``async def`` functions are awaited, many at a time.

    Examples
    --------
    >>> arms = Callables({"a": lambda: 0.25, "b": lambda: 1})
    >>> call, argument = arms.task("b")
    >>> call(argument)
    1
    """

    needs_thread = shares_signals = False

    def __init__(
        self, functions: Mapping[Any, Callable[[], Any]] | Sequence[Callable[[], Any]]
    ) -> None:
        named = functions if isinstance(functions, Mapping) else dict(enumerate(functions))
        self.labels: Sequence[Label] = check_labels(named)
        self._functions = dict(zip(self.labels, named.values(), strict=True))
        for label, function in self._functions.items():
            if not callable(function):
                raise InvalidParameter(
                    f"arm {label!r} must be a function, but is {brief(function)}. For recorded"
                    " rewards call oddarms.analyze."
                )
        self.is_async = any(map(is_async, self._functions.values()))

    def changed(self, change: Callable[[Callable[[], Any]], Callable[[], Any]]) -> Callables:
        """Return arms with every function changed."""
        return Callables({label: change(each) for label, each in self._functions.items()})

    def task(self, label: Label) -> Task:
        """Return the call that makes a pull of an arm."""
        return (_awaited if self.is_async else _called), self._functions[label]

    def stop(self) -> None:
        """Do nothing: a function cannot be ended from outside."""


class Function:
    """Arms that are pulled by calling one function with their label.

    Parameters
    ----------
    function
        Takes a label and returns a reward. An ``async def`` is awaited, many at a time. Its method
        `stop`, if it has one, is called to end calls under way.
    labels
        The arms' names.

    Examples
    --------
    >>> arms = Function(len, ["a", "bb", "ccc"])
    >>> call, argument = arms.task("ccc")
    >>> call(argument)
    3
    """

    def __init__(self, function: Callable[[Any], Any], labels: Iterable[Label]) -> None:
        if not callable(function):
            raise InvalidParameter(f"function must be callable, but is {brief(function)}.")
        self.labels: Sequence[Label] = labels if isinstance(labels, range) else check_labels(labels)
        self._function = function
        self.is_async = is_async(function)
        self.needs_thread = bool(getattr(function, "needs_thread", False))
        self.shares_signals = bool(getattr(function, "shares_signals", False))

    def task(self, label: Label) -> Task:
        """Return the call that makes a pull of an arm."""
        return self._function, label

    def stop(self) -> None:
        """Let the function end the calls under way, if it can."""
        stop = getattr(self._function, "stop", None)
        if stop is not None:
            stop()


class BatchFunction:
    """Arms that are pulled many at a time: one function takes labels and returns their rewards.

    Examples
    --------
    >>> arms = BatchFunction(lambda labels: [len(label) for label in labels], ["a", "bb"])
    >>> arms.pull([1, 0], [1, 2])
    [2, 1, 1]
    """

    def __init__(
        self, function: Callable[[list[Any]], Iterable[float]], labels: Iterable[Label]
    ) -> None:
        self.labels: Sequence[Label] = check_labels(labels)
        self._function = function

    def pull(self, indices: IntArray, counts: IntArray) -> list[float]:
        """Return one reward per pull, in order."""
        arms = np.repeat(np.asarray(indices), counts).tolist()
        return list(self._function([self.labels[arm] for arm in arms]))


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function, or an object that can be called, is an ``async def``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - of an object that can be called
    )


def _called(function: Callable[[], Any]) -> Any:
    return function()


async def _awaited(function: Callable[[], Any]) -> Any:
    found = function()
    return await found if isinstance(found, Awaitable) else found


def transformed(
    function: Callable[..., Any], transform: Transform, *, batch: bool = False
) -> Callable[..., Any]:
    """Return the function with its reward, or in a batch its rewards, transformed."""
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
