"""The nearest other world of each arm: means z with z_i = theta(z) that cost least evidence.

For the allocation w the cost of z is sum_j w_j d(y_j, z_j); with Gaussian noise it is
sum_j a_j (z_j - y_j)^2, a_j = w_j / (2 s_j^2). Let m and s be the mean and the population sd of the
other n - 1 arms. Then, for k >= 0, z_i >= theta(z) is the second-order cone

    z_i >= m + k~ s,    k~ = k / sqrt(1 - (1 + k^2)/n),

so z is the projection of y onto a convex cone (y outside) or onto its surface from inside. Both
have one quadratic constraint, and stationarity with multipliers tau and b reads

    z_j - m = (a_j (y_j - m) - tau) / (a_j + b)  for j != i,
    z_i = y_i + (n-1) tau / a_i = m + k~^2 tau / b,

two linear equations in (m, tau) for each b: a search for b alone remains (the S-lemma's dual).
k < 0 is the mirror image, z -> -z.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray

_BISECTIONS = 80
_LOG_RANGE = 45.0
_ASYMMETRY = 1e-8


def nearest(y: FloatArray, a: FloatArray, k: float, arms: IntArray) -> FloatArray:
    """Return, one row per arm i, the z with z_i = theta(z) that minimises sum_j a_ij (z_j - y_j)^2.

    `a` has one row of positive weights per arm in `arms`. The rows obey the constraint to rounding.
    """
    if k < 0.0:
        return -nearest(-y, a, -k, arms)
    if k == 0.0:
        return _onto_hyperplane(y, a, arms)
    n = y.size
    if n == 2:  # the other arm has no spread: both means must meet
        return _apex(y, a)
    k_out = k / math.sqrt(1.0 - (1.0 + k * k) / n)  # k~
    inside = y[arms] >= y.mean() + k * y.std()
    z = np.empty_like(a)
    with np.errstate(over="ignore", invalid="ignore"):  # poles inside brackets
        for rows, project in ((~inside, _from_outside), (inside, _from_inside)):
            if rows.any():
                z[rows] = project(y, a[rows], k_out, arms[rows])
    return np.where(np.isfinite(z).all(axis=1, keepdims=True), z, _apex(y, a))


def _onto_hyperplane(y: FloatArray, a: FloatArray, arms: IntArray) -> FloatArray:
    g = np.full(a.shape, -1.0 / y.size)
    g[np.arange(arms.size), arms] += 1.0
    step = (g @ y) / (g**2 / a).sum(axis=1)
    return np.asarray(y - step[:, None] * g / a)


def _apex(y: FloatArray, a: FloatArray) -> FloatArray:
    """Return the nearest means that are all equal."""
    level = (a @ y) / a.sum(axis=1)
    return np.repeat(level[:, None], y.size, axis=1)


def _from_outside(y: FloatArray, a: FloatArray, k: float, arms: IntArray) -> FloatArray:
    """Project normal arms (k is k~): a convex problem, b > 0.

    The 2 x 2 system is singular at one b_bar. The cone we want is reached below b_bar if y leans
    towards it there and above b_bar if y leans towards the opposite cone (most arms below average);
    if even b = infinity stays inside, the nearest point is the apex.
    """
    own = (np.arange(arms.size), arms)
    others = _columns_of_others(arms, y.size)
    m = y.size - 1
    a_i, y_i = a[own][:, None], y[arms][:, None]
    a_j, y_j = np.take_along_axis(a, others, axis=1), y[others]

    def solve(b: FloatArray) -> tuple[FloatArray, ...]:
        p = 1.0 / (a_j + b)
        weight = _sum(a_j * p)
        y_bar, per_tau = _sum(a_j * p * y_j) / weight, _sum(p) / weight
        return p, y_bar, per_tau, k * k / b - m / a_i - per_tau

    def deviations(b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        p, y_bar, per_tau, pivot = solve(b)
        tau = (y_i - y_bar) / np.where(pivot == 0.0, 1e-300, pivot)
        mean = y_bar - tau * per_tau
        return mean, tau, (a_j * (y_j - mean) - tau) * p

    def beyond(b: FloatArray) -> BoolArray:
        """Whether z is inside the two cones, |z_i - m| > k~ s."""
        _, tau, deviation = deviations(b)
        spread = np.sqrt((deviation**2).mean(axis=1, keepdims=True))
        return np.asarray(k * np.abs(tau) > b * spread)

    low = k * k / (m / a_i + 1.0 / a_j.min(axis=1, keepdims=True))
    high = k * k / (m / a_i + 1.0 / a_j.max(axis=1, keepdims=True))
    b_bar = _bisect(lambda b: solve(b)[-1] < 0.0, low, high)
    leans = y_i > solve(b_bar)[1]
    sign = np.where(leans, -1.0, 1.0)
    x = _bisect(
        lambda x: ~beyond(b_bar * np.exp(sign * x)),
        np.full_like(b_bar, 1e-12),
        np.full_like(b_bar, _LOG_RANGE),
    )
    mean, _, deviation = deviations(b_bar * np.exp(sign * x))
    z = np.empty_like(a)
    np.put_along_axis(z, others, mean + deviation, axis=1)
    at_apex = (~leans & (x > _LOG_RANGE - 1e-6))[:, 0]
    z[at_apex] = _apex(y, a[at_apex])
    return _with_own(z, k, arms, others)


def _from_inside(y: FloatArray, a: FloatArray, k: float, arms: IntArray) -> FloatArray:
    """Project outliers (k is k~) onto the surface, b = -t < 0: not convex, exact by the S-lemma.

    The dual is concave for t below t_max, which lies between the two smallest a_j of the others;
    the arm with the smallest is taken out of the sums so that its pole cancels. In the hard case (y
    on an axis of symmetry, as with identical arms) several z are nearest and none is stationary
    below t_max; a relative asymmetry of 1e-8 in y picks one of them.
    """
    own = (np.arange(arms.size), arms)
    m = y.size - 1
    columns = _columns_of_others(arms, y.size)
    order = np.argsort(np.take_along_axis(a, columns, axis=1), axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    first, rest = columns[:, :1], columns[:, 1:]
    bent = y + _ASYMMETRY * y.std() * np.cos(2.399963 * np.arange(y.size))
    a_i, y_i = a[own][:, None], bent[arms][:, None]
    a_1, y_1 = np.take_along_axis(a, first, axis=1), bent[first]
    a_j, y_j = np.take_along_axis(a, rest, axis=1), bent[rest]
    a_2 = a_j[:, :1]

    def solve(t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        distance = a_j - t
        p = 1.0 / np.where(distance == 0.0, 1e-300, distance)
        weight = a_1 + (a_1 - t) * _sum(a_j * p)
        sum_y = a_1 * y_1 + (a_1 - t) * _sum(a_j * p * y_j)
        pull = m / a_i + k * k / t
        pivot = -weight * pull - (1.0 + (a_1 - t) * _sum(p))
        tau = (y_i * weight - sum_y) / np.where(pivot == 0.0, 1e-300, pivot)
        mean = y_i + tau * pull
        return pivot, mean, (a_j * (y_j - mean) - tau) * p

    def deviations(t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        _, mean, deviation = solve(t)
        return mean, -_sum(deviation), deviation

    def outside(t: FloatArray) -> BoolArray:
        mean, first_deviation, deviation = deviations(t)
        spread = np.sqrt((first_deviation**2 + _sum(deviation**2)) / m)
        tau = (mean - y_i) / (m / a_i + k * k / t)
        return np.asarray(k * np.abs(tau) < t * spread)

    t_max = _bisect(lambda t: solve(t)[0] > 0.0, a_1, a_2)
    x = _bisect(
        lambda x: outside(t_max / (1.0 + np.exp(-x))),
        np.full_like(t_max, -_LOG_RANGE),
        np.full_like(t_max, 35.0),
    )
    mean, first_deviation, deviation = deviations(t_max / (1.0 + np.exp(-x)))
    z = np.empty_like(a)
    np.put_along_axis(z, first, mean + first_deviation, axis=1)
    np.put_along_axis(z, rest, mean + deviation, axis=1)
    return _with_own(z, k, arms, columns)


def _with_own(z: FloatArray, k: float, arms: IntArray, others: IntArray) -> FloatArray:
    """Set z_i = m + k~ s of the row's other arms, so that rounding cannot leave the surface."""
    rest = np.take_along_axis(z, others, axis=1)
    z[np.arange(arms.size), arms] = rest.mean(axis=1) + k * rest.std(axis=1)
    return z


def _bisect(
    above: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return, for each row, where `above` turns from False to True."""
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_above = above(middle)
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return 0.5 * (low + high)


def _sum(values: FloatArray) -> FloatArray:
    return np.asarray(values.sum(axis=1, keepdims=True))


def _columns_of_others(arms: IntArray, n: int) -> IntArray:
    """Return, one row per arm, the n - 1 other columns."""
    columns = np.arange(n - 1)
    return np.asarray(columns + (columns >= arms[:, None]))
