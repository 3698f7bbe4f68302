"""Overloads for numba: compiled code calls the formulas of arrays with scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

from oddarms.statistics.elementwise import choose


@overload(choose)
def _choose(condition: Any, yes: Any, no: Any) -> Callable[[Any, Any, Any], Any] | None:  # noqa: ARG001
    def one(condition: Any, yes: Any, no: Any) -> Any:
        return yes if condition else no

    return one if isinstance(condition, types.Boolean) else None
