"""The limit: hand-computed cases, convex-programming and brute-force oracles, invariances."""

from __future__ import annotations

import math

import cvxpy
import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import kl_div

from helpers import quick_and_long
from oddarms.errors import InvalidParameter
from oddarms.theory import (
    _alternatives,
    _exact,
    _first_order,
    first_order_program,
    lower_bound,
)


def theta(z, k):
    return z.mean(axis=-1) + k * z.std(axis=-1)


def k_of_others(k, n):
    return k / math.sqrt(1 - (1 + k * k) / n)


def crowd(normal, odd, seed):
    rng = np.random.default_rng(seed)
    return np.append(rng.normal(0.3, 0.075, normal).clip(0.02, 0.98), rng.uniform(0.7, 0.9, odd))


def variance_ratios(N, y, s2, k):
    """sum_j g_ij^2 s_j^2 / N_j over Delta_i^2 / 2, from the definition, for every arm i."""
    g = np.eye(y.size) - (1 + k * (y - y.mean()) / y.std()) / y.size
    noisy = s2 > 0
    return (g[:, noisy] ** 2 @ (s2[noisy] / N[noisy])) / ((y - theta(y, k)) ** 2 / 2)


def by_cvxpy(y, s2, k, undecided):
    g = np.eye(y.size) - (1 + k * (y - y.mean()) / y.std()) / y.size
    H = (y - theta(y, k)) ** 2 / 2
    noisy = s2 > 0
    unit = 1 / H[undecided].min()
    N = cvxpy.Variable(y.size)
    constraints = [N >= 0.0]
    constraints += [
        (g[i, noisy] ** 2 * s2[noisy] / (unit * H[i])) @ cvxpy.inv_pos(N[noisy]) <= 1
        for i in np.flatnonzero(undecided)
    ]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(N)), constraints)
    problem.solve(solver=cvxpy.CLARABEL)
    return problem.value * unit


def random_instance(rng):
    k = rng.choice([0.0, 0.5, 1.0, 2.0, 2.5, 3.0, -1.0, -2.0])
    n = int(1 + k * k) + int(rng.integers(2, 7))
    y = rng.random(n)
    if rng.random() < 0.4:  # one arm far out: c_i > 1/2
        y = 0.3 + 0.05 * rng.standard_normal(n)
        y[0] = 0.3 + math.copysign(0.5, k)
    s2 = rng.random(n)
    s2[rng.random(n) < 0.1] = 0.0
    return y, s2, k


# --- first order --------------------------------------------------------------------------------


def test_first_order_by_hand_without_spread():
    # k = 0, y = (0, 1, 5): theta = 2, gaps 2, 1, 3, c = (1, 1, 1)/3. Arm 1 binds:
    # minimise sum N with sum g_j^2/N_j <= 1/2, g = (-1, 2, -1)/3, so N_j = 2 |g_j| sum|g|,
    # sum|g| = 4/3: N = (8, 16, 8)/9. Arm 0: (4/9)/(8/9) + (1/9)/(16/9) + (1/9)/(8/9) = 11/16 <= 2.
    np.testing.assert_allclose(first_order_program([0, 1, 5], 1.0, 0), np.array([8, 16, 8]) / 9)


def test_first_order_by_hand_with_spread():
    # k = 1, y = (-1, 0, 1): sigma = sqrt(2/3), theta = sqrt(2/3), r = 1/sigma = sqrt(3/2),
    # c = (1 - r, 1, 1 + r)/3 and for arm 2 g = (r - 1, -1, 2 - r)/3, sum|g| = 2/3,
    # Delta_2 = 1 - sqrt(2/3): N_j = 2 |g_j| (2/3) / Delta_2^2, sum N = (8/9)/Delta_2^2 = 26.4.
    # c_2 = 0.74 > 1/2, so this is also the case D_2 < 0.
    r, gap = math.sqrt(1.5), 1 - math.sqrt(2 / 3)
    expected = np.array([r - 1, 1, 2 - r]) / 3 * (4 / 3) / gap**2
    N = first_order_program([-1, 0, 1], 1.0, 1)
    np.testing.assert_allclose(N, expected, rtol=1e-7)
    assert N.sum() == pytest.approx(8 / 9 / gap**2)


def test_only_the_threshold_is_uncertain():
    # Arm 1 is known exactly (s = 0) and the only one to settle: c_j = 1/3 for k = 0, so
    # (1/9)(1/N_0 + 1/N_2) <= Delta_1^2/2 = 1/2, N_0 = N_2 = 4/9.
    N = first_order_program([0, 1, 5], [1, 0, 1], 0, undecided=[False, True, False])
    np.testing.assert_allclose(N, [4 / 9, 0, 4 / 9], rtol=1e-7)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_first_order_agrees_with_a_convex_solver():
    rng = np.random.default_rng(11)
    steep = 0
    for _ in range(40):
        y, s2, k = random_instance(rng)
        undecided = np.ones(y.size, bool) if rng.random() < 0.6 else rng.random(y.size) < 0.5
        undecided[rng.integers(y.size)] = True
        N = first_order_program(y, s2, k, undecided=undecided)
        steep += bool((_first_order.threshold_gradient(y, k)[undecided] > 0.5).any())
        assert (variance_ratios(N, y, s2, k)[undecided] <= 1 + 1e-9).all()
        assert (N >= 0.0).all()
        # N is feasible, so it cannot be too small; the solver itself is a little above at times
        assert N.sum() <= by_cvxpy(y, s2, k, undecided) * (1 + 2e-5)
    assert steep >= 8  # the sample covers arms with 1 - 2 c_i < 0


def test_fewer_open_arms_less_noise_and_wider_gaps_cost_less():
    y = crowd(48, 2, 2)
    s2 = y * (1 - y)
    total = first_order_program(y, s2, 2).sum()
    assert first_order_program(y, 2 * s2, 2).sum() == pytest.approx(2 * total)
    gaps = 2 * np.abs(y - theta(y, 2))
    assert first_order_program(y, s2, 2, gaps=gaps).sum() == pytest.approx(total / 4)
    undecided = np.ones(y.size, bool)
    for arm in range(0, 48, 6):
        undecided[arm : arm + 6] = False
        fewer = first_order_program(y, s2, 2, undecided=undecided).sum()
        assert fewer <= total * (1 + 1e-9)
        total = fewer
    assert first_order_program(y, s2, 2, undecided=np.zeros(y.size, bool)).sum() == 0


def test_very_many_arms():
    n, rng = 100_000, np.random.default_rng(4)
    y = np.append(rng.normal(0.3, 0.075, n - n // 100).clip(0, 1), rng.random(n // 100))
    s2, c = y * (1 - y), _first_order.threshold_gradient(y, 3)
    N = first_order_program(y, s2, 3)
    Q = np.sum((c**2 * s2)[N > 0] / N[N > 0])
    own = np.divide(s2 * (1 - 2 * c), N, out=np.zeros(n), where=N > 0)
    assert ((Q + own) <= (y - theta(y, 3)) ** 2 / 2 * (1 + 1e-9)).all()


# --- the nearest other world --------------------------------------------------------------------


def nearest_by_search(y, a, k, i, rng):
    """Minimise over the other arms' means, z_i = m + k~ s, from many starting points."""
    others = np.delete(np.arange(y.size), i)
    k_out = k_of_others(k, y.size)

    def cost(z):
        own = z.mean() + k_out * z.std()
        return a[others] @ (z - y[others]) ** 2 + a[i] * (own - y[i]) ** 2

    starts = [y[others] + rng.normal(0, size, others.size) for size in (0.01, 0.3, 1, 1, 3, 3)]
    starts += [np.where(others == j, y[i], y[others]) for j in others]
    return min(minimize(cost, start, method="BFGS").fun for start in starts)


@pytest.mark.parametrize(
    ("n", "trials"), quick_and_long([(3, 4), (4, 4)], [(3, 12), (4, 12), (6, 12)])
)
def test_nearest_world_by_brute_force(n, trials):
    rng = np.random.default_rng(n)
    sides = set()
    for trial in range(trials):
        k = rng.choice([k for k in (0.0, 0.4, 1.0, 1.3, 2.0, -0.7, -1.2) if n > 1.05 + k * k])
        y = rng.normal(size=n)
        if trial % 3 == 0:  # identical arms: the hard case of the dual
            y[:] = 0.0
            y[0] = math.copysign(1.0, k)
        a = np.ones((n, n)) if trial % 2 else rng.random((n, n)) + 0.05
        z = _alternatives.nearest(y, a, k, np.arange(n))
        for i in range(n):
            assert z[i, i] == pytest.approx(theta(z[i], k), abs=1e-9)
            found, least = a[i] @ (z[i] - y) ** 2, nearest_by_search(y, a[i], k, i, rng)
            assert found <= least * (1 + 1e-5) + 1e-12
            assert found >= least * (1 - 1e-4) - 1e-12
            sides.add(bool(y[i] >= theta(y, k)))
    assert sides == {True, False}


def test_bernoulli_worlds_are_worlds():
    y = np.array([0.0, 0.02, 0.3, 0.4, 0.97, 1.0])
    arms = np.arange(y.size)
    for k in (1.5, -1.0):
        noise = _exact.Bernoulli(y, k)
        z = noise.nearest(np.full(y.size, 1 / 6), arms)
        assert ((z > 0) & (z < 1)).all()
        np.testing.assert_allclose(z[arms, arms], theta(z, k), atol=1e-12)
        assert np.isfinite(noise.costs(z)).all()


# --- the exact limit ----------------------------------------------------------------------------


def test_two_arms_by_hand():
    # n = 2, |k| < 1: the answer changes where both means meet, at cost w_0 w_1/(w_0 + w_1) * D^2/2,
    # best for w = (1/2, 1/2): 1/T = D^2/8. D = 2: T = 2.
    for method in ("exact", "first_order"):
        limit = lower_bound(
            [0.0, 2.0], k=0.5, delta=0.1, noise="gaussian", scale=1.0, method=method
        )
        assert limit.characteristic_time == pytest.approx(2.0, rel=1e-3)
        np.testing.assert_allclose(limit.allocation, 0.5, atol=0.02)


def test_first_order_is_exact_without_spread():
    rng = np.random.default_rng(5)
    y, s = rng.normal(size=7), rng.random(7) + 0.2
    T = [
        lower_bound(y, k=0, delta=0.1, noise="gaussian", scale=s, method=method)
        for method in ("exact", "first_order")
    ]
    assert T[0].characteristic_time == pytest.approx(T[1].characteristic_time, rel=1e-6)


def grid_limit(k, cost, axis):
    """T of all worlds on a grid of the other two means: at most T*, and near it for a fine grid."""
    rows = []
    for i in range(3):
        others = np.delete(np.arange(3), i)
        first, second = (g.ravel() for g in np.meshgrid(axis, axis))
        z = np.empty((first.size, 3))
        z[:, others[0]], z[:, others[1]] = first, second
        z[:, i] = z[:, others].mean(axis=1) + k_of_others(k, 3) * z[:, others].std(axis=1)
        with np.errstate(invalid="ignore"):
            d = cost(z)
        rows.append(d[np.isfinite(d).all(axis=1)])
    rows = np.vstack(rows)
    active = rows[np.argsort(rows.sum(axis=1))[:50]]
    for _ in range(100):
        program = linprog(
            [0, 0, 0, -1],
            A_ub=np.column_stack([-active, np.ones(len(active))]),
            b_ub=np.zeros(len(active)),
            A_eq=[[1, 1, 1, 0]],
            b_eq=[1],
            bounds=[(0, None)] * 3 + [(None, None)],
        )
        costs = rows @ program.x[:3]
        if costs.min() >= -program.fun * (1 - 1e-6):
            return -1 / program.fun
        active = np.vstack([active, rows[np.argsort(costs)[:20]]])
    raise AssertionError


@pytest.mark.parametrize(
    ("y", "k"),
    [
        pytest.param((0.1, 0.3, 0.9), 1.0, marks=pytest.mark.long),
        pytest.param((0.2, 0.5, 0.6), 0.6, marks=pytest.mark.long),
        ((0.2, 0.3, 0.8), -0.8),
    ],
)
def test_three_arms_by_brute_force(y, k):
    y, s = np.array(y), np.array([0.4, 0.3, 0.5])
    exact = lower_bound(y, k=k, delta=0.1, noise="gaussian", scale=s, method="exact")
    T = grid_limit(k, lambda z: (z - y) ** 2 / (2 * s**2), np.linspace(-0.5, 1.5, 401))
    assert exact.characteristic_time == pytest.approx(T, rel=0.01)
    assert exact.characteristic_time >= T * (1 - 1e-3)

    exact = lower_bound(y, k=k, delta=0.1, method="exact")
    T = grid_limit(
        k,
        lambda z: kl_div(y, z) + kl_div(1 - y, np.where(z < 1, 1 - z, np.nan)),
        np.linspace(0, 1, 402)[1:-1],
    )
    assert exact.characteristic_time == pytest.approx(T, rel=0.02)


def test_the_allocation_attains_the_limit():
    y, k, s = crowd(11, 1, 3), 2.0, np.full(12, 0.45)
    limit = lower_bound(y, k=k, delta=0.1, noise="gaussian", scale=s, method="exact")
    assert limit.allocation.sum() == pytest.approx(1.0)
    noise = _exact.Gaussian(y, k, s)
    costs = noise.costs(noise.nearest(limit.allocation, np.arange(12))) @ limit.allocation
    assert 1 / costs.min() == pytest.approx(limit.characteristic_time, rel=1e-3)
    assert 1 / costs.min() >= limit.characteristic_time * (1 - 1e-9)


def test_any_mixture_of_worlds_is_a_bound():
    rng = np.random.default_rng(6)
    worlds = rng.random((30, 5))
    T = _exact._bound(worlds)
    for w in rng.dirichlet(np.ones(5), 200):
        assert (worlds @ w).min() <= 1 / T * (1 + 1e-9)


@pytest.mark.parametrize("method", ["exact", "first_order"])
def test_invariances(method):
    y, k = crowd(8, 1, 7), 1.7
    s = 0.2 + 0.3 * np.random.default_rng(8).random(9)

    def limit(y, k, s):
        return lower_bound(y, k=k, delta=0.1, noise="gaussian", scale=s, method=method)

    base = limit(y, k, s)
    order = np.random.default_rng(9).permutation(9)
    tolerance = {"rel": 2e-3 if method == "exact" else 1e-9}
    for other in (limit(3 * y + 10, k, 3 * s), limit(y[order], k, s[order]), limit(-y, -k, s)):
        assert other.characteristic_time == pytest.approx(base.characteristic_time, **tolerance)
    assert limit(y, k, 2 * s).characteristic_time == pytest.approx(
        4 * base.characteristic_time, **tolerance
    )
    np.testing.assert_allclose(
        limit(y[order], k, s[order]).allocation, base.allocation[order], atol=0.02
    )


def test_exact_and_first_order_meet_as_the_gap_closes():
    y = np.random.default_rng(10).random(12)
    y[0] = theta(y, 1.0) + 0.3
    for nearness, most in ((0.5, 0.5), (0.05, 0.05), (0.005, 0.01)):
        z = y.copy()  # move arm 0 towards the threshold
        for _ in range(200):
            z[0] += (nearness * 0.1 - (z[0] - theta(z, 1.0))) * 0.5
        kwargs = {"k": 1.0, "delta": 0.1, "noise": "gaussian", "scale": 0.4}
        exact = lower_bound(z, method="exact", **kwargs).characteristic_time
        rough = lower_bound(z, method="first_order", **kwargs).characteristic_time
        assert rough == pytest.approx(exact, rel=most)


# --- the bound and its edges --------------------------------------------------------------------


def test_units():
    # kl(0.1, 0.9) = 0.1 log(1/9) + 0.9 log 9 = 0.8 log 9
    limit = lower_bound(crowd(48, 2, 0), k=2, delta=0.1)
    T = limit.characteristic_time
    assert limit.method == "first_order"
    assert not limit.strict
    assert limit.pulls == pytest.approx(0.8 * math.log(9) * T)
    y = crowd(48, 2, 0)
    assert first_order_program(y, y * (1 - y), 2).sum() == T


@pytest.mark.parametrize("method", quick_and_long(["first_order"], ["exact"]))
def test_pulls_grow_as_delta_falls(method):
    deltas = (0.7, 0.5, 0.1, 1e-9)
    pulls = [lower_bound([0.1, 0.3, 0.9], k=1, delta=d, method=method).pulls for d in deltas]
    assert pulls[:2] == [0.0, 0.0]
    assert pulls[1:] == sorted(pulls[1:])


@pytest.mark.parametrize("method", ["exact", "first_order"])
@pytest.mark.parametrize(("n", "k"), [(5, -2.0), (4, math.sqrt(3)), (2, 1.0), (9, 3.0)])
def test_nothing_to_find(n, k, method):
    y = np.random.default_rng(n).random(n)
    limit = lower_bound(y, k=k, delta=0.1, method=method)
    assert limit.pulls == limit.characteristic_time == 0.0
    np.testing.assert_allclose(limit.allocation, 1 / n)
    assert not first_order_program(y, 1.0, k).any()


@pytest.mark.parametrize("method", ["exact", "first_order"])
@pytest.mark.parametrize(
    ("y", "k"), [([0.25, 0.5, 0.75], 0.0), ([0.3] * 7, 1.0), ([0.3] * 7, -1.0)]
)
def test_an_arm_on_the_threshold(y, k, method):
    limit = lower_bound(y, k=k, delta=0.1, method=method)
    assert limit.pulls == limit.characteristic_time == math.inf
    assert limit.allocation.sum() == pytest.approx(1.0)
    assert np.isinf(first_order_program(y, 1.0, k)).all()


def test_known_rewards():
    y = [0.0, 0.0, 0.0, 0.0, 1.0]  # first order: no variance, no pulls; exact: pulls are needed
    rough = lower_bound(y, k=1, delta=0.1, method="first_order")
    exact = lower_bound(y, k=1, delta=0.1, method="exact")
    assert rough.characteristic_time == 0.0
    assert 0.1 < exact.characteristic_time < 10.0
    assert exact.strict


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"means": [0.1, 1.2, 0.3]}, r"means\[1\] is 1.2."),
        ({"noise": "cauchy"}, "noise must be 'bernoulli' or 'gaussian' but got 'cauchy'."),
        (
            {"noise": "gaussian"},
            "noise='gaussian' requires a scale, the standard deviation of a reward.",
        ),
        (
            {"noise": "gaussian", "scale": [1.0, 0.0, 1.0]},
            "scale must be positive and finite but got 0",
        ),
        ({"noise": "gaussian", "scale": [1.0, 2.0]}, "scale must be one number or 3 but got shape"),
        ({"scale": 1.0}, "noise='bernoulli' has no scale: leave out scale=1.0."),
        ({"method": "guess"}, "method must be 'auto', 'exact' or 'first_order' but got 'guess'."),
    ],
)
def test_errors_of_lower_bound(change, message):
    arguments = {"means": [0.1, 0.3, 0.9], "k": 1.0, "delta": 0.1} | change
    with pytest.raises(InvalidParameter, match=message):
        lower_bound(arguments.pop("means"), **arguments)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"variances": -1.0}, "variances must be finite and at least 0 but got -1.0."),
        ({"variances": [1.0, 1.0]}, "variances must be one number or 3 but got shape"),
        ({"gaps": [1.0, math.inf, 1.0]}, "gaps must be finite and at least 0 but got inf."),
        ({"undecided": [0, 1, 1]}, "undecided must be 3 truth values but got shape"),
    ],
)
def test_errors_of_the_program(words, message):
    with pytest.raises(InvalidParameter, match=message):
        first_order_program([0.1, 0.3, 0.9], **{"variances": 1.0, "k": 1.0, **words})
