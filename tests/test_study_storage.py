"""Files with studies: names, rights, full disks, damage, and every way to misuse them."""

from __future__ import annotations

import gc
import itertools
import os
import random
import resource
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from helpers import nobody, ticket_number
from oddarms import Search, Study, delete_study, list_studies, load_study
from oddarms.algorithms import Algorithm
from oddarms.errors import InvalidParameter, OddarmsError, StorageFailed, UnknownStudy
from oddarms.search import Status, Ticket
from oddarms.studies import Told
from small_studies import make, work


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "studies.db"


def change(file: Path, *statements: str) -> None:
    """Change a file as nobody should."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def made(file: Path, results: int = 0, **words: Any) -> list[Ticket]:
    """Make a study that nobody has open; return two tickets that are out."""
    study = make(file, **words)
    work(study, results)
    tickets = study.ask(2)
    del study
    gc.collect()
    assert not file.with_name(f"{file.name}-wal").exists()
    return list(tickets)


class TestNames:
    def test_a_path_a_text_and_a_url_are_the_same_file(self, file: Path) -> None:
        make(file)
        for storage in (file, str(file), f"sqlite:///{file}", f"sqlite+pysqlite:///{file}"):
            assert [summary.name for summary in list_studies(storage=storage)] == ["s"]
            assert load_study("s", storage=storage).storage == str(file)

    def test_by_default_a_file_right_here_unless_the_environment_says_otherwise(
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
                with pytest.raises(UnknownStudy, match=r"studies.db does not exist"):
                    call("s", storage=file)
            with pytest.raises(UnknownStudy, match=r"does not exist, or has no studies"):
                list_studies(storage=file)
            assert file.exists() == empty
        assert file.read_bytes() == b""
        make(file)
        assert [summary.name for summary in list_studies(storage=file)] == ["s"]

    def test_any_file_name(self, tmp_path: Path) -> None:
        names = ["with space.db", "what?.db", "a#b%41.db", "é.db", "mode=ro&x.db", ":colon.db"]
        for name in names:
            make(tmp_path / name)
        assert {path.name for path in tmp_path.iterdir() if path.suffix == ".db"} == set(names)

    def test_what_names_no_storage(self) -> None:
        urls = ["nonsense://x", "mysql://me:secret@localhost/db", "ftp://a/b", "://x"]
        urls += ["sqlite+aiosqlite:///x.db", "postgresql://me:secret@host:port/db"]
        for storage in [*urls, 5, b"bytes.db", "", " ", "sqlite:///", "a\0b.db"]:
            with pytest.raises(InvalidParameter, match=r"storage (must|is a URL that)") as caught:
                make(storage)
            assert "secret" not in str(caught.value)

    def test_a_missing_folder_and_a_folder_instead_of_a_file(self, tmp_path: Path) -> None:
        for file in (tmp_path / "nowhere" / "studies.db", tmp_path):
            with pytest.raises(StorageFailed, match="cannot be opened: the folder must exist"):
                make(file)
        assert list(tmp_path.iterdir()) == []


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"labels": ["alone"]}, "2"),
    ({"labels": ["a", "b", "a"]}, "'a'"),
    ({"labels": ["a", 1.5]}, "label"),
    ({"labels": ["a", None]}, "label"),
    ({"labels": ["a", True]}, "label"),
    ({"labels": 5.5}, "label"),
    ({"k": float("nan")}, "k must be"),
    ({"delta": 1.0}, "delta must be"),
    ({"bounds": (0, float("inf"))}, "bounds must be"),
    ({"side": "left"}, "side must be"),
    ({"algorithm": "best"}, "'best'"),
    ({"algorithm": Algorithm}, "register it under a name"),
    ({"bach": 5}, "'bach'"),
    ({"batch": 0}, "batch must be"),
    ({"batch": lambda: 1}, "option"),
    ({"rng": 1.5}, "rng must be"),
    ({"budget": 2.5}, "budget must be"),
]


def test_a_mistake_is_named_and_leaves_nothing_behind(file: Path) -> None:
    for wrong, words in WRONG:
        with pytest.raises(OddarmsError, match=words):
            make(file, **wrong)
    assert not file.exists()
    make(file, "another")
    for wrong, words in WRONG:
        with pytest.raises(OddarmsError, match=words):
            make(file, **wrong)
    assert [summary.name for summary in list_studies(storage=file)] == ["another"]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM arms").fetchone() == (3,)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can look into, which pytest's are not."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)
        Path(made).chmod(0o755)


class TestRights:
    def test_only_the_owner_reads_a_file_unless_the_owner_says_otherwise(
        self, tmp_path: Path, file: Path
    ) -> None:
        def modes() -> set[int]:
            names = ["studies.db", "studies.db-shm", "studies.db-wal"]
            assert sorted(path.name for path in tmp_path.iterdir()) == names
            return {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names}

        before = os.umask(0o022)
        try:
            study = make(file)
            study.ask()
            assert modes() == {0o600}
            del study
            gc.collect()
            file.chmod(0o660)
            load_study("s", storage=file).ask()
            study = load_study("s", storage=file)
            study.ask()
            assert modes() == {0o660}
        finally:
            os.umask(before)

    @pytest.mark.parametrize("what", ["folder", "file"])
    def test_what_cannot_be_written_can_be_read(self, folder: Path, what: str) -> None:
        file = folder / "studies.db"
        ticket, _ = made(file, 40)
        file.chmod(0o666 if what == "folder" else 0o444)
        folder.chmod(0o555 if what == "folder" else 0o777)
        with nobody():
            study = load_study("s", storage=file)
            assert (study.status, study.overview().told) == (Status.RUNNING, 40)
            assert len(list(study.trials())) == 40
            assert study.verify().problems == []
            assert [summary.results for summary in list_studies(storage=file)] == [40]
            calls: list[Callable[[Study], object]] = [
                lambda study: study.tell(ticket, 0.5),
                lambda study: study.ask(),
                lambda study: study.skip(ticket),
                lambda study: study.renew([ticket]),
                lambda study: study.add_history({"a": [0.5]}),
                lambda _: make(file, "t"),
                lambda _: delete_study("s", storage=file),
            ]
            for call in calls:
                with pytest.raises(StorageFailed, match=r"cannot be (written to|opened)"):
                    call(study)
            del study
            gc.collect()
        folder.chmod(0o755)
        assert [path.name for path in folder.iterdir()] == ["studies.db"]
        assert load_study("s", storage=file).tell(ticket, 0.5) is Told.RECORDED

    def test_who_may_only_read_sees_what_others_write(self, folder: Path) -> None:
        study = make(folder / "studies.db")
        work(study, 40)
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        with nobody():
            again = load_study("s", storage=folder / "studies.db")
            assert again.overview().told == 40
        study.tell(study.ask()[0], 0.5)
        with nobody():
            assert again.overview().told == 41


class TestClocks:
    @pytest.mark.parametrize("off", [3600.0, -3600.0])
    def test_a_wrong_time_of_day_changes_no_lease(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, off: float
    ) -> None:
        study = make(file)
        first, ended = study.ask(5, lease=300), study.ask(5, lease=1e-6)
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + off)
        asked = load_study("s", storage=file).ask(100, lease=300, prefetch=0)
        places = {(t.index, t.place) for t in asked}
        assert not places & {(t.index, t.place) for t in first}
        assert places >= {(t.index, t.place) for t in ended}
        monkeypatch.undo()
        assert not study.ask(100, prefetch=0)
        assert study.overview().live == 30

    def test_leases_end_with_the_machine(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        study = make(file)
        before = study.ask(30, prefetch=0)
        assert not study.ask(30, prefetch=0)
        monkeypatch.setattr("oddarms.studies._database.boot", lambda: 1)
        monkeypatch.setattr("oddarms.studies._database.steady", lambda: 0.0)
        again = study.ask(30, prefetch=0)
        assert [(t.index, t.place) for t in again] == [(t.index, t.place) for t in before]
        assert study.tell(before[0], 0.5) is Told.RECORDED


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
        calls: list[Callable[[], object]] = [
            lambda: study.tell(tickets[1], 0.5),
            lambda: study.tell_many([(tickets[1], 0.5), (tickets[2], 0.5)]),
            study.ask,
        ]
        for call in calls:
            with pytest.raises(StorageFailed, match="the file was removed or replaced"):
                call()
        for path in list(tmp_path.glob("away-*")):
            path.rename(path.with_name(path.name.removeprefix("away-")))
        assert study.tell(tickets[1], 0.5) is Told.RECORDED
        assert len(list(load_study("s", storage=file).trials())) == 2

    def test_a_ticket_that_a_restored_backup_does_not_know(self, file: Path) -> None:
        """It is refused, and its number is not taken for that of another pull."""
        made(file)
        shutil.copy(file, file.with_name("backup.db"))
        study = load_study("s", storage=file)
        early, late = study.ask(2)
        again = load_study("s", storage=file.with_name("backup.db"))
        with pytest.raises(InvalidParameter, match="restored from an older backup"):
            again.tell_many([(early, 0.5)])
        other = next(t for t in again.ask(30) if t.id.split(".")[0] == late.id.split(".")[0])
        if other.id != late.id:
            assert again.tell(other, 0.5) is Told.RECORDED
            with pytest.raises(InvalidParameter, match="restored from an older backup"):
                again.tell(late, 0.5)
        assert again.verify().ok

    def test_a_refused_result_does_not_spoil_those_told_at_the_same_time(self, file: Path) -> None:
        """Calls that wait for the same lock become one transaction."""
        made(file)
        shutil.copy(file, file.with_name("backup.db"))
        unknown = load_study("s", storage=file).ask(8)
        again = load_study("s", storage=file.with_name("backup.db"))
        tickets = again.ask(3)
        refused: list[str] = []

        def tell(ticket: Ticket) -> None:
            try:
                assert again.tell(ticket, 0.5) is Told.RECORDED
            except InvalidParameter as error:
                refused.append(str(error))

        late = [ticket for ticket in unknown if ticket_number(ticket.id) > 5]
        threads = [threading.Thread(target=tell, args=[t]) for t in [*late, *tickets]]
        with closing(sqlite3.connect(file.with_name("backup.db"))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for thread in threads:
                thread.start()
            time.sleep(0.2)
            connection.rollback()
        for thread in threads:
            thread.join()
        assert len(refused) == len(late) > 0
        assert all("restored from an older backup" in text for text in refused)
        assert {trial.ticket for trial in again.trials()} == {ticket.id for ticket in tickets}


class TestFullDisks:
    @staticmethod
    def fill(study: Study) -> tuple[list[str], list[str], str]:
        """Return acknowledged tickets, those left over, and what ended it."""
        told: list[str] = []
        left: list[str] = []
        try:
            while True:
                left += [ticket.id for ticket in study.ask(50, worker="w" * 500)]
                while left:
                    study.tell(left[0], 0.5)
                    told.append(left.pop(0))
        except StorageFailed as error:
            return told, left, str(error)

    def test_what_was_acknowledged_is_there_and_work_goes_on(self, file: Path) -> None:
        """The operating system refuses to let any file grow beyond a size."""
        study = make(file)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, hard))
        try:
            told, left, words = self.fill(study)
            with pytest.raises(StorageFailed):
                study.add_history({"a": [0.5] * 50_000})
            self.assert_kept(study, told, file)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "the disk failed" in words or "the disk is full" in words
        assert len(told) > 10
        assert study.tell_many([(ticket, 0.5) for ticket in left]) == [Told.RECORDED] * len(left)
        more = [ticket.id for ticket in study.ask(5)]
        assert min(map(ticket_number, more)) > max(map(ticket_number, told + left))
        study.tell_many([(ticket, 0.5) for ticket in more])
        self.assert_kept(study, told + left + more, file)

    def assert_kept(self, study: Study, told: list[str], file: Path) -> None:
        for opened in (study, load_study("s", storage=file)):
            assert sorted(t.ticket or "" for t in opened.trials()) == sorted(told)
        assert study.verify().problems == []


def use(file: Path) -> list[str]:
    """Do everything there is to do with a study; return what a verification says."""
    study = load_study("s", storage=file)
    study.result()
    list(study.trials())
    study.conflicts()
    study.workers()
    problems = study.verify().problems
    tickets = study.ask(3)
    study.tell(tickets[0], 0.5)
    list_studies(storage=file)
    assert study.labels
    return problems


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with some thousand results."""
    file = tmp_path_factory.mktemp("sound") / "studies.db"
    made(file, 3000, labels=[f"arm {i}" for i in range(50)], batch=30)
    shutil.copy(file, file.with_name("copy.db"))
    assert use(file.with_name("copy.db")) == []
    return file.read_bytes()


class TestDamage:
    def test_what_is_not_a_database(self, file: Path) -> None:
        file.write_text("This is a diary.\n" * 100)
        for call in (lambda: make(file), lambda: list_studies(storage=file)):
            with pytest.raises(StorageFailed, match="not a SQLite file, or it is damaged"):
                call()
        assert file.read_text().startswith("This is a diary.")

    @pytest.mark.parametrize("attempts", [6, pytest.param(50, marks=pytest.mark.long)])
    @pytest.mark.parametrize("kind", ["page", "bytes", "zeros", "cut"])
    def test_is_reported_as_such(
        self, sound: bytes, tmp_path: Path, kind: str, attempts: int
    ) -> None:
        """It works, a verification finds fault, or it is refused: nothing else is raised."""
        rng = random.Random(1)
        noticed = 0
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
                noticed += bool(use(file))
            except StorageFailed as error:
                noticed += 1
                assert "damaged" in str(error)  # noqa: PT017
        assert noticed >= attempts * {"page": 0.8, "bytes": 0.12, "zeros": 0.3, "cut": 1.0}[kind]

    def test_what_nobody_could_have_stored_is_noticed(self, sound: bytes, file: Path) -> None:
        refused = [f"UPDATE results SET {what} WHERE id = 7" for what in ("arm = 77", "arm = -1")]
        refused += ["UPDATE results SET reward = 2.0 WHERE id = 7"]
        refused += [
            f"UPDATE studies SET {column} = '{value}'"
            for column in ("question", "seed", "budgets")
            for value in ("", "[", "[]")
        ]
        refused += [
            "UPDATE arms SET label = '{' WHERE number = 1",
            "UPDATE arms SET label = '\"a' || char(34) WHERE number < 2",
            "UPDATE arms SET number = 777 WHERE number = 1",
        ]
        files = (file.with_name(f"{number}.db") for number in itertools.count())  # open ones last
        for statement, own in zip(refused, files, strict=False):
            own.write_bytes(sound)
            change(own, statement)
            with pytest.raises(StorageFailed, match="it is damaged"):
                load_study("s", storage=own).ask()
        noticed = (
            "DELETE FROM results WHERE id = 7",
            "DELETE FROM results",
            "DELETE FROM results WHERE id > 15",
            "UPDATE studies SET tickets = 3",
            refused[0],
        )
        for statement, own in zip(noticed, files, strict=False):
            own.write_bytes(sound)
            change(own, statement)
            assert load_study("s", storage=own).verify().problems, statement

    def test_values_of_a_wrong_kind_are_refused_by_the_database(
        self, sound: bytes, file: Path
    ) -> None:
        file.write_bytes(sound)
        for column in ("ticket", "arm", "place", "told"):
            for value in ("x'00'", "'a'", *(["1.5"] if column != "told" else [])):
                with pytest.raises(sqlite3.IntegrityError, match="cannot store"):
                    change(file, f"UPDATE results SET {column} = {value}")


class TestReplay:
    def test_only_what_is_new_is_read(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        study, other = make(file), load_study("s", storage=file)
        work(study, 600)
        other.ask()
        study.ask()
        tickets = study.ask(7)
        study.tell_many([(ticket, 0.5) for ticket in tickets])
        sizes: list[int] = []
        load = Search.load

        def counted(search: Search, *columns: Any) -> None:
            sizes.append(len(columns[0]))
            load(search, *columns)

        monkeypatch.setattr(Search, "load", counted)
        other.ask()
        other.ask()
        other.result()
        assert sizes == [7]
