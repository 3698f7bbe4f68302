"""How the error probability is shared among arms: more to those that are hard to decide.

An arm's e-process must reach 1/(w_i delta') in every world in which its decision would be wrong,
w_i = EVEN/n + (1 - EVEN) h(gamma_i) / sum_j h(gamma_j), h(gamma) = (1 + gamma/WIDTH)^-POWER and
gamma_j the distance of mean j from its threshold: docs/explanation/proofs.md, section 9.
"""

from __future__ import annotations

import numpy as np

from oddarms.statistics.elementwise import Numbers, elementwise

WIDTH = 0.05
POWER = 3.0
EVEN = 0.2


@elementwise
def closeness(gap: Numbers) -> Numbers:
    """Return h(gamma); at least that, where the gap is a lower bound."""
    return (1.0 + np.maximum(gap, 0.0) / WIDTH) ** -POWER


@elementwise
def log_weight(n: int, others: Numbers, steepness: Numbers, slack: float) -> Numbers:
    """Return at least what log(n w_i) adds to the evidence of an arm: Lemma 9.

    `steepness` is how fast the evidence grows with the distance from the threshold, `slack` the
    least distance of an error, and `others` at least the sum of the other arms' `closeness`.
    """
    x = np.minimum(np.maximum(steepness, 1e-300) * (WIDTH + slack) / POWER, 1.0)
    penalty = POWER * (1.0 - x + np.log(x) - np.log1p(slack / WIDTH))
    return np.log(EVEN + (1.0 - EVEN) * n * np.exp(penalty) / (1.0 + np.maximum(others, 0.0)))
