"""The smallest joint evidence is never overstated, and neither is how fast it grows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from helpers import tally_of
from oddarms.algorithms._spade_joint import Rows, empty_rows, rows_with
from oddarms.problem import FloatArray
from oddarms.statistics.directions import forecast, leave_one_out_k
from oddarms.statistics.evidence import Sample, log_evidence, log_mix, sample_above, sample_below
from oddarms.statistics.joint_evidence import joint_evidence, weigh
from oddarms.statistics.threshold_streams import (
    Lines,
    interval_of_mean,
    lower_lines,
    upper_lines,
)

ENDS = 1e-6
EDGE = np.geomspace(1e-9, 1e-3, 50)
GRID = np.concatenate([EDGE, np.linspace(1e-3, 0.999, 500), 1.0 - EDGE])


class Case(NamedTuple):
    """Arms with evidence of their own and about their thresholds, on one side."""

    lines: Lines
    sample: Sample
    sign: float

    @property
    def size(self) -> int:
        """The number of arms."""
        return self.lines.offset.size

    def values(self, y: FloatArray) -> FloatArray:
        """Return the joint evidence at each y, for each arm."""
        rows = [joint_evidence(np.full(self.size, q), *self).value for q in y]
        return np.array(rows)


def samples(rng: np.random.Generator, size: int, sign: float, largest: float = 1e4) -> Sample:
    """Return random samples: many and few pulls, means at the ends and between, of any scatter."""
    pulls = np.round(np.exp(rng.uniform(0.0, np.log(largest), size)))
    mean = np.where(rng.random(size) < 0.3, rng.choice([0.0, 1.0], size), rng.random(size))
    scatter = pulls * mean * (1.0 - mean) * rng.choice([0.0, 0.01, 0.5, 1.0], size)
    side = sample_below if sign < 0.0 else sample_above
    return side(pulls, pulls * mean, scatter)


def random_lines(rng: np.random.Generator, size: int, sign: float, largest: float = 1e4) -> Lines:
    """Return random lines of either slope, mostly those that grow away from the arm."""
    bets = np.sort(rng.uniform(0.01, 8.0, 5))
    speed = sign * np.exp(rng.uniform(0.0, np.log(largest), size)) * rng.choice([1, 1, 1, -1], size)
    offset = -speed * rng.random(size)
    return Lines(offset, speed, bets, rng.exponential(5.0, (5, size)), rng.uniform(0.2, 1.0, size))


def brackets(rng: np.random.Generator, size: int) -> list[tuple[FloatArray, FloatArray]]:
    """Return brackets that may or may not hold the minimum, down to single points."""
    low = rng.uniform(ENDS, 0.9, size)
    return [
        (np.full(size, ENDS), np.full(size, 1.0 - ENDS)),
        (low, np.minimum(low + rng.uniform(0.0, 0.5, size), 1.0 - ENDS)),
        (np.full(size, ENDS), np.full(size, 0.01)),
        (np.full(size, 0.99), np.full(size, 1.0 - ENDS)),
        (low, low),
    ]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
class TestTheMinimum:
    def test_wherever_it_is_expected(self, sign: float) -> None:
        rng = np.random.default_rng(1)
        for _ in range(4):
            case = Case(random_lines(rng, 200, sign), samples(rng, 200, sign), sign)
            least = case.values(GRID).min(axis=0)
            for low, high in brackets(rng, 200):
                found = weigh(low, high, *case)
                assert (found.evidence <= least + 1e-9 * (1.0 + np.abs(least))).all()
                assert ((low <= found.y) & (found.y <= high)).all()
                assert (found.steepness >= 0.0).all()

    def test_near_the_truth_where_the_bracket_is_right(self, sign: float) -> None:
        """The bracket of SPADE: from the arm's mean to somewhat beyond the level."""
        rng, size = np.random.default_rng(2), 200
        pulls = np.round(np.exp(rng.uniform(4.0, 9.0, size)))
        mean = rng.uniform(0.05, 0.95, size)
        gap = sign * np.sqrt(rng.uniform(1.0, 20.0, size) * 2.0 * mean * (1.0 - mean) / pulls)
        level = np.clip(mean - gap, 0.02, 0.98)
        side = sample_below if sign < 0.0 else sample_above
        sample = side(pulls, pulls * mean, pulls * mean * (1.0 - mean))
        bets = 0.3 * 3.0 ** -np.arange(5.0)
        costs = bets[:, None] ** 2 / 8.0 * pulls + 2.0
        case = Case(
            Lines(-sign * pulls * level, sign * pulls, bets, costs, np.ones(size)), sample, sign
        )
        beyond = np.clip(level + 0.5 * (level - mean), ENDS, 1.0 - ENDS)
        found = weigh(np.minimum(mean, beyond), np.maximum(mean, beyond), *case)
        least = case.values(np.linspace(1e-3, 0.999, 2001)).min(axis=0)
        assert (found.evidence <= least + 1e-9).all()
        lost = (least - found.evidence)[least > 1.0]  # where there is something to lose
        assert lost.size > 50
        assert np.median(lost) < 0.02
        assert lost.max() < 1.0

    def test_extreme_counts(self, sign: float) -> None:
        """A thousand million pulls, means 0 and 1, lines as steep."""
        rng = np.random.default_rng(3)
        arms = np.arange(200)
        pulls, mean = np.where(arms % 2, 1e9, 1.0), (arms % 3) / 2.0
        scatter = pulls * mean * (1.0 - mean) * (arms % 5 < 2)
        sample = (sample_below if sign < 0.0 else sample_above)(pulls, pulls * mean, scatter)
        for largest in (1.0 + 1e-9, 1e9):
            case = Case(random_lines(rng, 200, sign, largest), sample, sign)
            least = case.values(GRID).min(axis=0)
            for low, high in brackets(rng, 200):
                found = weigh(low, high, *case)
                assert np.isfinite(found.evidence).all()
                assert np.isfinite(found.steepness).all()
                assert (found.evidence <= least + 1e-9 * (1.0 + np.abs(least))).all()

    def test_slopes_are_derivatives(self, sign: float) -> None:
        rng, h = np.random.default_rng(4), 1e-6
        case = Case(random_lines(rng, 100, sign, 30.0), samples(rng, 100, sign, 100.0), sign)
        y = rng.uniform(0.05, 0.95, 100)
        value, slope, arm, threshold = joint_evidence(y, *case)
        ends = [joint_evidence(y + step, *case).value for step in (h, -h)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(slope, arm + threshold, rtol=1e-12)
        assert np.isfinite(value).all()

    def test_flat_evidence(self, sign: float) -> None:
        """Rewards and lines that tell nothing: the evidence is the same everywhere."""
        none = Sample(*np.array([[0.0], [0.0], [0.0], [-2.0], [0.5], [0.0], [1.0], [0.5]]))
        lines = Lines(np.zeros(1), np.zeros(1), np.ones(2), np.full((2, 1), 3.0), np.ones(1))
        found = weigh(np.array([0.2]), np.array([0.7]), lines, none, sign)
        value = joint_evidence(np.array([0.4]), lines, none, sign).value
        assert found.evidence[0] == pytest.approx(value[0])
        assert found.steepness[0] == 0.0


class Doubt(NamedTuple):
    """A threshold's evidence where the arm's mean is u and its threshold q."""

    own: FloatArray
    threshold: FloatArray

    def at(self, lines: Lines, u: FloatArray, q: FloatArray) -> FloatArray:
        """Return T(q), which may depend on u, for each arm in the last axis."""
        z = lines.offset + self.own * u + self.threshold * q
        bets = lines.bets.reshape(-1, *[1] * z.ndim)
        costs = lines.costs.reshape(lines.bets.size, *[1] * (z.ndim - 1), -1)
        return log_mix(bets * z - costs, bets)[0]


def wrong_pairs(sign: float, points: int) -> tuple[FloatArray, FloatArray]:
    """Return all (u, q) on a grid on which the verdict errs: u >= q where it says "below"."""
    grid = np.linspace(0.003, 0.997, points)
    u, q = (x.ravel() for x in np.meshgrid(grid, grid))
    wrong = (u - q) * sign <= 0.0
    return u[wrong][:, None], q[wrong][:, None]


def assert_steepness(case: Case, own: FloatArray, least: float = 0.0) -> FloatArray:
    """Assert A(u) + T(q) >= evidence + s |u - q| for brackets of all kinds; return the largest s.

    `own` is by how much the lines grow with the arm's mean u alone; the rest is due to q. With a
    `least` mean for all worlds with q of at least that: Corollary 8.
    """
    u, q = wrong_pairs(case.sign, 40)
    u, q = u[q[:, 0] >= least], q[q[:, 0] >= least]
    doubt = Doubt(own, case.lines.speed - own)
    room = np.broadcast_to(u if case.sign > 0.0 else 1.0 - u, (u.size, case.size))
    arm = np.array([log_evidence(case.sample, row)[0] for row in room])
    total = arm + doubt.at(case.lines, u, q)
    rng = np.random.default_rng(9)
    steepest = np.zeros(case.size)
    for low, high in brackets(rng, case.size):
        found = weigh(np.maximum(low, least), np.maximum(high, least), *case, least)
        bound = found.evidence + found.steepness * np.abs(u - q)
        assert (bound <= total + 1e-8 * (1.0 + np.abs(total))).all()
        steepest = np.maximum(steepest, found.steepness)
    return steepest


class TestSteepness:
    @pytest.mark.parametrize("sign", [-1.0, 1.0])
    def test_lines_of_the_threshold_alone(self, sign: float) -> None:
        rng = np.random.default_rng(5)
        lines = random_lines(rng, 80, sign, 300.0)
        lines = lines._replace(speed=sign * np.abs(lines.speed), share=np.ones(80))
        lines = lines._replace(offset=-lines.speed * rng.random(80))
        case = Case(lines, samples(rng, 80, sign, 1000.0), sign)
        steepest = assert_steepness(case, np.zeros(80))
        assert (steepest > 0.0).mean() > 0.3

    def test_lines_that_depend_on_the_arm(self) -> None:
        """As those of `lower_lines`: (W - G)/m u - G q, with W below and above G."""
        rng, size = np.random.default_rng(6), 80
        for m in (1.0, 2.0, 5.0):
            G = np.exp(rng.uniform(0.0, 6.0, size))
            own = (rng.uniform(0.0, 3.0, size) - 1.0) * G / m
            speed = own - G
            share = np.where(speed < 0.0, np.minimum(G / np.abs(speed), 1.0), 0.0)
            lines = random_lines(rng, size, -1.0)
            lines = lines._replace(speed=speed, offset=-speed * rng.random(size), share=share)
            case = Case(lines, samples(rng, size, -1.0, 1000.0), -1.0)
            for least in (0.0, 0.03, 0.3):
                assert_steepness(case, own, least)


def rows_of(x: FloatArray, k: float) -> Rows:
    """Return the streams after rows of two pulls each, from (arms, pulls) rewards."""
    rows = empty_rows(len(x), leave_one_out_k(len(x), k), 6.0)
    for first in range(2, x.shape[1], 2):
        guess = forecast(tally_of(x[:, :first]))
        rows = rows_with(rows, tally_of(x[:, first : first + 2]), 2.0, guess)
    return rows


@pytest.mark.parametrize("n", [3, 8])
def test_steepness_of_the_streams(n: int) -> None:
    """With what the lower stream says of u and q apart: -G q - (W - G) (n mu_end - u)/m."""
    rng = np.random.default_rng(7)
    arms = np.arange(n)
    for _ in range(4):
        x = (rng.random((n, 40)) < rng.random(n)[:, None]) * 1.0
        rows, tally, m = rows_of(x, 0.9), tally_of(x), n - 1.0
        lower = rows.lower
        C = (lower.weight + lower.k * lower.leans) / m
        W = C.sum() - C
        others = np.array([np.delete(C, i) for i in range(n)])
        G = np.sqrt(((others - W[:, None] / m) ** 2).sum(axis=1) * m) / lower.k
        lines = lower_lines(lower, arms, -0.02, interval_of_mean(rows.mu, 0.1))
        np.testing.assert_allclose(lines.speed, (W - G) / m - G, rtol=1e-9)
        assert_steepness(Case(lines, sample_below(*tally), -1.0), (W - G) / m)
        box = np.zeros(n), np.ones(n)
        above = upper_lines(rows.upper, lower.k, arms, 0.02, np.ones(n), box)
        assert_steepness(Case(above, sample_above(*tally), 1.0), np.zeros(n))
