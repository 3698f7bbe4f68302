"""What a study promises beyond keeping results: clocks, ids, proofs, rights, budgets, locks."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from helpers import Run, nobody
from oddarms import (
    Study,
    delete_study,
    list_studies,
    load_study,
)
from oddarms.errors import InvalidParameter, StorageFailed, UnknownStudy
from oddarms.search import Search, Status
from oddarms.studies import Told, _database, _replay, _saving, _sql, verify
from oddarms.studies import _study_rows as study_rows
from oddarms.studies import _ticket_rows as ticket_rows
from oddarms.studies._ids import TicketIds, new_secret
from postgresql import Server
from small_studies import change, make, work

MOMENT = timedelta(microseconds=1)
HOUR = 3600.0


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return storage_of(request, tmp_path)


def storage_of(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "studies.db")
    server: Server = request.getfixturevalue("postgresql")
    return server.new_database()


class TestClocks:
    @pytest.mark.parametrize("off", [HOUR, -HOUR])
    def test_a_client_whose_clock_is_off_changes_nothing(
        self, storage: str, monkeypatch: pytest.MonkeyPatch, off: float
    ) -> None:
        study = make(storage)
        first = study.ask(5, lease=timedelta(minutes=5))
        ended = study.ask(5, lease=MOMENT)
        now = time.time
        monkeypatch.setattr(_sql.time, "time", lambda: now() + off)
        other = load_study("s", storage=storage)
        places = {(t.index, t.place) for t in other.ask(100, lease=timedelta(minutes=5), ahead=0)}
        assert not places & {(t.index, t.place) for t in first}
        assert places >= {(t.index, t.place) for t in ended}
        monkeypatch.undo()
        assert not study.ask(100, ahead=0.0)
        assert study.overview().live == 30

    def test_a_worker_that_renews_keeps_its_tickets_and_a_dead_one_does_not(
        self, storage: str
    ) -> None:
        study = make(storage)
        kept, lost = study.ask(10, lease=MOMENT), study.ask(10, lease=timedelta(minutes=5))
        assert study.renew(kept, timedelta(minutes=5)) == 0  # handed to the other
        kept, lost = lost, study.ask(10, lease=timedelta(minutes=5))
        assert study.renew([t.id for t in kept], MOMENT) == 10
        assert study.renew(kept, timedelta(minutes=5)) == 10  # ended, and nobody has asked since
        assert study.renew(lost, MOMENT) == 10
        again = study.ask(100, ahead=0.0)
        assert {(t.index, t.place) for t in again} >= {(t.index, t.place) for t in lost}
        assert not {(t.index, t.place) for t in again} & {(t.index, t.place) for t in kept}
        study.tell(kept[0], 0.5)
        assert next(study.trials()).late is False
        study.tell(lost[0], 0.5)
        assert [trial.late for trial in study.trials()] == [False, True]

    def test_leases_end_with_the_machine(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(tmp_path / "studies.db")
        before = study.ask(30, ahead=0.0)
        assert not study.ask(30, ahead=0.0)
        monkeypatch.setattr(_sql, "boot", lambda: 1)
        monkeypatch.setattr(_sql, "steady", lambda: 0.0)
        again = study.ask(30, ahead=0.0)
        assert [(t.index, t.place) for t in again] == [(t.index, t.place) for t in before]
        assert study.tell(before[0], 0.5) is Told.RECORDED
        assert next(study.trials()).late

    def test_where_nobody_tells_which_start_it_was_the_time_of_day_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from oddarms.studies import _clock

        monkeypatch.setattr(_clock, "_BOOT_ID", tmp_path / "missing")
        _clock.boot.cache_clear()
        try:
            assert _clock.boot() == 0
            assert abs(_clock.steady() - time.time()) < 60.0
        finally:
            monkeypatch.undo()
            _clock.boot.cache_clear()

    @pytest.mark.parametrize("lease", [timedelta(0), timedelta(days=366), 60, timedelta.max])
    def test_leases_are_of_at_most_a_year(self, tmp_path: Path, lease: Any) -> None:
        study = make(tmp_path / "studies.db")
        ticket = study.ask()[0]
        for call in (lambda: study.ask(1, lease=lease), lambda: study.renew([ticket], lease)):
            with pytest.raises(InvalidParameter, match="lease must be a positive timedelta of at"):
                call()

    def test_from_the_shell(self, run_command: Run) -> None:
        run_command("study", "create", "s", "--arms", "a,b", "--k", 1)
        run_command("study", "ask", "s", "-n", 2, "--lease", "1s")
        ids = [t.id for t in load_study("s").ask(2)]
        ran = run_command("study", "renew", "s", *ids, "--lease", "2m")
        assert ran.code == 0
        assert ran.out == "renewed 2 of 2 leases\n"
        load_study("s").tell(ids[0], 0.5)
        load_study("s").ask()
        ran = run_command("study", "renew", "s", *ids)
        assert ran.code == 1
        assert ran.out == "renewed 1 of 2 leases\n"
        assert "handed to somebody else" in ran.err


class TestIds:
    def test_a_ticket_of_a_deleted_study_is_not_one_of_the_next_of_that_name(
        self, storage: str
    ) -> None:
        old = make(storage).ask(3)
        delete_study("s", storage=storage)
        study = make(storage)
        fresh = study.ask(3)
        assert len({t.id for t in (*old, *fresh)}) == 6
        for call in (
            lambda: study.tell(old[0], 0.5),
            lambda: study.tell_many([(fresh[0], 0.5), (old[0].id, 0.5)]),
            lambda: study.skip(old[0]),
            lambda: study.renew([old[0].id]),
        ):
            with pytest.raises(InvalidParameter, match="must be one of the study 's'"):
                call()
        assert list(study.trials()) == []
        assert study.overview().live == 3

    def test_an_old_worker_in_the_shell(self, run_command: Run) -> None:
        create = ("study", "create", "s", "--arms", "a,b", "--k", 1)
        run_command(*create)
        old = load_study("s").ask()[0].id
        run_command("study", "delete", "s", "--yes")
        run_command(*create)
        load_study("s").ask(2)
        ran = run_command("study", "tell", "s", old, 0.5)
        assert ran.code == 2
        assert "perhaps of a deleted one with this name" in ran.err
        assert list(load_study("s").trials()) == []

    @pytest.mark.parametrize(
        "ticket", ["1", 1, "1-aaaaaaaaaaaaaaaa", "1-", "", None, "0-aaaaaaaaaaaaaaaa", "1-A", b"1"]
    )
    def test_nobody_can_guess_one(self, tmp_path: Path, ticket: Any) -> None:
        study = make(tmp_path / "studies.db")
        study.ask(3)
        with pytest.raises(InvalidParameter, match="ticket must be"):
            study.tell(ticket, 0.5)

    def test_ids_go_there_and_back(self) -> None:
        ids = TicketIds("s", new_secret())
        for number in (1, 17, 2**63 - 1):
            assert ids.number(ids.of(number)) == number
        with pytest.raises(InvalidParameter, match="ticket must be an id"):
            ids.number("9" * 19 + "-" + "a" * 16)

    def test_a_proven_number_that_was_not_handed_out(self, storage: str) -> None:
        study = make(storage)
        study.ask()
        for call in (
            lambda: study.tell(study._ids.of(9), 0.5),
            lambda: study.skip(study._ids.of(9)),
        ):
            with pytest.raises(InvalidParameter, match="handed out but got 9"):
                call()

    def test_the_deleted_study_says_that_it_is(self, storage: str) -> None:
        study = make(storage)
        ticket = study.ask()[0]
        delete_study("s", storage=storage)
        for call in (
            study.ask,
            study.result,
            lambda: study.tell(ticket, 0.5),
            lambda: study.skip(ticket),
        ):
            with pytest.raises(UnknownStudy, match="was deleted"):
                call()


class TestProofs:
    """`verify` finds every change of what the answer depends on, wherever it is in the log."""

    @pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
    def storage(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        return storage_of(request, tmp_path)

    @pytest.fixture
    def study(self, storage: str, monkeypatch: pytest.MonkeyPatch) -> Study:
        monkeypatch.setattr(_replay, "LEAST_BETWEEN_STATES", 50)
        study = make(storage)
        study.import_rewards({"a": [0.5, 0.25], "c": [1.0]})
        work(study, 60)
        study.ask(1, lease=MOMENT)
        work(study, 30)
        with study._database.reading() as connection:
            assert 50 <= study_rows.saved(connection, study._number).taken <= 70
        assert verify(study).problems == []
        return study

    CHANGES: ClassVar = {
        "a reward": "UPDATE results SET reward = 0.125 WHERE number = {number}",
        "the last digit of a reward": "UPDATE results SET reward = reward + 1e-15"
        " WHERE number = {number}",
        "an arm": "UPDATE results SET arm = CASE arm WHEN 0 THEN 1 ELSE 0 END"
        " WHERE number = {number}",
        "a place": "UPDATE results SET place = place + 1000 WHERE number = {number}",
        "a result that is gone": "DELETE FROM results WHERE number = {number}",
        "a ticket that is gone": "DELETE FROM tickets WHERE number ="
        " (SELECT ticket FROM results WHERE number = {number})",
    }

    @pytest.mark.parametrize(
        ("what", "when"),
        [
            *((what, "before") for what in CHANGES),
            ("a reward", "after"),
            ("a result that is gone", "after"),
            *(
                pytest.param(what, "after", marks=pytest.mark.long)
                for what in CHANGES
                if what not in ("a reward", "a result that is gone")
            ),
        ],
    )
    def test_a_change_before_or_after_the_saved_state(
        self, study: Study, what: str, when: str
    ) -> None:
        numbers = [trial.number for trial in study.trials() if trial.ticket is not None]
        number = numbers[10] if when == "before" else numbers[-1]
        change(study, self.CHANGES[what].format(number=number))
        assert verify(study).problems
        assert verify(load_study("s", storage=_url(study))).problems

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE results SET reward = 0.75 WHERE ticket IS NULL AND arm = 2",
            "DELETE FROM results WHERE ticket IS NULL AND arm = 2",
            "DELETE FROM imports",
            "DELETE FROM results",
            "DELETE FROM results WHERE number > 20",
            "UPDATE tickets SET receipt = receipt + 1 WHERE number = 3",
            "UPDATE tickets SET receipt = NULL WHERE number = 3",
            "UPDATE studies SET taken = taken - 1",
            "UPDATE studies SET tickets = tickets - 5",
            "UPDATE studies SET seed = '2', chain = NULL",
            """UPDATE arms SET label = CASE label WHEN '\"a\"' THEN '\"b\"' ELSE '\"a\"' END
            WHERE number < 2""",
            "UPDATE results SET batch = 99 WHERE ticket = 80",
            """UPDATE results SET arm = 2, place = 700 WHERE ticket = 80;
            UPDATE tickets SET arm = 2, place = 700 WHERE number = 80""",
            "DELETE FROM results WHERE batch = 1;DELETE FROM imports",
            "DELETE FROM snapshots",
        ],
    )
    def test_other_changes(self, study: Study, statement: str) -> None:
        change(study, *statement.split(";"))
        assert verify(study).problems

    def test_two_results_that_have_changed_their_order(self, study: Study) -> None:
        one, other = [t.number for t in study.trials() if t.ticket is not None][5:7]
        change(
            study,
            f"UPDATE results SET number = -1 WHERE number = {one}",
            f"UPDATE results SET number = {one} WHERE number = {other}",
            f"UPDATE results SET number = {other} WHERE number = -1",
        )
        assert any("not those that it was made of" in problem for problem in verify(study).problems)

    def test_the_chain_is_that_of_the_log_alone(self, study: Study) -> None:
        before = verify(study).chain
        study.ask(3)
        change(study, "UPDATE studies SET snapshot = NULL, chain = NULL, position = 0, taken = 0")
        again = load_study("s", storage=_url(study))
        assert verify(again).chain == before
        assert verify(again).problems == []
        study.tell(study.ask()[0], 0.5)
        assert verify(again).chain != before

    @pytest.mark.parametrize(("factor", "ok"), [(1.0 + 1e-12, True), (1.0 + 1e-3, False)])
    def test_a_state_of_a_machine_that_rounds_otherwise(
        self, study: Study, factor: float, ok: bool
    ) -> None:
        with study._database.reading() as connection:
            saved = study_rows.saved(connection, study._number)
            assert saved.key is not None
            content = study_rows.saved_state(connection, study._number, saved.key)
        search = Search.from_bytes(study._asked, content)
        search.algorithm.sums *= factor
        with study._database.writing() as connection:
            _sql.run(connection, "DELETE FROM snapshots")
            study_rows.add_part(connection, study._number, saved.key, 0, search.to_bytes())
        assert (verify(study).problems == []) is ok


def _url(study: Study) -> str:
    location = study._database.location
    if location.server is None:
        return str(location.file)
    return location.server.render_as_string(hide_password=False).replace("+psycopg", "")


class TestSavedStates:
    @pytest.fixture
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_saving, "PART_BYTES", 1000)
        monkeypatch.setattr(_replay, "LEAST_BETWEEN_STATES", 50)

    @pytest.mark.usefixtures("small_parts")
    def test_others_work_while_a_state_is_saved(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between any two parts; and what they tell is not in the state, but not lost."""
        study, other = make(storage), load_study("s", storage=storage)
        work(study, 40)
        tickets = study.ask(20, ahead=0.5)
        study.tell_many([(ticket, 0.5) for ticket in tickets[:12]])
        others = iter(tickets[12:])
        parts = []
        add_part = study_rows.add_part

        def noted(connection: Any, *arguments: Any) -> None:
            add_part(connection, *arguments)
            parts.append(arguments)

        writing = study._database.writing

        @contextmanager
        def interleaved() -> Iterator[Any]:
            with writing() as connection:
                yield connection
            if parts and len(parts) < 8:
                assert other.tell(next(others), 0.5) is Told.RECORDED

        monkeypatch.setattr(study_rows, "add_part", noted)
        monkeypatch.setattr(study._database, "writing", interleaved)
        study.ask()
        assert len(parts) >= 3
        assert all(len(content) <= 1000 for *_, content in parts)
        again = load_study("s", storage=storage)
        assert again.result().to_dict() == other.result().to_dict()
        assert verify(again).problems == []

    @pytest.mark.usefixtures("small_parts")
    def test_half_a_state_is_never_used_and_is_cleared_away(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(storage)
        work(study, 45)
        add_part = study_rows.add_part

        def dies(connection: Any, study: int, key: int, part: int, content: bytes) -> None:
            if part == 2:
                raise StorageFailed("the power is gone")
            add_part(connection, study, key, part, content)

        monkeypatch.setattr(study_rows, "add_part", dies)
        work(study, 10)
        study.skip_many(study.ask())
        assert self._states(study) == (1, 0)
        monkeypatch.setattr(study_rows, "add_part", add_part)
        assert verify(load_study("s", storage=storage)).problems == []
        work(study, 100)
        assert self._states(study) == (1, 1)
        assert verify(load_study("s", storage=storage)).problems == []

    def _states(self, study: Study) -> tuple[int, int]:
        """Return how many states have parts, and how many of them are in use."""
        with study._database.reading() as connection:
            keys = _sql.run(connection, "SELECT DISTINCT snapshot FROM snapshots").scalars().all()
            saved = study_rows.saved(connection, study._number)
        return len(keys), sum(key == saved.key for key in keys)

    @pytest.mark.usefixtures("small_parts")
    def test_one_of_many_workers_saves_it(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        saved = []
        save = _saving.save_state
        monkeypatch.setattr(
            "oddarms.studies._study.save_state",
            lambda *arguments: (saved.append(arguments), save(*arguments)),
        )
        study, other = make(storage), load_study("s", storage=storage)
        work(study, 60)
        study.ask()
        other.ask()
        study.ask()
        assert len(saved) == 1

    def test_an_interruption_while_saving_gives_the_tickets_back(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_replay, "LEAST_BETWEEN_STATES", 10)
        study = make(storage)
        work(study, 9)
        study.tell(study.ask()[0], 0.5)

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("oddarms.studies._study.save_state", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study.ask(3)
        assert study.overview().live == 0

    def test_an_interruption_is_obeyed_even_if_the_tickets_cannot_be_given_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody locks the file just then: the leases end, and the signal counts."""
        monkeypatch.setattr(_replay, "LEAST_BETWEEN_STATES", 10)
        monkeypatch.setattr(_database, "HURRY_SECONDS", 0.05)
        study = make(str(tmp_path / "studies.db"))
        work(study, 9)
        study.tell(study.ask()[0], 0.5)
        with closing(sqlite3.connect(study.storage, isolation_level=None)) as other:

            def interrupted(*_: object) -> None:
                other.execute("BEGIN IMMEDIATE")
                raise KeyboardInterrupt

            monkeypatch.setattr("oddarms.studies._study.save_state", interrupted)
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                study.ask(3, lease=timedelta(seconds=0.1))
            assert time.monotonic() - began < _database.LOCK_SECONDS / 2
        time.sleep(0.1)
        assert study.overview().live == 0

    def test_tickets_are_given_back_in_one_order(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(storage)
        tickets = study.ask(20)
        orders: list[list[int]] = []
        require = ticket_rows.require_tickets
        monkeypatch.setattr(
            ticket_rows,
            "require_tickets",
            lambda connection, number, given: (
                orders.append(list(given)),
                require(connection, number, given),
            ),
        )
        study.skip_many(reversed(tickets))
        study.skip_many([*tickets, *tickets])
        assert orders == [list(range(1, 21))] * 2
        assert study.overview().live == 0


class TestRights:
    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            yield Path(folder)
            Path(folder).chmod(0o755)

    @pytest.mark.parametrize("in_use", [False, True])
    def test_a_study_that_cannot_be_written_to_can_be_read(
        self, folder: Path, in_use: bool
    ) -> None:
        file = folder / "studies.db"
        study = make(file)
        work(study, 40)
        expected = study.result().to_dict()
        if not in_use:
            study._database.close()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        with nobody():
            again = load_study("s", storage=file)
            assert again.result().to_dict() == expected
            assert again.overview().told == 40
            assert again.status is Status.RUNNING
            assert len(list(again.trials())) == 40
            assert verify(again).problems == []
            assert [one.name for one in list_studies(storage=file)] == ["s"]
            for call in (again.ask, lambda: again.import_rewards({"a": [0.5]})):
                with pytest.raises(StorageFailed, match="cannot be written to"):
                    call()
            again._database.close()
        folder.chmod(0o755)
        study.tell(study.ask()[0], 0.5)
        with nobody():
            assert load_study("s", storage=file).overview().told == 41

    def test_only_the_owner_reads_a_file_unless_the_owner_says_otherwise(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "studies.db"
        before = os.umask(0o022)
        try:
            study = make(file)
            study.ask()
            assert modes(tmp_path) == {0o600}
            study._database.close()
            file.chmod(0o660)
            study.ask()
            assert modes(tmp_path) == {0o660}
        finally:
            os.umask(before)


def modes(folder: Path) -> set[int]:
    """Return the modes of a storage's three files."""
    names = ["studies.db", "studies.db-shm", "studies.db-wal"]
    assert sorted(file.name for file in folder.iterdir()) == names
    return {stat.S_IMODE((folder / name).stat().st_mode) for name in names}


class TestFilesThatGo:
    @pytest.mark.parametrize("how", ["removed", "replaced"])
    def test_nothing_is_acknowledged_that_nobody_would_find(self, tmp_path: Path, how: str) -> None:
        file = tmp_path / "studies.db"
        study = make(file)
        tickets = study.ask(3)
        study.tell(tickets[0], 0.5)
        for path in list(tmp_path.iterdir()):
            path.rename(path.with_name(f"away-{path.name}"))
        if how == "replaced":
            file.touch()
        for call in (
            lambda: study.tell(tickets[1], 0.5),
            lambda: study.tell_many([(tickets[1], 0.5), (tickets[2], 0.5)]),
            study.ask,
        ):
            with pytest.raises(StorageFailed, match="the file was removed or replaced"):
                call()
        study._database.close()
        for path in list(tmp_path.glob("away-*")):
            path.rename(path.with_name(path.name.removeprefix("away-")))
        assert study.tell(tickets[1], 0.5) is Told.RECORDED
        assert len(list(load_study("s", storage=file).trials())) == 2


class TestBudgets:
    def test_a_budget_holds_after_leases_ran_out(self, storage: str) -> None:
        """Forty that became eighty: the first forty results count, the others are kept."""
        study = make(storage, budget=40, batch=20, labels=["a", "b"])
        first = study.ask(40, lease=MOMENT)
        second = study.ask(40)
        assert (len(first), len(second)) == (40, 40)
        study.tell_many([(ticket, 0.25) for ticket in first[:30]])
        study.tell_many([(ticket, 0.5) for ticket in second])
        study.tell_many([(ticket, 0.75) for ticket in first[30:]])
        overview = study.overview()
        assert (overview.told, overview.beyond) == (80, 40)
        assert overview.result.pulls + overview.result.unused == 40
        assert overview.result.beyond == 40
        assert overview.status is Status.BUDGET
        assert len(list(study.trials())) == 80
        assert not study.ask(10)
        assert verify(study).problems == []
        assert load_study("s", storage=storage).result().to_dict() == overview.result.to_dict()
        assert "40 late ones beyond the budget, not used" in repr(overview.result)

    def test_it_is_never_exceeded_by_what_is_used(self, storage: str) -> None:
        """Whoever asks, dies and comes back late, in turn."""
        study = make(storage, budget=25, batch=3, labels=["a", "b"])
        late = []
        while not study.done:
            lost = study.ask(3, lease=MOMENT)
            live = study.ask(2)
            late += lost
            study.tell_many([(ticket, 0.5) for ticket in live])
            if len(late) >= 6:
                study.tell_many([(ticket, 0.5) for ticket in late])
                late = []
            result = study.result()
            assert result.pulls + result.unused <= 25
        study.tell_many([(ticket, 0.5) for ticket in late])
        overview = study.overview()
        assert overview.told - overview.beyond == 25
        assert overview.result.pulls + overview.result.unused == 25

    def test_of_a_search_in_memory(self) -> None:
        search = Search(["a", "b"], k=0.5, delta=0.1, algorithm="rr", batch=5, budget=10)
        tickets = search.ask(10)
        for ticket in tickets:
            search.tell(ticket, 0.5)
        search.take(0, 3, 0.5)
        assert (search.told, search.beyond, search.result().beyond) == (10, 1, 1)


def start_and_call(timer: threading.Timer, call: Callable[[], object]) -> None:
    timer.start()  # an interruption before the block that expects it would end the tests
    call()


class TestLocks:
    """Somebody else has the storage for long: Ctrl-C is obeyed, and nothing is half done."""

    @contextmanager
    def _held(self, study: Study) -> Iterator[None]:
        location = study._database.location
        if location.file is not None:
            with closing(sqlite3.connect(location.file, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield
            return
        import psycopg

        with psycopg.connect(_url(study)) as server:
            server.execute("SELECT pg_advisory_lock(%s, %s)", (_sql.LOCK_SPACE, study._number))
            yield

    @pytest.mark.parametrize("call", ["ask", "tell", "tell_many", "skip", "renew"])
    def test_a_signal_is_obeyed_at_once(self, storage: str, call: str) -> None:
        study = make(storage)
        one, other = study.ask(2)
        calls: dict[str, Callable[[], object]] = {
            "ask": study.ask,
            "tell": lambda: study.tell(one, 0.5),
            "tell_many": lambda: study.tell_many([(one, 0.5), (other, 0.5)]),
            "skip": lambda: study.skip(one),
            "renew": lambda: study.renew([one]),
        }
        started = time.monotonic()
        with self._held(study):
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                start_and_call(timer, calls[call])
            timer.join()
        assert time.monotonic() - started < 50.0  # and not the minute that a lock is waited for
        assert list(study.trials()) == []
        assert study.overview().live == 2
        calls[call]()
        assert verify(study).problems == []

    def test_a_run_waits_for_a_lock_for_a_moment_at_a_time(self, storage: str) -> None:
        """So that its patience, and not that of a single call, says for how long in all."""
        study = make(storage)
        ticket = study.ask()[0]
        started = time.monotonic()
        with (
            self._held(study),
            pytest.raises(StorageFailed, match="another process keeps it locked") as caught,
        ):
            study.desk().tell_many([(ticket, 0.5)])
        assert caught.value.passing
        assert time.monotonic() - started < 30.0
        assert study.desk().tell_many([(ticket, 0.5)]) == [Told.RECORDED]

    def test_who_waits_for_too_long_is_told_that_it_may_pass(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.studies._database.LOCK_SECONDS", 0.2)
        study = make(storage)
        ticket = study.ask()[0]
        with (
            self._held(study),
            pytest.raises(StorageFailed, match="another process keeps it locked") as caught,
        ):
            study.tell_many([(ticket, 0.5)] * 2)
        assert caught.value.passing
        assert study.tell(ticket, 0.5) is Told.RECORDED
