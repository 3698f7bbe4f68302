"""Studies in a file, in memory and in PostgreSQL: whatever could depend on where they are."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import numpy as np
import psycopg
import pytest

from helpers import ticket_number
from oddarms.algorithms import Decision
from oddarms.errors import (
    DuplicateStudy,
    InvalidParameter,
    RewardRejected,
    StorageFailed,
    UnknownStudy,
)
from oddarms.problem import Label
from oddarms.search import Result, Status, Ticket
from oddarms.studies import (
    Study,
    Told,
    _database,
    _result_rows,
    _verify,
    create_study,
    delete_study,
    list_studies,
    load_study,
    verify,
)
from oddarms.studies._location import location_of
from oddarms.studies._log import ResultRow
from oddarms.studies._replay import new_search, replay
from oddarms.studies._study import StoredStudy
from postgresql import Server, fast_folder
from study_workers import (
    ask_for,
    ask_once,
    create_one,
    either,
    fork_and_tell,
    fork_with_memory,
    tell_for,
    tell_in_order,
    together,
    use_up,
)

SHARED = ["sqlite", "postgresql"]
SECONDS = [0.5, pytest.param(5.0, marks=pytest.mark.long)]
MOMENT = timedelta(milliseconds=20)
WENT_AWAY = (
    "the server went away and this call may have been recorded or not: repeat it, what was told"
    " twice counts once."
)


@pytest.fixture(scope="session")
def database(postgresql: Server) -> str:
    """One database for all tests of this module; each leaves it empty."""
    return postgresql.new_database()


def storage_of(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    if kind == "sqlite":
        folder = fast_folder("oddarms-study-")
        yield str(folder / "studies.db")
        shutil.rmtree(folder)
        return
    storage = "memory" if kind == "memory" else request.getfixturevalue("database")
    yield storage
    for study in list_studies(storage=storage):
        delete_study(study.name, storage=storage)


@pytest.fixture(params=["sqlite", pytest.param("memory", marks=pytest.mark.long), "postgresql"])
def storage(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from storage_of(request.param, request)


@pytest.fixture(params=SHARED)
def shared_storage(request: pytest.FixtureRequest) -> Iterator[str]:
    """A storage that several processes can use."""
    yield from storage_of(request.param, request)


def small(storage: str, name: str = "small", **options: Any) -> Study:
    words = {"labels": ["ann", "bob", "cy"], "k": 1, "delta": 0.1, "rng": 1, **options}
    return create_study(name, words.pop("labels"), storage=storage, **words)


def load_study_again(storage: str) -> Study:
    return load_study("small", storage=storage)


def told(study: Study) -> list[tuple[str | None, Label, float]]:
    return [(trial.ticket, trial.arm, trial.reward) for trial in study.trials()]


def replayed(study: Study) -> Result:
    """Return what the log gives in one go."""
    search = new_search(study.question.numbered(), study.seed)
    index = {label: arm for arm, label in enumerate(study.labels)}
    rows = [
        ResultRow(trial.number, number, index[trial.arm], trial.place, trial.reward)
        for number, trial in enumerate(study.trials(), 1)
    ]
    replay(search, rows)
    return search.result()


def answered(study: Study, pull: Callable[[Ticket], float], n: int = 500) -> None:
    """Ask and tell until the study is done."""
    while not (tickets := study.ask(n)).done:
        study.tell_many([(ticket, pull(ticket)) for ticket in tickets])


def bernoulli(rates: dict[Any, float], seed: int = 1) -> Callable[[Ticket], float]:
    rng = np.random.default_rng(seed)
    return lambda ticket: float(rng.random() < rates[ticket.arm])


class TestTickets:
    def test_results_are_stored_with_their_tickets_in_the_order_of_telling(
        self, storage: str
    ) -> None:
        study = small(storage)
        one, two, three = study.ask(3, worker="w1")
        assert study.tell(two, 1.0) is Told.RECORDED
        assert study.tell_many([(three.id, 0.5), (one, 0.25)], worker="w2") == [Told.RECORDED] * 2
        again = load_study("small", storage=storage)
        assert told(again) == [
            (two.id, two.arm, 1.0),
            (one.id, one.arm, 0.25),
            (three.id, "bob", 0.5),
        ]
        assert [trial.worker for trial in again.trials()] == ["w1", "w2", "w2"]
        assert not any(trial.late for trial in again.trials())
        assert verify(again).ok

    def test_rewards_are_stored_to_the_last_bit(self, storage: str) -> None:
        study = small(storage, bounds=(-1e300, 1e300))
        rewards = [0.1 + 0.2, -1e300, 5e-324, np.nextafter(1.0, 2.0), np.float32(0.1)]
        study.tell_many(list(zip(study.ask(5), rewards, strict=True)))
        assert [trial.reward for trial in study.trials()] == [float(r) for r in rewards]

    def test_results_nobody_asked_for_count_once_by_their_key(self, storage: str) -> None:
        study = small(storage)
        assert study.import_rewards({"bob": [0.5, 1.0]}, key="file 1") == 2
        assert study.import_rewards({"bob": [0.5, 1.0]}, key="file 1") == 0
        assert study.import_rewards({"bob": 0.75}) == 1
        assert told(study) == [(None, "bob", 0.5), (None, "bob", 1.0), (None, "bob", 0.75)]
        assert verify(study).ok

    def test_a_skipped_pull_is_handed_out_again(self, storage: str) -> None:
        study = small(storage, budget=6)
        tickets = study.ask(6)
        assert len(tickets) == 6
        assert study.ask(6) == []
        study.skip(tickets[2], "no answer \0 \ud800 'quoted'")
        (again,) = study.ask(6)
        assert (again.arm, ticket_number(again)) == (tickets[2].arm, 7)

    def test_an_expired_pull_is_handed_out_again_and_its_late_result_is_used(
        self, storage: str
    ) -> None:
        study = small(storage)
        (slow,) = study.ask(1, lease=MOMENT)
        time.sleep(2 * MOMENT.total_seconds())
        (again,) = study.ask(1)
        assert again.arm == slow.arm
        study.tell(again, 1.0)
        study.tell(slow, 0.0)
        assert [(trial.ticket, trial.late) for trial in study.trials()] == [
            (again.id, False),
            (slow.id, True),
        ]
        assert again.place == slow.place
        assert ticket_number(again) == ticket_number(slow) + 1
        step = study.ask(100, ahead=0)
        assert [t.arm for t in step].count(slow.arm) == 0, "both results are used"

    def test_a_repeated_result_counts_once(self, storage: str) -> None:
        study = small(storage)
        one, two, three = study.ask(3)
        study.tell(one, 1.0)
        assert study.tell(one, 1.0) is Told.REPEATED
        assert study.tell_many([(two, 0.0), (one, 1.0), (two, 0.0), (three, 0.5)]) == [
            Told.RECORDED,
            Told.REPEATED,
            Told.REPEATED,
            Told.RECORDED,
        ]
        assert len(told(study)) == 3

    def test_the_first_of_two_different_results_stands(self, storage: str) -> None:
        study = small(storage)
        one, two = study.ask(2)
        study.tell(one, 1.0, worker="first")
        assert study.tell(one, 0.0, worker="second") is Told.CONFLICT
        assert study.tell_many([(two, 0.5), (two, 0.25)]) == [Told.RECORDED, Told.CONFLICT]
        assert told(study) == [(one.id, one.arm, 1.0), (two.id, two.arm, 0.5)]
        found = [(c.ticket, c.arm, c.first, c.second, c.worker) for c in study.conflicts()]
        assert found == [
            (one.id, one.arm, 1.0, 0.0, "second"),
            (two.id, two.arm, 0.5, 0.25, None),
        ]

    @pytest.mark.parametrize("number", [99, 2**62])
    def test_an_unknown_ticket_in_a_batch_and_nothing_is_recorded(
        self, storage: str, number: int
    ) -> None:
        """Such as one that was handed out after a backup that was brought back."""
        study = small(storage)
        self.assert_refused(study, study._ids.of(number), f"handed out but got {number}")

    @pytest.mark.parametrize("unknown", [1, 99, 10**30, "1", f"{10**30}-mzxw6ytboi4dgnbt"])
    def test_so_is_what_is_no_id(self, storage: str, unknown: Any) -> None:
        self.assert_refused(small(storage), unknown, "ticket must be an id that `ask` has given")

    def test_so_is_an_id_of_another_study(self, storage: str) -> None:
        (unknown,) = small(storage, "another").ask(1)
        self.assert_refused(small(storage), unknown, "one of the study 'small' but .* is not")

    def assert_refused(self, study: Study, unknown: Any, words: str) -> None:
        one, two = study.ask(2)
        with pytest.raises(InvalidParameter, match=words):
            study.tell_many([(one, 1.0), (unknown, 1.0), (two, 0.0)])
        with pytest.raises(InvalidParameter, match=words):
            study.tell(unknown, 1.0)
        with pytest.raises(InvalidParameter, match=words):
            study.skip(unknown)
        assert told(study) == []

    def test_a_wrong_reward_in_a_batch_and_nothing_is_recorded(self, storage: str) -> None:
        study = small(storage)
        one, two = study.ask(2)
        with pytest.raises(RewardRejected, match="within the bounds"):
            study.tell_many([(one, 1.0), (two, 1.5)])
        assert told(study) == []

    @pytest.mark.parametrize("worker", ["a\0b", "\ud800", 7, "x" * 1001])
    def test_a_worker_has_a_name_that_every_storage_can_hold(
        self, storage: str, worker: Any
    ) -> None:
        study = small(storage)
        (ticket,) = study.ask(1, worker="'; DROP TABLE results; -- \n 🦆")
        for call in (
            lambda: study.ask(1, worker=worker),
            lambda: study.tell(ticket, 1.0, worker=worker),
        ):
            with pytest.raises(InvalidParameter, match="worker must be a text"):
                call()
        study.tell(ticket, 1.0)
        assert [trial.worker for trial in study.trials()] == ["'; DROP TABLE results; -- \n 🦆"]

    @pytest.mark.parametrize("key", ["a\0b", "\ud800", 7, "x" * 65])
    def test_so_has_an_import(self, storage: str, key: Any) -> None:
        study = small(storage)
        with pytest.raises(InvalidParameter, match="key must be a text of up to 64"):
            study.import_rewards({"ann": [1.0]}, key=key)
        assert study.import_rewards({"ann": [1.0]}, key="x" * 64) == 1


class TestLabels:
    def test_any_text_and_any_whole_number_comes_back(self, storage: str) -> None:
        labels: list[Label] = [
            *("it's", 'say "hi"', "two\nlines", "tab\t", "duck 🦆", "nul \0 inside", "\ud800", ""),
            *("x" * 10_000, "1", 1, -7, 10**30, "null", "{}", "\\", "%s :study"),
        ]
        study = small(storage, labels=labels, k=0)
        assert load_study("small", storage=storage).labels == tuple(labels)
        for label in labels:
            study.import_rewards({label: [0.5]})
        tickets = study.ask(1000)
        study.tell_many([(ticket, 0.5) for ticket in tickets])
        trials = [trial.arm for trial in study.trials()]
        assert trials[: len(labels)] == labels
        assert list(map(type, trials[: len(labels)])) == list(map(type, labels))
        assert trials[len(labels) :] == [ticket.arm for ticket in tickets]

    def test_a_text_is_not_the_number_it_spells(self, storage: str) -> None:
        study = small(storage, labels=[1, "2", 3])
        with pytest.raises(InvalidParameter, match="one of the study's but got '1'"):
            study.import_rewards({"1": [0.5]})
        with pytest.raises(InvalidParameter, match="one of the study's but got 2"):
            study.import_rewards({2: [0.5]})

    def test_labels_of_very_many_arms_are_read_as_they_are_needed(self, storage: str) -> None:
        many = 50_001
        small(storage, labels=(f"arm {i}" for i in range(many)), k=0)
        study = load_study("small", storage=storage)
        assert [ticket.arm for ticket in study.ask(3)] == ["arm 0", "arm 1", "arm 2"]
        assert study.import_rewards({f"arm {many - 1}": [0.5]}) == 1


class TestStudiesOfAStorage:
    def test_they_do_not_mix(self, storage: str) -> None:
        one, two = small(storage, "one"), small(storage, "two", labels=range(4))
        ids = []
        for study, reward in ((one, 0.25), (two, 0.75), (one, 0.5)):
            (ticket,) = study.ask(1)
            study.tell(ticket, reward)
            ids.append(ticket.id)
        assert list(map(ticket_number, ids)) == [1, 1, 2]
        assert told(one) == [(ids[0], "ann", 0.25), (ids[2], "ann", 0.5)]
        assert told(two) == [(ids[1], 0, 0.75)]
        assert verify(one).ok
        assert verify(two).ok
        for other in (ids[0], ids[2]):
            with pytest.raises(InvalidParameter, match="it is of another study"):
                two.tell(other, 0.5)

    def test_they_are_listed_by_name(self, storage: str) -> None:
        for name in ("b", "a 🦆"):
            study = small(storage, name)
        study.tell(study.ask(2)[0], 1.0)
        found = list_studies(storage=storage)
        assert [(s.name, s.handed_out, s.results) for s in found] == [("a 🦆", 2, 1), ("b", 0, 0)]
        assert found[0].question == study.question.numbered()

    def test_a_name_is_taken_once(self, storage: str) -> None:
        small(storage)
        with pytest.raises(DuplicateStudy, match="has a study 'small' already"):
            small(storage, labels=range(4))
        assert load_study("small", storage=storage).labels == ("ann", "bob", "cy")

    def test_an_unknown_one_is_named_with_those_that_are_there(self, storage: str) -> None:
        small(storage)
        with pytest.raises(UnknownStudy, match="but got 'smal': it has small"):
            load_study("smal", storage=storage)
        with pytest.raises(UnknownStudy):
            delete_study("smal", storage=storage)

    def test_a_deleted_one_is_gone_and_its_workers_do_not_reach_the_next(
        self, storage: str
    ) -> None:
        old = small(storage)
        (ticket,) = old.ask(1)
        old.import_rewards({"bob": [1.0]}, key="k")
        delete_study("small", storage=storage)
        assert list_studies(storage=storage) == []
        new = small(storage, labels=range(5))
        new.ask(5)
        with pytest.raises(UnknownStudy, match="was deleted"):
            old.tell(ticket, 1.0)
        with pytest.raises(InvalidParameter, match="perhaps of a deleted one with this name"):
            new.tell(ticket, 1.0)
        with pytest.raises(UnknownStudy, match="was deleted"):
            old.ask(1)
        with pytest.raises(UnknownStudy, match="was deleted"):
            old.result()
        assert told(new) == []
        assert new.import_rewards({0: [1.0]}, key="k") == 1

    def test_processes_that_find_an_empty_storage_make_it_together(
        self, shared_storage: str, postgresql: Server
    ) -> None:
        fresh = shared_storage if shared_storage.endswith(".db") else postgresql.new_database()
        names = [f"study {i}" for i in range(4)]
        assert together(create_one, [(fresh, name) for name in names]) == names
        assert [study.name for study in list_studies(storage=fresh)] == names

    def test_one_of_many_that_create_the_same_name_has_it(self, shared_storage: str) -> None:
        with pytest.raises(DuplicateStudy):
            together(create_one, [(shared_storage, "same")] * 4)
        assert [study.name for study in list_studies(storage=shared_storage)] == ["same"]


class TestProgress:
    def test_the_status_says_whether_to_work_to_wait_or_to_stop(self, storage: str) -> None:
        study = small(storage, budget=6)
        assert study.status is Status.RUNNING
        tickets = study.ask(100)
        assert (tickets.status, study.status, study.done) == ("waiting", "waiting", False)
        study.tell_many([(ticket, 0.5) for ticket in tickets])
        assert (study.status, study.done) == (Status.BUDGET, True)
        assert study.ask(1).done

    def test_waiting_ends_with_the_time_or_with_the_study(self, storage: str) -> None:
        study = small(storage, budget=6)
        started = time.monotonic()
        assert study.wait(0.05, poll=0.01) is False
        assert time.monotonic() - started >= 0.05
        tickets = study.ask(6)
        other = load_study("small", storage=storage)
        late = threading.Timer(0.1, other.tell_many, [[(ticket, 0.5) for ticket in tickets]])
        late.start()
        assert study.wait(60.0, poll=0.01) is True
        late.join()

    def test_decisions_are_reported_once_and_labelled(self, storage: str) -> None:
        study = small(storage, labels=["a", "b", "c", "odd"])
        news: list[tuple[Label, Decision]] = []
        study.on_decision(lambda _, decided: news.extend(decided))
        answered(study, bernoulli({"a": 0.05, "b": 0.1, "c": 0.05, "odd": 0.95}))
        study.result()
        assert sorted(news) == [(label, Decision.NORMAL) for label in "abc"] + [
            ("odd", Decision.HIGH)
        ]

    def test_a_callback_may_use_its_study(self, storage: str) -> None:
        study = small(storage, labels=["a", "b", "c", "odd"])
        seen: list[int] = []
        study.on_decision(lambda same, _: seen.append(len(told(same))))
        answered(study, bernoulli({"a": 0.05, "b": 0.1, "c": 0.05, "odd": 0.95}))
        assert seen
        assert seen == sorted(seen)

    def test_the_result_at_any_time_is_that_of_the_log(self, storage: str) -> None:
        study = small(storage, labels=range(6))
        pull = bernoulli(dict(enumerate([0.1, 0.1, 0.2, 0.1, 0.1, 0.9])))
        rng = np.random.default_rng(3)
        for _ in range(60):
            tickets = study.ask(int(rng.integers(1, 40)), lease=MOMENT)
            study.tell_many([(t, pull(t)) for t in tickets if rng.random() < 0.8])
            if tickets.done:
                break
        expected = replayed(study)
        for seen in (study, load_study("small", storage=storage)):
            found = seen.result()
            np.testing.assert_array_equal(found.decisions, expected.decisions)
            np.testing.assert_array_equal(found.pulls_per_arm, expected.pulls_per_arm)
            np.testing.assert_array_equal(found.intervals, expected.intervals)
        assert verify(study).ok

    def test_what_was_told_may_be_gone_through_while_more_is_told(self, storage: str) -> None:
        study = small(storage)
        study.tell_many([(ticket, 0.5) for ticket in study.ask(4)])
        for trial in itertools.islice(study.trials(), 4):
            assert trial.ticket is not None
            assert study.tell(trial.ticket, 0.5) is Told.REPEATED


class TestManyAtOnce:
    def test_threads_of_one_study_keep_to_the_budget(self, storage: str) -> None:
        budget = 300
        study = small(storage, labels=range(20), k=0, budget=budget)

        def work(seed: int) -> tuple[int, int]:
            rng = np.random.default_rng(seed)
            asked = recorded = 0
            while not (tickets := study.ask(int(rng.integers(1, 8)))).done:
                asked += len(tickets)
                results = [(ticket, float(rng.random())) for ticket in tickets]
                recorded += study.tell_many(results).count(Told.RECORDED)
            return asked, recorded

        with ThreadPoolExecutor(8) as threads:
            counts = list(threads.map(work, range(8)))
        self.keeps_to(budget, study, counts)

    def test_processes_keep_to_the_budget(self, shared_storage: str) -> None:
        budget = 300
        study = small(shared_storage, labels=range(20), k=0, budget=budget)
        self.keeps_to(budget, study, together(use_up, [(shared_storage, "small")] * 4))

    @staticmethod
    def keeps_to(budget: int, study: Study, counts: list[tuple[int, int]]) -> None:
        asked, recorded = map(sum, zip(*counts, strict=True))
        assert asked == recorded == len(told(study))
        assert 0 < asked <= budget
        assert study.status is Status.BUDGET
        assert verify(study).ok

    def test_processes_that_ask_at_once_get_different_tickets(self, shared_storage: str) -> None:
        small(shared_storage, labels=range(100), k=0)
        asked = together(ask_once, [(shared_storage, "small", 10)] * 8)
        tickets = sorted(ticket_number(ticket) for part in asked for ticket in part)
        assert tickets == list(range(1, 81))

    @pytest.mark.parametrize("seconds", SECONDS)
    def test_eight_processes_tell_one_by_one_without_an_error(
        self, shared_storage: str, seconds: float
    ) -> None:
        study = small(shared_storage, labels=range(5000), k=0)
        counts = together(tell_for, [(shared_storage, "small", seconds)] * 8)
        assert min(counts) > 0, "nobody starves"
        assert sum(counts) == len(told(study))
        assert verify(study).ok

    @pytest.mark.parametrize("seconds", SECONDS)
    def test_results_are_read_in_the_order_of_their_numbers_while_they_arrive(
        self, shared_storage: str, seconds: float
    ) -> None:
        study = small(shared_storage, labels=range(500), k=0)
        task = (shared_storage, "small", seconds)
        together(either, [(tell_for, *task, 30)] * 8 + [(ask_for, *task)])
        result = study.result()
        assert verify(study).ok
        np.testing.assert_array_equal(result.means, replayed(study).means)

    @pytest.mark.parametrize("size", [1, 2])
    def test_a_result_that_takes_long_to_be_stored_is_not_overtaken(
        self, postgresql: Server, size: int
    ) -> None:
        study = small(postgresql.new_database())
        quick, *slow = study.ask(1 + size)
        tellers = [load_study_again(study.storage) for _ in range(2)]
        with ThreadPoolExecutor() as pool, psycopg.connect(study.storage, autocommit=True) as gate:
            gate.execute(
                "CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS"
                " 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END'"
            )
            gate.execute(
                "CREATE TRIGGER gate AFTER INSERT ON results FOR EACH ROW WHEN (NEW.reward = 0.25)"
                " EXECUTE FUNCTION pass()"
            )
            gate.execute("SELECT pg_advisory_lock(1)")
            pool.submit(tellers[0].tell_many, [(ticket, 0.25) for ticket in slow])
            waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while gate.execute(waiting).fetchone() is None:  # until it has its number
                time.sleep(0.01)
            assert tellers[1].tell(quick, 0.5) is Told.RECORDED
            reading = pool.submit(study.result)
            time.sleep(0.2)
            assert not reading.done(), "what has a lower number is not stored yet"
            gate.execute("SELECT pg_advisory_unlock(1)")
        assert next(study.trials()).ticket == slow[0].id
        assert study.progress().pulls == 1 + size, "all have been read"
        assert verify(study).ok

    def test_whoever_reads_on_misses_no_result_that_was_stored_late(
        self, postgresql: Server
    ) -> None:
        database = postgresql.new_database()
        study = small(database)
        slow, quick = study.ask(2)
        teller = load_study_again(database)
        assert isinstance(teller, StoredStudy)
        stored = teller._database
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        with ThreadPoolExecutor() as pool, psycopg.connect(database, autocommit=True) as looking:
            with stored.writing() as connection:
                stored.shared(connection, teller.number)
                rows = [(ticket_number(slow), 0.0)]
                _result_rows.add_results(stored, connection, teller.number, rows, None)
                assert study.tell(quick, 1.0) is Told.RECORDED
                reading = pool.submit(lambda: list(study.trials()))
                while not reading.done() and looking.execute(waiting).fetchone() is None:
                    time.sleep(0.01)
            first = reading.result()
        rest = study.trials(after=first[-1].number)
        assert [trial.ticket for trial in (*first, *rest)] == [slow.id, quick.id]

    def test_batches_with_the_same_tickets_in_opposite_orders_do_not_block_each_other(
        self, shared_storage: str
    ) -> None:
        study = small(shared_storage, labels=range(500), k=0)
        for reward in (0.25, 0.75):
            results = [(ticket.id, reward) for ticket in study.ask(500)]
            tasks = [(shared_storage, "small", part) for part in (results, results[::-1])]
            assert sum(together(tell_in_order, tasks)) == len(results)

    def test_forked_processes_lose_nothing_when_their_parent_closes_the_storage(
        self, shared_storage: str
    ) -> None:
        assert together(fork_and_tell, [(shared_storage, "forked")]) == [100]

    def test_memory_is_not_that_of_a_forked_process(self) -> None:
        (sentence,) = together(fork_with_memory, [()])
        assert sentence == (
            "memory: it is that of another process; keep a study that processes share in a file or"
            " in PostgreSQL."
        )

    def test_a_log_is_verified_while_others_tell(
        self, shared_storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = small(shared_storage)
        one, two = study.ask(2)
        study.tell(one, 0.5)
        impatient = shared_storage
        if impatient.startswith("postgresql"):
            impatient += f"?options={quote('-c lock_timeout=5s')}"
        other = load_study("small", storage=impatient)
        rules = _verify.broken_rules

        def told_meanwhile(*arguments: Any) -> list[str]:
            other.tell(two, 0.5)
            return rules(*arguments)

        monkeypatch.setattr(_verify, "broken_rules", told_meanwhile)
        checked = verify(study)
        assert (checked.results, checked.problems) == (1, [])
        assert len(told(study)) == 2


class TestAFile:
    @pytest.fixture
    def file(self) -> Iterator[str]:
        folder = fast_folder("oddarms-study-")
        yield str(folder / "studies.db")
        shutil.rmtree(folder)

    def test_locked_for_too_long(self, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
        study, other = small(file), load_study_again(file)
        (ticket,) = study.ask(1)
        monkeypatch.setattr(_database, "LOCK_SECONDS", 0.1)
        with (
            study._database.writing(),
            pytest.raises(StorageFailed, match="another process keeps it locked"),
        ):
            other.tell(ticket, 0.5)
        assert other.tell(ticket, 0.5) is Told.RECORDED

    def test_read_while_it_is_written(self, file: str) -> None:
        study, other = small(file), load_study_again(file)
        study.tell(study.ask(1)[0], 0.5)
        with study._database.writing():
            assert len(told(other)) == 1
            assert other.status is Status.RUNNING
            assert verify(other).ok

    def test_on_a_full_disk(self, file: str) -> None:
        study = small(file, labels=range(5000), k=0)
        self.limit_pages(study, 0)
        with pytest.raises(StorageFailed, match="the disk is full; nothing of this call was rec"):
            study.ask(5000)
        self.limit_pages(study, 10**6)
        assert list(map(ticket_number, study.ask(2))) == [1, 2]
        assert verify(study).ok

    @staticmethod
    def limit_pages(study: Study, more: int) -> None:
        with study._database.writing() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + more}")


class TestConnectionsToAServer:
    def test_results_are_synced_even_if_the_server_is_told_not_to(self, postgresql: Server) -> None:
        url = postgresql.new_database()
        database = url.rpartition("/")[2]
        with psycopg.connect(url) as connection:
            connection.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
        study = small(url)
        with study._database.reading() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"

    def test_both_sides_notice_when_the_other_is_gone(self, database: str) -> None:
        with _database.Database(location_of(database)).reading() as connection:
            raw: Any = connection.connection.driver_connection
            mine = raw.info.get_parameters()
            for name in ("keepalives_idle", "keepalives_interval", "keepalives_count"):
                show = connection.exec_driver_sql(f"SHOW tcp_{name}").scalar_one()
                assert show == mine[name]
                assert 0 < int(show) <= _database.SILENCE_SECONDS

    def test_whoever_has_a_study_alone_and_does_nothing_loses_it(
        self, postgresql: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = small(postgresql.new_database())
        other = load_study_again(study.storage)
        (ticket,) = study.ask(1)
        monkeypatch.setattr(_database, "HOLD_SECONDS", 0.2)

        def hold() -> None:
            with study._database.writing() as connection:
                study._database.exclusive(connection, study._number)
                assert other.tell(ticket, 0.5) is Told.RECORDED
                connection.exec_driver_sql("SELECT 1")

        with pytest.raises(StorageFailed, match="the server went away"):
            hold()
        assert study.tell(ticket, 0.5) is Told.REPEATED


class TestAServerThatGoesAway:
    @pytest.fixture
    def study(self, postgresql: Server) -> Iterator[Study]:
        yield small(postgresql.new_database())
        postgresql.start()

    @staticmethod
    def sentence(call: Callable[[], object]) -> str:
        with pytest.raises(StorageFailed) as caught:
            call()
        where, _, sentence = str(caught.value).partition(": ")
        assert where.startswith("postgresql")
        return sentence

    def test_stopped_and_started_again(self, postgresql: Server, study: Study) -> None:
        one, two, three = study.ask(3)
        study.tell(one, 0.25)
        postgresql.stop()
        assert self.sentence(lambda: study.tell(two, 0.5)) == WENT_AWAY
        for call in (
            lambda: study.tell(two, 0.5),
            lambda: study.tell_many([(two, 0.5), (three, 0.5)]),
            lambda: study.ask(1),
            lambda: study.result(),
            lambda: study.status,
            lambda: list(study.trials()),
            lambda: load_study("small", storage=study.storage),
            lambda: small(study.storage, "another"),
        ):
            assert self.sentence(call) == "the server cannot be reached."
        postgresql.start()
        assert study.tell_many([(two, 0.5), (three, 0.75)]) == [Told.RECORDED] * 2
        assert told(study) == [
            (one.id, "ann", 0.25),
            (two.id, "ann", 0.5),
            (three.id, "bob", 0.75),
        ]
        assert study.ask(1)
        assert verify(study).ok

    @pytest.mark.parametrize(
        "call",
        [
            pytest.param(lambda study, one, _: study.tell(one, 0.5), id="tell"),
            pytest.param(
                lambda study, one, two: study.tell_many([(one, 0.5), (two, 0.5)]), id="tell_many"
            ),
            pytest.param(
                lambda study, *_: study.import_rewards({"bob": [0.5]}), id="import_rewards"
            ),
            pytest.param(lambda study, *_: study.ask(1), id="ask"),
            pytest.param(lambda study, one, _: study.skip(one), id="skip"),
            pytest.param(lambda study, *_: study.result(), id="result"),
            pytest.param(lambda study, *_: study.status, id="status"),
            pytest.param(lambda study, *_: study.conflicts(), id="conflicts"),
            pytest.param(lambda study, *_: verify(study), id="verify"),
        ],
    )
    def test_any_call_fails_once_and_then_works_if_its_connection_was_ended(
        self, postgresql: Server, study: Study, call: Callable[..., object]
    ) -> None:
        tickets = study.ask(2)
        postgresql.drop_connections()
        assert self.sentence(lambda: call(study, *tickets)) == WENT_AWAY
        call(study, *tickets)
        assert verify(study).ok

    def test_killed(self, postgresql: Server, study: Study) -> None:
        one, two = study.ask(2)
        study.tell(one, 0.5)
        postgresql.kill9()
        assert self.sentence(lambda: study.tell(two, 0.5)) == WENT_AWAY
        assert self.sentence(lambda: study.tell(two, 0.5)) == "the server cannot be reached."
        postgresql.start()
        assert study.tell(two, 0.5) is Told.RECORDED
        assert told(study) == [(one.id, "ann", 0.5), (two.id, "ann", 0.5)]

    @pytest.mark.parametrize("table", ["tickets", "leases"])
    def test_in_the_middle_of_a_call(
        self, postgresql: Server, study: Study, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study.tell(study.ask(1)[0], 0.5)
        database = study._database
        copy = database.copy

        def interrupted(connection: Any, name: str, *arguments: Any) -> None:
            if name == table:
                postgresql.drop_connections()
            copy(connection, name, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(database, "copy", interrupted)
            assert self.sentence(lambda: study.ask(3)) == WENT_AWAY
        assert list(map(ticket_number, study.ask(2))) == [2, 3], "nothing of it was stored"
        assert verify(study).ok

    def test_a_repeated_call_finds_what_was_recorded_before_the_answer_was_lost(
        self, postgresql: Server, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (ticket,) = study.ask(1)
        add = _result_rows.add_new_results

        def lost(*arguments: Any) -> set[int]:
            add(*arguments)
            postgresql.drop_connections()
            return add(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(_result_rows, "add_new_results", lost)
            assert self.sentence(lambda: study.tell(ticket, 0.5)) == WENT_AWAY
        assert study.tell(ticket, 0.5) is Told.REPEATED
        assert told(study) == [(ticket.id, "ann", 0.5)]

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            (("/postgres", "/nowhere"), "there is no such database, user or table."),
            (("oddarms@", "nobody@"), "there is no such database, user or table."),
        ],
    )
    def test_a_wrong_address_is_said(
        self, postgresql_url: str, change: tuple[str, str], sentence: str
    ) -> None:
        url = postgresql_url.replace(*change)
        assert self.sentence(lambda: load_study("small", storage=url)) == sentence

    def test_a_password_is_not_in_the_message(self, postgresql: Server, study: Study) -> None:
        url = study.storage.replace("oddarms@", "oddarms:secret@")
        postgresql.stop()
        with pytest.raises(StorageFailed) as caught:
            load_study("small", storage=url)
        assert "secret" not in str(caught.value)


@pytest.mark.long
def test_a_log_that_the_server_has_not_counted_yet_is_read_quickly(postgresql: Server) -> None:
    """It must not compare every result with every ticket, which takes minutes."""
    study = small(postgresql.new_database(), labels=range(40_000), k=0)
    rng = np.random.default_rng(1)
    study.tell_many([(ticket, rng.random()) for ticket in study.ask(40_000)])
    started = time.monotonic()
    assert len(told(study)) == 40_000
    assert time.monotonic() - started < 20.0
