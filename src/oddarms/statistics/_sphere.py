"""Research form of the dual, compiled."""
import math
import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
def sphere(arms, y, k, weight, bets, values):
    n = y.size
    m = float(n - 1)
    out = np.empty((arms.size, bets.size))
    theta = np.empty(arms.size)
    t = np.empty(n)
    q = np.empty(n)
    for p in range(arms.size):
        i = arms[p]
        mean = (y.sum() - y[i]) / m
        var = 0.0
        for j in range(n):
            if j != i:
                var += (y[j] - mean) ** 2
        sd = math.sqrt(var / m)
        theta[p] = mean + k * sd
        for g in range(bets.size):
            l = bets[g]
            const = 0.0
            bad = False
            for j in range(n):
                v = values[g, j] / (m * m)
                if j != i:
                    const += v
                    if not v < 1e100:
                        bad = True
                q[j] = k * k * v
                t[j] = k * (l * weight * (y[j] - mean) / m + 2.0 * v)
            out[p, g] = 1e200 if bad else const + sphere_max(t, q, i, m) - l * weight * k * sd
    return out, theta


@njit(cache=True, error_model="numpy")
def sphere_max(t, q, skip, m):
    """Bound max sum t z + q z^2 over sum z = 0, sum z^2 = m (members j != skip)."""
    n = t.size
    top = 0.0
    mean = 0.0
    for j in range(n):
        if j != skip:
            top = max(top, q[j])
            mean += t[j]
    mean /= m
    energy = 0.0
    qbar = 0.0
    for j in range(n):
        if j != skip:
            e = (t[j] - mean) ** 2
            energy += e
            qbar += e * q[j]
    if energy <= 1e-280:
        return top * m
    spread = math.sqrt(energy / (4.0 * m))
    least = top * (1.0 + 1e-9) + 1e-6 * spread
    nu = max(qbar / energy + spread, least)
    best = 1e300
    for it in range(6):
        s0 = 0.0
        s1 = 0.0
        for j in range(n):
            if j != skip:
                inv = 1.0 / (nu - q[j])
                s0 += inv
                s1 += t[j] * inv
        tau = s1 / s0
        fit = 0.0
        d1 = 0.0
        d2 = 0.0
        for j in range(n):
            if j != skip:
                inv = 1.0 / (nu - q[j])
                e = (t[j] - tau) ** 2 * inv
                fit += e
                d1 += e * inv
                d2 += e * inv * inv
        value = fit / 4.0 + nu * m
        if value < best:
            best = value
        g = d1 / 4.0
        if abs(g - m) < 0.003 * m:
            break
        step = (1.0 / math.sqrt(g) - 1.0 / math.sqrt(m)) / (0.5 * g**-1.5 * (2.0 * d2 / 4.0))
        new = nu - step
        if not new >= least:
            new = 0.5 * (nu + least)
        nu = new
    return best
