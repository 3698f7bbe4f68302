"""Calls of a function: in this thread, in others, on all cores, on a cluster or an event loop."""

from oddarms.executors._async import AsyncExecutor
from oddarms.executors._base import Executor
from oddarms.executors._open import BACKENDS, as_executor, open_executor

__all__ = ["BACKENDS", "AsyncExecutor", "Executor", "as_executor", "open_executor"]
