"""Rewards between the user's units and the algorithm's: checked, scaled to [0, 1], mirrored."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Pulls
from oddarms.errors import InvalidParameter, RewardRejected
from oddarms.problem import FloatArray, IntArray, Question, brief, check_number
from oddarms.statistics.totals import added_up, possible_totals, scaled_totals


class Rewards:
    """What a question's bounds and side make of rewards.

    The algorithm sees (X - a)/(b - a) and, where the lower side is asked for, (b - X)/(b - a).
    """

    def __init__(self, question: Question) -> None:
        self.labels = question.labels
        self.bounds = question.bounds
        self.mirrored = question.side == "lower"

    def scaled(self, values: FloatArray) -> FloatArray:
        """Return rewards as the algorithm sees them."""
        a, b = self.bounds
        return (b - values if self.mirrored else values - a) / (b - a)

    def in_units(self, scaled: Any) -> Any:
        """Return what the algorithm says of rewards in the user's units."""
        a, b = self.bounds
        return b - (b - a) * scaled if self.mirrored else a + (b - a) * scaled

    def ends(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the lower and the upper end of what the algorithm says lies between two values."""
        ends = self.in_units(low), self.in_units(high)
        return ends[::-1] if self.mirrored else ends

    def checked_one(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        a, b = self.bounds
        if type(reward) is float and a <= reward <= b:  # as nearly all are
            return reward
        value = reward.item() if isinstance(reward, np.generic) else reward
        if inspect.iscoroutine(value):
            value.close()
            raise RewardRejected(
                "reward must be a number but got a coroutine: give the `async def` function itself."
            )
        try:
            number = check_number("reward", float(value) if isinstance(value, bool) else value)
        except InvalidParameter as error:
            raise RewardRejected(str(error)) from None
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf if value > 0 else -math.inf
        if not a <= number <= b:
            raise self._outside(f"got {number:g}", number)
        return number

    def _outside(self, got: str, value: float) -> RewardRejected:
        """Return the error of a reward outside the bounds, which says how to go on."""
        a, b = self.bounds
        outside = not math.isnan(value)
        remedy = ": give bounds that hold every reward, or `clip` or `above`" * outside
        error = RewardRejected(
            f"rewards must lie within the bounds [{a:g}, {b:g}] but {got}{remedy}."
        )
        error.outside = outside
        return error

    def checked(self, rewards: npt.ArrayLike, pulls: Pulls) -> FloatArray:
        """Return the rewards of pulls, one for each, if all of them are within the bounds."""
        values = _numbers(rewards)
        if values.shape != (pulls.total,):
            raise RewardRejected(
                f"tell_step() takes one reward per pull asked for, {pulls.total} in all, but got"
                f" {values.size if values.ndim == 1 else f'an array of shape {values.shape}'}."
            )
        a, b = self.bounds
        wrong = ~((values >= a) & (values <= b))
        if wrong.any():
            j = int(np.flatnonzero(wrong)[0])
            arms = np.repeat(pulls.indices, pulls.counts)
            label = self.labels[int(arms[j])]
            error = self._outside(f"arm {label!r} gave {values[j]:g}", float(values[j]))
            error.unabsorbed = [
                (self.labels[i], value)
                for i, value, bad in zip(arms.tolist(), values.tolist(), wrong, strict=True)
                if not bad
            ]
            raise error
        return values

    def totals(self, values: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums and sums of squares of scaled rewards, of groups of these sizes."""
        return added_up(counts, self.scaled(values))

    def checked_totals(
        self, sums: npt.ArrayLike, squares: npt.ArrayLike, pulls: Pulls
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scaled totals of each entry's sum of rewards and of squared rewards."""
        s, q = _numbers(sums), _numbers(squares)
        if s.shape != pulls.counts.shape or q.shape != pulls.counts.shape:
            raise RewardRejected(
                f"tell_step_totals() takes {pulls.counts.size} sums, and as many of squares, one"
                f" per entry asked for, but got {s.size} and {q.size}."
            )
        possible = possible_totals(pulls.counts, s, q, self.bounds)
        for entry in np.flatnonzero(~possible).tolist():
            (a, b), m = self.bounds, int(pulls.counts[entry])
            raise RewardRejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}], but {m} rewards of arm"
                f" {self.labels[int(pulls.indices[entry])]!r} add up to {s[entry]:g}, their squares"
                f" to {q[entry]:g}, which no such rewards do."
            )
        return scaled_totals(pulls.counts, s, q, self.bounds, mirrored=self.mirrored)


def _numbers(values: npt.ArrayLike) -> FloatArray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise RewardRejected(f"rewards must be numbers but got {brief(values)}.") from None
