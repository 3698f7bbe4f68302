"""Many processes on one study, in a file and in PostgreSQL; and a PostgreSQL that goes away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from helpers import quick_and_long
from oddarms import Search, Study, create_study, list_studies, load_study
from oddarms.errors import StorageFailed, UnknownStudy
from oddarms.search import Status
from oddarms.studies import Told
from postgresql import Server
from processes import wait_until
from small_studies import make, work
from storages import database
from study_answers import assert_same_answer, never_killed
from study_workers import (
    ask_for,
    create_one,
    either,
    fork_and_tell,
    fork_while_a_thread_asks,
    fork_with_memory,
    tell_for,
    tell_in_order,
    together,
    use_up,
)

__all__ = ["database"]

SECONDS = [0.5, pytest.param(5.0, marks=pytest.mark.long)]
LOST = (
    "the connection to the server was lost, so this call may have been recorded or not: repeat it,"
    " a result that is told twice counts once."
)
UNREACHABLE = "the server cannot be reached."
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def run_sql(storage: str, statement: str) -> Any:
    with psycopg.connect(storage) as connection:
        row = connection.execute(statement).fetchone()
    return row and row[0]


def told(study: Study) -> list[tuple[str | None, float]]:
    return [(trial.ticket, trial.reward) for trial in study.trials()]


def test_a_study_that_is_deleted_while_it_is_told(postgresql: Server) -> None:
    storage = postgresql.new_database()
    study = create_study("s", 3, k=0.5, storage=storage)
    number = run_sql(storage, "SELECT id FROM studies")
    (ticket,) = study.ask()
    with ThreadPoolExecutor() as pool, psycopg.connect(storage) as deleting:
        deleting.execute("SELECT pg_advisory_xact_lock(3546, %s)", [number])  # LOCK_SPACE
        telling = pool.submit(study.tell, ticket, 0.5)
        wait_until(lambda: run_sql(storage, WAITING))
        deleting.execute("DELETE FROM studies")
        deleting.commit()
        with pytest.raises(UnknownStudy, match="was deleted"):
            telling.result()


class TestManyProcesses:
    def test_make_an_empty_storage_together(self, database: str, postgresql: Server) -> None:
        fresh = database if database.endswith(".db") else postgresql.new_database()
        names = [f"study {i}" for i in range(4)]
        assert together(create_one, [(fresh, name) for name in names]) == names
        assert [study.name for study in list_studies(storage=fresh)] == names

    def test_keep_to_the_budget(self, database: str) -> None:
        study = create_study("s", range(20), k=0, margin=0, budget=300, storage=database)
        counts = together(use_up, [(database, "s")] * 4)
        asked, recorded = map(sum, zip(*counts, strict=True))
        assert asked == recorded == len(told(study))
        assert 0 < asked <= 300
        assert study.status is Status.BUDGET
        assert study.verify().ok

    @pytest.mark.parametrize("seconds", SECONDS)
    def test_read_all_results_while_they_arrive(self, database: str, seconds: float) -> None:
        study = make(database, labels=range(500))
        study.ask()
        task = (database, "s", seconds)
        together(either, [(tell_for, *task, 30)] * 6 + [(ask_for, *task)])
        found = study.result()
        assert found.pulls + found.unused == len(told(study))
        assert_same_answer(found, never_killed(study))
        assert study.verify().ok

    @pytest.mark.parametrize("late", [False, True])
    def test_tell_the_same_tickets_in_opposite_orders(self, database: str, late: bool) -> None:
        """Also if their places have other results by then."""
        study = make(database, labels=range(50))
        for reward in (0.25, 0.5, 0.75):
            tickets = study.ask(300, lease=0.001 if late else 60, prefetch=0)
            if late:
                time.sleep(0.002)
                study.tell_many([(ticket, 1.0) for ticket in study.ask(300, prefetch=0)])
            results = [(ticket.id, reward) for ticket in tickets]
            tasks = [(database, "s", part) for part in (results, results[::-1], results[100:])]
            assert sum(together(tell_in_order, tasks)) == len(results)
        assert len({(t.arm, t.place) for t in study.trials()}) == len(told(study))
        assert study.conflicts() == []
        assert study.verify().ok

    def test_lose_nothing_when_their_parent_closes_the_storage(self, database: str) -> None:
        assert together(fork_and_tell, [(database, "forked")]) == [100]

    def test_do_not_share_memory(self) -> None:
        (sentence,) = together(fork_with_memory, [()])
        assert sentence == (
            "memory: this storage belongs to another process; processes share a file or PostgreSQL."
        )


def test_a_process_that_was_forked_while_a_thread_asked(postgresql: Server) -> None:
    assert together(fork_while_a_thread_asks, [(postgresql.new_database(), "s")]) == [0]


def test_a_call_that_the_database_refuses_fails_alone(postgresql: Server) -> None:
    """Also if it shared a transaction with others."""
    storage = postgresql.new_database()
    study = create_study("s", range(100), k=1, storage=storage)
    with psycopg.connect(storage) as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RAISE EXCEPTION ''refused''; END'"
        )
        connection.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON workers FOR EACH ROW WHEN (NEW.name = 'bad')"
            " EXECUTE FUNCTION refuse()"
        )
    tickets = study.ask(20)
    with ThreadPoolExecutor(6) as pool:
        found = [
            (worker, pool.submit(call, worker))
            for ticket in tickets
            for call in (
                lambda worker: study.ask(1, worker, prefetch=10),
                lambda worker, ticket=ticket: study.tell(ticket, 0.5, worker=worker),
            )
            for worker in ("good", "bad")
        ]
    assert [isinstance(one.exception(), StorageFailed) for _, one in found] == [
        worker == "bad" for worker, _ in found
    ]


class Gate:
    """Holds up whoever stores a reward of 0.25, with a trigger, until it is opened."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(
            "CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END'"
        )
        self._connection.execute(
            "CREATE TRIGGER gate AFTER INSERT ON results FOR EACH ROW WHEN (NEW.reward = 0.25)"
            " EXECUTE FUNCTION pass()"
        )
        self._connection.execute("SELECT pg_advisory_lock(1)")

    def wait(self) -> None:
        """Wait until somebody is held up."""
        waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        while self._connection.execute(waiting).fetchone() is None:
            time.sleep(0.005)

    def open(self) -> None:
        self._connection.execute("SELECT pg_advisory_unlock(1)")
        self._connection.close()


class TestATransactionThatTakesLong:
    @pytest.fixture
    def study(self, postgresql: Server) -> Study:
        return make(postgresql.new_database())

    def test_is_not_missed_by_those_who_read_meanwhile(self, study: Study) -> None:
        quick, slow, *rest = study.ask(4)
        teller, other = (load_study("s", storage=study.storage) for _ in range(2))
        gate = Gate(study.storage)
        with ThreadPoolExecutor() as pool:
            telling = pool.submit(teller.tell, slow, 0.25)
            gate.wait()
            assert other.tell(quick, 0.5) is Told.RECORDED
            assert study.progress().pulls == 1, "reading does not wait"
            study.ask()
            gate.open()
            assert telling.result() is Told.RECORDED
        assert study.progress().pulls == 2, "it has the lower number, and is read"
        other.tell_many([(ticket, 0.5) for ticket in rest])
        assert study.progress().pulls == 4
        assert study.verify().ok

    def test_is_waited_for_by_those_who_go_through_the_log(self, study: Study) -> None:
        slow, quick = study.ask(2)
        teller, other = (load_study("s", storage=study.storage) for _ in range(2))
        gate = Gate(study.storage)
        with ThreadPoolExecutor() as pool:
            pool.submit(teller.tell, slow, 0.25)
            gate.wait()
            assert other.tell(quick, 0.5) is Told.RECORDED
            reading = pool.submit(lambda: list(study.trials()))
            time.sleep(0.1)
            assert not reading.done(), "what has a lower number is not stored yet"
            gate.open()
            first = reading.result()
        rest = study.trials(after=first[-1].number)
        assert [trial.ticket for trial in (*first, *rest)] == [slow.id, quick.id]

    def test_a_history_waits_for_results_and_takes_none_of_their_places(self, study: Study) -> None:
        (slow,) = study.ask(1, lease=0.001)
        time.sleep(0.002)
        study.skip_many(study.ask(30, prefetch=0))  # nobody has its place any more
        teller = load_study("s", storage=study.storage)
        gate = Gate(study.storage)
        with ThreadPoolExecutor() as pool:
            telling = pool.submit(teller.tell, slow, 0.25)
            gate.wait()
            adding = pool.submit(study.add_history, {"a": [0.5, 0.75]})
            time.sleep(0.1)
            assert not adding.done()
            gate.open()
            assert (telling.result(), adding.result()) == (Told.RECORDED, 2)
        assert {trial.place for trial in study.trials()} == {0, 1, 2}
        assert study.verify().ok


class TestDumps:
    def test_results_of_another_cluster_are_read_once(
        self, postgresql: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """There the numbers of transactions may be far beyond those of this server."""
        study = make(postgresql.new_database())
        work(study, 600)
        with psycopg.connect(study.storage) as connection:
            connection.execute("UPDATE results SET xact = '4611686018427387904'::xid8")
        again = load_study("s", storage=study.storage)
        assert again.progress().pulls == 600
        sizes: list[int] = []
        load = Search.load

        def counted(search: Search, *columns: Any) -> None:
            sizes.append(len(columns[0]))
            load(search, *columns)

        monkeypatch.setattr(Search, "load", counted)
        again.tell_many([(ticket, 0.5) for ticket in again.ask(5)])
        assert again.progress().pulls == 605
        assert sum(sizes) < 30
        assert_same_answer(again.result(), never_killed(again))


class TestConnections:
    def test_results_are_synced_even_if_the_server_is_told_not_to(self, postgresql: Server) -> None:
        url = postgresql.new_database()
        name = url.rpartition("/")[2]
        with psycopg.connect(url) as connection:
            connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        study = make(url)
        with psycopg.connect(url) as connection:
            connection.execute(
                "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN"
                " NEW.worker = current_setting(''synchronous_commit''); RETURN NEW; END'"
            )
            connection.execute(
                "CREATE TRIGGER note BEFORE INSERT ON results FOR EACH ROW EXECUTE FUNCTION note()"
            )
        study.tell(study.ask()[0], 0.5)
        assert [trial.worker for trial in study.trials()] == ["on"]

    def test_a_lock_that_lasts_is_a_failure_that_passes(
        self, postgresql: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.studies._database.LOCK_SECONDS", 0.2)
        study = make(postgresql.new_database())
        ticket = study.ask()[0]
        with psycopg.connect(study.storage) as other:
            other.execute("LOCK TABLE results IN EXCLUSIVE MODE")
            with pytest.raises(StorageFailed, match="another process keeps it locked") as caught:
                study.tell(ticket, 0.5)
        assert caught.value.passing
        assert study.tell(ticket, 0.5) is Told.RECORDED

    def test_who_holds_a_lock_and_does_nothing_loses_it(
        self, postgresql: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that was suspended in the middle of a call, for example."""
        monkeypatch.setattr("oddarms.studies._database.HOLD_SECONDS", 0.2)
        study = make(postgresql.new_database())
        other = load_study("s", storage=study.storage)
        places = Search.open_places
        asked: list[Any] = []

        def suspended(search: Search, *arguments: Any, **options: Any) -> Any:
            if not asked:
                asked.append(None)
                asked[0] = other.ask(3)
            return places(search, *arguments, **options)

        monkeypatch.setattr(Search, "open_places", suspended)
        with pytest.raises(StorageFailed, match="was lost"):
            study.ask(3)
        assert len(asked[0]) == 3
        assert study.ask(3)
        assert study.overview().live == 6


class TestAServerThatGoesAway:
    @pytest.fixture
    def study(self, postgresql: Server) -> Iterator[Study]:
        yield make(postgresql.new_database())
        postgresql.start()

    @staticmethod
    def sentence(call: Callable[[], object]) -> str:
        with pytest.raises(StorageFailed) as caught:
            call()
        assert caught.value.passing
        where, _, sentence = str(caught.value).partition(": ")
        assert where.startswith("postgresql")
        return sentence

    @pytest.mark.parametrize("how", quick_and_long(["kill9"], ["stop"]))
    def test_and_comes_back(self, postgresql: Server, study: Study, how: str) -> None:
        one, two, three = study.ask(3)
        study.tell(one, 0.25)
        getattr(postgresql, how)()
        assert self.sentence(lambda: study.tell(two, 0.5)) == LOST
        calls: list[Callable[[], object]] = [
            lambda: study.tell(two, 0.5),
            lambda: study.ask(1),
            study.result,
            lambda: study.status,
            lambda: list(study.trials()),
            lambda: load_study("s", storage=study.storage),
            lambda: make(study.storage, "another"),
        ]
        for call in calls:
            assert self.sentence(call) == UNREACHABLE
        postgresql.start()
        assert study.tell_many([(two, 0.5), (three, 0.75)]) == [Told.RECORDED] * 2
        assert sorted(told(study)) == [(one.id, 0.25), (two.id, 0.5), (three.id, 0.75)]
        assert study.ask(1)
        assert study.verify().ok

    def test_any_call_fails_once_and_then_works_if_its_connection_was_ended(
        self, postgresql: Server, study: Study
    ) -> None:
        one, two = study.ask(2)
        calls: list[Callable[[], object]] = [
            lambda: study.tell(one, 0.5),
            lambda: study.add_history({"b": [0.5]}),
            lambda: study.ask(1),
            lambda: study.skip(two),
            study.result,
            study.conflicts,
            study.verify,
        ]
        for call in calls:
            postgresql.drop_connections()
            assert self.sentence(call) == LOST
            call()
        assert study.verify().ok

    @pytest.mark.parametrize("change", [("/postgres", "/nowhere"), ("oddarms@", "nobody@")])
    def test_a_wrong_address_is_no_outage(
        self, postgresql_url: str, change: tuple[str, str]
    ) -> None:
        with pytest.raises(StorageFailed, match="there is no such database, user or") as caught:
            load_study("s", storage=postgresql_url.replace(*change))
        assert not caught.value.passing
