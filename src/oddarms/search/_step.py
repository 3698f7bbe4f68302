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

    An entry is so many pulls of an arm, `counts[j]` of arm `indices[j]`; its places in the arm's
    sequence begin at `starts[j]`. An arm in several entries fills them in the order of its places.
    """

    def __init__(self, pulls: Pulls, used: IntArray) -> None:
        self.indices, self.counts = pulls
        self.starts = _starts(pulls, used)
        self.missing = pulls.total
        self.have: IntArray = np.zeros(self.indices.size, dtype=np.int64)
        self.sums: FloatArray = np.zeros(self.indices.size)
        self.squares: FloatArray = np.zeros(self.indices.size)
        # Of each entry the first place without a reward, and behind it the places that have theirs.
        self._first: IntArray = self.starts.copy()
        self._beyond: dict[int, set[int]] = {}
        self._index = _Index(self.indices)

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
        return None if not entries else int(self.starts[entries[-1]] + self.counts[entries[-1]])

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
        self.have[entry] += 1
        self.sums[entry] += scaled
        self.squares[entry] += scaled * scaled
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
                int(self._first[entry]), int(self.starts[entry] + self.counts[entry])
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
            return Pulls(self.indices, self.counts)
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

    def _entry_at(self, arm: int, place: int) -> int:
        for entry in self._index.entries(arm):
            if place < self.starts[entry] + self.counts[entry]:
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

    def entries(self, arm: int) -> list[int]:
        if self._order is None:
            self._order = np.argsort(self._indices, kind="stable")
            self._sorted = self._indices[self._order]
        start, end = np.searchsorted(self._sorted, [arm, arm + 1])
        found: list[int] = self._order[start:end].tolist()
        return found


def _starts(pulls: Pulls, used: IntArray) -> IntArray:
    """Return the place at which each entry begins: behind what the arm's earlier entries take."""
    indices, counts = pulls
    starts: IntArray = used[indices]
    if indices.size == 1:
        return starts
    order = np.argsort(indices, kind="stable")
    arms = indices[order]
    new_arm = np.r_[True, arms[1:] != arms[:-1]]
    if new_arm.all():
        return starts
    before = np.cumsum(counts[order]) - counts[order]
    starts[order] += before - before[new_arm][np.cumsum(new_arm) - 1]
    return starts
