"""Rules: thresholds by hand, bounds over boxes by brute force, what bounds hang on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from oddarms import Question
from oddarms.problem import FloatArray
from oddarms.rules import (
    Absolute,
    Control,
    Mad,
    Quantile,
    Rule,
    Sigma,
    Tukey,
    gaps_to_thresholds,
    rule_of,
    true_outliers,
)
from oddarms.rules._order import (
    PIECES,
    holds_of,
    middle,
    quartiles,
    separate_bounds,
)

FIVE = np.array([0.4, 0.1, 0.9, 0.3, 0.2])


class TestThresholdsByHand:
    def test_the_median_is_the_mth_largest(self) -> None:
        # of 5 the third, of 4 the second largest
        assert [middle(n) for n in (2, 3, 4, 5, 6, 7)] == [2, 2, 3, 3, 4, 4]
        assert Mad(k=0.0).threshold(FIVE) == 0.3
        assert Mad(k=0.0).threshold(np.array([0.1, 0.2, 0.3, 0.4])) == 0.3

    def test_mad(self) -> None:
        # |y - 0.3| = 0.1, 0.2, 0.6, 0, 0.1: the third smallest is 0.1
        assert Mad(k=3.0).threshold(FIVE) == pytest.approx(0.6)
        assert Mad(k=-1.0).threshold(FIVE) == pytest.approx(0.2)
        # four means, |y - 0.3| = 0.2, 0.1, 0, 0.1: the third smallest is 0.1
        assert Mad(k=2.0).threshold(np.array([0.1, 0.2, 0.3, 0.4])) == pytest.approx(0.5)

    def test_tukey(self) -> None:
        assert [quartiles(n) for n in (2, 4, 5, 8, 9, 100)] == [
            (1, 2), (1, 4), (2, 4), (2, 7), (3, 7), (25, 76),
        ]  # fmt: skip
        # Q1 = 0.2, Q3 = 0.4
        assert Tukey(k=1.5).threshold(FIVE) == pytest.approx(0.7)

    def test_quantile(self) -> None:
        rule = Quantile(share=0.6)
        assert rule.threshold(FIVE) == pytest.approx(0.35)
        assert rule.outliers(FIVE).tolist() == [True, False, True, False, False]

    @pytest.mark.parametrize(
        ("share", "n", "below"),
        [(0.9, 10, 9), (0.29, 100, 29), (0.01, 10, 1), (0.99, 10, 9), (0.5, 3, 1), (0.5, 2, 1)],
    )
    def test_arms_below_a_quantile(self, share: float, n: int, below: int) -> None:
        assert Quantile(share=share).below(n) == below
        means = np.random.default_rng(1).random(n)
        assert Quantile(share=share).outliers(means).sum() == n - below

    def test_control(self) -> None:
        rule = Control(index=3)
        assert rule.threshold(FIVE) == 0.3
        assert rule.outliers(FIVE).tolist() == [True, False, True, False, False]
        assert (
            Control(index=3, margin=0.2).outliers(FIVE).tolist()
            == [False] * 2 + [True] + [False] * 2
        )

    def test_absolute(self) -> None:
        assert Absolute(floor=0.4).outliers(FIVE).tolist() == [True, False, True, False, False]
        assert Absolute(floor=0.4).bounds(FIVE - 0.1, FIVE + 0.1) == (0.4, 0.4)

    def test_margin_and_floor_raise_any_of_them(self) -> None:
        assert Mad(k=1.0, margin=0.5).threshold(FIVE) == pytest.approx(0.8)
        assert Tukey(k=0.0, margin=0.05).threshold(FIVE) == pytest.approx(0.4)
        assert Quantile(share=0.6, floor=0.85).threshold(FIVE) == 0.85


class TestQuestions:
    @pytest.mark.parametrize(
        ("words", "rule"),
        [
            ({"rule": "mad"}, Mad(k=3.0)),
            ({"rule": "mad", "k": 2.0, "margin": 5.0}, Mad(k=2.0, margin=0.5)),
            ({"rule": "tukey"}, Tukey(k=1.5)),
            ({"rule": "quantile", "quantile": 0.8}, Quantile(share=0.8)),
            ({"rule": "control", "control": "c"}, Control(index=2)),
            ({"rule": "absolute", "floor": 4.0}, Absolute(floor=0.6)),
            ({"rule": "absolute", "floor": 4.0, "side": "lower"}, Absolute(floor=0.4)),
        ],
    )
    def test_their_rules(self, words: dict[str, Any], rule: Rule) -> None:
        question = Question(["a", "b", "c"], bounds=(-2, 8), **{"margin": 0, **words})
        assert rule_of(question) == rule
        assert question.algorithm == "lucb"

    def test_the_lower_side_is_a_mirror(self) -> None:
        means = np.array([0.1, 0.5, 0.55, 0.6, 0.62, 0.65])
        for words in ({"rule": "mad"}, {"rule": "tukey"}, {"rule": "quantile", "quantile": 0.84}):
            found = true_outliers(Question(6, side="both", margin=0, **words), means)  # type: ignore[arg-type]
            assert found["lower"].tolist() == [True, *[False] * 5]
        # the third largest of the mirrored means is the fourth largest, 0.55: lower median - k MAD
        gaps = gaps_to_thresholds(Question(6, rule="mad", k=1.0, margin=0, side="lower"), means)
        assert gaps[0] == pytest.approx(0.55 - 0.07 - 0.1)

    def test_a_control_has_no_gap(self) -> None:
        gaps = gaps_to_thresholds(
            Question(3, rule="control", control=1, margin=0), np.array([0.1, 0.3, 0.9])
        )
        assert gaps.tolist() == pytest.approx([0.2, math.inf, 0.6])


RULES: list[Rule] = [
    Sigma(k=1.5),
    Sigma(k=-1.0, margin=0.1),
    Mad(k=3.0),
    Mad(k=-2.0),
    Mad(k=2.0, margin=0.2, floor=0.6),
    Tukey(k=1.5),
    Tukey(k=-1.5),
    Tukey(k=1.0, margin=0.3),
    Quantile(share=0.7),
    Quantile(share=0.3, margin=0.1),
    Control(index=0, margin=0.1),
    Control(index=1, floor=0.6),
    Sigma(k=1.0, margin=0.1, floor=0.8),
    Quantile(share=0.5, floor=0.4),
    Absolute(floor=0.5),
]


def random_box(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    """Return intervals of all widths, some without any and some alike."""
    centres = rng.choice([rng.random(n), np.round(rng.random(n), 1)])
    radii = rng.choice([0.0, 0.01, 0.1, 0.5]) * rng.random(n) * (rng.random(n) < 0.8)
    return centres - radii, centres + radii


def points_of(rng: np.random.Generator, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return points of a box: any, at its corners, and in between."""
    shares = rng.random((30, low.size))
    shares[10:20] = shares[10:20].round()
    shares[20:] = np.clip(1.5 * shares[20:] - 0.25, 0.0, 1.0)
    return np.clip(low + shares * (high - low), low, high)


@pytest.mark.parametrize("rule", RULES, ids=repr)
class TestBounds:
    def test_every_point_of_a_box_keeps_to_them(self, rule: Rule) -> None:
        rng = np.random.default_rng(11)
        for n in (2, 3, 5, 6, 12):
            for _ in range(6):
                low, high = random_box(rng, n)
                plain, centre = rule.plain_bounds(low, high), rule.centre_bounds(low, high)
                bounds, (below, above) = rule.bounds(low, high), rule.cutoffs(low, high)
                for y in points_of(rng, low, high):
                    assert plain[0] <= rule.plain(y) <= plain[1]
                    assert centre[0] <= rule.centre(y) + 1e-15
                    assert rule.centre(y) - 1e-15 <= centre[1]
                    assert bounds[0] <= rule.threshold(y) + 1e-15
                    assert rule.threshold(y) - 1e-15 <= bounds[1]
                    outliers = rule.outliers(y)
                    may = np.ones(n, dtype=bool)
                    may[list(rule.exempt)] = False
                    assert not outliers[(high < below) & may].any()
                    assert outliers[(low >= above) & may].all()

    def test_influence_is_the_gradient(self, rule: Rule) -> None:
        y, step = np.random.default_rng(4).random(9), 1e-6
        for value, influence in (
            (rule.plain, rule.plain_influence),
            (rule.centre, rule.centre_influence),
            (rule.threshold, rule.influence),
        ):
            moved = [value(y + step * e) - value(y - step * e) for e in np.eye(9)]
            np.testing.assert_allclose(influence(y), np.array(moved) / (2.0 * step), atol=1e-6)

    def test_narrower_where_they_hang_is_narrower(self, rule: Rule) -> None:
        """Quarter each interval that holds a cutoff, again and again: the cutoffs meet."""
        rng = np.random.default_rng(5)
        y = rng.random(9)
        low, high = y - 0.2 * rng.random(9), y + 0.2 * rng.random(9)
        for _ in range(60):
            held = np.maximum(*rule.holds(y, low, high)) > 0.0
            low, high = (
                np.where(held, (low + 3 * y) / 4, low),
                np.where(held, (high + 3 * y) / 4, high),
            )
        theta, (below, above) = rule.threshold(y), rule.cutoffs(low, high)
        assert below >= theta - 1e-6
        assert above <= theta + 1e-6


class TestMadBounds:
    def test_mostly_narrower_than_the_paper_s(self) -> None:
        rng = np.random.default_rng(6)
        widths = []
        for _ in range(200):
            n, k = int(rng.integers(3, 30)), float(rng.uniform(0.5, 4.0))
            low, high = random_box(rng, n)
            coarse = separate_bounds(low, high, k)
            a, b = coarse.median
            slack = 0.5 * k * (b - a) / PIECES + 1e-12
            lower, upper = Mad(k=k).plain_bounds(low, high)
            assert lower >= coarse.threshold[0] - slack
            assert upper <= coarse.threshold[1] + slack
            if b > a:
                widths.append((upper - lower) / (coarse.threshold[1] - coarse.threshold[0]))
        assert np.mean(widths) < 0.9

    def test_the_paper_s_by_hand(self) -> None:
        low, high = FIVE - 0.05, FIVE + 0.05
        median, mad, nearest, farthest, theta = separate_bounds(low, high, 3.0)
        assert median == pytest.approx((0.25, 0.35))
        np.testing.assert_allclose(nearest, [0.0, 0.1, 0.5, 0.0, 0.0], atol=1e-12)
        np.testing.assert_allclose(farthest, [0.2, 0.3, 0.7, 0.1, 0.2])
        assert mad == pytest.approx((0.0, 0.2))
        assert theta == pytest.approx((0.25, 0.95))


class TestOrderStatistics:
    def test_what_holds_the_median(self) -> None:
        """Of five, the third: lower ends of the upper three, upper ends of the lower three."""
        means = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
        low = np.array([0.0, 0.0, 0.28, 0.2, 0.49])
        high = np.array([0.11, 0.6, 0.32, 0.6, 0.6])
        # L_(3) = 0.2, which arm 3 holds; U_(3) = 0.6, which arm 1 holds, and it alone
        lower, upper = holds_of(means, low, high, 3)
        assert lower.tolist() == [0, 0, 0, 1, 0]
        assert upper.tolist() == [0, 1, 0, 0, 0]
