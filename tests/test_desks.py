"""What every desk promises, be it a search in memory or a worker of a study in any storage."""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from desks import DESKS, ON_A_FILE_TOO, OpenDesk, add_history, drive, raise_budget, reward_at
from helpers import quick_and_long
from oddarms import Question, Result, Search, Status
from oddarms.arms import BatchFunction, Function
from oddarms.errors import InvalidParameter, PullFailed, RewardRejected
from oddarms.search import Policy, run

LABELS = ("ann", "bob", "cy", "dot", "eve")
MEANS = (0.05, 0.0, 0.95, 0.05, 0.9)
QUESTION = Question(LABELS, k=0.5, delta=0.1, margin=0.1)
VARIANTS = {
    "spade": QUESTION,
    "lower side, other bounds": QUESTION.but(side="lower", bounds=(-4.0, 12.0), margin=1.0),
    "both sides": QUESTION.but(side="both"),
    "ade": QUESTION.but(algorithm="ade", options={"shared": True}, budget=150),
    "rr": QUESTION.but(algorithm="rr", options={"batch": 7}, budget=150),
    "lucb": QUESTION.but(rule="mad", k=2, algorithm="lucb"),
}


@pytest.fixture
def question(request: pytest.FixtureRequest) -> Question:
    return VARIANTS[request.param]


ON_SOME_DESKS = pytest.mark.parametrize(
    ("desk", "question"),
    [
        pytest.param(kind, variant, marks=() if quick else pytest.mark.long)
        for kind in DESKS
        for variant in VARIANTS
        for quick in [kind == "search" or (kind, variant) == ("sqlite", "spade")]
    ],
    indirect=True,
)
"""Each question in memory; all of them in every storage are long."""


def reference(question: Question, seed: int = 3) -> Result:
    """What a search in memory finds if each step is told as a whole."""
    search = Search(question, rng=np.random.default_rng(seed).spawn(2)[0])
    used = [0] * question.n
    while not search.done:
        rewards = []
        pulls = search.ask_step()
        for arm in np.repeat(pulls.indices, pulls.counts).tolist():
            rewards.append(reward_at(arm, used[arm], MEANS[arm]))
            used[arm] += 1
        search.tell_step(rewards)
    return search.result()


def known(result: Result) -> dict[str, Any]:
    """Everything a result says but how many results were not needed."""
    return {**result.to_dict(snapshots=True), "unused": None}


class TestTheAnswer:
    """It is a function of the question, the seed and the rewards of the places."""

    @ON_SOME_DESKS
    def test_one_at_a_time(self, desk: OpenDesk, question: Question) -> None:
        result = drive(desk(question, 3), MEANS, at_once=1, prefetch=0.0)
        assert known(result) == known(reference(question))
        assert result.unused == 0

    @ON_SOME_DESKS
    def test_any_order(self, desk: OpenDesk, question: Question) -> None:
        prefetch = 0.2 if question.budget is None else 0.0  # what is made ahead costs budget
        opened = desk(question, 3)
        result = drive(opened, MEANS, at_once=200, shuffled=5, prefetch=prefetch)
        assert known(result) == known(reference(question))

    @ON_A_FILE_TOO
    @pytest.mark.parametrize("prefetch", quick_and_long([2.0], [0.0, 0.2]))
    def test_tickets_given_back_and_made_ahead(self, desk: OpenDesk, prefetch: float) -> None:
        opened = desk(QUESTION, 3)
        result = drive(opened, MEANS, at_once=30, shuffled=7, skipped=0.2, prefetch=prefetch)
        assert known(result) == known(reference(QUESTION))
        assert prefetch > 0.0 or result.unused == 0

    def test_a_desk_that_others_continue(self, desk: OpenDesk) -> None:
        opened = desk(QUESTION, 3)
        assert not drive(opened, MEANS, most=33).complete
        assert known(drive(opened, MEANS)) == known(reference(QUESTION))


class TestTickets:
    def test_all_are_out(self, desk: OpenDesk) -> None:
        opened = desk(QUESTION.but(algorithm="rr"), 1)
        tickets = opened.ask(100, prefetch=0.0)
        assert [t.arm for t in tickets] == list(LABELS)
        assert (tickets.status, tickets.done) == (Status.WAITING, False)
        assert opened.ask(1, prefetch=0.0) == []
        assert [t.place for t in opened.ask(5, prefetch=1.0)] == [1] * 5

    def test_what_is_refused(self, desk: OpenDesk) -> None:
        opened = desk(QUESTION.but(algorithm="rr", budget=30), 1)
        for n in (0, -1, 1.5, "2"):
            with pytest.raises(InvalidParameter, match="n must be a whole number of at least 1"):
                opened.ask(n)  # type: ignore[arg-type]
        for prefetch in (-0.1, np.nan, np.inf, "1"):
            with pytest.raises(InvalidParameter, match="prefetch must be"):
                opened.ask(1, prefetch=prefetch)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="budget can only grow"):
            raise_budget(opened, 20)
        with pytest.raises(InvalidParameter, match="'zoe'"):
            add_history(opened, {"ann": [0.5], "zoe": [0.5]})
        tickets = opened.ask(5, prefetch=0.0)
        for reward in (np.nan, 1.5, -0.1, None, "1", [1.0], 1j, 10**400):
            with pytest.raises(RewardRejected):
                opened.tell(tickets[0], reward)
            with pytest.raises(RewardRejected):
                opened.check_reward(reward)
        for ticket in tickets:  # the first is still out
            opened.tell(ticket, True)
        assert opened.result().means.tolist() == [1.0] * 5


class TestTheBudget:
    @pytest.mark.parametrize("budget", [0, 1, 17, 60])
    def test_counts_results_and_tickets_that_are_out(self, desk: OpenDesk, budget: int) -> None:
        opened = desk(QUESTION.but(algorithm="rr", budget=budget), 1)
        told, tickets = 0, opened.ask(3)
        while not tickets.done:
            for ticket in tickets:
                opened.tell(ticket, MEANS[ticket.index])
            told += len(tickets)
            tickets = opened.ask(7)
        result = opened.result()
        assert result.status is Status.BUDGET
        assert result.pulls <= told <= budget
        assert budget - result.pulls < 5

    def test_it_may_grow(self, desk: OpenDesk) -> None:
        small = desk(QUESTION.but(budget=30), 3)
        assert drive(small, MEANS).status is Status.BUDGET
        raise_budget(small, 60)
        assert drive(small, MEANS).status is Status.BUDGET
        raise_budget(small, None)
        assert known(drive(small, MEANS))["arms"] == known(reference(QUESTION))["arms"]


class TestHistory:
    def test_it_is_used_before_the_search_asks(self, desk: OpenDesk) -> None:
        opened = desk(QUESTION.but(algorithm="rr", budget=10), 3)
        add_history(opened, {"ann": [0.5] * 3, "bob": [0.25]})
        assert [t.arm for t in opened.ask(5, prefetch=0.0)] == ["cy", "dot", "eve"]
        result = opened.result()
        assert result.history_per_arm.tolist() == [3, 1, 0, 0, 0]

    def test_it_takes_no_place_from_a_ticket(self, desk: OpenDesk) -> None:
        """Else its reward would be used when it arrives, which it may itself decide."""
        opened = desk(QUESTION.but(algorithm="rr"), 3)
        tickets = opened.ask(5, prefetch=0.0)
        add_history(opened, {"ann": [1.0]})
        for ticket in tickets[1:]:
            opened.tell(ticket, 0.0)
        assert np.isnan(opened.result().means).all()
        opened.tell(tickets[0], 0.0)
        result = opened.result()
        assert result.means.tolist() == [0.5, 0.0, 0.0, 0.0, 0.0]
        assert (result.pulls, result.history) == (5, 1)


class Table:
    """Pulls whose rewards follow from the arm and how often it was pulled before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = dict.fromkeys(LABELS, 0)

    def __call__(self, label: str) -> float:
        index = LABELS.index(label)
        with self._lock:
            place = self._made[label]
            self._made[label] += 1
        return reward_at(index, place, MEANS[index])


@ON_A_FILE_TOO
class TestTheLoop:
    """`run` drives every desk."""

    def test_calls_here(self, desk: OpenDesk) -> None:
        result = run(desk(QUESTION, 3), Function(Table(), LABELS))
        assert known(result) == known(reference(QUESTION))

    def test_batches(self, desk: OpenDesk) -> None:
        table = Table()
        arms = BatchFunction(lambda labels: [table(label) for label in labels], LABELS)
        assert known(run(desk(QUESTION, 3), arms)) == known(reference(QUESTION))

    @pytest.mark.parametrize("kind", quick_and_long(["threads", "coroutines"], ["a pool"]))
    def test_calls_at_the_same_time(self, desk: OpenDesk, kind: str) -> None:
        constant = dict(zip(LABELS, MEANS, strict=True))  # as calls overtake each other

        async def pull(label: str) -> float:
            await asyncio.sleep(0.0001)
            return constant[label]

        with ThreadPoolExecutor(3) as pool:
            policy = {"threads": Policy(jobs=3), "a pool": Policy(executor=pool)}.get(kind)
            function = pull if kind == "coroutines" else constant.__getitem__
            result = run(desk(QUESTION, 3), Function(function, LABELS), policy)
        alone = run(desk(QUESTION, 3), Function(constant.__getitem__, LABELS))
        assert known(result) == known(alone)

    @pytest.mark.parametrize("jobs", [1, 3])
    def test_a_failure_loses_nothing(self, desk: OpenDesk, jobs: int) -> None:
        constant = dict(zip(LABELS, MEANS, strict=True))
        opened, calls = desk(QUESTION, 3), itertools.count()

        def pull(label: str) -> float:
            if next(calls) == 25:
                raise OSError("no route to host")
            return constant[label]

        arms = Function(pull, LABELS)
        with pytest.raises(PullFailed, match="OSError: no route to host") as caught:
            run(opened, arms, Policy(jobs=jobs))
        assert caught.value.result.status is Status.FAILED
        assert opened.progress().pulls == next(calls) - 1
        assert known(run(opened, arms, Policy(jobs=jobs))) == known(run(desk(QUESTION, 3), arms))

    def test_until(self, desk: OpenDesk) -> None:
        pulls = 0

        def pull(label: str) -> float:
            nonlocal pulls
            pulls += 1
            return MEANS[LABELS.index(label)]

        opened = desk(QUESTION, 3)
        result = run(opened, Function(pull, LABELS), Policy(until=lambda: pulls >= 12))
        assert (pulls, result.status) == (12, Status.RUNNING)
        assert opened.progress().pulls == 12
