"""RR and WRR in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.simulation._draws import turn
from oddarms.simulation._kernel_cache import kernel
from oddarms.simulation._tapes import EMPTY
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

NORMAL, HIGH = int(Decision.NORMAL), int(Decision.HIGH)


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
    tapes = np.full(n, EMPTY)
    sums = np.zeros(n)
    y_hat = np.zeros(n)
    for i in range(n):
        sums[i] = turn(tapes, i, reward_rng, family, y[i], parameter, mirrored, batch)
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
        sums[i] += turn(tapes, i, reward_rng, family, y[i], parameter, mirrored, batch)
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
        paid = m[i] >= cycle * rho * batch
        if paid or not is_active(y_hat[i], beta_arm(log_term, m[i]), theta_hat, beta_t):
            i += 1
            if i == n:
                i = 0
                cycle += 1
                moments = moments_of(y_hat, m)
    for j in range(n):
        if not is_active(y_hat[j], beta_arm(log_term, m[j]), theta_hat, beta_t):
            out[j] = HIGH if y_hat[j] > theta_hat else NORMAL
    return rounds, 0, theta_hat, beta_t
