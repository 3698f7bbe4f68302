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
    """Rewards that are there for a step.

    Attributes
    ----------
    counts, old
        Per entry how many there are, and how many of them are history.
    rewards
        All of them, entry by entry, in the order of their places.
    """

    counts: IntArray
    old: IntArray
    rewards: FloatArray


class Sequences:
    """Each arm's sequence of rewards, and the step in progress, which takes the next places.

    Rewards wait in two forms. *Runs* are arrays of the rewards that follow each arm's used places
    without a gap, as history and the replay of a log give them. All others are in dictionaries.

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
        self._waiting: dict[int, dict[int, float]] = {}
        self._old: set[Place] = set()  # of those in `_waiting`, the ones that are history
        self._lengths: IntArray = np.zeros(n, dtype=np.int64)  # of each arm's run
        self._starts: IntArray = np.zeros(n, dtype=np.int64)  # of each arm's run, in the arrays
        self._values: FloatArray = np.empty(0)
        self._values_old: BoolArray = np.empty(0, dtype=np.bool_)
        self._ends: dict[int, int] | None = None
        self._todo: Iterator[Place] = iter(())

    def begin(self, pulls: Pulls) -> None:
        """Begin a step with the rewards that wait for it."""
        self.step = pulls
        self._ends, self._todo = None, iter(())
        arms, wanted = self._wanted()
        self.missing = pulls.total - int(np.minimum(self._lengths[arms], wanted).sum())
        if self._waiting:
            self.missing -= sum(
                sum(place < self.ends[arm] for place in self._waiting[arm])
                for arm in self._waiting.keys() & self.ends.keys()
            )

    def _wanted(self) -> tuple[IntArray, IntArray]:
        """Return the arms of the step, each once, and how many rewards it wants of them."""
        indices, counts = self.step
        if indices.size < 2 or (indices[1:] > indices[:-1]).all():
            return indices, counts
        arms, inverse = np.unique(indices, return_inverse=True)
        return arms, np.bincount(inverse, counts).astype(np.int64)

    @property
    def ends(self) -> dict[int, int]:
        """The place behind the last one that the step wants, by arm."""
        if self._ends is None:
            arms, wanted = self._wanted()
            self._ends = dict(zip(arms.tolist(), (self.used[arms] + wanted).tolist(), strict=True))
        return self._ends

    def take(self, arm: int, place: int, reward: float) -> bool:
        """Take the reward of a place; return False if the place has one already."""
        if place < self.used[arm] + self._lengths[arm]:
            return False
        rewards = self._waiting.setdefault(arm, {})
        if place in rewards:
            return False
        rewards[place] = reward
        self.total += 1
        if place < self.ends.get(arm, 0):
            self.missing -= 1
        return True

    def load(
        self, arms: IntArray, places: IntArray, rewards: FloatArray, history: BoolArray
    ) -> None:
        """Take many rewards at once; those of places that have one already are left out."""
        mine = self._all_waiting()
        before = mine[0].size
        columns = [np.r_[a, b] for a, b in zip(mine, (arms, places, rewards, history), strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        arms, places = columns[0][order], columns[1][order]
        repeated = np.r_[False, (arms[1:] == arms[:-1]) & (places[1:] == places[:-1])]
        kept = order[~repeated & (places >= self.used[arms])]
        arms, places, rewards, history = (column[kept] for column in columns)
        self.total += arms.size - before
        used_history = self.used - self.pulled
        self.history = used_history + np.bincount(arms[history], minlength=self.n)
        firsts = np.searchsorted(arms, np.arange(self.n))
        in_run = places - self.used[arms] == np.arange(arms.size) - firsts[arms]
        self._values, self._values_old = rewards[in_run], history[in_run]
        self._lengths = np.bincount(arms[in_run], minlength=self.n).astype(np.int64)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._waiting, self._old = {}, set()
        rest = zip(*(x[~in_run].tolist() for x in (arms, places, rewards, history)), strict=True)
        for arm, place, reward, old in rest:
            self._waiting.setdefault(arm, {})[place] = reward
            if old:
                self._old.add((arm, place))
        todo = self._todo
        self.begin(self.step)
        self._todo = todo

    def _all_waiting(self) -> tuple[IntArray, IntArray, FloatArray, BoolArray]:
        """Return arm, place, reward and kind of all rewards that wait."""
        arms = np.repeat(np.arange(self.n), self._lengths)
        within = np.arange(arms.size) - np.repeat(
            np.cumsum(self._lengths) - self._lengths, self._lengths
        )
        found = self._starts[arms] + within
        rows = [
            (arm, place, reward, (arm, place) in self._old)
            for arm, rewards in self._waiting.items()
            for place, reward in rewards.items()
        ]
        more = list(zip(*rows, strict=True)) or [(), (), (), ()]
        return (
            np.r_[arms, np.array(more[0], np.int64)],
            np.r_[self.used[arms] + within, np.array(more[1], np.int64)],
            np.r_[self._values[found], np.array(more[2], np.float64)],
            np.r_[self._values_old[found], np.array(more[3], np.bool_)],
        )

    def behind(self, out: Iterable[Place]) -> IntArray:
        """Return per arm the first place behind all rewards that are there or out."""
        ends: IntArray = self.used + self._lengths
        waiting = ((arm, place) for arm, rewards in self._waiting.items() for place in rewards)
        for arm, place in (*waiting, *out):
            ends[arm] = max(ends[arm], place + 1)
        return ends

    def waiting_rewards(self) -> list[tuple[int, float]]:
        """Return arm and reward of all rewards that wait, without history."""
        arms, _, rewards, history = self._all_waiting()
        return list(zip(arms[~history].tolist(), rewards[~history].tolist(), strict=True))

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
        self.step, self.missing = no_pulls(), 0
        self._ends, self._todo = None, iter(())
        return found

    def _collect(self, *, remove: bool) -> Collected:
        indices = self.step.indices
        if not self._values.size and not self._waiting:
            nothing = np.zeros(indices.size, dtype=np.int64)
            return Collected(nothing, nothing, np.empty(0))
        arms, wanted = self._wanted()
        waits = any(arm in self._waiting for arm in arms.tolist()) if self._waiting else False
        if arms is indices and not waits:
            return self._collect_runs(np.minimum(self._lengths[arms], wanted), remove=remove)
        return self._collect_each(remove=remove)

    def _collect_runs(self, have: IntArray, *, remove: bool) -> Collected:
        """Collect from runs alone, where each arm has one entry."""
        indices = self.step.indices
        first = np.repeat(self._starts[indices] - (np.cumsum(have) - have), have)
        found = first + np.arange(have.sum())
        if remove:
            self._starts[indices] += have
            self._lengths[indices] -= have
        before = np.r_[0, np.cumsum(self._values_old[found])]
        ends = np.cumsum(have)
        return Collected(have, before[ends] - before[ends - have], self._values[found])

    def _collect_each(self, *, remove: bool) -> Collected:
        rewards: list[float] = []
        have: IntArray = np.zeros(self.step.indices.size, dtype=np.int64)
        old: IntArray = np.zeros(self.step.indices.size, dtype=np.int64)
        taken: dict[int, int] = {}
        for entry, (arm, count) in enumerate(zip(*map(np.ndarray.tolist, self.step), strict=True)):
            before, position = len(rewards), taken.get(arm, 0)
            taken[arm] = position + count
            run = max(min(int(self._lengths[arm]) - position, count), 0)
            start = int(self._starts[arm]) + position
            rewards += self._values[start : start + run].tolist()
            old[entry] = int(self._values_old[start : start + run].sum())
            mine, first = self._waiting.get(arm, {}), int(self.used[arm]) + position
            for place in range(first + run, first + count):
                if place in mine:
                    rewards.append(mine[place])
                    old[entry] += (arm, place) in self._old
            have[entry] = len(rewards) - before
        if remove:
            for arm, count in taken.items():
                self._drop(arm, count)
        return Collected(have, old, np.array(rewards))

    def _drop(self, arm: int, count: int) -> None:
        """Drop the rewards of an arm's next places."""
        run, end = min(int(self._lengths[arm]), count), int(self.used[arm]) + count
        self._starts[arm] += run
        self._lengths[arm] -= run
        mine = self._waiting.get(arm, {})
        for place in [place for place in mine if place < end]:
            del mine[place]
            self._old.discard((arm, place))
        if not mine:
            self._waiting.pop(arm, None)

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
            for place in self._todo:
                if place not in out and self._is_open(*place):
                    found.append(place)
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
        starts: list[int] = (self.used + self._lengths).tolist()
        ends, waiting = self.ends, self._waiting
        return [
            (arm, place)
            for arm, place in out
            if starts[arm] <= place < ends.get(arm, 0) and place not in waiting.get(arm, ())
        ]

    def _step_places(self) -> Iterator[Place]:
        starts = self.used + self._lengths
        for arm, end in self.ends.items():
            for place in range(int(starts[arm]), end):
                yield arm, place

    def _is_open(self, arm: int, place: int) -> bool:
        known = self.used[arm] + self._lengths[arm]
        return bool(place >= known) and place not in self._waiting.get(arm, ())

    def open_ahead(
        self, most: int, out: Collection[Place], outlook: Iterable[Pulls], room: float
    ) -> list[Place]:
        """Return places behind the step, for the next steps that are expected.

        Parameters
        ----------
        most
            The largest number of places to return.
        out
            The places that are out.
        outlook
            The steps that are expected.
        room
            How many rewards may wait or be out behind the step, including those that do.
        """
        arms, wanted = self._wanted()
        held: IntArray = self._lengths.copy()
        held[arms] = np.maximum(held[arms] - wanted, 0)
        runs = int(held.sum())  # they cost nothing, so they take no room
        for arm, rewards in self._waiting.items():
            end = self._end(arm)
            held[arm] += sum(place >= end for place in rewards)
        for arm, place in out:
            held[arm] += place >= self._end(arm)
        total = int(held.sum()) - runs
        counts = missing_ahead(held, outlook, int(min(room, total + most)) - total)
        return [
            (arm, place)
            for arm in np.flatnonzero(counts).tolist()
            for place in self._free_ahead(arm, int(counts[arm]), out)
        ]

    def _free_ahead(self, arm: int, most: int, out: Collection[Place]) -> list[int]:
        held = self._waiting.get(arm, ())
        start = max(self._end(arm), int(self.used[arm] + self._lengths[arm]))
        free = (p for p in range(start, start + len(held) + len(out) + most) if p not in held)
        return list(islice((place for place in free if (arm, place) not in out), most))

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
    """Return how many pulls of each arm are not held, of the first steps that miss `most`."""
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
