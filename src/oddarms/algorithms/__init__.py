"""The algorithms, each one file; `create` makes one by name.

=============  ==================================================================
name           what it is
=============  ==================================================================
``spade``      Shared-Pool Adaptive Double Exploration, the default; options
               ``indifference`` and ``max_step``
``lucb``       For any rule, the default of all but mean + k sd: intervals of all
               arms, and pulls where they matter; options ``indifference`` and
               ``sd``, a known deviation
``ade``        Adaptive Double Exploration (AAAI 2020), option ``shared``
``rr``         Round-Robin (NIPS 2017), option ``batch``
``wrr``        Weighted Round-Robin (NIPS 2017), options ``rho`` and ``batch``
``roai-elim``  For median + k MAD: ROAI-Elim (ICML 2020), option ``sd``
``roai-lucb``  For median + k MAD: ROAI-LUCB (ICML 2020), option ``sd``
=============  ==================================================================
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
