"""Prefetching: how many pulls of later steps are handed out, and that they bias nothing."""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from helpers import quick_and_long
from oddarms import Search
from oddarms.algorithms import Decision
from oddarms.problem import Question
from oddarms.search import PREFETCH, Place, Status, Ticket
from oddarms.testing import assert_error_rate

ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "spade": ("spade", {}),
    "spade in small steps": ("spade", {"max_step": 7}),
    "ade": ("ade", {}),
    "ade shared": ("ade", {"shared": True}),
    "rr": ("rr", {"batch": 7}),
    "wrr": ("wrr", {"batch": 5}),
}
MEANS = (0.0625, 0.0, 0.9375, 0.125, 0.875)
STEPS = 16
"""Rewards are so many parts of the range: then all sums are exact, whatever their order."""
PER_WORKER = 24
"""Results that may wait or be out ahead for each worker, while there are few results."""
EARLY_ROWS = 20
"""Pulls of each arm that count as expected, where an algorithm cannot tell."""


def question_of(variant: str, **changes: Any) -> Question:
    algorithm, options = ALGORITHMS[variant]
    words = {"labels": len(MEANS), "k": 0.0, "delta": 0.1, "margin": 0.0, **changes}
    return Question(algorithm=algorithm, options=options, **words)


class Table:
    """The reward of every place of every arm."""

    def __init__(self, seed: int, bounds: tuple[float, float] = (0.0, 1.0)) -> None:
        rng = np.random.default_rng(seed)
        a, b = bounds
        hits = rng.random((len(MEANS), 20_000)) < np.array(MEANS)[:, None]
        others = rng.integers(STEPS + 1, size=hits.shape) / STEPS
        self.rewards = a + (b - a) * np.where(rng.random(hits.shape) < 0.9, hits, others)

    def __call__(self, arm: int, place: int) -> float:
        return float(self.rewards[arm, place])


def most_ahead(search: Search, prefetch: float, workers: int) -> float:
    """Return how many results may wait or be out ahead of the step, from the definition."""
    needed = search.algorithm.pulls_needed()
    to_come = EARLY_ROWS * search.question.n if needed is None else float(needed.sum())
    early = min(PER_WORKER * workers, prefetch * (search.pulls + to_come))
    return max(prefetch * search.told, early)


def known(search: Search) -> dict[str, Any]:
    """Return all that a search says, but for what waits and whether the budget ends it."""
    found = search.result().to_dict()
    for name in ("unused", "status"):
        del found[name]
    return found


class InOrder:
    """The reference: a search without prefetching, which is told whole steps of a table."""

    def __init__(self, question: Question, seed: int, table: Table) -> None:
        self.search, self.table = Search(question, rng=seed), table
        self.used = [0] * question.n

    def follow(self, pulls: int) -> None:
        """Make so many pulls, which must be whole steps."""
        while self.search.pulls < pulls:
            rewards = []
            for arm, count in zip(*map(np.ndarray.tolist, self.search.ask_step()), strict=True):
                places = range(self.used[arm], self.used[arm] + count)
                rewards += [self.table(arm, place) for place in places]
                self.used[arm] += count
            self.search.tell_step(rewards)
        assert self.search.pulls == pulls

    def ends(self) -> list[int]:
        """Return per arm the place behind the step in progress."""
        ends = list(self.used)
        if not self.search.done:
            for arm, count in zip(*map(np.ndarray.tolist, self.search.ask_step()), strict=True):
                ends[arm] += count
        return ends


Order = Callable[[float, np.random.Generator], float]
ORDERS: dict[str, Order] = {
    "any": lambda _, rng: rng.random(),
    "large ones last": lambda reward, _: reward,
    "small ones last": lambda reward, _: -reward,
}
"""Which of the tickets that are out is told next: that with the least value."""


class Crowd:
    """Workers who ask, tell early and late and give back, checked after all that they do."""

    def __init__(self, question: Question, seed: int, order: str, prefetch: float, skips: float):
        self.search, self.table = Search(question, rng=seed), Table(seed, question.bounds)
        self.reference = InOrder(question, seed, self.table)
        self.rng = np.random.default_rng(seed)
        self.order, self.prefetch, self.skips = ORDERS[order], prefetch, skips
        self.out: dict[Place, Ticket] = {}
        self.told: set[Place] = set()
        self.early = 0

    def act(self) -> None:
        if not self.out or self.rng.random() < 0.3:
            self.ask(int(self.rng.integers(1, 13)))
        else:
            self.answer()
        self.check_nothing_is_lost()

    def ask(self, n: int) -> None:
        workers = n + len(self.out)
        tickets = self.search.ask(n, prefetch=self.prefetch)
        new = {(ticket.index, ticket.place): ticket for ticket in tickets}
        assert len(new) == len(tickets) <= n
        assert not new.keys() & (self.out.keys() | self.told), "asked twice"
        self.out |= new
        budget = self.search.question.budget
        assert budget is None or len(self.told) + len(self.out) <= budget
        if not self.search.done and any(map(self.is_ahead, new)):
            self.check_ahead(workers)

    def check_ahead(self, workers: int) -> None:
        assert self.prefetch > 0.0
        held = sum(map(self.is_ahead, [*self.out, *self.told]))
        assert held <= most_ahead(self.search, self.prefetch, workers)
        in_step = self.search.open_places(10**6, set(), prefetch=0.0)
        assert set(in_step) <= self.out.keys(), "places of the step come first"
        self.early += 1

    def is_ahead(self, place: Place) -> bool:
        return place[1] >= self.reference.ends()[place[0]]

    def answer(self) -> None:
        place = min(self.out, key=lambda place: self.order(self.table(*place), self.rng))
        ticket = self.out.pop(place)
        if self.rng.random() < self.skips:
            self.search.skip(ticket)
        else:
            self.search.tell(ticket, self.table(*place))
            self.told.add(place)

    def check_nothing_is_lost(self) -> None:
        """All that was told is used at its place, or waits: what is known is the reference's."""
        search = self.search
        assert search.told == len(self.told)
        if search.pulls > self.reference.search.pulls:
            self.reference.follow(search.pulls)
            assert known(search) == known(self.reference.search)
            assert search.result().unused == len(self.told) - search.pulls
        if search.status is Status.BUDGET:
            self.check_budget()

    def check_budget(self) -> None:
        """The budget ends a search only if it allows no step, or not all that the step misses."""
        budget, reference = self.search.question.budget, self.reference
        assert budget is not None
        ranges = zip(reference.used, reference.ends(), strict=True)
        step = {(arm, place) for arm, ends in enumerate(ranges) for place in range(*ends)}
        left = budget - len(self.told)
        assert reference.search.status is Status.BUDGET or len(step - self.told) > left


questions = st.builds(
    question_of,
    st.sampled_from(sorted(ALGORITHMS)),
    side=st.sampled_from(["upper", "lower", "both"]),
    bounds=st.sampled_from([(0.0, 1.0), (-4.0, 12.0)]),
    budget=st.sampled_from([None, 40, 90]),
    k=st.sampled_from([0.0, 0.75]),
)


class TestAtAnyMoment:
    """The share and the budget are respected, nothing is lost, and nothing is asked twice."""

    @pytest.mark.parametrize("examples", quick_and_long([25], [200]))
    def test_whatever_workers_do(self, examples: int) -> None:
        settings(max_examples=examples)(
            given(
                questions,
                st.integers(0, 2**32),
                st.sampled_from(sorted(ORDERS)),
                st.sampled_from([0.0, PREFETCH, 1.0]),
                st.sampled_from([0.0, 0.1]),
            )(self.check)
        )()

    def check(
        self, question: Question, seed: int, order: str, prefetch: float, skips: float
    ) -> None:
        crowd = Crowd(question, seed, order, prefetch, skips)
        for _ in range(100):
            crowd.act()
            if crowd.search.done and not crowd.out:
                return

    @pytest.mark.parametrize("order", quick_and_long(list(ORDERS)[:1], list(ORDERS)[1:]))
    @pytest.mark.parametrize(
        "variant",
        quick_and_long(["spade", "ade shared", "wrr"], ["spade in small steps", "ade", "rr"]),
    )
    def test_the_answer_does_not_depend_on_the_order(self, variant: str, order: str) -> None:
        crowd = Crowd(question_of(variant, side="both"), 5, order, 1.0, 0.0)
        while len(crowd.told) < 150:
            crowd.act()
        while crowd.out:
            crowd.answer()
            crowd.check_nothing_is_lost()
        assert crowd.early > 0
        assert crowd.search.pulls > len(crowd.told) / 2


class TestHowFar:
    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_one_slow_pull_does_not_hold_up_the_others(self, variant: str) -> None:
        """All others are told; more can be made until the share is there, and all are used."""
        question, table = question_of(variant, delta=1e-9), Table(1)
        search, reference = Search(question, rng=1), InOrder(question, 1, table)
        while search.told < 90:
            (ticket,) = search.ask(1, prefetch=0.0)
            search.tell(ticket, table(ticket.index, ticket.place))
        slow, *others = search.ask(10**6)
        most = most_ahead(search, PREFETCH, 10**6)
        step = len(search.open_places(10**6, set(), prefetch=0.0))
        assert PREFETCH * 90 - 1 <= len(others) + 1 - step <= most
        for ticket in others:
            search.tell(ticket, table(ticket.index, ticket.place))
        before = search.pulls
        search.tell(slow, table(slow.index, slow.place))
        assert search.pulls > before
        reference.follow(search.pulls)
        assert known(search) == known(reference.search)

    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_only_of_arms_that_are_expected(self, variant: str) -> None:
        search, table = Search(question_of(variant, k=0.25), rng=1), Table(1)
        while search.undecided == len(MEANS):
            for ticket in search.ask(1000, prefetch=0.0):
                search.tell(ticket, table(ticket.index, ticket.place))
        assert not search.done
        step = set(search.open_places(10**6, set(), prefetch=0.0))
        early = {t.index for t in search.ask(10**6) if (t.index, t.place) not in step}
        steps = itertools.islice(search.algorithm.outlook(), 200)
        assert early
        assert early <= {int(arm) for pulls in steps for arm in pulls.indices[pulls.counts > 0]}

    @pytest.mark.parametrize("prefetch", [1e300, 1e308])
    def test_any_share_may_be_wanted(self, prefetch: float) -> None:
        search = Search(question_of("rr"), rng=1)
        for ticket in search.ask(100):
            search.tell(ticket, 0.5)
        assert len(search.ask(500, prefetch=prefetch)) == 500

    def test_what_is_there_is_not_asked_for_again_when_the_budget_grows(self) -> None:
        """Or fast rewards would be drawn twice."""
        search = Search(4, k=0.5, delta=0.05, budget=69, algorithm="rr", batch=10, rng=1)
        for ticket in search.ask(40):
            search.tell(ticket, 0.5)
        tickets = search.ask(24, prefetch=5.0)
        for ticket in tickets:
            search.tell(ticket, 0.5)
        search.ask(1)
        assert search.status is Status.BUDGET
        search.raise_budget(1000)
        again = {(ticket.index, ticket.place) for ticket in search.ask(100, prefetch=0.0)}
        assert again
        assert again.isdisjoint({(ticket.index, ticket.place) for ticket in tickets})


BIAS = (0.35, 1.0, 0.0, 0.0)
"""Means of arms of which the first one's 1 takes 300 times as long as all else.

The threshold for k = 0 is 0.3375, so the first arm is above it, by little.
"""
TRUTH = (Decision.HIGH, Decision.HIGH, Decision.NORMAL, Decision.NORMAL)


class Crew:
    """Workers in virtual time, each of whom has one pull, and whom a reward may keep.

    A reward is told for its own ticket or, *by arrival*, for the oldest ticket of its arm that is
    out: what would be wrong, and what the tests below must be able to see.
    """

    def __init__(self, search: Search, seed: int, *, by_arrival: bool) -> None:
        self.search, self.by_arrival = search, by_arrival
        self.rng = np.random.default_rng(seed)
        self.idle, self.now = 64, 0.0
        self.events: list[tuple[float, int, Ticket, float]] = []
        self.numbers = itertools.count()
        self.out: dict[int, list[Ticket]] = defaultdict(list)
        self.waited = False

    def run(self, until: Callable[[Search], bool], prefetch: float) -> Search:
        search = self.search
        while not search.done and not until(search):
            if self.idle >= 8 or not self.events:
                for ticket in search.ask(self.idle, prefetch=prefetch):
                    self._pull(ticket)
            self._answer()
            self.waited |= search.told > search.pulls
        return search

    def _pull(self, ticket: Ticket) -> None:
        self.idle -= 1
        self.out[ticket.index].append(ticket)
        reward = float(self.rng.random() < BIAS[ticket.index])
        seconds = self.rng.exponential(300.0 if ticket.index == 0 and reward else 1.0)
        heapq.heappush(self.events, (self.now + seconds, next(self.numbers), ticket, reward))

    def _answer(self) -> None:
        self.now, _, ticket, reward = heapq.heappop(self.events)
        self.idle += 1
        mine = self.out[ticket.index]
        told = mine[0] if self.by_arrival else ticket
        mine.remove(told)
        self.search.tell(told, reward)


class TestSlowRewards:
    """They cannot bias the answer; the same rewards by arrival do, so the tests have power."""

    false_alarm = 1e-6
    """Of each test here, for seeds drawn anew; those that are written here always pass."""
    runs, batch, rounds = 60, 4, 2

    def first_hits(self, *, by_arrival: bool) -> int:
        """Return the sum of the first arm's first rewards that the algorithm used, in all runs."""
        hits = 0.0
        for seed in range(self.runs):
            search = Search(4, k=0, margin=0, algorithm="rr", batch=self.batch, rng=seed)
            crew = Crew(search, seed, by_arrival=by_arrival)
            crew.run(lambda search: search.pulls >= 4 * self.batch * self.rounds, 0.5)
            first = search.result().first
            assert first is not None
            assert first.round == self.rounds  # later steps may have ended at the same time
            hits += float(first.means[0]) * self.batch * self.rounds
        return round(hits)

    def chance(self, hits: int) -> float:
        """Return the two-sided p-value of a sum of rewards with the first arm's mean: exact."""
        law = binom(self.runs * self.batch * self.rounds, BIAS[0])
        return min(1.0, 2.0 * min(float(law.cdf(hits)), float(law.sf(hits - 1))))

    def test_the_rewards_of_the_first_steps_have_the_mean_of_their_arm(self) -> None:
        assert self.chance(self.first_hits(by_arrival=False)) > self.false_alarm

    def test_by_arrival_they_do_not(self) -> None:
        assert self.chance(self.first_hits(by_arrival=True)) < self.false_alarm**2

    def wrong(
        self, variant: str, runs: int, most: int, delta: float, *, by_arrival: bool = False
    ) -> int:
        """Return in how many runs an arm is decided wrongly; in most runs one is decided."""
        wrong = decided = 0
        for seed in range(runs):
            question = question_of(variant, labels=4, delta=delta)
            crew = Crew(Search(question, rng=seed), seed, by_arrival=by_arrival)
            search = crew.run(lambda search: search.told >= most, 2.0)
            pairs = list(zip(search.decisions.tolist(), TRUTH, strict=True))
            wrong += any(found not in (Decision.UNDECIDED, true) for found, true in pairs)
            decided += any(found != Decision.UNDECIDED for found, _ in pairs)
            assert crew.waited
        assert decided > runs / 2
        return wrong

    @pytest.mark.parametrize(
        ("variant", "runs", "most", "delta"),
        quick_and_long(
            [("spade", 12, 250, 0.1)],
            [("spade", 150, 600, 0.3), ("rr", 40, 3000, 0.3), ("wrr", 40, 3000, 0.3)],
        ),
    )
    def test_wrong_answers_are_as_rare_as_promised(
        self, variant: str, runs: int, most: int, delta: float
    ) -> None:
        wrong = self.wrong(variant, runs, most, delta)
        assert_error_rate(wrong, runs, delta, self.false_alarm)

    def test_by_arrival_they_are_not(self) -> None:
        wrong = self.wrong("spade", 12, 250, 0.1, by_arrival=True)
        with pytest.raises(AssertionError, match="errors in 12 runs"):
            assert_error_rate(wrong, 12, 0.1, self.false_alarm)
