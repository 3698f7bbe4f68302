"""Studies under anything that workers may do, in any order, against dictionaries."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from helpers import ticket_number
from oddarms import Search, Study, create_study, load_study
from oddarms.errors import InvalidParameter, RewardRejected
from oddarms.search import PREFETCH, Status
from oddarms.studies import Told
from postgresql import fast_folder
from study_answers import assert_same_answer

ARMS = ["a", "b", 3]
SETTINGS: list[dict[str, Any]] = [
    {"algorithm": "rr", "batch": 2},
    {"algorithm": "rr", "batch": 2, "budget": 25},
    {"algorithm": "wrr", "side": "both"},
    {"algorithm": "ade"},
    {"algorithm": "ade", "shared": True, "budget": 20},
    {"algorithm": "spade"},
    {"algorithm": "spade", "max_step": 4, "budget": 40, "side": "both"},
]
Place = tuple[int, int]


@dataclass
class Pull:
    """A ticket of the model."""

    index: int
    place: int
    expires: float
    out: bool = True
    """Whether the storage has the ticket: it was not told, given back, or found ended."""
    reward: float | None = None


@dataclass
class Clock:
    """Stands for the module `time`, and for the steady clock, in the storage's code."""

    now: float = 1000.0
    day: float = 1_700_000_000.0

    def time(self) -> float:
        return self.day + self.now

    def steady(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@dataclass
class Entry:
    """A result of the model; its place is the study's choice if another result has its own."""

    ticket: str | None
    index: int
    reward: float
    worker: str | None
    told: float
    place: int | None
    above: int = field(default=-1)
    """It must be behind this place, if its place is not known."""


rewards = st.sampled_from([0.0, 0.25, 0.5, 1.0])
workers = st.sampled_from([None, "w1", "'; DROP TABLE results; --"])
which = st.integers(0, 10**6)


class Workers(RuleBasedStateMachine):
    """Two open copies of one study, as two processes have them, and what must be in them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = fast_folder("oddarms-stateful-")
        self.storage = self.folder / "studies.db"
        self.clock = Clock()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("oddarms.studies._database.time", self.clock)
        self.patch.setattr("oddarms.studies._database.steady", self.clock.steady)
        self.pulls: dict[str, Pull] = {}  # by the tickets' ids, in the order of their numbers
        self.log: list[Entry] = []
        self.conflicting: list[tuple[str, float, float, str | None]] = []
        self.keys: dict[str, int] = {}
        self.asked: dict[str, list[str]] = {}
        self.stopped = False
        self.studies: list[Study] = []

    def teardown(self) -> None:
        self.studies.clear()
        self.patch.undo()
        shutil.rmtree(self.folder)

    @initialize(chosen=st.sampled_from(SETTINGS), seed=st.integers(0, 100))
    def create(self, chosen: dict[str, Any], seed: int) -> None:
        other = create_study("other", [1, 2], k=1, delta=0.1, storage=self.storage)
        self.others = [ticket.id for ticket in other.ask(5)]
        words = {"k": 0.2, "delta": 0.2, "margin": 0, "rng": seed, **chosen}
        study = create_study("s", ARMS, storage=self.storage, **words)
        self.question = study.question.numbered()
        self.budgets = [self.question.budget]
        self.studies = [study, load_study("s", storage=self.storage)]

    # What the model knows

    def expected(self) -> Search:
        """Return a search that is told the whole log at once, as a new process would be."""
        self.find_places()
        rng = np.random.default_rng(self.studies[0].seed).spawn(2)[0]
        search = Search(self.question, rng=rng)
        for budget in self.budgets[1:]:
            search.raise_budget(budget)
        if self.log:
            search.load(
                np.array([entry.index for entry in self.log]),
                np.array([entry.place for entry in self.log]),
                np.array([entry.reward for entry in self.log]),
                np.array([entry.ticket is None for entry in self.log]),
            )
        return search

    def find_places(self) -> None:
        """Read the places that the study has chosen for late results and history."""
        if all(entry.place is not None for entry in self.log):
            return
        trials = list(self.studies[0].trials())
        filled: set[Place] = set()
        for entry, trial in zip(self.log, trials, strict=True):
            if entry.place is None:
                assert trial.place > entry.above
                entry.place = trial.place
            assert (entry.index, entry.place) not in filled
            filled.add((entry.index, entry.place))

    def live(self) -> dict[str, Pull]:
        """Return the pulls that are out; no place may be out twice."""
        found = {t: p for t, p in self.pulls.items() if p.out and p.expires > self.clock.now}
        assert len({(p.index, p.place) for p in found.values()}) == len(found)
        return found

    def out(self) -> set[Place]:
        return {(pull.index, pull.place) for pull in self.live().values()}

    def told(self) -> int:
        return sum(entry.ticket is not None for entry in self.log)

    def budget_left(self) -> float:
        budget = self.budgets[-1]
        return np.inf if budget is None else max(budget - self.told() - len(self.live()), 0)

    def some(self, number: int) -> Study:
        return self.studies[number % 2]

    def ticket(self, number: int) -> str:
        return list(self.pulls)[number % len(self.pulls)]

    # What workers do

    @rule(
        n=st.integers(1, 9),
        lease=st.integers(1, 40),
        worker=workers,
        prefetch=st.sampled_from([0.0, PREFETCH, PREFETCH, 3.0]),
        key=st.sampled_from([None, None, "k1", "k2"]),
        study=which,
    )
    def ask(
        self, n: int, lease: int, worker: str | None, prefetch: float, key: str | None, study: int
    ) -> None:
        live, left, search = self.live(), self.budget_left(), self.expected()
        filled = {(entry.index, entry.place) for entry in self.log}
        in_step = set(search.open_places(10**6, set(), prefetch=0.0))
        tickets = self.some(study).ask(n, worker, lease, prefetch=prefetch, key=key)
        for pull in self.pulls.values():
            pull.out = pull.out and pull.expires > self.clock.now
        again = [ticket for ticket in self.asked.get(key or "", ()) if ticket in live]
        if again:
            assert sorted(t.id for t in tickets) == sorted(again)
        else:
            last = len(self.pulls)
            numbers = list(map(ticket_number, tickets))
            assert numbers == list(range(last + 1, last + 1 + len(tickets)))
            new = {(ticket.index, ticket.place) for ticket in tickets}
            assert len(new) == len(tickets) <= min(n, left)
            assert not new & {(pull.index, pull.place) for pull in live.values()}
            assert not new & filled
            assert not (self.stopped and new)
            assert prefetch > 0.0 or new <= in_step
            if key is not None:
                self.asked[key] = [ticket.id for ticket in tickets]
        for ticket in tickets:
            assert ticket.arm == ARMS[ticket.index]
            assert ticket.expires == datetime.fromtimestamp(self.clock.time() + lease, UTC)
            self.pulls[ticket.id] = Pull(ticket.index, ticket.place, self.clock.now + lease)
        expected = self.status(search, prefetch)
        assert tickets.done == expected.final
        if prefetch == 0.0:
            assert tickets.status == expected

    def status(self, search: Search, prefetch: float = PREFETCH) -> Status:
        status = search.status_with(self.out(), prefetch=prefetch)
        return Status.STOPPED if self.stopped and not status.final else status

    def tell_model(self, ticket: str, reward: float, worker: str | None) -> Told:
        pull = self.pulls[ticket]
        if pull.reward is None:
            places = [entry.place or 0 for entry in self.log if entry.index == pull.index]
            known = all(entry.place is not None for entry in self.log)
            free = known and pull.place not in places
            entry = Entry(ticket, pull.index, reward, worker, self.clock.time(), None)
            if free:
                entry.place = pull.place
            else:
                entry.above = max(places, default=-1)
            self.log.append(entry)
            pull.reward, pull.out = reward, False
            return Told.RECORDED
        pull.out = False
        if pull.reward == reward:
            return Told.REPEATED
        self.conflicting.append((ticket, pull.reward, reward, worker))
        return Told.CONFLICT

    @precondition(lambda self: self.pulls)
    @rule(number=which, reward=rewards, worker=workers, study=which)
    def tell(self, number: int, reward: float, worker: str | None, study: int) -> None:
        """Of a ticket that is out, ended, given back, or has a result already."""
        self.find_places()
        ticket = self.ticket(number)
        said = self.some(study).tell(ticket, reward, worker=worker)
        assert said == self.tell_model(ticket, reward, worker)

    @precondition(lambda self: self.live())
    @rule(values=st.lists(rewards, min_size=9, max_size=9), study=which)
    def tell_what_is_out(self, values: list[float], study: int) -> None:
        """So that searches get somewhere."""
        for (ticket, _), reward in zip(list(self.live().items()), values, strict=False):
            self.tell(list(self.pulls).index(ticket), reward, None, study)

    @precondition(lambda self: self.pulls)
    @rule(pairs=st.lists(st.tuples(which, rewards), max_size=6), worker=workers, study=which)
    def tell_many(self, pairs: list[tuple[int, float]], worker: str | None, study: int) -> None:
        self.find_places()
        before = len(self.log)
        results = [(self.ticket(number), reward) for number, reward in pairs]
        said = self.some(study).tell_many(results, worker=worker)
        assert said == [self.tell_model(*result, worker) for result in results]
        # results of one call are stored in an order of their own
        order = [trial.ticket for trial in self.some(study).trials()]
        new = {entry.ticket: entry for entry in self.log[before:]}
        self.log[before:] = [new[ticket] for ticket in order[before:]]
        for entry in new.values():
            entry.place, entry.above = None, -1
        self.find_places()
        filled = {(entry.index, entry.place) for entry in self.log}
        assert all((self.pulls[t].index, self.pulls[t].place) in filled for t, _ in results)

    @rule(number=which, reward=rewards, study=which)
    def tell_of_what_is_no_ticket_of_the_study(
        self, number: int, reward: float, study: int
    ) -> None:
        other = self.others[number % len(self.others)]
        known = [(ticket, 0.5) for ticket in list(self.pulls)[:2]]
        for call in (
            lambda: self.some(study).tell(other, reward),
            lambda: self.some(study).tell_many([*known, (other, reward)]),
            lambda: self.some(study).skip(other),
            lambda: self.some(study).renew([other]),
        ):
            with pytest.raises(InvalidParameter, match="another study"):
                call()

    @precondition(lambda self: self.pulls)
    @rule(number=which, bad=st.sampled_from([1.5, -0.1, float("nan"), "x", None]), study=which)
    def tell_no_reward(self, number: int, bad: Any, study: int) -> None:
        with pytest.raises(RewardRejected):
            self.some(study).tell_many([(self.ticket(number), 0.5), (self.ticket(number + 1), bad)])

    @precondition(lambda self: self.pulls)
    @rule(number=which, study=which)
    def skip(self, number: int, study: int) -> None:
        ticket = self.ticket(number)
        self.some(study).skip(ticket, 'it\'s "gone"; --')
        self.pulls[ticket].out = False

    @precondition(lambda self: self.pulls)
    @rule(numbers=st.lists(which, max_size=6), lease=st.integers(1, 40), study=which)
    def renew(self, numbers: list[int], lease: int, study: int) -> None:
        """Of tickets that are out, or have ended and nobody has asked for work since."""
        tickets = {self.ticket(number) for number in numbers}
        renewed = [self.pulls[ticket] for ticket in tickets if self.pulls[ticket].out]
        given = [self.ticket(number) for number in numbers]
        assert self.some(study).renew(given, lease) == len(renewed)
        for pull in renewed:
            pull.expires = self.clock.now + lease

    @rule(seconds=st.sampled_from([0.5, 5.0, 50.0]))
    def wait(self, seconds: float) -> None:
        """Some leases end."""
        self.clock.now += seconds

    @rule(seconds=st.sampled_from([-7200.0, -3.0, 60.0, 1e6]))
    def set_the_time_of_day(self, seconds: float) -> None:
        """No lease ends because of it, and none lasts longer."""
        self.clock.day += seconds

    @rule(
        history=st.dictionaries(
            st.sampled_from(ARMS), st.lists(rewards, min_size=1, max_size=4), max_size=3
        ),
        key=st.sampled_from([None, None, "h1", "h2"]),
        study=which,
    )
    def add_history(self, history: dict[Any, list[float]], key: str | None, study: int) -> None:
        self.find_places()
        count = 0 if key in self.keys else sum(map(len, history.values()))
        before = len(self.log)
        if self.budgets[0] is not None and self.pulls and key not in self.keys:
            with pytest.raises(InvalidParameter, match="history comes too late"):
                self.some(study).add_history(history, key=key)
            return
        assert self.some(study).add_history(history, key=key) == count
        if key is not None:
            self.keys[key] = count
        new = list(self.some(study).trials())[before:]
        assert Counter((t.arm, t.reward) for t in new) == Counter(
            (arm, reward) for arm, values in history.items() for reward in values if count
        )
        ends = Counter[int]()
        for entry in self.log:
            ends[entry.index] = max(ends[entry.index], (entry.place or 0) + 1)
        for trial in new:
            index = ARMS.index(trial.arm)
            assert trial.place >= ends[index]
            told = trial.told.timestamp()
            self.log.append(Entry(None, index, trial.reward, None, told, trial.place))

    @rule(more=st.sampled_from([-5, 0, 7, 30, None]), study=which)
    def raise_budget(self, more: int | None, study: int) -> None:
        before = self.budgets[-1]
        budget = None if more is None else (before or 20) + more
        allowed = budget is None or (before is not None and budget >= before)
        if not allowed:
            with pytest.raises(InvalidParameter, match="budget"):
                self.some(study).raise_budget(budget)
            return
        self.some(study).raise_budget(budget)
        if budget != before:
            self.budgets.append(budget)

    @rule(study=which, stopped=st.booleans())
    def stop_or_resume(self, study: int, stopped: bool) -> None:
        self.stopped = stopped
        if stopped:
            self.some(study).stop("a reason")
        else:
            self.some(study).resume()

    @rule(study=which)
    def open_again(self, study: int) -> None:
        self.studies[study % 2] = load_study("s", storage=self.storage)

    # What must hold

    @invariant()
    def the_status_is_right(self) -> None:
        if self.studies:
            expected = self.status(self.expected())
            assert self.studies[0].status.final == expected.final
            assert self.studies[1].done == expected.final

    @rule(study=which)
    def the_log_is_right(self, study: int) -> None:
        self.find_places()
        trials = list(self.some(study).trials())
        assert [t.number for t in trials] == sorted({t.number for t in trials})
        found = [(t.ticket, t.arm, t.reward, t.worker, t.place) for t in trials]
        assert found == [(e.ticket, ARMS[e.index], e.reward, e.worker, e.place) for e in self.log]
        times = [entry.told for entry in self.log]
        assert [t.told.timestamp() for t in trials] == pytest.approx(times, abs=1e-3)
        kept = Counter[str]()
        expected = []
        for one in self.conflicting:
            kept[one[0]] += 1
            expected += [one] if kept[one[0]] <= 3 else []
        conflicts = self.some(study).conflicts()
        assert [(c.ticket, c.first, c.second, c.worker) for c in conflicts] == expected

    @rule(study=which)
    def the_overview_is_right(self, study: int) -> None:
        overview = self.some(study).overview()
        assert (overview.handed_out, overview.live) == (len(self.pulls), len(self.live()))
        assert (overview.told, overview.conflicts) == (self.told(), len(self.conflicting))
        assert (overview.stopped is not None) == self.stopped
        found, expected = overview.result, self.expected().result()
        assert_same_answer(found, expected)
        assert found.labels == tuple(ARMS)
        assert (found.history, found.unused) == (expected.history, expected.unused)
        assert found.pulls + found.history + found.unused >= len(self.log)
        budget = self.budgets[-1]
        assert budget is None or found.pulls <= budget

    @rule(study=which)
    def the_log_gives_the_state(self, study: int) -> None:
        verified = self.some(study).verify()
        assert verified.problems == []
        assert verified.results == len(self.log)


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(
    derandomize=True, deadline=None, max_examples=8, stateful_step_count=35
)


@pytest.mark.long
class TestMoreWorkers(Workers.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(derandomize=True, deadline=None, max_examples=150, stateful_step_count=60)
