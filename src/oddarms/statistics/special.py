"""Functions of SciPy, which is imported when one is first called: that takes half a second.

Commands that hand out tickets or print help do not call them.
"""

from __future__ import annotations

from typing import Any


def betaln(a: Any, b: Any) -> Any:
    """Return the logarithm of the beta function."""
    from scipy.special import betaln as function

    return function(a, b)


def gammaln(x: Any) -> Any:
    """Return the logarithm of the gamma function."""
    from scipy.special import gammaln as function

    return function(x)


def ndtr(x: Any) -> Any:
    """Return the distribution function of the standard normal law."""
    from scipy.special import ndtr as function

    return function(x)


def ndtri(p: Any) -> Any:
    """Return the quantile function of the standard normal law."""
    from scipy.special import ndtri as function

    return function(p)
