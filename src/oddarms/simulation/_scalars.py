"""What compiled code needs to call the formulas of arrays with numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.extending import overload
from scipy.special import betaln

from oddarms.statistics.elementwise import choose

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
LARGE = 10.0
"""From here on Stirling's series is exact to the last digits."""


@overload(choose)
def _choose(condition: Any, yes: Any, no: Any) -> Callable[[Any, Any, Any], Any] | None:  # noqa: ARG001
    def one(condition: Any, yes: Any, no: Any) -> Any:
        return yes if condition else no

    return one if isinstance(condition, types.Boolean) else None


@njit(nogil=True)
def stirling_rest(x: float) -> float:
    """Return log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2, x > 0.

    For small x from that of x + 1, as log Gamma(x + 1) = log Gamma(x) + log x.
    """
    rest = 0.0
    while x < LARGE:
        rest += (x + 0.5) * math.log1p(1.0 / x) - 1.0
        x += 1.0
    s = 1.0 / (x * x)
    series = s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * (691 / 360360 - s / 156))))
    return rest + (1 / 12 - s * (1 / 360 - series)) / x


@njit(nogil=True)
def log_beta(a: float, b: float) -> float:
    """Return log B(a, b) for positive a and b, without the cancellation of large log Gammas."""
    large, small = max(a, b), min(a, b)
    both = a + b
    leading = (large - 0.5) * math.log1p(-small / both) + (small - 0.5) * math.log(small / both)
    rest = stirling_rest(a) + stirling_rest(b) - stirling_rest(both)
    logarithm: float = leading - 0.5 * math.log(both) + HALF_LOG_TWO_PI + rest
    return logarithm


@overload(betaln)
def _betaln(a: Any, b: Any) -> Callable[[Any, Any], Any] | None:
    def one(a: Any, b: Any) -> Any:
        return log_beta(a, b)

    return one if isinstance(a, types.Float) and isinstance(b, types.Float) else None
