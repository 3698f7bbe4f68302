"""The algorithms, each one file; `create` makes one by name.

==============  =============================================================
name            what it is
==============  =============================================================
``spade``       Shared-Pool Adaptive Double Exploration, the default; options
                ``indifference`` and ``max_step``
``lucb``        for rules other than "sigma", from intervals of all means;
                options ``indifference`` and ``sd``
``calibrated``  a careful large-sample rule, not proven, also for budgets
``census``      for finite populations: arms whose rewards can all be
                sampled, without replacement; option ``rows``
``ade``         Adaptive Double Exploration (AAAI 2020), option ``shared``
``rr``          Round-Robin (NIPS 2017), option ``batch``
``wrr``         Weighted Round-Robin (NIPS 2017), options ``rho``, ``batch``
``roai-elim``   Robust Outlier Arm Identification (ICML 2020) by elimination
``roai-lucb``   the same in the manner of LUCB
==============  =============================================================
"""

from oddarms.algorithms._base import (
    UNLIMITED,
    Algorithm,
    Decision,
    Decisions,
    Guesses,
    Pulls,
    Threshold,
    check_options,
    no_pulls,
)
from oddarms.algorithms._registry import available, create, get_algorithm, register

__all__ = [
    "UNLIMITED",
    "Algorithm",
    "Decision",
    "Decisions",
    "Guesses",
    "Pulls",
    "Threshold",
    "available",
    "check_options",
    "create",
    "get_algorithm",
    "no_pulls",
    "register",
]
