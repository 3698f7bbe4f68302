"""The protocol: ask and tell, propose and absorb, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddarms.algorithms import Algorithm, Decision, create
from oddarms.errors import ProtocolError, RewardRejected
from oddarms.rules import Sigma
from oddarms.search import Result, Search, Status, Ticket
from oddarms.testing._expect import raises
from oddarms.testing._setting import Setting, Streams, assert_same, drive


class ProtocolConformance(Setting):
    """Asking and telling, in turn and out of turn."""

    def _state_machine(self) -> Algorithm:
        return create(
            self.algorithm,
            len(self.easy.means),
            rule=Sigma(k=self.easy.k),
            delta=self.delta,
            rng=np.random.default_rng(0),
            **self.options,
        )

    def test_starts_with_nothing_known(self) -> None:
        """A fresh algorithm has no pulls, no decisions and the widest intervals."""
        machine = self._state_machine()
        assert not machine.done
        assert machine.pulls.tolist() == [0] * machine.n
        assert (machine.decisions == Decision.UNDECIDED).all()
        lower, upper = machine.intervals()
        assert (lower == 0.0).all()
        assert (upper == 1.0).all()

    def test_proposals_are_well_formed_and_counted(self) -> None:
        """Every proposal names existing arms, and absorbing it counts each of its pulls."""
        machine = self._state_machine()
        rewards = Streams(self.easy.means)
        told = np.zeros(machine.n, dtype=np.int64)
        while not machine.done and told.sum() < self.short_budget:
            pulls = machine.propose(2**62)
            assert pulls.indices.shape == pulls.counts.shape
            assert pulls.total >= 1
            assert (pulls.counts >= 1).all()
            assert ((pulls.indices >= 0) & (pulls.indices < machine.n)).all()
            sums = np.array(
                [
                    sum(rewards(int(i)) for _ in range(count))
                    for i, count in zip(pulls.indices, pulls.counts, strict=True)
                ]
            )
            np.add.at(told, pulls.indices, pulls.counts)
            before = machine.round
            machine.absorb(pulls, sums, sums)
            assert machine.round > before
            assert machine.pulls.tolist() == told.tolist()
            assert 0 <= machine.threshold_pulls <= told.sum()
            self._check_intervals(machine)

    def _check_intervals(self, machine: Algorithm) -> None:
        lower, upper = machine.intervals()
        assert ((lower >= 0.0) & (lower <= upper) & (upper <= 1.0)).all()
        for estimate, low, high in machine.thresholds().values():
            assert low <= estimate <= high

    def test_proposes_nothing_when_done(self) -> None:
        """After the last decision a proposal is empty."""
        search = self.search()
        drive(search, Streams(self.easy.means))
        assert search.algorithm.done
        assert search.algorithm.propose(1000).total == 0

    def test_ask_returns_the_same_request_until_told(self) -> None:
        """Asking again neither changes the request nor moves the algorithm."""
        search = self.search()
        drive(search, Streams(self.easy.means), steps=2)
        first, second = search.ask_step(), search.ask_step()
        assert first.indices.tolist() == second.indices.tolist()
        assert first.counts.tolist() == second.counts.tolist()

    def test_asking_twice_changes_nothing_later(self) -> None:
        """A search that is asked twice before every answer ends as one asked once."""
        twice = self.search(budget=self.short_budget)
        rewards = Streams(self.easy.means)
        while not twice.done:
            twice.ask_step()
            drive(twice, rewards, steps=1)
        once = drive(self.search(budget=self.short_budget), Streams(self.easy.means))
        assert_same(twice.result(), once)

    def test_tell_without_ask(self) -> None:
        """Telling out of turn is refused, at the start and after an answer."""
        search = self.search()
        with raises(ProtocolError, "tell_step() was called without calling ask_step()"):
            search.tell_step([0.0])
        drive(search, Streams(self.easy.means), steps=1)
        with raises(ProtocolError, "tell_step() was called without calling ask_step()"):
            search.tell_step([0.0])

    def test_ask_after_the_end(self) -> None:
        """A search that has stopped says why when it is asked."""
        decided = self.search()
        drive(decided, Streams(self.easy.means))
        with raises(ProtocolError, "after the search had stopped", "decided"):
            decided.ask_step()
        stopped = self.search()
        stopped.stop(Status.INTERRUPTED)
        with raises(ProtocolError, "interrupted"):
            stopped.ask_step()

    def _rejects(self, search: Search, rewards: Any, *words: str) -> None:
        before = search.result().to_dict()
        with raises(RewardRejected, *words) as caught:
            search.tell_step(rewards)
        assert isinstance(caught.error.result, Result)
        assert caught.error.result.to_dict() == before
        assert search.result().to_dict() == before

    def test_bad_rewards_are_rejected_whole(self) -> None:
        """One bad reward, or one too few, and nothing of the answer is absorbed."""
        search = self.search()
        drive(search, Streams(self.easy.means), steps=2)
        pulls = search.ask_step()
        good = [0.5] * pulls.total
        self._rejects(search, good[:-1], "one per pull", f"got {pulls.total - 1}")
        self._rejects(search, [*good, 0.5], "one per pull", f"got {pulls.total + 1}")
        self._rejects(search, [good], "one per pull", "shape")
        self._rejects(search, [*good[:-1], float("nan")], "bounds [0, 1]", "nan")
        self._rejects(search, [*good[:-1], 1.5], "bounds [0, 1]", "1.5")
        self._rejects(search, [*good[:-1], -0.1], "bounds [0, 1]", "-0.1")
        self._rejects(search, ["many"] * pulls.total, "numbers")

    def test_goes_on_after_a_rejection(self) -> None:
        """The search waits for a good answer, and ends as if the bad one had never come."""
        search = self.search(budget=self.short_budget)
        pulls = search.ask_step()
        with raises(RewardRejected):
            search.tell_step([2.0] * pulls.total)
        after = drive(search, Streams(self.easy.means))
        without = drive(self.search(budget=self.short_budget), Streams(self.easy.means))
        assert_same(after, without)

    def test_totals_are_as_good_as_rewards(self) -> None:
        """Sums and sums of squares lead to the same result as the single rewards."""
        search = self.search(budget=self.short_budget)
        rewards = Streams(self.easy.means)
        while not search.done:
            pulls = search.ask_step()
            sums = [
                sum(rewards(int(i)) for _ in range(count))
                for i, count in zip(pulls.indices, pulls.counts, strict=True)
            ]
            search.tell_step_totals(sums, sums)  # rewards 0 and 1 are their own squares
        singly = drive(self.search(budget=self.short_budget), Streams(self.easy.means))
        assert_same(search.result(), singly)

    def test_tickets_in_any_order_are_as_good_as_steps(self) -> None:
        """Told out of order, with pulls made ahead and some given back, they end the same."""
        search = self.search(budget=None)
        rng = np.random.default_rng(9)
        streams = Streams(self.easy.means)
        drawn: list[list[float]] = [[] for _ in self.easy.means]
        out: list[Ticket] = []
        while not search.done and search.total_pulls < self.short_budget:
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
        while not steps.done and steps.total_pulls < search.total_pulls:
            drive(steps, again, steps=1)
        assert_same(search.result(), steps.result())
