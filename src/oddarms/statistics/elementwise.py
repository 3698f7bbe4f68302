"""Helpers for formulas of arrays that compiled code calls with scalars."""

from __future__ import annotations

from typing import Any

import numpy as np

Numbers = Any
"""Arrays of floats, or floats in compiled code."""


def choose(condition: Numbers, yes: Numbers, no: Numbers) -> Numbers:
    """Return `yes` where the condition holds and `no` elsewhere; both are evaluated."""
    return np.where(condition, yes, no)
