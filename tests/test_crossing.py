"""Each component alone at the truth: how often it ever says what is false.

An e-process at the null reaches 1/alpha at any time with probability at most alpha, and a bound is
crossed at any time with at most what it costs. A check sees whole seeded runs and fails above the
exact binomial bound of `assert_error_rate`, with a false alarm of 5e-6 at a true rate of exactly
alpha; most components err far less. There are fewer than 1000 checks, so that the module raises a
false alarm with probability below 5e-3, once and for all, as the seeds are fixed.

What the checks detect is in `test_power`: at alpha = 0.2 they fail nearly always where a component
crosses in 3 of 10 runs (single arms) or in half of them (streams). Numbers that lost their digits
cross every level, so evidence is checked at alpha = 0.02 too: there 6 of 100 runs are found out,
and 1 of 4 of a stream. Streams of numbers where only digits can be lost have a third of the runs,
which is enough for that: 3 of 4 are found out, and 4 of 10 at alpha = 0.02; so have quiet rewards.
The long form has all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import binom

from helpers import quick_and_long
from oddarms.algorithms._spade_certificates import JointCertificate
from oddarms.algorithms._spade_joint import BOX_SHARE, MU_SHARE, largest_without_one
from oddarms.problem import FloatArray
from oddarms.rules import Sigma
from oddarms.statistics.binomial import most_errors
from oddarms.statistics.directions import (
    Tally,
    forecast,
    leave_one_out_k,
    scatter_around,
    tally_of,
    tally_seen,
)
from oddarms.statistics.evidence import (
    BETA_SHARE,
    degenerate_bound,
    log_bets,
    log_evidence,
    log_jeffreys,
    log_mean_above,
    log_mean_below,
    log_mix,
    mean_interval,
    normal_mixture_boundary,
    psi_exponential,
    sample_above,
    sample_below,
    wide_mean_interval,
)
from oddarms.statistics.sweeps import OddEven, TrueDirection
from oddarms.statistics.threshold_streams import (
    Lines,
    interval_of_mean,
    lower_bound,
    lower_lines,
    plug_in_lower_bound,
    upper_bound,
    upper_lines,
)
from oddarms.statistics.totals import Totals, scatter_of
from oddarms.testing import assert_error_rate
from oddarms.theory import threshold

ALPHA = 0.2
ALPHAS = (ALPHA, 0.02)  # what has lost its digits crosses every level
FALSE_ALARM = 5e-6
RUNS = 1500  # of single arms
STREAM_RUNS = 120
FEW_STREAM_RUNS = 40  # where digits may be lost
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
        (FEW_STREAM_RUNS, 0.2, 0.75),
        (FEW_STREAM_RUNS, 0.02, 0.4),
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

    def every(self, step: int = 1) -> tuple[FloatArray, FloatArray, FloatArray]:
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
            above = (logs >= -math.log(alpha)).reshape(RUNS, -1).any(axis=1)
            check(int(above.sum()), RUNS, alpha)

    @pytest.mark.parametrize("side", ["below", "above"])
    def test_evidence_about_the_mean(self, arm: tuple[Reward, Paths], side: str) -> None:
        """The bets, the Jeffreys mixture, and the two together."""
        reward, paths = arm
        room = np.full(paths.pulls.size, reward.mean if side == "above" else 1.0 - reward.mean)
        sample = (sample_above if side == "above" else sample_below)(*paths.every())
        bets = log_bets(sample, room)
        self.crossed(log_mix(bets, bets)[0] - math.log(1.0 - BETA_SHARE))
        self.crossed(log_jeffreys(sample, room))
        self.crossed(log_evidence(sample, room)[0])

    def test_intervals(self, arm: tuple[Reward, Paths]) -> None:
        reward, paths = arm
        tally = paths.every(3)
        for low, high in (
            mean_interval(*tally, ALPHA),
            wide_mean_interval(tally[0], tally[1], ALPHA),
        ):
            missed = ((low > reward.mean) | (high < reward.mean)).reshape(RUNS, -1).any(axis=1)
            check(int(missed.sum()), RUNS)

    def test_normal_mixture_boundary(self, arm: tuple[Reward, Paths]) -> None:
        reward, paths = arm
        for sign in (1.0, -1.0):
            S, V = sign * (paths.total - paths.pulls * reward.mean), paths.pulls / 4.0
            for alpha in ALPHAS:
                beyond = (normal_mixture_boundary(V, alpha, 5.0) < S).any(axis=1)
                check(int(beyond.sum()), RUNS, alpha)

    @pytest.mark.parametrize("bet", [0.1, 0.9])
    def test_seen_variance(self, arm: tuple[Reward, Paths], bet: float) -> None:
        reward, paths = arm
        psi = psi_exponential(np.array(bet))
        for centre in (0.0, reward.mean, 0.8):
            cost = psi * scatter_around(Tally(*paths), centre)
            gain = bet * (paths.total - paths.pulls * reward.mean)
            self.crossed(gain - cost)
            self.crossed(-gain - cost)


FAR_TIMES = np.unique(np.geomspace(1, 2**50, 60).astype(np.int64))


@pytest.mark.parametrize(
    ("p", "side"),
    quick_and_long(
        [(0.5, "below"), (0.05, "above"), (1e-6, "above")],
        [(0.5, "above"), (0.05, "below"), (1e-6, "below")],
    ),
)
def test_an_arm_pulled_as_often_as_any_search_may(p: float, side: str) -> None:
    """Log-gammas of 2^50 differ by units where their last digits are rounded."""
    rng = np.random.default_rng([6, int(1e6 * p)])
    steps = np.diff(FAR_TIMES, prepend=0)
    total = rng.binomial(steps, p, (RUNS, steps.size)).cumsum(1).astype(float).ravel()
    pulls = np.tile(FAR_TIMES.astype(float), RUNS)
    sample = (sample_above if side == "above" else sample_below)(
        pulls, total, scatter_of(pulls, total, total)
    )
    room = np.full(pulls.size, p if side == "above" else 1.0 - p)
    for logs in (log_jeffreys(sample, room), log_evidence(sample, room)[0]):
        TestOneArm().crossed(logs)
    low, high = mean_interval(pulls, total, scatter_of(pulls, total, total), ALPHA)
    missed = ((low > p) | (high < p)).reshape(RUNS, -1).any(axis=1)
    check(int(missed.sum()), RUNS)


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


def betas(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    return rng.beta(4.0 * y, 4.0 * (1.0 - y), (y.size, pulls))


def constant(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    del rng
    return np.repeat(y, pulls, axis=1)


def one_coin(rng: np.random.Generator, y: FloatArray, pulls: int) -> FloatArray:
    rewards = np.repeat(y, pulls, axis=1)
    rewards[0] = rng.random(pulls) < y[0]
    return rewards


def on_threshold(others: list[float], k: float) -> FloatArray:
    """Return means of which the first is the threshold of the others."""
    rest = np.array(others)
    return np.array([rest.mean() + leave_one_out_k(rest.size + 1, k) * rest.std(), *others])


NEARLY_ONE, NEARLY_TWO = 1.0 - 1e-6, 2.0 * (1.0 - 1e-9)
BELOW_ROOT_2, BELOW_ROOT_19 = math.sqrt(2.0) * (1.0 - 1e-3), math.sqrt(19.0) * (1.0 - 1e-3)
TINY_K, TINIER_K = 1e-9, 1e-18
MANY = [0.1 + 0.01 * arm for arm in range(19)]
NEARLY_ALIKE = [0.3 + 1e-4 * arm for arm in range(19)]
ARMS = {
    "coins": Arms(on_threshold([0.2, 0.25, 0.3, 0.4], 1.0), 1.0, coins),
    "quiet": Arms(on_threshold([0.4, 0.42, 0.44, 0.5], 1.0), 1.0, quiet),
    "tiny": Arms(on_threshold([1e-9, 2e-9, 3e-9, 5e-9], 1.0), 1.0, exponential),
    "near 1": Arms(1.0 - 1e-9 * np.array([1.0, 2.0, 3.0, 5.0]), 0.5, below_one),
    "two arms, k near 1": Arms(np.array([0.4, 0.4]), NEARLY_ONE, coins),
    "k below rounding": Arms(on_threshold([0.2, 0.3, 0.6], TINIER_K), TINIER_K, coins),
    "three arms, k near sqrt 2": Arms(on_threshold([0.2, 0.21], BELOW_ROOT_2), BELOW_ROOT_2, coins),
    "many beta arms": Arms(on_threshold(MANY, 2.0), 2.0, betas),
    "n just above 1 + k^2": Arms(np.full(5, 0.4), NEARLY_TWO, coins),
}
MORE_ARMS = {
    "low rate": Arms(on_threshold([0.01] * 6 + [0.05, 0.1], 1.5), 1.5, coins),
    "two quiet arms, k near 1": Arms(np.array([0.4, 0.4]), NEARLY_ONE, quiet),
    "three arms, tiny k": Arms(on_threshold([0.3, 0.6], TINY_K), TINY_K, coins),
    "many arms, steep k": Arms(on_threshold(NEARLY_ALIKE, BELOW_ROOT_19), BELOW_ROOT_19, coins),
    "n just above 1 + k^2, others alike": Arms(np.full(5, 0.4), NEARLY_TWO, one_coin),
    "two arms, tiny k": Arms(np.array([0.7, 0.7]), TINY_K, betas),
    "three constant arms": Arms(on_threshold([0.2, 0.4], 1.0), 1.0, constant),
    "many arms": Arms(on_threshold(MANY, 2.0), 2.0, coins),
    "many constant arms": Arms(on_threshold(MANY, 2.0), 2.0, constant),
    "many arms, tiny k": Arms(on_threshold(MANY, TINY_K), TINY_K, betas),
}
FAR = {
    "coins": Arms(on_threshold([0.2, 0.25, 0.3, 0.4], 1.0), 1.0, coins),
    "two": Arms(np.array([0.5, 0.5]), 0.0, coins),
    "low rate": Arms(on_threshold([1e-3, 2e-3, 4e-3], 0.5), 0.5, coins),
}
FAR_ROWS = 32
ROWS = 14
DELTA = 0.4  # of the certificates: what their events cost is a part of it


def rows(arms: Arms, rng: np.random.Generator) -> Iterator[tuple[JointCertificate, Tally]]:
    """Yield a certificate after every fourth row, and all pulls so far.

    In the manner of SPADE: later rows are weighted by what was seen, and the arm that leads is
    pulled in between.
    """
    n = arms.y.size
    certificate = JointCertificate(n, Sigma(k=arms.k), DELTA, 0.0)
    totals = arms.pull(rng, 2)
    for row in range(ROWS):
        tally = tally_seen(totals)
        guess, size, counts = forecast(tally), 1.0 + row // 3, np.full(n, 1.0)
        if row > 2:
            weights = certificate.row_weights(tally, guess)
            counts = np.maximum(1.0, np.round(size * weights))
        pulled = arms.pull(rng, counts)
        certificate.absorb_row(tally_seen(pulled), size, guess)
        lead = 3.0 * (np.arange(n) == np.argmax(guess.mean))
        totals = totals.plus(pulled).plus(arms.pull(rng, lead))
        if row % 4 == 1:
            yield certificate, tally_seen(totals)


def far_rows(arms: Arms, rng: np.random.Generator) -> Iterator[tuple[JointCertificate, Tally]]:
    """Yield a certificate after rows that triple, to about 2^50 pulls: 0/1 rewards."""
    n = arms.y.size
    certificate = JointCertificate(n, Sigma(k=arms.k), DELTA, 0.0)
    ones = rng.binomial(4, arms.y).astype(float)
    totals = Totals(np.full(n, 4.0), ones, ones)
    for row in range(FAR_ROWS):
        guess, size = forecast(tally_seen(totals)), min(3**row, 2**50 // (3 * n))
        ones = rng.binomial(size, arms.y).astype(float)
        pulled = Totals(np.full(n, float(size)), ones, ones)
        certificate.absorb_row(tally_seen(pulled), float(size), guess)
        totals = totals.plus(pulled)
        if row % 6 == 1:
            yield certificate, tally_seen(totals)


Rounds = Callable[[Arms, np.random.Generator], Iterator[tuple[JointCertificate, Tally]]]


def along_lines(lines: Lines, y: FloatArray) -> FloatArray:
    """Return the evidence against thresholds at y."""
    bets = lines.bets[:, None]
    return log_mix(bets * (lines.offset + lines.speed * y) - lines.costs, bets)[0]


def coefficients(y: FloatArray, k: float) -> FloatArray:
    """Return |c*| of the threshold without the first arm; any direction will do for equal means."""
    others, steep = y[1:], leave_one_out_k(y.size, k)
    sd = others.std()
    if np.ptp(others) == 0.0:
        return np.full(y.size, (1.0 + steep * math.sqrt(others.size - 1.0)) / others.size)
    return np.abs(1.0 + steep * (y - others.mean()) / sd) / others.size


def evidence_for_errors(arms: Arms, certificate: JointCertificate, tally: Tally) -> FloatArray:
    """Return log evidence for what is false: the first arm is on its threshold.

    The streams alone, where what they are told about mu and the arms is the truth; with what the
    certificate knows; and together with the arm's own evidence.
    """
    first, level = np.zeros(1, dtype=np.int64), arms.y[:1]
    mean, mine = float(arms.y.mean()), tally_of(tally, first)
    streams, k, box = certificate.rows, certificate.rules.others_k, certificate.standing.box
    mu = interval_of_mean(streams.mu, MU_SHARE * DELTA)
    largest = largest_without_one(box, k, first, mu)
    exact = coefficients(arms.y, arms.k), (arms.y, arms.y)
    low = along_lines(lower_lines(streams.lower, first, 0.0, mu), level)
    high = along_lines(upper_lines(streams.upper, k, first, 0.0, largest, box), level)
    found: FloatArray = np.concatenate(
        [
            along_lines(lower_lines(streams.lower, first, 0.0, (mean, mean)), level),
            along_lines(upper_lines(streams.upper, k, first, 0.0, *exact), level),
            low,
            low + log_mean_below(*mine, level)[0],
            high,
            high + log_mean_above(*mine, level)[0],
        ]
    )
    return found


MU_PRICE, ALL_PRICES = 2.0 * MU_SHARE * DELTA, (BOX_SHARE + 2.0 * MU_SHARE) * DELTA
PRICES = (0.0, 0.0, MU_PRICE, MU_PRICE, ALL_PRICES, ALL_PRICES)


def wrong_bounds(arms: Arms, certificate: JointCertificate) -> FloatArray:
    """Return whether bounds on mu and theta are wrong, for each alpha, where mu is known."""
    mean, theta = float(arms.y.mean()), threshold(arms.y, arms.k)
    wrong = []
    for alpha in ALPHAS:
        low, high = interval_of_mean(certificate.rows.mu, alpha)
        least = lower_bound(certificate.rows.lower, certificate.rules.k, alpha, (mean, mean))
        most = upper_bound(certificate.rows.upper, certificate.rules.k, alpha)
        plug_in = plug_in_lower_bound(certificate.rows.upper, certificate.rules.k, 0.5 * alpha)
        wrong.append([low > mean, high < mean, least > theta, plug_in > theta, most < theta])
    return np.array(wrong, dtype=float)


def check_streams(arms: Arms, rows: Rounds = rows, runs: int = STREAM_RUNS) -> None:
    """Check evidence about the first arm's threshold, and about both ends of the common one."""
    best = np.full((runs, len(PRICES)), -np.inf)
    wrong = np.zeros((runs, len(ALPHAS), 5))
    for run, rng in enumerate(np.random.default_rng(3).spawn(runs)):
        for certificate, tally in rows(arms, rng):
            certificate.look(tally)
            best[run] = np.maximum(best[run], evidence_for_errors(arms, certificate, tally))
            wrong[run] = np.maximum(wrong[run], wrong_bounds(arms, certificate))
    for place, alpha in enumerate(ALPHAS):
        for part, price in enumerate(PRICES):
            crossed = (best[:, part] >= -math.log(alpha)).sum()
            check(int(crossed), runs, alpha + price)
        for missed in wrong[:, place].sum(axis=0):
            check(int(missed), runs, alpha)


def few_unless(names: Iterable[str], whole: set[str]) -> list[Any]:
    """Return names with their runs; all runs of those that are not whole take long."""
    quick = [(name, STREAM_RUNS if name in whole else FEW_STREAM_RUNS) for name in names]
    others = [name for name in names if name not in whole]
    return quick_and_long(quick, [(name, STREAM_RUNS) for name in others])


@pytest.mark.parametrize(("name", "runs"), few_unless(ARMS, {"coins", "many beta arms"}))
def test_streams_and_the_joint_evidence(name: str, runs: int) -> None:
    check_streams(ARMS[name], runs=runs)


@pytest.mark.parametrize(
    ("name", "runs"),
    quick_and_long([("coins", FEW_STREAM_RUNS)], [(name, STREAM_RUNS) for name in FAR]),
)
def test_streams_of_as_many_pulls_as_any_search_may_have(name: str, runs: int) -> None:
    check_streams(FAR[name], far_rows, runs)


@pytest.mark.long
@pytest.mark.parametrize("name", MORE_ARMS)
def test_streams_of_more_arms(name: str) -> None:
    check_streams(MORE_ARMS[name])


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


@pytest.mark.parametrize(
    ("name", "runs"),
    quick_and_long(
        [(name, SWEEP_RUNS if name in ("spread", "low rate") else STREAM_RUNS) for name in SWEEPS],
        [(name, SWEEP_RUNS) for name in SWEEPS if name not in ("spread", "low rate")],
    ),
)
def test_odd_and_even_sweeps(name: str, runs: int) -> None:
    """The interval of the threshold, which is intersected over time, and the bounds on sigma.

    400 runs find a rate of 0.37, and 120 one of 0.5.
    """
    arms, price = SWEEPS[name], ALPHA / 5.0
    n, k = arms.y.size, arms.k
    theta, sigma = threshold(arms.y, k), float(arms.y.std())
    wrong = 0
    for rng in np.random.default_rng(4).spawn(runs):
        ends, missed = OddEven(n, k, end_delta=price, degenerate_delta=price), False
        for pair in range(12):
            size = 1 + pair // 2
            for _ in range(2):
                ends.absorb(size, arms.pull(rng, size).total)
            missed |= not ends.sigma[0] <= sigma <= ends.sigma[1]
        wrong += missed or not ends.low <= theta <= ends.high
    check(wrong, runs)


@pytest.mark.parametrize(("name", "runs"), few_unless(SWEEPS, {"spread", "low rate"}))
def test_true_direction(name: str, runs: int) -> None:
    """|<c*, e>| is rarely beyond its radius, at any time, where sigma is known."""
    arms, price = SWEEPS[name], ALPHA / 5.0
    y, k = arms.y, arms.k
    sigma = float(y.std())
    c = (1.0 + k * (y - y.mean()) / sigma) / y.size
    wrong = 0
    for rng in np.random.default_rng(5).spawn(runs):
        stream = TrueDirection(y.size, k, alpha=price, nuisance_delta=price)
        totals, missed = Totals.empty(y.size), False
        for row in range(8):
            centre: FloatArray | float = forecast(tally_seen(totals)).centre if row else 0.5
            pulled = arms.pull(rng, 1 + row)
            stream.absorb(tally_seen(pulled), 1.0 + row, centre)
            totals = totals.plus(pulled)
            box = wide_mean_interval(totals.pulls, totals.total, price / y.size)
            radius = stream.radius(box, (sigma, sigma))
            missed |= abs(c @ (stream.total / stream.sweeps - y)) > radius
        wrong += missed
    check(wrong, runs)
