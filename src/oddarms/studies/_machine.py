"""What a study knows: a pure function of the results in the order of their numbers.

Which rewards are used for which bound
--------------------------------------
The algorithm proposes steps, each so many rewards of some arms. A step's rewards reach it together,
once the last of them is there; before that none of them touches a bound, an interval or a decision.
The s-th result of an arm *in the order in which results were recorded* is that arm's s-th reward,
whichever ticket and worker it came from. A step takes the oldest rewards that no step has taken;
an arm's results beyond what the step wants wait for the next one, so nothing that was paid for is
lost.
An arm that stands in several entries of a step has its rewards of that step put into them in the
order of their tickets, not of their arrival.
Results nobody asked for are added between two steps, as a history.

Why a slow or lost worker cannot bias the answer
------------------------------------------------
Let every pull that could ever be made have its reward and its fate: how long it takes, and whether
it is lost. If the rewards are independent, each with its arm's mean, and independent of all fates -
speed and loss do not depend on the reward - then so are they given the fates. Which pulls are made,
and which of them make up the next step, is decided by the fates and by the rewards of the steps
before, never by a reward that no step has taken: results that wait, and those of the step in
progress, are only counted. So given all that was used before, the rewards of a step are independent
with their arms' means. That is all that the algorithms' proofs use.

As long as no lease runs out, no ticket is skipped and nothing is imported while pulls are out, even
speed may depend on the reward: a step then consists of exactly the pulls that were handed out for
it, so a slow result holds it up but is in it. Otherwise a replacement may overtake the slow one.
And if *loss* depends on the reward - a test that hangs when it fails, an expert who does not answer
when in doubt - what is estimated is the mean of the rewards that come back, and the guarantee is
about that mean: report such pulls as a reward (a timeout as the worst one) rather than lose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.freezing import freeze, thaw
from oddarms.problem import FloatArray, IntArray
from oddarms.search import Search
from oddarms.studies._question import Question


@dataclass(frozen=True)
class ResultRow:
    """A recorded result: its number, ticket (None: nobody asked), arm, reward and import batch."""

    number: int
    ticket: int | None
    arm: int
    reward: float
    batch: int | None = None


class _Step:
    """The rewards that have arrived for the step in progress, entry by entry."""

    def __init__(self, search: Search) -> None:
        self.indices, self.counts = search.next_pulls
        size = self.indices.size
        self.have: IntArray = np.zeros(size, dtype=np.int64)
        self.sums: FloatArray = np.zeros(size)
        self.squares: FloatArray = np.zeros(size)
        self.missing = int(self.counts.sum())
        # An arm may stand in several entries: `filling` is the one its next reward goes to.
        self.filling: IntArray = np.full(search.problem.n, -1, dtype=np.int64)
        self.following: IntArray = np.full(size, -1, dtype=np.int64)
        self.several = size > 0 and int(np.bincount(self.indices).max()) > 1
        for entry in range(size - 1, -1, -1) if self.several else ():
            self.following[entry] = self.filling[self.indices[entry]]
            self.filling[self.indices[entry]] = entry
        if not self.several:
            self.filling[self.indices] = np.arange(size)
        # Then its rewards are kept until all are there, to be put into the order of the tickets.
        self.kept: dict[int, list[tuple[int, float]]] = {}

    @property
    def untouched(self) -> bool:
        return not self.have.any()

    def wants(self, arm: int) -> bool:
        return bool(self.filling[arm] >= 0)

    def take(self, arm: int, ticket: int | None, scaled: float) -> None:
        entry = int(self.filling[arm])
        self.have[entry] += 1
        self.missing -= 1
        if self.have[entry] == self.counts[entry]:
            self.filling[arm] = self.following[entry]
        if self.several:
            self.kept.setdefault(arm, []).append((ticket or 0, scaled))
        else:
            self._enter(entry, scaled)

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Return the sums and sums of squares of all entries, once nothing is missing."""
        rewards = {arm: iter(sorted(kept, key=itemgetter(0))) for arm, kept in self.kept.items()}
        for entry in range(self.indices.size) if self.several else ():
            for _ in range(int(self.counts[entry])):
                self._enter(entry, next(rewards[int(self.indices[entry])])[1])
        return self.sums, self.squares

    def _enter(self, entry: int, scaled: float) -> None:
        self.sums[entry] += scaled
        self.squares[entry] += scaled * scaled

    def missing_per_arm(self, n: int) -> IntArray:
        left = np.bincount(self.indices, self.counts - self.have, minlength=n)
        return left.astype(np.int64)


class Machine:
    """The state of a study after the first `position` results.

    Attributes
    ----------
    search
        The algorithm with all steps that are complete.
    position
        Number of the last result taken in.
    taken, told
        How many results were taken in, and how many of these were results of tickets.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.search = question.new_search()
        self.position = 0
        self.taken = 0
        self.told = 0
        self._waiting: dict[int, list[tuple[int, float]]] = {}
        self._history: list[tuple[IntArray, FloatArray]] = []
        self._step = _Step(self.search)
        self._unused = 0

    @property
    def done(self) -> bool:
        """True once there is nothing more to ask."""
        return self.search.done

    @property
    def unused(self) -> int:
        """Results that no step has taken yet, those of the step in progress not counted."""
        held = self._unused + sum(len(rewards) for rewards in self._waiting.values())
        return held + sum(rewards.size for _, rewards in self._history)

    @property
    def in_step(self) -> int:
        """Results that have arrived for the step in progress."""
        return int(self._step.have.sum())

    def missing_per_arm(self) -> IntArray:
        """Return how many rewards of each arm the step in progress still needs."""
        if self.done:
            return np.zeros(self.question.n, dtype=np.int64)
        return self._step.missing_per_arm(self.question.n)

    def take(self, rows: Sequence[ResultRow]) -> None:
        """Take in results, which follow those taken in before; an import's come in one call."""
        start = 0
        while start < len(rows):
            batch = rows[start].batch
            if batch is None or not self.search.algorithm.remembers:
                self._take_one(rows[start])
                start += 1
                continue
            end = start
            while end < len(rows) and rows[end].batch == batch:
                end += 1
            self._take_history(rows[start:end])
            start = end

    def _take_one(self, row: ResultRow) -> None:
        self.position = row.number
        self.taken += 1
        self.told += row.ticket is not None
        if row.ticket is None and self.search.budget is not None:
            self.search.budget += 1  # what nobody asked for costs none of it
        if not self.done and self._step.wants(row.arm):
            self._step.take(row.arm, row.ticket, self._scaled(row.reward))
            self._advance()
        else:
            self._waiting.setdefault(row.arm, []).append((row.ticket or 0, row.reward))
        self._forget_if_done()

    def _scaled(self, reward: float) -> float:
        return float(self.search.scaled(reward))  # type: ignore[arg-type]

    def _take_history(self, rows: Sequence[ResultRow]) -> None:
        self.position = rows[-1].number
        self.taken += len(rows)
        arms = np.array([row.arm for row in rows], dtype=np.int64)
        self._history.append((arms, np.array([row.reward for row in rows])))
        if not self.done and self._step.untouched:
            self._add_history()
            self._take_waiting()
            self._advance()
        self._forget_if_done()

    def _forget_if_done(self) -> None:
        """Once no step will follow, only count what none has taken."""
        if self.done:
            self._unused = self.unused
            self._waiting, self._history = {}, []

    def _advance(self) -> None:
        """Give the algorithm every step that is complete."""
        while not self.done and self._step.missing == 0:
            self.search.ask()
            self.search.tell_scaled_totals(*self._step.totals())
            self._add_history()
            self._take_waiting()

    def _add_history(self) -> None:
        """Add what was imported, between two steps; the step that follows may be another one."""
        while self._history and not self.done:
            arms, rewards = self._history.pop(0)
            order = np.argsort(arms, kind="stable")
            found, starts = np.unique(arms[order], return_index=True)
            parts = np.split(rewards[order], starts[1:])
            self.search.add(dict(zip(found.tolist(), parts, strict=True)))
        self._step = _Step(self.search)

    def _take_waiting(self) -> None:
        few = len(self._waiting) < self._step.indices.size
        for arm in list(self._waiting) if few else np.unique(self._step.indices).tolist():
            rewards = self._waiting.get(arm, [])
            taken = 0
            while taken < len(rewards) and not self.done and self._step.wants(arm):
                ticket, reward = rewards[taken]
                self._step.take(arm, ticket, self._scaled(reward))
                taken += 1
            del rewards[:taken]
            if not rewards:
                self._waiting.pop(arm, None)

    # As bytes

    def to_bytes(self) -> bytes:
        """Return the whole state, in a size that goes with the arms, not with the results."""
        search = {name: value for name, value in vars(self.search).items() if name != "problem"}
        mine = {name: value for name, value in vars(self).items() if name not in _REBUILT}
        return freeze({"search": search, **mine})

    @classmethod
    def from_bytes(cls, question: Question, data: bytes) -> Machine:
        """Return the machine that `to_bytes` was called on."""
        machine = cls(question)
        state = thaw(data, [question.package])
        search = state.pop("search") if isinstance(state, dict) and "search" in state else None
        if (
            not isinstance(search, dict)
            or search.keys() | {"problem"} != vars(machine.search).keys()
            or state.keys() | set(_REBUILT) != vars(machine).keys()
        ):
            raise InvalidParameter("a saved state must be of this version of oddarms but is not.")
        vars(machine.search).update(search)
        vars(machine).update(state)
        return machine


_REBUILT = ("question", "search")
