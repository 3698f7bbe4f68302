"""The rewards of all arms by place: which are there, which steps have used, which are missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from oddarms.algorithms import Pulls, no_pulls
from oddarms.problem import BoolArray, FloatArray, IntArray

STEPS_AHEAD = 200
"""Expected steps for which places may be handed out early."""

Place = tuple[int, int]
"""An arm and a place in the sequence of its rewards."""


class Collected(NamedTuple):
    """Rewards that are there for a step, entry by entry, in the order of their places.

    `counts` and `old` are how many there are per entry, and how many of them are history.
    """

    counts: IntArray
    old: IntArray
    rewards: FloatArray


class Sequences:
    """Each arm's sequence of rewards, and the step in progress, which takes the next places.

    Attributes
    ----------
    used, pulled
        Per arm how many places finished steps have taken, and how many of these were pulls and
        not history.
    history
        Per arm how many rewards of its history are here, used or not.
    total
        All rewards that were taken.
    step
        The pulls of the step in progress. An arm may appear in several entries.
    missing
        How many rewards the step still needs.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.used: IntArray = np.zeros(n, dtype=np.int64)
        self.pulled: IntArray = np.zeros(n, dtype=np.int64)
        self.history: IntArray = np.zeros(n, dtype=np.int64)
        self.total = 0
        self.step = no_pulls()
        self.missing = 0
        self._waiting: dict[int, dict[int, float]] = {}  # rewards that no step has used
        self._old: dict[int, set[int]] = {}  # their places that are history
        self._here: dict[int, int] = {}  # how many of them the step in progress takes
        self._ends: dict[int, int] | None = None
        self._todo: Iterator[Place] = iter(())

    def begin(self, pulls: Pulls) -> None:
        """Begin a step with the rewards that wait for it."""
        self.step = pulls
        self._ends, self._todo, self._here = None, iter(()), {}
        for arm in self._waiting.keys() & self.ends.keys() if self._waiting else ():
            first = int(self.used[arm])
            self._here[arm] = len(self._known(arm, first, self.ends[arm] - first))
        self.missing = pulls.total - sum(self._here.values())

    @property
    def ends(self) -> dict[int, int]:
        """The place behind the last one that the step wants, by arm."""
        if self._ends is None:
            arms, entries = np.unique(self.step.indices, return_inverse=True)
            ends = self.used[arms]
            np.add.at(ends, entries, self.step.counts)
            self._ends = dict(zip(arms.tolist(), ends.tolist(), strict=True))
        return self._ends

    def _known(self, arm: int, first: int, count: int) -> list[int]:
        """Return those of an arm's places from the first one on that have a reward, in order."""
        mine = self._waiting.get(arm, {})
        if len(mine) < count:
            return sorted(place for place in mine if first <= place < first + count)
        return list(filter(mine.__contains__, range(first, first + count)))

    def take(self, arm: int, place: int, reward: float) -> bool:
        """Take the reward of a place; return False if the place has one already."""
        if place < self.used[arm]:
            return False
        rewards = self._waiting.setdefault(arm, {})
        if place in rewards:
            return False
        rewards[place] = reward
        self.total += 1
        if place < self.ends.get(arm, 0):
            self._here[arm] = self._here.get(arm, 0) + 1
            self.missing -= 1
        return True

    def load(
        self, arms: IntArray, places: IntArray, rewards: FloatArray, history: BoolArray
    ) -> None:
        """Take many rewards; those of places that have one already are left out."""
        order = np.argsort(arms, kind="stable")
        names, firsts = np.unique(arms[order], return_index=True)
        for arm, rows in zip(names.tolist(), np.split(order, firsts[1:]), strict=True):
            used, mine = int(self.used[arm]), self._waiting.get(arm, {})
            new = dict(zip(places[rows].tolist(), rewards[rows].tolist(), strict=True))
            if mine or used:
                new = {p: r for p, r in new.items() if p >= used and p not in mine}
            if not new:
                continue
            self._waiting[arm] = mine | new
            end = self.ends.get(arm, 0)
            here = sum(map(end.__gt__, new))
            self._here[arm] = self._here.get(arm, 0) + here
            self.missing -= here
            self.total += len(new)
            if history[rows].any():
                old = new.keys() & set(places[rows][history[rows]].tolist())
                self.history[arm] += len(old)
                self._old.setdefault(arm, set()).update(old)

    def behind(self, out: Iterable[Place]) -> IntArray:
        """Return per arm the first place behind all rewards that are there or out."""
        ends: IntArray = self.used.copy()
        for arm, rewards in self._waiting.items():
            ends[arm] = max(ends[arm], max(rewards) + 1)
        for arm, place in out:
            ends[arm] = max(ends[arm], place + 1)
        return ends

    def waiting_rewards(self) -> list[tuple[int, float]]:
        """Return arm and reward of all rewards that wait, without history."""
        return [
            (arm, reward)
            for arm, rewards in sorted(self._waiting.items())
            for place, reward in sorted(rewards.items())
            if place not in self._old.get(arm, ())
        ]

    # The step

    def rest(self) -> Pulls:
        """Return what the step is missing, entry by entry."""
        if self.missing == self.step.total:
            return self.step
        left = self.step.counts - self._collect(remove=False).counts
        return Pulls(self.step.indices[left > 0], left[left > 0])

    def finish(self) -> Collected:
        """End the step; return the rewards that were there for it."""
        found = self._collect(remove=True)
        indices, counts = self.step
        np.add.at(self.used, indices, counts)
        np.add.at(self.pulled, indices, counts - found.old)
        self.total += int((counts - found.counts).sum())
        self.begin(no_pulls())
        return found

    def _collect(self, *, remove: bool) -> Collected:
        rewards: list[float] = []
        have: IntArray = np.zeros(self.step.indices.size, dtype=np.int64)
        old: IntArray = np.zeros(self.step.indices.size, dtype=np.int64)
        taken: dict[int, int] = {}
        entries = zip(self.step.indices.tolist(), self.step.counts.tolist(), strict=True)
        for entry, (arm, count) in enumerate(entries if self._waiting else ()):
            position = taken.get(arm, 0)
            taken[arm] = position + count
            places = self._known(arm, int(self.used[arm]) + position, count)
            if not places:
                continue
            mine, known = self._waiting[arm], self._old.get(arm, set())
            have[entry] = len(places)
            old[entry] = len(known.intersection(places)) if known else 0
            if not remove:
                continue
            rewards += map(mine.pop, places)
            if known:
                known.difference_update(places)
            if not mine:
                del self._waiting[arm]
        return Collected(have, old, np.array(rewards))

    # Places to be pulled

    def open_in_step(self, most: int, out: Collection[Place]) -> list[Place]:
        """Return places of the step that have no reward and are not out.

        It goes on behind the places found last, so that a slow pull at the front costs nothing,
        and begins again at the end.
        """
        found: list[Place] = []
        free = self.free_in_step(most, out)
        if free <= 0:
            return found
        for _ in range(2):
            for arm, place in self._todo:
                if (arm, place) not in out and place not in self._waiting.get(arm, ()):
                    found.append((arm, place))
                    if len(found) == min(most, free):
                        return found
            self._todo = self._step_places()
        return found

    def free_in_step(self, most: int, out: Collection[Place]) -> int:
        """Return how many places `open_in_step` finds, or any number from `most` on."""
        if self.missing - len(out) >= most:
            return self.missing - len(out)
        return self.missing - len(self.awaited(out))

    def awaited(self, out: Iterable[Place]) -> list[Place]:
        """Return those of some places that the step has, and that have no reward."""
        ends, waiting = self.ends, self._waiting
        return [
            (arm, place)
            for arm, place in out
            if self.used[arm] <= place < ends.get(arm, 0) and place not in waiting.get(arm, ())
        ]

    def _step_places(self) -> Iterator[Place]:
        return (
            (arm, place)
            for arm, end in self.ends.items()
            for place in range(int(self.used[arm]), end)
        )

    def open_ahead(
        self, most: int, out: Collection[Place], outlook: Iterable[Pulls], room: float
    ) -> list[Place]:
        """Return up to `most` open places of steps after the present one.

        Not more than `room` rewards may wait or be out behind the step, history left out.
        """
        held: IntArray = np.zeros(self.n, dtype=np.int64)
        free = 0
        for arm, rewards in self._waiting.items():
            here = self._here.get(arm, 0)
            held[arm] = len(rewards) - here
            free += max(len(self._old.get(arm, ())) - here, 0)
        for arm, place in out:
            held[arm] += place >= self._end(arm)
        total = int(held.sum()) - free
        counts = missing_ahead(held, outlook, int(min(room, total + most)) - total)
        return [
            (arm, place)
            for arm in np.flatnonzero(counts).tolist()
            for place in self._free_ahead(arm, int(counts[arm]), out)
        ]

    def _free_ahead(self, arm: int, most: int, out: Collection[Place]) -> list[int]:
        held, start = self._waiting.get(arm, ()), self._end(arm)
        places = range(start, start + len(held) + len(out) + most)
        free = (place for place in places if place not in held and (arm, place) not in out)
        return list(islice(free, most))

    def _end(self, arm: int) -> int:
        return self.ends.get(arm, int(self.used[arm]))


class Outlook:
    """The steps that are expected, each computed when it is first needed."""

    def __init__(self, steps: Iterator[Pulls]) -> None:
        self._steps = islice(steps, STEPS_AHEAD)
        self._seen: list[Pulls] = []

    def __iter__(self) -> Iterator[Pulls]:
        yield from self._seen
        for pulls in self._steps:
            self._seen.append(pulls)
            yield pulls


def missing_ahead(held: IntArray, outlook: Iterable[Pulls], most: int) -> IntArray:
    """Return the next `most` missing pulls in the order of the expected steps, by arm."""
    wanted: IntArray = np.zeros(held.size, dtype=np.int64)
    found: IntArray = np.zeros(held.size, dtype=np.int64)
    left = most
    for pulls in outlook if left > 0 else ():
        np.add.at(wanted, pulls.indices, pulls.counts)
        missing = np.maximum(wanted - held - found, 0)
        before = np.cumsum(missing) - missing
        found += np.clip(left - before, 0, missing)
        left = most - int(found.sum())
        if left == 0:
            break
    return found
