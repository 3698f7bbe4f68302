"""The most that a bet along the threshold's unknown true direction can cost."""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray, IntArray

NEWTON_STEPS = 4


def largest_costs(
    arms: IntArray, y: FloatArray, k: float, stakes: FloatArray, prices: FloatArray
) -> FloatArray:
    """Return at least max over c of s (<c, y> - theta(y)) + sum_j c_j^2 p_j, per stake and arm.

    Over the directions c_j = (1 + k z_j)/m of thresholds without arm i, for each arm i given: the
    z_j of the m others sum to 0 and their squares to m. s is one of the stakes and p its row of
    `prices`, which are not negative.

    The first term is not positive: directions far from that of y, which might cost more, pay for
    it themselves. In z this is a linear plus a diagonal quadratic form, sum_j t_j z_j + q_j z_j^2,
    on a sphere. Take any nu for which sum_j (nu - q_j) z_j^2 is positive on all z that sum to 0.
    Then the form is at most nu m plus the largest sum_j t_j z_j - (nu - q_j) z_j^2 over these z,
    with no sphere: sum_j (t_j - tau)^2 / (4 (nu - q_j)) + nu m, the Lagrangian dual, where tau lets
    z_j = (t_j - tau) / (2 (nu - q_j)) sum to 0. At the best nu their squares sum to m; it is sought
    by some Newton steps. As any nu will do, the smallest of the values met is returned.

    Let q_1 be the largest and q_2 the next. As z_1^2 <= (1 - 1/m) sum_j z_j^2 where the z_j sum to
    0, every nu > q_2 + (q_1 - q_2) (1 - 1/m) will do: with few arms much less than q_1.
    """
    n = y.size
    m = n - 1.0
    costs = np.empty((stakes.size, arms.size))
    stakes = stakes.reshape(-1, 1)
    values = prices / (m * m)
    for place in range(arms.size):
        i = arms[place]
        others = np.ones(n)
        others[i] = 0.0
        deviations = (y - (y * others).sum() / m) * others
        sd = math.sqrt((deviations**2).sum() / m)
        v = values * others
        fixed = v.sum(1) - stakes[:, 0] * (k * sd)
        top = _on_sphere(k * (stakes * (deviations / m) + 2.0 * v), k * k * v, others, m)
        costs[:, place] = fixed + top
    return costs


def _on_sphere(t: FloatArray, q: FloatArray, others: FloatArray, m: float) -> FloatArray:
    """Return at least the largest sum_j t_j z_j + q_j z_j^2 on the sphere, for each row."""
    steepest = np.zeros(q.shape[0])
    for row in range(q.shape[0]):
        rest = q[row].copy()
        place = rest.argmax()
        rest[place] = 0.0
        steepest[row] = q[row, place] - (q[row, place] - rest.max()) / m
    centre = (t * others).sum(1) / m
    energy = ((t - centre.reshape(-1, 1)) ** 2 * others).sum(1)
    spread = np.sqrt(energy / (4.0 * m)) + 1e-300
    least = steepest * (1.0 + 1e-9) + 1e-6 * spread
    nu = np.maximum(steepest + spread, least)  # more than steepest, also where all t_j are equal
    best = np.full(q.shape[0], np.inf)
    for _ in range(NEWTON_STEPS):
        room = nu.reshape(-1, 1) - q
        smallest = 1e-12 * nu.reshape(-1, 1) + 0.0 * room  # moves q_1 by twice that at most, and
        inverse = others / np.where(np.abs(room) < smallest, smallest, room)  # all by 2e-12 nu m
        total = inverse.sum(1)
        away = t - ((t * inverse).sum(1) / total).reshape(-1, 1)
        fit = away * away * inverse
        best = np.minimum(best, fit.sum(1) / 4.0 + nu * (m * (1.0 + 2e-12)))
        first = (fit * inverse).sum(1) / 4.0
        bend = (away * inverse * inverse).sum(1)
        second = (fit * inverse * inverse).sum(1) / 2.0 - bend * (bend / total) / 2.0
        second = np.maximum(second, 2.0 * first / nu)  # what it is at least, before rounding
        ratio = np.sqrt(first / m)  # Newton on 1/sqrt(first) - 1/sqrt(m), nearly linear in nu
        following = nu - 2.0 * first * (1.0 - ratio) / np.maximum(second, 1e-300)
        nu = np.where(following > least, following, 0.5 * (nu + least))
    return best
