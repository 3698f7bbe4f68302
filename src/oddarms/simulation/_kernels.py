"""Whole runs in compiled code, pull for pull those of the interactive algorithms.

The loops call the formulas of `oddarms.statistics`; only the bookkeeping around them is different:
where an interactive algorithm looks at all n arms after each pull, a kernel looks at one or two
numbers that prove that no other arm can have changed. Why that is exact is said where it is done,
and tests compare both forms pull for pull.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from oddarms.algorithms import Decision
from oddarms.simulation._families import BERNOULLI, BETA
from oddarms.simulation._kernel_cache import kernel
from oddarms.statistics.ade import (
    arm_radius,
    epsilon_sigma,
    log_inverse_delta_t,
    threshold_estimate,
    threshold_radius,
)
from oddarms.statistics.round_robin import (
    beta_arm,
    beta_theta,
    harmonic_mean_of_pulls,
    is_active,
    l_of_k,
    log_inverse_delta_prime,
    moments_of,
    plug_in_threshold,
    replace_arm,
)

for _formula in (
    *(arm_radius, epsilon_sigma, log_inverse_delta_t, threshold_estimate, threshold_radius),
    *(beta_arm, beta_theta, harmonic_mean_of_pulls, is_active, l_of_k, log_inverse_delta_prime),
    *(moments_of, plug_in_threshold, replace_arm),
):
    register_jitable(_formula)

NORMAL, HIGH = int(Decision.NORMAL), int(Decision.HIGH)


@njit(nogil=True, inline="always")
def draw(rng: Any, family: int, y: float, parameter: float, mirrored: bool) -> float:
    """Return one reward, seen from the upper side."""
    if family == BERNOULLI:
        reward = 1.0 * (rng.random() < y)
    elif family == BETA:
        reward = rng.beta(y * parameter, (1.0 - y) * parameter)
    else:
        reward = y + parameter * (rng.random() - 0.5)
    return 1.0 - reward if mirrored else reward


@njit(nogil=True, inline="always")
def draw_sum(
    rng: Any, family: int, y: float, parameter: float, mirrored: bool, count: int
) -> float:
    """Return the sum of several rewards of one arm; Bernoulli ones as one binomial."""
    if count == 1:
        return draw(rng, family, y, parameter, mirrored)
    if family == BERNOULLI:
        ones = float(rng.binomial(count, y))
        return count - ones if mirrored else ones
    total = 0.0
    for _ in range(count):
        total += draw(rng, family, y, parameter, mirrored)
    return total


@njit(nogil=True)
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


@njit(nogil=True)
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
        used += cost
        hit = -1
        if sample_threshold:
            i = int(rng.random() * n)
            x1 = draw(reward_rng, family, y[i], parameter, mirrored)
            x2 = draw(reward_rng, family, y[i], parameter, mirrored)
            pulls[i] += 2
            m_theta += 1
            sum_x1 += x1
            sum_x2 += x2
            sum_x1x2 += x1 * x2
            if shared:
                if out[i] == 0:
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
                sums[i] += draw(reward_rng, family, y[i], parameter, mirrored)
            fewest_m += 1
        if ties == 0:
            fewest_m, ties = fewest(S, size, m)
        t += 1
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
            before = size
            size, least, greatest = decide(S, size, m, sums, log_term, lower, upper, out)
            if 0 < size < before:
                fewest_m, ties = fewest(S, size, m)
    return t - 1, 2 * m_theta, theta_hat, r_theta


@njit(nogil=True)
def most_active(y_hat: Any, m: Any, log_term: float, theta_hat: float, beta_t: float) -> int:
    """Return the active arm that is deepest inside the threshold's interval, or -1."""
    best = -1
    best_slack = -np.inf
    for i in range(y_hat.size):
        beta_i = beta_arm(log_term, m[i])
        slack = beta_i + beta_t - abs(y_hat[i] - theta_hat)
        if slack > best_slack and is_active(y_hat[i], beta_i, theta_hat, beta_t):
            best, best_slack = i, slack
    return best


@kernel
def run_round_robin(
    y: Any,
    k: float,
    delta: float,
    rho: float,
    batch: int,
    budget: int,
    family: int,
    parameter: float,
    mirrored: bool,
    rng: Any,  # noqa: ARG001 - round-robin makes no random choice
    reward_rng: Any,
    m: Any,
    out: Any,
) -> tuple[int, int, float, float]:
    """Run WRR once, or RR with rho = 1. Returns rounds, 0, theta_hat and beta_theta.

    Exactness of the lazy stop: the rule asks whether *any* arm is active. While one witness is,
    the answer is known; all arms are looked at only when the witness is no longer active.
    """
    n = y.size
    l_k = l_of_k(k, n, delta)
    if n * batch > budget:
        return 0, 0, 0.0, np.inf
    sums = np.zeros(n)
    y_hat = np.zeros(n)
    for i in range(n):
        sums[i] = draw_sum(reward_rng, family, y[i], parameter, mirrored, batch)
        m[i] = batch
        y_hat[i] = sums[i] / batch
    T = n * batch
    rounds = 1
    cycle = 1
    i = 0
    moments = moments_of(y_hat, m)
    log_term = log_inverse_delta_prime(delta, n, T)
    theta_hat = plug_in_threshold(moments, k)
    beta_t = beta_theta(log_term, harmonic_mean_of_pulls(moments), l_k)
    witness = most_active(y_hat, m, log_term, theta_hat, beta_t)
    while witness >= 0 and T + batch <= budget:
        sums[i] += draw_sum(reward_rng, family, y[i], parameter, mirrored, batch)
        old_mean = y_hat[i]
        m[i] += batch
        y_hat[i] = sums[i] / m[i]
        moments = replace_arm(moments, old_mean, y_hat[i], m[i] - batch, m[i])
        T += batch
        rounds += 1
        log_term = log_inverse_delta_prime(delta, n, T)
        theta_hat = plug_in_threshold(moments, k)
        beta_t = beta_theta(log_term, harmonic_mean_of_pulls(moments), l_k)
        if not is_active(y_hat[witness], beta_arm(log_term, m[witness]), theta_hat, beta_t):
            witness = most_active(y_hat, m, log_term, theta_hat, beta_t)
        if m[i] >= cycle * rho * batch or not is_active(
            y_hat[i], beta_arm(log_term, m[i]), theta_hat, beta_t
        ):
            i += 1
            if i == n:
                i = 0
                cycle += 1
                moments = moments_of(y_hat, m)
    for j in range(n):
        if not is_active(y_hat[j], beta_arm(log_term, m[j]), theta_hat, beta_t):
            out[j] = HIGH if y_hat[j] > theta_hat else NORMAL
    return rounds, 0, theta_hat, beta_t
