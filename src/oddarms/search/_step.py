"""The step in progress: which places of which arms it wants, and what has arrived for them."""

from __future__ import annotations

from collections.abc import Container
from itertools import islice

import numpy as np

from oddarms.algorithms import Pulls
from oddarms.problem import FloatArray, IntArray

Out = dict[int, set[int]]
"""Places that are out, by arm."""


class Step:
    """The rewards that have arrived for a step, entry by entry.

    An entry is so many pulls of an arm, `counts[j]` of arm `indices[j]`. Imported rewards stand for
    some of them, and `places[j]` places of the arm's sequence, from `starts[j]` on, for the others.
    An arm in several entries fills them in this order.
    """

    def __init__(self, pulls: Pulls, used: IntArray, imported: dict[int, list[float]]) -> None:
        self.indices, self.counts = pulls
        self.have: IntArray = np.zeros(self.indices.size, dtype=np.int64)
        self.sums: FloatArray = np.zeros(self.indices.size)
        self.squares: FloatArray = np.zeros(self.indices.size)
        self._index = _Index(self.indices)
        for arm in set(self.indices.tolist()) & imported.keys() if imported else ():
            self._take_imported(arm, imported)
        self.places: IntArray = self.counts - self.have
        self.missing = int(self.places.sum())
        self.starts = starts_of(self.indices, self.places, used)
        # Of each entry the first place without a reward, and behind it the places that have theirs.
        self._first: IntArray = self.starts.copy()
        self._beyond: dict[int, set[int]] = {}

    @property
    def pulls(self) -> Pulls:
        """All that the step asks for."""
        return Pulls(self.indices, self.counts)

    @property
    def total(self) -> int:
        """All pulls of the step."""
        return int(self.counts.sum())

    @property
    def untouched(self) -> bool:
        """True while nothing has arrived."""
        return self.missing == self.total

    def wants(self, arm: int) -> bool:
        """Return whether some place of the arm is still without its reward."""
        return self.first_free(arm) is not None

    def end(self, arm: int) -> int | None:
        """Return the place behind the arm's last one here, None for an arm it does not want."""
        entries = self._index.entries(arm)
        return None if not entries else int(self.starts[entries[-1]] + self.places[entries[-1]])

    def fill(self, arm: int, place: int, scaled: float) -> bool:
        """Take the reward of one of the arm's places; return False if the place has one already."""
        entry = self._entry_at(arm, place)
        first = int(self._first[entry])
        beyond = self._beyond.get(arm)
        if place < first or (beyond is not None and place in beyond):
            return False
        if place == first:
            self._first[entry] = self._next_missing(arm, place + 1)
        else:
            self._beyond.setdefault(arm, set()).add(place)
        self._add(entry, scaled)
        self.missing -= 1
        return True

    def first_free(self, arm: int) -> int | None:
        """Return the first place of an arm that has no reward yet, None if there is none."""
        for entry in self._index.entries(arm):
            if self.have[entry] < self.counts[entry]:
                return int(self._first[entry])
        return None

    def free_places(self, arm: int, out: Container[int], most: int) -> list[int]:
        """Return the first places of an arm that have no reward and are not out."""
        beyond = self._beyond.get(arm, ())
        free = (
            place
            for entry in self._index.entries(arm)
            for place in range(
                int(self._first[entry]), int(self.starts[entry] + self.places[entry])
            )
            if place not in beyond and place not in out
        )
        return list(islice(free, most))

    def missing_per_arm(self, n: int) -> IntArray:
        """Return how many rewards of each arm have not arrived."""
        left = np.bincount(self.indices, self.counts - self.have, minlength=n)
        return left.astype(np.int64)

    def rest(self) -> Pulls:
        """Return what is missing, entry by entry."""
        if self.untouched:
            return self.pulls
        left = self.counts - self.have
        return Pulls(self.indices[left > 0], left[left > 0])

    def add_rest(self, sums: FloatArray, squares: FloatArray) -> None:
        """Take all that is missing at once: totals of the entries of `rest`."""
        waiting = self.have < self.counts
        self.sums[waiting] += sums
        self.squares[waiting] += squares
        self.have[:] = self.counts
        self.missing = 0

    def forget_index(self) -> None:
        """Drop what can be found again, before the step is saved."""
        self._index = _Index(self.indices)

    def _take_imported(self, arm: int, imported: dict[int, list[float]]) -> None:
        """Take as many rewards of an arm as there is use for, from the end of their list."""
        rewards = imported[arm]
        for entry in self._index.entries(arm):
            while rewards and self.have[entry] < self.counts[entry]:
                self._add(entry, rewards.pop())
        if not rewards:
            del imported[arm]

    def _add(self, entry: int, scaled: float) -> None:
        self.have[entry] += 1
        self.sums[entry] += scaled
        self.squares[entry] += scaled * scaled

    def _entry_at(self, arm: int, place: int) -> int:
        for entry in self._index.entries(arm):
            if place < self.starts[entry] + self.places[entry]:
                return entry
        raise IndexError(f"place {place} of arm {arm} is not one of this step")

    def _next_missing(self, arm: int, place: int) -> int:
        beyond = self._beyond.get(arm)
        while beyond and place in beyond:
            beyond.remove(place)
            place += 1
        if beyond is not None and not beyond:
            del self._beyond[arm]
        return place


class _Index:
    """The entries of each arm, found when the first one is asked for: whole steps need none."""

    def __init__(self, indices: IntArray) -> None:
        self._indices = indices
        self._order: IntArray | None = None
        self._found: dict[int, list[int]] = {}

    def entries(self, arm: int) -> list[int]:
        found = self._found.get(arm)
        if found is None:
            if self._order is None:
                self._order = np.argsort(self._indices, kind="stable")
                self._sorted = self._indices[self._order]
            start, end = self._sorted.searchsorted([arm, arm + 1])
            found = self._found[arm] = self._order[start:end].tolist()
        return found


def starts_of(indices: IntArray, places: IntArray, used: IntArray) -> IntArray:
    """Return the place at which each entry begins: behind what the arm's earlier entries take."""
    starts: IntArray = used[indices]
    if indices.size == 1:
        return starts
    order = np.argsort(indices, kind="stable")
    arms = indices[order]
    new_arm = np.r_[True, arms[1:] != arms[:-1]]
    if new_arm.all():
        return starts
    before = np.cumsum(places[order]) - places[order]
    starts[order] += before - before[new_arm][np.cumsum(new_arm) - 1]
    return starts
