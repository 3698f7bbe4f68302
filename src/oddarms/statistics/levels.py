"""How the error probability is shared among arms: more to those that are hard to decide.

An arm's e-process must reach 1/(w_i delta'), where the weights w_i sum to 1. Equal weights spend
as much on arms far from the threshold as on those next to it. Here they depend on the *world*, the
vector of true means: w_i = EVEN/n + (1 - EVEN) h(gamma_i) / sum_j h(gamma_j), with
h(gamma) = (1 + gamma/WIDTH)^-POWER and gamma_j the distance of mean j from its threshold.

In the true world these are fixed numbers that sum to 1. Each arm has one wrong verdict, with an
e-process E_i against it, so sum_i w_i E_i is one e-process, and by Ville's inequality no w_i E_i
ever reaches 1/delta', with probability 1 - delta'. As the true world is not known, a verdict is
given once w_i E_i reaches 1/delta' in *every* world in which it errs (and that is not excluded by
events whose probability is paid for elsewhere). No pilot and no restart is needed.
"""

from __future__ import annotations

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.elementwise import Numbers, elementwise

WIDTH = 0.05
POWER = 3.0
EVEN = 0.2


@elementwise
def closeness(gap: Numbers) -> Numbers:
    """Return h(gamma); at least that, where the gap is a lower bound."""
    return (1.0 + np.maximum(gap, 0.0) / WIDTH) ** -POWER


def log_relative_weights(
    arms: IntArray, closeness: FloatArray, steepness: FloatArray, slack: float
) -> FloatArray:
    """Return at least what log(n w_i) adds to the evidence of each of the arms.

    Worlds that err on arm i have a distance of gamma_i = slack + e on the wrong side, e >= 0, and
    there its log e-process is `steepness` e larger than at e = 0: with s the steepness,
    W = WIDTH + slack and p = POWER, the least of s e + log h(slack + e) is that of
    s e - p log(1 + e/W), less p log(1 + slack/WIDTH). It is at e = 0, or p (1 - x + log x) with
    x = s W / p < 1. The others' gaps are bounded from below, so h_i + sum_j h_j is at most
    1 + `closeness` of the others.
    """
    result: FloatArray = log_weight(
        closeness.size, closeness.sum() - closeness[arms], steepness, slack
    )
    return result


@elementwise
def log_weight(n: int, others: Numbers, steepness: Numbers, slack: float) -> Numbers:
    """Return what log(n w_i) adds to the evidence, `others` the sum of their `closeness`."""
    x = np.minimum(np.maximum(steepness, 1e-300) * (WIDTH + slack) / POWER, 1.0)
    penalty = POWER * (1.0 - x + np.log(x) - np.log1p(slack / WIDTH))
    return np.log(EVEN + (1.0 - EVEN) * n * np.exp(penalty) / (1.0 + np.maximum(others, 0.0)))
