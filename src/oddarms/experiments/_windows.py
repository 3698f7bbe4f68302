"""Uniform means whose smallest gap lies in a window, exactly and fast where the window is rare.

The law wanted is that of n independent uniform means y given Delta_min = min_i |y_i - theta| in
[low, high], with theta = mean + k * population sd. Drawing y until it fits (plain rejection) needs
1 / P(window) candidates: 4,100 for the rarest window of the ADE paper's Figure 2b, and hopelessly
many a little further out. Here rejection starts from a law that already leans towards the window.

Let k >= 0; the reflection 1 - y turns k into -k and keeps all gaps. The window is the disjoint
union of two events. For each, draw from a law of density q that satisfies 1 <= C q on the event,
and accept with probability 1 / (C q): what is accepted is uniform on the event, and a draw is
accepted with probability P(event) / C. So if either law is chosen with probability proportional to
its C, what is accepted is uniform on the union, and nothing is neglected. The expected number of
candidates is (C_above + C_between) / P(window); with plain rejection, C = 1.

Above: theta > max y.
    Given the maximum M and the arm that has it, the others are independent and uniform on [0, M].
    So y = M u, where u is 1 at a uniformly drawn arm and uniform elsewhere, and independent of M,
    whose cdf is F(m) = m^n. Let t be the threshold of u. As theta(y) = M t, Delta_min = M (t - 1):
    u is in the event with probability F(min(1, high / (t - 1))) - F(min(1, low / (t - 1))), and
    then M is drawn between those two points by inversion.

    As M <= 1, this probability is 0 unless t >= c = 1 + low. Let m and s be the mean of u and of
    u^2. As m <= c, t >= c means s >= g(m) = m^2 + ((c - m) / k)^2. So for any a, any b > 0 and
    e(x) = a x + b x^2, the sum S of e over all n entries of u satisfies

        S = n (a m + b s) >= n (a m + b g(m)) >= n floor,  floor = min_m a m + b g(m).

    Draw the n - 1 entries other than the 1 with density exp(e(x)) / Z on [0, 1] (an exponential
    tilt). Then 1 / q = Z^(n-1) exp(e(1) - S) is at most C_above = Z^(n-1) exp(e(1) - n floor), and
    1 / (C q) = exp(n floor - S). This holds for any a and b > 0. Those that minimize C_above, whose
    logarithm is convex in (a, b), are used: as {s >= g(m)} is convex, a half space loses little.

Between: theta < max y.
    As min y <= mean <= theta too, and no mean lies within low of theta, two neighbours among the
    sorted means are at least w = 2 low apart. That is so for a given one of the n - 1 pairs of
    neighbours with probability (1 - w)^n, and then moving the means above it down by w leaves n
    uniform means on [0, 1 - w]. Draw a pair uniformly and such means, and move them up again:
    q = D / C, where D is the number of pairs at least w apart and C_between = (n - 1) (1 - w)^n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import BoolArray, FloatArray, check_k, check_number, check_whole
from oddarms.theory import gaps

_MOST_CANDIDATES = 10_000_000
_WORTHWHILE = 0.25  # a tilted candidate costs about as much as three plain ones
_NUMBERS_PER_BATCH = 16_384
_FLATTEST, _STEEPEST = 0.001, 200.0


@dataclass(frozen=True)
class UniformMeans:
    """n means drawn uniformly from [0, 1], given that the smallest gap lies in a window.

    The instances follow the conditional law exactly, up to the rounding of floating point numbers:
    nothing is approximated or neglected. Windows above the typical gap take milliseconds even if
    one in 10^90 uniform instances fits; those below it are found by plain rejection.

    Parameters
    ----------
    n
        The number of means.
    k
        The k of the threshold theta = mean + k * standard deviation.
    smallest_gap
        The least and the greatest value of min_i |y_i - theta|, the latter possibly infinite; None
        for uniform means without a condition. Drawing raises `InvalidParameter` if 10 million
        candidates (2.5 million from a law that leans towards the window) do not hit it. A window of
        probability 2e-6 or more is missed so with probability below 1e-8.

    Examples
    --------
    >>> draw = UniformMeans(n=900, k=2, smallest_gap=(0.119, 0.121))
    >>> y = draw(np.random.default_rng(1))
    >>> bool(0.119 <= gaps(y, k=2).min() <= 0.121)
    True
    """

    n: int
    k: float
    smallest_gap: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_whole("n", self.n, least=2))
        object.__setattr__(self, "k", check_k(self.k))
        if self.smallest_gap is not None:
            window = _check_window(self.smallest_gap, self.n, abs(self.k))
            object.__setattr__(self, "smallest_gap", window)

    def __call__(self, rng: np.random.Generator) -> FloatArray:
        """Return the means of one random instance."""
        if self.smallest_gap is None:
            return rng.random(self.n)
        low, high = self.smallest_gap
        accepted = _accepted(_Window(self.n, abs(self.k), low, high), rng)
        sided = (y if self.k >= 0.0 else 1.0 - y for y in accepted)
        # By rounding, the very edges of the window may come out just beyond it.
        return next(y for y in sided if low <= gaps(y, self.k).min() <= high)


def _check_window(window: tuple[float, float], n: int, k: float) -> tuple[float, float]:
    """Return the window (low, high) if 0 <= low < high and low is not out of reach."""
    try:
        low, high = (check_number("smallest_gap", gap) for gap in window)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"smallest_gap must be two numbers (low, high) but got {window!r}."
        ) from None
    if not 0.0 <= low < high:
        raise InvalidParameter(
            f"smallest_gap must have 0 <= low < high but got ({low:g}, {high:g})."
        )
    greatest = max(0.5, _greatest_gap_above(n, k))
    if low >= greatest:
        raise InvalidParameter(
            f"smallest_gap must start below {greatest:.6g}, the greatest gap of {n} means in"
            f" [0, 1] with |k| = {k:g}, but got ({low:g}, {high:g})."
        )
    return low, high


@lru_cache
def _greatest_gap_above(n: int, k: float) -> float:
    """Return the greatest theta - max y of n means in [0, 1], or 0 if it is never positive.

    It is that of a u with entry 1, as Delta_min = M (t - 1). For k >= 0, t is convex in u, hence
    greatest where all entries are 0 or 1. A gap below max y is at most 1/2.
    """
    share = np.arange(1, n + 1) / n
    return max(0.0, float((share + k * np.sqrt(share * (1.0 - share)) - 1.0).max()))


@dataclass(frozen=True)
class _Window:
    """The condition low <= Delta_min <= high on n means, with k >= 0."""

    n: int
    k: float
    low: float
    high: float

    def holds(self, y: FloatArray) -> BoolArray:
        """Return for each row of y whether its smallest gap lies in the window."""
        smallest = np.abs(y - self.thresholds(y)[:, None]).min(axis=1)
        return np.asarray((self.low <= smallest) & (smallest <= self.high))

    def thresholds(self, y: FloatArray) -> FloatArray:
        """Return theta of each row."""
        return np.asarray(y.mean(axis=1) + self.k * y.std(axis=1))


@dataclass(frozen=True)
class _Tilt:
    """The density exp(a x + b x^2) / Z on [0, 1], and what it gives for means above.

    Attributes
    ----------
    a, b, floor
        As in the docstring of the module.
    log_normalizer, log_mass
        Logarithms of Z and of C_above; log_mass is minus infinity where the event is empty.
    """

    a: float
    b: float
    floor: float
    log_normalizer: float
    log_mass: float

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Return independent numbers of this density, by rejection from uniform ones."""
        peak = max(0.0, self.a + self.b)  # the exponent is convex, hence greatest at an end
        enough = 1.05 * math.exp(peak - self.log_normalizer)
        kept: list[FloatArray] = []
        missing = size
        while missing > 0:
            x = rng.random(int(enough * missing) + 64)
            x = x[rng.random(x.size) < np.exp((self.a + self.b * x) * x - peak)]
            kept.append(x[:missing])
            missing -= kept[-1].size
        return np.concatenate(kept)


def _accepted(window: _Window, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield independent means of the window's conditional law; raise if candidates rarely fit."""
    tilt = _best_tilt(window.n, window.k, window.low)
    log_between = _log_mass_between(window.n, window.low)
    leans = np.logaddexp(tilt.log_mass, log_between) < math.log(_WORTHWHILE)
    most = int(_MOST_CANDIDATES * (_WORTHWHILE if leans else 1.0))
    size = max(1, _NUMBERS_PER_BATCH // window.n)
    for _ in range(0, most, size):
        yield from _leaning(window, tilt, size, rng) if leans else _plain(window, size, rng)
    raise InvalidParameter(
        f"smallest_gap must be a window that uniform means hit but of {most:,} candidates with"
        f" n = {window.n} and |k| = {window.k:g} none fell into ({window.low:g}, {window.high:g})."
    )


def _plain(window: _Window, size: int, rng: np.random.Generator) -> FloatArray:
    """Return those of `size` rows of uniform means that fall into the window."""
    y = rng.random((size, window.n))
    return np.asarray(y[window.holds(y)])


def _leaning(window: _Window, tilt: _Tilt, size: int, rng: np.random.Generator) -> FloatArray:
    """Return the accepted ones among `size` rows drawn from the mixture of both laws."""
    from scipy.special import expit

    between = rng.random(size) < expit(_log_mass_between(window.n, window.low) - tilt.log_mass)
    y, accepted = np.empty((size, window.n)), np.empty(size, dtype=np.bool_)
    number = int(between.sum())
    if number < size:
        y[~between], accepted[~between] = _above(window, tilt, size - number, rng)
    if number > 0:
        y[between], accepted[between] = _between(window, number, rng)
    return np.asarray(y[accepted])


def _above(
    window: _Window, tilt: _Tilt, size: int, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Return rows of which the accepted ones are uniform means with theta > max y."""
    n, k, low, high = window.n, window.k, window.low, window.high
    u = np.ones((size, n))
    u[:, 1:] = tilt.draw(size * (n - 1), rng).reshape(size, n - 1)
    m, s = u.mean(axis=1), np.einsum("ij,ij->i", u, u) / n
    t = m + k * np.sqrt(np.maximum(s - m**2, 0.0))
    over_floor = np.maximum(n * (tilt.a * m + tilt.b * s - tilt.floor), 0.0)
    span = np.maximum(t - 1.0, low)  # makes the probability 0 where t < c
    log_F_high = n * np.log(np.minimum(high / span, 1.0))
    log_F_low = n * np.log(np.minimum(low / span, 1.0))
    minus_rest = np.expm1(log_F_low - log_F_high)
    accepted = rng.random(size) < np.exp(log_F_high - over_floor) * -minus_rest
    rows = np.flatnonzero(accepted)
    log_F = log_F_high[rows] + np.log1p(rng.random(rows.size) * minus_rest[rows])
    u[rows] *= np.exp(log_F / n)[:, None]
    arm = rng.integers(n, size=rows.size)
    u[rows, 0], u[rows, arm] = u[rows, arm], u[rows, 0]
    return u, accepted


def _between(window: _Window, size: int, rng: np.random.Generator) -> tuple[FloatArray, BoolArray]:
    """Return rows of which the accepted ones are uniform means with theta < max y."""
    n, width = window.n, 2.0 * window.low
    y = (1.0 - width) * rng.random((size, n))
    first_above = np.sort(y, axis=1)[np.arange(size), rng.integers(1, n, size=size)]
    y[y >= first_above[:, None]] += width
    pairs = (np.diff(np.sort(y, axis=1), axis=1) >= width).sum(axis=1)
    once = rng.random(size) * pairs < 1.0
    return y, once & window.holds(y) & (window.thresholds(y) < y.max(axis=1))


def _log_mass_between(n: int, low: float) -> float:
    """Return log C_between = log((n - 1) (1 - 2 low)^n)."""
    return math.log(n - 1) + n * math.log1p(-2.0 * low) if low < 0.5 else -math.inf


@lru_cache
def _best_tilt(n: int, k: float, low: float) -> _Tilt:
    """Return the tilt of the smallest C_above, up to rounding."""
    from scipy.optimize import minimize

    if low >= _greatest_gap_above(n, k):
        return _Tilt(0.0, 0.0, 0.0, 0.0, -math.inf)

    def log_mass(a_b: FloatArray) -> float:
        a, b = a_b.tolist()
        if b < _FLATTEST or abs(a) + b > _STEEPEST:  # steeper ones are slow to draw from
            return math.inf
        return _tilt(n, k, 1.0 + low, a, b).log_mass

    options = {"xatol": 1e-4, "fatol": 1e-4}
    best = minimize(log_mass, np.array([-1.0, 1.0]), method="Nelder-Mead", options=options).x
    # Any tilt is valid: rounded, it does not depend on the last digits of an optimizer.
    a, b = (round(float(x), 3) for x in best)
    return _tilt(n, k, 1.0 + low, a, max(b, _FLATTEST))


def _tilt(n: int, k: float, c: float, a: float, b: float) -> _Tilt:
    """Return the tilt exp(a x + b x^2) for means above with t >= c, for k > 0 and b > 0."""
    nodes, weights = _quadrature()
    peak = max(0.0, a + b)
    log_normalizer = peak + math.log(weights @ np.exp((a + b * nodes) * nodes - peak))
    m = (c / k / k - a / b / 2.0) / (1.0 + 1.0 / k / k)
    floor = a * m + b * (m**2 + ((c - m) / k) ** 2)
    return _Tilt(a, b, floor, log_normalizer, (n - 1) * log_normalizer + a + b - n * floor)


@lru_cache
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss and Legendre on [0, 1], exact to rounding for all tilts."""
    nodes, weights = np.polynomial.legendre.leggauss(128)
    return (nodes + 1.0) / 2.0, weights / 2.0
