"""Bounds on the coefficients c*_j of the threshold's true direction, and what they imply.

c*_j = (1 + k (y_j - mu)/sigma)/m for a threshold of m arms. Intervals of the means, of mu and of
sigma put |c*_j| into a box; and sum_j c*_j^2 = (1 + k^2)/m is known exactly. So a cost
sum_j c*_j^2 value_j with known values is at most a fractional knapsack.
"""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.elementwise import Numbers, choose, elementwise, row_sums
from oddarms.statistics.totals import relative_error

UNKNOWN_SD = 1e-150
BISECTIONS = 20


def direction_box(
    low: FloatArray,
    high: FloatArray,
    k: float,
    mu: tuple[float, float],
    sigma: tuple[float, float],
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on each |c*_j| for means in [low_j, high_j], `mu` and `sigma` of all.

    No |c*_j| exceeds (1 + k sqrt(m-1))/m, as no standardised value of m numbers exceeds sqrt(m-1).
    """
    m = float(low.size)
    cap = (1.0 + k * math.sqrt(m - 1.0)) / m
    negative = np.maximum(k / sigma[0] * (mu[1] - low) - 1.0, 0.0) / m
    positive = (1.0 + k / sigma[0] * np.maximum(high - mu[0], 0.0)) / m
    largest = np.maximum(np.minimum(negative, cap), np.minimum(positive, cap))
    certain = np.where(low > mu[1], (1.0 + k / sigma[1] * (low - mu[1])) / m, 0.0)
    return np.minimum(certain, largest), largest


@elementwise
def largest_coefficients(
    low: Numbers, high: Numbers, k: float, m: float, mu: tuple[float, float], sigma: float
) -> Numbers:
    """Return the largest |c*_j| of a threshold of m arms, for means in [low_j, high_j].

    `mu` bounds the mean of the m arms and `sigma` is at most their sd. No standardised value of m
    numbers exceeds sqrt(m-1).
    """
    away = np.maximum(np.maximum(high - mu[0], mu[1] - low), 0.0)
    return (1.0 + k * np.minimum(away / sigma, math.sqrt(m - 1.0))) / m


def smallest_sd(low: FloatArray, high: FloatArray, members: FloatArray) -> FloatArray:
    """Return a lower bound on the sd of numbers in [low_j, high_j], per row of 0/1 members.

    The variance is min_t mean_j (y_j - t)^2 >= min_t mean_j dist(t, [low_j, high_j])^2, convex in
    t: bisection on the slope, then the tangent at the left end. What rounding the sums can add is
    taken off, as a sd that is too large would narrow the box. At least `UNKNOWN_SD`, a number so
    small that it leaves any c* in the box whose arms are not known to lie on one side of mu.
    """
    left, right = np.zeros(len(members)), np.ones(len(members))
    for _ in range(BISECTIONS):
        t = 0.5 * (left + right)
        falling = row_sums(beyond(members, t.reshape(-1, 1), low, high)) < 0.0
        left, right = choose(falling, t, left), choose(falling, right, t)
    distances = row_sums(distance(members, left.reshape(-1, 1), low, high, 1.0))
    squares = row_sums(distance(members, left.reshape(-1, 1), low, high, 2.0))
    drop = 2.0 * (right - left) * distances
    result: FloatArray = sd_from_tangent(squares, drop, low.size, row_sums(members))
    return result


@elementwise
def beyond(member: Numbers, t: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return how far t is above an interval, less how far it is below."""
    return member * (t - np.minimum(np.maximum(t, low), high))


@elementwise
def distance(member: Numbers, t: Numbers, low: Numbers, high: Numbers, power: float) -> Numbers:
    """Return a power of the distance of t from an interval."""
    return member * (np.maximum(t - high, 0.0) + np.maximum(low - t, 0.0)) ** power


@elementwise
def sd_from_tangent(at_left: Numbers, drop: Numbers, n: int, m: Numbers) -> Numbers:
    """Return the sd from the sum of squares at the left end less what it can fall by, n terms."""
    variance = (at_left - drop - relative_error(n) * (at_left + drop)) / m
    return np.sqrt(np.maximum(variance, UNKNOWN_SD**2))


def knapsack(low: FloatArray, high: FloatArray, value: FloatArray, budget: float) -> float:
    """Return at least max sum_j u_j value_j, low_j <= u_j <= high_j, sum_j u_j = budget.

    What is left of the budget, and of it before each item, are differences: they get all that
    rounding can have taken, so that no item is left out for it.
    """
    order = np.argsort(-value)
    low, room, value = low[order], np.maximum(high - low, 0.0)[order], value[order]
    before = np.cumsum(room) - room
    left = max(budget - float(low.sum()), 0.0)
    left += float(relative_error(value.size)) * (budget + float(before[-1] + room[-1]))
    taken = np.clip(left - before, 0.0, room)
    return float(((low + taken) * value).sum())
