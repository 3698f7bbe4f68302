"""The confidence radii of ADE (Zhang, Zhuang, Zhang and Zhou, AAAI 2020).

Assumptions: rewards independent in [0, 1], so that the paper's R, R' and b are 1.
Scalar functions of plain arithmetic, so that the compiled simulation runs these very functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def log_inverse_delta_t(delta: float, n: int, t: int) -> float:
    """Return log(1/delta_t), delta_t = 3 delta / ((n + 4) pi^2 t^2).

    The union bound of Lemma 5 spends 2 delta_t on each of n arms and 8 delta_t on the threshold
    at every t: sum_t (2n + 8) delta_t = delta, as sum_t 1/t^2 = pi^2/6.
    """
    return math.log((n + 4) * math.pi**2 / (3.0 * delta)) + 2.0 * math.log(t)


def arm_radius(log_term: float, m_i: Any) -> Any:
    """Return r_i = sqrt(log(1/delta_t) / (2 m_i)): Hoeffding's inequality at level 2 delta_t.

    For one arm or an array of them.
    """
    return np.sqrt(log_term / (2.0 * m_i))


def threshold_estimate(
    m_theta: int, sum_x1: float, sum_x2: float, sum_x1x2: float, k: float
) -> tuple[float, float]:
    """Return theta_hat and sigma_hat^2 (eq. 3) from m_theta pairs (x_1, x_2) of random arms.

    E[x_1] = mu_y and E[x_1 x_2] - E[x_1] E[x_2] = sigma_y^2, as both pulls of a pair are of the
    same uniformly random arm and independent given the arm.
    """
    mu_hat = sum_x1 / m_theta
    sigma_squared = abs(sum_x1x2 / m_theta - mu_hat * (sum_x2 / m_theta))
    return mu_hat + k * math.sqrt(sigma_squared), sigma_squared


def epsilon_sigma(log_term: float, m_theta: int) -> float:
    """Return the radius of sigma_hat^2, (R' + 2bR) sqrt(log(1/delta_t) / (2 m_theta)).

    Lemma 2 at level 6 delta_t: three Hoeffding bounds, for x_1 x_2 and for both factors.
    """
    return 3.0 * math.sqrt(log_term / (2.0 * m_theta))


def threshold_radius(log_term: float, m_theta: int, U_sigma: float, k: float) -> float:
    """Return r_theta = (R + sqrt(2) |k| (R' + 2bR)/sqrt(U_sigma)) sqrt(log(1/delta_t)/(2 m_theta)).

    Lemma 4, level 8 delta_t. U_sigma is the running minimum of sigma_hat^2 + epsilon_sigma.
    The proof uses k only through |sigma_hat - sigma| |k|, so it holds for k < 0 with |k|.
    """
    width = 1.0 + math.sqrt(2.0) * abs(k) * 3.0 / math.sqrt(U_sigma)
    return width * math.sqrt(log_term / (2.0 * m_theta))
