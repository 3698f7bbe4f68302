"""The state of a study, against its definition written in plain Python."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oddarms.studies._machine import Machine, ResultRow
from oddarms.studies._question import Question

from helpers import VARIANTS
from oddarms.algorithms import Decision
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray
from oddarms.testing import assert_error_rate

settings.register_profile("same every time", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("same every time")

ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    **VARIANTS,
    "spade": ("spade", {}),
    "spade in small steps": ("spade", {"max_step": 5, "indifference": 0.05}),
}
SIDES = ["upper", "lower", "both"]
BOUNDS = [(0.0, 1.0), (-3.0, 7.0), (1e6, 1e6 + 1.0)]
MEANS = (0.05, 0.0, 0.95, 0.05, 0.9)


def question_of(variant: str, **changes: Any) -> Question:
    algorithm, options = ALGORITHMS[variant]
    question = Question(
        n=len(MEANS),
        k=0.0,
        delta=0.1,
        algorithm=algorithm,
        bounds=(0.0, 1.0),
        side="upper",
        budget=None,
        seed=3,
        options=options,
    )
    return replace(question, **changes)


class Naive:
    """The definition: every arm's rewards in the order recorded, and a search that is told them.

    A step is complete when all its rewards are there; an arm that stands in several entries has
    its rewards of the step put into them by ticket. An import is added between two steps.
    """

    def __init__(self, question: Question) -> None:
        self.search = question.new_search()
        self.queues: dict[int, list[tuple[int, float]]] = {i: [] for i in range(question.n)}
        self.imports: list[dict[int, list[float]]] = []

    def take(self, rows: Iterable[ResultRow]) -> None:
        for batch, group in itertools.groupby(rows, key=lambda row: row.batch):
            results = list(group)
            if batch is not None and self.search.algorithm.takes_imports:
                history: dict[int, list[float]] = {}
                for row in results:
                    history.setdefault(row.arm, []).append(row.reward)
                self.imports.append(history)
                self._settle()
                continue
            for row in results:
                self.queues[row.arm].append((row.ticket or 0, row.reward))
                if row.ticket is None and self.search.budget is not None:
                    self.search.budget += 1
                self._settle()

    def _settle(self) -> None:
        while not self.search.done:
            if all(len(self.queues[arm]) >= count for arm, count in self.wanted().items()):
                self._tell()
            elif not self.imports or any(self.queues[arm] for arm in self.wanted()):
                return
            while self.imports and not self.search.done:
                self.search.add(self.imports.pop(0))

    def wanted(self) -> Counter[int]:
        indices, counts = self.search.next_pulls
        wanted: Counter[int] = Counter()
        for arm, count in zip(indices.tolist(), counts.tolist(), strict=True):
            wanted[arm] += count
        return wanted

    def _tell(self) -> None:
        pulls = self.search.ask()
        arms = pulls.indices.tolist()
        rewards: dict[int, list[float]] = {}
        for arm, count in self.wanted().items():
            mine, self.queues[arm] = self.queues[arm][:count], self.queues[arm][count:]
            if len(arms) > len(set(arms)):
                mine.sort(key=lambda pair: pair[0])
            rewards[arm] = [reward for _, reward in mine]
        asked = np.repeat(pulls.indices, pulls.counts).tolist()
        self.search.tell([rewards[arm].pop(0) for arm in asked])

    def missing(self) -> dict[int, int]:
        if self.search.done:
            return {}
        missing = {arm: c - len(self.queues[arm]) for arm, c in self.wanted().items()}
        return {arm: count for arm, count in missing.items() if count > 0}

    def in_step(self) -> int:
        if self.search.done:
            return 0
        return sum(min(len(self.queues[arm]), c) for arm, c in self.wanted().items())

    def unused(self) -> int:
        held = sum(map(len, self.queues.values()))
        imported = sum(len(v) for history in self.imports for v in history.values())
        return held + imported - self.in_step()


def assert_agree(machine: Machine, naive: Naive) -> None:
    one, two = machine.search.result(), naive.search.result()
    assert one.decisions.tolist() == two.decisions.tolist()
    assert one.pulls_per_arm.tolist() == two.pulls_per_arm.tolist()
    assert (one.status, one.round, one.imported) == (two.status, two.round, two.imported)
    a, b = one.problem.bounds
    np.testing.assert_allclose(one.means, two.means, rtol=0, atol=1e-9 * (b - a) + 1e-15 * abs(a))
    np.testing.assert_allclose(one.intervals, two.intervals, rtol=1e-12, atol=1e-7 * (b - a))
    missing = machine.missing_per_arm()
    assert {i: int(missing[i]) for i in np.flatnonzero(missing)} == naive.missing()
    assert (machine.in_step, machine.unused) == (naive.in_step(), naive.unused())


class Arrivals:
    """Results as they might come in: what is missing in any order, surplus ones, and imports."""

    def __init__(self, question: Question, seed: int, surplus: float, imports: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.question = question
        self.surplus = surplus
        self.imports = imports
        self.tickets = self.rng.permutation(100_000) + 1  # they need not come in their order
        self.rows: list[ResultRow] = []
        self.batches = itertools.count(1)

    def reward(self, arm: int) -> float:
        a, b = self.question.bounds
        hit = self.rng.random() < MEANS[arm % len(MEANS)]
        return a + (b - a) * float(hit if self.rng.random() < 0.7 else self.rng.beta(2, 3))

    def _row(self, arm: int, batch: int | None) -> ResultRow:
        number = 3 * len(self.rows) + 5  # other studies have results too
        ticket = int(self.tickets[len(self.rows)]) if batch is None else None
        row = ResultRow(number, ticket, arm, self.reward(arm), batch)
        self.rows.append(row)
        return row

    def next(self, machine: Machine) -> list[ResultRow]:
        """Return a result, or the results of an import."""
        if self.rng.random() < self.imports:
            batch = next(self.batches)
            arms = self.rng.integers(self.question.n, size=self.rng.integers(1, 25))
            return [self._row(int(arm), batch) for arm in arms]
        missing = np.flatnonzero(machine.missing_per_arm())
        if not missing.size or self.rng.random() < self.surplus:
            return [self._row(int(self.rng.integers(self.question.n)), None)]
        return [self._row(int(self.rng.choice(missing)), None)]

    def whole_step(self, machine: Machine) -> list[ResultRow]:
        missing = machine.missing_per_arm()
        return [self._row(int(arm), None) for arm in np.repeat(np.arange(missing.size), missing)]


questions = st.builds(
    question_of,
    st.sampled_from(sorted(ALGORITHMS)),
    side=st.sampled_from(SIDES),
    bounds=st.sampled_from(BOUNDS),
    k=st.sampled_from([0.0, 0.8, -0.5]),
    seed=st.integers(0, 1000),
    budget=st.sampled_from([None, None, 60]),
    n=st.sampled_from([2, 5]),
)
seeds = st.integers(0, 2**32)
shares = st.sampled_from([0.0, 0.1, 0.5])


class TestTheDefinition:
    @given(questions, seeds, shares, st.sampled_from([0.0, 0.05, 0.2]))
    @settings(max_examples=40)
    def test_any_order_of_arrival_with_surplus_and_imports(
        self, question: Question, seed: int, surplus: float, imports: float
    ) -> None:
        machine, naive = Machine(question), Naive(question)
        arrivals = Arrivals(question, seed, surplus, imports)
        assert_agree(machine, naive)
        for event in range(60):
            rows = arrivals.next(machine)
            machine.take(rows)
            naive.take(rows)
            if event % 7 == 0:
                assert_agree(machine, naive)
        assert_agree(machine, naive)
        assert machine.taken == len(arrivals.rows)
        assert machine.told == sum(row.ticket is not None for row in arrivals.rows)
        assert machine.position == arrivals.rows[-1].number

    @pytest.mark.parametrize("variant", ["ade shared", "rr batch 7", "wrr batch 7", "spade"])
    @pytest.mark.parametrize("side", SIDES)
    def test_to_the_last_decision(self, variant: str, side: Any) -> None:
        question = question_of(variant, side=side, bounds=(-3.0, 7.0))
        machine, naive = Machine(question), Naive(question)
        arrivals = Arrivals(question, 1, 0.05, 0.001)
        while not machine.done:
            rows = arrivals.next(machine)
            machine.take(rows)
            naive.take(rows)
        assert_agree(machine, naive)
        assert machine.search.result().complete
        high, low = {2, 4}, {0, 1, 3}
        found = {d: set(np.flatnonzero(machine.search.result().decisions == d)) for d in Decision}
        assert found[Decision.HIGH] == (set() if side == "lower" else high)
        assert found[Decision.LOW] == (set() if side == "upper" else low)
        for rows in ([arrivals.next(machine)[0]], arrivals.next(machine)):  # and late results
            machine.take(rows)
            naive.take(rows)
        assert_agree(machine, naive)

    def test_the_oldest_rewards_of_an_arm_come_first(self) -> None:
        machine = Machine(question_of("rr", n=2))
        rewards = [0.1, 0.2, 0.4, 0.8]
        machine.take([ResultRow(i + 1, 9 - i, 0, x) for i, x in enumerate(rewards)])
        assert (machine.in_step, machine.unused) == (1, 3)
        machine.take([ResultRow(5, 10, 1, 1.0)])  # completes the step, and the next takes 0.2
        assert machine.search.algorithm.sums.tolist() == pytest.approx([0.1 + 0.2, 1.0])
        machine.take([ResultRow(6, 11, 0, 0.5), ResultRow(7, 12, 1, 1.0)])
        assert machine.search.algorithm.sums.tolist() == pytest.approx([0.1 + 0.2 + 0.4, 2.0])
        assert machine.unused == 2

    def test_nothing_of_a_step_is_used_before_it_is_complete(self) -> None:
        machine = Machine(question_of("spade"))
        before = machine.search.result().to_dict()
        wanted = np.repeat(np.arange(5), machine.missing_per_arm())
        machine.take([ResultRow(i + 1, i + 1, int(a), 1.0) for i, a in enumerate(wanted[:-1])])
        assert machine.search.result().to_dict() == before
        assert machine.in_step == wanted.size - 1
        machine.take([ResultRow(99, 99, int(wanted[-1]), 1.0)])
        assert machine.search.result().pulls == wanted.size
        assert machine.in_step == 0


def steps_shuffled(
    question: Question, order: Callable[[list[ResultRow]], list[ResultRow]], results: int
) -> Machine:
    """Return a machine whose steps' results came in another order than their tickets'."""
    machine = Machine(question)
    rng = np.random.default_rng(5)
    tickets = itertools.count(1)
    while machine.taken < results and not machine.done:
        arms = np.repeat(np.arange(question.n), machine.missing_per_arm()).tolist()
        rows = [ResultRow(0, next(tickets), a, float(rng.random() < MEANS[a])) for a in arms]
        first = machine.taken
        for i, row in enumerate(order(rows)):
            machine.take([replace(row, number=first + i + 1)])
    return machine


class TestSpeedThatDependsOnTheReward:
    """With no lease run out, a step has the same rewards, in the same entries, in any order."""

    orders: tuple[Any, ...] = (
        lambda rows: sorted(rows, key=lambda row: row.reward),
        lambda rows: sorted(rows, key=lambda row: -row.reward),
        lambda rows: rows[::-1],
    )

    @pytest.mark.parametrize("side", ["upper", "both"])
    @pytest.mark.parametrize("variant", ALGORITHMS)
    def test_does_not_change_anything(self, variant: str, side: Any) -> None:
        question = question_of(variant, side=side)
        in_order = steps_shuffled(question, lambda rows: rows, 400)
        for order in self.orders:
            assert steps_shuffled(question, order, 400).to_bytes() == in_order.to_bytes()

    def test_the_pairs_of_ade_are_not_sorted_by_it(self) -> None:
        """Were x_1 the faster one of a pair, its mean would not be mu: here 1 comes first."""
        machine = steps_shuffled(question_of("ade"), self.orders[1], 6000)
        ade: Any = machine.search.algorithm
        mu, m = np.mean(MEANS), ade.m_theta
        assert m > 300
        spread = 4.9 * 0.5 / np.sqrt(m)  # P(beyond 4.9 standard deviations) < 1e-6
        assert abs(ade.sum_x1 / m - mu) < spread
        assert abs(ade.sum_x2 / m - mu) < spread


class TestPieces:
    @given(questions, seeds, shares, st.sampled_from([0.0, 0.1]))
    @settings(max_examples=20)
    def test_how_results_are_divided_does_not_matter(
        self, question: Question, seed: int, surplus: float, imports: float
    ) -> None:
        one_by_one = Machine(question)
        arrivals = Arrivals(question, seed, surplus, imports)
        groups = []
        for _ in range(60):
            groups.append(arrivals.next(one_by_one))
            one_by_one.take(groups[-1])
        at_once = Machine(question)
        at_once.take(arrivals.rows)
        pieces = Machine(question)
        rng = np.random.default_rng(seed)
        while groups:
            size = int(rng.integers(1, 20))
            pieces.take([row for group in groups[:size] for row in group])
            groups = groups[size:]
            pieces.take([])
        assert at_once.to_bytes() == one_by_one.to_bytes()
        assert pieces.to_bytes() == one_by_one.to_bytes()

    @given(questions, seeds, shares, st.sampled_from([0.0, 0.1]))
    @settings(max_examples=20)
    def test_saving_at_any_moment_does_not_matter(
        self, question: Question, seed: int, surplus: float, imports: float
    ) -> None:
        kept, saved = Machine(question), Machine(question)
        arrivals = Arrivals(question, seed, surplus, imports)
        rng = np.random.default_rng(seed)
        for _ in range(60):
            rows = arrivals.next(kept)
            kept.take(rows)
            saved.take(rows)
            if rng.random() < 0.2:
                data = saved.to_bytes()
                saved = Machine.from_bytes(question, data)
                assert saved.to_bytes() == data
        assert saved.to_bytes() == kept.to_bytes()
        assert saved.search.result().to_dict() == kept.search.result().to_dict()


class TestSize:
    @pytest.mark.parametrize("variant", ["ade", "rr", "wrr", "spade"])
    def test_ten_times_the_results_in_the_same_space(self, variant: str) -> None:
        question = question_of(variant, n=20, k=1.0)
        machine = Machine(question)
        arrivals = Arrivals(question, 1, 0.0, 0.0)
        sizes = []
        for results in (800, 8000):
            while machine.taken < results:
                machine.take(arrivals.whole_step(machine))
            assert not machine.done
            sizes.append(len(machine.to_bytes()))
        assert sizes[1] < 1.5 * sizes[0]

    @pytest.mark.parametrize("variant", ["rr", "spade"])
    def test_results_that_come_too_late_take_no_space(self, variant: str) -> None:
        machine = Machine(question_of(variant, budget=5))
        arrivals = Arrivals(machine.question, 1, 0.0, 0.0)
        while not machine.done:
            machine.take(arrivals.next(machine))
        size = len(machine.to_bytes())
        for batch in (None, 1, 2):
            rows = [ResultRow(100 + i, 100 + i, i % 5, 0.5, batch) for i in range(3000)]
            machine.take(rows)
        assert len(machine.to_bytes()) < 1.1 * size
        assert machine.unused == 9000

    def test_results_that_wait_are_taken_as_the_steps_want_them(self) -> None:
        machine = Machine(question_of("rr", n=50, k=1.0))
        machine.take([ResultRow(i, None, i % 49, 0.5, 1) for i in range(49 * 100)])
        assert (machine.search.result().pulls, machine.in_step) == (0, 49)
        machine.take([ResultRow(10**6 + i, i + 1, 49, 0.5) for i in range(20)])
        assert machine.search.result().pulls_per_arm.tolist() == [21] * 49 + [20]
        assert machine.unused == 49 * 79


class TestImports:
    def test_spade_uses_them_at_once_if_the_step_is_untouched(self) -> None:
        machine = Machine(question_of("spade"))
        before = machine.missing_per_arm().tolist()
        rows = [ResultRow(i + 1, None, i % 5, MEANS[i % 5], 1) for i in range(100)]
        machine.take(rows)
        result = machine.search.result()
        assert (result.imported, result.pulls, machine.unused, machine.told) == (100, 0, 0, 0)
        np.testing.assert_allclose(result.means, MEANS)
        assert machine.missing_per_arm().tolist() != before  # the step after it is another one

    def test_spade_uses_them_when_the_step_completes_otherwise(self) -> None:
        machine = Machine(question_of("spade"))
        wanted = np.repeat(np.arange(5), machine.missing_per_arm()).tolist()
        machine.take([ResultRow(1, 1, wanted[0], 0.0)])
        before = machine.missing_per_arm().tolist()
        machine.take([ResultRow(2 + i, None, i % 5, 0.0, 1) for i in range(50)])
        machine.take([ResultRow(60 + i, None, i % 5, 0.0, 2) for i in range(30)])
        assert machine.search.result().imported == 0
        assert (machine.unused, machine.in_step) == (80, 1)
        assert machine.missing_per_arm().tolist() == before
        machine.take([ResultRow(100 + i, 2 + i, arm, 0.0) for i, arm in enumerate(wanted[1:])])
        result = machine.search.result()
        assert (result.imported, result.pulls, machine.unused) == (80, len(wanted), 0)

    def test_surplus_results_are_not_overtaken_by_an_import(self) -> None:
        """A step may leave arms out; the one that an import puts in its place takes what waits."""
        question = question_of("spade", seed=5)
        machine, naive = Machine(question), Naive(question)
        rng, numbers = np.random.default_rng(5), itertools.count(1)
        means = [0.0, 0.05, 0.6, 1.0, 0.5]

        def take(arms: Iterable[int], batch: int | None = None) -> None:
            rows = []
            for arm in arms:
                number = next(numbers)
                reward = float(rng.random() < means[arm])
                rows.append(ResultRow(number, None if batch else number, arm, reward, batch))
            machine.take(rows)
            naive.take(rows)
            assert_agree(machine, naive)

        taken_at_once = 0
        while not machine.done and machine.taken < 2500:
            missing = machine.missing_per_arm()
            left_out = np.flatnonzero(missing == 0).tolist()
            if left_out and machine.in_step == 0:
                take(left_out * 3)
                assert machine.in_step == 0
                assert machine.unused >= 3 * len(left_out)
                take([int(np.flatnonzero(missing)[0])] * 40, batch=machine.taken)
                taken_at_once += machine.in_step > 0
            take(np.repeat(np.arange(5), machine.missing_per_arm()).tolist())
        assert taken_at_once > 1

    @pytest.mark.parametrize("variant", ["ade", "rr", "wrr"])
    def test_others_use_them_as_the_arms_next_rewards(self, variant: str) -> None:
        question = question_of(variant, budget=100)
        machine = Machine(question)
        rows = [ResultRow(i + 1, None, i % 5, MEANS[i % 5], 1) for i in range(500)]
        machine.take(rows)
        result = machine.search.result()
        assert result.pulls > 100  # what nobody asked for costs no budget
        assert result.status == "running"
        assert machine.told == 0

    def test_a_batch_of_an_algorithm_that_cannot_use_it_may_be_divided(self) -> None:
        rows = [ResultRow(i + 1, None, i % 5, 0.5, 1) for i in range(50)]
        whole, divided = Machine(question_of("rr")), Machine(question_of("rr"))
        whole.take(rows)
        divided.take(rows[:13])
        divided.take(rows[13:])
        assert whole.to_bytes() == divided.to_bytes()


class TestStatesOfOthers:
    def test_a_state_of_another_version_is_refused(self) -> None:
        from oddarms.freezing import freeze, thaw

        question = question_of("spade")
        state = thaw(Machine(question).to_bytes())
        for changed in (
            {**state, "extra": 1},
            {name: value for name, value in state.items() if name != "_step"},
            {**state, "search": {**state["search"], "ask": 1}},
            {**state, "search": 1},
            [state],
        ):
            with pytest.raises(InvalidParameter, match="must be of this version"):
                Machine.from_bytes(question, freeze(changed))

    def test_a_damaged_state_is_refused(self) -> None:
        data = Machine(question_of("rr")).to_bytes()
        with pytest.raises(InvalidParameter, match="damaged"):
            Machine.from_bytes(question_of("rr"), data[:-10])


class Simulated:
    """A study with workers that are slow, lose pulls, and answer after their lease has run out.

    `fate` gives a pull's duration, None if it is lost, from its reward and a random generator.
    """

    lease = 3.0
    workers = 10

    def __init__(self, question: Question, means: FloatArray, fate: Callable[..., float | None]):
        self.machine = Machine(question)
        self.rng = np.random.default_rng(seed)
        self.means = means
        self.fate = fate
        self.now = 0.0
        self.tickets = itertools.count(1)
        self.live = [0] * question.n
        self.events: list[tuple[float, int, int, float | None, bool]] = []  # the end of a lease
        self.late = self.lost = 0

    def run(self, most: int) -> Machine:
        machine = self.machine
        while not machine.done and machine.taken < most:
            self._hand_out()
            self.now, _, arm, reward, ended = heapq.heappop(self.events)
            self.live[arm] -= ended
            if reward is not None:
                machine.take([ResultRow(machine.taken + 1, 1, arm, reward)])
        return machine

    def _hand_out(self) -> None:
        free = self.workers - sum(self.live)
        missing = self.machine.missing_per_arm().tolist() if free else []
        for arm, count in enumerate(missing):
            for _ in range(min(count - self.live[arm], free)):
                self._pull(arm)
                free -= 1

    def _pull(self, arm: int) -> None:
        self.live[arm] += 1
        number = next(self.tickets)
        reward = float(self.rng.random() < self.means[arm])
        duration = self.fate(reward, self.rng)
        in_time = duration is not None and duration <= self.lease
        if not in_time:
            heapq.heappush(self.events, (self.now + self.lease, number, arm, None, True))
        if duration is not None:
            heapq.heappush(self.events, (self.now + duration, number, arm, reward, in_time))
        self.lost += duration is None
        self.late += duration is not None and not in_time


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
            question = question_of(variant, n=4, seed=seed, options=options)
            simulated = Simulated(question, self.means, fate)
            decisions = simulated.run(most).search.result().decisions
            decided = decisions != Decision.UNDECIDED
            wrong += bool((decisions[decided] != truth[decided]).any())
            decided_third += bool(decided[2])
            assert simulated.lost > 0
            assert simulated.late > 0 or fate is lost_when_good
        assert decided_third > runs / 2
        return wrong

    @pytest.mark.parametrize(
        ("variant", "runs", "most", "options"),
        [
            ("rr", 100, 3000, {"batch": 10}),
            ("wrr", 150, 3000, {"batch": 10}),
            ("spade", 100, 300, {}),
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
        wrong = self._wrong("spade", 20, 300, lost_when_good)
        with pytest.raises(AssertionError, match="errors in 20 runs"):
            assert_error_rate(wrong, 20, 0.1)
