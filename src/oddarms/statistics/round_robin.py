"""The confidence radii of RR and WRR (Zhuang, Wang and Wang, NIPS 2017).

Assumptions: rewards independent in [0, 1]. As for ADE, scalar functions of plain arithmetic that
the compiled simulation shares.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from oddarms.problem import FloatArray, IntArray


def log_inverse_delta_prime(delta: float, n: int, T: int) -> float:
    """Return log(1/delta'), delta' = 6 delta / (pi^2 (n + 1) T^2), after T pulls in all."""
    return math.log(math.pi**2 * (n + 1) / (6.0 * delta)) + 2.0 * math.log(T)


def l_of_k(k: float, n: int, delta: float) -> float:
    """Return l(k), the factor by which the threshold's squared radius exceeds an arm's.

    l(k) = [ sqrt((1 + k sqrt(n-1))^2 / n) + sqrt(k^2 / (2 log(pi^2 n^3 / (6 delta)))) ]^2.

    The first term is the Lipschitz constant of theta in the arms' means, the second covers the
    bias of the plug-in standard deviation. The 2017 paper has this delta in the logarithm; the
    ADE paper prints its smaller per-round delta there, which would not cover that bias.
    For k < 0 both terms hold with |k|.
    """
    k = abs(k)
    lipschitz = (1.0 + k * math.sqrt(n - 1.0)) / math.sqrt(n)
    bias = k / math.sqrt(2.0 * math.log(math.pi**2 * n**3 / (6.0 * delta)))
    return float((lipschitz + bias) ** 2)


def rho_star(k: float, n: int, delta: float) -> float:
    """Return WRR's weight rho* = (n-1)^(2/3) / l(k)^(1/3) that minimises its bound on pulls.

    A weight below 1 would pull undecided arms less than decided ones, so it is at least 1.
    """
    return max(1.0, float((n - 1.0) ** (2.0 / 3.0) / l_of_k(k, n, delta) ** (1.0 / 3.0)))


def beta_arm(log_term: float, m_i: Any) -> Any:
    """Return beta_i = sqrt(log(1/delta') / (2 m_i)), for one arm or an array of them."""
    return np.sqrt(log_term / (2.0 * m_i))


def beta_theta(log_term: float, h: float, l_k: float) -> float:
    """Return beta_theta = sqrt(l(k) log(1/delta') / (2h)), h the harmonic mean of the m_i."""
    return math.sqrt(l_k * log_term / (2.0 * h))


def is_active(mean: Any, beta_i: Any, theta: float, beta_t: float) -> Any:
    """Return whether the intervals of an arm (or of each arm) and of the threshold overlap.

    An arm above theta_hat is active while mean - beta_i < theta_hat + beta_theta, another one
    while mean + beta_i > theta_hat - beta_theta: both say that the distance is below the sum.
    """
    return np.abs(mean - theta) < beta_i + beta_t


class Moments(NamedTuple):
    """Sums over all arms that give theta_hat and h in constant time after each pull.

    The means enter as deviations from `centre`, a recent average, so that no digits cancel.
    """

    n: int
    centre: float
    deviation: float
    squared_deviation: float
    inverse_pulls: float


def moments_of(means: FloatArray, pulls: IntArray) -> Moments:
    """Return the sums computed afresh; done once a cycle, which bounds the rounding error."""
    n = means.size
    total = 0.0
    for i in range(n):
        total += means[i]
    centre = total / n
    deviation = 0.0
    squared_deviation = 0.0
    inverse_pulls = 0.0
    for i in range(n):
        difference = means[i] - centre
        deviation += difference
        squared_deviation += difference * difference
        inverse_pulls += 1.0 / pulls[i]
    return Moments(n, centre, deviation, squared_deviation, inverse_pulls)


def replace_arm(
    moments: Moments, old_mean: float, new_mean: float, old_pulls: int, new_pulls: int
) -> Moments:
    """Return the sums after one arm's mean and number of pulls have changed."""
    old = old_mean - moments.centre
    new = new_mean - moments.centre
    return Moments(
        moments.n,
        moments.centre,
        moments.deviation + (new - old),
        moments.squared_deviation + (new * new - old * old),
        moments.inverse_pulls + (old_pulls - new_pulls) / (float(old_pulls) * new_pulls),
    )


def plug_in_threshold(moments: Moments, k: float) -> float:
    """Return theta_hat, the threshold of the empirical means."""
    shift = moments.deviation / moments.n
    variance = moments.squared_deviation / moments.n - shift * shift
    return moments.centre + shift + k * math.sqrt(max(variance, 0.0))


def harmonic_mean_of_pulls(moments: Moments) -> float:
    """Return h = n / sum_i 1/m_i."""
    return moments.n / moments.inverse_pulls
