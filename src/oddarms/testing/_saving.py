"""A state that is saved at any moment goes on as if nothing had happened."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from oddarms.algorithms import Algorithm, Pulls, create, get_algorithm
from oddarms.algorithms._base import UNLIMITED
from oddarms.errors import InvalidParameter
from oddarms.freezing import freeze, thaw
from oddarms.problem import FloatArray
from oddarms.rules import Sigma
from oddarms.testing._setting import Setting, Streams

_MOMENTS = (0, 1, 2, 4, 8, 16, 32, 64)
"""After how many steps a state is saved; it is then held against the next one."""


class SavingConformance(Setting):
    """Studies keep an algorithm's state in a storage, see `oddarms.freezing`."""

    def test_a_saved_state_goes_on_exactly(self) -> None:
        """Saved after any step, on one side and on both, with and without a proposal open."""
        for side in ("upper", "both"):
            machine = self._fresh(side)
            rewards = Streams(self.easy.means)
            log: list[tuple[Pulls, FloatArray]] = []
            saved: list[tuple[int, bytes, bytes]] = []
            pulled = 0
            while not machine.done and pulled < self.short_budget:
                before = self._frozen(machine) if len(log) in _MOMENTS else b""
                pulls = machine.propose(UNLIMITED)
                pulls = Pulls(pulls.indices.copy(), pulls.counts.copy())
                if before:
                    saved.append((len(log), before, self._frozen(machine)))
                sums = _sums(pulls, rewards)
                machine.absorb(pulls, sums, sums)  # rewards 0 and 1 are their own squares
                log.append((pulls, sums))
                pulled += pulls.total
            saved.append((len(log), self._frozen(machine), b""))
            for (start, before, proposed), (end, then, _) in pairwise(saved):
                assert self._frozen(self._thawed(before)) == before, _CHANGED
                for data in (before, proposed):
                    machine = self._replayed(data, log[start:end], data is proposed)
                    assert self._frozen(machine) == then, _DIFFERS

    def _fresh(self, side: Any) -> Algorithm:
        return create(
            self.algorithm,
            len(self.easy.means),
            rule=Sigma(k=self.easy.k),
            delta=self.delta,
            rng=np.random.default_rng(0),
            side=side,
            **self.options,
        )

    def _replayed(
        self, data: bytes, log: list[tuple[Pulls, FloatArray]], proposed: bool
    ) -> Algorithm:
        machine = self._thawed(data)
        for pulls, sums in log:
            again = pulls if proposed else machine.propose(UNLIMITED)
            assert again.indices.tolist() == pulls.indices.tolist(), _DIFFERS
            assert again.counts.tolist() == pulls.counts.tolist(), _DIFFERS
            machine.absorb(pulls, sums, sums)
            proposed = False
        return machine

    def _frozen(self, machine: Algorithm) -> bytes:
        try:
            return freeze(machine)
        except InvalidParameter as error:
            raise AssertionError(
                f"{self.algorithm} must have a state that studies can save, but {error}"
            ) from error

    def _thawed(self, data: bytes) -> Algorithm:
        package = get_algorithm(self.algorithm).__module__.partition(".")[0]
        try:
            machine: Algorithm = thaw(data, [package])
        except InvalidParameter as error:
            raise AssertionError(
                f"{self.algorithm} must have a state of plain values and of classes of {package},"
                f" but {error}"
            ) from error
        return machine


_CHANGED = "a state that was saved and read must be the same state."
_DIFFERS = (
    "an algorithm whose state was saved and read must go on as it would have: all of its state"
    " must be in its attributes, and no array a view of another one."
)


def _sums(pulls: Pulls, rewards: Streams) -> FloatArray:
    return np.array(
        [
            float(sum(rewards(int(i)) for _ in range(count)))
            for i, count in zip(pulls.indices, pulls.counts, strict=True)
        ]
    )
