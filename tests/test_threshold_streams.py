"""The evidence about the threshold from rows of pulls, and the parts it is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from helpers import left_out
from oddarms.algorithms._spade_certificates import JointCertificate
from oddarms.algorithms._spade_joint import Rows, empty_rows, largest_without_one, rows_with
from oddarms.problem import FloatArray, IntArray
from oddarms.rules import Sigma
from oddarms.statistics.direction_box import (
    direction_box,
    knapsack,
    largest_coefficients,
    smallest_sd,
)
from oddarms.statistics.directions import (
    Forecast,
    Tally,
    forecast,
    leave_one_out_k,
    tally_seen,
)
from oddarms.statistics.evidence import log_mix, normal_mixture_boundary
from oddarms.statistics.threshold_streams import (
    HORIZONS,
    LAST_PRICED,
    LOG_SHARES,
    PRICED,
    TIMES_LAST,
    Lines,
    bennett_factor,
    bet_cost,
    bets_around,
    bets_for,
    fan_factor,
    interval_of_mean,
    lower_bound,
    lower_lines,
    no_plug_in_rows,
    upper_bound,
    upper_lines,
)
from oddarms.statistics.totals import Totals
from oddarms.theory import threshold

NATS = 6.0


def along_lines(lines: Lines, y: FloatArray) -> FloatArray:
    """Return the evidence against thresholds at y."""
    bets = lines.bets[:, None]
    return log_mix(bets * (lines.offset + lines.speed * y) - lines.costs, bets)[0]


class TestParts:
    def test_knapsack_is_the_linear_program(self) -> None:
        rng = np.random.default_rng(7)
        for _ in range(40):
            low = rng.uniform(0.0, 0.3, 6)
            high, value = low + rng.uniform(0.0, 0.5, 6), rng.random(6)
            budget = float(rng.uniform(low.sum(), high.sum()))
            found = knapsack(low, high, value, budget)
            program = linprog(
                -value,
                A_eq=np.ones((1, 6)),
                b_eq=[budget],
                bounds=list(zip(low, high, strict=True)),
            )
            assert found == pytest.approx(-program.fun, abs=1e-9)

    def test_smallest_sd_is_below_every_sd_and_tight(self) -> None:
        rng = np.random.default_rng(8)
        for _ in range(40):
            n = int(rng.integers(3, 9))
            low = rng.random(n)
            high = np.minimum(low + rng.uniform(0.0, 0.4, n), 1.0)
            member = np.ones(n)
            member[rng.integers(n)] = 0.0
            chosen = member > 0
            bound = smallest_sd(low, high, member[None])[0]
            for _ in range(30):
                assert bound <= rng.uniform(low, high)[chosen].std() + 1e-9
            box = list(zip(low[chosen], high[chosen], strict=True))
            best = minimize(np.var, 0.5 * (low + high)[chosen], bounds=box, method="L-BFGS-B")
            assert bound == pytest.approx(math.sqrt(best.fun), abs=2e-3)
            assert bound <= math.sqrt(best.fun) + 1e-6

    @pytest.mark.parametrize("k", [0.0, 1.0, 2.0])
    def test_the_box_holds_the_true_coefficients(self, k: float) -> None:
        rng = np.random.default_rng(20)
        for _ in range(50):
            n, width = int(rng.integers(6, 12)), rng.uniform(0.0, 0.2)
            y = rng.random(n)
            low, high = np.maximum(y - width, 0.0), np.minimum(y + width * rng.random(n), 1.0)
            slack = width * rng.random()
            sigma = float(smallest_sd(low, high, np.ones((1, n)))[0]), y.std() + slack
            mu = y.mean() - slack, y.mean() + slack
            smallest, largest = direction_box(low, high, k, mu, sigma)
            c = (1.0 + k * (y - y.mean()) / y.std()) / n
            assert (smallest <= np.abs(c) + 1e-12).all()
            assert (np.abs(c) <= largest + 1e-12).all()
            value = rng.random(n)
            most = knapsack(smallest**2, largest**2, value, float(c @ c))
            assert c**2 @ value <= most + 1e-12

    def test_bennett_factor(self) -> None:
        s = np.linspace(1e-3, 29.0, 500)
        factor = bennett_factor(s)
        np.testing.assert_allclose(factor, 2.0 * (np.exp(s) - 1.0 - s) / s**2, rtol=1e-6)
        assert bennett_factor(np.zeros(1))[0] >= 1.0
        assert (np.diff(factor) > 0).all()
        assert np.isinf(bennett_factor(np.array([31.0]))).all()
        # log E exp(s (X - p)) <= p (1 - p) s^2/2 * factor, exactly for 0/1 rewards
        for p in (0.01, 0.3, 0.5, 0.9):
            for sign in (1.0, -1.0):
                log_mean = np.log(p * np.exp(sign * s * (1 - p)) + (1 - p) * np.exp(-sign * s * p))
                assert (log_mean <= p * (1 - p) * s**2 / 2 * factor + 1e-9).all()

    def test_the_lower_tail_of_rare_rewards_is_light(self) -> None:
        """E exp(s (p - X)) <= exp(s^2 q (1 - q)/2) for p <= q < 1/2 and every s >= 0."""
        s = np.linspace(0.0, 40.0, 400)
        for q in (0.01, 0.1, 0.3, 0.49):
            for p in np.linspace(0.0, q, 12):
                log_mean = s * p + np.log(p * np.exp(-s) + 1.0 - p)
                assert (log_mean <= s**2 * q * (1 - q) / 2 + 1e-12).all()

    @pytest.mark.parametrize("k", [0.0, 1.0, 2.0])
    def test_the_largest_coefficients(self, k: float) -> None:
        rng = np.random.default_rng(21)
        for _ in range(100):
            m, width = int(rng.integers(2, 12)), rng.uniform(0.0, 0.3)
            y = rng.random(m)
            low, high = np.maximum(y - width, 0.0), np.minimum(y + width * rng.random(m), 1.0)
            slack = width * rng.random()
            mu, sigma = (y.mean() - slack, y.mean() + slack), y.std() * rng.uniform(0.1, 1.0)
            c = (1.0 + k * (y - y.mean()) / y.std()) / m
            largest = largest_coefficients(low, high, k, float(m), mu, float(sigma))
            assert (np.abs(c) <= largest + 1e-12).all()
            exact = largest_coefficients(y, y, k, float(m), (y.mean(), y.mean()), float(y.std()))
            assert exact.max() == pytest.approx(
                (1.0 + k * np.abs(y - y.mean()).max() / y.std()) / m
            )

    def test_fan_factor(self) -> None:
        s = np.linspace(0.01, 0.99, 200)
        np.testing.assert_allclose(fan_factor(s), (-np.log1p(-s) - s) / s**2, rtol=1e-9)
        assert (np.diff(fan_factor(np.linspace(0.0, 0.99, 500))) >= 0.0).all()
        assert fan_factor(np.zeros(1))[0] >= 0.5  # the limit
        assert np.isinf(fan_factor(np.array([0.999, 1.0, 5.0]))).all()

    def test_the_weights_of_the_bets_add_up(self) -> None:
        assert np.exp(LOG_SHARES).sum() == pytest.approx(1.0, abs=1e-12)
        for sweeps in (0.0, 1.0, 30.0, 1e5, 1e9):
            near = bets_around(sweeps)
            assert 0 <= near.start < near.stop <= HORIZONS.size
            assert near.stop - near.start == 7
        bets = bets_for(0.3, 5.0)
        np.testing.assert_allclose(bets**2 / 2.0 * HORIZONS * 0.3 / 4.0, 5.0)

    def test_what_a_bet_costs_covers_it(self) -> None:
        """E exp(L (X - p) - cost) <= 1 for 0/1 rewards, either sign and whatever was expected."""
        p, bets = np.linspace(0.0, 1.0, 21), np.array([0.05, 0.5, 0.98, 3.0, 20.0])
        ones, adaptive = np.ones(p.size), []
        for expected in (1e-12, 0.01, 0.1, 0.25):
            for centre in (0.0, 0.3, 1.0):
                costs = [
                    bet_cost(bets[:, None], ones, ones, (x - centre) ** 2 * ones, expected * ones)
                    for x in (0.0, 1.0)
                ]
                for sign in (1.0, -1.0):
                    L = sign * bets[:, None]
                    zero, one = np.exp(-L * p - costs[0]), np.exp(L * (1.0 - p) - costs[1])
                    assert ((1.0 - p) * zero + p * one <= 1.0 + 1e-12).all()
                adaptive.append((costs[0] != costs[1]).mean())
        assert 0.0 < np.mean(adaptive) < 1.0  # both ways to pay were tried

    def test_what_the_longest_bets_cost_follows_and_covers_them(self) -> None:
        """From the last that is added up: at least their cost, and hardly more if it is small."""
        rng = np.random.default_rng(5)
        for step in (0.3, 0.003):
            bets, steps = bets_for(0.3, 8.0), step * rng.random(200)
            pulls, variance = rng.integers(1, 50, 200) * 1.0, rng.choice([0.001, 0.02, 0.2], 200)
            costs = bet_cost(bets[:, None], steps, pulls, pulls * variance, variance)
            near = costs[LAST_PRICED] * TIMES_LAST[:, None]
            np.testing.assert_array_equal(near[:PRICED], costs[:PRICED])
            assert (near >= costs * (1.0 - 1e-12)).all()
            np.testing.assert_allclose(near, costs, rtol=0.01)

    def test_streams_without_rows_know_nothing(self) -> None:
        rows = empty_rows(5, leave_one_out_k(5, 1.9), NATS)
        assert lower_bound(rows.lower, 1.9, 0.1, (0.2, 0.8)) == -math.inf
        assert upper_bound(rows.upper, 1.9, 0.1) == math.inf
        assert interval_of_mean(rows.mu, 0.1) == (0.0, 1.0)


def guess_of(shrunk: FloatArray, error: FloatArray) -> Forecast:
    """Return a forecast, of means that may be anything."""
    return Forecast(shrunk, np.full(shrunk.size, 0.5), np.full(shrunk.size, 0.1), shrunk, error)


def constant_rows(
    rng: np.random.Generator, k: float, y: FloatArray, guesses: list[Forecast]
) -> Rows:
    """Return rows of rewards that are the means themselves, of odd sizes and weights."""
    rows = empty_rows(y.size, leave_one_out_k(y.size, k), NATS)
    for guess in guesses:
        pulls = rng.integers(1, 4, y.size).astype(float)
        row = Tally(pulls, pulls * y, np.zeros(y.size))
        rows = rows_with(rows, row, float(rng.uniform(0.5, 3.0)), guess)
    return rows


STEEP = 1.0 - 1e-9
KS_OF = {
    2: [1e-9, 0.9],
    3: [1e-18, 1e-9, 0.5, math.sqrt(2.0) * STEEP],
    20: [0.0, 1e-300, 2.0, math.sqrt(19.0) * STEEP],
}
CASES = [(n, k) for n, ks in KS_OF.items() for k in ks]


def worlds(rng: np.random.Generator, n: int) -> list[FloatArray]:
    """Return means of all kinds: anywhere, tiny, near 1, nearly equal and equal."""
    y = rng.random(n)
    return [y, 1e-9 * y, 1.0 - 1e-9 * y, 0.5 + 1e-7 * y, np.full(n, 0.3), (y < 0.5) * 1.0]


@pytest.mark.parametrize(("n", "k"), CASES)
class TestLowerLines:
    """Where rewards are the means, a line is (<C, y> - G theta - (W - G) mu) times a bet."""

    def guesses(self, rng: np.random.Generator, n: int) -> list[Forecast]:
        return [guess_of(rng.random(n), rng.random(n) * 0.01) for _ in range(6)]

    def test_no_line_exceeds_the_truth(self, n: int, k: float) -> None:
        """Leaving out one arm: <C, y> <= G theta + (W - G) mu, whatever the directions were."""
        rng = np.random.default_rng(1)
        for y in worlds(rng, n):
            rows = constant_rows(rng, k, y, self.guesses(rng, n)).lower
            noise = 1e-13 * rows.weight * (1.0 + rows.k)
            for i in range(n):
                others, mean = np.delete(y, i), float(y.mean())
                sd = 0.0 if np.ptp(others) == 0.0 else float(others.std())
                shift = float(others.mean() + rows.k * sd - y[i])
                for mu in ((mean, mean), (mean - 0.1, mean + 0.2)):
                    lines = lower_lines(rows, np.array([i]), shift, mu)
                    assert lines.offset[0] + lines.speed[0] * y[i] <= noise
                    assert (lines.costs > 0.0).all()

    def test_the_length_of_a_sum_of_directions(self, n: int, k: float) -> None:
        """G, W and the sums of the others against exact arithmetic, whatever k is."""
        rng = np.random.default_rng(2)
        rows = constant_rows(rng, k, rng.random(n), self.guesses(rng, n)).lower
        m, arms = n - 1, np.arange(n)
        lines = lower_lines(rows, arms, 0.0, (0.0, 0.0))
        exact_k, weight = Fraction(rows.k), Fraction(rows.weight)
        for i in arms:
            C = [(weight + exact_k * Fraction(float(z))) / m for z in np.delete(rows.leans, i)]
            W = sum(C)
            square = sum((c - W / m) ** 2 for c in C)
            G = math.sqrt(square * m / exact_k**2) if exact_k > 0 else float(W)
            assert lines.speed[i] == pytest.approx((float(W) - G) / m - G, rel=1e-6, abs=1e-9)
            # rounding may make G larger, never smaller
            assert m / (m + 1) * (float(W) / m - lines.speed[i]) >= G - 1e-12 * (G + abs(float(W)))
            assert 0.0 <= lines.share[i] <= 1.0

    def test_the_true_direction_loses_nothing(self, n: int, k: float) -> None:
        rng = np.random.default_rng(3)
        y = rng.random(n)
        rows = constant_rows(rng, k, y, [guess_of(y, np.zeros(n))] * 4).lower
        for i in range(n):
            others = np.delete(y, i)
            shift = float(others.mean() + rows.k * others.std() - y[i])
            lines = lower_lines(rows, np.array([i]), shift, (float(y.mean()), float(y.mean())))
            lost = -(lines.offset[0] + lines.speed[0] * y[i])
            assert lost == pytest.approx(0.0, abs=1e-7 * rows.weight * (1.0 + rows.k * k))

    def test_the_bound_of_all_arms(self, n: int, k: float) -> None:
        """Never above the threshold where rewards are the means, and near it after many rows."""
        rng = np.random.default_rng(4)
        for y in worlds(rng, n):
            mean = float(y.mean())
            rows = constant_rows(rng, k, y, self.guesses(rng, n)).lower
            assert lower_bound(rows, k, 0.1, (mean, mean)) <= threshold(y, k)
            assert lower_bound(rows, k, 0.1, (mean - 0.1, mean + 0.2)) <= threshold(y, k)
        y = rng.random(n)
        exact = Forecast(y, y, np.full(n, 1e-4), y, np.zeros(n))
        rows = constant_rows(rng, k, y, [exact] * 500).lower
        low = lower_bound(rows, k, 0.1, (float(y.mean()), float(y.mean())))
        reached = threshold(y, k) if n > 2 else y.mean()  # the streams of two arms lean nowhere
        assert reached - 0.1 < low <= threshold(y, k)


@pytest.mark.parametrize("k", [1e-300, 1e-18, 1e-15])
def test_lines_do_not_depend_on_k_where_thresholds_do_not(k: float) -> None:
    y, rng = np.array([0.1, 0.2, 0.15, 0.9]), np.random.default_rng(6)
    guesses = [guess_of(rng.random(4), rng.random(4) * 0.01) for _ in range(6)]
    one, other = (constant_rows(np.random.default_rng(7), size, y, guesses) for size in (k, 1e-13))
    mu = 0.3, 0.4
    lines, same = (lower_lines(rows.lower, np.arange(4), 0.0, mu) for rows in (one, other))
    for part, expected in zip(lines, same, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-9)
    bounds = [lower_bound(rows.lower, size, 0.1, mu) for rows, size in ((one, k), (other, 1e-13))]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


def test_the_upper_end_is_the_plug_in_and_a_radius() -> None:
    """U(V (1 + k^2)/n)/A with V = max_j sum_r a_r^2/(4 w_rj): Lemma 7 (a)."""
    rng, n, k = np.random.default_rng(8), 6, 1.3
    w, sizes = rng.integers(1, 9, (4, n)), rng.uniform(1.0, 5.0, 4)
    rows = no_plug_in_rows(n, leave_one_out_k(n, k), 5.0)._replace(
        weight=sizes.sum(), total=sizes @ rng.random((4, n)), spent=(sizes**2 / w.T).sum(1)
    )
    y, norm = rows.total / rows.weight, (1.0 + k**2) / n
    radius = normal_mixture_boundary(norm * rows.spent.max() / 4.0, 0.03, 6.0 * norm) / sizes.sum()
    plug_in = float(y.mean() + k * y.std())
    assert upper_bound(rows, k, 0.03) == pytest.approx(plug_in + radius, rel=1e-12)


@pytest.mark.parametrize(("n", "k"), CASES)
def test_upper_lines_where_rewards_are_the_means(n: int, k: float) -> None:
    """No evidence that theta_-i is below itself, some that it is far below what it is not."""
    rng = np.random.default_rng(5)
    arms, steep = np.arange(n), leave_one_out_k(n, k)
    for y in worlds(rng, n):
        rows = constant_rows(rng, k, y, [guess_of(y, np.zeros(n))] * 20).upper
        largest = np.full(n, (1.0 + steep * math.sqrt(max(n - 2.0, 0.0))) / (n - 1.0))
        box = np.zeros(n), np.ones(n)
        assert upper_bound(rows, k, 0.1) >= threshold(y, k)
        for i in arms:
            others = np.delete(y, i)
            sd = 0.0 if np.ptp(others) == 0.0 else float(others.std())
            level = float(others.mean() + steep * sd)
            lines = upper_lines(rows, steep, np.array([i]), level - y[i], largest, box)
            assert along_lines(lines, y[i : i + 1])[0] <= 1e-6
            assert (lines.speed > 0.0).all()
            np.testing.assert_array_equal(lines.share, 1.0)


class Runs:
    """Rows of a certificate in the manner of SPADE, with focus pulls of the leading arm between."""

    ROWS = 24

    def __init__(self, y: FloatArray, k: float) -> None:
        self.y, self.k = y, k
        self.theta, self.left_out = threshold(y, k), left_out(y, k)

    def draw(self, rng: np.random.Generator, counts: FloatArray) -> Totals:
        pairs = zip(self.y, counts.astype(int), strict=True)
        ones = np.array([float((rng.random(count) < mean).sum()) for mean, count in pairs])
        return Totals(counts, ones, ones)

    def __call__(self, rng: np.random.Generator) -> Iterator[tuple[JointCertificate, Tally]]:
        n = self.y.size
        certificate = JointCertificate(n, Sigma(k=self.k), 1.0, 0.0)
        totals = self.draw(rng, np.full(n, 2.0))
        for row in range(self.ROWS):
            tally = tally_seen(totals)
            guess = forecast(tally)
            size, counts = max(1.0, 0.25 * row), np.ones(n)
            if row > 3:
                counts = np.maximum(1.0, np.round(size * certificate.row_weights(tally, guess)))
            pulled = self.draw(rng, counts)
            certificate.absorb_row(tally_seen(pulled), size, guess)
            totals = totals.plus(pulled)
            lead = np.zeros(n)
            lead[int(np.argmax(totals.total / totals.pulls))] = 3.0
            totals = totals.plus(self.draw(rng, lead))
            yield certificate, tally_seen(totals)


COINS = Runs(np.array([0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.8]), 1.0)


def lower_lines_of(certificate: JointCertificate, arms: IntArray, shift: float) -> Lines:
    """Return what the lower stream says, knowing mu as well as the certificate does."""
    return lower_lines(
        certificate.rows.lower, arms, shift, interval_of_mean(certificate.rows.mu, 0.1)
    )


def upper_lines_of(certificate: JointCertificate, tally: Tally, arms: IntArray) -> Lines:
    """Return what the upper stream says, knowing the arms as well as the certificate does."""
    certificate.look(tally)
    mu, k = interval_of_mean(certificate.rows.mu, 0.1), certificate.rules.others_k
    largest = largest_without_one(certificate.standing.box, k, arms, mu)
    return upper_lines(certificate.rows.upper, k, arms, 0.0, largest, certificate.standing.box)


def test_streams_learn() -> None:
    """The other way round: a wrong level is found out."""
    family = COINS
    arms = np.arange(family.y.size)
    *_, (certificate, tally) = family(np.random.default_rng(13))
    assert (
        along_lines(upper_lines_of(certificate, tally, arms), family.left_out + 0.4) > 5.0
    ).all()
    for i in arms:
        lines = lower_lines_of(certificate, arms[i : i + 1], family.left_out[i] - 0.4 - family.y[i])
        assert along_lines(lines, family.y[i : i + 1])[0] > 5.0
    rows = certificate.rows
    mu = interval_of_mean(rows.mu, 0.1)
    assert mu[0] < family.y.mean() < mu[1]
    assert mu[1] - mu[0] < 0.25
    assert family.theta - 0.3 < lower_bound(rows.lower, certificate.rules.k, 0.1, mu)
    assert upper_bound(rows.upper, certificate.rules.k, 0.1) < family.theta + 0.3
