"""Where a search comes after very many pulls: tiny gaps, levels next to 0 and 1, 2^50 pulls."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from helpers import quick_and_long
from oddarms import find, simulate
from oddarms.algorithms._base import UNLIMITED
from oddarms.algorithms._spade_certificates import (
    JointCertificate,
    SweepInterval,
)
from oddarms.algorithms._spade_joint import bracket, floor_evidence
from oddarms.arms import Bernoulli
from oddarms.problem import FloatArray
from oddarms.rules import Sigma
from oddarms.statistics import evidence
from oddarms.statistics.directions import Tally, forecast
from oddarms.statistics.threshold_streams import HORIZONS, LOG_SHARES, bets_around
from oddarms.statistics.totals import scatter_of

PI = Decimal("3.14159265358979323846264338327950288419716939937511")
SERIES = [(1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156)]


class TestTinyGaps:
    @pytest.mark.parametrize(
        ("means", "k"),
        quick_and_long(
            [([0.5 - 2e-5, 0.5 + 2e-5], 0.0)], [([0.3, 0.3001, 0.2999, 0.30005, 0.3005], 1.0)]
        ),
    )
    def test_spade_ends(self, means: list[float], k: float) -> None:
        found = simulate(means, k=k, delta=0.1, rng=1, compiled=False)
        assert found.complete.all()
        assert found.correct.all()

    def test_lucb_ends(self) -> None:
        result = find(Bernoulli([0.3, 0.3002]), k=0.0, margin=0, delta=0.1, algorithm="lucb", rng=1)
        assert result.outliers == [1]

    def test_there_is_a_bet_for_the_longest_search(self) -> None:
        assert HORIZONS[-1] >= UNLIMITED
        assert np.exp(LOG_SHARES).sum() == pytest.approx(1.0)
        for sweeps in (1.0, 40.0, 1e6, 1e12, UNLIMITED / 2):
            near = HORIZONS[bets_around(sweeps)]
            assert near[0] <= sweeps <= near[-1]


def log_gamma(x: Decimal) -> Decimal:
    """Return log Gamma(x), x >= 30, to more digits than are asked for."""
    series = sum((Decimal(a) / b / x ** (2 * i + 1) for i, (a, b) in enumerate(SERIES)), Decimal(0))
    return (x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2 + series


def exact_jeffreys(far: float, near: float, room: float) -> float:
    """Return the log of the Jeffreys mixture in fifty digits."""
    with localcontext() as context:
        context.prec = 50
        F, R, r, half = Decimal(far), Decimal(near), Decimal(room), Decimal("0.5")
        beta = log_gamma(F + half) + log_gamma(R + half) - log_gamma(F + R + 1)
        return float(beta - PI.ln() - F * (1 - r).ln() - R * r.ln())


@pytest.mark.parametrize("pulls", [1e4, 1e9, 1e12, float(UNLIMITED)])
@pytest.mark.parametrize("p", [0.5, 0.03])
@pytest.mark.parametrize("distance", [-5.0, 0.3, 6.0])
def test_the_jeffreys_mixture_to_the_last_digits(pulls: float, p: float, distance: float) -> None:
    total = np.floor(pulls * p)
    level = total / pulls - distance * math.sqrt(p * (1.0 - p) / pulls)
    sample = evidence.sample_above(*(np.array([x]) for x in (pulls, total, total * (1.0 - p))))
    found = evidence.log_jeffreys(sample, np.array([level]))[0]
    exact = exact_jeffreys(pulls - total, total, level)
    assert found == pytest.approx(exact, abs=1e-9 + 1e-15 * math.sqrt(pulls) * abs(distance))


@pytest.mark.parametrize("pulls", [1e3, 1e6, 1e9, 1e11])
def test_intervals_get_narrower_with_every_pull(pulls: float) -> None:
    """A fixed number of halvings would leave them at a few thousandths of the mean."""
    total = np.array([np.floor(0.3 * pulls)])
    tally = np.array([pulls]), total
    scatter = scatter_of(tally[0], total, total)
    for low, high in (
        evidence.mean_interval(*tally, scatter, 0.01),
        evidence.wide_mean_interval(*tally, 0.01),
    ):
        assert high[0] - low[0] < 30.0 * math.sqrt(0.21 / pulls)


def tally_of(pulls: float, totals: list[float]) -> Tally:
    """Return the tally of 0/1 rewards."""
    counts, total = np.full(len(totals), pulls), np.array(totals)
    return Tally(counts, total, scatter_of(counts, total, total))


class TestLevelsNextToTheEnds:
    PULLS = 1e13

    def found(
        self, floor: float, totals: list[float], slack: float = 0.0
    ) -> tuple[FloatArray, ...]:
        """Return the evidence of arms against a floor: that they are normal, and outliers."""
        tally = tally_of(self.PULLS, totals)
        rules = JointCertificate(len(totals), Sigma(k=1.0), 0.1, slack).rules
        known = np.ones(len(totals)), np.arange(len(totals)), tally, forecast(tally)
        return floor_evidence(rules._replace(slack=slack, floor=floor), *known)[:2]

    def test_next_to_0(self) -> None:
        normal, outlier = self.found(1e-10, [0.0, 1e4, 1e5, 5e12])
        assert normal[0] > 50.0
        assert (outlier[1:] > 50.0).all()
        assert (normal[1:] == -math.inf).all()

    def test_next_to_1(self) -> None:
        normal, outlier = self.found(1.0 - 1e-10, [self.PULLS - x for x in (0.0, 1e4, 1e5, 5e12)])
        assert outlier[0] > 50.0
        assert (normal[1:] > 50.0).all()
        assert (outlier[1:] == -math.inf).all()

    def test_every_mean_reaches_0_and_none_exceeds_1(self) -> None:
        assert (self.found(0.0, [0.0, 3.0])[1] == math.inf).all()
        assert (self.found(0.0, [0.0, 3.0])[0] == -math.inf).all()
        assert (self.found(1.0, [5.0, 3.0], slack=1e-12)[0] == math.inf).all()
        assert (self.found(1.0, [5.0, self.PULLS])[1] == -math.inf).all()

    @pytest.mark.parametrize("mean", [0.0, 1e-12, 3e-8, 1e-3, 0.5, 1.0 - 1e-9, 1.0])
    @pytest.mark.parametrize("level", [-0.1, 1e-10, 0.4, 1.2])
    def test_the_smallest_evidence_is_sought_around_the_mean(
        self, mean: float, level: float
    ) -> None:
        low, high = bracket(mean, level, 0.0)
        assert 0.0 < low <= high < 1.0
        assert low <= max(mean, 2.0**-50)
        assert high >= min(mean, 1.0 - 2.0**-50)


def test_a_radius_is_that_of_the_reading_it_goes_with() -> None:
    """One side may have no open arm at a reading, and open ones again between two halves."""
    rng, n = np.random.default_rng(3), 30
    sweeps, known = SweepInterval(n, 2.0, 0.1), JointCertificate(n, Sigma(k=2.0), 0.1, 0.0).standing
    for size in (2, 2, 5000):
        ones = rng.binomial(size, 0.3, n).astype(float)
        sweeps.absorb(tally_of(float(size), ones.tolist()), float(size), None)
    before = sweeps.odd_even.low, sweeps.odd_even.high
    assert sweeps.narrowed(known)[2:4] == before
    ones = rng.binomial(5000, 0.3, n).astype(float)
    sweeps.absorb(tally_of(5000.0, ones.tolist()), 5000.0, None)
    assert sweeps.narrowed(known).high < before[1]
