"""For formulas of arrays that compiled runs call with numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` where the condition holds and `no` elsewhere; both are evaluated."""
    return np.where(condition, yes, no)
