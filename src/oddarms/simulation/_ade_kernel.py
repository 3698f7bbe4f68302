"""ADE in compiled code.

After each round ADE has new radii, may decide arms, and chooses whether the next round is one of
the threshold or of the arms. Nearly all rounds are pairs for the threshold, and after nearly all
of those nothing happens. `play_pairs` says what proves that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oddarms.algorithms import Decision
from oddarms.simulation._draws import take
from oddarms.simulation._families import BERNOULLI
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
MARGIN = 1e-11
"""More than rounding does to numbers of order 1, see `play_pairs`."""


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


class Pairs(NamedTuple):
    """The pairs of the threshold: their number and sums."""

    m: int
    x1: float
    x2: float
    x1x2: float


class Round(NamedTuple):
    """What the formulas gave in the last round in which they were called."""

    t: int
    log_term: float
    epsilon: float
    U_sigma: float
    r_theta: float


def play_pairs(
    k: float,
    delta: float,
    last: Round,
    pairs: Pairs,
    most: int,
    fewest_m: int,
    ties: int,
    least: float,
    greatest: float,
    shared: bool,
    mirrored: bool,
    rng: Any,
    reward_rng: Any,
    y: Any,
    tapes: Any,
    pulls: Any,
    S: Any,
    size: int,
    m: Any,
    sums: Any,
    out: Any,
) -> tuple[Pairs, float, int, int, int, float, float]:
    """Play pairs of Bernoulli rewards, `most` at most, until a round needs the formulas.

    Returns the pairs, U_sigma, the undecided arm that the last one hit and that it is shared with
    (or -1), and fewest_m, ties, least and greatest as they are then. After j pairs, m in all, a
    round changes nothing else if the following holds; m_0 and r_theta are those of the last round.

    - U_sigma, a running minimum, is brought up to date by its formulas unless sigma_hat^2 >=
      U_sigma - epsilon_sigma surely. As log(1/delta_t) grows and (1 + x)^(-1/2) >= 1 - x/2,
      epsilon_sigma is at least (1 - i/(2 m_1)) times what it was i pairs ago, with m_1 pairs.
    - The next round is a pair again: r_a <= r_theta. Both have the same logarithm, so with r_theta
      = w sqrt(log(1/delta_t)/(2 m)), this is m <= w^2 fewest_m. If U_sigma falls, w grows.
    - No arm is decided: mu_hat + k sigma_hat < least + r_theta, and > greatest - r_theta. Again
      r_theta >= (1 - j/(2 m_0)) times the last. As x |x| grows with x, k |k| sigma_hat^2 < a |a|
      with a = least + r_theta - mu_hat says the first. A pair moves each of the means of x_1, x_2
      and x_1 x_2 by at most 1/m, so the left by at most 3 k^2/m; a by at most s = 1/m + r_theta/(2
      m_0), and by 1 + r_theta whatever comes, so a |a| by at most s (2 |a| + 1 + r_theta). So the
      difference tells for how many pairs one need not look again. Likewise for the second.
    - A hit arm does not change least and greatest: y_hat + r_i >= least if a = m_i (least - y_hat)
      is negative or a^2 <= m_i^2 r_i^2 = m_i log(1/delta_t)/2, and the logarithm has grown since.

    Rounding: the sums are whole numbers, so sigma_hat^2 is off by less than 2^-50 < 1e-11 here and
    in the formulas. Both sides of the comparison of squares are off by less than 2^-46 c^2, c = 1 +
    |k| + r_theta (least, greatest and r_theta are at most c). The inverse of x |x| differs at two
    places by no more than the root of twice their distance, so that is less than 2e-7 c in
    k sigma_hat, and less than that may the formulas' own k sigma_hat be off, where sigma_hat^2 is
    nearly 0. Hence 1e-6 c is taken off r_theta.
    """
    n = y.size
    m0, sum_x1, sum_x2, sum_x1x2 = pairs
    m_theta = m0
    signed_square = k * abs(k)
    U_sigma = last.U_sigma
    least_sigma = U_sigma - last.epsilon + MARGIN
    slope = 0.5 * last.epsilon / m0
    radius = last.r_theta - 1e-6 * (1.0 + abs(k) + last.r_theta)
    shrinking = 0.5 * last.r_theta / m0
    width_squared = last.r_theta**2 * 2.0 * m0 / last.log_term * (1.0 - MARGIN)
    half_log = 0.5 * last.log_term
    hit = -1
    look = 1
    for j in range(1, most + 1):
        i = int(rng.random() * n)
        tape = tapes[i]
        if tape < 4:  # less than a pair is left
            x1 = take(tapes, i, reward_rng, BERNOULLI, y[i], 0.0, mirrored)
            x2 = take(tapes, i, reward_rng, BERNOULLI, y[i], 0.0, mirrored)
        else:
            x1 = float(tape & 1)
            x2 = float((tape >> 1) & 1)
            tapes[i] = tape >> 2
        pulls[i] += 2
        m_theta += 1
        sum_x1 += x1
        sum_x2 += x2
        sum_x1x2 += x1 * x2
        hit = -1
        if shared and out[i] == 0:
            hit = i
            ties -= m[i] == fewest_m
            m[i] += 2
            sums[i] += x1 + x2
        real = float(m_theta)
        square = real * real
        sigma = abs(sum_x1x2 * real - sum_x1 * sum_x2)
        if sigma <= (least_sigma + slope * j) * square:
            log_term = log_inverse_delta_t(delta, n, last.t + j)
            epsilon = epsilon_sigma(log_term, m_theta)
            found = threshold_estimate(m_theta, sum_x1, sum_x2, sum_x1x2, k)
            U_sigma = min(U_sigma, found[1] + epsilon)
            slope = 0.5 * epsilon / m_theta
            least_sigma = U_sigma - epsilon + MARGIN - slope * j
        if ties == 0:
            fewest_m, ties = fewest(S, size, m)
        if real >= width_squared * fewest_m:
            break
        if j >= look:
            spread = signed_square * sigma / square
            r = radius - shrinking * j
            above = least + r - sum_x1 / real
            below = greatest - r - sum_x1 / real
            room = min(above * abs(above) - spread, spread - below * abs(below))
            if room <= 0.0:
                break
            reach = 1.0 + last.r_theta + 2.0 * max(abs(above), abs(below))
            look = j + int(
                room / (3.0 * abs(signed_square) / real + reach * (1.0 / real + shrinking))
            )
        if hit >= 0:
            short = least * m[i] - sums[i]
            beyond = sums[i] - greatest * m[i]
            furthest = max(short, beyond)
            if furthest > 0.0 and furthest * furthest > half_log * m[i]:
                r_hit = arm_radius(last.log_term, m[i])
                least = min(least, sums[i] / m[i] + r_hit)
                greatest = max(greatest, sums[i] / m[i] - r_hit)
                break
    return Pairs(m_theta, sum_x1, sum_x2, sum_x1x2), U_sigma, hit, fewest_m, ties, least, greatest


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
    be decided. An arm hit by a shared pair enters both at once, with the radius of an earlier
    round, which is not larger.
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
    theta_hat = epsilon = 0.0
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
        if sample_threshold and family == BERNOULLI and t > 3:
            last = Round(t, log_term, epsilon, U_sigma, r_theta)
            before = Pairs(m_theta, sum_x1, sum_x2, sum_x1x2)
            most = min((budget - used) // 2, t // 256 + 16)
            after, U_sigma, hit, fewest_m, ties, least, greatest = play_pairs(
                k, delta, last, before, most, fewest_m, ties, least, greatest, shared, mirrored,
                rng, reward_rng, y, tapes, pulls, S, size, m, sums, out,
            )  # fmt: skip
            m_theta, sum_x1, sum_x2, sum_x1x2 = after
            t += after.m - before.m
            used += 2 * (after.m - before.m)
        elif sample_threshold:
            i = int(rng.random() * n)
            x1 = take(tapes, i, reward_rng, family, y[i], parameter, mirrored)
            x2 = take(tapes, i, reward_rng, family, y[i], parameter, mirrored)
            pulls[i] += 2
            m_theta += 1
            used += 2
            t += 1
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
        epsilon = epsilon_sigma(log_term, m_theta)
        U_sigma = min(U_sigma, sigma_squared + epsilon)
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
