"""The most that a bet along the threshold's unknown true direction can cost."""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray, IntArray

NEWTON_STEPS = 5


def largest_costs(
    arms: IntArray, y: FloatArray, k: float, stakes: FloatArray, prices: FloatArray
) -> FloatArray:
    """Return at least max over c of s (<c, y> - theta(y)) + sum_j c_j^2 p_j, per stake and arm.

    Over the directions c_j = (1 + k z_j)/m of thresholds without arm i, for each arm i given: the
    z_j of the m others sum to 0 and their squares to m. s is one of the stakes and p its row of
    `prices`, which are not negative.

    The first term is not positive: directions far from that of y, which might cost more, pay for
    it themselves. In z this is a linear plus a diagonal quadratic form, sum_j t_j z_j + q_j z_j^2,
    on a sphere. For every nu above all q_j and every tau it is at most
    sum_j (t_j - tau)^2 / (4 (nu - q_j)) + nu m, the Lagrangian dual: complete the squares of
    t_j z_j + q_j z_j^2 - nu (z_j^2 - 1) - tau z_j. The best tau is an average; nu is sought by some
    Newton steps on sum_j ((t_j - tau) / (2 (nu - q_j)))^2 = m. As any nu will do, the smallest of
    the values met is returned.
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
        steepest[row] = q[row].max()
    centre = (t * others).sum(1) / m
    energy = ((t - centre.reshape(-1, 1)) ** 2 * others).sum(1)
    spread = np.sqrt(energy / (4.0 * m)) + 1e-300
    least = steepest * (1.0 + 1e-9) + 1e-6 * spread
    nu = np.maximum(steepest + spread, least)  # more than steepest, also where all t_j are equal
    best = np.full(q.shape[0], np.inf)
    for _ in range(NEWTON_STEPS):
        inverse = others / (nu.reshape(-1, 1) - q)
        tau = (t * inverse).sum(1) / inverse.sum(1)
        fit = (t - tau.reshape(-1, 1)) ** 2 * inverse
        best = np.minimum(best, fit.sum(1) / 4.0 + nu * m)
        first = (fit * inverse).sum(1) / 4.0
        second = (fit * inverse * inverse).sum(1) / 2.0
        ratio = np.sqrt(first / m)  # Newton on 1/sqrt(first) - 1/sqrt(m), nearly linear in nu
        step = 2.0 * first * (1.0 - ratio) / np.maximum(second, 1e-300)
        following = nu - step
        nu = np.where(following > least, following, 0.5 * (nu + least))
    return best
