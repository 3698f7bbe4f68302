"""Whole runs in compiled code: those of the interactive algorithms, up to rounding.

The loops call the formulas of `oddarms.statistics`; only the bookkeeping around them is different:
where an interactive algorithm looks at all n arms after each pull, a kernel looks at one or two
numbers that prove that nothing can have changed. Why that is exact is said where it is done, and
tests compare both forms pull for pull. SPADE looks at every arm in few, large steps; its kernel
takes loops in place of arrays.
"""

from __future__ import annotations

from oddarms.simulation._ade_kernel import run_ade
from oddarms.simulation._round_robin_kernel import run_round_robin
from oddarms.simulation._spade_kernel import run_spade

__all__ = ["run_ade", "run_round_robin", "run_spade"]
