"""The evidence about the threshold from rows of pulls, and the parts it is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from helpers import left_out, tally_of
from oddarms.algorithms._spade_certificates import JointCertificate
from oddarms.problem import FloatArray
from oddarms.statistics.direction_box import direction_box, knapsack, smallest_sd
from oddarms.statistics.directions import Directions, Tally, forecast
from oddarms.statistics.threshold_streams import (
    LowerStream,
    UpperStream,
    bennett_factor,
    choose_bets,
    mixed_evidence,
)
from oddarms.statistics.totals import Totals
from oddarms.theory import threshold


class TestParts:
    def test_knapsack_is_the_linear_program(self) -> None:
        rng = np.random.default_rng(7)
        for _ in range(40):
            low = rng.uniform(0.0, 0.3, (3, 6))
            high, value = low + rng.uniform(0.0, 0.5, (3, 6)), rng.random(6)
            budget = float(rng.uniform(low.sum(axis=1).max(), high.sum(axis=1).min()))
            found = knapsack(low, high, value, budget)
            for row in range(3):
                program = linprog(
                    -value,
                    A_eq=np.ones((1, 6)),
                    b_eq=[budget],
                    bounds=list(zip(low[row], high[row], strict=True)),
                )
                assert found[row] == pytest.approx(-program.fun, abs=1e-9)

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
            member = np.ones(n)
            member[0] = 0.0
            z = y[1:]
            slack = width * rng.random()
            mu = np.array([z.mean() - slack]), np.array([z.mean() + slack])
            sigma = smallest_sd(low, high, member[None]), np.array([z.std() + slack])
            box = direction_box(low, high, member[None], k, mu, sigma)
            c = (1.0 + k * (z - z.mean()) / z.std()) / z.size
            assert (box.smallest[0, 1:] <= np.abs(c) + 1e-12).all()
            assert (c <= box.positive[0, 1:] + 1e-12).all()
            assert (-c <= box.negative[0, 1:] + 1e-12).all()
            assert box.largest[0, 0] == 0.0
            value = rng.random(n)
            assert c**2 @ value[1:] <= box.most(value, float(c @ c))[0] + 1e-12

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

    def test_scatter(self) -> None:
        rng = np.random.default_rng(9)
        x, centre = rng.random((5, 7)), rng.random(5)
        expected = ((x - centre[:, None]) ** 2).sum(axis=1)
        np.testing.assert_allclose(tally_of(x).scatter_around(centre), expected)

    def test_mixed_evidence(self) -> None:
        rng = np.random.default_rng(10)
        bets, costs = rng.uniform(0.1, 2.0, (3, 4)), rng.random((3, 4))
        zero = np.zeros(3)
        start, _ = mixed_evidence(zero, 1.0, bets, np.zeros((3, 4)), zero, 1.0)
        np.testing.assert_allclose(start, 0.0, atol=1e-12)  # the weights add up to 1
        S, V, h = rng.normal(size=3), rng.random(3), 1e-6
        _, slope = mixed_evidence(S, -2.0, bets, costs, V, 0.7)
        ends = [mixed_evidence(S - 2.0 * s, -2.0, bets, costs, V, 0.7)[0] for s in (h, -h)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-5)

    def test_bets_are_positive_and_rise(self) -> None:
        rng = np.random.default_rng(11)
        guess = forecast(tally_of((rng.random((12, 4)) < 0.3).astype(float)))
        for leave_one_out in (True, False):
            d = Directions(guess.shrunk, 2.0, leave_one_out=leave_one_out)
            bets = choose_bets(d, guess)
            assert (bets > 0.0).all()
            assert (np.diff(bets, axis=1) > 0.0).all()

    def test_streams_without_rows_know_nothing(self) -> None:
        assert LowerStream(1).bound(0.1) == -math.inf
        assert UpperStream(5, 2.0, box_delta=0.1, nuisance_delta=0.1).bound(0.1) == math.inf


class Rows:
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
        certificate = JointCertificate(n, self.k, 1.0, 0.0)
        totals = self.draw(rng, np.full(n, 2.0))
        for row in range(self.ROWS):
            tally = Tally.seen(totals)
            guess = forecast(tally)
            size = max(1.0, 0.25 * row)
            counts = np.full(n, size)
            if row > 3:
                counts = np.maximum(1.0, np.round(size * certificate.row_weights(tally, guess)))
            size = 1.0 if row <= 3 else size
            counts = np.ceil(counts)
            pulled = self.draw(rng, counts)
            certificate.absorb_row(Tally.seen(pulled), size, guess)
            totals = totals.plus(pulled)
            lead = np.zeros(n)
            lead[int(np.argmax(totals.total / totals.pulls))] = 3.0
            totals = totals.plus(self.draw(rng, lead))
            yield certificate, Tally.seen(totals)


COINS = Rows(np.array([0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.8]), 1.0)


def test_streams_learn() -> None:
    """The other way round: a wrong level is found out."""
    family = COINS
    arms = np.arange(family.y.size)
    *_, (certificate, tally) = family(np.random.default_rng(13))
    assert (certificate.own.evidence(arms, family.left_out - 0.4)[0] > 5.0).all()
    certificate.upper.prepare(arms, tally, certificate.own.bets, certificate.own.rho)
    assert (certificate.upper.evidence(family.left_out + 0.4)[0] > 5.0).all()
    assert family.theta - 0.3 < certificate.common.bound(0.1)
    assert certificate.upper.bound(0.1) < family.theta + 0.3


def test_slopes_of_the_streams() -> None:
    family, h = COINS, 1e-6
    arms = np.arange(family.y.size)
    *_, (certificate, tally) = family(np.random.default_rng(14))
    certificate.upper.prepare(arms, tally, certificate.own.bets, certificate.own.rho)
    q = np.linspace(0.2, 0.9, arms.size)
    for evidence in (lambda x: certificate.own.evidence(arms, x), certificate.upper.evidence):
        difference = (evidence(q + h)[0] - evidence(q - h)[0]) / (2 * h)
        np.testing.assert_allclose(evidence(q)[1], difference, rtol=1e-4, atol=1e-4)
    assert (certificate.own.evidence(arms, q)[1] <= 0.0).all()
    assert (certificate.upper.evidence(q)[1] >= 0.0).all()
