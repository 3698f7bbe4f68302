"""Studies under anything that workers may do, in any order, against dictionaries."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from helpers import ticket_number
from oddarms import Search, Study, create_study, load_study
from oddarms.errors import InvalidParameter, RewardRejected
from oddarms.search import AHEAD, Status
from oddarms.search._places import Place
from oddarms.search._step import Out
from oddarms.studies import Told, _replay, _sql, verify
from oddarms.studies._log import ResultRow
from oddarms.studies._replay import new_search, replay

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
START = 1_700_000_000.0


@dataclass
class Pull:
    """A ticket of the model.

    It is asked for at a time of day and expires at one of the steady clock; it has no lease any
    more once somebody has asked for work and found it ended.
    """

    arm: Any
    place: int
    worker: str | None
    asked: float
    expires: float
    leased: bool = True
    skipped: bool = False
    reward: float | None = None


@dataclass(frozen=True)
class Entry:
    """A result of the model, of a ticket or of an import, told at a time of day."""

    ticket: str | None
    arm: Any
    reward: float
    worker: str | None
    told: float
    late: bool = False
    batch: int | None = None


class Clock:
    """Stands for the module `time`, and for the steady clock, in the studies' code."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.start = START

    def time(self) -> float:
        return self.start + self.now

    def steady(self) -> float:
        return self.now


rewards = st.sampled_from([0.0, 0.25, 0.5, 1.0])
workers = st.sampled_from([None, "w1", "'; DROP TABLE results; --"])
which = st.integers(0, 10**6)


class Workers(RuleBasedStateMachine):
    """Two open copies of one study, as two processes have them, and what must be in them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.clock = Clock()
        self.patch.setattr(_sql, "time", self.clock)
        self.patch.setattr(_sql, "steady", self.clock.steady)
        self.patch.setattr(_replay, "LEAST_BETWEEN_STATES", 5)
        self.pulls: dict[str, Pull] = {}  # by the tickets' ids, in the order of their numbers
        self.log: list[Entry] = []
        self.conflicting: list[tuple[str, Any, float, float, str | None]] = []
        self.within = 0  # results of tickets that the budget of their time allowed
        self.used_places: set[Place] = set()
        self.keys: dict[str, dict[Any, list[float]]] = {}
        self.imports = 0

    def teardown(self) -> None:
        for study in getattr(self, "studies", ()):
            study._database.close()
        self.patch.undo()
        self.folder.cleanup()

    @initialize(chosen=st.sampled_from(SETTINGS), seed=st.integers(0, 100))
    def create(self, chosen: dict[str, Any], seed: int) -> None:
        self.storage = Path(self.folder.name) / "studies.db"
        other = create_study("other", [1, 2], k=1, delta=0.1, storage=self.storage)
        self.others = [ticket.id for ticket in other.ask(5)]
        study = create_study("s", ARMS, k=0.2, delta=0.2, rng=seed, storage=self.storage, **chosen)
        self.studies = [study, load_study("s", storage=self.storage)]
        self.fed = 0
        self.search = new_search(study.question.numbered(), study.seed)

    # What the model knows

    def expected(self) -> Search:
        """Return a search that was told the model's results, each at its ticket's place."""
        rows = [
            ResultRow(
                i + 1,
                None if entry.ticket is None else ticket_number(entry.ticket),
                ARMS.index(entry.arm),
                self.place_of(entry.ticket),
                entry.reward,
                entry.batch,
            )
            for i, entry in enumerate(self.log)
        ]
        replay(self.search, rows[self.fed :])
        self.fed = len(rows)
        return self.search

    def place_of(self, ticket: str | None) -> int | None:
        return None if ticket is None else self.pulls[ticket].place

    def has_lease(self, pull: Pull) -> bool:
        return pull.leased and pull.expires > self.clock.now

    def is_back(self, pull: Pull) -> bool:
        return pull.skipped or pull.reward is not None

    def is_live(self, pull: Pull) -> bool:
        return not self.is_back(pull) and self.has_lease(pull)

    def live(self) -> Counter[Place]:
        """Return the places that are out; none may be so twice."""
        pulls = [pull for pull in self.pulls.values() if self.is_live(pull)]
        return Counter((ARMS.index(pull.arm), pull.place) for pull in pulls)

    def out(self) -> Out:
        out: Out = {}
        for arm, place in self.live():
            out.setdefault(arm, set()).add(place)
        return out

    def most(self) -> float:
        budget = self.search.question.budget
        return float("inf") if budget is None else budget

    def budget_left(self) -> float:
        return max(self.most() - self.within - self.live().total(), 0)

    def status(self, ahead: float = AHEAD) -> Status:
        search = self.expected()
        if search.done:
            assert search.status in (Status.DECIDED, Status.BUDGET)
            return search.status
        if self.budget_left() and search.open_places(1, self.out(), ahead=ahead):
            return Status.RUNNING
        return Status.WAITING if self.live().total() else Status.BUDGET

    def some(self, number: int) -> Study:
        return self.studies[number % 2]

    def ticket(self, number: int) -> str:
        return list(self.pulls)[number % len(self.pulls)]

    # What workers do

    @rule(
        n=st.integers(1, 9),
        lease=st.integers(1, 40),
        worker=workers,
        ahead=st.sampled_from([0.0, AHEAD, AHEAD, 3.0]),
        study=which,
    )
    def ask(self, n: int, lease: int, worker: str | None, ahead: float, study: int) -> None:
        live, told, most = self.live(), self.used_places, self.budget_left()
        in_step = set(self.expected().open_places(10**6, {}, ahead=0.0))
        last = len(self.pulls)
        tickets = self.some(study).ask(n, worker, timedelta(seconds=lease), ahead=ahead)
        places = [(ticket.index, ticket.place) for ticket in tickets]
        numbers = list(map(ticket_number, tickets))
        assert numbers == list(range(last + 1, last + 1 + len(tickets)))
        assert [t.arm for t in tickets] == [ARMS[arm] for arm, _ in places]
        assert len(set(places)) == len(places) <= min(n, most)
        assert not set(places) & live.keys()
        assert not set(places) & told
        if ahead == 0.0:
            assert set(places) <= in_step
        elif set(places) - in_step and most == float("inf"):  # only if the step's own are out
            assert self.missing_at_most(in_step, live, set(places))
        for pull in self.pulls.values():
            pull.leased = self.is_live(pull)
        asked, ends = self.clock.time(), self.clock.now + lease
        for ticket in tickets:
            assert ticket.expires == datetime.fromtimestamp(asked + lease, UTC)
            self.pulls[ticket.id] = Pull(ticket.arm, ticket.place, worker, asked, ends)
        assert max(self.live().values(), default=1) == 1
        assert tickets.done == (tickets.status in (Status.DECIDED, Status.BUDGET))
        assert tickets.done == self.status(ahead).final
        if ahead == 0.0:
            assert tickets.status == self.status(ahead)

    def missing_at_most(
        self, in_step: set[Place], live: Counter[Place], places: set[Place]
    ) -> bool:
        """Return whether of each arm as many are out as the step misses.

        Not the same places: a pull whose place a spare has taken will be a spare itself.
        """
        used = self.expected()._sequences.used
        ends = {arm: self.expected()._sequences._end(arm) for arm in range(len(ARMS))}
        out = Counter(a for a, p in {*live, *places} if used[a] <= p < ends[a])
        missing = Counter(arm for arm, _ in in_step)
        return all(out[arm] >= count for arm, count in missing.items())

    def tell_model(self, ticket: str, reward: float, worker: str | None) -> Told:
        pull = self.pulls[ticket]
        if pull.reward is None:
            pull.reward = reward
            if self.within < self.most():
                self.within += 1
                self.used_places.add((ARMS.index(pull.arm), pull.place))
            now, late = self.clock.time(), not self.has_lease(pull)
            self.log.append(Entry(ticket, pull.arm, reward, worker or pull.worker, now, late))
            return Told.RECORDED
        if pull.reward == reward:
            return Told.REPEATED
        self.conflicting.append((ticket, pull.arm, pull.reward, reward, worker))
        return Told.CONFLICT

    @precondition(lambda self: self.pulls)
    @rule(number=which, reward=rewards, worker=workers, study=which)
    def tell(self, number: int, reward: float, worker: str | None, study: int) -> None:
        """Of a ticket that is out, ended, given back, or has a result already."""
        ticket = self.ticket(number)
        said = self.some(study).tell(ticket, reward, worker=worker)
        assert said == self.tell_model(ticket, reward, worker)

    @precondition(lambda self: self.live().total())
    @rule(order=st.permutations(range(9)), values=st.lists(rewards, min_size=9, max_size=9))
    def tell_what_is_out(self, order: list[int], values: list[float]) -> None:
        """So that searches get somewhere."""
        out = [ticket for ticket, pull in self.pulls.items() if self.is_live(pull)]
        for i in order:
            if i < len(out):
                assert self.some(i).tell(out[i], values[i]) == Told.RECORDED
                self.tell_model(out[i], values[i], None)

    @precondition(lambda self: self.pulls)
    @rule(pairs=st.lists(st.tuples(which, rewards), max_size=6), worker=workers, study=which)
    def tell_many(self, pairs: list[tuple[int, float]], worker: str | None, study: int) -> None:
        results = [(self.ticket(number), reward) for number, reward in pairs]
        said = self.some(study).tell_many(results, worker=worker)
        firsts: dict[str, int] = {}
        for i, (ticket, _) in enumerate(results):
            if self.pulls[ticket].reward is None:
                firsts.setdefault(ticket, i)
        in_order = [firsts[ticket] for ticket in sorted(firsts, key=ticket_number)]
        others = [i for i in range(len(results)) if i not in in_order]
        expected = {i: self.tell_model(*results[i], worker) for i in (*in_order, *others)}
        assert said == [expected[i] for i in range(len(results))]

    @precondition(lambda self: self.pulls)
    @rule(number=which, again=st.booleans(), study=which)
    def tell_twice(self, number: int, again: bool, study: int) -> None:
        """At the same moment; the clock stands still."""
        ticket = self.ticket(number)
        first = self.pulls[ticket].reward
        reward = 0.75 if first is None else first
        self.some(study).tell(ticket, reward)
        self.tell_model(ticket, reward, None)
        second = reward if again else 0.125
        assert self.some(study + 1).tell(ticket, second) == self.tell_model(ticket, second, None)

    def refuses(self, study: Study, ticket: Any, reward: float, words: str) -> None:
        known = [(ticket, 0.5) for ticket in list(self.pulls)[:2]]
        with pytest.raises(InvalidParameter, match=words):
            study.tell(ticket, reward)
        with pytest.raises(InvalidParameter, match=words):
            study.tell_many([*known, (ticket, reward)])
        with pytest.raises(InvalidParameter, match=words):
            study.skip(ticket)

    @rule(ahead=st.integers(1, 5), reward=rewards, study=which)
    def tell_of_a_ticket_that_was_never_handed_out(
        self, ahead: int, reward: float, study: int
    ) -> None:
        unknown = len(self.pulls) + ahead
        some = self.some(study)
        self.refuses(some, some._ids.of(unknown), reward, f"was handed out but got {unknown}")

    @rule(number=which, reward=rewards, study=which)
    def tell_of_what_is_no_ticket_of_the_study(
        self, number: int, reward: float, study: int
    ) -> None:
        other = self.others[number % len(self.others)]
        self.refuses(self.some(study), other, reward, "one of the study 's' but .* another study")
        self.refuses(self.some(study), ticket_number(other), reward, "an id that `ask` has given")

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
        self.pulls[ticket].skipped = True

    @precondition(lambda self: self.pulls)
    @rule(number=which, reward=rewards, study=which)
    def skip_then_tell(self, number: int, reward: float, study: int) -> None:
        self.skip(number, study)
        self.tell(number, reward, None, study + 1)

    @precondition(lambda self: self.pulls)
    @rule(numbers=st.lists(which, max_size=6), lease=st.integers(1, 40), study=which)
    def renew(self, numbers: list[int], lease: int, study: int) -> None:
        """Of tickets that are out, or have ended and nobody has asked for work since."""
        tickets = {self.ticket(number) for number in numbers}
        pulls = [self.pulls[ticket] for ticket in tickets]
        renewed = [pull for pull in pulls if pull.leased and not self.is_back(pull)]
        given = [self.ticket(number) for number in numbers]
        assert self.some(study).renew(given, timedelta(seconds=lease)) == len(renewed)
        for pull in renewed:
            pull.expires = self.clock.now + lease
        assert max(self.live().values(), default=1) == 1

    @rule(seconds=st.sampled_from([0.5, 5.0, 50.0]))
    def wait(self, seconds: float) -> None:
        """Some leases end."""
        self.clock.now += seconds

    @rule(seconds=st.sampled_from([-7200.0, -3.0, 60.0, 1e6]))
    def set_the_time_of_day(self, seconds: float) -> None:
        """No lease ends because of it, and none lasts longer."""
        self.clock.start += seconds

    @rule(
        history=st.dictionaries(st.sampled_from(ARMS), st.lists(rewards, max_size=4), max_size=3),
        key=st.sampled_from([None, None, "k1", "k2"]),
        study=which,
    )
    def tell_arms(self, history: dict[Any, list[float]], key: str | None, study: int) -> None:
        known = key in self.keys
        if key is not None and known:
            history = self.keys[key]
        expected = 0 if known else sum(map(len, history.values()))
        assert self.some(study).import_rewards(history, key=key) == expected
        if expected:
            self.imports += 1
            if key is not None:
                self.keys[key] = history
            now = self.clock.time()
            self.log += [
                Entry(None, arm, reward, None, now, batch=self.imports)
                for arm, values in history.items()
                for reward in values
            ]

    @rule(arm=st.sampled_from(ARMS), values=st.lists(rewards, min_size=1, max_size=6), study=which)
    def tell_arm(self, arm: Any, values: list[float], study: int) -> None:
        assert self.some(study).import_rewards({arm: values}) == len(values)
        self.imports += 1
        now = self.clock.time()
        self.log += [Entry(None, arm, x, None, now, batch=self.imports) for x in values]

    @rule(
        word=st.sampled_from(["margin", "floor", "indifference", "budget"]),
        part=st.sampled_from([0.0, 0.1, 0.3, 0.9]),
        study=which,
    )
    def revise(self, word: str, part: float, study: int) -> None:
        """Or be refused, by the study as by a search in memory."""
        value = None if word == "budget" and self.most() > 60 else part
        if word == "budget" and value is not None:
            value = int(self.most() + 100 * part)
        try:
            self.expected().revise(**{word: value})
        except InvalidParameter as error:
            with pytest.raises(InvalidParameter, match=re.escape(str(error))):
                self.some(study).revise(**{word: value})
            return
        self.some(study).revise(**{word: value})
        assert self.some(study).question.numbered() == self.search.question

    @rule(study=which)
    def open_again(self, study: int) -> None:
        self.studies[study % 2]._database.close()
        self.studies[study % 2] = load_study("s", storage=self.storage)

    # What must hold

    @invariant()
    def the_status_is_right(self) -> None:
        if hasattr(self, "studies"):
            status = self.status()
            assert self.studies[0].status.final == status.final
            if status.final or self.status(0.0) == Status.RUNNING:
                assert self.studies[0].status == status
            assert self.studies[1].done == status.final

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "studies"):
            search = self.expected()
            absorbed = 0
            if search.algorithm.takes_imports:
                waiting = sum(rewards.size for _, rewards in search._imports)
                imported = search.taken - search.told - search.beyond
                absorbed = imported - waiting if not search.done else None
            assert search.taken == len(self.log)
            told = sum(entry.ticket is not None for entry in self.log)
            assert search.told == self.within
            assert search.beyond == told - search.told
            if absorbed is not None:
                used = search.total_pulls + absorbed
                assert search.taken == used + search.unused + search.in_step + search.beyond

    @rule(study=which)
    def the_log_is_right(self, study: int) -> None:
        trials = list(self.some(study).trials())
        assert [t.number for t in trials] == sorted({t.number for t in trials})
        found = [
            Entry(t.ticket, t.arm, t.reward, t.worker, t.told.timestamp(), t.late) for t in trials
        ]
        assert found == [replace(entry, batch=None) for entry in self.log]
        for trial in trials:
            assert trial.place == self.place_of(trial.ticket)
            if trial.ticket is None:
                assert (trial.asked, trial.late) == (None, False)
            else:
                pull = self.pulls[trial.ticket]
                assert trial.asked == datetime.fromtimestamp(pull.asked, UTC)
        conflicts = [
            (c.ticket, c.arm, c.first, c.second, c.worker) for c in self.some(study).conflicts()
        ]
        kept = Counter[str]()
        expected = []
        for one in self.conflicting:
            kept[one[0]] += 1
            expected += [one] if kept[one[0]] <= 3 else []
        assert conflicts == expected
        assert self.some(study).overview().conflicts == len(self.conflicting)

    @rule(study=which)
    def the_result_is_right(self, study: int) -> None:
        found, expected = self.some(study).result(), self.expected().result()
        assert found.labels == tuple(ARMS)
        assert found.decisions.tolist() == expected.decisions.tolist()
        assert found.pulls_per_arm.tolist() == expected.pulls_per_arm.tolist()
        assert found.means.tolist() == pytest.approx(expected.means.tolist(), nan_ok=True)
        assert (found.imported, found.unused) == (expected.imported, expected.unused)
        assert found.beyond == expected.beyond
        status = self.status()
        assert found.status == (status if status.final else Status.RUNNING)

    @rule(study=which)
    def the_log_gives_the_state(self, study: int) -> None:
        verified = verify(self.some(study))
        assert verified.problems == []
        assert verified.results == len(self.log)


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(
    derandomize=True, deadline=None, max_examples=12, stateful_step_count=40
)


@pytest.mark.long
class TestMoreWorkers(Workers.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(derandomize=True, deadline=None, max_examples=150, stateful_step_count=60)
