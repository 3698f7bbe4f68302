"""The sequences of all arms' rewards: what was used, what the step has, what waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from oddarms.algorithms import Pulls, no_pulls
from oddarms.problem import FloatArray, IntArray
from oddarms.search._step import Out, Step

STEPS_AHEAD = 200
"""Of the steps that are expected, those that pulls may be made for."""

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
        self.step = Step(no_pulls(), self.used, {})
        self._ahead: dict[int, dict[int, float]] = {}
        self._spare: dict[int, list[float]] = {}
        self._imported: dict[int, list[float]] = {}  # the first one last

    @property
    def waiting(self) -> int:
        """Rewards that wait for a later step."""
        return sum(
            len(rewards)
            for kind in (self._ahead, self._spare, self._imported)
            for rewards in kind.values()
        )

    def begin(self, pulls: Pulls) -> None:
        """Begin a step, with what waits for it."""
        self.step = Step(pulls, self.used, self._imported)
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
        np.add.at(self.used, step.indices, step.places)
        return step.pulls, step.sums, step.squares

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

    def take_imported(self, arms: IntArray, rewards: FloatArray) -> None:
        """Take rewards that nobody asked for: the next steps have them instead of places."""
        fresh: dict[int, list[float]] = {}
        for arm, reward in zip(arms[::-1].tolist(), rewards[::-1].tolist(), strict=True):
            fresh.setdefault(arm, []).append(reward)
        for arm, mine in fresh.items():
            self._imported[arm] = mine + self._imported.get(arm, [])

    def forget(self) -> None:
        """Drop what waits, as no step will follow."""
        self._ahead, self._spare, self._imported = {}, {}, {}

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
            for place in self.step.free_places(arm, out.get(arm, ()), min(int(missing[arm]), most))
        ]
        return found[:most]

    def open_ahead(self, most: int, out: Out, outlook: Iterable[Pulls], room: float) -> list[Place]:
        """Return places behind the step, for the next steps that are expected.

        Parameters
        ----------
        most
            How many places at most.
        out
            The places that are out.
        outlook
            The steps that are expected.
        room
            How many rewards may wait or be out ahead, those that do included.
        """
        held: IntArray = np.zeros(self.n, dtype=np.int64)
        for arm, waiting in self._ahead.items():
            held[arm] += len(waiting)
        for arm, places in out.items():
            end = self._end(arm)
            held[arm] += sum(place >= end for place in places)
        total = int(held.sum())
        counts = missing_ahead(held, outlook, int(min(room, total + most)) - total)
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


class Outlook:
    """The steps that are expected, each found when it is first looked at."""

    def __init__(self, steps: Iterator[Pulls]) -> None:
        self._steps = islice(steps, STEPS_AHEAD)
        self._seen: list[Pulls] = []

    def __iter__(self) -> Iterator[Pulls]:
        yield from self._seen
        for pulls in self._steps:
            self._seen.append(pulls)
            yield pulls


def missing_ahead(held: IntArray, outlook: Iterable[Pulls], most: int) -> IntArray:
    """Return how many pulls of each arm are not held, of the first steps that miss `most`."""
    wanted: IntArray = np.zeros(held.size, dtype=np.int64)
    found: IntArray = np.zeros(held.size, dtype=np.int64)
    left = most
    for pulls in outlook if left > 0 else ():
        np.add.at(wanted, pulls.indices, pulls.counts)
        missing = np.maximum(wanted - np.maximum(held, 0) - found, 0)
        before = np.cumsum(missing) - missing
        found += np.clip(left - before, 0, missing)
        left = most - int(found.sum())
        if left == 0:
            break
    return found
