"""Questions that are changed on samples that are there: searches, studies, and `find`."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import Run, quick_and_long
from oddarms import (
    Search,
    Study,
    create_study,
    delete_study,
    find,
    list_studies,
    load_study,
    upgrade_storage,
)
from oddarms.algorithms import Decision
from oddarms.algorithms._spade import SPADE
from oddarms.algorithms._spade_certificates import JointCertificate
from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.finding import open_study
from oddarms.problem import Question
from oddarms.rules import rule_of, true_outliers
from oddarms.search import Status
from oddarms.studies import _replay, _sql, verify
from oddarms.studies import _revision_rows as revision_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies._log import ResultRow, RevisionRow
from oddarms.studies._replay import in_order, new_search, replay
from oddarms.testing import assert_error_rate
from postgresql import Server
from small_studies import change

MEANS = np.array([0.0, 0.05, 0.1, 0.4, 1.0])
N = MEANS.size
WORDS: dict[str, Any] = {"k": 1.0, "delta": 0.3, "rng": 1}
LABELS = ["a", "b", "c", "d", "e"]


def reward(arm: int, place: int) -> float:
    """Return the reward of a place, the same whoever asks and when: Bernoulli, nearly in order."""
    return float((place * 0.6180339887498949 + arm * 0.3) % 1.0 < MEANS[arm])


def go_on(search: Search, results: int = 10**6) -> None:
    """Tell results until there are so many or the search is over."""
    while not search.done and search.taken < results:
        for ticket in search.ask(min(20, results - search.taken), ahead=0.0):
            search.tell(ticket, reward(ticket.index, ticket.place))


def right_answer(question: Question) -> list[int]:
    found = true_outliers(question, MEANS)
    return np.flatnonzero(np.logical_or.reduce(list(found.values()))).tolist()


def figures(search: Search) -> dict[str, Any]:
    return search.result().to_dict()


class TestSearches:
    @pytest.mark.parametrize("words", [{}, {"side": "both"}, {"max_step": 7}], ids=str)
    def test_one_that_was_decided_is_open_again_and_right_again(
        self, words: dict[str, Any]
    ) -> None:
        search = Search(N, **WORDS, **words)
        go_on(search)
        assert search.result().outliers == right_answer(search.question) == [4]
        for margin in (0.4, 0.85, 0.2, 0.0):
            search.revise(margin=margin)
            go_on(search)
            assert search.status is Status.DECIDED
            assert search.question.revised
            assert search.result().outliers == right_answer(search.question)
        assert search.taken == search.result().pulls + search.unused

    def test_a_floor_of_the_lower_side(self) -> None:
        search = Search(N, **{**WORDS, "k": 0.3}, side="lower", bounds=(-1, 1))
        go_on(search)
        assert search.result().outliers == right_answer(search.question) == [0, 1, 2]
        search.revise(floor=-0.5)
        go_on(search)
        assert search.result().outliers == right_answer(search.question) == []

    def test_there_may_be_an_answer_without_another_sample(self) -> None:
        search = Search(N, **WORDS)
        go_on(search)
        taken = search.taken
        search.revise(margin=0.3)
        assert (search.status, search.taken) == (Status.DECIDED, taken)
        assert search.result().outliers == [4]
        search.revise(margin=0.9)
        assert search.undecided == search.result().trace[-1].undecided == 1
        assert search.decisions[4] == Decision.UNDECIDED

    def test_before_the_first_result_it_is_just_another_question(self) -> None:
        search = Search(N, **WORDS, budget=30)
        search.ask(3)
        search.revise(margin=0.1, floor=0.2, indifference=0.05, budget=None)
        fresh = Search(N, **WORDS, margin=0.1, floor=0.2, indifference=0.05)
        assert search.question == fresh.question
        for one in (search, fresh):
            one.skip_many(list(one._out))
            go_on(one)
        assert figures(search) == figures(fresh)
        assert not search.question.revised

    def test_what_costs_something_is_said(self) -> None:
        search = Search(N, **WORDS, budget=50)
        search.tell(search.ask()[0], 1.0)
        search.revise(indifference=0.01)
        search.revise(budget=60)
        search.revise(margin=0.0)
        assert not search.question.revised
        search.revise(margin=0.1)
        assert search.question.revised
        search.revise(margin=0.0)
        assert search.question.revised

    @pytest.mark.parametrize("n", [N, 1100])
    def test_a_larger_indifference_keeps_all_verdicts(self, n: int) -> None:
        """Of both forms of SPADE; with many arms most are decided at once."""
        rng = np.random.default_rng(4)
        means = np.r_[MEANS, np.full(n - N, 0.2)]
        search = Search(n, k=2.0 if n > N else 1.0, delta=0.2)
        while not search.done and search.undecided > n // 3:
            tell_step(search, means, rng)
        before = search.decisions
        decided = before != Decision.UNDECIDED
        assert decided.sum() > 0
        for indifference in (0.001, 0.02, 1.0):
            search.revise(indifference=indifference)
            assert (search.decisions[decided] == before[decided]).all()
        assert search.status is Status.DECIDED
        search.revise(indifference=0.0)
        assert not search.question.revised

    def test_which_verdicts_stay_if_their_evidence_has_become_weaker(self) -> None:
        """Those that a larger margin cannot make wrong, but for the first change: it costs more."""
        search = Search(N, **WORDS)
        go_on(search)
        first, second = (Search.from_bytes(search.question, search.to_bytes()) for _ in range(2))
        weaken(first)
        first.revise(margin=0.3)
        assert first.undecided == N
        second.revise(margin=0.3)
        go_on(second)
        weaken(second)
        second.revise(margin=0.35)
        normal = search.decisions == Decision.NORMAL
        assert ((second.decisions == Decision.NORMAL) == normal).all()
        assert second.undecided == N - normal.sum()

    def test_very_many_arms_are_all_looked_at_again(self) -> None:
        n = 1100
        rng = np.random.default_rng(2)
        means = np.where(np.arange(n) < 20, 1.0, 0.1)
        search = Search(n, k=1.0, delta=0.2)
        while not search.done:
            tell_step(search, means, rng)
        assert len(search.result().outliers) == 20
        search.revise(margin=0.5)
        assert search.undecided < 5  # a verdict may need a few samples more
        assert set(search.result().outliers) <= set(range(20))

    @pytest.mark.parametrize("algorithm", ["spade", "rr"])
    def test_a_larger_budget_goes_on(self, algorithm: str) -> None:
        search = Search(N, **WORDS, algorithm=algorithm, budget=40)
        go_on(search)
        assert search.status is Status.BUDGET
        search.revise(budget=60)
        assert not search.done
        go_on(search)
        assert (search.status, search.told) == (Status.BUDGET, 60)
        if algorithm == "rr":
            fresh = Search(N, **WORDS, algorithm=algorithm, budget=60)
            go_on(fresh)
            del (found := figures(search))["trace"], (expected := figures(fresh))["trace"]
            assert found == expected
        search.revise(budget=None)
        go_on(search, 90)
        assert search.told == 90

    @pytest.mark.parametrize("algorithm", ["spade", "rr"])
    @pytest.mark.parametrize("told", [0, 40])
    def test_a_search_without_a_budget_may_get_one(self, algorithm: str, told: int) -> None:
        search = Search(N, **WORDS, algorithm=algorithm)
        go_on(search, told)
        search.revise(budget=60)
        go_on(search)
        assert search.status is Status.BUDGET
        assert told < search.told <= 60
        search.revise(budget=None)
        assert not search.done

    def test_a_budget_that_ends_within_a_step(self) -> None:
        search = Search(N, **WORDS, algorithm="rr", batch=10, budget=50)
        early = search.ask(4, ahead=5.0)
        while search.told < 46:
            for ticket in search.ask(10, ahead=5.0):
                search.tell(ticket, 0.5)
        search.skip_many(early)
        search.take(0, 10, 0.5)  # ahead of the step, which now does not fit
        while not search.done:
            for ticket in search.ask(10, ahead=0.0):
                search.tell(ticket, 0.5)
        assert (search.status, search.told) == (Status.BUDGET, 50)
        pulls = search.result().pulls
        search.revise(budget=51)
        for ticket in search.ask(10, ahead=0.0):
            search.tell(ticket, 0.5)
        assert search.result().pulls >= pulls

    def test_a_step_goes_on_and_nothing_is_lost(self) -> None:
        """Decided by a revision in the middle of a step, and open again by the next one."""
        search = Search(N, **WORDS)
        go_on(search, 60)
        while search._sequences.step.missing < 6:
            go_on(search, search.taken + 1)
        tickets = search.ask(8, ahead=1.0)
        missing = set(search.open_places(10**6, {}, ahead=0.0))
        told, rest = tickets[:3], tickets[3:]
        for ticket in told:
            search.tell(ticket, reward(ticket.index, ticket.place))
        search.revise(indifference=1.0)
        assert search.status is Status.DECIDED
        for ticket in rest[:2]:
            search.tell(ticket, reward(ticket.index, ticket.place))
        assert search.result().unused == search.taken - search.result().pulls
        search.revise(indifference=0.0)
        assert search.status is Status.RUNNING
        there = {(ticket.index, ticket.place) for ticket in (*told, *rest[:2])}
        assert set(search.open_places(10**6, {}, ahead=0.0)) == missing - there
        for ticket in rest[2:]:
            search.tell(ticket, reward(ticket.index, ticket.place))
        go_on(search)
        assert search.result().outliers == [4]
        assert search.taken == search.result().pulls + search.unused

    def test_a_step_that_was_completed_when_nobody_wanted_it(self) -> None:
        search = Search(N, **WORDS)
        for seed in range(6):
            tell_step(search, MEANS, np.random.default_rng(seed))
        rounds = search.result().round
        pulls = search.ask_step()
        search.revise(indifference=1.0)
        search.tell_step(np.zeros(pulls.total))
        assert (search.status, search.result().round) == (Status.DECIDED, rounds)
        search.revise(indifference=0.0)
        assert (search.status, search.result().round) == (Status.RUNNING, rounds + 1)

    def test_imports_wait_for_another_question(self) -> None:
        search = Search(N, **WORDS)
        go_on(search)
        pulls = search.result().pulls
        history = {arm: [reward(arm, 10**6 + i) for i in range(300)] for arm in range(N)}
        search.import_rewards(history)
        assert (search.status, search.unused) == (Status.DECIDED, 300 * N)
        search.revise(margin=0.6)
        assert search.unused == 0
        assert search.result().outliers == right_answer(search.question) == [4]
        assert search.result().pulls == pulls

    def test_imports_before_a_step_that_nobody_has_begun(self) -> None:
        search = Search(N, **WORDS)
        go_on(search, 60)
        while not search._sequences.step.untouched:
            go_on(search, search.taken + 1)
        search.revise(indifference=1.0)
        search.import_rewards({0: [0.0, 0.0], 4: [1.0]})
        assert (search.status, search.unused) == (Status.DECIDED, 3)
        search.revise(indifference=0.0)
        assert (search.status, search.unused) == (Status.RUNNING, 0)

    @pytest.mark.parametrize("when", [0, 7, 60, 10**6])
    def test_it_can_be_saved(self, when: int) -> None:
        search = Search(N, **WORDS)
        go_on(search, when)
        search.revise(margin=0.45)
        again = Search.from_bytes(search.question, search.to_bytes())
        for one in (search, again):
            go_on(one)
            one.revise(margin=0.3, indifference=0.01)
            go_on(one)
        assert figures(again) == figures(search)

    def test_one_that_was_stopped_goes_on(self) -> None:
        search = Search(N, **WORDS, algorithm="rr", budget=100)
        (ticket,) = search.ask()
        search.stop(Status.INTERRUPTED)
        search.tell(ticket, 0.5)
        search.revise(budget=200)
        assert search.status is Status.RUNNING
        go_on(search)
        assert search.told == 200

    REFUSED: ClassVar[tuple[tuple[dict[str, Any], dict[str, Any], str], ...]] = (
        (
            {},
            {"k": 2.0},
            r"k must stay what it was \(1.0\) but got 2.0: only margin, floor, .* new",
        ),
        ({}, {"delta": 0.1}, r"delta must stay"),
        ({}, {"bounds": (0, 2)}, r"bounds must stay"),
        ({}, {"side": "lower"}, r"side must stay"),
        ({}, {"error": "fdr"}, r"error must stay"),
        ({"error": "fdr"}, {"margin": 0.2}, r"margin must stay .* where error is 'fdr'"),
        ({"error": "fdr"}, {"indifference": 0.2}, r"indifference must stay .* where error is"),
        ({}, {"algorithm": "rr"}, r"algorithm must stay"),
        ({}, {"max_step": 5}, r"max_step must stay what it was \(None\) but got 5"),
        (
            {},
            {"budget": 9},
            r"budget must not be smaller than .* samples that are there \(\d+\) but got 9",
        ),
        ({"budget": 900}, {"budget": 899}, r"than it was \(900\) but got 899"),
        ({}, {"budget": -1}, r"budget must be a whole number"),
        ({}, {"margin": 1.5}, r"margin must be at least 0 and less than"),
        ({}, {"floor": 2.0}, r"floor must lie within"),
        ({"side": "both"}, {"floor": 0.5}, r"floor must belong to one side"),
        ({"k": -1.0}, {"margin": 0.1}, r"k must be at least 0 where there is a margin"),
        ({}, {"indifference": -0.1}, r"indifference must be at least 0"),
        ({}, {"indifference": 1e7}, r"indifference must be at least 0 and at most"),
        ({}, {"indifference": "much"}, r"indifference must be a number but got 'much'"),
        (
            {"algorithm": "rr"},
            {"margin": 0.1},
            r"margin must stay what it was \(0.0\) for the algorithm rr, which cannot decide anew",
        ),
        ({"algorithm": "ade"}, {"indifference": 0.1}, r"indifference must stay .* algorithm ade"),
    )

    @pytest.mark.parametrize(("words", "changes", "sentence"), REFUSED, ids=str)
    def test_what_else_is_changed_is_refused(
        self, words: dict[str, Any], changes: dict[str, Any], sentence: str
    ) -> None:
        search = Search(N, **{**WORDS, **words})
        go_on(search, 30)
        before = search.to_bytes()
        with pytest.raises(InvalidParameter, match=sentence):
            search.revise(**changes)
        assert search.to_bytes() == before

    def test_other_arms_are_refused(self) -> None:
        search = Search(LABELS, **WORDS)
        with pytest.raises(InvalidParameter, match="labels must stay"):
            search.revise(search.question.but(labels=LABELS[::-1]))
        search.revise(search.question.but(margin=0.25))
        assert search.question.margin == 0.25


def tell_step(search: Search, means: Any, rng: np.random.Generator) -> None:
    pulls = search.ask_step()
    sums = rng.binomial(pulls.counts, means[pulls.indices]).astype(float)
    search.tell_step_totals(sums, sums)


def weaken(search: Search) -> None:
    """Take evidence away, as unlucky rewards do."""
    algorithm = search.algorithm
    assert isinstance(algorithm, SPADE)
    certificate = algorithm.views["upper"].certificate
    assert isinstance(certificate, JointCertificate)
    rows = certificate.rows
    for stream in (rows.mu, rows.lower):
        stream.spent[:] += 30.0
    certificate.rows = rows._replace(upper=rows.upper._replace(weight=1e-9))


@pytest.mark.long
def test_margins_that_are_chosen_to_mislead() -> None:
    """Each where an arm seems to be just now; all answers of a run together are to be right."""
    means, delta, runs, wrong = np.array([0.2, 0.3, 0.35, 0.7]), 0.2, 150, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        search = Search(means.size, k=0.5, delta=delta, rng=seed, indifference=0.02)
        mistaken = False
        for _ in range(12):
            for _ in range(6):
                if not search.done:
                    tell_step(search, means, rng)
            mistaken |= is_wrong(search, means)
            far = search.means - search.means.mean()
            search.revise(margin=float(np.clip(rng.choice(far) + rng.normal(0, 0.05), 0.0, 0.9)))
            mistaken |= is_wrong(search, means)
        wrong += mistaken
    assert_error_rate(wrong, runs, 3.0 * delta)


def is_wrong(search: Search, means: Any) -> bool:
    slack = search.question.indifference
    threshold = rule_of(search.question).threshold(means)
    decisions = search.decisions
    high = (decisions == Decision.HIGH) & (means < threshold - slack)
    normal = (decisions == Decision.NORMAL) & (means >= threshold + slack)
    return bool(high.any() or normal.any())


# Studies


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "studies.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "studies.db")


def make(storage: str, **words: Any) -> Study:
    return create_study("s", LABELS, storage=storage, **{**WORDS, **words})


def work(study: Study, results: int = 10**6) -> None:
    """Tell so many results, or until the study is done."""
    while results > 0:
        tickets = study.ask(min(results, 20), ahead=0.0)
        if not tickets:
            return
        study.tell_many([(ticket, reward(ticket.index, ticket.place)) for ticket in tickets])
        results -= len(tickets)


def from_the_log(study: Study) -> Search:
    """Return the search that the log gives, results and revisions put together by hand."""
    search = new_search(study._asked, study.seed)
    revisions = study.revisions()
    labels = list(study.labels)
    with study._database.reading() as connection:
        batches = _sql.run(connection, "SELECT number, batch FROM results")
        batch_of = dict(map(tuple, batches))
    rows = [
        ResultRow(
            trial.number,
            None if trial.ticket is None else 1,
            labels.index(trial.arm),
            trial.place,
            trial.reward,
            batch_of[trial.number],
        )
        for trial in study.trials()
    ]
    last = 0
    for revision in revisions:
        replay(search, [row for row in rows if last < row.number <= revision.position])
        search.revise(revision.question.numbered())
        last = revision.position
    replay(search, [row for row in rows if row.number > last])
    return search


def assert_that_of_the_log(study: Study) -> None:
    found, expected = study.result(), from_the_log(study).result()
    given = {"question": found.question, "status": found.status}
    assert found.to_dict() == replace(expected, **given).to_dict()
    assert study.question == found.question
    checked = verify(study)
    assert checked.problems == []


CHANGES: list[dict[str, Any]] = [
    {"margin": 0.4},
    {"budget": 70},
    {"indifference": 0.1, "budget": 500},
    {"margin": 0.2, "floor": 0.3},
    {"floor": None, "indifference": 0.0, "budget": None},
]


class TestStudies:
    def test_search_and_study_agree(self, storage: str) -> None:
        study = make(storage, budget=50)
        search = new_search(study.question, study.seed)
        for changes in CHANGES:
            work(study, 60)
            go_on(search, search.taken + 60)
            study.revise(**changes)
            search.revise(**changes)
            assert study.question == search.question
        work(study)
        go_on(search)
        assert study.result().to_dict() == search.result().to_dict()
        assert search.question.revised
        assert_that_of_the_log(load_study("s", storage=storage))
        assert len(study.revisions()) == len(CHANGES)

    def test_others_notice_at_their_next_call(self, storage: str) -> None:
        study, other = make(storage), load_study("s", storage=storage)
        work(study)
        assert other.status is Status.DECIDED
        study.revise(margin=0.6)
        assert study.question.margin == 0.6
        assert not other.done
        assert other.question == study.question
        work(other)
        assert study.result().to_dict() == other.result().to_dict()
        assert study.result().outliers == ["e"]
        other.revise(margin=0.3)
        assert load_study("s", storage=storage).question.margin == 0.3
        assert study.overview().result.question.margin == 0.3

    @pytest.mark.parametrize(
        ("storage", "when"),
        quick_and_long(
            [("sqlite", "before"), ("sqlite", "after"), ("postgresql", "between")],
            [("postgresql", "before"), ("postgresql", "after"), ("sqlite", "between")],
        ),
        indirect=["storage"],
    )
    def test_a_state_that_is_saved_where_a_question_is_changed(
        self, storage: str, when: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At the same position, with the same question before and after two of the changes."""
        monkeypatch.setattr(_replay, "LEAST_BETWEEN_STATES", 10**6)
        study = make(storage)
        work(study, 60)
        for i, margin in enumerate((0.1, 0.2, 0.1, 0.2)):
            if (when, i) in (("before", 0), ("between", 2)):
                save(study)
            study.revise(margin=margin)
        if when == "after":
            save(study)
        with study._database.reading() as connection:
            saved = study_rows.saved(connection, study._number)
        assert saved.position == study._log.position
        assert saved.revised == {"before": 0, "between": 2, "after": 4}[when]
        again = load_study("s", storage=storage)
        with monkeypatch.context() as patch:
            patch.delattr(_replay, "new_search")  # it goes on from the saved state
            assert again.result().to_dict() == study.result().to_dict()
        assert again._log.chain == study._log.chain
        assert_that_of_the_log(again)
        work(again, 30)
        assert again.result().to_dict() == study.result().to_dict()
        assert_that_of_the_log(load_study("s", storage=storage))

    def test_one_that_was_behind_takes_the_saved_state(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_replay, "LEAST_BETWEEN_STATES", 10**6)
        study, other = make(storage), load_study("s", storage=storage)
        other.result()
        work(study, 30)
        study.revise(margin=0.3)
        work(study, 30)
        save(study)
        study.revise(margin=0.35)
        work(study, 10)
        assert other.result().to_dict() == study.result().to_dict()
        assert other._log.chain == study._log.chain

    def test_what_is_asked_already_is_no_revision(self, file: str) -> None:
        study = make(file, margin=0.1, budget=50)
        study.revise(margin=0.1, budget=50)
        study.revise()
        assert study.revisions() == []
        study.revise(margin=0.2)
        study.revise(margin=0.2)
        (revision,) = study.revisions()
        assert (revision.number, revision.position) == (1, 0)
        assert revision.question == study.question
        assert not study.question.revised

    def test_a_refusal_changes_nothing(self, file: str) -> None:
        study = make(file)
        work(study, 20)
        before, known = study.result().to_dict(), verify(study).chain
        for changes in ({"k": 2.0}, {"budget": 5}, {"indifference": 1e7}, {"margin": 3.0}):
            with pytest.raises(InvalidParameter):
                study.revise(**changes)
        assert (study.result().to_dict(), verify(study).chain) == (before, known)
        assert study.revisions() == []

    def test_what_cannot_be_stored_does_not_happen(
        self, file: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(file)
        work(study, 20)
        before = study.result().to_dict()
        add = revision_rows.add_revision

        def fails(*arguments: Any) -> None:
            add(*arguments)
            raise StoreFailed("the disk is full")

        monkeypatch.setattr(revision_rows, "add_revision", fails)
        with pytest.raises(StoreFailed, match="the disk is full"):
            study.revise(margin=0.2)
        assert (study.question.margin, study.result().to_dict()) == (0.0, before)
        monkeypatch.setattr(revision_rows, "add_revision", add)
        study.revise(margin=0.2)
        assert_that_of_the_log(study)

    def test_all_show_the_question_in_force(self, file: str) -> None:
        study = make(file)
        study.revise(floor=0.25, indifference=0.125)
        (summary,) = list_studies(storage=file)
        for question in (
            summary.question,
            study.question.numbered(),
            study.result().question.numbered(),
            load_study("s", storage=file).question.numbered(),
        ):
            assert (question.floor, question.indifference) == (0.25, 0.125)
        assert study.result().labels == tuple(LABELS)

    def test_the_shell_shows_it_too(self, run_command: Run) -> None:
        study = make("studies.db", budget=50)
        show = ("study", "show", "s", "--storage", "studies.db")
        assert "Revised" not in run_command(*show).out
        work(study, 10)
        study.revise(margin=0.25, budget=60)
        shown = run_command(*show)
        assert "Question:   which of 5 arms have a mean at or above the larger of mean" in shown.out
        assert "wrong with probability at most 0.9;" in shown.out
        assert "\nRevised:    1 time, last " in shown.out
        assert "\nBudget:     60 samples\n" in shown.out
        values = run_command(*show, "--format", "json").json
        assert (values["revisions"], values["question"]["margin"]) == (1, 0.25)

    def test_deleting_leaves_no_revision(self, file: str) -> None:
        study = make(file)
        study.revise(margin=0.2)
        delete_study("s", storage=file)
        with study._database.reading() as connection:
            rows = _sql.run(connection, "SELECT count(*) FROM revisions").scalar_one()
        assert rows == 0
        assert make(file).question.margin == 0.0

    def test_late_results_wait_and_serve_the_next_question(self, file: str) -> None:
        study = make(file)
        late = study.ask(40, lease=timedelta(microseconds=1), ahead=5.0)
        work(study)
        assert study.status is Status.DECIDED
        study.tell_many([(ticket, reward(ticket.index, ticket.place)) for ticket in late])
        assert study.result().unused == len(late) > 10
        study.revise(margin=0.6)
        work(study, 60)
        assert study.result().unused < len(late)
        assert_that_of_the_log(study)

    def test_decisions_are_reported_again(self, file: str) -> None:
        study = make(file)
        news: list[tuple[Any, Decision]] = []
        study.on_decision(lambda _, fresh: news.extend(fresh))
        work(study)
        assert ("e", Decision.HIGH) in news
        news.clear()
        study.revise(margin=0.9)
        work(study)
        assert ("e", Decision.NORMAL) in news


def save(study: Study) -> None:
    """Save the state, as it is now."""
    study.result()
    study._save(study._log.state())


def revised_twice(storage: str) -> Study:
    study = make(storage)
    work(study, 30)
    study.revise(margin=0.2)
    work(study, 30)
    study.revise(margin=0.3, budget=None)
    study.import_rewards({"a": [0.5, 0.25], "b": [1.0]})
    work(study, 10)
    return study


@pytest.fixture(scope="module")
def one_that_was_revised_twice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("studies") / "studies.db"
    study = revised_twice(str(file))
    assert verify(study).problems == []
    study._database.close()
    return file


REVISION = "UPDATE revisions SET question = replace(question, {}) WHERE number = {}"


class TestProofs:
    @pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
    def study(
        self,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        one_that_was_revised_twice: Path,
    ) -> Study:
        if request.param == "postgresql":
            return revised_twice(request.getfixturevalue("postgresql").new_database())
        shutil.copy(one_that_was_revised_twice, tmp_path)
        return load_study("s", storage=tmp_path / one_that_was_revised_twice.name)

    CHANGES: ClassVar = {
        "a margin": REVISION.format("'0.2', '0.25'", 1),
        "the last margin": REVISION.format("'0.3', '0.35'", 2),
        "what it costs": REVISION.format("""'"revised": true', '"revised": false'""", 1),
        "another k": REVISION.format("""'"k": 1.0', '"k": 1.5'""", 2),
        "no question": "UPDATE revisions SET question = 'nonsense' WHERE number = 2",
        "earlier": "UPDATE revisions SET position = position - 1 WHERE number = 1",
        "later": "UPDATE revisions SET position = position + 1 WHERE number = 1",
        "after the last result": "UPDATE revisions SET position = 999 WHERE number = 2",
        "another number": "UPDATE revisions SET number = 3 WHERE number = 1",
        "one that is gone": "DELETE FROM revisions WHERE number = 2",
        "all are gone": "DELETE FROM revisions",
        "their number": "UPDATE studies SET revisions = 1",
        "a result before": "UPDATE results SET reward = 0.125 WHERE number = 7",
        "one more": "INSERT INTO revisions SELECT study, 3, position, question, chain, made"
        " FROM revisions WHERE number = 1",
    }

    @pytest.mark.parametrize("what", CHANGES)
    def test_a_change_is_found(self, study: Study, what: str) -> None:
        change(study, self.CHANGES[what])
        assert verify(study).problems

    def test_results_that_changed_their_order_before_a_revision(self, study: Study) -> None:
        """Which nothing but a saved state, or now a revision, can tell."""
        one, other = [trial.number for trial in study.trials()][5:7]
        change(
            study,
            f"UPDATE results SET number = -1 WHERE number = {one}",
            f"UPDATE results SET number = {one} WHERE number = {other}",
            f"UPDATE results SET number = {other} WHERE number = -1",
        )
        assert any(problem.startswith("revision 1, or what") for problem in verify(study).problems)

    def test_all_of_them_removed_and_a_state_was_saved(self, study: Study) -> None:
        save(study)
        change(study, "DELETE FROM revisions", "UPDATE studies SET revisions = 0")
        assert verify(study).problems

    def test_the_chain_tells_of_revisions(self, study: Study) -> None:
        before = verify(study).chain
        study.revise(margin=0.4)
        after = verify(study).chain
        assert after != before
        change(
            study,
            "DELETE FROM revisions WHERE number = 3",
            "UPDATE studies SET revisions = 2",
        )
        assert verify(study).chain == before

    def test_one_that_nobody_can_have_made_is_a_sentence(self, study: Study) -> None:
        change(study, "UPDATE revisions SET question = replace(question, '\"k\": 1.0', '\"k\": 2')")
        with pytest.raises(StoreFailed, match=r"damaged; revision 1 cannot be made: k must stay"):
            load_study("s", storage=study.storage).result()


def test_one_within_an_import_is_a_sentence(file: str) -> None:
    study = make(file)
    study.import_rewards({"a": [0.5, 0.25], "b": [1.0]})
    study.revise(margin=0.2)
    work(study, 10)
    change(study, "UPDATE revisions SET position = 2")
    with pytest.raises(StoreFailed, match="damaged; nothing must stand within an import"):
        load_study("s", storage=file).result()
    assert any("within an import" in problem for problem in verify(study).problems)


def test_one_of_other_arms_is_a_sentence(file: str) -> None:
    study = make(file)
    study.revise(margin=0.2)
    change(
        study, "UPDATE revisions SET question = replace(question, '\"n\": 5', '\"n\": 99999999')"
    )
    with pytest.raises(StoreFailed, match="damaged; a revision asks about other arms"):
        load_study("s", storage=file)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    parts=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), max_size=3),
    positions=st.lists(st.integers(0, 40), max_size=4),
)
def test_what_is_between_results_comes_in_its_place(
    parts: list[list[int]], positions: list[int]
) -> None:
    """However the results are divided as they are read, and with gaps between their numbers."""
    numbers = accumulate(chain.from_iterable(parts))
    rows = [[ResultRow(next(numbers), 1, 0, 0, 0.5) for _ in steps] for steps in parts]
    marks = [RevisionRow(i, position, "", b"", 0.0) for i, position in enumerate(sorted(positions))]
    found: list[int] = []
    for event in in_order(rows, marks):
        if isinstance(event, RevisionRow):
            found.append(-event.number)
        else:
            assert event
            found += [row.number for row in event]
    expected = [(row.number, 0, row.number) for part in rows for row in part]
    expected += [(mark.position, 1, -mark.number) for mark in marks]
    assert found == [what for *_, what in sorted(expected, key=lambda item: item[:2])]


@settings(derandomize=True, deadline=None, max_examples=12)
@given(
    actions=st.lists(
        st.sampled_from(["work", "work", "import", "margin", "indifference", "budget", "open"]),
        max_size=14,
    ),
    seed=st.integers(0, 1000),
)
def test_the_log_gives_the_search(
    actions: list[str], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever two processes do, in whatever order, with states saved as often as can be."""
    storage = str(tmp_path_factory.mktemp("studies") / "studies.db")
    rng = np.random.default_rng(seed)
    patch = pytest.MonkeyPatch()
    patch.setattr(_replay, "LEAST_BETWEEN_STATES", 10)
    try:
        studies = [make(storage, budget=40, rng=seed), load_study("s", storage=storage)]
        for action in actions:
            study = studies[int(rng.integers(2))]
            act(study, action, rng)
            if action == "open":
                studies[0] = load_study("s", storage=storage)
        first, second = (study.result().to_dict() for study in studies)
        assert first == second
        assert_that_of_the_log(studies[0])
        for study in studies:
            study._database.close()
    finally:
        patch.undo()


def act(study: Study, action: str, rng: np.random.Generator) -> None:
    if action == "work":
        tickets = study.ask(int(rng.integers(1, 30)), ahead=float(rng.choice([0.0, 1.0])))
        told = rng.permutation(len(tickets))[: int(rng.integers(31))]
        study.tell_many([(tickets[i], reward(tickets[i].index, tickets[i].place)) for i in told])
        study.skip_many([ticket for i, ticket in enumerate(tickets) if i not in told])
    elif action == "import":
        study.import_rewards({"a": [0.5, 0.25], "e": [1.0] * int(rng.integers(1, 9))})
    elif action in ("margin", "indifference"):
        study.revise(**{action: float(rng.choice([0.0, 0.1, 0.4]))})
    elif action == "budget":
        budget = study.question.budget
        study.revise(budget=None if budget is None or budget > 200 else budget + 20)


def _work_in_another_process(storage: str, results: int) -> None:
    study = load_study("s", storage=storage)
    for _ in range(results):
        for ticket in study.ask(3):
            study.tell(ticket, reward(ticket.index, ticket.place))


@pytest.mark.long
def test_processes_that_work_while_the_question_changes(storage: str) -> None:
    study = make(storage, budget=200)
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_work_in_another_process, args=(storage, 40)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for i in range(10):
        study.revise(margin=(0.1, 0.3)[i % 2], budget=200 + 50 * i)
        work(study, 10)
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert len(study.revisions()) == 10
    assert_that_of_the_log(study)
    assert_that_of_the_log(load_study("s", storage=storage))


# Older storages


def test_a_storage_of_schema_0004_comes_forward(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_replay, "LEAST_BETWEEN_STATES", 20)
    study = make(file)
    work(study, 60)
    before, known = study.result().to_dict(), verify(study).chain
    study._database.close()
    with closing(sqlite3.connect(file)) as connection, connection:
        for table in ("revisions", "asks", "tokens"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP INDEX conflicts_in_order")
        connection.execute("ALTER TABLE studies DROP COLUMN stopped")
        connection.execute("ALTER TABLE studies DROP COLUMN revisions")
        connection.execute("ALTER TABLE studies DROP COLUMN revised")
        connection.execute("UPDATE oddarms_version SET version_num = '0004'")
    with pytest.raises(StoreFailed, match="schema 0004, now 0006"):
        load_study("s", storage=file)
    upgrade_storage(storage=file)
    again = load_study("s", storage=file)
    assert again.result().to_dict() == before
    checked = verify(again)
    assert (checked.problems, checked.chain) == ([], known)
    again.revise(margin=0.3)
    work(again, 40)
    assert_that_of_the_log(again)


# find


def arms(counter: list[int] | None = None) -> dict[str, Callable[[], float]]:
    places = dict.fromkeys(LABELS, 0)

    def pull(label: str) -> float:
        places[label] += 1
        if counter is not None:
            counter.append(1)
        return reward(LABELS.index(label), places[label])

    return {label: lambda label=label: pull(label) for label in LABELS}


class TestFind:
    WORDS: ClassVar[dict[str, Any]] = {"k": 1.0, "delta": 0.3, "rng": 1}

    def test_another_margin_is_asked_of_the_samples_there_are(self, file: str) -> None:
        first = find(arms(), storage=file, **self.WORDS)
        assert first.outliers == ["e"]
        calls: list[int] = []
        study = open_study(LABELS, {"k": 1.0, "margin": 0.3}, storage=file)
        assert study.question.margin == 0.3
        second = find(arms(calls), storage=file, **self.WORDS)
        assert (second.outliers, second.question.margin, calls) == (["e"], 0.3, [])
        assert second.pulls == first.pulls
        open_study(None, {"margin": 0.9}, storage=file)
        third = find(arms(calls), storage=file, **self.WORDS)
        assert third.outliers == []
        assert third.pulls == first.pulls + len(calls)

    def test_a_larger_budget_and_an_indifference(self, file: str) -> None:
        first = find(arms(), storage=file, budget=40, **self.WORDS)
        assert first.status is Status.BUDGET
        second = find(arms(), storage=file, budget=60, **self.WORDS)
        assert (second.status, second.question.budget) == (Status.BUDGET, 60)
        assert second.pulls > first.pulls
        third = find(arms(), storage=file, budget=60, indifference=0.9, **self.WORDS)
        assert (third.status, third.pulls) == (Status.DECIDED, second.pulls)

    def test_who_gives_no_word_changes_none(self, file: str) -> None:
        words = {"margin": 0.1, "floor": 0.2, "budget": 60, "indifference": 0.01}
        create_study("find", LABELS, storage=file, **self.WORDS, **words)
        find(arms(), storage=file, **self.WORDS)
        study = open_study(None, {}, storage=file)
        open_study(LABELS, {"k": 1, "indifference": 0.01}, storage=file, rng=1)
        assert study.revisions() == []
        assert study.question.budget == 60

    def test_a_smaller_budget_is_refused(self, file: str) -> None:
        find(arms(), storage=file, budget=60, **self.WORDS)
        with pytest.raises(InvalidParameter, match=r"budget must not become smaller .* \(60\)"):
            find(arms(), storage=file, budget=50, **self.WORDS)

    def test_in_units_of_the_study(self, file: str) -> None:
        create_study("find", LABELS, storage=file, k=1, bounds=(0, 100))
        study = open_study(None, {"floor": 50, "margin": 10, "indifference": 3}, storage=file)
        asked = study.question
        assert (asked.floor, asked.margin, asked.indifference) == (50.0, 10.0, 3.0)
        with pytest.raises(InvalidParameter, match=r"k must be what the study 'find' .* \(1.0\)"):
            open_study(None, {"k": 2, "margin": 20}, storage=file)
        assert load_study("find", storage=file).question.margin == 10.0
