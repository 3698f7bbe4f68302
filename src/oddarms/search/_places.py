"""The sequences of all arms' rewards: what was used, what the step has, what waits."""

from __future__ import annotations

from itertools import islice

import numpy as np

from oddarms.algorithms import Pulls, no_pulls
from oddarms.problem import FloatArray, IntArray
from oddarms.search._step import Out, Step

Place = tuple[int, int]
"""An arm and a place in the sequence of its rewards."""


class Sequences:
    """Each arm's sequence of rewards, scaled; the text of `oddarms.search._search` has the rules.

    Attributes
    ----------
    used
        Per arm the places that finished steps have taken; the step takes the next ones.
    step
        The step in progress.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.used: IntArray = np.zeros(n, dtype=np.int64)
        self.step = Step(no_pulls(), self.used)
        self._ahead: dict[int, dict[int, float]] = {}
        self._spare: dict[int, list[float]] = {}

    @property
    def waiting(self) -> int:
        """Rewards that wait for a later step."""
        return sum(map(len, self._ahead.values())) + sum(map(len, self._spare.values()))

    def begin(self, pulls: Pulls) -> None:
        """Begin a step, with what waits for it."""
        self.step = Step(pulls, self.used)
        for arm in [arm for arm in self._ahead if self.step.end(arm) is not None]:
            waiting, end = self._ahead[arm], self._end(arm)
            for place in sorted(place for place in waiting if place < end):
                self.step.fill(arm, place, waiting.pop(place))
            if not waiting:
                del self._ahead[arm]
        for arm in [arm for arm in self._spare if self.step.wants(arm)]:
            for reward in self._spare.pop(arm):
                self.take_spare(arm, reward)

    def finish(self) -> tuple[Pulls, FloatArray, FloatArray]:
        """End the step, all of whose rewards are there; return its pulls and their totals."""
        step = self.step
        np.add.at(self.used, step.indices, step.counts)
        return Pulls(step.indices, step.counts), step.sums, step.squares

    def take(self, arm: int, place: int, reward: float) -> None:
        """Take the reward of a place: for the step, for a later one, or as a spare."""
        end = self._end(arm)
        if place >= end:
            later = self._ahead.setdefault(arm, {})
            if place not in later:
                later[place] = reward
                return
        elif place >= self.used[arm] and self.step.fill(arm, place, reward):
            return
        self.take_spare(arm, reward)

    def take_spare(self, arm: int, reward: float) -> None:
        """Take a reward that has no place of its own."""
        place = self.step.first_free(arm)
        if place is None:
            self._spare.setdefault(arm, []).append(reward)
        else:
            self.step.fill(arm, place, reward)

    def forget(self) -> None:
        """Drop what waits, as no step will follow."""
        self._ahead, self._spare = {}, {}

    # Places to be pulled

    def open_in_step(self, most: int, out: Out) -> list[Place]:
        """Return places of the step that have no reward and are not out."""
        missing = self.step.missing_per_arm(self.n)
        for arm, places in out.items():
            first, end = int(self.used[arm]), self._end(arm)
            missing[arm] -= sum(first <= place < end for place in places)
        wanted = np.flatnonzero(missing > 0)
        wanted = wanted[: int(np.searchsorted(np.cumsum(missing[wanted]), most)) + 1]
        found = [
            (arm, place)
            for arm in wanted.tolist()
            for place in self.step.free_places(arm, out.get(arm, ()), int(missing[arm]))
        ]
        return found[:most]

    def open_ahead(self, most: int, out: Out, weights: FloatArray, room: float) -> list[Place]:
        """Return places behind the step, so that each arm has its share of those ahead.

        Parameters
        ----------
        most
            How many places at most.
        out
            The places that are out.
        weights
            The arms' shares.
        room
            How many rewards may wait or be out ahead, those that do included.
        """
        held: IntArray = np.zeros(self.n, dtype=np.int64)
        for arm, waiting in self._ahead.items():
            held[arm] += len(waiting)
        for arm, places in out.items():
            held[arm] += sum(place >= self._end(arm) for place in places)
        counts = levelled(held, weights, min(most, int(room) - int(held.sum())))
        return [
            (arm, place)
            for arm in np.flatnonzero(counts).tolist()
            for place in self._free_ahead(arm, int(counts[arm]), out)
        ]

    def _free_ahead(self, arm: int, most: int, out: Out) -> list[int]:
        held, gone = self._ahead.get(arm, ()), out.get(arm, ())
        start = self._end(arm)
        candidates = range(start, start + len(held) + len(gone) + most)
        return list(islice((p for p in candidates if p not in held and p not in gone), most))

    def _end(self, arm: int) -> int:
        end = self.step.end(arm)
        return int(self.used[arm]) if end is None else end


def levelled(held: IntArray, weights: FloatArray, more: int) -> IntArray:
    """Return how many more each arm gets, so that all are about in proportion to the weights.

    Poured in like water: up to the level L at which sum_i max(L w_i - held_i, 0) is what there is,
    rounded down, and what is left to those whom the rounding took most from.
    """
    counts: IntArray = np.zeros(held.size, dtype=np.int64)
    arms = np.flatnonzero(weights > 0.0)
    if more <= 0 or arms.size == 0:
        return counts
    w, h = weights[arms], held[arms]
    low, high = 0.0, (more + float(h.sum())) / float(w.min())
    for _ in range(50):
        level = 0.5 * (low + high)
        fits = float(np.maximum(level * w - h, 0.0).sum()) <= more
        low, high = (level, high) if fits else (low, level)
    wanted = np.maximum(low * w - h, 0.0)
    whole = np.floor(wanted)
    left = more - int(whole.sum())
    whole[np.argsort(whole - wanted, kind="stable")[:left]] += 1.0
    counts[arms] = whole.astype(np.int64)
    return counts
