"""The bound on SPADE's pulls: each lemma of its proof along runs, and the bound against runs.

Lemmas hold on an event of probability at least 1 - 0.24 delta. Runs are seeded, so a check along
them fails by chance either always or never.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers import quick_and_long
from oddarms.algorithms import UNLIMITED, _spade_certificates, _spade_joint, _spade_plans
from oddarms.algorithms._spade import SPADE
from oddarms.algorithms._spade_plans import Steps
from oddarms.errors import InvalidParameter
from oddarms.problem import BoolArray, FloatArray
from oddarms.rules import Sigma
from oddarms.statistics import directions, sweeps, threshold_streams
from oddarms.statistics.evidence import (
    degenerate_bound,
    log_jeffreys,
    normal_mixture_boundary,
    sample_below,
)
from oddarms.testing import assert_error_rate
from oddarms.theory import _spade_bound, ade_pulls_bound, spade_pulls_bound
from oddarms.theory._spade_bound import Parts

Draw = Callable[[np.random.Generator, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def bernoulli(
    rng: np.random.Generator, means: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return sums and sums of squares of 0/1 rewards."""
    sums = rng.binomial(counts.astype(np.int64), means).astype(np.float64)
    return sums, sums


def quiet(
    rng: np.random.Generator, means: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return sums and sums of squares of rewards within 0.02 of the mean, at two points."""
    high = rng.binomial(counts.astype(np.int64), 0.5)
    low = counts - high
    up, down = means + 0.02, means - 0.02
    return high * up + low * down, high * up**2 + low * down**2


class Instance(NamedTuple):
    """Means, k, how rewards are drawn, and what else the question has."""

    means: FloatArray
    k: float
    draw: Draw
    margin: float = 0.0
    indifference: float = 0.0

    @property
    def question(self) -> dict[str, Any]:
        """The arguments of the bound."""
        return {name: value for name, value in self._asdict().items() if name != "draw"}

    @property
    def paired(self) -> bool:
        """Whether rows are sweeps in pairs."""
        return self.means.size > 512 or self.means.size <= 1.0 + self.k**2


def bulk(n: int, outliers: int, seed: int, largest: float = 0.49) -> FloatArray:
    """Return normal means around 0.3, and some outliers."""
    rng = np.random.default_rng(seed)
    means = rng.normal(0.3, 0.075, n - outliers).clip(0.05, largest)
    return np.concatenate([means, rng.uniform(0.7, 0.9, outliers)])


INSTANCES = {
    "interval": Instance(bulk(1100, 40, 1), 2.0, bernoulli),
    "interval, quiet": Instance(bulk(1100, 40, 2), 2.0, quiet),
    "interval, no outlier": Instance(np.random.default_rng(3).random(1100), 2.5, bernoulli),
    "interval, as few arms as k allows": Instance(
        np.array([0.8, 0.1, 0.2, 0.15, 0.4, 0.3, 0.2, 0.1, 0.2, 0.3]), 3.0, bernoulli
    ),
    "interval, k below 0": Instance(1.0 - bulk(1100, 40, 1), -2.0, bernoulli),
    "interval, margin": Instance(bulk(1100, 40, 1), 2.0, bernoulli, 0.25),
    "interval, equal means": Instance(np.full(1100, 0.2), 2.0, bernoulli, 0.1),
    "interval, indifference": Instance(bulk(1100, 40, 1), 2.0, quiet, 0.05, 0.1),
    "hybrid": Instance(bulk(520, 20, 4), 2.0, bernoulli),
    "hybrid, indifference": Instance(bulk(520, 20, 4), 2.0, quiet, 0.0, 0.1),
    "joint": Instance(bulk(50, 3, 5), 2.0, bernoulli),
    "joint, ten arms": Instance(bulk(10, 2, 5), 1.0, bernoulli),
    "joint, quiet": Instance(bulk(30, 2, 6), 2.0, quiet),
    "joint, no outlier": Instance(np.random.default_rng(3).random(60), 2.5, bernoulli),
    "joint, k is 0": Instance(np.repeat([0.2, 0.3, 0.8], [10, 9, 6]), 0.0, bernoulli),
    "joint, k below 0": Instance(1.0 - bulk(50, 3, 5), -2.0, bernoulli),
    "joint, some silent arms": Instance(
        np.repeat([0.0, 0.2, 0.35, 0.9], [30, 20, 5, 4]), 1.5, bernoulli
    ),
    "joint, indifference": Instance(bulk(50, 3, 5), 2.0, bernoulli, 0.0, 0.1),
}


class Step(NamedTuple):
    """A step that is about to be made, and what is known then, for k >= 0."""

    row: bool
    chosen: bool
    """Whether a row was chosen because it gains more."""
    rows: int
    row_pulls: float
    pulls: FloatArray
    undecided: BoolArray
    low: float
    high: float


def spade_for(instance: Instance, delta: float) -> SPADE:
    """Return SPADE before its first step."""
    rng = np.random.default_rng(0)  # it draws nothing
    return SPADE(
        instance.means.size,
        rule=Sigma(k=instance.k, margin=instance.margin),
        delta=delta,
        rng=rng,
        indifference=instance.indifference,
    )


def steps(spade: SPADE, instance: Instance, seed: int) -> Iterator[Step]:
    """Yield every step of a run."""
    rng, means = np.random.default_rng(seed), instance.means
    certificate = spade.views["upper"].certificate
    while not spade.done:
        before, pulls = spade.steps, spade.propose(UNLIMITED)
        assert spade._plan is not None
        row = spade._plan.size > 0.0
        chosen = before.rows >= 4 and (before.rows % 2 == 0 or not instance.paired)
        yield Step(
            row,
            row and chosen and before.focus < _spade_plans.LONGEST_FOCUS,
            before.rows,
            before.row_pulls,
            spade.totals.pulls.copy(),
            spade.undecided.copy(),
            certificate.raised.low,
            certificate.raised.high,
        )
        counts = pulls.counts.astype(np.float64)
        spade.absorb(pulls, *instance.draw(rng, means[pulls.indices], counts))


def parts_of(instance: Instance, delta: float) -> Parts:
    """Return the parts of the bound, and the means as the certificate sees them."""
    means, k, _, margin, indifference = instance
    means, paired = means if k >= 0.0 else 1.0 - means, instance.paired
    return Parts(means, abs(k), delta, margin=margin, indifference=indifference, paired=paired)


def test_constants_are_those_of_the_program() -> None:
    forms, joint, plans = _spade_certificates, _spade_joint, _spade_plans
    assert _spade_bound.JOINT_UP_TO == forms.JOINT_UP_TO
    assert _spade_bound.HYBRID_UP_TO == forms.HYBRID_UP_TO
    assert _spade_bound.BOX_SHARE == joint.BOX_SHARE
    assert _spade_bound.END_SHARE == forms.SWEEPS_END_SHARE
    assert _spade_bound.DEGENERATE_SHARE == forms.DEGENERATE_SHARE
    assert _spade_bound.MEAN_SHARE == forms.DIRECTION_SHARE
    assert _spade_bound.JOINT_END_SHARE == joint.END_SHARE
    assert _spade_bound.PLUG_IN_SHARE == joint.PLUG_IN_SHARE
    assert _spade_bound.FIRST_SWEEPS == plans.FIRST_ROWS
    for name in (
        *("GROWTH", "LONGEST_FOCUS", "ROW_ADVANTAGE"),
        *("LEAST_DOUBT", "MOST_DOUBT", "LEAST_COUNT"),
    ):
        assert getattr(_spade_bound, name) == getattr(plans, name)
    assert pytest.approx(3.0 / 19.0) == _spade_bound.ROWS_TO_FOCUS  # as the page says
    assert pytest.approx(28.0) == _spade_bound.FOCUS_TO_ROWS
    stream = sweeps.TrueDirection(9, 1.0, alpha=0.1, nuisance_delta=0.02)
    stream.absorb(directions.Tally(np.full(9, 4.0), np.full(9, 2.0), np.zeros(9)), 4.0, 0.5)
    u = normal_mixture_boundary(4.0 / (4.0 * 9.0), 0.02, _spade_bound.MEAN_AHEAD / 9.0) / 4.0
    assert stream.mean_interval() == pytest.approx((0.5 - u, 0.5 + u))


def test_lemma_1_the_jeffreys_mixture_is_at_least_the_likelihood_ratio_over_a_root() -> None:
    rng = np.random.default_rng(5)
    pulls = np.ceil(10.0 ** rng.uniform(0.0, 7.0, 4000))
    total = pulls * np.concatenate([rng.random(3000), rng.random(1000) < 0.5])
    level = rng.uniform(1e-3, 1.0 - 1e-3, 4000)
    mean = total / pulls
    logs = [
        np.where(p > 0.0, p * (np.log(np.maximum(p, 1e-300)) - np.log(q)), 0.0)
        for p, q in ((mean, level), (1.0 - mean, 1.0 - level))
    ]
    least = pulls * (logs[0] + logs[1]) - 0.5 * np.log(math.pi * (pulls + 0.5))
    sample = sample_below(pulls, total, np.zeros(4000))
    assert (log_jeffreys(sample, 1.0 - level) >= least - 1e-6 * (1.0 + np.abs(least))).all()


def test_lemma_1_pulls_that_an_arm_needs() -> None:
    parts = parts_of(INSTANCES["interval"], 0.1)
    width = np.geomspace(1e-6, 2.0, 200)
    needed = parts.arm_pulls(width)
    assert (2.0 * parts.arm_radius(needed) <= width).all()
    before = needed[needed > 2.0] * (1.0 - 1e-6) - 1.0
    assert (2.0 * parts.arm_radius(before) > width[needed > 2.0]).all()


def test_lemma_3_readings_of_pairs_follow_the_schedule() -> None:
    spade = sweeps.OddEven(1100, 2.0, end_delta=0.001, degenerate_delta=0.002)
    for m in parts_of(INSTANCES["interval"], 0.1).schedule.least[:60]:
        half = int(m / 2) - spade.sweeps[0]
        assert half == max(1, math.floor(0.04 * 2 * spade.sweeps[0]))
        spade.absorb(half, np.zeros(1100))
        spade.absorb(half, np.zeros(1100))


def test_rows_of_any_weights_follow_the_schedule() -> None:
    """Whatever the weights: sizes, and what a row has at least and at most."""
    rng, made = np.random.default_rng(4), 0.0
    for place, size in enumerate(_spade_bound.row_sizes()[:120].tolist()):
        assert size == pytest.approx(_spade_plans.next_size(Steps(place, made), paired=False))
        made += size
        for spread in (0.0, 1.0, 4.0):
            weights = np.exp(spread * rng.normal(size=40))
            counts = _spade_plans.counts_of_row(size, weights, place < 4)
            if place < 4:
                assert (counts == size).all()
                continue
            least = math.ceil(size / 4.0)
            assert counts.min() >= least
            assert 40.0 * max(least, size - 0.5) <= counts.sum() <= 40.0 * (size + least)


def test_the_choice_of_a_step_bounds_rows_and_focus() -> None:
    """F3: (1) before a focus step and (2) before a row, whatever the share of the doubt."""
    rng = np.random.default_rng(11)
    kinds = set()
    for _ in range(3000):
        pulls = np.exp(3.0 * rng.normal(size=12))
        undecided = rng.random(12) < rng.random()
        undecided[0] = True
        rows, mine = pulls.sum() * rng.random() ** 3, pulls[undecided].sum()
        gains = _spade_plans.row_gains_more(rng.uniform(-0.5, 1.5), rows, pulls, undecided)
        kinds.add(gains)
        if gains:
            assert rows < 28.0 * mine * (1.0 + 1e-9)
        else:
            assert mine <= 19.0 / 3.0 * rows * (1.0 + 1e-9)
    assert kinds == {True, False}


@pytest.mark.parametrize(
    ("name", "delta"),
    quick_and_long(
        [(name, 0.1) for name in INSTANCES if name != "hybrid, indifference"] + [("joint", 1e-6)],
        [("hybrid, indifference", 0.1), *((name, 1e-6) for name in INSTANCES if name != "joint")],
    ),
)
def test_lemmas_along_runs(name: str, delta: float) -> None:
    instance = INSTANCES[name]
    parts = parts_of(instance, delta)
    at = parts.schedule
    y = instance.means if instance.k >= 0.0 else 1.0 - instance.means
    theta, n = y.mean() + max(abs(instance.k) * y.std(), instance.margin), y.size
    gaps = np.abs(y - min(theta, 2.0)) + instance.indifference
    spade, kinds = spade_for(instance, delta), set()
    for step in steps(spade, instance, 6):
        reading = (step.rows // 2 if instance.paired else step.rows) - 1
        if reading < 0:
            continue
        N, alive = step.pulls, step.undecided
        if instance.paired:
            assert np.ptp(N[alive]) == 0.0  # Lemma 2
        if not instance.paired or step.rows % 2 == 0:
            assert N.min() >= at.least[reading]
            assert at.fewest[reading] <= step.row_pulls <= at.most[reading]
        assert step.low <= theta <= step.high
        assert step.low >= theta - at.radius[reading]  # Lemmas 3 and 8
        assert step.high <= theta + at.radius[reading]
        own = parts.arm_radius(N[alive])  # Lemma 4
        assert (gaps[alive] < at.radius[reading] + 2.0 * own).all()
        mine = float(N[alive].sum())
        if not step.row:
            kinds.add("focus")
            assert mine <= step.row_pulls * 19.0 / 3.0 * (1.0 + 1e-9)  # (1)
            assert np.ceil(0.08 * N[alive]).sum() <= (0.08 + 1.0 / at.least[reading]) * mine
        elif step.chosen:
            kinds.add("row")
            assert step.row_pulls < 28.0 * mine * (1.0 + 1e-9)  # (2)
    assert "no outlier" in name or "row" in kinds
    assert n == N.size
    most = spade_pulls_bound(**instance.question, delta=delta)
    assert spade.pulls.sum() <= most < math.inf
    # docs/explanation/spade-pulls.md says how loose it is
    assert 10.0 < most / spade.pulls.sum() < (10_000.0 if instance.draw is bernoulli else 1e6)


def test_lemma_3_what_the_plug_in_makes_of_its_error() -> None:
    """Both ends in terms of x = |Py| + <v*, xi> and rho, as in the proof of (b)."""
    rng, checked = np.random.default_rng(1), 0
    for _ in range(2000):
        n = int(rng.integers(2, 12))
        y, xi = rng.random(n), rng.normal(size=n) * 10.0 ** rng.uniform(-4.0, 0.0)
        rho, away = math.sqrt(xi @ xi) * rng.uniform(1.0, 2.0), y - y.mean()
        length = math.sqrt(away @ away)
        if length < 2.0 * rho:
            continue
        checked += 1
        x, seen = length + xi @ away / length, y + xi - (y + xi).mean()
        most, least = math.sqrt(seen @ seen), math.sqrt(seen @ seen - rho**2)
        bias = rho**2 / (length - rho)
        assert x - bias <= least <= x * (1.0 + 1e-12)
        assert x * (1.0 - 1e-12) <= most <= x + 0.5 * bias
    assert checked > 500


def test_lemma_5_focus_pulls_of_one_arm() -> None:
    N = np.arange(4.0, 2000.0)
    assert (N + np.ceil(0.08 * N) - 4.0 <= 1.08 * N).all()


@pytest.mark.parametrize("n", [10, 100, 1000, 10_000, 100_000])
@pytest.mark.parametrize("alpha", [5e-3, 1e-6, 1e-12, 1e-40])
def test_the_bound_on_products_of_the_corollary(n: int, alpha: float) -> None:
    nats = math.log(1.0 / alpha)
    assert degenerate_bound(n, 10.0, 10.0, alpha) <= (math.sqrt(n * nats) + 2.0 * nats) / 20.0


@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_lemma_3_the_ends_of_the_plug_in_are_as_near_as_it_says(spread: float) -> None:
    """Rows of weights that change at random, to 10^5 sweeps; and the bound is not idle."""
    n, k, delta = 40, 1.5, 0.1
    rng = np.random.default_rng(12)
    means = bulk(n, 3, 7)
    theta = means.mean() + k * means.std()
    instance = Instance(means, k, bernoulli)
    radius = parts_of(instance, delta).schedule.radius
    used = 0.0
    rows = threshold_streams.no_plug_in_rows(n, k, 5.0)
    guess = directions.Forecast(*np.full((5, n), 0.25))
    for place, size in enumerate(_spade_bound.row_sizes()[:170].tolist()):
        if place == 0:
            continue
        weights = np.exp(spread * rng.normal(size=n))
        counts = _spade_plans.counts_of_row(size, weights, place < 4).astype(np.float64)
        sums, squares = bernoulli(rng, means, counts)
        row = directions.Tally(counts, sums, squares)
        rows = threshold_streams.with_plug_in_row(rows, row, size, guess)
        low = threshold_streams.plug_in_lower_bound(rows, k, _spade_joint.PLUG_IN_SHARE * delta)
        high = threshold_streams.upper_bound(rows, k, _spade_joint.END_SHARE * delta)
        assert low <= theta <= high
        assert max(theta - low, high - theta) <= radius[place]
        if radius[place] < math.inf:
            used = max(used, (theta - low) / radius[place])
    assert radius[169] < 0.02
    assert used > 0.25


def most_pulls_of_an_adversary(parts: Parts, wish: float, rng: np.random.Generator) -> float:
    """Return the pulls of steps of which only (F1) to (F5) and Lemma 4 are known.

    An arm is decided only where Lemma 4, or a lower end above 1, says so; where both kinds of step
    are allowed a focus step is made with probability `wish`; pulls of rows may go to any arm.
    """
    at, n = parts.schedule, parts.n
    room = parts.threshold + parts.indifference - 1.0
    pulls, rows, undecided, reading, focus = np.zeros(n), 0.0, np.ones(n, dtype=bool), -1, 0
    while undecided.any():
        mine = pulls[undecided].sum()
        allowed = reading >= at.first and focus < 20 and mine <= 19.0 / 3.0 * rows
        due = reading < at.first or focus >= 20
        if allowed and not (rows < 28.0 * mine and rng.random() > wish):
            pulls[undecided] += np.ceil(0.08 * pulls[undecided])
            focus += 1
        else:
            assert due or rows < 28.0 * mine
            reading, focus = reading + 1, 0
            before = [
                end[reading - 1] if reading else 0.0 for end in (at.least, at.fewest, at.most)
            ]
            least = at.least[reading] - before[0]
            made = rng.choice([at.fewest[reading] - before[1], at.most[reading] - before[2]])
            served = undecided if rng.random() < 0.5 else np.ones(n, dtype=bool)
            pulls += least
            pulls[served] += (made - n * least) / served.sum()
            rows += made
        radius = at.radius[reading]
        undecided &= parts.gaps < radius + 2.0 * parts.arm_radius(pulls)
        undecided &= radius >= room
    return float(pulls.sum())


SIZES = ((2, False), (12, False), (5, True), (700, True))


@pytest.mark.parametrize(
    ("n", "paired", "instances"),
    quick_and_long([(*size, 10) for size in SIZES], [(*size, 60) for size in SIZES]),
)
def test_no_steps_that_the_facts_allow_exceed_the_bound(
    n: int, paired: bool, instances: int
) -> None:
    rng, nearest = np.random.default_rng(n), math.inf
    for _ in range(instances):
        means = rng.random(n) ** rng.choice([1.0, 3.0])
        k = rng.uniform(0.0, min(3.0, (n - 1) ** 0.5))
        parts = Parts(means, k, 0.1, indifference=rng.choice([0.0, 0.1]), paired=paired)
        if parts.gaps[0] < 1e-3:
            continue
        bounds = [parts.pulls(split) for split in _spade_bound.SPLITS]
        most = min(*bounds, parts.pulls_beyond_reach())
        if most < math.inf:
            for wish in (0.0, 0.5, 1.0):
                nearest = min(nearest, most / most_pulls_of_an_adversary(parts, wish, rng))
    assert 1.0 <= nearest < 10.0


def test_forced_pairs_are_counted() -> None:
    """One arm next to the threshold, two far from it: LONGEST_FOCUS is what brings rows."""
    means = np.full(1100, 0.1)
    means[:20], means[20] = 0.9, 0.1 + 2.0 * 0.1080 + 0.03
    instance = Instance(means, 2.0, bernoulli)
    parts = parts_of(instance, 0.1)
    most = 0
    for step in steps(spade_for(instance, 0.1), instance, 7):
        most = most + 1 if not step.row else 0
        assert most <= _spade_plans.LONGEST_FOCUS
    assert parts.forced(1.08**39) == 1
    assert parts.forced(1.0) == 0
    assert parts.forced(0.01) == 0


@pytest.mark.long
def test_pulls_stay_below_the_bound() -> None:
    """Each of 68 runs may exceed its bound with probability 0.01; false alarm 1e-6.

    So more than 7 of them fail this test; no run of `test_lemmas_along_runs` exceeds its bound.
    """
    runs, above, delta = 0, 0, 0.01
    for name, instance in INSTANCES.items():
        most = spade_pulls_bound(**instance.question, delta=delta)
        assert most < math.inf, name
        for seed in range(2 if "hybrid" in name else 4):
            spade = spade_for(instance, delta)
            deque(steps(spade, instance, seed), maxlen=0)
            assert spade.done
            runs, above = runs + 1, above + int(spade.pulls.sum() > most)
    assert runs == 68
    assert_error_rate(above, runs, delta, false_alarm=1e-6)


class TestBound:
    means = bulk(1100, 40, 1)

    def bound(self, **changed: Any) -> float:
        words: dict[str, Any] = {"means": self.means, "k": 2.0, "delta": 0.1} | changed
        return spade_pulls_bound(**words)

    def test_is_below_that_of_ade_and_grows_as_delta_falls(self) -> None:
        assert self.bound(delta=0.01) > self.bound()
        assert 20.0 * self.bound() < ade_pulls_bound(self.means, k=2.0, delta=0.1)

    def test_units_and_mirrors_do_not_matter(self) -> None:
        wide = self.bound(means=8.0 * self.means - 3.0, bounds=(-3.0, 5.0))
        assert wide == pytest.approx(self.bound(), rel=1e-6)
        assert self.bound(means=1.0 - self.means, k=-2.0) == pytest.approx(self.bound(), rel=1e-6)

    def test_smaller_gaps_cost_more_like_their_inverse_squares(self) -> None:
        """Without the quiet arms' rows: an arm at distance g costs about 1/g^2."""
        theta = self.means.mean() + 2.0 * self.means.std()
        costs = []
        for gap in (1e-3, 1e-4):
            means = self.means.copy()
            means[0] = theta
            for _ in range(50):
                means[0] = means.mean() + 2.0 * means.std() - gap
            costs.append(self.bound(means=means))
        assert 50.0 < costs[1] / costs[0] < 200.0

    @pytest.mark.parametrize(
        ("n", "scales"),
        quick_and_long([(3, 20), (400, 30)], [(3, 60), (30, 60), (600, 60), (2000, 60)]),
    )
    def test_has_the_shape_of_the_corollary(self, n: int, scales: int) -> None:
        """Up to 512 arms down to the smallest gaps and spreads for which it is proven."""
        rng, checked = np.random.default_rng(n), 0
        for scale in 10.0 ** rng.uniform(-4.5, 0.0, scales):
            k = rng.choice([0.0, 0.5, 1.4])
            means = 0.5 + scale * (rng.random(n) ** rng.choice([0.2, 1.0, 4.0]) - 0.5)
            sigma = means.std()
            gap = np.abs(means - (means.mean() + k * sigma))
            if gap.min() < 1e-5 * (1.0 + k):
                continue
            checked += 1
            terms = (gap**-2.0).sum() + (1.0 + k * k) / gap.min() ** 2 + n
            terms += (1.0 + k) * math.sqrt(n) / (sigma * gap.min())
            L = 1.0 + math.log(n / (0.1 * gap.min()))
            assert self.bound(means=means, k=k) < 500.0 * n**0.05 * L**2 * terms
        assert checked >= 10

    def test_the_joint_form_knows_no_spread_that_is_next_to_nothing(self) -> None:
        means = 0.5 + 1e-6 * np.linspace(-1.0, 1.0, 10)
        assert self.bound(means=means, k=2.0) == math.inf

    def test_an_indifference_and_a_margin_may_make_it_finite(self) -> None:
        equal = np.full(2000, 0.4)
        assert self.bound(means=equal, indifference=0.1) == math.inf
        assert self.bound(means=equal, margin=0.1) < self.bound(means=equal, margin=0.05) < math.inf
        on_it = np.repeat([0.0, 1.0], 1000)
        assert self.bound(means=on_it, k=1.0, indifference=0.1) < math.inf
        assert self.bound(indifference=0.1) < self.bound()

    def test_no_bound_is_told_where_none_is_proven(self) -> None:
        assert self.bound(means=np.linspace(0.0, 1.0, 600), margin=0.1) == math.inf
        assert self.bound(k=-1.0, margin=0.1) == math.inf
        for n in (2, 3, 20, 512, 513, 1025):
            assert self.bound(means=np.linspace(0.0, 1.0, n), k=0.9) < math.inf

    def test_no_arm_can_be_an_outlier(self) -> None:
        assert self.bound(means=[0.1, 0.9, 0.2], k=3.0) == 0.0

    def test_an_arm_on_the_threshold_has_no_bound(self) -> None:
        assert self.bound(means=np.full(2000, 0.4)) == math.inf
        assert self.bound(means=np.repeat([0.0, 1.0], 1000), k=1.0) == math.inf

    def test_arguments_are_checked(self) -> None:
        with pytest.raises(InvalidParameter, match="delta must be strictly between 0 and 1"):
            self.bound(delta=1.0)
        with pytest.raises(InvalidParameter, match="k must be a finite number"):
            self.bound(k=math.inf)
        with pytest.raises(InvalidParameter, match="margin must be a finite number"):
            self.bound(margin=-0.1)
        with pytest.raises(InvalidParameter, match="means must lie within the bounds 0 and 1"):
            self.bound(means=[0.5, 1.5])
