"""Arms of which none stands out: the commonest case, and it must end soon.

A margin above the mean of arms that never fail takes log(n/delta)/-log(1 - margin) samples of each
at least: that many zeros a rate of `margin` shows with probability delta/n.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import oddarms
from helpers import quick_and_long
from oddarms.algorithms import _spade_joint
from oddarms.algorithms._spade_certificates import HybridCertificate, JointCertificate
from oddarms.algorithms._spade_joint import BOX_SHARE, MU_SHARE
from oddarms.arms import Bernoulli
from oddarms.problem import FloatArray
from oddarms.rules import Sigma
from oddarms.search import Result
from oddarms.statistics.binomial import most_errors
from oddarms.statistics.directions import forecast, tally_seen
from oddarms.statistics.totals import Totals
from oddarms.testing import assert_error_rate

MARGIN, DELTA = 0.05, 0.05


def limit(n: int) -> float:
    """Return the samples of each arm that no search can do without."""
    return math.log(n / DELTA) / -math.log(1.0 - MARGIN)


def search(n: int, rate: float, seed: int = 0, most: float = 4.0) -> Result:
    budget = int(most * limit(n) * n)
    arms = Bernoulli([rate] * n)
    return oddarms.find(arms, k=2, margin=MARGIN, delta=DELTA, budget=budget, rng=seed)


@pytest.mark.parametrize(
    "n",
    quick_and_long(
        [10, 71, 512, 513, 10_000],
        [15, 41, 416, 1000, 1025, *range(11, 500, 7), *range(520, 1100, 40), 2000, 5000],
    ),
)
def test_arms_that_never_fail(n: int) -> None:
    result = search(n, 0.0)
    assert result.nothing_stands_out
    assert result.pulls <= 1.7 * limit(n) * n


@pytest.mark.parametrize(
    ("n", "seeds"),
    quick_and_long(
        [(10, 2), (416, 1)],
        [(10, 8), (25, 4), (100, 2), (520, 1), (1000, 2), (300, 4), (14, 20), (1025, 2)],
    ),
)
def test_arms_that_fail_once_in_a_hundred(n: int, seeds: int) -> None:
    """On average, and no single search takes much more."""
    pulls = [search(n, 0.01, seed) for seed in range(seeds)]
    assert all(result.nothing_stands_out for result in pulls)
    assert np.mean([result.pulls for result in pulls]) <= 3.0 * limit(n) * n


@pytest.mark.parametrize("n", quick_and_long([150], [416, 600, 1000]))
def test_arms_that_fail_at_the_rate_of_the_margin(n: int) -> None:
    """Where bets on the others' mean are too large for each arm's own evidence."""
    assert search(n, 0.05, most=7.0).nothing_stands_out


@pytest.mark.parametrize("side", ["lower", "both"])
def test_the_other_sides(side: str) -> None:
    """Arms that never succeed, for "lower"; the two of both sides have delta/2 each."""
    arms = Bernoulli([1.0 if side == "lower" else 0.0] * 300)
    result = oddarms.find(arms, k=2, margin=MARGIN, delta=DELTA, side=side, rng=0)
    assert result.nothing_stands_out
    assert result.pulls <= (1.7 if side == "lower" else 1.85) * limit(300) * 300


class TestEvidenceAtTheTruth:
    """An arm just at the mean plus the margin: "it is normal" must be said rarely.

    Its evidence for that, without what weights add, reaches log(1/alpha) in a share alpha of the
    runs at most, plus what the intervals cost. Where all others never fail, the least mean that
    "normal" excludes is the arm's own, so nothing is given away. A rate of 0.47 is found out
    (`test_power`), as where that least mean is taken to be 1.3 times as large.
    """

    RUNS, ROWS, ALPHA = 150, 26, 0.2
    CASES = (
        (JointCertificate, 5, 0.0, 0.3, 0.5),
        pytest.param(JointCertificate, 12, 0.02, 0.1, 1.0, marks=pytest.mark.long),
        pytest.param(JointCertificate, 12, 0.0, 0.1, 1.5, marks=pytest.mark.long),
        pytest.param(HybridCertificate, 20, 0.0, 0.15, 1.5, marks=pytest.mark.long),
    )

    @pytest.fixture(autouse=True)
    def equal_weights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_spade_joint, "log_weight", lambda _n, others, *_: 0.0 * others)

    def wrong(self, form: type, y: FloatArray, rule: Sigma, rng: np.random.Generator) -> bool:
        """Return whether the first arm is ever called normal in a run in the manner of SPADE."""
        n, first = y.size, np.zeros(1, dtype=np.int64)
        certificate = form(n, rule, self.ALPHA, 0.0)
        certificate.rules = certificate.rules._replace(log_level=-math.log(self.ALPHA))
        totals = self.pull(rng, y, np.full(n, 2.0))
        for row in range(self.ROWS):
            guess, size = forecast(tally_seen(totals)), 1.0 + row // 6 * 2
            for _ in range(2 if certificate.uniform else 1):
                pulled = self.pull(rng, y, np.full(n, size))
                certificate.absorb_row(tally_seen(pulled), size, guess)
                totals = totals.plus(pulled)
            totals = totals.plus(self.pull(rng, y, 3.0 * (np.arange(n) == 0)))
            tally = tally_seen(totals)
            if row % 4 == 1:
                certificate.decide(first, tally, forecast(tally))
        return bool(certificate.standing.verdicts[0])

    def pull(self, rng: np.random.Generator, y: FloatArray, counts: FloatArray) -> Totals:
        ones = rng.binomial(counts.astype(np.int64), y).astype(float)
        return Totals(counts, ones, ones)

    @pytest.mark.parametrize(("form", "n", "rate", "margin", "k"), CASES)
    def test_normal_is_said_rarely(
        self, form: type, n: int, rate: float, margin: float, k: float
    ) -> None:
        y = np.array([rate + margin * n / (n - 1.0), *[rate] * (n - 1)])
        rule = Sigma(k=k, margin=margin)
        assert rule.threshold(y) == pytest.approx(y[0])
        children = np.random.default_rng(17).spawn(self.RUNS)
        wrong = sum(self.wrong(form, y, rule, rng) for rng in children)
        price = (BOX_SHARE + 2.0 * MU_SHARE) * self.ALPHA
        assert_error_rate(wrong, self.RUNS, self.ALPHA + price, false_alarm=1e-6)

    def test_power(self) -> None:
        rate = self.ALPHA * (1.0 + BOX_SHARE + 2.0 * MU_SHARE)
        assert binom.sf(most_errors(self.RUNS, rate), self.RUNS, 0.47) > 0.95

    def test_it_is_said_where_it_is_true(self) -> None:
        """And an arm a little lower is called normal in most runs, so the check can see errors."""
        y, rule = np.array([0.05, *[0.0] * 4]), Sigma(k=0.5, margin=0.3)
        children = np.random.default_rng(18).spawn(20)
        assert sum(self.wrong(JointCertificate, y, rule, rng) for rng in children) > 15
