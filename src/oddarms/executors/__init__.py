"""Many independent calls of one function: in this process, on all its cores, or on a cluster."""

from oddarms.executors._base import Executor
from oddarms.executors._open import BACKENDS, open_executor

__all__ = ["BACKENDS", "Executor", "open_executor"]
