"""The conformance suite for our own algorithms: also what a search does around an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oddarms.algorithms import UNLIMITED, Algorithm, Decision
from oddarms.problem import FloatArray
from oddarms.search import Ticket
from oddarms.testing import AlgorithmConformance, Streams, assert_same, drive

INTERVALS = ("test_all_intervals_hold_together", "test_intervals_hold_at_any_budget")
ANSWERS = "test_answers_are_as_right_as_promised"
JOBS = "test_jobs_do_not_change_the_runs"


def long(*names: str) -> Callable[[type[Ours]], type[Ours]]:
    """Mark tests of a suite as long, where another file has the like with more power."""

    def marked(suite: type[Ours]) -> type[Ours]:
        for name in names:
            setattr(suite, name, _long(getattr(suite, name)))
        return suite

    return marked


def _long(test: Callable[[Ours], None]) -> Callable[[Ours], None]:
    def run(self: Ours) -> None:
        test(self)

    return pytest.mark.long(run)


def ever_wrong(
    machine: Algorithm, means: FloatArray, rng: np.random.Generator, pulls: int = 300
) -> bool:
    """Tell whether an interval, the threshold's or a decision is wrong at any step, with coins."""
    truth, theta = machine.rule.outliers(means), machine.rule.threshold(means)
    while not machine.done and machine.pulls.sum() < pulls:
        step = machine.propose(UNLIMITED)
        sums = rng.binomial(step.counts, means[step.indices]).astype(float)
        machine.absorb(step, sums, sums)
        (low, high), (_, below, above) = machine.intervals(), machine.threshold()
        held = ((low <= means) & (means <= high)).all() and below <= theta <= above
        wrong = ((machine.decisions == Decision.HIGH) != truth) & ~machine.undecided
        if wrong.any() or not held:
            return True
    return False


class Rescaled(Streams):
    """The rewards of `Streams` in other units: a + (b - a) x, or a + b - x of the mirrored side."""

    def __init__(self, means: Any, transform: Callable[[float], float]) -> None:
        super().__init__(means)
        self._transform = transform

    def __call__(self, arm: int) -> float:
        """Return the next reward of an arm, transformed."""
        return self._transform(super().__call__(arm))


class Ours(AlgorithmConformance):
    """The suite for all algorithms, and that a search treats each of them alike."""

    def test_asking_twice_changes_nothing_later(self) -> None:
        twice = self.search(budget=self.short_budget)
        rewards = Streams(self.easy.means)
        while not twice.done:
            twice.ask_step()
            drive(twice, rewards, steps=1)
        once = drive(self.search(budget=self.short_budget), Streams(self.easy.means))
        assert_same(twice.result(), once)

    def test_totals_are_as_good_as_rewards(self) -> None:
        search = self.search(budget=self.short_budget)
        rewards = Streams(self.easy.means)
        while not search.done:
            pulls = search.ask_step()
            pairs = zip(pulls.indices.tolist(), pulls.counts.tolist(), strict=True)
            sums = [sum(rewards(arm) for _ in range(count)) for arm, count in pairs]
            search.tell_step_totals(sums, sums)  # rewards 0 and 1 are their own squares
        singly = drive(self.search(budget=self.short_budget), Streams(self.easy.means))
        assert_same(search.result(), singly)

    def test_tickets_in_any_order_are_as_good_as_steps(self) -> None:
        search = self.search(budget=None)
        rng = np.random.default_rng(9)
        streams = Streams(self.easy.means)
        drawn: list[list[float]] = [[] for _ in self.easy.means]
        out: list[Ticket] = []
        while not search.done and search.pulls < self.short_budget:
            out += search.ask(int(rng.integers(1, 20)))
            ticket = out.pop(int(rng.integers(len(out))))
            if rng.random() < 0.1:
                search.skip(ticket)
                continue
            rewards = drawn[ticket.index]
            while len(rewards) <= ticket.place:
                rewards.append(streams(ticket.index))
            search.tell(ticket, rewards[ticket.place])
        steps = self.search(budget=None)
        again = Streams(self.easy.means)
        while not steps.done and steps.pulls < search.pulls:
            drive(steps, again, steps=1)
        assert_same(search.result(), steps.result())

    def test_other_bounds_give_the_same_answer_in_their_units(self) -> None:
        unit = drive(self.search(), Streams(self.easy.means))
        wide = drive(
            self.search(bounds=(-3, 5)), Rescaled(self.easy.means, lambda x: -3.0 + 8.0 * x)
        )
        assert wide.decisions.tolist() == unit.decisions.tolist()
        assert wide.pulls_per_arm.tolist() == unit.pulls_per_arm.tolist()
        assert wide.round == unit.round
        np.testing.assert_allclose(wide.means, -3.0 + 8.0 * unit.means)
        np.testing.assert_allclose(wide.intervals, -3.0 + 8.0 * unit.intervals)
        np.testing.assert_allclose(wide.threshold, -3.0 + 8.0 * unit.threshold)
        np.testing.assert_allclose(
            wide.threshold_interval, -3.0 + 8.0 * np.array(unit.threshold_interval)
        )

    def test_lower_is_upper_on_mirrored_rewards(self) -> None:
        upper = drive(self.search(), Streams(self.easy.means))
        lower = drive(self.search(side="lower"), Rescaled(self.easy.means, lambda x: 1.0 - x))
        assert lower.low == upper.high == self.truth()
        assert lower.high == []
        assert lower.pulls_per_arm.tolist() == upper.pulls_per_arm.tolist()
        np.testing.assert_allclose(lower.means, 1.0 - upper.means)
        np.testing.assert_allclose(lower.intervals, 1.0 - upper.intervals[:, ::-1])
        np.testing.assert_allclose(lower.threshold, 1.0 - upper.threshold)
