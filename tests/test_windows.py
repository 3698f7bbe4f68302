"""Uniform means given a window for the smallest gap: exact laws, rare windows, errors."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from oddarms.errors import InvalidParameter
from oddarms.experiments import _windows
from oddarms.experiments._windows import UniformMeans
from oddarms.problem import FloatArray
from oddarms.theory import gaps

FALSE_ALARM = 1e-6
"""The probability with which one test of this module fails although the laws are the same."""

INSTANCES = 1000
NUMBERS_PER_BATCH = 20_000

COMMON = [(900, 2.0, (0.059, 0.061)), (100, 2.5, (0.1, 0.2)), (5, 1.0, (0.0, 0.05))]
RARE = [
    (900, 2.0, (0.119, 0.121)),
    (900, 2.0, (0.139, 0.141)),
    (900, -2.0, (0.139, 0.1391)),
    (900, 2.0, (0.3, math.inf)),  # one uniform instance in 10^92
    (10_000, 2.0, (0.139, 0.141)),
    (300, 0.0, (0.1, 0.2)),
]
COMPARED = [  # (n, k, window), of probability 1e-3 to 1e-2
    (100, 2.0, (0.19, 0.25)),
    (60, -2.5, (0.36, 0.5)),
    (10, 2.0, (0.35, 0.37)),
    (10, 1.5, (0.2, 0.3)),  # theta lies below max y in 7 of 10
    (8, 1.5, (0.22, math.inf)),
    (12, 1.0, (0.15, 0.2)),  # theta lies below max y always
]
MANY_WIDE_SPACINGS = [(4, 0.0, (0.1, 0.2)), (3, 0.5, (0.05, 0.1))]

FUNCTIONALS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "smallest gap": lambda y, k: np.abs(y - theta(y, k)[:, None]).min(axis=1),
    "theta": lambda y, k: theta(y, k),
    "theta - max": lambda y, k: theta(y, k) - y.max(axis=1),
    "mean": lambda y, _: y.mean(axis=1),
    "sd": lambda y, _: y.std(axis=1),
    "max": lambda y, _: y.max(axis=1),
    "second largest": lambda y, _: np.sort(y, axis=1)[:, -2],
    "widest spacing": lambda y, _: np.diff(np.sort(y, axis=1), axis=1).max(axis=1),
    "first arm": lambda y, _: y[:, 0],
    "last arm": lambda y, _: y[:, -1],
}


def theta(y: FloatArray, k: float) -> FloatArray:
    return np.asarray(y.mean(axis=1) + k * y.std(axis=1))


def hits(y: FloatArray, k: float, window: tuple[float, float]) -> FloatArray:
    smallest = np.abs(y - theta(y, k)[:, None]).min(axis=1)
    return y[(window[0] <= smallest) & (smallest <= window[1])]


def collect(batch: Callable[[], FloatArray], instances: int) -> tuple[FloatArray, int]:
    """Return at least so many rows from batches, and how many batches they took."""
    batches = [batch()]
    while sum(map(len, batches)) < instances:
        batches.append(batch())
    return np.concatenate(batches), len(batches)


def plain_rejection(
    n: int, k: float, window: tuple[float, float], rng: np.random.Generator, instances: int
) -> tuple[FloatArray, int]:
    return collect(lambda: hits(rng.random((NUMBERS_PER_BATCH // n, n)), k, window), instances)


@pytest.mark.parametrize(("n", "k", "window"), COMMON + RARE)
def test_window_holds(n: int, k: float, window: tuple[float, float]) -> None:
    rng = np.random.default_rng(11)
    for _ in range(3):
        y = UniformMeans(n, k, window)(rng)
        assert y.shape == (n,)
        assert 0.0 <= y.min() <= y.max() <= 1.0
        assert window[0] <= gaps(y, k).min() <= window[1]


def assert_same_law(found: FloatArray, expected: FloatArray, k: float, part: float) -> None:
    for name, functional in FUNCTIONALS.items():
        same = stats.ks_2samp(functional(found, k), functional(expected, k), method="asymp")
        assert same.pvalue > part, name


@pytest.mark.parametrize(("n", "k", "window"), COMPARED)
def test_same_law_as_plain_rejection(n: int, k: float, window: tuple[float, float]) -> None:
    """Each functional and the place of the maximum get an equal part of the false alarms."""
    part = FALSE_ALARM / (len(FUNCTIONALS) + 1)
    rng = np.random.default_rng(12)
    draw = UniformMeans(n, k, window)
    found = np.array([draw(rng) for _ in range(INSTANCES)])
    expected, _ = plain_rejection(n, k, window, rng, INSTANCES)
    assert_same_law(found, expected, k, part)
    first_half = int((found.argmax(axis=1) < n // 2).sum())
    assert stats.binomtest(first_half, INSTANCES, (n // 2) / n).pvalue > part


@pytest.mark.parametrize(("n", "k", "window"), COMPARED[2:] + MANY_WIDE_SPACINGS)
def test_mixture_accepts_with_probability_of_window_over_mass(
    n: int, k: float, window: tuple[float, float]
) -> None:
    """Against the rate of plain rejection; the logarithm of their ratio is nearly normal.

    It and each functional get an equal part of the false alarms.
    """
    part = FALSE_ALARM / (len(FUNCTIONALS) + 1)
    rng = np.random.default_rng(13)
    tilt = _windows._best_tilt(n, k, window[0])
    mass = math.exp(tilt.log_mass) + math.exp(_windows._log_mass_between(n, window[0]))
    rare = mass < _windows._WORTHWHILE
    assert rare == ((n, k, window) in COMPARED)
    instances = INSTANCES if rare else 40 * INSTANCES
    condition, size = _windows._Window(n, k, *window), NUMBERS_PER_BATCH // n
    tilted, batches = collect(lambda: _windows._leaning(condition, tilt, size, rng), instances)
    expected, plain_batches = plain_rejection(n, k, window, rng, instances)
    log_ratio = math.log(mass * (len(tilted) / batches) / (len(expected) / plain_batches))
    error = math.sqrt(1.0 / len(tilted) + 1.0 / len(expected))
    assert abs(log_ratio) < stats.norm.isf(part / 2.0) * error
    assert_same_law(tilted, expected, k, part)


def test_unconditioned_means_are_uniform() -> None:
    y = np.concatenate([UniformMeans(10, 2.0)(np.random.default_rng(seed)) for seed in range(200)])
    assert stats.kstest(y, "uniform").pvalue > FALSE_ALARM


def test_floor_by_hand() -> None:
    """c = 1.1, k = 2, a = -0.7, b = 1: g(m) = m^2 + (1.1 - m)^2 / 4.

    -0.7 m + g(m) has the derivative -0.7 + 2 m - (1.1 - m) / 2 = 2.5 m - 1.25, so m = 1/2 and
    floor = -0.35 + 0.25 + 0.09 = -0.01. The means 0.2 and 0.8 have m = 1/2, sd = 0.3 and
    t = 0.5 + 2 * 0.3 = 1.1 = c, so S = 2 floor: -0.7 * 1 + 0.04 + 0.64 = -0.02.
    """
    assert _windows._tilt(2, 2.0, 1.1, -0.7, 1.0).floor == pytest.approx(-0.01)


@pytest.mark.parametrize(("n", "k", "c"), [(4, 2.0, 1.1), (7, 1.5, 1.02), (3, 3.0, 1.7)])
def test_sum_stays_above_floor(n: int, k: float, c: float) -> None:
    rng = np.random.default_rng(13)
    u = rng.beta(0.3, 0.3, (20_000, n))
    u = u[theta(u, k) >= c]
    assert len(u) > 100
    for a, b in rng.uniform([-10.0, 0.001], 10.0, (50, 2)):
        smallest = (a * u + b * u**2).sum(axis=1).min()
        assert smallest >= n * _windows._tilt(n, k, c, a, b).floor - 1e-9


@pytest.mark.parametrize(("a", "b"), [(-0.7, 1.0), (-99.0, 101.0), (-199.0, 1.0), (150.0, 50.0)])
def test_normalizer_and_draws_of_tilt(a: float, b: float) -> None:
    """Against adaptive quadrature, which knows where the mass is: close to the ends."""
    from scipy.integrate import quad

    def cdf(x: float) -> float:
        peak = max(0.0, a + b)
        near_ends = [p for p in (0.01, 0.1, 0.9, 0.99) if p < x]
        return float(
            quad(lambda z: math.exp(a * z + b * z * z - peak), 0.0, x, points=near_ends)[0]
        )

    tilt = _windows._tilt(5, 2.0, 1.1, a, b)
    assert tilt.log_normalizer == pytest.approx(math.log(cdf(1.0)) + max(0.0, a + b), abs=1e-12)
    draws = tilt.draw(300, np.random.default_rng(14))
    assert draws.shape == (300,)
    uniform = [cdf(x) / cdf(1.0) for x in draws]
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM


def test_best_tilt_is_a_minimum() -> None:
    n, k, low = 900, 2.0, 0.119
    best = _windows._best_tilt(n, k, low)
    for a in (-0.02, 0.0, 0.02):
        for b in (-0.02, 0.0, 0.02):
            other = _windows._tilt(n, k, 1.0 + low, best.a + a, best.b + b)
            assert other.log_mass >= best.log_mass - 1e-3


def test_same_seed_same_instance_here_and_after_pickling() -> None:
    draw = UniformMeans(200, 2.0, (0.16, 0.17))
    shipped = pickle.loads(pickle.dumps(draw))
    assert shipped == draw
    assert hash(shipped) == hash(draw) == hash(UniformMeans(200, 2, [0.16, 0.17]))  # type: ignore[arg-type]
    first = draw(np.random.default_rng(15))
    assert np.array_equal(first, shipped(np.random.default_rng(15)))
    assert not np.array_equal(first, draw(np.random.default_rng(16)))


@pytest.mark.parametrize(
    ("n", "k", "window", "message"),
    [
        (1, 2.0, None, "n must be a whole number of at least 2 but got 1"),
        (10, math.nan, None, "k must be a finite number but got nan"),
        (10, 2.0, (0.2, 0.1), r"smallest_gap must have 0 <= low < high but got \(0.2, 0.1\)"),
        (10, 2.0, (-0.1, 0.1), "smallest_gap must have 0 <= low < high"),
        (10, 2.0, (0.1, math.nan), "smallest_gap must have 0 <= low < high"),
        (10, 2.0, 0.1, r"smallest_gap must be two numbers \(low, high\) but got 0.1"),
        (10, 2.0, ("0.1", 0.2), "smallest_gap must be two numbers"),
        (10, 2.0, (0.1, 0.2, 0.3), "smallest_gap must be two numbers"),
        (10, 1.0, (0.5, 0.6), "smallest_gap must start below 0.5, the greatest gap of 10 means"),
    ],
)
def test_invalid_parameters(n: int, k: float, window: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        UniformMeans(n, k, window)  # type: ignore[arg-type]


def test_greatest_gap_by_hand() -> None:
    """Of 4 means with k = 3, the vertex 0, 0, 1, 1 has theta = 1/2 + 3/2 = 2, a gap of 1.

    The vertices with one and three ones have theta = 1/4 + 3 sqrt(3)/4 = 1.549 and 2.049: the
    greatest gap is 3/4 + 3 sqrt(3)/4 - 1 = 1.049.
    """
    assert UniformMeans(4, 3.0, (1.048, 1.1)).smallest_gap == (1.048, 1.1)
    with pytest.raises(InvalidParameter, match=r"must start below 1\.04904"):
        UniformMeans(4, -3.0, (1.05, 1.1))


@pytest.mark.parametrize(("window", "candidates"), [((0.1, 0.2), "20,000"), ((0.3, 0.4), "5,000")])
def test_window_without_instances_ends_in_an_error(
    window: tuple[float, float], candidates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two means with k = 1 have theta = max y, hence no gap at all."""
    monkeypatch.setattr(_windows, "_MOST_CANDIDATES", 20_000)
    with pytest.raises(InvalidParameter, match=f"of {candidates} candidates with n = 2 and"):
        UniformMeans(2, 1.0, window)(np.random.default_rng(17))
