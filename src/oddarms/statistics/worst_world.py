"""The most that a bet along the threshold's unknown true direction can cost."""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.statistics.elementwise import Numbers, choose

NEWTON_STEPS = 4


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
    n = y.size
    m = n - 1.0
    costs, thresholds = np.empty((stakes.size, arms.size)), np.empty(arms.size)
    stakes = stakes.reshape(-1, 1)
    values = prices / (m * m)
    for place in range(arms.size):
        i = arms[place]
        others = np.ones(n)
        others[i] = 0.0
        mean = (y * others).sum() / m
        deviations = (y - mean) * others
        sd = math.sqrt((deviations**2).sum() / m)
        thresholds[place] = mean + k * sd
        v = values * others
        top = on_sphere(tilt(stakes, deviations, v, m), k * v, others, m)
        costs[:, place] = v.sum(1) - stakes[:, 0] * (k * sd) + k * top
    return costs, thresholds


def tilt(stake: Numbers, deviation: Numbers, value: Numbers, m: float) -> Numbers:
    """Return t_j of `largest_costs`."""
    return stake * (deviation / m) + 2.0 * value


def on_sphere(t: FloatArray, q: FloatArray, others: FloatArray, m: float) -> FloatArray:
    """Return at least the largest sum_j t_j z_j + q_j z_j^2 on the sphere, for each row."""
    highest = np.partition(q, -2, axis=1)
    centre = (t * others).sum(1) / m
    energy = ((t - centre.reshape(-1, 1)) ** 2 * others).sum(1)
    nu, least = first_nu(highest[:, -1], highest[:, -2], energy, centre, m)
    best = np.full(q.shape[0], np.inf)
    for _ in range(NEWTON_STEPS):
        inverse = others * inverse_of(nu.reshape(-1, 1), q)
        total = inverse.sum(1)
        away = t - ((t * inverse).sum(1) / total).reshape(-1, 1)
        fit = away * away * inverse
        best = np.minimum(best, dual_value(nu, fit.sum(1), m))
        by_square, bend = fit * inverse, (away * inverse * inverse).sum(1)
        bent = (by_square * inverse).sum(1) - bend * (bend / total)
        nu = next_nu(nu, least, by_square.sum(1), bent, m)
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


def inverse_of(nu: Numbers, q: Numbers) -> Numbers:
    """Return 1/(nu - q_j), where q_1 is moved by 2e-12 nu at most: all by 2e-12 nu m."""
    room, smallest = nu - q, 1e-12 * nu
    return 1.0 / choose(np.abs(room) < smallest, smallest, room)


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
