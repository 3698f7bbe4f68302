"""The exact limit: the best allocation against the nearest other world of every arm.

f_i(w) = inf { sum_j w_j d(y_j, z_j) : z_i = theta(z) } is concave in w, with the costs d(y_j, z_j)
of the nearest z as a supergradient, and 1/T* = max_w min_i f_i(w). Any finite set of other worlds z
makes a linear program whose value is at least 1/T*. So the T returned never exceeds T*, whether or
not the search for worlds and allocations has converged.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from oddarms.problem import FloatArray, IntArray
from oddarms.theory._alternatives import nearest
from oddarms.theory._first_order import first_order_program

_TOLERANCE = 5e-4
_ROUNDS = 60
_REWEIGHTINGS = 12
_EDGE = 1e-9  # how close to 0 and 1 the means of another Bernoulli world may come
_LEAST_VARIANCE = 1e-4  # where the reweighting starts for means at 0 or 1
_LEAST_SHARE = 1e-7
_LARGEST_STEP = 100.0
_FAR = 10.0  # worlds this many times costlier than the cheapest do not shape the next allocation


class Noise(Protocol):
    """What the limit needs to know of the noise."""

    variances: FloatArray

    def nearest(self, w: FloatArray, arms: IntArray) -> FloatArray:
        """Return the nearest other world of each arm for the allocation w, one row each."""

    def costs(self, z: FloatArray) -> FloatArray:
        """Return d(y_j, z_j), the evidence of one pull of arm j against the world z."""


class Gaussian:
    """Noise with known standard deviations: the nearest worlds are found exactly."""

    def __init__(self, y: FloatArray, k: float, scale: FloatArray) -> None:
        self._y, self._k = y, k
        self.variances = scale**2

    def nearest(self, w: FloatArray, arms: IntArray) -> FloatArray:
        """Return the projections in the metric of the noise."""
        a = np.tile(w / (2.0 * self.variances), (arms.size, 1))
        return nearest(self._y, a, self._k, arms)

    def costs(self, z: FloatArray) -> FloatArray:
        """Return (y_j - z_j)^2 / (2 s_j^2)."""
        return (z - self._y) ** 2 / (2.0 * self.variances)


class Bernoulli:
    """Rewards 0 and 1: the Gaussian problem, reweighted until its variances are z_j (1 - z_j).

    At a fixed point the stationarity conditions of the Kullback-Leibler problem hold. They are
    sufficient for arms on the convex side (normal arms if k >= 0); for the others the world found
    may be a local optimum, which weakens the bound but keeps it one.
    """

    def __init__(self, y: FloatArray, k: float) -> None:
        self._y, self._k = y, k
        self.variances = np.maximum(y * (1.0 - y), _LEAST_VARIANCE)

    def nearest(self, w: FloatArray, arms: IntArray) -> FloatArray:
        """Return the cheapest worlds met while reweighting, with shorter steps where one fails."""
        s2 = trial = np.tile(self.variances, (arms.size, 1))
        best, least = np.zeros(s2.shape), np.full((arms.size, 1), np.inf)
        step = np.ones((arms.size, 1))
        for _ in range(_REWEIGHTINGS):
            z = _into_box(nearest(self._y, w / (2.0 * trial), self._k, arms))
            cost = (self.costs(z) * w).sum(axis=1, keepdims=True)
            better = cost < least
            best, least = np.where(better, z, best), np.where(better, cost, least)
            s2 = np.where(better, trial, s2)
            step = np.where(better, np.minimum(1.5 * step, 1.0), 0.4 * step)
            trial = s2 * (best * (1.0 - best) / s2) ** step
        return best

    def costs(self, z: FloatArray) -> FloatArray:
        """Return kl(y_j, z_j)."""
        from scipy.special import kl_div

        return np.asarray(kl_div(self._y, z) + kl_div(1.0 - self._y, 1.0 - z)).clip(min=0.0)


def exact_limit(y: FloatArray, k: float, noise: Noise) -> tuple[float, FloatArray]:
    """Return T* from below, to a relative 5e-4 where the search converges, and the allocation."""
    groups = _Groups(y, noise.variances)
    N = first_order_program(y, noise.variances, k)
    W = np.maximum(groups.sum(N / N.sum()), _LEAST_SHARE)
    worlds, visited = np.empty((0, W.size)), np.empty((0, W.size))
    T, best, stride = 0.0, W, 1.0
    for _ in range(_ROUNDS):
        z = noise.nearest(groups.spread(W), groups.first)
        worlds = np.vstack([worlds, groups.sum(noise.costs(z)) / groups.size])
        visited = np.vstack([visited, W / W.sum()])
        values = (visited @ worlds.T).min(axis=1)
        best = visited[values.argmax()]
        previous, T = T, _bound(worlds)
        if T * values.max() >= 1.0 - _TOLERANCE:
            break
        # The model is too careful where costs are nearly linear in w: where rounds teach nothing
        # new, take longer steps.
        stride = min(2.0 * stride, 4.0) if previous >= T / (1.0 + 1e-6) else 1.0
        W = W * np.clip((_improve(W, worlds) / W) ** stride, 1.0 / _LARGEST_STEP, _LARGEST_STEP)
        W = np.maximum(W / W.sum(), _LEAST_SHARE)
    return T, groups.spread(best)


class _Groups:
    """Identical arms share one weight: by symmetry, costs averaged over them bound T* as well."""

    def __init__(self, y: FloatArray, variances: FloatArray) -> None:
        pairs = np.column_stack([y, variances])
        _, self.first, index, self.size = np.unique(
            pairs, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        self._index = index.reshape(-1)

    def sum(self, values: FloatArray) -> FloatArray:
        """Return the sums over each group, along the last axis."""
        order = np.argsort(self._index, kind="stable")
        starts = np.cumsum(self.size) - self.size
        return np.asarray(np.add.reduceat(values[..., order], starts, axis=-1))

    def spread(self, W: FloatArray) -> FloatArray:
        """Return the arms' weights from the groups'."""
        return np.asarray((W / self.size)[self._index])


def _into_box(z: FloatArray) -> FloatArray:
    """Shrink rows towards a constant, which keeps z_i = theta(z), until they are inside (0, 1)."""
    centre = np.clip(z.mean(axis=1, keepdims=True), 0.01, 0.99)
    room = np.where(z > centre, 1.0 - _EDGE - centre, centre - _EDGE)
    excess = (np.abs(z - centre) / room).max(axis=1, keepdims=True)
    return np.asarray(centre + (z - centre) / np.maximum(excess, 1.0))


def _bound(worlds: FloatArray) -> float:
    """Return 1 / max_W min_r <worlds_r, W>.

    By duality the maximum is the least, over mixtures p of worlds, of max_g (p @ worlds)_g, so the
    value at the solver's mixture is a bound however inexact the solver.
    """
    from scipy.optimize import linprog

    rows, arms = worlds.shape
    scale = worlds.max(axis=1).min()
    solution = linprog(
        np.append(np.zeros(arms), -1.0),
        A_ub=np.column_stack([-worlds / scale, np.ones(rows)]),
        b_ub=np.zeros(rows),
        A_eq=np.append(np.ones(arms), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * arms + [(None, None)],
    )
    p = np.maximum(-solution.ineqlin.marginals, 0.0)
    return float(p.sum() / (p @ worlds).max())


def _improve(W: FloatArray, worlds: FloatArray) -> FloatArray:
    """Return the best allocation against f_r(W') = 1 / sum_g G_rg / W'_g, matched to worlds at W.

    The form is the exact one to first order, has the right value and slope at W, and lies below the
    true <worlds_r, W'>, so that no world found so far is forgotten. With x_g = W_g / W'_g it is the
    program min sum_g W_g / x_g subject to G x <= 1: an interior-point method of Newton steps.
    """
    f = worlds @ W
    near = f <= _FAR * f.min()
    G = worlds[near] * W * f.min() / f[near, None] ** 2
    x = np.full(W.size, 0.5)
    tau = 1.0
    while True:
        x = _centre(G, W, x, tau)
        if near.sum() <= 1e-7 * tau * (W / x).sum():
            break
        tau *= 20.0
    return np.asarray((W / x) / (W / x).sum())


def _centre(G: FloatArray, W: FloatArray, x: FloatArray, tau: float) -> FloatArray:
    """Minimise tau sum_g W_g / x_g - sum_r log(1 - (G x)_r) by Newton steps in log x."""

    def value(x: FloatArray) -> float:
        slack = 1.0 - G @ x
        if slack.min() <= 0.0 or x.min() <= 0.0:
            return np.inf
        return float(tau * (W / x).sum() - np.log(slack).sum())

    for _ in range(50):
        S = G * x / (1.0 - G @ x)[:, None]
        gradient = S.sum(axis=0) - tau * W / x
        step = -np.linalg.solve(S.T @ S + np.diag(2.0 * tau * W / x), gradient)
        decrement = -float(gradient @ step)
        if decrement < 1e-6:
            break
        size, now = 1.0, value(x)
        while value(x * (1.0 + size * step)) > now - 0.1 * size * decrement and size > 1e-9:
            size *= 0.5
        x = x * (1.0 + size * step)
    return x
