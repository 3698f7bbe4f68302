"""Tickets, places and steps of a search, against their definition written in plain Python."""

from __future__ import annotations

import heapq
import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import VARIANTS, quick_and_long
from oddarms import Search
from oddarms.algorithms import Decision, create
from oddarms.algorithms._base import UNLIMITED
from oddarms.errors import InvalidParameter, ProtocolError, RewardRejected
from oddarms.freezing import freeze, thaw
from oddarms.problem import FloatArray, Question
from oddarms.rules import rule_of
from oddarms.search import Status, Ticket
from oddarms.search._places import Place
from oddarms.search._step import Out
from oddarms.studies._log import ResultRow
from oddarms.studies._replay import replay
from oddarms.testing import assert_error_rate

ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    **VARIANTS,
    "spade": ("spade", {}),
    "spade in small steps": ("spade", {"max_step": 5, "indifference": 0.0625}),
}
SIDES = ["upper", "lower", "both"]
BOUNDS = [(0.0, 1.0), (-4.0, 12.0), (2.0**20, 2.0**20 + 1.0)]
MEANS = (0.05, 0.0, 0.95, 0.05, 0.9)
STEPS = 16
"""Rewards are so many parts of the range: then all sums are exact, whatever their order."""


def question_of(variant: str, **changes: Any) -> Question:
    algorithm, options = ALGORITHMS[variant]
    words = {"labels": len(MEANS), "k": 0.0, "delta": 0.1, "margin": 0.0, **changes}
    return Question(algorithm=algorithm, **{"options": options, **words})


def open_in_step(search: Search) -> list[Place]:
    """Return all places of the step whose rewards are not there."""
    return search._sequences.open_in_step(10**6, {})


class Naive:
    """The definition: every reward by its place, and an algorithm that is given whole steps.

    A step is a list of slots, entry after entry; each has an imported reward, or a place.
    """

    def __init__(self, question: Question, seed: int) -> None:
        self.question = question
        a, b = question.bounds
        options = question.options
        if "indifference" in options:
            options["indifference"] /= b - a
        self.algorithm = create(
            str(question.algorithm),
            question.n,
            rule=rule_of(question),
            delta=question.delta,
            rng=np.random.default_rng(seed),
            side="both" if question.side == "both" else "upper",
            **options,
        )
        self.used = [0] * question.n
        self.ahead: dict[Place, float] = {}
        self.spares: dict[int, list[float]] = {i: [] for i in range(question.n)}
        self.imported: dict[int, list[float]] = {i: [] for i in range(question.n)}
        self.imports: list[list[tuple[int, float]]] = []
        self.free = self.total = self.taken = self.absorbed = 0
        self.status = Status.RUNNING
        self._propose()

    def take(self, arm: int, place: int, reward: float) -> None:
        self.taken += 1
        value = self._scaled(reward)
        mine = [slot for slot in self.slots if slot["arm"] == arm]
        own = [slot for slot in mine if slot["place"] == place and slot["reward"] is None]
        end = self.used[arm] + sum(slot["place"] is not None for slot in mine)
        if own:
            own[0]["reward"] = value
        elif place >= end and (arm, place) not in self.ahead:
            self.ahead[arm, place] = value
        else:
            self._take_spare(arm, value)
        self._settle()

    def take_import(self, rewards: list[tuple[int, float]]) -> None:
        self.taken += len(rewards)
        if self.status is Status.BUDGET:  # of which they cost nothing
            self.status = Status.RUNNING
        untouched = all(slot["reward"] is None for slot in self.slots)
        scaled = [(arm, self._scaled(reward)) for arm, reward in rewards]
        if self.algorithm.takes_imports:
            self.imports.append(scaled)
            if untouched and not self.status.final:
                self._propose()
        else:
            self.free += len(rewards)
            for arm, value in scaled:
                self.imported[arm].append(value)
            if untouched and not self.status.final:
                if self.slots:
                    self._begin()
                else:
                    self._propose()
        self._settle()

    def _scaled(self, reward: float) -> float:
        a, b = self.question.bounds
        return (b - reward if self.question.side == "lower" else reward - a) / (b - a)

    def _take_spare(self, arm: int, value: float) -> None:
        empty = [s for s in self.slots if s["arm"] == arm and s["reward"] is None]
        if empty:
            empty[0]["reward"] = value
        else:
            self.spares[arm].append(value)

    def _settle(self) -> None:
        while not self.status.final and all(slot["reward"] is not None for slot in self.slots):
            values = iter([slot["reward"] for slot in self.slots])
            entries = [[next(values) for _ in range(count)] for count in self.pulls.counts]
            sums = np.array([sum(entry) for entry in entries])
            squares = np.array([sum(value**2 for value in entry) for entry in entries])
            self.algorithm.absorb(self.pulls, sums, squares)
            self.total += len(self.slots)
            for slot in self.slots:
                self.used[slot["arm"]] += slot["place"] is not None
            self._propose()
        if self.status.final:  # what waits is not used any more
            self.ahead, self.imports = {}, []
            for kind in (self.spares, self.imported):
                kind.update({arm: [] for arm in kind})

    def _propose(self) -> None:
        while self.imports and not self.algorithm.done:
            rewards = sorted(self.imports.pop(0), key=lambda pair: pair[0])
            counts = np.bincount([arm for arm, _ in rewards], minlength=self.question.n)
            self.algorithm.absorb_imports(counts, np.array([value for _, value in rewards]))
            self.absorbed += len(rewards)
        budget = self.question.budget
        limit = UNLIMITED if budget is None else budget + self.free - self.total
        self.slots: list[dict[str, Any]] = []
        if not self.algorithm.done:
            self.pulls = self.algorithm.propose(limit)
        if self.algorithm.done:
            self.status = Status.DECIDED
        elif self.pulls.total > limit:
            self.status = Status.BUDGET
        else:
            self._begin()

    def _begin(self) -> None:
        places = list(self.used)
        self.slots = []
        for arm in np.repeat(self.pulls.indices, self.pulls.counts).tolist():
            slot = {"arm": arm, "place": None, "reward": None}
            if self.imported[arm]:
                slot["reward"] = self.imported[arm].pop(0)
            else:
                slot["place"] = places[arm]
                slot["reward"] = self.ahead.pop((arm, places[arm]), None)
                places[arm] += 1
            self.slots.append(slot)
        for arm in range(self.question.n):
            spares, self.spares[arm] = self.spares[arm], []
            for value in spares:
                self._take_spare(arm, value)

    def missing(self) -> list[Place]:
        return [(s["arm"], s["place"]) for s in self.slots if s["reward"] is None]


def assert_agree(search: Search, naive: Naive) -> None:
    assert_counts_agree(search, naive)
    assert_known_agree(search, naive)


def assert_known_agree(search: Search, naive: Naive) -> None:
    """What the algorithms know, which whole steps and imports change."""
    one, two = search.algorithm, naive.algorithm
    np.testing.assert_array_equal(one.intervals(), two.intervals())
    assert str(one.thresholds()) == str(two.thresholds())  # nan equals nan


def assert_counts_agree(search: Search, naive: Naive) -> None:
    one, two = search.algorithm, naive.algorithm
    assert one.decisions.tolist() == two.decisions.tolist()
    assert one.pulls.tolist() == two.pulls.tolist()
    assert (search.status, one.round) == (naive.status, two.round)
    assert one.means.tobytes() == two.means.tobytes()
    assert open_in_step(search) == sorted(naive.missing())
    assert search.taken == naive.taken
    assert search.total_pulls == naive.total
    assert search.in_step == sum(slot["reward"] is not None for slot in naive.slots)
    assert naive.taken == naive.total + naive.absorbed + search.unused + search.in_step


class Arrivals:
    """Results as they might come in: of the step, early, twice, late, and imports."""

    def __init__(self, question: Question, seed: int, strays: float, imports: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.question = question
        self.strays = strays
        self.imports = imports
        self.batches = itertools.count(1)
        self.rows: list[ResultRow] = []

    def reward(self, arm: int) -> float:
        a, b = self.question.bounds
        hit = self.rng.random() < MEANS[arm % len(MEANS)]
        part = hit if self.rng.random() < 0.7 else self.rng.integers(STEPS + 1) / STEPS
        return float(a + (b - a) * part)

    def _row(self, arm: int, place: int | None, batch: int | None) -> ResultRow:
        number = 3 * len(self.rows) + 5  # other studies have results too
        ticket = None if place is None else len(self.rows) + 1
        row = ResultRow(number, ticket, arm, place, self.reward(arm), batch)
        self.rows.append(row)
        return row

    def next(self, search: Search) -> list[ResultRow]:
        """Return a result, or the results of an import."""
        if self.rng.random() < self.imports:
            batch = next(self.batches)
            arms = self.rng.integers(self.question.n, size=self.rng.integers(1, 25))
            return [self._row(int(arm), None, batch) for arm in arms]
        missing = open_in_step(search)
        if not missing or self.rng.random() < self.strays:
            arm = int(self.rng.integers(self.question.n))
            last = int(search._sequences.used[arm]) + 6
            return [self._row(arm, int(self.rng.integers(last)), None)]
        return [self._row(*missing[int(self.rng.integers(len(missing)))], None)]

    def whole_step(self, search: Search) -> list[ResultRow]:
        return [self._row(arm, place, None) for arm, place in open_in_step(search)]


def give(naive: Naive, rows: list[ResultRow]) -> None:
    """Give a naive one a result, or the results of an import."""
    if rows[0].batch is not None:
        naive.take_import([(row.arm, row.reward) for row in rows])
    else:
        assert rows[0].place is not None
        naive.take(rows[0].arm, rows[0].place, rows[0].reward)


questions = st.builds(
    question_of,
    st.sampled_from(sorted(ALGORITHMS)),
    side=st.sampled_from(SIDES),
    bounds=st.sampled_from(BOUNDS),
    k=st.sampled_from([0.0, 0.8, -0.5]),
    budget=st.sampled_from([None, None, 60]),
    labels=st.sampled_from([2, 5]),
)
seeds = st.integers(0, 2**32)
shares = st.sampled_from([0.0, 0.1, 0.5])


class TestTheDefinition:
    @pytest.mark.parametrize("examples", quick_and_long([20], [50]))
    def test_any_order_of_arrival_with_strays_and_imports(self, examples: int) -> None:
        settings(max_examples=examples)(
            given(questions, seeds, shares, st.sampled_from([0.0, 0.05, 0.2]))(self.check_any_order)
        )()

    def check_any_order(self, question: Question, seed: int, strays: float, imports: float) -> None:
        search, naive = Search(question, rng=seed), Naive(question, seed)
        arrivals = Arrivals(question, seed, strays, imports)
        assert_agree(search, naive)
        for _ in range(60):
            known = naive.total, naive.absorbed, naive.status
            rows = arrivals.next(search)
            replay(search, rows)
            give(naive, rows)
            assert_counts_agree(search, naive)
            if known != (naive.total, naive.absorbed, naive.status):
                assert_known_agree(search, naive)
        assert_agree(search, naive)
        assert search.taken == len(arrivals.rows)
        assert search.told == sum(row.ticket is not None for row in arrivals.rows)

    @pytest.mark.parametrize(
        ("variant", "side"),
        quick_and_long(
            [
                *(("spade", side) for side in SIDES),
                ("ade shared", "upper"),
                ("rr batch 7", "lower"),
                ("wrr batch 7", "both"),
            ],
            [
                ("ade shared", "lower"),
                ("ade shared", "both"),
                ("rr batch 7", "upper"),
                ("rr batch 7", "both"),
                ("wrr batch 7", "upper"),
                ("wrr batch 7", "lower"),
            ],
        ),
    )
    def test_to_the_last_decision(self, variant: str, side: Any) -> None:
        question = question_of(variant, side=side, bounds=(-4.0, 12.0))
        search, naive = Search(question, rng=3), Naive(question, 3)
        arrivals = Arrivals(question, 1, 0.05, 0.001)
        while not search.done:
            rows = arrivals.next(search)
            replay(search, rows)
            give(naive, rows)
        assert_agree(search, naive)
        assert search.result().complete
        high, low = {2, 4}, {0, 1, 3}
        found = {d: set(np.flatnonzero(search.decisions == d)) for d in Decision}
        assert found[Decision.HIGH] == (set() if side == "lower" else high)
        assert found[Decision.LOW] == (set() if side == "upper" else low)
        unused = search.unused
        for _ in range(5):  # and late results
            rows = arrivals.next(search)
            replay(search, rows)
            give(naive, rows)
            unused += len(rows)
        assert_agree(search, naive)
        assert search.result().unused == unused

    def test_the_place_decides_and_not_the_arrival(self) -> None:
        search = Search(question_of("rr", labels=2))
        for place, reward in [(3, 0.5), (1, 0.25), (2, 0.125)]:
            search.take(0, place, reward)
        assert (search.in_step, search.unused, search.total_pulls) == (0, 3, 0)
        search.take(0, 0, 1.0)
        search.take(1, 0, 1.0)  # completes the step, and the next has its reward already
        assert search.algorithm.sums.tolist() == [1.25, 1.0]
        assert open_in_step(search) == [(1, 1)]
        search.take(1, 1, 0.5)
        assert search.algorithm.sums.tolist() == [1.375, 1.5]
        assert (search.unused, search.told) == (1, 6)

    def test_nothing_of_a_step_is_used_before_it_is_complete(self) -> None:
        search = Search(question_of("spade"))
        before = {**search.result().to_dict(), "unused": None}
        *most, last = open_in_step(search)
        for arm, place in reversed(most):
            search.take(arm, place, 1.0)
        assert {**search.result().to_dict(), "unused": None} == before
        assert search.in_step == search.result().unused == len(most)
        search.take(*last, 1.0)
        assert search.result().pulls == len(most) + 1
        assert search.in_step == 0

    def test_a_second_result_of_a_place_takes_one_that_has_none(self) -> None:
        search = Search(question_of("rr batch 7", labels=2))
        search.take(0, 2, 0.5)
        search.take(0, 2, 0.25)
        assert search.in_step == 2
        missing = [place for arm, place in open_in_step(search) if arm == 0]
        assert missing == [1, 3, 4, 5, 6]  # the spare has the first place
        search.take(0, 0, 0.125)  # which makes a spare of the one that it was meant for
        missing = [place for arm, place in open_in_step(search) if arm == 0]
        assert missing == [3, 4, 5, 6]

    def test_a_late_result_of_a_used_place_waits_for_one_that_has_none(self) -> None:
        search = Search(question_of("rr", labels=2))
        search.take(0, 0, 0.0)
        search.take(1, 0, 0.0)
        search.take(1, 0, 0.5)  # arm 0 is in the next step, arm 1 in the one after it
        assert (search.unused, search.total_pulls) == (1, 2)
        search.take(0, 1, 0.0)
        assert (search.unused, search.total_pulls) == (0, 4)
        assert search.algorithm.sums.tolist() == [0.0, 0.5]
        assert open_in_step(search) == [(0, 2)]

    def test_two_results_of_a_place_ahead(self) -> None:
        search = Search(question_of("rr", labels=2))
        search.take(0, 1, 0.5)
        search.take(0, 1, 0.25)  # takes place 0, the first that has none
        assert (search.unused, search.in_step) == (1, 1)
        search.take(1, 0, 0.0)
        assert search.algorithm.sums.tolist() == [0.75, 0.0]


class TestTickets:
    def search(self, **changes: Any) -> Search:
        words = {"k": 0, "delta": 0.1, "algorithm": "rr", "batch": 2, **changes}
        return Search(["a", "b", "c"], **words)

    def test_what_a_ticket_says(self) -> None:
        tickets = self.search().ask(10, ahead=0)
        assert list(tickets) == [
            Ticket(str(number + 1), "abc"[number // 2], number // 2, number % 2)
            for number in range(6)
        ]
        assert tickets.status == Status.WAITING
        assert not tickets.done

    def test_no_two_have_the_same_place(self) -> None:
        search = self.search()
        tickets = [ticket for n in (1, 4, 2, 1, 7, 3) for ticket in search.ask(n)]
        assert len({(ticket.index, ticket.place) for ticket in tickets}) == len(tickets)
        assert [ticket.id for ticket in tickets] == [str(i + 1) for i in range(len(tickets))]

    @pytest.mark.parametrize("n", [0, -1, 1.5, True, "x"])
    def test_how_many(self, n: Any) -> None:
        with pytest.raises(InvalidParameter, match="n must be a whole number of at least 1"):
            self.search().ask(n)

    @pytest.mark.parametrize("ahead", [-0.1, np.inf, np.nan, "x", None])
    def test_how_far_ahead(self, ahead: Any) -> None:
        with pytest.raises(InvalidParameter, match="ahead must be a"):
            self.search().ask(1, ahead=ahead)

    def test_told_by_number_or_as_it_is(self) -> None:
        search = self.search()
        first, second = search.ask(2)
        search.tell(first, 1)
        search.tell(second.id, 0)
        assert search.told == search.in_step == 2

    def test_only_those_that_are_out_can_be_told(self) -> None:
        search = self.search()
        first, second, third = search.ask(3)
        search.tell(first, 0.5)
        search.skip(second)
        for gone in (first, first.id, second, 77, "x", None):
            with pytest.raises(InvalidParameter, match="ticket must be one that is out but"):
                search.tell(gone, 0.5)  # type: ignore[arg-type]
            with pytest.raises(InvalidParameter, match="ticket must be one that is out but"):
                search.skip(gone)  # type: ignore[arg-type]
            with pytest.raises(InvalidParameter, match="ticket must be one that is out but"):
                search.tell_many([(third, 0.5), (gone, 0.5)])  # type: ignore[list-item]
            with pytest.raises(InvalidParameter, match="ticket must be one that is out but"):
                search.skip_many([third, gone])  # type: ignore[list-item]
        assert search.told == 1
        search.tell(third, 0.5)

    def test_several_at_once_or_none(self) -> None:
        search = self.search()
        first, second = search.ask(2)
        for results in ([(first, 0.5), (second, 1.5)], [(first, 0.5), (second, np.nan)]):
            with pytest.raises(RewardRejected) as caught:
                search.tell_many(results)
            assert caught.value.result.pulls == 0
        with pytest.raises(InvalidParameter, match="tickets must be different but 1 appears twice"):
            search.tell_many([(first, 0.5), (second, 0.5), (first.id, 0.5)])
        with pytest.raises(InvalidParameter, match="tickets must be different but 2 appears twice"):
            search.skip_many([second, first, second])
        assert search.told == 0
        search.tell_many([(first, 0.5), (second, 0.25)])
        assert search.told == 2

    def test_a_reward_that_is_refused_changes_nothing(self) -> None:
        search = self.search()
        (ticket,) = search.ask()
        for bad in (1.5, -0.1, np.nan, "x", None, 10**400):
            with pytest.raises(RewardRejected):
                search.tell(ticket, bad)  # type: ignore[arg-type]
        assert search.told == 0
        search.tell(ticket, 1)

    def test_what_is_given_back_is_handed_out_again(self) -> None:
        search = self.search()
        tickets = search.ask(100)
        lost = [tickets[1], tickets[4], tickets[-1]]
        search.skip_many(lost, "a reason")
        again = search.ask(100)
        assert [(t.index, t.place) for t in again] == [(t.index, t.place) for t in lost]
        assert not {t.id for t in again} & {t.id for t in tickets}
        assert search.ask(100) == []

    def test_whether_it_was_used(self) -> None:
        search = self.search()
        tickets = search.ask(7)
        for ticket in tickets[:0:-1]:
            search.tell(ticket, 0.5)
        assert not any(map(search.has_used, tickets))
        search.tell(tickets[0], 0.5)
        assert list(map(search.has_used, tickets)) == [True] * 6 + [False]

    def test_after_the_end_nothing_is_handed_out(self) -> None:
        search = self.search()
        (ticket, other) = search.ask(2)
        search.stop(Status.INTERRUPTED)
        tickets = search.ask(5)
        assert (tickets, tickets.status, tickets.done) == ([], Status.INTERRUPTED, True)
        search.tell(ticket, 1.0)
        search.skip(other)
        assert search.result().unused == 1

    def test_the_rest_of_a_step_at_once(self) -> None:
        search = self.search()
        tickets = search.ask(4, ahead=0)
        with pytest.raises(ProtocolError, match="while tickets are out: tell or skip them"):
            search.ask_step()
        for ticket, reward in zip(tickets, [0.5, 0.25, 1.0, 0.0], strict=True):
            if ticket.id == "3":
                search.skip(ticket)
            else:
                search.tell(ticket, reward)
        pulls = search.ask_step()
        assert (pulls.indices.tolist(), pulls.counts.tolist()) == ([1, 2], [1, 2])
        search.tell_step([1.0, 0.125, 0.25])
        assert search.means.tolist() == [0.375, 0.5, 0.1875]
        assert (search.told, search.total_pulls) == (6, 6)

    def test_steps_and_tickets_in_turn(self) -> None:
        search, steps = self.search(batch=3), self.search(batch=3)
        rewards: Any = lambda arm, place: ((5 * arm + 3 * place) % 8) / 8  # noqa: E731
        used = [0, 0, 0]
        for step in range(12):
            pulls = steps.ask_step()
            told = []
            for arm in np.repeat(pulls.indices, pulls.counts).tolist():
                told.append(rewards(arm, used[arm]))
                used[arm] += 1
            steps.tell_step(told)
            if step % 3:
                for ticket in reversed(search.ask(100, ahead=0)):
                    search.tell(ticket, rewards(ticket.index, ticket.place))
            else:
                search.ask_step()
                search.tell_step(told)
        assert search.result().to_dict() == steps.result().to_dict()

    def test_progress_counts_what_was_told(self) -> None:
        search = self.search()
        search.tell(search.ask()[0], 1.0)
        assert (search.progress().pulls, search.progress().undecided) == (1, 3)


def steps_shuffled(
    question: Question, order: Callable[[list[tuple[Place, float]]], Any], results: int
) -> Search:
    """Return a search whose steps' results came in another order than their places'."""
    search = Search(question, rng=3)
    rng = np.random.default_rng(5)
    while search.taken < results and not search.done:
        places = open_in_step(search)
        told = [((arm, place), float(rng.random() < MEANS[arm])) for arm, place in places]
        for (arm, place), reward in order(told):
            search.take(arm, place, reward)
    return search


class TestSpeedThatDependsOnTheReward:
    """With no ticket lost, a step has the same rewards, in the same entries, in any order."""

    orders: tuple[Any, ...] = (
        lambda told: sorted(told, key=lambda pair: pair[1]),
        lambda told: sorted(told, key=lambda pair: -pair[1]),
        lambda told: told[::-1],
    )

    @pytest.mark.parametrize("side", quick_and_long(["both"], ["upper"]))
    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_does_not_change_anything(self, variant: str, side: Any) -> None:
        question = question_of(variant, side=side)
        in_order = steps_shuffled(question, lambda told: told, 400)
        for order in self.orders:
            assert steps_shuffled(question, order, 400).to_bytes() == in_order.to_bytes()

    def test_the_pairs_of_ade_are_not_sorted_by_it(self) -> None:
        """Were x_1 the faster one of a pair, its mean would not be mu: here 1 comes first."""
        search = steps_shuffled(question_of("ade"), self.orders[1], 6000)
        ade: Any = search.algorithm
        mu, m = np.mean(MEANS), ade.m_theta
        assert m > 300
        spread = 4.9 * 0.5 / np.sqrt(m)  # P(beyond 4.9 standard deviations) < 1e-6
        assert abs(ade.sum_x1 / m - mu) < spread
        assert abs(ade.sum_x2 / m - mu) < spread


class TestPieces:
    @pytest.mark.parametrize("examples", quick_and_long([8], [20]))
    def test_how_results_are_divided_does_not_matter(self, examples: int) -> None:
        settings(max_examples=examples)(
            given(questions, seeds, shares, st.sampled_from([0.0, 0.1]))(self.check_divided)
        )()

    def check_divided(self, question: Question, seed: int, strays: float, imports: float) -> None:
        one_by_one = Search(question, rng=seed)
        arrivals = Arrivals(question, seed, strays, imports)
        groups = []
        for _ in range(60):
            groups.append(arrivals.next(one_by_one))
            replay(one_by_one, groups[-1])
        at_once = Search(question, rng=seed)
        replay(at_once, arrivals.rows)
        pieces = Search(question, rng=seed)
        rng = np.random.default_rng(seed)
        while groups:
            size = int(rng.integers(1, 20))
            replay(pieces, [row for group in groups[:size] for row in group])
            groups = groups[size:]
            replay(pieces, [])
        assert at_once.to_bytes() == one_by_one.to_bytes()
        assert pieces.to_bytes() == one_by_one.to_bytes()

    @pytest.mark.parametrize("examples", quick_and_long([8], [20]))
    def test_saving_at_any_moment_does_not_matter(self, examples: int) -> None:
        settings(max_examples=examples)(
            given(questions, seeds, shares, st.sampled_from([0.0, 0.1]))(self.check_saving)
        )()

    def check_saving(self, question: Question, seed: int, strays: float, imports: float) -> None:
        kept, saved = Search(question, rng=seed), Search(question, rng=seed)
        arrivals = Arrivals(question, seed, strays, imports)
        rng = np.random.default_rng(seed)
        for _ in range(60):
            rows = arrivals.next(kept)
            replay(kept, rows)
            replay(saved, rows)
            if rng.random() < 0.2:
                kept.open_places(3, {})  # looking changes nothing
                data = saved.to_bytes()
                saved = Search.from_bytes(question, data)
                assert saved.to_bytes() == data
        assert saved.to_bytes() == kept.to_bytes()
        assert saved.result().to_dict() == kept.result().to_dict()


class TestSize:
    @pytest.mark.parametrize("variant", quick_and_long(["ade", "spade"], ["rr", "wrr"]))
    def test_ten_times_the_results_in_the_same_space(self, variant: str) -> None:
        question = question_of(variant, labels=20, k=1.0)
        search = Search(question, rng=3)
        arrivals = Arrivals(question, 1, 0.0, 0.0)
        sizes = []
        for results in (800, 8000):
            while search.taken < results:
                replay(search, arrivals.whole_step(search))
            assert not search.done
            sizes.append(len(search.to_bytes()))
        assert sizes[1] < 1.5 * sizes[0]

    @pytest.mark.parametrize("variant", ["rr", "spade"])
    def test_results_that_come_too_late(self, variant: str) -> None:
        """They take no space where nothing can want them; where a question can be revised, some."""
        search = Search(question_of(variant, delta=0.5), rng=3)
        while not search.done:
            arm, place = open_in_step(search)[0]
            search.take(arm, place, float(arm == 2))
        assert search.status == Status.DECIDED
        size = len(search.to_bytes())
        unused = search.unused
        for batch in (None, 1, 2):
            replay(search, [ResultRow(i, i, i % 5, i, 0.5, batch) for i in range(3000)])
        assert search.unused == unused + 9000
        more = len(search.to_bytes()) - size
        assert more < (0.1 * size if variant == "rr" else 9000 * 5)
        assert Search.from_bytes(search.question, search.to_bytes()).unused == search.unused

    def test_nor_do_those_beyond_the_budget(self) -> None:
        search = Search(question_of("rr", budget=5), rng=3)
        for arm, place in open_in_step(search):
            search.take(arm, place, 0.5)
        assert search.status == Status.BUDGET
        size = len(search.to_bytes())
        replay(search, [ResultRow(i, i, i % 5, i, 0.5) for i in range(3000)])
        assert len(search.to_bytes()) < 1.1 * size
        found = search.result()
        assert (search.told, found.beyond, found.unused) == (5, 3000, 0)

    def test_imports_that_wait_are_taken_as_the_steps_want_them(self) -> None:
        search = Search(question_of("rr", labels=50, k=1.0))
        replay(search, [ResultRow(i, None, i % 49, None, 0.5, 1) for i in range(49 * 100)])
        assert (search.result().pulls, search.in_step) == (0, 49)
        for place in range(20):
            search.take(49, place, 0.5)
        assert search.algorithm.pulls.tolist() == [21] * 49 + [20]
        assert search.result().pulls_per_arm.tolist() == [0] * 49 + [20]
        assert search.unused == 49 * 79

    @pytest.mark.parametrize("imports", quick_and_long([6_000], [20_000]))
    def test_very_many_imports_are_taken_in_good_time(self, imports: int) -> None:
        """In a second, not in the hours of one pass over all that wait for every step."""
        search = Search(question_of("rr", labels=2, k=0.0))
        search.take_import(np.arange(imports) % 2, np.full(imports, 0.5))
        assert search.total_pulls == imports
        assert search.unused == 0


class TestImports:
    def test_spade_uses_them_at_once_if_the_step_is_untouched(self) -> None:
        search = Search(question_of("spade"))
        tickets = search.ask(20, ahead=0)
        before = open_in_step(search)
        assert search.import_rewards({i: [MEANS[i]] * 20 for i in range(5)}) == 100
        result = search.result()
        assert (result.imported, result.pulls, search.unused, search.told) == (100, 0, 0, 0)
        np.testing.assert_allclose(result.means, MEANS)
        assert open_in_step(search) != before  # the step after it is another one
        for ticket in tickets:
            search.tell(ticket, MEANS[ticket.index])
        assert search.told == search.total_pulls + search.unused + search.in_step == len(tickets)

    def test_spade_uses_them_when_the_step_completes_otherwise(self) -> None:
        search = Search(question_of("spade"))
        wanted = open_in_step(search)
        search.take(*wanted[0], 0.0)
        before = open_in_step(search)
        search.import_rewards({i: [0.0] * 10 for i in range(5)})
        search.import_rewards({i: [0.0] * 6 for i in range(5)})
        assert search.result().pulls_per_arm.sum() == 0
        assert (search.unused, search.in_step) == (80, 1)
        assert open_in_step(search) == before
        for arm, place in wanted[1:]:
            search.take(arm, place, 0.0)
        result = search.result()
        assert (result.imported, result.pulls, search.unused) == (80, len(wanted), 0)

    def test_what_waits_is_taken_by_the_step_that_an_import_puts_in_place(self) -> None:
        """A step may leave arms out; rewards of theirs that are there wait for the next one."""
        question = question_of("spade")
        search, naive = Search(question, rng=5), Naive(question, 5)
        rng = np.random.default_rng(5)
        means = [0.0, 0.05, 0.6, 1.0, 0.5]

        def reward(arm: int) -> float:
            return float(rng.random() < means[arm])

        def take(places: list[Place]) -> None:
            for arm, place in places:
                value = reward(arm)
                known = naive.total, naive.absorbed
                search.take(arm, place, value)
                naive.take(arm, place, value)
                assert_counts_agree(search, naive)
                if known != (naive.total, naive.absorbed):
                    assert_known_agree(search, naive)

        taken_at_once = 0
        while not search.done and search.taken < 2500:
            wanted = {arm for arm, _ in open_in_step(search)}
            left_out = sorted(set(range(5)) - wanted)
            if left_out and search.in_step == 0:
                used = search._sequences.used
                take([(arm, int(used[arm]) + i) for arm in left_out for i in range(3)])
                assert search.in_step == 0
                assert search.unused >= 3 * len(left_out)
                imported = [(min(wanted), reward(min(wanted))) for _ in range(40)]
                search.import_rewards({min(wanted): [value for _, value in imported]})
                naive.take_import(imported)
                assert_agree(search, naive)
                taken_at_once += search.in_step > 0
            take(open_in_step(search))
        assert taken_at_once > 1

    @pytest.mark.parametrize("variant", ["ade", "rr", "wrr"])
    def test_others_use_them_instead_of_pulls(self, variant: str) -> None:
        search = Search(question_of(variant, budget=100), rng=3)
        search.import_rewards({i: [MEANS[i]] * 100 for i in range(5)})
        result = search.result()
        assert search.total_pulls > 100  # what nobody asked for costs no budget
        assert result.status == "running"
        assert search.told == result.pulls == 0
        assert search.taken == search.total_pulls + result.unused == 500

    @pytest.mark.parametrize("variant", ["rr", "spade"])
    def test_they_end_what_the_budget_did_not(self, variant: str) -> None:
        search = Search(question_of(variant, budget=12), rng=3)
        while not (tickets := search.ask(3)).done:
            search.tell_many([(ticket, MEANS[ticket.index]) for ticket in tickets])
        assert (search.status, search.told <= 12) == (Status.BUDGET, True)
        pulls = search.total_pulls
        search.import_rewards({i: [MEANS[i]] * 2000 for i in range(5)})
        assert search.status == Status.DECIDED
        assert search.result().outliers == [2, 4]
        assert search.told <= 12
        if variant == "spade":  # to which they are evidence, but no pulls
            assert search.total_pulls == pulls

    def test_they_take_no_place_from_a_ticket(self) -> None:
        """Else the ticket's reward would be used when it arrives, which it may itself decide."""
        used = []
        for slow_first in (False, True):
            search = Search(question_of("rr", labels=2))
            tickets = {(t.index, t.place): t for t in search.ask(6, ahead=1.0)}
            search.import_rewards({0: [0.5]})
            search.tell(tickets[1, 0], 0.0)  # the first step is complete with what was imported
            order = [(0, 1), (0, 0)] if slow_first else [(0, 0), (0, 1)]
            for place in order:
                search.tell(tickets[place], 1.0 if place == (0, 0) else 0.0)
            search.tell(tickets[1, 1], 0.0)
            used.append(search.algorithm.sums.tolist())
        assert used == [[1.5, 0.0], [1.5, 0.0]]

    @pytest.mark.parametrize("variant", ["ade", "rr batch 7", "spade"])
    def test_a_request_stays_the_same(self, variant: str) -> None:
        """Until its rewards are told; what is imported meanwhile comes after it."""
        search = Search(question_of(variant), rng=3)
        pulls = search.ask_step()
        search.import_rewards({i: [0.5] * 3 for i in range(5)})
        again = search.ask_step()
        assert again.indices.tolist() == pulls.indices.tolist()
        assert again.counts.tolist() == pulls.counts.tolist()
        search.tell_step(np.zeros(pulls.total))
        assert search.taken == 15 + pulls.total

    def test_names_and_rewards_are_checked_before_any_is_taken(self) -> None:
        search = Search(["a", "b"], k=0, delta=0.1)
        with pytest.raises(InvalidParameter, match="must name arms of the search but have 'c'"):
            search.import_rewards({"a": [0.5], "c": [0.5]})
        with pytest.raises(RewardRejected, match="arm 'b' gave 2"):
            search.import_rewards({"a": [0.5], "b": [0.5, 2.0]})
        assert search.import_rewards({}) == 0
        assert (search.taken, search.result().imported) == (0, 0)

    def test_a_batch_of_an_algorithm_that_cannot_use_it_may_be_divided(self) -> None:
        arms, values = np.arange(50) % 5, np.arange(50) % 4 / 4
        whole, divided = Search(question_of("rr"), rng=1), Search(question_of("rr"), rng=1)
        for search, parts in ((whole, [slice(50)]), (divided, [slice(13), slice(13, 50)])):
            for part in parts:
                search.take_import(arms[part], values[part])
        assert whole.to_bytes() == divided.to_bytes()


class TestStatesOfOthers:
    def test_a_state_of_another_version_or_kind_is_refused(self) -> None:
        question = question_of("spade")
        search = Search(question)
        state = thaw(search.to_bytes())
        for changed in (
            {**state, "extra": 1},
            {**state, "question": question.to_dict()},
            {name: value for name, value in state.items() if name != "_sequences"},
            {**state, "version": 99},
            {**state, "algorithm": 1},
            {**state, "algorithm": Search(question_of("rr")).algorithm},
            {**state, "_sequences": {}},
            {**state, "told": "1"},
            {**state, "imported": [0] * 5},
            {},
            [state],
            None,
        ):
            with pytest.raises(InvalidParameter, match="must be of this version"):
                Search.from_bytes(question, freeze(changed))

    def test_a_state_of_another_number_of_arms_is_refused(self) -> None:
        data = Search(question_of("spade")).to_bytes()
        with pytest.raises(InvalidParameter, match="of the same question"):
            Search.from_bytes(question_of("spade", labels=4), data)

    @given(st.integers(0, 10**6), st.integers(0, 255))
    @settings(max_examples=150)
    def test_a_damaged_state_is_refused_or_still_the_same(self, where: int, value: int) -> None:
        question = question_of("rr batch 7")
        search = Search(question, rng=1)
        search.take(0, 3, 0.5)
        search.take(1, 99, 0.5)
        data = bytearray(search.to_bytes())
        data[where % len(data)] = value
        try:
            again = Search.from_bytes(question, bytes(data))
        except InvalidParameter:
            return
        assert again.to_bytes() == search.to_bytes()  # such as a bit of a date in the archive

    @pytest.mark.parametrize("kept", [0, 1, 100, -10])
    def test_a_state_that_was_cut_off_is_refused(self, kept: int) -> None:
        data = Search(question_of("rr")).to_bytes()
        with pytest.raises(InvalidParameter, match="damaged"):
            Search.from_bytes(question_of("rr"), data[:kept])


class Simulated:
    """Workers that are slow, lose pulls, and answer after their lease has run out.

    `fate` gives a pull's duration, None if it is lost, from its reward and a random generator.
    """

    lease = 3.0
    workers = 10

    def __init__(
        self, question: Question, seed: int, means: FloatArray, fate: Callable[..., float | None]
    ) -> None:
        self.search = Search(question, rng=seed)
        self.rng = np.random.default_rng(seed)
        self.means = means
        self.fate = fate
        self.now = 0.0
        self.numbers = itertools.count()
        self.out: Out = {}
        self.events: list[tuple[float, int, Place, float | None, bool]] = []
        self.late = self.lost = 0

    def run(self, most: int) -> Search:
        search = self.search
        while not search.done and search.taken < most:
            free = self.workers - sum(map(len, self.out.values()))
            for arm, place in search.open_places(free, self.out) if free > 0 else []:
                self._pull(arm, place)
            self.now, _, (arm, place), reward, leased = heapq.heappop(self.events)
            if leased:
                self.out[arm].discard(place)
            if reward is not None:
                search.take(arm, place, reward)
        return search

    def _pull(self, arm: int, place: int) -> None:
        self.out.setdefault(arm, set()).add(place)
        reward = float(self.rng.random() < self.means[arm])
        duration = self.fate(reward, self.rng)
        in_time = duration is not None and duration <= self.lease
        self.lost += duration is None
        self.late += duration is not None and not in_time
        if not in_time:
            self._push(self.lease, (arm, place), None, True)
        if duration is not None:
            self._push(duration, (arm, place), reward, in_time)

    def _push(self, after: float, place: Place, reward: float | None, leased: bool) -> None:
        event = (self.now + after, next(self.numbers), place, reward, leased)
        heapq.heappush(self.events, event)


def slow_and_lossy(reward: float, rng: np.random.Generator) -> float | None:
    """One in ten is lost and one in five late, whatever the reward."""
    del reward
    return None if rng.random() < 0.1 else float(rng.exponential(2.0))


def lost_when_good(reward: float, rng: np.random.Generator) -> float | None:
    return None if rng.random() < 0.95 * reward else float(rng.exponential(0.5))


class TestTheGuarantee:
    """Wrong decisions in runs with slow and lost pulls, held against delta = 0.1."""

    means = np.array([0.0, 0.05, 0.6, 1.0])  # theta = 0.4125, the third arm 0.1875 above it

    def _wrong(self, variant: str, runs: int, most: int, fate: Any, **options: Any) -> int:
        """Return in how many runs a decision was wrong, of runs that decide something."""
        truth = np.array([Decision.NORMAL, Decision.NORMAL, Decision.HIGH, Decision.HIGH])
        wrong = decided_third = 0
        for seed in range(runs):
            question = question_of(variant, labels=4, options=options)
            simulated = Simulated(question, seed, self.means, fate)
            search = simulated.run(most)
            decisions = search.decisions
            decided = decisions != Decision.UNDECIDED
            wrong += bool((decisions[decided] != truth[decided]).any())
            decided_third += bool(decided[2])
            assert simulated.lost > 0
            assert simulated.late > 0 or fate is lost_when_good
            assert search.told == search.total_pulls + search.unused + search.in_step
        assert decided_third > runs / 2
        return wrong

    @pytest.mark.parametrize(
        ("variant", "runs", "most", "options"),
        [
            ("spade", 15, 300, {}),
            pytest.param("rr", 100, 3000, {"batch": 10}, marks=pytest.mark.long),
            pytest.param("wrr", 150, 3000, {"batch": 10}, marks=pytest.mark.long),
            pytest.param("spade", 100, 300, {}, marks=pytest.mark.long),
        ],
    )
    def test_fates_that_do_not_depend_on_the_reward(
        self, variant: str, runs: int, most: int, options: dict[str, Any]
    ) -> None:
        wrong = self._wrong(variant, runs, most, slow_and_lossy, **options)
        assert_error_rate(wrong, runs, 0.1)

    def test_losses_that_do_are_another_question(self) -> None:
        """What comes back has other means, and the answer is right for them: the test has power.

        If 1 is lost 19 times out of 20, 0.6 becomes 0.03 / (0.03 + 0.4) = 0.07.
        """
        wrong = self._wrong("spade", 10, 300, lost_when_good)
        with pytest.raises(AssertionError, match="errors in 10 runs"):
            assert_error_rate(wrong, 10, 0.1)


def test_one_ticket_of_a_large_step_needs_little_memory() -> None:
    search = Search(Question(3, algorithm="rr", options={"batch": 1_000_000}))
    tracemalloc.start()
    try:
        search.ask(1)
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20
    finally:
        tracemalloc.stop()
