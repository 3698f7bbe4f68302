"""The most that a bet along the threshold's unknown true direction can cost."""

from __future__ import annotations

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.elementwise import Numbers, choose

NEWTON_STEPS = 4
TABLE = 32_768
"""Numbers in a table, about: more arms at a time would not stay in the processor's cache."""


def largest_costs(
    arms: IntArray, y: FloatArray, k: float, stakes: FloatArray, prices: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return at least max over c of s (<c, y> - theta(y)) + sum_j c_j^2 p_j, per stake and arm.

    And the threshold theta(y) of each arm. Over the directions c_j = (1 + k z_j)/m of thresholds
    without arm i, for each arm i given; s is one of the stakes and p its row of `prices`, which are
    not negative. Theorem 7 of docs/explanation/proofs.md: in z it is a linear and a diagonal
    quadratic form on a sphere, sum_j t_j z_j + q_j z_j^2 times k, bounded by its Lagrangian dual.
    The best nu is sought by some Newton steps; as any will do, the smallest value met is returned.
    """
    values = prices / (y.size - 1.0) ** 2
    costs, thresholds = np.empty((stakes.size, arms.size)), np.empty(arms.size)
    at_a_time = max(TABLE // values.size, 1)
    for first in range(0, arms.size, at_a_time):
        some = slice(first, first + at_a_time)
        costs[:, some], thresholds[some] = costs_of_some(arms[some], y, k, stakes, values)
    return costs, thresholds


def costs_of_some(
    arms: IntArray, y: FloatArray, k: float, stakes: FloatArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return `largest_costs` of few arms, from tables with a row for each stake and arm."""
    m, shape = y.size - 1.0, (stakes.size, arms.size)
    rows, left_out = np.arange(stakes.size * arms.size), np.tile(arms, stakes.size)
    centre, stakes = y.mean(), stakes.reshape(-1, 1)
    centred = y - centre
    away = -centred[arms] / m  # of the others' mean from that of all
    deviations = centred - away.reshape(-1, 1)
    deviations[rows[: arms.size], arms] = 0.0
    sd = np.sqrt(np.vecdot(deviations, deviations) / m)
    v = np.repeat(values, arms.size, axis=0)
    t = tilt(stakes, centred, values, m)[:, None] - (stakes * (away / m))[:, :, None]
    t = t.reshape(v.shape)
    t[rows, left_out] = v[rows, left_out] = 0.0
    top = on_sphere(t, k * v, left_out).reshape(shape)
    return v.sum(1).reshape(shape) - stakes * (k * sd) + k * top, centre + away + k * sd


def tilt(stake: Numbers, deviation: Numbers, value: Numbers, m: float) -> Numbers:
    """Return t_j of `largest_costs`."""
    return stake * (deviation / m) + 2.0 * value


def on_sphere(t: FloatArray, q: FloatArray, left_out: IntArray) -> FloatArray:
    """Return at least the largest sum_j t_j z_j + q_j z_j^2 on the sphere, for each row.

    In each row one arm is left out, for which `t` and `q` are 0. Only the largest q_j can come near
    to nu, see `first_nu`.
    """
    m, rows = q.shape[1] - 1.0, np.arange(q.shape[0])
    top = q.argmax(1)
    q_1, q[rows, top] = q[rows, top], -1.0
    q_2, q[rows, top] = q.max(1), q_1
    centre = t.sum(1) / m
    away = t - centre.reshape(-1, 1)
    away[rows, left_out] = 0.0
    nu, least = first_nu(q_1, q_2, np.vecdot(away, away), centre, m)
    best, inverse, fit = np.full(rows.size, np.inf), np.empty(q.shape), np.empty(q.shape)
    for step in range(NEWTON_STEPS):
        np.subtract(nu.reshape(-1, 1), q, out=inverse)
        inverse[rows, top] = room_of(nu, q_1)
        np.divide(1.0, inverse, out=inverse)
        inverse[rows, left_out] = 0.0
        total = inverse.sum(1)
        np.subtract(t, (np.vecdot(t, inverse) / total).reshape(-1, 1), out=away)
        np.multiply(away, inverse, out=fit)
        best = np.minimum(best, dual_value(nu, np.vecdot(fit, away), m))
        if step < NEWTON_STEPS - 1:
            bend = np.vecdot(fit, inverse)
            bent = np.vecdot(np.multiply(fit, inverse, out=inverse), fit) - bend * (bend / total)
            nu = next_nu(nu, least, np.vecdot(fit, fit), bent, m)
    return best


def first_nu(
    q_1: Numbers, q_2: Numbers, energy: Numbers, centre: Numbers, m: float
) -> tuple[Numbers, Numbers]:
    """Return a nu to begin with, and one that all others must exceed.

    `centre` is the mean of the t_j and `energy` the sum of the squared distances from it; where
    the t_j are equal, these distances are what rounding leaves, and are not divided by less.
    """
    steepest = q_1 - (q_1 - q_2) / m
    rounded = 1e-15 * centre
    spread = np.sqrt(energy / (4.0 * m) + rounded * rounded) + 1e-300
    least = steepest * (1.0 + 1e-9) + 1e-6 * spread
    return np.maximum(steepest + spread, least), least  # also where all t_j are equal


def room_of(nu: Numbers, q: Numbers) -> Numbers:
    """Return nu - q_j, where q_1 is moved by 2e-12 nu at most: all by 2e-12 nu m."""
    room, smallest = nu - q, 1e-12 * nu
    return choose(np.abs(room) < smallest, smallest, room)


def dual_value(nu: Numbers, fit: Numbers, m: float) -> Numbers:
    """Return the bound that nu gives, `fit` the sum of (t_j - tau)^2 / (nu - q_j)."""
    return fit / 4.0 + nu * (m * (1.0 + 2e-12))


def next_nu(nu: Numbers, least: Numbers, by_square: Numbers, bent: Numbers, m: float) -> Numbers:
    """Return nu after a Newton step on 1/sqrt(F) - 1/sqrt(m), nearly linear in nu.

    F, a quarter of `by_square`, is the sum of z_j^2, and `bent` is -2 times its derivative.
    """
    first = by_square / 4.0
    second = np.maximum(bent / 2.0, 2.0 * first / nu)  # what it is at least, before rounding
    following = nu - 2.0 * first * (1.0 - np.sqrt(first / m)) / np.maximum(second, 1e-300)
    return choose(following > least, following, 0.5 * (nu + least))
