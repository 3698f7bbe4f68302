"""The algorithms, each one file; `create` makes one by name.

==========  =================================================================
name        what it is
==========  =================================================================
``spade``   Shared-Pool Adaptive Double Exploration, the default; options
            ``indifference`` and ``max_step``
``ade``     Adaptive Double Exploration (AAAI 2020), option ``shared``
``rr``      Round-Robin (NIPS 2017), option ``batch``
``wrr``     Weighted Round-Robin (NIPS 2017), options ``rho`` and ``batch``
``census``  for arms with so many rewards and no more, which may all be seen;
            option ``rows``
==========  =================================================================
"""

from oddarms.algorithms._base import (
    Algorithm,
    Decision,
    Decisions,
    Pulls,
    Threshold,
    no_pulls,
)
from oddarms.algorithms._registry import available, create, get_algorithm, register

__all__ = [
    "Algorithm",
    "Decision",
    "Decisions",
    "Pulls",
    "Threshold",
    "available",
    "create",
    "get_algorithm",
    "no_pulls",
    "register",
]
