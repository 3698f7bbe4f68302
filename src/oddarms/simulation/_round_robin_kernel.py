"""RR and WRR in compiled code.

Both ask after each pull whether any arm is active, and WRR whether the arm just pulled still is.
An arm is active if |y_hat_i - theta_hat| < beta_i + beta_theta. Rather than by these formulas, most
answers are had from bounds on all four numbers that hold for a while.

**theta_hat.** A change of one arm's mean by d moves the mean of all by |d|/n and, as the standard
deviation is a norm of the centred means over sqrt(n), that by at most |d| sqrt(n - 1)/n. So
theta_hat moves by at most L |d|, L = (1 + |k| sqrt(n - 1))/n, and since a moment of reference by at
most L times the sum of all |d|, the *drift*.

**The radii.** log(1/delta') grows with T, and both radii fall with the pulls. So until T = T_1,
beta_i is between sqrt(log_low/(2 m_i)) and sqrt(log_high/(2 m_i)), the logarithms at T_0 and T_1,
and beta_theta is at most that of the present sum of 1/m_i with log_high, and at least that of a
smaller sum with log_low, as long as the sum is no smaller.

**Rounding.** Let u = 2^-53 and let N count the pulls since `moments_of` was last called. Each of
its n terms, and each call of `replace_arm`, puts a rounding error of at most 4 u n into the sums of
deviations and of squares, which are at most n. Hence the mean is off by less than
e/4 and the variance by less than e, e = (N + n) 32 u; as |sqrt(a) - sqrt(b)| <= sqrt(|a - b|), a
theta_hat is off by less than (1 + |k|) sqrt(e). The sum of 1/m_i loses no more than (N + n) u times
its value at the start of the cycle, which is far less. Bounds must hold with
4 (1 + |k|) sqrt(e) + 1e-9 to spare, so that they hold for both forms' rounded numbers. Where they
do not, the formulas decide. RR then has the very numbers of the interactive form; those of WRR
may differ in their last digits, as several pulls at once are one call of `replace_arm`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from oddarms.algorithms import Decision
from oddarms.simulation._draws import ones_among, refilled, turn
from oddarms.simulation._families import BERNOULLI
from oddarms.simulation._kernel_cache import kernel
from oddarms.simulation._tapes import EMPTY, LENGTH
from oddarms.statistics.round_robin import (
    Moments,
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
SHARE = 512
"""A reference lasts for a 512th of the pulls made, and of the sum of 1/m_i."""


class Reference(NamedTuple):
    """The numbers of one moment, and what they may be while two conditions hold.

    These are that T <= `until` and that the sum of 1/m_i is at least `least_inverse`.
    """

    theta: float
    beta_theta: float
    log_low: float
    log_high: float
    beta_low: float
    beta_high: float
    margin: float
    until: int
    least_inverse: float


def rounding_margin(k: float, additions: int) -> float:
    """Return what bounds must have to spare after so many additions, see the module."""
    return 4.0 * (1.0 + abs(k)) * math.sqrt(additions * 2.0**-48) + 1e-9


def refer(
    moments: Moments, k: float, delta: float, l_k: float, T: int, first_T: int, step: int
) -> Reference:
    """Return the present numbers; `first_T` is the T at which the moments were made afresh.

    At least `step` more pulls are covered.
    """
    until = T + T // SHARE + step
    least_inverse = moments.inverse_pulls * (1.0 - 1.0 / SHARE)
    log_low = log_inverse_delta_prime(delta, moments.n, T)
    log_high = log_inverse_delta_prime(delta, moments.n, until)
    h = harmonic_mean_of_pulls(moments)
    return Reference(
        plug_in_threshold(moments, k),
        beta_theta(log_low, h, l_k),
        log_low,
        log_high,
        beta_theta(log_low, moments.n / least_inverse, l_k),
        beta_theta(log_high, h, l_k),
        rounding_margin(k, moments.n + until - first_T),
        until,
        least_inverse,
    )


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


def quiet(
    tapes: Any,
    sums: Any,
    m: int,
    cycles: int,
    k: float,
    log_low: float,
    l_k: float,
    middle: Any,
    half: Any,
) -> bool:
    """Return whether RR, with m pulls of each arm, surely goes on for so many cycles.

    In them an arm gets s ones and c - s zeros in some order. Its mean is least after all zeros
    and greatest after all ones, so it stays within [S/(m + c - s), (S + s)/(m + s)]: within d_i of
    the middle c_i. Then theta_hat stays within sum d_i/n + |k| sqrt(sum d_i^2/n) of theta(c), as
    the standard deviation is a seminorm and that of (y_i - c_i) at most their root mean square.
    The radii are at least those at the end, with the logarithm of the start. If these bounds keep
    one arm active, no pull among them is the last.
    """
    n = sums.size
    total = total_half = 0.0
    for i in range(n):
        s = ones_among(tapes[i], cycles)
        low = sums[i] / (m + cycles - s)
        high = (sums[i] + s) / (m + s)
        middle[i] = 0.5 * (low + high)
        half[i] = 0.5 * (high - low)
        total += middle[i]
        total_half += half[i]
    mean = total / n
    squares = squares_half = 0.0
    for i in range(n):
        squares += (middle[i] - mean) ** 2
        squares_half += half[i] ** 2
    theta = mean + k * math.sqrt(squares / n)
    nearest = np.inf
    for i in range(n):
        nearest = min(nearest, abs(middle[i] - theta) + half[i])
    doubt = total_half / n + abs(k) * math.sqrt(squares_half / n) + rounding_margin(k, 2 * n)
    width = beta_arm(log_low, m + cycles) + beta_theta(log_low, m + cycles, l_k)
    return bool(nearest + doubt < width)


def play_cycles(
    k: float,
    delta: float,
    l_k: float,
    most: int,
    mirrored: bool,
    rng: Any,
    y: Any,
    tapes: Any,
    m: Any,
    sums: Any,
    y_hat: Any,
) -> int:
    """Play whole cycles of RR, `most` at most, as long as surely none is the last.

    Returns how many. All tapes are equally long, so they are filled in the order of the pulls.
    """
    n = y.size
    middle = np.empty(n)
    half = np.empty(n)
    played = 0
    cycles = 1
    while played < most:
        for i in range(n):
            tapes[i] = refilled(tapes[i], rng, y[i], mirrored)
        log_low = log_inverse_delta_prime(delta, n, n * m[0])
        cycles = min(2 * cycles, LENGTH - m[0] % LENGTH, most - played)
        while cycles > 0 and not quiet(tapes, sums, m[0], cycles, k, log_low, l_k, middle, half):
            cycles //= 2
        if cycles == 0:
            break
        for i in range(n):
            sums[i] += ones_among(tapes[i], cycles)
            tapes[i] >>= cycles
            m[i] += cycles
            y_hat[i] = sums[i] / m[i]
        played += cycles
    return played


def surely_active_pulls(
    tape: int,
    most: int,
    S: float,
    m: int,
    drift: float,
    steepness: float,
    inverse: float,
    reference: Reference,
) -> int:
    """Return how many of the next pulls an arm surely stays active for, of `most`, 1/2, 1/4, ...

    Not less than 1, which promises nothing. As in `quiet`, its mean stays within [low, high]
    whatever the order of the rewards, and so adds at most high - low to the drift.
    """
    count = most
    while count > 1:
        s = ones_among(tape, count)
        low = S / (m + count - s)
        high = (S + s) / (m + s)
        distance = max(abs(low - reference.theta), abs(high - reference.theta))
        doubt = steepness * (drift + high - low) + reference.margin
        enough = inverse - count / (float(m) * (m + count)) >= reference.least_inverse
        width = beta_arm(reference.log_low, m + count) + reference.beta_low
        if enough and distance + doubt < width:
            return count
        count //= 2
    return 1


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
    the answer is known; all arms are looked at only when the witness is no longer active. An arm
    that is surely active itself is as good a witness. `room` is by how much theta_hat may move
    before the witness might not be active.

    Single Bernoulli rewards are played from tapes, each filled when its arm is pulled and it is
    empty. So all that is known ahead of an arm's rewards is what is left on its tape.
    """
    n = y.size
    l_k = l_of_k(k, n, delta)
    if n * batch > budget:
        return 0, 0, 0.0, np.inf
    steepness = (1.0 + abs(k) * math.sqrt(n - 1.0)) / n
    taped = family == BERNOULLI and batch == 1
    by_cycles = taped and rho == 1.0
    tapes = np.full(n, EMPTY)
    sums = np.zeros(n)
    y_hat = np.zeros(n)
    was_active = np.ones(n, dtype=np.bool_)
    for i in range(n):
        sums[i] = turn(tapes, i, reward_rng, family, y[i], parameter, mirrored, batch)
        m[i] = batch
        y_hat[i] = sums[i] / batch
    T = first_T = n * batch
    rounds = 1
    cycle = 1
    step = LENGTH if taped else batch  # the most pulls at a time
    i = 0
    drift = 0.0
    moments = moments_of(y_hat, m)
    now = refer(moments, k, delta, l_k, T, first_T, step)
    witness = most_active(y_hat, m, now.log_low, now.theta, now.beta_theta)
    room = -1.0
    while witness >= 0 and T + batch <= budget:
        if by_cycles and i == 0:
            most = (budget - T) // n
            cycles = play_cycles(
                k, delta, l_k, most, mirrored, reward_rng, y, tapes, m, sums, y_hat
            )
            T += cycles * n
            first_T = T
            rounds += cycles * n
            cycle += cycles
            moments = moments_of(y_hat, m)
            now = refer(moments, k, delta, l_k, T, first_T, step)
            witness = most_active(y_hat, m, now.log_low, now.theta, now.beta_theta)
            drift = 0.0
            room = -1.0
            if T + batch > budget:
                break
        credit = cycle * rho * batch
        if T + step > now.until:
            now = refer(moments, k, delta, l_k, T, first_T, step)
            drift = 0.0
            room = -1.0
        count = 1
        old_mean = y_hat[i]
        if taped:
            tape = refilled(tapes[i], reward_rng, y[i], mirrored)
            if was_active[i] and m[i] + 1 < credit:
                most = min(LENGTH - m[i] % LENGTH, budget - T)
                if credit - m[i] < most:
                    most = math.ceil(credit) - m[i]
                count = surely_active_pulls(
                    tape, most, sums[i], m[i], drift, steepness, moments.inverse_pulls, now
                )
            sums[i] += ones_among(tape, count)
            tapes[i] = tape >> count
        else:
            sums[i] += turn(tapes, i, reward_rng, family, y[i], parameter, mirrored, batch)
        pulls = count * batch
        m[i] += pulls
        y_hat[i] = sums[i] / m[i]
        moments = replace_arm(moments, old_mean, y_hat[i], m[i] - pulls, m[i])
        drift += abs(y_hat[i] - old_mean)
        T += pulls
        rounds += count
        paid = m[i] >= credit
        active = count > 1
        inactive = False
        if i == witness:
            room = -1.0
        if not active:
            distance = abs(y_hat[i] - now.theta)
            doubt = steepness * drift + now.margin
            known = moments.inverse_pulls >= now.least_inverse
            if known and not paid:
                active = distance + doubt < beta_arm(now.log_low, m[i]) + now.beta_low
                inactive = distance - doubt > beta_arm(now.log_high, m[i]) + now.beta_high
                known = active or inactive
            if not known or not (active or steepness * drift < room):
                now = refer(moments, k, delta, l_k, T, first_T, step)
                drift = 0.0
                beta_w = beta_arm(now.log_low, m[witness])
                if not is_active(y_hat[witness], beta_w, now.theta, now.beta_theta):
                    witness = most_active(y_hat, m, now.log_low, now.theta, now.beta_theta)
                    beta_w = beta_arm(now.log_low, m[witness])
                room = beta_w + now.beta_low - abs(y_hat[witness] - now.theta) - now.margin
                beta_i = beta_arm(now.log_low, m[i])
                active = bool(is_active(y_hat[i], beta_i, now.theta, now.beta_theta))
                inactive = not active
            was_active[i] = active or not inactive
        if paid or inactive:
            i += 1
            if i == n:
                i = 0
                cycle += 1
                if not by_cycles:
                    first_T = T
                    moments = moments_of(y_hat, m)
    log_term = log_inverse_delta_prime(delta, n, T)
    theta_hat = plug_in_threshold(moments, k)
    beta_t = beta_theta(log_term, harmonic_mean_of_pulls(moments), l_k)
    for j in range(n):
        if not is_active(y_hat[j], beta_arm(log_term, m[j]), theta_hat, beta_t):
            out[j] = HIGH if y_hat[j] > theta_hat else NORMAL
    return rounds, 0, theta_hat, beta_t
