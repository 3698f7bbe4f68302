"""Each component alone at the truth: how often it ever says what is false.

An e-process at the null reaches 1/alpha at any time with probability at most alpha, and a bound is
crossed at any time with at most what it costs. A check sees whole seeded runs and fails above the
exact binomial bound of `assert_error_rate`, with a false alarm of 1e-5 at a true rate of exactly
alpha; most components err far less. There are fewer than 500 checks, so that the module raises a
false alarm with probability below 5e-3, once and for all, as the seeds are fixed.

What the checks detect is in `test_power`: at alpha = 0.2 they fail nearly always where a component
crosses in 3 of 10 runs (single arms) or in half of them (streams). Numbers that lost their digits
cross every level, so evidence is checked at alpha = 0.02 too: there 6 of 100 runs are found out,
and 1 of 4 of a stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binom

from helpers import left_out
from oddarms.algorithms._spade_certificates import JointCertificate
from oddarms.problem import FloatArray
from oddarms.statistics.binomial import most_errors
from oddarms.statistics.directions import Tally, forecast
from oddarms.statistics.evidence import (
    degenerate_bound,
    log_beta_mixture,
    log_bets_below,
    log_mean_above,
    log_mean_below,
    log_normal_mixture,
    mean_interval,
    normal_mixture_boundary,
    psi_exponential,
    wide_mean_interval,
)
from oddarms.statistics.odd_even import OddEven
from oddarms.statistics.totals import Totals, scatter_of
from oddarms.statistics.true_direction import TrueDirection
from oddarms.testing import assert_error_rate
from oddarms.theory import threshold

ALPHA = 0.2
ALPHAS = (ALPHA, 0.02)  # what has lost its digits crosses every level
FALSE_ALARM = 1e-5
RUNS = 1500  # of single arms
STREAM_RUNS = 120
SWEEP_RUNS = 400

Rewards = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]


def check(wrong: int, runs: int, alpha: float = ALPHA) -> None:
    """Hold errors against alpha."""
    assert_error_rate(wrong, runs, alpha, FALSE_ALARM)


@pytest.mark.parametrize(
    ("runs", "alpha", "detected"),
    [
        (RUNS, 0.2, 0.3),
        (RUNS, 0.02, 0.06),
        (STREAM_RUNS, 0.2, 0.5),
        (STREAM_RUNS, 0.02, 0.25),
        (SWEEP_RUNS, 0.2, 0.37),
    ],
)
def test_power(runs: int, alpha: float, detected: float) -> None:
    """At the rates that the module promises to detect a check fails in 98 of 100 cases."""
    assert binom.sf(most_errors(runs, alpha, FALSE_ALARM), runs, detected) > 0.98


class Reward(NamedTuple):
    """A reward in [0, 1] and its mean."""

    mean: float
    draw: Rewards


REWARDS = {
    "coin": Reward(0.5, lambda rng, size: (rng.random(size) < 0.5) * 1.0),
    "rare ones": Reward(0.05, lambda rng, size: (rng.random(size) < 0.05) * 1.0),
    "rare zeros": Reward(0.95, lambda rng, size: (rng.random(size) < 0.95) * 1.0),
    "beta": Reward(0.3, lambda rng, size: rng.beta(6.0, 14.0, size)),
    "skewed": Reward(0.1, lambda rng, size: np.where(rng.random(size) < 0.05, 1.0, 1.0 / 19.0)),
    "nearly alike": Reward(0.3, lambda rng, size: 0.3 + 1e-7 * (rng.random(size) - 0.5)),
    "tiny": Reward(1e-8, lambda rng, size: rng.exponential(1e-8, size)),
    "tinier": Reward(1e-13, lambda rng, size: rng.exponential(1e-13, size)),
    "near 1": Reward(1.0 - 1e-8, lambda rng, size: 1.0 - rng.exponential(1e-8, size)),
    "nearer 1": Reward(1.0 - 1e-13, lambda rng, size: 1.0 - rng.exponential(1e-13, size)),
}
TIMES = np.unique(np.geomspace(1, 400, 36).astype(int))


class Paths(NamedTuple):
    """N, S and the scatter at `TIMES` in each of `RUNS` runs, as an algorithm gets them."""

    pulls: FloatArray
    total: FloatArray
    scatter: FloatArray

    def every(self, step: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return some of the times, one after another."""
        pulls, total, scatter = (part[:, ::step].ravel() for part in self)
        return pulls, total, scatter


@pytest.fixture(scope="module", params=REWARDS)
def arm(request: pytest.FixtureRequest) -> tuple[Reward, Paths]:
    """Return a reward and runs of an arm that gives it."""
    reward = REWARDS[request.param]
    x = reward.draw(np.random.default_rng([1, *request.param.encode()]), (RUNS, int(TIMES[-1])))
    total, squares = x.cumsum(1)[:, TIMES - 1], (x * x).cumsum(1)[:, TIMES - 1]
    pulls = np.broadcast_to(TIMES.astype(float), total.shape)
    return reward, Paths(pulls, total, scatter_of(pulls, total, squares))


class TestOneArm:
    def crossed(self, logs: FloatArray) -> None:
        for alpha in ALPHAS:
            check(int((logs >= -math.log(alpha)).any(axis=1).sum()), RUNS, alpha)

    def test_evidence_about_the_mean(self, arm: tuple[Reward, Paths]) -> None:
        reward, paths = arm
        level = np.full(paths.pulls.shape, reward.mean)
        self.crossed(log_beta_mixture(paths.pulls, paths.total, level))
        for function in (log_bets_below, log_mean_below, log_mean_above):
            self.crossed(function(*paths, level)[0])

    def test_intervals(self, arm: tuple[Reward, Paths]) -> None:
        reward, paths = arm
        tally = paths.every(3)
        for low, high in (
            mean_interval(*tally, ALPHA),
            wide_mean_interval(tally[0], tally[1], ALPHA),
        ):
            missed = ((low > reward.mean) | (high < reward.mean)).reshape(RUNS, -1).any(axis=1)
            check(int(missed.sum()), RUNS)

    def test_normal_mixture_and_its_boundary(self, arm: tuple[Reward, Paths]) -> None:
        reward, paths = arm
        for sign in (1.0, -1.0):
            S, V = sign * (paths.total - paths.pulls * reward.mean), paths.pulls / 4.0
            self.crossed(log_normal_mixture(S, V, 5.0))
            beyond = (normal_mixture_boundary(V, ALPHA, 5.0) < S).any(axis=1)
            check(int(beyond.sum()), RUNS)

    @pytest.mark.parametrize("bet", [0.1, 0.9])
    def test_seen_variance(self, arm: tuple[Reward, Paths], bet: float) -> None:
        reward, paths = arm
        psi = psi_exponential(np.array(bet))
        for centre in (0.0, reward.mean, 0.8):
            cost = psi * Tally(*paths).scatter_around(centre)
            gain = bet * (paths.total - paths.pulls * reward.mean)
            self.crossed(gain - cost)
            self.crossed(-gain - cost)


@pytest.mark.parametrize(("n", "m_odd", "m_even"), [(2, 1, 1), (5, 3, 3), (40, 2, 5)])
@pytest.mark.parametrize("p", [0.5, 0.1])
def test_degenerate_bound(n: int, m_odd: int, m_even: int, p: float) -> None:
    rng, runs = np.random.default_rng(2), 20_000
    odd = rng.binomial(m_odd, p, (runs, n)) / m_odd - p
    even = rng.binomial(m_even, p, (runs, n)) / m_even - p
    product = ((odd - odd.mean(axis=1, keepdims=True)) * even).sum(axis=1)
    beyond = np.abs(product) > degenerate_bound(n, m_odd, m_even, ALPHA / 2.0)
    check(int(beyond.sum()), runs)


class Arms(NamedTuple):
    """Means, and rewards with them; the first arm lies on the threshold of the others."""

    y: FloatArray
    k: float
    draw: Callable[[np.random.Generator, FloatArray, int], FloatArray]

    def pull(self, rng: np.random.Generator, pulls: FloatArray | int) -> Totals:
        """Return the totals of some pulls of each arm."""
        counts = np.broadcast_to(np.asarray(pulls, dtype=float), self.y.shape)
        x = self.draw(rng, self.y[:, None], int(counts.max()))
        x = np.where(np.arange(x.shape[1]) < counts[:, None], x, 0.0)
        return Totals(counts, x.sum(axis=1), (x * x).sum(axis=1))


def coins(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    return (rng.random((y.size, pulls)) < y) * 1.0


def quiet(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    return y + 0.02 * (rng.random((y.size, pulls)) - 0.5)


def exponential(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    return rng.exponential(1.0, (y.size, pulls)) * y


def below_one(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    return 1.0 - rng.exponential(1.0, (y.size, pulls)) * (1.0 - y)


def one_coin(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    rewards = np.repeat(y, pulls, axis=1)
    rewards[0] = rng.random(pulls) < y[0]
    return rewards


def on_threshold(others: list[float], k: float) -> FloatArray:
    """Return means of which the first is the threshold of the others."""
    rest = np.array(others)
    steep = 0.0 if rest.size == 1 else k / math.sqrt(1.0 - (1.0 + k * k) / (rest.size + 1))
    return np.array([rest.mean() + steep * rest.std(), *others])


NEARLY_ONE, NEARLY_TWO = 1.0 - 1e-6, 2.0 * (1.0 - 1e-9)
ARMS = {
    "coins": Arms(on_threshold([0.2, 0.25, 0.3, 0.4], 1.0), 1.0, coins),
    "low rate": Arms(on_threshold([0.01] * 6 + [0.05, 0.1], 1.5), 1.5, coins),
    "quiet": Arms(on_threshold([0.4, 0.42, 0.44, 0.5], 1.0), 1.0, quiet),
    "tiny": Arms(on_threshold([1e-9, 2e-9, 3e-9, 5e-9], 1.0), 1.0, exponential),
    "near 1": Arms(1.0 - 1e-9 * np.array([1.0, 2.0, 3.0, 5.0]), 0.5, below_one),
    "two arms, k near 1": Arms(np.array([0.4, 0.4]), NEARLY_ONE, coins),
    "two quiet arms, k near 1": Arms(np.array([0.4, 0.4]), NEARLY_ONE, quiet),
    "n just above 1 + k^2": Arms(np.full(5, 0.4), NEARLY_TWO, coins),
    "n just above 1 + k^2, others alike": Arms(np.full(5, 0.4), NEARLY_TWO, one_coin),
}
ROWS = 14


def rows(arms: Arms, rng: np.random.Generator) -> Iterator[tuple[JointCertificate, Tally]]:
    """Yield a certificate after every other row, and all pulls so far.

    In the manner of SPADE: later rows are weighted by what was seen, and the arm that leads is
    pulled in between.
    """
    n = arms.y.size
    certificate = JointCertificate(n, arms.k, 0.4, 0.0)
    totals = arms.pull(rng, 2)
    for row in range(ROWS):
        tally = Tally.seen(totals)
        guess, size, counts = forecast(tally), 1.0 + row // 3, np.full(n, 1.0)
        if row > 2:
            weights = certificate.row_weights(tally, guess)
            counts = np.maximum(1.0, np.round(size * weights))
        pulled = arms.pull(rng, counts)
        certificate.absorb_row(Tally.seen(pulled), size, guess)
        lead = 3.0 * (np.arange(n) == np.argmax(guess.mean))
        totals = totals.plus(pulled).plus(arms.pull(rng, lead))
        if row % 2:
            yield certificate, Tally.seen(totals)


@pytest.mark.parametrize("name", ARMS)
def test_streams_and_the_joint_evidence(name: str) -> None:
    """Evidence about the first arm's threshold, and about both ends of the common one.

    The lower streams alone; the upper evidence on the events that bound its costs; and the joint
    evidence for either verdict at an arm that lies on its threshold, where it is wrong.
    """
    arms = ARMS[name]
    k, first = arms.k, np.zeros(1, dtype=np.int64)
    alike = np.ptp(arms.y[1:]) == 0.0
    level = arms.y[:1] if alike else left_out(arms.y, k)[:1]
    theta = np.array([threshold(arms.y, k)])
    best = np.full((STREAM_RUNS, 5), -np.inf)  # log evidence for what is false
    below_theta = 0
    for run, rng in enumerate(np.random.default_rng(3).spawn(STREAM_RUNS)):
        missed = False
        for certificate, tally in rows(arms, rng):
            own, upper, mine = certificate.own, certificate.upper, tally.of(first)
            low = own.evidence(first, level)[0]
            upper.prepare(first, tally, own.bets[:1], own.rho)
            high = upper.evidence(level)[0]
            common = certificate.common.evidence(first, theta)[0]
            normal = low + log_mean_below(*mine, level)[0]
            outlier = high + log_mean_above(*mine, level)[0]
            seen = np.concatenate([low, common, normal, high, outlier])
            best[run] = np.maximum(best[run], seen)
            missed |= upper.bound(ALPHA) < theta[0] * (1.0 - 1e-12)
        assert certificate.common.bound(ALPHA) <= theta[0] or common[0] >= -math.log(ALPHA)
        below_theta += missed
    check(below_theta, STREAM_RUNS)
    on_events = certificate.upper.box_delta + 3.0 * certificate.upper.nuisance_delta
    for part, price in enumerate((0.0, 0.0, 0.0, on_events, on_events)):
        for alpha in ALPHAS:
            crossed = (best[:, part] >= -math.log(alpha)).sum()
            check(int(crossed), STREAM_RUNS, alpha + price)


SWEEPS = {
    "spread": Arms(np.linspace(0.2, 0.8, 20), 1.0, coins),
    "nearly equal": Arms(0.5 + np.linspace(-0.01, 0.01, 20), 3.0, coins),
    "low rate": Arms(np.array([0.01] * 28 + [0.1, 0.3]), 3.0, coins),
    "quiet": Arms(np.linspace(0.4, 0.6, 20), 2.0, quiet),
    "tiny": Arms(np.linspace(1e-9, 5e-9, 12), 1.0, exponential),
    "near 1": Arms(1.0 - np.linspace(1e-9, 5e-9, 12), 1.0, below_one),
    "two arms, k near 1": Arms(np.array([0.3, 0.6]), NEARLY_ONE, coins),
    "one far above": Arms(np.array([0.02] * 11 + [0.9]), 3.0, coins),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_odd_and_even_sweeps(name: str) -> None:
    """The interval of the threshold, which is intersected over time, and the bounds on sigma."""
    arms, price = SWEEPS[name], ALPHA / 5.0
    n, k = arms.y.size, arms.k
    theta, sigma = threshold(arms.y, k), float(arms.y.std())
    wrong = 0
    for rng in np.random.default_rng(4).spawn(SWEEP_RUNS):
        ends, missed = OddEven(n, k, end_delta=price, degenerate_delta=price), False
        for pair in range(12):
            size = 1 + pair // 2
            for _ in range(2):
                ends.absorb(size, arms.pull(rng, size).total)
            missed |= not ends.sigma[0] <= sigma <= ends.sigma[1]
        wrong += missed or not ends.low <= theta <= ends.high
    check(wrong, SWEEP_RUNS)


@pytest.mark.parametrize("name", SWEEPS)
def test_true_direction(name: str) -> None:
    """|<c*, e>| is rarely beyond its radius, at any time, where sigma is known."""
    arms, price = SWEEPS[name], ALPHA / 5.0
    y, k, runs = arms.y, arms.k, STREAM_RUNS
    sigma = float(y.std())
    c = (1.0 + k * (y - y.mean()) / sigma) / y.size
    wrong = 0
    for rng in np.random.default_rng(5).spawn(runs):
        stream = TrueDirection(y.size, k, alpha=price, box_delta=price, nuisance_delta=price)
        totals, missed = Totals.empty(y.size), False
        for row in range(8):
            centre: FloatArray | float = forecast(Tally.seen(totals)).centre if row else 0.5
            pulled = arms.pull(rng, 1 + row)
            stream.absorb(Tally.seen(pulled), 1.0 + row, centre)
            totals = totals.plus(pulled)
            radius = stream.radius(Tally.seen(totals), (sigma, sigma))
            missed |= abs(c @ (stream.total / stream.sweeps - y)) > radius
        wrong += missed
    check(wrong, runs)
