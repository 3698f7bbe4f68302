"""Margin and floor beside mu + k sigma: an outlier beats the largest of three thresholds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import oddarms
from helpers import quick_and_long
from oddarms import Question, Search, simulate
from oddarms.algorithms._spade_joint import Found, Rules, together
from oddarms.arms import Bernoulli
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray
from oddarms.rules import rule_of, true_outliers
from oddarms.statistics.directions import forecast, tally_of, tally_seen
from oddarms.statistics.evidence import log_mean_above, log_mean_below, log_mix
from oddarms.statistics.threshold_streams import Linear, Lines, mean_lines, no_rows, with_row
from oddarms.statistics.totals import Totals
from oddarms.testing import assert_error_rate

ALPHA = 0.2
FALSE_ALARM = 1e-5  # of each check; there are fewer than 30 here


class TestEvidenceAboutTheMean:
    """`mean_lines` at the truth: it reaches 1/alpha in at most a share alpha of runs."""

    RUNS, ROWS = 150, 12

    def pull(self, rng: np.random.Generator, y: FloatArray, counts: FloatArray) -> Totals:
        total = rng.binomial(counts.astype(np.int64), y).astype(float)
        return Totals(counts, total, total)

    def best_evidence(self, y: FloatArray, margin: float, rng: np.random.Generator) -> FloatArray:
        """Return the largest evidence for what is false of the first arm, over a whole run."""
        n, first, flat = y.size, np.zeros(1, dtype=np.int64), np.zeros(y.size)
        shift, level, best = -margin * n / (n - 1.0), y[:1], np.full(4, -math.inf)
        rows: Linear = no_rows(n, n, 0.0, 4.0)
        totals = self.pull(rng, y, np.full(n, 2.0))
        for row in range(self.ROWS):
            guess, size = forecast(tally_seen(totals)), 1.0 + row // 3
            counts = np.maximum(1.0, np.round(size * rng.choice([0.5, 1.0, 2.0], n)))
            pulled = self.pull(rng, y, counts)
            rows = with_row(rows, tally_seen(pulled), size, flat, guess)
            lead = 3.0 * (np.arange(n) == np.argmax(guess.mean))
            totals = totals.plus(pulled).plus(self.pull(rng, y, lead))
            mine = tally_of(tally_seen(totals), first)
            low = along(mean_lines(rows, first, shift, -1.0), level)
            high = along(mean_lines(rows, first, shift, 1.0), level)
            below, above = log_mean_below(*mine, level)[0], log_mean_above(*mine, level)[0]
            best = np.maximum(best, np.concatenate([low, low + below, high, high + above]))
        return best

    @pytest.mark.parametrize(
        ("others", "margin"),
        quick_and_long([([0.05] * 9, 0.05), ([0.2, 0.5, 0.7], 0.1)], [([0.01] * 4, 0.01)]),
    )
    def test_at_the_truth(self, others: list[float], margin: float) -> None:
        n = len(others) + 1
        y = np.array([np.mean(others) + margin * n / (n - 1.0), *others])
        assert y[0] - y.mean() == pytest.approx(margin)
        children = np.random.default_rng(7).spawn(self.RUNS)
        best = np.array([self.best_evidence(y, margin, rng) for rng in children])
        for errors in (best >= -math.log(ALPHA)).sum(axis=0):
            assert_error_rate(int(errors), self.RUNS, ALPHA, false_alarm=FALSE_ALARM)

    def test_it_finds_out_what_is_true(self) -> None:
        """An arm far from the margin is told from it within a run."""
        far = np.array([0.9, *[0.1] * 9])
        assert self.best_evidence(far, 0.1, np.random.default_rng(0))[3] > 5.0
        assert self.best_evidence(far[::-1].copy(), 0.5, np.random.default_rng(0))[1] > 5.0


def along(lines: Lines, y: FloatArray) -> FloatArray:
    """Return the evidence against thresholds at y."""
    bets = lines.bets[:, None]
    return log_mix(bets * (lines.offset + lines.speed * y) - lines.costs, bets)[0]


class TestTogether:
    def found(self, normal: list[float], outlier: list[float]) -> Found:
        return Found(np.array(normal), np.array(outlier), np.full(len(normal), 0.5))

    def test_an_average_for_normal_and_the_least_for_outliers(self) -> None:
        parts = [self.found([1.0, -math.inf], [2.0, 3.0]), self.found([2.0, 4.0], [5.0, -math.inf])]
        both = together(parts, np.array([0.75, 0.25]))
        wanted = [math.log(0.75 * math.e + 0.25 * math.e**2), math.log(0.25) + 4.0]
        assert both.normal == pytest.approx(wanted)
        assert both.outlier.tolist() == [2.0, -math.inf]

    def test_shares_sum_to_at_most_one(self) -> None:
        for margin, floor, shares in (
            (0.1, -math.inf, [2 / 3, 1 / 3]),
            (0.0, 0.3, [2 / 3, 1 / 3]),
            (0.1, 0.3, [0.5, 0.25, 0.25]),
        ):
            rules = Rules(1.0, 1.1, 0.1, 0.0, 1.0, 10.0, margin, floor)
            assert rules.shares == pytest.approx(shares)


class TestSearches:
    @pytest.mark.parametrize(
        ("rate", "side"),
        quick_and_long(
            [(0.05, "upper"), (0.0, "lower")],
            [(0.0, "upper"), (0.05, "lower"), (0.0, "both"), (0.05, "both")],
        ),
    )
    def test_equals_end(self, rate: float, side: Any) -> None:
        result = oddarms.find(Bernoulli([rate] * 30), margin=0.05, side=side, rng=1)
        assert result.nothing_stands_out
        assert "nothing stands out" in str(result)
        assert all(far < 0.1 for far in result.farthest.values())

    @pytest.mark.parametrize(
        ("n", "words"),
        [
            (12, {"margin": 0.2}),
            (12, {"floor": 0.5}),
            (12, {"margin": 0.1, "floor": 0.5}),
            (1200, {"margin": 0.1, "floor": 0.5}),
        ],
    )
    def test_all_conditions_count(self, n: int, words: dict[str, Any]) -> None:
        """In every form of SPADE."""
        means = np.array([*[0.1] * (n - n // 10), *[0.9] * (n // 10)])
        asked = Question(n, k=1.0, **words)
        assert (true_outliers(asked, means)["upper"] == (means > 0.5)).all()
        result = oddarms.find(Bernoulli(means), k=1.0, **words, rng=2)
        assert result.complete
        assert result.outliers == np.flatnonzero(means > 0.5).tolist()

    def test_a_ceiling_for_the_lower_side(self) -> None:
        means = [0.9] * 10 + [0.6, 0.1]
        words: dict[str, Any] = {"k": 0.5, "side": "lower", "floor": 0.4}
        result = oddarms.find(Bernoulli(means), **words, rng=3)
        assert result.outliers == [11]
        assert result.thresholds["lower"].upper <= 0.4

    @pytest.mark.parametrize("algorithm", quick_and_long(["rr", "wrr"], ["ade"]))
    def test_intervals_of_the_other_algorithms(self, algorithm: str) -> None:
        means = [0.0] * 6 + [0.3, 1.0]
        words: dict[str, Any] = {"k": 0.3, "margin": 0.3, "algorithm": algorithm, "delta": 0.1}
        batch = {} if algorithm == "ade" else {"batch": 100}
        result = oddarms.find(Bernoulli(means), **words, **batch, rng=4)
        assert result.outliers == [7]
        truth = rule_of(result.question).threshold(np.array(means))
        low, high = result.threshold_interval
        assert low <= truth <= high
        assert low >= 0.3

    @pytest.mark.long
    def test_whole_runs_are_right(self) -> None:
        """Arms at the margin's edge, on either side, where a wrong verdict is most likely."""
        means = [0.1] * 18 + [0.16, 0.28]
        found = simulate(means, k=0.5, margin=0.1, delta=0.3, runs=60, rng=6)
        assert found.complete.all()
        assert_error_rate(int((~found.correct).sum()), 60, 0.3, false_alarm=FALSE_ALARM)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"margin": -0.1}, "margin must be at least 0 and less than the width 1 of the bounds"),
        ({"floor": 1.5}, r"floor must lie within the bounds \[0, 1\] but got 1.5"),
        ({"floor": 0.5, "side": "both"}, "A floor has one side"),
        ({"k": -1, "margin": 0.1}, "A margin or a floor requires k >= 0"),
        ({"rule": "absolute"}, "rule 'absolute' requires a floor"),
        ({"rule": "control"}, "rule 'control' requires the parameter control"),
        ({"control": 1}, "control=1 requires rule='control'; the rule is 'sigma'"),
        ({"rule": "control", "control": 9}, "control=9 is not the label of an arm"),
        ({"rule": "quantile"}, "rule 'quantile' requires the parameter quantile"),
        ({"rule": "quantile", "quantile": 1.0}, "quantile must be strictly between 0 and 1"),
        ({"rule": "quantile", "quantile": 0.5, "k": 2}, "The rule 'quantile' has no k"),
        ({"error": "some"}, "error must be 'fwer' or 'fdr' but got 'some'"),
        ({"goal": "budget"}, "goal='budget' requires a budget"),
        ({"algorithm": "rr", "error": "fdr"}, "error must be 'fwer' for the algorithm RR but got"),
        ({"algorithm": "ade", "rule": "mad"}, "rule must be 'sigma' for the algorithm ADE"),
        ({"side": "both", "error": "fdr"}, "side must be 'upper' or 'lower' where error is 'fdr'"),
    ],
)
def test_misuse(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Search(3, **words)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"margin": 0.1}, "at or above the larger of mean + 2 sd and mean + 0.1 of all means?"),
        (
            {"margin": 0.1, "floor": 0.3, "side": "lower"},
            "at or below the smallest of mean - 2 sd, mean - 0.1 and 0.3 of all means?",
        ),
        ({}, "at or above the larger of mean + 2 sd and mean + 0.05 of all means?"),
        ({"bounds": (0, 100)}, "the larger of mean + 2 sd and mean + 5 of all means?"),
        ({"rule": "quantile", "quantile": 0.9}, "at or above the 0.9 quantile of all means?"),
        ({"rule": "mad", "margin": 0}, "at or above median + 3 MAD of all means?"),
        (
            {"rule": "tukey", "side": "both", "margin": 0},
            "Q3 + 1.5 IQR, or at or below Q1 - 1.5 IQR, of all means?",
        ),
        ({"rule": "absolute", "floor": 0.01}, "at or above 0.01?"),
        ({"rule": "control", "control": 2}, "at or above that of arm 2 + 0.05?"),
    ],
)
def test_the_question_in_words(words: dict[str, Any], text: str) -> None:
    assert Question(30, **words).sentence().endswith(text)
