"""What several test modules share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.directions import Tally
from oddarms.statistics.totals import Totals
from oddarms.theory import gaps

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


KS = [0.0, 0.5, 2.0, 3.0]


def left_out(y: FloatArray, k: float) -> FloatArray:
    """Return theta_-i = mu_-i + k~ sigma_-i of every arm i, from its definition."""
    steep = k / math.sqrt(1.0 - (1.0 + k * k) / y.size)
    others = [np.delete(y, i) for i in range(y.size)]
    return np.array([other.mean() + steep * other.std() for other in others])


def totals_of(rewards: FloatArray) -> Totals:
    """Return the totals of (arms, pulls) rewards."""
    pulls = np.full(len(rewards), float(rewards.shape[1]))
    return Totals(pulls, rewards.sum(axis=1), (rewards**2).sum(axis=1))


def tally_of(rewards: FloatArray) -> Tally:
    """Return the tally of (arms, pulls) rewards."""
    return Tally.seen(totals_of(rewards))
