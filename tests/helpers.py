"""What several test modules share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oddarms.problem import FloatArray, gaps

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ade": ("ade", {}),
    "ade shared": ("ade", {"shared": True}),
    "rr": ("rr", {}),
    "rr batch 7": ("rr", {"batch": 7}),
    "wrr": ("wrr", {}),
    "wrr batch 7": ("wrr", {"batch": 7}),
    "wrr rho 1.7": ("wrr", {"rho": 1.7}),
}
"""The algorithms with the options that make them differ, by a name for test reports."""


def uniform_means_with_gap(
    rng: np.random.Generator, n: int, k: float, low: float, high: float
) -> FloatArray:
    """Return n uniform means given that the smallest gap lies in [low, high], by rejection."""
    while True:
        means = rng.random(n)
        if low <= gaps(means, k).min() <= high:
            return means
