"""Labels, bounds, sides and misuse: what a user may ask, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter, TwoThresholds
from oddarms.problem import IntArray, Label
from oddarms.testing._expect import raises
from oddarms.testing._setting import Setting, Streams, assert_same, drive


class Rescaled(Streams):
    """The rewards of `Streams` in other units: a + (b - a) x, or a + b - x of the mirrored side."""

    def __init__(self, means: Any, transform: Callable[[float], float]) -> None:
        super().__init__(means)
        self._transform = transform

    def __call__(self, arm: int) -> float:
        """Return the next reward of an arm, transformed."""
        return self._transform(super().__call__(arm))


class InputConformance(Setting):
    """The same question in other words has the same answer."""

    def test_any_hashable_is_a_label(self) -> None:
        """Results speak of arms by their labels, in the order given."""
        pool: list[Label] = ["b", ("a", 1), 3.5, None, frozenset({2}), "a", 7, b"x", -1, True]
        labels = pool[: len(self.easy.means)]
        result = drive(self.search(labels), Streams(self.easy.means))
        assert result.labels == tuple(labels)
        assert result.outliers == [labels[i] for i in self.truth()]
        assert result.normal == [x for i, x in enumerate(labels) if i not in self.truth()]
        assert result.undecided == []

    def test_labels_do_not_change_the_answer(self) -> None:
        """Names are only names."""
        named = drive(self.search([f"arm {i}" for i in range(len(self.easy.means))]), self._easy())
        numbered = drive(self.search(), self._easy())
        assert named.decisions.tolist() == numbered.decisions.tolist()
        assert named.pulls_per_arm.tolist() == numbered.pulls_per_arm.tolist()

    def _easy(self) -> Streams:
        return Streams(self.easy.means)

    def test_labels_must_be_unique_and_hashable(self) -> None:
        """Two arms of one name cannot be told apart."""
        with raises(InvalidParameter, "labels must be unique", "'a' appears twice"):
            self.search(["a", "b", "a"])
        with raises(InvalidParameter, "labels must be hashable", "[1]"):
            self.search(["a", [1]])  # type: ignore[list-item]

    def test_other_bounds_give_the_same_answer_in_their_units(self) -> None:
        """Rewards -3 + 8x within [-3, 5] are rewards x within [0, 1], and so are the results."""
        unit = drive(self.search(), self._easy())
        wide = drive(
            self.search(bounds=(-3, 5)), Rescaled(self.easy.means, lambda x: -3.0 + 8.0 * x)
        )
        assert wide.decisions.tolist() == unit.decisions.tolist()
        assert wide.pulls_per_arm.tolist() == unit.pulls_per_arm.tolist()
        assert wide.round == unit.round
        np.testing.assert_allclose(wide.means, -3.0 + 8.0 * unit.means)
        np.testing.assert_allclose(wide.intervals, -3.0 + 8.0 * unit.intervals)
        np.testing.assert_allclose(wide.threshold, -3.0 + 8.0 * unit.threshold)
        np.testing.assert_allclose(
            wide.threshold_interval, -3.0 + 8.0 * np.array(unit.threshold_interval)
        )

    def test_lower_is_upper_on_mirrored_rewards(self) -> None:
        """Low outliers of x are the high outliers of 1 - x, at the same cost."""
        upper = drive(self.search(), self._easy())
        lower = drive(self.search(side="lower"), Rescaled(self.easy.means, lambda x: 1.0 - x))
        assert lower.low == upper.high == self.truth()
        assert lower.high == []
        assert lower.pulls_per_arm.tolist() == upper.pulls_per_arm.tolist()
        np.testing.assert_allclose(lower.means, 1.0 - upper.means)
        np.testing.assert_allclose(lower.intervals, 1.0 - upper.intervals[:, ::-1])
        np.testing.assert_allclose(lower.threshold, 1.0 - upper.threshold)

    def test_both_sides_at_once(self) -> None:
        """High and low outliers, and a threshold for each side."""
        result = self.find(side="both", budget=4 * self.easy_budget)
        assert result.complete
        assert sorted(result.outliers, key=str) == self.truth("both")
        assert result.high == self.truth("upper")
        assert result.low == [i for i in self.truth("lower") if i not in self.truth("upper")]
        assert set(result.thresholds) == {"upper", "lower"}
        for estimate, low, high in result.thresholds.values():
            assert low <= estimate <= high
        with raises(TwoThresholds, "result.thresholds"):
            _ = result.threshold

    def test_both_sides_within_a_budget(self) -> None:
        """A search of both sides keeps to its budget as well."""
        result = self.find(side="both", budget=self.short_budget)
        assert result.pulls <= self.short_budget

    def test_parameters_are_checked(self) -> None:
        """A message names the parameter, the rule and the value."""
        for delta in (0.0, 1.0, -0.1, 2.0, float("nan")):
            with raises(InvalidParameter, "delta must be strictly between 0 and 1", f"{delta}"):
                self.search(delta=delta)
        for k in (float("nan"), float("inf")):
            with raises(InvalidParameter, "k must be a finite number", f"{k}"):
                self.search(k=k)
        for bounds in ((1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (0.0,)):
            with raises(InvalidParameter, "bounds must be"):
                self.search(bounds=bounds)
        for budget in (-1, 2.5, float("inf")):
            with raises(InvalidParameter, "budget must be a whole number", f"{budget}"):
                self.search(budget=budget)
        with raises(InvalidParameter, "side must be 'upper', 'lower' or 'both'", "'left'"):
            self.search(side="left")

    def test_two_arms_are_needed(self) -> None:
        """One arm has nothing to be compared with."""
        with raises(InvalidParameter, "arms must be at least 2 but got 1"):
            self.search(["alone"])
        with raises(InvalidParameter, "arms must be at least 2 but got 0"):
            self.search([])

    def test_unknown_options_are_named(self) -> None:
        """An option the algorithm does not have is an error, on each side."""
        with raises(TypeError, "options must be those of", "but got 'no_such_option'"):
            self.search(no_such_option=1)
        with raises(TypeError, "but got 'no_such_option'"):
            self.search(no_such_option=1, side="both")

    def test_arms_can_be_a_source_of_their_own(self) -> None:
        """Any object with labels and `pull(indices, counts)` will do."""
        rewards = self._easy()

        class Own:
            labels = tuple(range(len(rewards.means)))

            def pull(self, indices: IntArray, counts: IntArray) -> list[float]:
                return [rewards(int(i)) for i in np.repeat(indices, counts)]

        own = self.find(Own())
        assert own.outliers == self.truth()
        assert_same(own, drive(self.search(rng=np.random.default_rng(4).spawn(2)[0]), self._easy()))
