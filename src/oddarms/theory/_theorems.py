"""The papers' theorems as functions: upper bounds on the number of pulls.

Each holds with probability at least 1 - delta for the algorithm as published (batch 1), for known
means of rewards in [a, b]. They are far above what is measured; tests hold the two together.
"""

from __future__ import annotations

import math

import numpy.typing as npt

from oddarms.errors import InvalidParameter
from oddarms.problem import check_bounds, check_delta, check_means, check_number
from oddarms.statistics.round_robin import l_of_k, rho_star
from oddarms.theory._known_means import gaps, hardness


def ade_pulls_bound(
    means: npt.ArrayLike, *, k: float, delta: float, bounds: tuple[float, float] = (0.0, 1.0)
) -> float:
    """Return Theorem 2 of the ADE paper with the constants of its proof.

    With G = 4 (1 + sqrt(2) (R' + 2bR) k / (R sigma_y))^2 and C = (n + 4) pi^2 (1 + G)^2, an arm is
    pulled at most m_i <= 32 R^2/Delta_i^2 log(16 R^2/Delta_i^2) + 16 R^2/Delta_i^2 log(C/(3 delta))
    + 2 times, and the threshold at most G m_i* times for the arm i* with the smallest gap. A
    threshold sample is a *pair* of pulls, so the total is sum_i m_i + 2 G m_i*. Rewards are
    shifted to a = 0 first, as the implementation does, so R' = R^2 and b = R.
    """
    y = check_means(means)
    a, b = check_bounds(bounds)
    check_delta(delta)
    R = b - a
    sigma = float(y.std())
    delta_i = gaps(y, k)
    if delta_i.min() == 0.0 or sigma == 0.0:
        return math.inf
    G = 4.0 * (1.0 + math.sqrt(2.0) * 3.0 * R * abs(k) / sigma) ** 2
    C = (y.size + 4) * math.pi**2 * (1.0 + G) ** 2

    def arm_pulls(gap: float) -> float:
        scale = 16.0 * R**2 / gap**2
        return 2.0 * scale * math.log(scale) + scale * math.log(C / (3.0 * delta)) + 2.0

    return sum(arm_pulls(gap) for gap in delta_i) + 2.0 * G * arm_pulls(float(delta_i.min()))


def rr_pulls_bound(
    means: npt.ArrayLike, *, k: float, delta: float, bounds: tuple[float, float] = (0.0, 1.0)
) -> float:
    """Return the bound of RR: 8 R^2 H [log(2 R^2 pi^2 (n+1) H / (3 delta)) + 1] + 4n.

    H = (1 + sqrt(l(k)))^2 n / Delta_min^2 (Zhuang et al. 2017).
    """
    y = check_means(means)
    H = (1.0 + math.sqrt(l_of_k(k, y.size, check_delta(delta)))) ** 2 * hardness(y, k).H1
    return _pulls_bound(H, y.size, delta, bounds) + 4.0 * y.size


def wrr_pulls_bound(
    means: npt.ArrayLike,
    *,
    k: float,
    delta: float,
    rho: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> float:
    """Return the bound of WRR: as RR's with 2(rho + 2) n for 4n, and another H; rho* by default.

    H = (H1/rho + (rho - 1) H2/rho) (1 + sqrt(l(k) rho))^2, H1 and H2 of `hardness`.
    """
    y = check_means(means)
    n = y.size
    rho = rho_star(k, n, check_delta(delta)) if rho is None else check_number("rho", rho)
    if rho < 1.0:
        raise InvalidParameter(f"rho must be a number of at least 1 but got {rho!r}.")
    measure = hardness(y, k)
    if measure.smallest_gap == 0.0:
        return math.inf
    H = (measure.H1 + (rho - 1.0) * measure.H2) / rho
    H *= (1.0 + math.sqrt(l_of_k(k, n, delta) * rho)) ** 2
    return _pulls_bound(H, n, delta, bounds) + 2.0 * (rho + 2.0) * n


def _pulls_bound(H: float, n: int, delta: float, bounds: tuple[float, float]) -> float:
    a, b = check_bounds(bounds)
    R_squared = (b - a) ** 2
    log_term = math.log(2.0 * R_squared * math.pi**2 * (n + 1) * H / (3.0 * delta))
    return 8.0 * R_squared * H * (log_term + 1.0)
