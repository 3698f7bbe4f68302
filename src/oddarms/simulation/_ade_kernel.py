"""ADE in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.simulation._draws import take
from oddarms.simulation._kernel_cache import kernel
from oddarms.simulation._tapes import EMPTY
from oddarms.statistics.ade import (
    arm_radius,
    epsilon_sigma,
    log_inverse_delta_t,
    threshold_estimate,
    threshold_radius,
)

NORMAL, HIGH = int(Decision.NORMAL), int(Decision.HIGH)


def decide(
    S: Any, size: int, m: Any, sums: Any, log_term: float, lower: float, upper: float, out: Any
) -> tuple[int, float, float]:
    """Decide every arm of S[:size] (lines 22-30 of Algorithm 1) and close the gaps in S.

    Returns the new size, the least y_hat + r and the greatest y_hat - r among those left.
    """
    kept = 0
    least = np.inf
    greatest = -np.inf
    for position in range(size):
        i = S[position]
        y_hat = sums[i] / m[i]
        r = arm_radius(log_term, m[i])
        if y_hat + r <= lower:
            out[i] = NORMAL
        elif y_hat - r >= upper:
            out[i] = HIGH
        else:
            S[kept] = i
            kept += 1
            least = min(least, y_hat + r)
            greatest = max(greatest, y_hat - r)
    return kept, least, greatest


def fewest(S: Any, size: int, m: Any) -> tuple[int, int]:
    """Return the smallest m_i among S[:size] and how many arms have it."""
    smallest = m[S[0]]
    ties = 0
    for position in range(size):
        if m[S[position]] < smallest:
            smallest = m[S[position]]
            ties = 0
        if m[S[position]] == smallest:
            ties += 1
    return smallest, ties


@kernel
def run_ade(
    y: Any,
    k: float,
    delta: float,
    shared: bool,
    budget: int,
    family: int,
    parameter: float,
    mirrored: bool,
    rng: Any,
    reward_rng: Any,
    pulls: Any,
    out: Any,
) -> tuple[int, int, float, float]:
    """Run ADE once. Returns rounds, pulls for the threshold, theta_hat and r_theta.

    Exactness of the lazy decisions: between two looks at all arms, an undecided arm that is not
    pulled has constant y_hat and a radius that only grows (log(1/delta_t) grows with t). So
    `least` never exceeds its smallest y_hat + r, and `greatest` never falls below its largest
    y_hat - r: while least > theta_hat - r_theta and greatest < theta_hat + r_theta, no arm can
    be decided. An arm hit by a shared pair enters both at once.
    """
    n = y.size
    S = np.arange(n)
    size = n
    m = np.zeros(n, dtype=np.int64)
    sums = np.zeros(n)
    tapes = np.full(n, EMPTY)
    fewest_m = 0
    ties = n
    m_theta = 0
    sum_x1 = sum_x2 = sum_x1x2 = 0.0
    theta_hat = 0.0
    r_theta = U_sigma = np.inf
    log_term = 0.0
    least, greatest = np.inf, -np.inf
    t = 1
    used = 0
    while size > 0:
        sample_threshold = t == 1 or (t > 2 and arm_radius(log_term, fewest_m) <= r_theta)
        cost = 2 if sample_threshold else size
        if used + cost > budget:
            break
        hit = -1
        if sample_threshold:
            i = int(rng.random() * n)
            x1 = take(tapes, i, reward_rng, family, y[i], parameter, mirrored)
            x2 = take(tapes, i, reward_rng, family, y[i], parameter, mirrored)
            pulls[i] += 2
            m_theta += 1
            sum_x1 += x1
            sum_x2 += x2
            sum_x1x2 += x1 * x2
            if shared and out[i] == 0:
                hit = i
                ties -= m[i] == fewest_m
                m[i] += 2
                sums[i] += x1
                sums[i] += x2
        else:
            for position in range(size):
                i = S[position]
                pulls[i] += 1
                m[i] += 1
                sums[i] += take(tapes, i, reward_rng, family, y[i], parameter, mirrored)
            fewest_m += 1
        used += cost
        t += 1
        if ties == 0:
            fewest_m, ties = fewest(S, size, m)
        if t < 3:
            continue
        log_term = log_inverse_delta_t(delta, n, t)
        theta_hat, sigma_squared = threshold_estimate(m_theta, sum_x1, sum_x2, sum_x1x2, k)
        U_sigma = min(U_sigma, sigma_squared + epsilon_sigma(log_term, m_theta))
        r_theta = threshold_radius(log_term, m_theta, U_sigma, k)
        if t == 3:
            fewest_m, ties = fewest(S, size, m)
            least, greatest = -np.inf, np.inf
            continue
        if hit >= 0:
            r = arm_radius(log_term, m[hit])
            least = min(least, sums[hit] / m[hit] + r)
            greatest = max(greatest, sums[hit] / m[hit] - r)
        lower = theta_hat - r_theta
        upper = theta_hat + r_theta
        if not sample_threshold or least <= lower or greatest >= upper:
            open_before = size
            size, least, greatest = decide(S, size, m, sums, log_term, lower, upper, out)
            if 0 < size < open_before:
                fewest_m, ties = fewest(S, size, m)
    return t - 1, 2 * m_theta, theta_hat, r_theta
