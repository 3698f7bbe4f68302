"""Where studies are kept: versions, damage, full disks, and every way to name or misuse them."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import nobody, ticket_number
from oddarms import (
    Study,
    create_study,
    delete_study,
    list_studies,
    load_study,
    upgrade_storage,
)
from oddarms.algorithms import _registry, register
from oddarms.algorithms._round_robin import RR
from oddarms.errors import (
    DuplicateStudy,
    InvalidParameter,
    OddarmsError,
    RewardRejected,
    StorageFailed,
    UnknownStudy,
)
from oddarms.search import Status, Ticket, Tickets
from oddarms.studies import Told, verify
from oddarms.studies import _result_rows as result_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies._study import StoredStudy

NASTY = ["'; DROP TABLE results; --", '"quoted"', "%s %(name)s :name ?", "é𝄞", "back\\slash", "{}"]


def make(storage: Any, name: Any = "s", **changes: Any) -> Study:
    arguments: dict[str, Any] = {
        "labels": ["a", "b", "c"],
        "k": 0.5,
        "delta": 0.1,
        "algorithm": "rr",
        "batch": 10,
        "rng": 1,
        **changes,
    }
    return create_study(name, arguments.pop("labels"), storage=storage, **arguments)


def work(study: Study, results: int, ahead: float = 0.15) -> None:
    """Tell so many results."""
    while results > 0:
        tickets = study.ask(min(results, 400), ahead=ahead)
        study.tell_many([(ticket, (ticket_number(ticket) * 7 % 11) / 10) for ticket in tickets])
        results -= len(tickets)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "studies.db"


class TestNames:
    def test_a_path_a_text_and_a_url_are_the_same_file(self, file: Path) -> None:
        make(file)
        for storage in (file, str(file), f"sqlite:///{file}", f"sqlite+pysqlite:///{file}"):
            assert [summary.name for summary in list_studies(storage=storage)] == ["s"]
            assert load_study("s", storage=storage).storage == str(file)

    def test_by_default_a_file_right_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ODDARMS_STORAGE", raising=False)
        monkeypatch.chdir(tmp_path)
        make(None)
        assert [path.name for path in tmp_path.glob("*.db")] == ["oddarms.db"]
        assert load_study("s").name == "s"

    def test_the_environment_decides_unless_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ODDARMS_STORAGE", f"sqlite:///{tmp_path}/from_environment.db")
        make(None)
        make("given.db")
        assert sorted(p.name for p in tmp_path.glob("*.db")) == ["from_environment.db", "given.db"]
        monkeypatch.setenv("ODDARMS_STORAGE", "")
        make(None)
        assert (tmp_path / "oddarms.db").exists()

    def test_only_creating_a_study_makes_a_storage(self, file: Path) -> None:
        for empty in (False, True):
            if empty:
                file.touch()
            for call in (load_study, delete_study):
                with pytest.raises(UnknownStudy, match=r"got 's': .*studies.db must be a storage"):
                    call("s", storage=file)
            for look in (list_studies, upgrade_storage):
                with pytest.raises(StorageFailed, match="is not there, or is empty; creating a"):
                    look(storage=file)
            assert file.exists() == empty
        assert file.read_bytes() == b""

    @pytest.mark.parametrize(
        "name", ["with space.db", "what?.db", "a#b%41.db", "é.db", "mode=ro&x.db", ":colon.db"]
    )
    def test_any_file_name(self, tmp_path: Path, name: str) -> None:
        make(tmp_path / name)
        assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == [name]

    def test_memory_lives_as_long_as_the_process(self) -> None:
        study = make("memory", "in memory")
        try:
            study.ask(2)
            for storage in ("memory", ":memory:", "sqlite://", "sqlite:///:memory:"):
                ticket = load_study("in memory", storage=storage).ask(1)[0]
                assert ticket_number(ticket) >= 3
            assert study.storage == "memory"
        finally:
            delete_study("in memory", storage="memory")
        assert "in memory" not in [summary.name for summary in list_studies(storage="memory")]

    @pytest.mark.parametrize(
        "storage",
        [
            "nonsense://x",
            "mysql://root@localhost/db",
            "mysql+pymysql://x/y",
            "oracle://x",
            "ftp://a/b",
            "://x",
            "sqlite+aiosqlite:///x.db",
            5,
            b"bytes.db",
        ],
        ids=repr,
    )
    def test_what_names_no_storage(self, storage: Any) -> None:
        with pytest.raises(
            InvalidParameter,
            match=r"postgresql://USER@HOST/NAME, http://HOST:PORT or memory",
        ):
            make(storage)

    @pytest.mark.parametrize("storage", ["", " ", "sqlite:///", "a\0b.db"])
    def test_a_name_of_nothing(self, storage: str) -> None:
        with pytest.raises(InvalidParameter, match="storage must name a file or a server"):
            make(storage)

    @pytest.mark.parametrize(
        "storage", ["mysql://me:secret@host/db", "postgresql://me:secret@host:port/db"]
    )
    def test_no_password_in_a_message(self, storage: str) -> None:
        with pytest.raises(InvalidParameter, match="storage must be") as caught:
            make(storage)
        assert "secret" not in str(caught.value)

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed, match="cannot be opened: the folder must exist"):
            make(tmp_path / "nowhere" / "studies.db")
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_instead_of_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(StorageFailed, match="cannot be opened"):
            make(tmp_path)


class TestVersions:
    def test_a_newer_one_is_refused(self, file: Path) -> None:
        make(file)
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE oddarms_version SET version_num = '9999'")
        before = file.read_bytes()
        for call in (
            lambda: load_study("s", storage=file),
            lambda: upgrade_storage(storage=file),
            lambda: make(file, "t"),
        ):
            with pytest.raises(StorageFailed, match=r"newer oddarms \(schema 9999.*upgrade oddarms"):
                call()
        assert file.read_bytes() == before

    def test_the_database_of_another_program(self, file: Path) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE bookmarks (url TEXT)")
            connection.execute("INSERT INTO bookmarks VALUES ('x')")
        for call in (lambda: make(file), lambda: upgrade_storage(storage=file)):
            with pytest.raises(StorageFailed, match=r"other tables \(bookmarks\)"):
                call()
        with closing(sqlite3.connect(file)) as connection:
            names = connection.execute("SELECT name FROM sqlite_master").fetchall()
        assert names == [("bookmarks",)]

    def test_an_empty_file_becomes_a_storage(self, file: Path) -> None:
        file.touch()
        make(file)
        assert [summary.name for summary in list_studies(storage=file)] == ["s"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can look into, which pytest's are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        Path(folder).chmod(0o755)


def use(file: Path) -> list[str]:
    """Do everything there is to do with a study; return what a verification says."""
    study = load_study("s", storage=file)
    study.result()
    list(study.trials())
    study.conflicts()
    problems = verify(study).problems
    tickets = study.ask(3)
    study.tell(tickets[0], 0.5)
    list_studies(storage=file)
    assert study.labels
    return problems


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with some thousand results and a saved state."""
    file = tmp_path_factory.mktemp("sound") / "studies.db"
    study = make(file, labels=[f"arm {i}" for i in range(50)], batch=30)
    work(study, 3000)
    study.ask(5)
    first = next(study.trials()).ticket
    assert first is not None
    assert study.tell(first, 0.9) is Told.CONFLICT
    study._database.close()
    assert not list(file.parent.glob("*-wal"))
    copy = file.with_name("copy.db")
    shutil.copy(file, copy)
    assert use(copy) == []
    return file.read_bytes()


class TestDamage:
    def test_what_is_not_a_database(self, file: Path) -> None:
        file.write_text("This is a diary.\n" * 100)
        for call in (lambda: make(file), lambda: list_studies(storage=file)):
            with pytest.raises(StorageFailed, match="not a SQLite file, or it is damaged"):
                call()
        assert file.read_text().startswith("This is a diary.")

    @pytest.mark.parametrize("attempts", [8, pytest.param(50, marks=pytest.mark.long)])
    @pytest.mark.parametrize("kind", ["page", "bytes", "zeros", "cut"])
    def test_is_reported_as_such(
        self, sound: bytes, tmp_path: Path, kind: str, attempts: int
    ) -> None:
        """It works, a verification finds fault, or it is refused: nothing else is raised."""
        rng = random.Random(1)
        refused = 0
        for attempt in range(attempts):
            changed = bytearray(sound)
            place = rng.randrange(100, len(sound) - 4096)
            if kind == "page":
                changed[place : place + 4096] = rng.randbytes(4096)
            elif kind == "bytes":
                changed[place : place + 10] = rng.randbytes(10)
            elif kind == "zeros":
                changed[place : place + 200] = bytes(200)
            else:
                del changed[place:]
            file = tmp_path / f"{attempt}.db"
            file.write_bytes(bytes(changed))
            try:
                use(file)
            except StorageFailed as error:
                refused += 1
                assert "damaged" in str(error) or "whole" in str(error)  # noqa: PT017
        assert refused >= attempts * {"page": 0.6, "bytes": 0.12, "zeros": 0.2, "cut": 1.0}[kind]

    def test_a_damaged_state_is_made_again_from_the_log(self, file: Path) -> None:
        study = make(file)
        work(study, 1500)
        study.ask()
        before = study.result().to_dict()
        with study._database.writing() as connection:
            assert study_rows.saved(connection, study._number).key is not None
            connection.exec_driver_sql("UPDATE snapshots SET content = x'504b0304'")
        again = load_study("s", storage=file)
        assert again.result().to_dict() == before
        (problem,) = verify(again).problems
        assert problem == (
            "the saved state cannot be used: a saved state must be whole but this one is damaged:"
            " File is not a zip file"
        )

    def test_a_result_that_nobody_could_have_told(self, file: Path) -> None:
        study = make(file)
        work(study, 20)
        for column, value in (("arm", 7), ("arm", -1), ("reward", 2.0), ("reward", "'text'")):
            copy = file.with_name(f"{column}{value}.db".replace("'", ""))
            study._database.close()
            shutil.copy(file, copy)
            with closing(sqlite3.connect(copy)) as connection, connection:
                connection.execute(f"UPDATE results SET {column} = {value} WHERE number = 7")
            with pytest.raises(StorageFailed, match="damaged; result 7 is"):
                load_study("s", storage=copy).ask()


class TestRights:
    """Files and folders one may read but not write."""

    @pytest.fixture
    def study(self, open_folder: Path) -> Study:
        study = make(open_folder / "studies.db")
        study._database.close()
        return study

    @pytest.fixture
    def tickets(self, study: Study) -> Tickets:
        tickets = study.ask(2)
        study.tell(tickets[0], 0.75)
        study._database.close()
        return tickets

    def _refused(self, call: Callable[[], object]) -> None:
        with pytest.raises(StorageFailed, match=r"cannot be (written to|opened)"):
            call()

    def _only_read(self, file: Path, ticket: Ticket) -> None:
        """See all that a study holds, and change nothing."""
        again = load_study("s", storage=file)
        assert again.status is Status.RUNNING
        assert again.overview().told == 1
        assert [trial.reward for trial in again.trials()] == [0.75]
        assert verify(again).problems == []
        assert [summary.results for summary in list_studies(storage=file)] == [1]
        for call in (
            lambda: again.tell(ticket, 0.5),
            lambda: again.ask(),
            lambda: again.skip(ticket),
            lambda: again.renew([ticket]),
            lambda: again.import_rewards({"a": [0.5]}),
            lambda: make(file, "t"),
            lambda: delete_study("s", storage=file),
        ):
            self._refused(call)
        again._database.close()

    def test_a_folder_that_cannot_be_written(
        self, study: Study, tickets: Tickets, open_folder: Path
    ) -> None:
        """What it holds can be seen."""
        (open_folder / "studies.db").chmod(0o666)
        open_folder.chmod(0o555)
        with nobody():
            self._only_read(open_folder / "studies.db", tickets[1])
            self._refused(lambda: study.tell(tickets[1], 0.5))
            self._refused(lambda: make(open_folder / "new.db"))
        open_folder.chmod(0o755)
        assert [path.name for path in open_folder.iterdir()] == ["studies.db"]
        assert load_study("s", storage=open_folder / "studies.db").tell(tickets[1], 0.5) == (
            Told.RECORDED
        )

    def test_a_file_that_cannot_be_written(
        self, study: Study, tickets: Tickets, open_folder: Path
    ) -> None:
        """What it holds can be seen."""
        open_folder.chmod(0o777)
        (open_folder / "studies.db").chmod(0o444)
        with nobody():
            self._only_read(open_folder / "studies.db", tickets[1])
        assert [path.name for path in open_folder.iterdir()] == ["studies.db"]
        assert [trial.reward for trial in study.trials()] == [0.75]

    def test_a_file_that_cannot_be_read(self, study: Study, open_folder: Path) -> None:
        (open_folder / "studies.db").chmod(0)
        with nobody():
            self._refused(lambda: list_studies(storage=open_folder / "studies.db"))
            self._refused(lambda: study.status)


def tell_until_refused(study: Study) -> tuple[list[str], list[str], str]:
    """Return the tickets whose results were acknowledged, those left over, and what ended it."""
    told: list[str] = []
    left: list[str] = []
    try:
        while True:
            left += [ticket.id for ticket in study.ask(50, worker="w" * 900)]
            while left:
                study.tell(left[0], 0.5)
                told.append(left.pop(0))
    except StorageFailed as error:
        return told, left, str(error)


def test_a_share_ahead_that_is_huge_is_no_damage(tmp_path: Path) -> None:
    study = make(tmp_path / "studies.db")
    work(study, 30)
    assert len(study.ask(50, ahead=1e308)) == 50


def test_results_of_other_studies_are_not_counted(tmp_path: Path) -> None:
    storage = tmp_path / "studies.db"
    make(storage, "large").import_rewards({"a": [0.5] * 500})
    study = make(storage, "small")
    study.tell_many([(ticket, 0.5) for ticket in study.ask(3, "ann")])
    again = load_study("small", storage=storage)
    assert isinstance(again, StoredStudy)
    assert again.workers_at_once(5) is None, "three tickets and three results"
    found = again.workers_at_once(6)
    assert found is not None
    assert [(one.name, one.pulls) for one in found] == [("ann", 3)]
    make(storage, "larger").import_rewards({"a": [0.5] * 500})
    study.tell(study.ask(1, "ann")[0], 0.5)
    assert again.workers_at_once(1) is None
    assert again.workers_at_once(2) == again.workers()


class TestFullDisks:
    def assert_kept(self, study: Study, told: list[str], file: Path) -> None:
        for opened in (study, load_study("s", storage=file)):
            assert [t.ticket for t in opened.trials() if t.ticket is not None] == told
        assert verify(study).problems == []

    def go_on(self, study: Study, told: list[str], left: list[str]) -> None:
        """Work once there is space again."""
        for ticket in left:
            assert study.tell(ticket, 0.5) is Told.RECORDED
        more = [ticket.id for ticket in study.ask(5)]
        numbers = list(map(ticket_number, more))
        assert numbers == list(range(numbers[0], numbers[0] + 5))
        assert numbers[0] > max(map(ticket_number, told + left))
        assert study.tell_many([(ticket, 0.5) for ticket in more]) == [Told.RECORDED] * 5
        told += left + more

    def test_no_more_pages(self, file: Path) -> None:
        study = make(file)

        def limit(pages: int) -> None:
            with study._database.reading() as connection:
                connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        limit(60)
        told, left, words = tell_until_refused(study)
        assert "the disk is full; nothing of this call was recorded, everything before" in words
        with pytest.raises(StorageFailed, match="the disk is full"):
            study.import_rewards({"a": [0.5] * 10_000})
        assert len(told) > 10
        self.assert_kept(study, told, file)
        limit(100_000)
        self.go_on(study, told, left)
        self.assert_kept(study, told, file)

    def test_no_more_bytes(self, file: Path) -> None:
        """The operating system refuses to let any file grow beyond a size."""
        study = make(file)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
        try:
            told, left, words = tell_until_refused(study)
            with pytest.raises(StorageFailed):
                study.import_rewards({"a": [0.5] * 50_000})
            self.assert_kept(study, told, file)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "the disk failed" in words or "the disk is full" in words
        assert len(told) > 10
        self.go_on(study, told, left)
        self.assert_kept(study, told, file)
        assert all(trial.ticket is not None for trial in study.trials())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name must be a text of 1 to 200 printable characters but got ''"),
    ({"name": "  "}, "name must be"),
    ({"name": "n" * 201}, "name must be"),
    ({"name": "two\nlines"}, "name must be"),
    ({"name": 5}, "name must be.* but got 5"),
    ({"name": None}, "name must be"),
    ({"labels": []}, "arms must be at least 2 but got 0"),
    ({"labels": ["alone"]}, "arms must be at least 2 but got 1"),
    ({"labels": ["a", "b", "a"]}, "labels must be unique but 'a' appears twice"),
    ({"labels": [1, 2, np.int64(1)]}, "labels must be unique but 1 appears twice"),
    (
        {"labels": ["a", 1.5]},
        "labels must be texts or whole numbers where they are stored but got 1.5",
    ),
    ({"labels": ["a", None]}, "labels must be texts or whole numbers.* but got None"),
    ({"labels": ["a", True]}, "labels must be texts or whole numbers.* but got True"),
    ({"labels": ["a", ("b",)]}, "labels must be texts or whole numbers"),
    ({"labels": ["a", ["b"]]}, "labels must be hashable"),
    ({"labels": 5.5}, "labels must be the arms' names, or their number, but got 5.5"),
    ({"labels": 1}, "arms must be at least 2 but got 1"),
    ({"k": float("nan")}, "k must be a finite number but got nan"),
    ({"k": float("inf")}, "k must be a finite number"),
    ({"k": "1"}, "k must be a number but got '1'"),
    ({"k": "2"}, "k must be a number"),
    ({"delta": 0}, "delta must be strictly between 0 and 1 but got 0"),
    ({"delta": 1.0}, "delta must be"),
    ({"delta": "x"}, "delta must be a number"),
    ({"bounds": (1, 1)}, "bounds must be finite with a < b"),
    ({"bounds": (0,)}, "bounds must be two numbers"),
    ({"bounds": (0, float("inf"))}, "bounds must be finite"),
    ({"bounds": None}, "bounds must be two numbers"),
    ({"side": "left"}, "side must be 'upper', 'lower' or 'both' but got 'left'"),
    ({"side": ["upper"]}, "side must be"),
    ({"algorithm": "best"}, "algorithm must be one of ade, .* but got 'best'"),
    ({"algorithm": RR}, "algorithm must be a registered name where a question is written down but"),
    ({"algorithm": 3}, "algorithm must be a name or a class"),
    ({"bach": 5}, "options must be those of RR .* but got 'bach'"),
    ({"batch": 0}, "batch must be a whole number of at least 1"),
    ({"batch": "many"}, "batch must be"),
    ({"batch": {1, 2}}, "options must be plain values where they are written down"),
    ({"batch": lambda: 1}, "options must be plain values where they are written down"),
    ({"rng": -1}, "rng must be a whole number of at least 0 but got -1"),
    ({"rng": 1.5}, "rng must be a whole number"),
    ({"rng": "one"}, "rng must be a whole number"),
    ({"budget": -1}, "budget must be a whole number of at least 0 but got -1"),
    ({"budget": 2.5}, "budget must be a whole number"),
    ({"budget": "much"}, "budget must be a whole number"),
]


class TestArguments:
    @pytest.mark.parametrize(("wrong", "words"), WRONG, ids=lambda value: str(value)[:30])
    def test_a_mistake_is_named_and_leaves_nothing_behind(
        self, file: Path, wrong: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(OddarmsError, match=words):
            make(file, **wrong)
        assert not file.exists()
        make(file, "another")
        with pytest.raises(OddarmsError, match=words):
            make(file, **wrong)
        assert [summary.name for summary in list_studies(storage=file)] == ["another"]
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("SELECT count(*) FROM arms").fetchone() == (3,)

    def test_numbers_of_numpy_are_numbers(self, file: Path) -> None:
        study = make(
            file,
            labels=np.arange(3),
            k=np.int64(1),
            delta=np.float32(0.5),
            bounds=np.array([0, 2]),
            budget=np.int64(100),
            rng=np.uint8(3),
        )
        again = load_study("s", storage=file)
        assert again.question == study.question
        assert (again.question.k, again.question.bounds) == (1.0, (0.0, 2.0))
        assert [type(label) for label in again.labels] == [int, int, int]

    def test_a_name_that_is_taken(self, file: Path) -> None:
        make(file).ask()
        with pytest.raises(DuplicateStudy, match=r"studies.db has a study 's' already: load it"):
            make(file, labels=["x", "y"])
        assert load_study("s", storage=file).labels == ("a", "b", "c")

    def test_a_name_that_is_not_there(self, file: Path) -> None:
        make(file)
        for call in (load_study, delete_study):
            with pytest.raises(UnknownStudy, match=r"but got 't': it has s\."):
                call("t", storage=file)

    def test_an_algorithm_that_cannot_be_saved_is_refused_at_once(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_registry, "_registered", dict(_registry._registered))
        register("hooked", Hooked)
        with pytest.raises(InvalidParameter, match=r"state to be saved must be .*function"):
            make(file, algorithm="hooked")
        assert not file.exists()

    def test_tickets_leases_and_workers(self, file: Path) -> None:
        study = make(file)
        for wrong, words in (
            ({"n": 0}, "n must be a whole number of at least 1"),
            ({"n": 1.5}, "n must be"),
            ({"lease": timedelta(0)}, "lease must be a positive timedelta"),
            ({"lease": 60}, "lease must be a positive timedelta of at most a year but got 60"),
            ({"lease": timedelta.max}, "lease must be a positive timedelta of at most a year"),
            ({"worker": 5}, "worker must be a text"),
            ({"worker": "w" * 1001}, "worker must be a text"),
        ):
            with pytest.raises(InvalidParameter, match=words):
                study.ask(**wrong)  # type: ignore[arg-type]
        tickets = study.ask(10**30, ahead=0)
        assert ticket_number(tickets[-1]) == len(tickets) == 30  # all there is
        first = tickets[0]
        changed = f"2{first.id[1:]}", f"{first.id[:-1]}{'b' if first.id[-1] == 'a' else 'a'}"
        for ticket in (0, -1, 1, 1.5, "1", None, 2**70, first.id.upper(), f" {first.id}", *changed):
            with pytest.raises(InvalidParameter, match="ticket must be"):
                study.tell(ticket, 0.5)  # type: ignore[arg-type]
            with pytest.raises(InvalidParameter, match="ticket must be"):
                study.skip(ticket)  # type: ignore[arg-type]
            with pytest.raises(InvalidParameter, match="ticket must be"):
                study.renew([ticket])  # type: ignore[list-item]
        for reward in ("0.5", None, [0.5], 1j, float("nan"), 1.01, -0.01, 10**400):
            with pytest.raises(RewardRejected, match="reward"):
                study.tell(first, reward)  # type: ignore[arg-type]
        assert list(study.trials()) == []
        values = (True, 1, np.float32(0.5), np.int8(0), np.bool_(False))
        for given, value in zip(tickets, values, strict=False):
            assert study.tell(given.id, value) is Told.RECORDED  # type: ignore[arg-type]
        assert [trial.reward for trial in study.trials()] == [1.0, 1.0, 0.5, 0.0, 0.0]

    def test_results_nobody_asked_for(self, file: Path) -> None:
        study = make(file)
        for history in ({"nobody": [0.5]}, {"a": [0.5], 7: [0.5]}, {1.5: [0.5]}):
            with pytest.raises(InvalidParameter, match=r"(arm|labels) must be"):
                study.import_rewards(history)
        for rewards in ([0.5, 2.0], ["x"], [[0.5, 0.5]], [None]):
            with pytest.raises(RewardRejected, match="reward"):
                study.import_rewards({"b": [0.5], "a": rewards})
        with pytest.raises(InvalidParameter, match="key must be a text of up to 64"):
            study.import_rewards({"a": [0.5]}, key="k" * 65)
        assert list(study.trials()) == []
        assert study.import_rewards({"a": 0.5}) == 1
        assert study.import_rewards({"a": []}) == 0
        assert study.import_rewards({}) == 0
        assert study.import_rewards({"b": np.array([0.5, 1.0]), "c": (1,)}, key="k") == 3
        assert study.import_rewards({"b": np.array([0.5, 1.0]), "c": (1,)}, key="k") == 0
        assert [trial.arm for trial in study.trials()] == ["a", "b", "b", "c"]


class Hooked(RR):
    """Keeps a function, which cannot be stored."""

    def __init__(self, n: int, **arguments: Any) -> None:
        arguments.pop("batch", None)
        super().__init__(n, **arguments)
        self.hook = make


class TestTexts:
    def test_values_are_never_part_of_a_statement(self, file: Path) -> None:
        labels = [*NASTY, "\0", "\ud800", "line\nbreak", "x" * 10_000, "", 1, "1", -(2**80)]
        for name in NASTY:
            study = make(file, name, labels=labels)
            assert study.labels == load_study(name, storage=file).labels == tuple(labels)
            tickets = study.ask(len(labels) * 10, worker=NASTY[0])
            assert {ticket.arm for ticket in tickets} == set(labels)
            for ticket, text in zip(tickets, NASTY, strict=False):
                study.tell(ticket, 0.5, worker=text)
                study.tell(ticket, 0.75, worker=text)
                study.skip(ticket, text + "\0\ud800")
            assert [trial.worker for trial in study.trials()] == NASTY
            assert [conflict.worker for conflict in study.conflicts()] == NASTY
            for label in labels:
                assert study.import_rewards({label: [0.5]}, key=str(labels.index(label))) == 1
            assert [trial.arm for trial in study.trials()][len(NASTY) :] == labels
            assert verify(study).problems == []
        assert {summary.name for summary in list_studies(storage=file)} == set(NASTY)
        delete_study(NASTY[0], storage=file)
        assert {summary.name for summary in list_studies(storage=file)} == set(NASTY[1:])
        assert len(list(load_study(NASTY[1], storage=file).trials())) == len(labels) + len(NASTY)

    def test_a_deleted_study_is_not_the_next_of_its_name(self, file: Path) -> None:
        stale = make(file)
        old = stale.ask(3)
        delete_study("s", storage=file)
        fresh = make(file)
        for call in (
            stale.ask,
            stale.result,
            lambda: stale.status,
            lambda: stale.tell(old[0], 0.5),
            lambda: stale.tell_many([(ticket, 0.5) for ticket in old]),
            lambda: stale.skip(old[0]),
            lambda: stale.renew(old),
            lambda: stale.import_rewards({"a": [0.5]}),
        ):
            with pytest.raises(UnknownStudy, match="was deleted"):
                call()
        new = fresh.ask(2)
        assert list(map(ticket_number, new)) == [1, 2]
        with pytest.raises(UnknownStudy, match="was deleted"):
            stale.tell(old[0], 0.5)
        for study, tickets in ((stale, new), (fresh, old)):
            with pytest.raises(InvalidParameter, match="it is of another study, perhaps of a del"):
                study.tell(tickets[0], 0.5)
        assert list(fresh.trials()) == []


class TestSize:
    def test_a_great_many_arms(self, file: Path) -> None:
        n = 60_000
        labels = [f"worker {i}" for i in range(n)]
        study = create_study("s", labels, k=3, delta=0.05, storage=file)
        assert study.ask(3)[2].arm == "worker 2"
        again = load_study("s", storage=file)
        tickets = again.ask(5000)
        assert [ticket.arm for ticket in tickets] == [f"worker {i}" for i in range(3, 5003)]
        assert set(again.tell_many([(ticket, 0.5) for ticket in tickets])) == {Told.RECORDED}
        assert again.import_rewards({f"worker {n - 1}": [0.5]}) == 1
        assert [trial.arm for trial in again.trials()][-1] == f"worker {n - 1}"
        assert again.status is Status.RUNNING

    def test_only_the_saved_state_and_what_came_after_are_read(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read: list[int] = []

        def counted(*arguments: Any, **options: Any) -> Iterator[Any]:
            for rows in original(*arguments, **options):
                read.append(len(rows))
                yield rows

        original = result_rows.result_rows
        monkeypatch.setattr(result_rows, "result_rows", counted)
        study = make(file, batch=50)
        work(study, 6000)
        assert sum(read) <= 6000  # each result once
        expected = study.result().to_dict()
        read.clear()
        again = load_study("s", storage=file)
        assert again.result().to_dict() == expected
        assert 0 < sum(read) < 1500
        read.clear()
        again.ask()
        study.ask()
        assert read == []  # nothing new, nothing read
        assert verify(again).problems == []


class TestThreads:
    @pytest.mark.parametrize("storage", ["file", "memory"])
    @pytest.mark.parametrize("copies", [1, 3])
    def test_at_work_on_one_study(self, file: Path, storage: str, copies: int) -> None:
        where: Any = file if storage == "file" else "memory"
        study = make(where, "threads")
        try:
            studies = [study, *(load_study("threads", storage=where) for _ in range(copies - 1))]
            seen: list[str] = []
            wrong: list[BaseException] = []

            def worker(number: int) -> None:
                mine = studies[number % copies]
                try:
                    for turn in range(15):
                        tickets = mine.ask(3, worker=str(number))
                        for ticket in tickets:
                            assert mine.tell(ticket, 0.5) is Told.RECORDED
                        seen.extend(ticket.id for ticket in tickets)
                        if turn % 5 == number % 5:
                            mine.import_rewards({"a": [0.5, 0.75]})
                            assert len(list(mine.trials())) > 0
                            mine.result()
                            mine.status  # noqa: B018
                except BaseException as error:
                    wrong.append(error)

            threads = [threading.Thread(target=worker, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wrong == []
            assert len(seen) == len(set(seen))
            trials = list(study.trials())
            assert sorted(t.ticket for t in trials if t.ticket is not None) == sorted(seen)
            assert sum(trial.ticket is None for trial in trials) == 6 * 3 * 2
            assert verify(study).problems == []
        finally:
            delete_study("threads", storage=where)

    def test_telling_while_going_through_the_trials(self, file: Path) -> None:
        for where in (file, "memory"):
            study = make(where, "trials")
            work(study, 10)
            tickets = study.ask(20)
            try:
                for trial, ticket in zip(study.trials(), tickets, strict=False):
                    assert study.tell(ticket, trial.reward) is Told.RECORDED
                assert len(list(study.trials())) == 20
            finally:
                delete_study("trials", storage=where)

    def test_creating_many_storages_at_once(self, tmp_path: Path) -> None:
        wrong: list[BaseException] = []

        def worker(number: int) -> None:
            try:
                make(tmp_path / f"{number % 3}.db", f"study {number}").ask()
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=worker, args=(i,)) for i in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        for number in range(3):
            names = [s.name for s in list_studies(storage=tmp_path / f"{number}.db")]
            assert names == [f"study {i}" for i in range(9) if i % 3 == number]


class TestBudget:
    def test_late_results_can_use_it_up_in_mid_step(self, file: Path) -> None:
        """Then the step cannot be finished, and the result says so as the status does."""
        study = make(file, batch=1, budget=4, labels=["a", "b"])
        first = study.ask(1, lease=timedelta(microseconds=1))
        again = study.ask(1, lease=timedelta(microseconds=1))
        third = study.ask(1, lease=timedelta(microseconds=1))
        assert [t.arm for t in (*first, *again, *third)] == ["a", "a", "a"]
        for ticket in (*first, *again, *third):
            study.tell(ticket, 0.5)
        tickets = study.ask(10)
        assert [ticket.arm for ticket in tickets] == ["b"]
        assert tickets.status is Status.WAITING
        study.tell(tickets[0], 0.5)  # the first step, and arm a's next turn
        assert study.status is Status.BUDGET
        assert study.ask(10).status is Status.BUDGET
        assert study.result().status is Status.BUDGET
        assert study.result().pulls == 3

    def test_pulls_that_are_out_count_against_it(self, file: Path) -> None:
        study = make(file, batch=3, budget=6, labels=["a", "b"])
        moment = timedelta(microseconds=1)
        tickets = [*study.ask(3, lease=moment), *study.ask(3, lease=moment)]
        assert {ticket.arm for ticket in tickets} == {"a"}
        study.tell_many([(ticket, 0.5) for ticket in tickets[:5]])  # two more than the step wants
        last = study.ask(2)
        assert ([ticket.arm for ticket in last], last.status) == (["b"], Status.WAITING)
        assert study.ask(2) == []
        study.skip(last[0])
        assert [ticket.arm for ticket in study.ask(2)] == ["b"]

    @pytest.mark.parametrize("ahead", [0.0, 0.15])
    def test_what_nobody_asked_for_costs_nothing(self, file: Path, ahead: float) -> None:
        study = make(file, batch=1, budget=4, labels=["a", "b"])
        assert study.import_rewards({"a": [0.5] * 20, "b": [0.5] * 20}) == 40
        assert (study.result().pulls, study.result().imported) == (0, 40)
        assert study.status is Status.RUNNING
        work(study, 4, ahead)
        assert study.status is Status.BUDGET
        found = study.result()
        assert (found.pulls, found.imported, found.unused) == (4, 40, 0)
        assert found.unused == 0 or ahead > 0

    def test_asking_for_exactly_what_is_left(self, file: Path) -> None:
        study = make(file, batch=2, labels=["a", "b"])
        assert study.ask(3, ahead=0).status is Status.RUNNING
        last = study.ask(1, ahead=0)
        assert (len(last), last.status) == (1, Status.WAITING)
        assert study.ask(1, ahead=0) == []
        assert study.status is Status.RUNNING  # there are pulls of later steps
