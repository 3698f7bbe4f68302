"""Pulls ahead of the step: how many, of what, and that they cannot bias the answer."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import quick_and_long
from oddarms import Search
from oddarms.algorithms import Decision, Pulls
from oddarms.problem import FloatArray, Question
from oddarms.search import AHEAD, Status, Ticket
from oddarms.search._places import STEPS_AHEAD, Place, missing_ahead
from oddarms.search._search import EARLY_ROWS, PER_WORKER
from oddarms.search._step import Out
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


def question_of(variant: str, **changes: Any) -> Question:
    algorithm, options = ALGORITHMS[variant]
    words = {"labels": len(MEANS), "k": 0.0, "delta": 0.1, "options": options, **changes}
    return Question(algorithm=algorithm, **words)


class Table:
    """The reward of every place of every arm."""

    def __init__(self, seed: int, bounds: tuple[float, float] = (0.0, 1.0)) -> None:
        rng = np.random.default_rng(seed)
        a, b = bounds
        hits = rng.random((len(MEANS), 20_000)) < np.array(MEANS)[:, None]
        others = rng.integers(STEPS + 1, size=hits.shape) / STEPS
        parts = np.where(rng.random(hits.shape) < 0.9, hits, others)
        self.rewards = a + (b - a) * parts

    def __call__(self, arm: int, place: int) -> float:
        return float(self.rewards[arm, place])


def in_order(search: Search, table: Table, most: int) -> None:
    """Tell whole steps, one after the other, until there are so many pulls."""
    used: Counter[int] = Counter()
    while not search.done and search.told < most:
        pulls = search.ask_step()
        rewards = []
        for arm in np.repeat(pulls.indices, pulls.counts).tolist():
            rewards.append(table(arm, used[arm]))
            used[arm] += 1
        search.tell_step(rewards)


def expected_arms(search: Search) -> set[int]:
    """Return the arms of the steps that the algorithm expects."""
    steps = list(itertools.islice(search.algorithm.outlook(), STEPS_AHEAD))
    return {int(arm) for pulls in steps for arm in pulls.indices[pulls.counts > 0]}


def document(search: Search) -> dict[str, Any]:
    """Return all that a search says but what it did not use."""
    found = search.result().to_dict()
    del found["unused"]
    return found


class Crowd:
    """Workers who ask at random, and tell, early or late, or give back what they have."""

    def __init__(self, search: Search, table: Table, seed: int, *, ahead: float, skips: float):
        self.search = search
        self.table = table
        self.rng = np.random.default_rng(seed)
        self.ahead = ahead
        self.skips = skips
        self.out: list[Ticket] = []

    def step_places(self) -> set[Place]:
        return set(self.search._sequences.open_in_step(10**6, {}))

    def ask(self, most: int = 12) -> list[Ticket]:
        tickets = self.search.ask(int(self.rng.integers(1, most + 1)), ahead=self.ahead)
        self.out += tickets
        return tickets

    def answer(self) -> None:
        if not self.out:
            return
        ticket = self.out.pop(int(self.rng.integers(len(self.out))))
        if self.rng.random() < self.skips:
            self.search.skip(ticket)
        else:
            self.search.tell(ticket, self.table(ticket.index, ticket.place))

    def act(self) -> None:
        if self.rng.random() < 0.3:
            self.ask()
        else:
            self.answer()


questions = st.builds(
    question_of,
    st.sampled_from(sorted(ALGORITHMS)),
    side=st.sampled_from(["upper", "lower", "both"]),
    budget=st.sampled_from([None, 90, 203]),
    k=st.sampled_from([0.0, 0.75]),
)
seeds = st.integers(0, 2**32)
COMMON = settings(derandomize=True, deadline=None)
EXAMPLES = quick_and_long([8], [20])


class TestHowFar:
    @pytest.mark.parametrize("examples", EXAMPLES)
    def test_at_any_moment(self, examples: int) -> None:
        """The share, the budget, and that all that was told is somewhere."""
        aheads, skips = st.sampled_from([0.0, AHEAD, 1.0]), st.sampled_from([0.0, 0.1])
        settings(COMMON, max_examples=examples)(
            given(questions, seeds, aheads, skips)(self.check_any_moment)
        )()

    def check_any_moment(self, question: Question, seed: int, ahead: float, skips: float) -> None:
        search = Search(question, rng=seed)
        crowd = Crowd(search, Table(seed), seed, ahead=ahead, skips=skips)
        for _ in range(100):
            before, step = len(crowd.out), crowd.step_places()
            fresh = crowd.ask() if crowd.rng.random() < 0.3 else crowd.answer()
            early = [t for t in fresh or () if (t.index, t.place) not in step]
            if early:
                assert ahead > 0.0
                assert {ticket.index for ticket in early} <= expected_arms(search)
                out_early = [t for t in crowd.out if (t.index, t.place) not in step]
                held = search.unused + len(out_early)
                assert held <= self.most(search, ahead, before + 12)
                assert step <= {(t.index, t.place) for t in crowd.out}  # first the step's own
            if question.budget is not None:
                assert search.told + len(crowd.out) <= question.budget
                if early:  # what is ahead leaves the step what it needs
                    left = question.budget - search.told - len(crowd.out)
                    assert left >= len(self.not_out(crowd))
            assert search.told == search.total_pulls + search.unused + search.in_step
            result = search.result()
            assert result.unused == search.told - result.pulls
            assert result.pulls == result.pulls_per_arm.sum()

    def most(self, search: Search, ahead: float, workers: int) -> float:
        needed = search.algorithm.pulls_needed()
        to_come = EARLY_ROWS * search.question.n if needed is None else float(needed.sum())
        early = min(PER_WORKER * workers, ahead * (search.told + to_come))
        return max(ahead * search.told, early)

    def not_out(self, crowd: Crowd) -> set[Place]:
        return crowd.step_places() - {(t.index, t.place) for t in crowd.out}

    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_nothing_of_later_steps_where_it_is_not_wanted(self, variant: str) -> None:
        search = Search(question_of(variant), rng=1)
        table = Table(1)
        for _ in range(20):
            step = set(search._sequences.open_in_step(10**6, {}))
            tickets = search.ask(10**6, ahead=0)
            assert {(t.index, t.place) for t in tickets} == step
            assert tickets.status == Status.WAITING
            *others, last = tickets
            for ticket in others:
                search.tell(ticket, table(ticket.index, ticket.place))
                assert search.ask(1, ahead=0) == []
            assert search.unused == 0
            search.tell(last, table(last.index, last.place))

    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_who_is_slow_does_not_hold_up_the_others(self, variant: str) -> None:
        """One pull takes for ever; the others make more than the step has, within the share."""
        question = question_of(variant, delta=1e-9)
        search = Search(question, rng=1)
        table = Table(1)
        in_order(search, table, 90)
        step = len(search._sequences.open_in_step(10**6, {}))
        slow, *tickets = search.ask(10**6)
        assert len(tickets) + 1 - step >= AHEAD * 90 - 1
        for ticket in tickets:
            search.tell(ticket, table(ticket.index, ticket.place))
        search.tell(slow, table(slow.index, slow.place))
        reference = Search(question, rng=1)
        in_order(reference, table, search.total_pulls)
        assert reference.total_pulls == search.total_pulls
        assert document(search) == document(reference)

    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_only_of_arms_that_are_expected(self, variant: str) -> None:
        search = Search(question_of(variant, k=0.25), rng=1)
        table = Table(1)
        while search.undecided == len(MEANS):
            in_order(search, table, search.told + 1)
        assert not search.done
        step = set(search._sequences.open_in_step(10**6, {}))
        tickets = search.ask(10**6)
        early = {t.index for t in tickets if (t.index, t.place) not in step}
        assert early
        assert early <= expected_arms(search)
        if "ade" in variant.split():  # the rows of SPADE and the turns of RR have all arms
            assert early <= set(np.flatnonzero(search.algorithm.undecided).tolist())

    @given(
        st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), max_size=9),
        st.lists(st.integers(0, 9), min_size=4, max_size=4),
        st.integers(-2, 60),
    )
    @COMMON
    def test_what_the_next_steps_miss_comes_first(
        self, steps: list[list[int]], held: list[int], most: int
    ) -> None:
        left, found = list(held), [0] * 4
        for step in steps:
            for arm in [arm for arm, count in enumerate(step) for _ in range(count)]:
                if left[arm] > 0:
                    left[arm] -= 1
                elif sum(found) < most:
                    found[arm] += 1
        outlook = [Pulls(np.arange(4), np.array(step)) for step in steps]
        assert missing_ahead(np.array(held), outlook, most).tolist() == found

    @pytest.mark.parametrize("ahead", [1e300, 1e308])
    def test_any_share_may_be_wanted(self, ahead: float) -> None:
        search = Search(question_of("rr"), rng=1)
        for ticket in search.ask(100):
            search.tell(ticket, 0.5)
        assert len(search.ask(500, ahead=ahead)) == 500

    def test_what_is_left_over_is_counted(self) -> None:
        search = Search(question_of("spade"), rng=1)
        crowd = Crowd(search, Table(1), 1, ahead=1.0, skips=0.0)
        while not search.done:
            crowd.act()
        left = search.result().unused
        assert left > 0
        out = len(crowd.out)
        while crowd.out:
            crowd.answer()
        assert search.result().unused == left + out
        assert search.told == search.result().pulls + left + out


class TestAnyOrder:
    """A ticket told early, late or in any order: the answer is that of steps told in order."""

    @pytest.mark.parametrize("side", quick_and_long(["both"], ["upper", "lower"]))
    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_same_rewards_by_place_same_answer(self, variant: str, side: Any) -> None:
        bounds = (0.0, 1.0) if side == "upper" else (-4.0, 12.0)
        question = question_of(variant, side=side, bounds=bounds)
        table = Table(5, bounds)
        for seed, ahead in enumerate((AHEAD, 2.0)):
            search = Search(question, rng=9)
            crowd = Crowd(search, table, seed, ahead=ahead, skips=0.1)
            early = 0
            while not search.done and search.told < 150:
                crowd.act()
                early = max(early, search.unused)
            assert early > 0
            reference = Search(question, rng=9)
            in_order(reference, table, search.total_pulls)
            assert document(search) == document(reference)

    @pytest.mark.parametrize(
        ("variant", "slowest"),
        quick_and_long(
            [("spade", 1.0), ("spade", 0.0), ("ade", 1.0), ("wrr", 0.0)],
            [("ade", 0.0), ("wrr", 1.0)],
        ),
    )
    def test_the_slowest_are_those_of_one_kind(self, variant: str, slowest: float) -> None:
        question = question_of(variant)
        table = Table(6)
        search = Search(question, rng=9)
        crowd = Crowd(search, table, 1, ahead=1.0, skips=0.0)
        while not search.done and search.told < 500:
            crowd.ask(40)
            crowd.out.sort(key=lambda t: abs(table(t.index, t.place) - slowest))
            ticket = crowd.out.pop()  # the furthest from the slowest ones
            search.tell(ticket, table(ticket.index, ticket.place))
        reference = Search(question, rng=9)
        in_order(reference, table, search.total_pulls)
        assert document(search) == document(reference)


class TestSaving:
    @pytest.mark.parametrize("examples", EXAMPLES)
    def test_at_any_moment(self, examples: int) -> None:
        """With rewards ahead, spares and imports pending, and tickets out that nobody remembers."""
        aheads = st.sampled_from([AHEAD, 1.0])
        settings(COMMON, max_examples=examples)(
            given(questions, seeds, aheads, st.booleans())(self.check_any_moment)
        )()

    def check_any_moment(self, question: Question, seed: int, ahead: float, imports: bool) -> None:
        one, two = Search(question, rng=seed), Search(question, rng=seed)
        table = Table(seed)
        rng = np.random.default_rng(seed)
        out: Out = {}
        pending: list[Place] = []
        for _ in range(60):
            draw = rng.random()
            if draw < 0.1 and imports:
                arms = rng.integers(len(MEANS), size=9)
                for search in (one, two):
                    search.take_import(arms, np.full(9, 0.5))
            elif draw < 0.4:
                n = int(rng.integers(1, 10))
                assert two.open_places(n, out, ahead=0) == one.open_places(n, out, ahead=0)
                assert two.status_with(out, ahead=0) == one.status_with(out, ahead=0)
                found = one.open_places(n, out, ahead=ahead)
                pending += found
                for arm, place in found:
                    out.setdefault(arm, set()).add(place)
            elif draw < 0.45 and pending:  # its lease runs out, and it may be handed out again
                arm, place = pending[int(rng.integers(len(pending)))]
                out[arm].discard(place)
            elif pending:
                arm, place = pending.pop(int(rng.integers(len(pending))))
                if (arm, place) not in pending:
                    out[arm].discard(place)
                for search in (one, two):
                    search.take(arm, place, table(arm, place))
            if rng.random() < 0.2:
                data = two.to_bytes()
                two = Search.from_bytes(question, data)
                assert two.to_bytes() == data == one.to_bytes()
        assert two.result().to_dict() == one.result().to_dict()
        assert (two.told, two.taken, two.unused) == (one.told, one.taken, one.unused)

    def test_tickets_that_are_out_are_open_again(self) -> None:
        question = question_of("spade")
        search = Search(question, rng=1)
        tickets = search.ask(100)
        search.tell(tickets[-1], 0.5)
        search.tell(tickets[0], 0.5)
        again = Search.from_bytes(question, search.to_bytes())
        places = [(t.index, t.place) for t in again.ask(100)]
        assert {(t.index, t.place) for t in tickets[1:-1]} <= set(places)
        assert (tickets[0].index, tickets[0].place) not in places
        assert (tickets[-1].index, tickets[-1].place) not in places
        assert again.told == 2


Duration = Callable[[int, float, np.random.Generator], float]


def slow_if_good(arm: int, reward: float, rng: np.random.Generator) -> float:
    """A 1 of the first arm takes 300 times as long as all else."""
    return (300.0 if arm == 0 and reward == 1.0 else 1.0) * (0.5 + rng.random())


class Workshop:
    """Workers in virtual time who each have one pull, and whom a reward may keep.

    By place, as a search does it, or by arrival, where the next result of an arm takes its next
    place: what would be wrong.
    """

    def __init__(
        self,
        search: Search,
        means: FloatArray,
        seed: int,
        *,
        workers: int,
        duration: Duration = slow_if_good,
        by_arrival: bool = False,
    ) -> None:
        self.search = search
        self.means = means
        self.rng = np.random.default_rng(seed)
        self.idle = workers
        self.least = max(workers // 8, 1)  # they come for more when there are so many of them
        self.duration = duration
        self.by_arrival = by_arrival
        self.now = 0.0
        self.numbers = itertools.count()
        self.events: list[tuple[float, int, int, int, float]] = []
        self.out: Out = {i: set() for i in range(means.size)}
        self.arrived = [0] * means.size
        self.most_unused = 0

    def run(self, most: int, *, ahead: float, until: Callable[[Search], bool] | None = None) -> Any:
        search = self.search
        while not search.done and search.told < most and not (until and until(search)):
            if self.idle >= self.least or not self.events:
                for arm, place in search.open_places(self.idle, self.out, ahead=ahead):
                    self._pull(arm, place)
            self._answer()
            self.most_unused = max(self.most_unused, search.unused)
        return search

    def _pull(self, arm: int, place: int) -> None:
        self.idle -= 1
        self.out[arm].add(place)
        reward = float(self.rng.random() < self.means[arm])
        end = self.now + self.duration(arm, reward, self.rng)
        heapq.heappush(self.events, (end, next(self.numbers), arm, place, reward))

    def _answer(self) -> None:
        self.now, _, arm, place, reward = heapq.heappop(self.events)
        self.idle += 1
        if self.by_arrival:
            place = self.arrived[arm]  # and those that are out are the ones behind it
            self.out[arm] = set(range(place + 1, place + len(self.out[arm])))
            self.arrived[arm] += 1
        else:
            self.out[arm].discard(place)
        self.search.take(arm, place, reward)


class TestRewardsThatDecideTheSpeed:
    """The first arm's 1 takes 300 times as long as all else; its mean is over the threshold."""

    means = np.array([0.35, 1.0, 0.0, 0.0])  # theta = 0.3375 for k = 0
    truth = (Decision.HIGH, Decision.HIGH, Decision.NORMAL, Decision.NORMAL)
    ahead = 2.0
    delta = 0.3

    def deviation(self, runs: int, *, by_arrival: bool) -> float:
        """Return by how many standard deviations the first arm's first 4 rewards are off."""
        hits = 0
        for seed in range(runs):
            search = Search(4, k=0, delta=0.1, algorithm="rr", batch=4, rng=seed)
            step = search._sequences.step
            shop = Workshop(search, self.means, seed, workers=32, by_arrival=by_arrival)
            shop.run(10**6, ahead=0.5, until=lambda search: search.total_pulls > 0)
            hits += int(step.sums[0])
        p, pulls = self.means[0], 4 * runs
        return float((hits - pulls * p) / np.sqrt(pulls * p * (1 - p)))

    def test_the_mean_of_the_rewards_by_place_is_right(self) -> None:
        assert abs(self.deviation(100, by_arrival=False)) < 4.9  # else P < 1e-6

    def test_that_of_the_rewards_by_arrival_is_not(self) -> None:
        """So that the test above would see it."""
        assert self.deviation(100, by_arrival=True) < -9.8

    def wrong(self, variant: str, runs: int, most: int, *, by_arrival: bool = False) -> int:
        """Return how many runs decided something wrongly, of runs most of which decide."""
        wrong = decided = waited = 0
        for seed in range(runs):
            search = Search(question_of(variant, labels=4, delta=self.delta), rng=seed)
            shop = Workshop(search, self.means, seed, workers=64, by_arrival=by_arrival)
            shop.run(most, ahead=self.ahead)
            pairs = list(zip(search.decisions.tolist(), self.truth, strict=True))
            wrong += any(found not in (Decision.UNDECIDED, true) for found, true in pairs)
            decided += any(found != Decision.UNDECIDED for found, _ in pairs)
            waited += shop.most_unused > 0
        assert waited == runs
        assert decided > runs / 2
        return wrong

    @pytest.mark.parametrize(
        ("variant", "runs", "most"),
        [
            ("spade", 15, 250),
            pytest.param("spade", 150, 600, marks=pytest.mark.long),
            pytest.param("rr", 40, 3000, marks=pytest.mark.long),
            pytest.param("wrr", 40, 3000, marks=pytest.mark.long),
        ],
    )
    def test_wrong_answers_are_as_rare_as_promised(
        self, variant: str, runs: int, most: int
    ) -> None:
        wrong = self.wrong(variant, runs, most)
        assert_error_rate(wrong, runs, self.delta)

    @pytest.mark.long
    def test_by_arrival_they_are_not(self) -> None:
        """The test above has power: here the first arm seems to be below the threshold."""
        runs = 30
        wrong = self.wrong("spade", runs, 300, by_arrival=True)
        with pytest.raises(AssertionError, match=f"errors in {runs} runs"):
            assert_error_rate(wrong, runs, self.delta)


def test_what_waits_when_the_budget_ends_is_there_when_an_import_lifts_it() -> None:
    """No place that has a result is handed out again, or fast rewards would be drawn twice."""
    search = Search(4, k=0.5, delta=0.05, budget=69, algorithm="rr", batch=10, rng=1)
    for ticket in search.ask(40):
        search.tell(ticket, 0.5)
    tickets = search.ask(24, ahead=5.0)
    early = [ticket for ticket in tickets if ticket.index == 2]
    assert early
    for ticket in tickets:
        search.tell(ticket, 1.0 if ticket.index == 2 else 0.5)
    assert search.status is Status.BUDGET
    assert search.unused == len(early)
    search.import_rewards({2: [0.5] * 5})
    again = {(ticket.index, ticket.place) for ticket in search.ask(100, ahead=0.0)}
    assert again.isdisjoint({(ticket.index, ticket.place) for ticket in early})
