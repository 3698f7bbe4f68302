"""Rewards between the user's units and the algorithm's: checked, scaled to [0, 1], mirrored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Pulls
from oddarms.errors import InvalidParameter, RewardRejected
from oddarms.problem import FloatArray, Question, check_number


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

    def scaled_one(self, value: float) -> float:
        """Return one reward as the algorithm sees it."""
        a, b = self.bounds
        return (b - value if self.mirrored else value - a) / (b - a)

    def in_units(self, scaled: Any) -> Any:
        """Return what the algorithm says of rewards in the user's units."""
        a, b = self.bounds
        return b - (b - a) * scaled if self.mirrored else a + (b - a) * scaled

    def checked_one(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        value = reward.item() if isinstance(reward, np.generic) else reward
        a, b = self.bounds
        try:
            number = check_number("reward", float(value) if isinstance(value, bool) else value)
        except InvalidParameter as error:
            raise RewardRejected(str(error)) from None
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf if value > 0 else -math.inf
        if not a <= number <= b:
            raise RewardRejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}] but got {number:g}."
            )
        return number

    def checked(self, rewards: npt.ArrayLike, pulls: Pulls) -> FloatArray:
        """Return the rewards of pulls, one for each, if all of them are within the bounds."""
        values = _numbers(rewards)
        if values.shape != (pulls.total,):
            raise RewardRejected(
                f"rewards must be {pulls.total}, one per pull asked for, but got"
                f" {values.size if values.ndim == 1 else f'an array of shape {values.shape}'}."
            )
        a, b = self.bounds
        wrong = ~((values >= a) & (values <= b))
        if wrong.any():
            j = int(np.flatnonzero(wrong)[0])
            arms = np.repeat(pulls.indices, pulls.counts)
            label = self.labels[int(arms[j])]
            error = RewardRejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}]"
                f" but arm {label!r} gave {values[j]:g}."
            )
            error.unabsorbed = [
                (self.labels[i], value)
                for i, value, bad in zip(arms.tolist(), values.tolist(), wrong, strict=True)
                if not bad
            ]
            raise error
        return values

    def totals(self, values: FloatArray, pulls: Pulls) -> tuple[FloatArray, FloatArray]:
        """Return each entry's sum and sum of squares of scaled rewards."""
        size = pulls.counts.size
        entries = np.repeat(np.arange(size), pulls.counts)
        scaled = self.scaled(values)
        return _sum_by(entries, scaled, size), _sum_by(entries, scaled * scaled, size)

    def checked_totals(
        self, sums: npt.ArrayLike, squares: npt.ArrayLike, pulls: Pulls
    ) -> tuple[FloatArray, FloatArray]:
        """Return the scaled totals of each entry's sum of rewards and of squared rewards."""
        s, q = _numbers(sums), _numbers(squares)
        self._check_sums(s, q, pulls)
        a, b = self.bounds
        m, R = pulls.counts, b - a
        if self.mirrored:
            scaled, scaled_squares = (m * b - s) / R, (m * b * b - 2.0 * b * s + q) / (R * R)
        else:
            scaled, scaled_squares = (s - m * a) / R, (q - 2.0 * a * s + m * a * a) / (R * R)
        self._check_squares(scaled, scaled_squares, pulls)
        return scaled, np.clip(scaled_squares, scaled * scaled / m, scaled)

    def _check_sums(self, sums: FloatArray, squares: FloatArray, pulls: Pulls) -> None:
        if sums.shape != pulls.counts.shape or squares.shape != pulls.counts.shape:
            raise RewardRejected(
                f"totals must be {pulls.counts.size}, one per entry asked for,"
                f" but got {sums.size} sums and {squares.size} sums of squares."
            )
        a, b = self.bounds
        m = pulls.counts
        slack = 1e-9 * m * max(abs(a), abs(b), b - a)
        ok = (sums >= m * a - slack) & (sums <= m * b + slack) & np.isfinite(squares)
        if not ok.all():
            j = int(np.flatnonzero(~ok)[0])
            raise RewardRejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}] but {m[j]} rewards of arm"
                f" {self.labels[int(pulls.indices[j])]!r} add up to {sums[j]:g}."
            )

    def _check_squares(self, sums: FloatArray, squares: FloatArray, pulls: Pulls) -> None:
        """Check that rewards in [0, 1] can have these sums and sums of squares."""
        m = pulls.counts
        slack = 1e-6 * m
        wrong = (squares > sums + slack) | (squares < sums * sums / m - slack)
        if wrong.any():
            label = self.labels[int(pulls.indices[np.flatnonzero(wrong)[0]])]
            raise RewardRejected(
                f"totals of arm {label!r} must be those of rewards within the bounds, but no"
                " such rewards have this sum and this sum of squares."
            )


def _numbers(values: npt.ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(values).__name__
        raise RewardRejected(f"rewards must be numbers but got {kind} of others.") from None


def _sum_by(entries: npt.NDArray[np.int64], values: FloatArray, size: int) -> FloatArray:
    return np.bincount(entries, values, minlength=size).astype(np.float64)
