"""Databases of somebody else, files that were made to do harm, and passwords."""

from __future__ import annotations

import gc
import shutil
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from helpers import Run
from oddarms import (
    delete_study,
    list_studies,
    load_study,
)
from oddarms.errors import InvalidParameter, OddarmsError, StorageFailed
from postgresql import Server
from small_studies import make

PULL = "true {arm}"
OTHERS = {
    "of another application": (
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
        "INSERT INTO alembic_version VALUES ('0003')",
        "CREATE TABLE users (name TEXT)",
    ),
    "of one that has studies, too": (
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
        "INSERT INTO alembic_version VALUES ('v3.2.0.a')",
        "CREATE TABLE studies (study_id INTEGER, study_name TEXT)",
        "CREATE TABLE trials (trial_id INTEGER, study_id INTEGER)",
    ),
    "whose tables are named as ours": (
        "CREATE TABLE studies (id INTEGER)",
        "CREATE TABLE arms (id INTEGER)",
        "CREATE TABLE results (id INTEGER)",
    ),
    "with a view alone": ("CREATE VIEW v AS SELECT 1 AS one",),
    "with half of ours": (
        "CREATE TABLE oddarms (version BIGINT NOT NULL)",
        "INSERT INTO oddarms VALUES (1)",
        "CREATE TABLE results (x INTEGER)",
    ),
}


class TestForeignDatabases:
    CALLS: tuple[Callable[[str], object], ...] = (
        make,
        lambda storage: load_study("s", storage=storage),
        lambda storage: list_studies(storage=storage),
        lambda storage: delete_study("s", storage=storage),
    )

    @pytest.mark.parametrize("kind", OTHERS)
    def test_a_file_is_not_altered(self, tmp_path: Path, kind: str) -> None:
        file = tmp_path / "theirs.db"
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in OTHERS[kind]:
                connection.execute(statement)
        before = file.read_bytes()
        for call in self.CALLS:
            with pytest.raises(StorageFailed, match=r"other tables \(.*not touched|did not create"):
                call(str(file))
        assert file.read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["theirs.db"]

    def test_nor_is_a_server(self, postgresql: Server) -> None:
        import psycopg

        names = "SELECT relname, xmin FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        for statements in OTHERS.values():
            url = postgresql.new_database()
            with psycopg.connect(url) as connection:
                for statement in statements:
                    connection.execute(statement)  # type: ignore[arg-type]
                connection.commit()
                before = connection.execute(names).fetchall()
                for call in self.CALLS:
                    with pytest.raises(StorageFailed, match=r"other tables \(.*not touched"):
                        call(url)
                assert connection.execute(names).fetchall() == before

    def test_what_another_program_has_left_in_its_log_stays_there(self, tmp_path: Path) -> None:
        file = tmp_path / "theirs.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE bookmarks (url TEXT)")
            connection.execute("PRAGMA wal_checkpoint")
            connection.execute("INSERT INTO bookmarks VALUES ('x')")
            connection.commit()
            for name in ("theirs.db", "theirs.db-wal"):
                (tmp_path / f"copy-{name}").write_bytes((tmp_path / name).read_bytes())
        copies = sorted(tmp_path.glob("copy-*"))
        before = [path.read_bytes() for path in copies]
        with pytest.raises(StorageFailed, match="which were not touched"):
            list_studies(storage=copies[0])
        assert sorted(tmp_path.glob("copy-*")) == copies
        assert [path.read_bytes() for path in copies] == before

    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE TRIGGER t AFTER INSERT ON tickets BEGIN DELETE FROM results; END"],
            ["CREATE VIEW v AS SELECT 1"],
            ["ALTER TABLE studies ADD COLUMN more TEXT AS (hex(zeroblob(450000000)))"],
            ["DROP TABLE workers", "CREATE TABLE workers (study, name, results)"],
            ["DROP TABLE imports", "CREATE VIEW imports AS SELECT 1 AS study, 'k' AS key"],
        ],
        ids=["trigger", "view", "computed column", "any type", "view as a table"],
    )
    def test_a_file_with_tables_of_another_kind_is_not_run(
        self, tmp_path: Path, statements: list[str]
    ) -> None:
        file = tmp_path / "studies.db"
        self.changed(file, *statements)
        before = file.read_bytes()
        for call in self.CALLS:
            with pytest.raises(StorageFailed, match=r"did not create.*none of them was run"):
                call(str(file))
        assert file.read_bytes() == before

    def test_nor_is_what_is_in_its_log_only(self, tmp_path: Path) -> None:
        file, written = tmp_path / "studies.db", tmp_path / "written.db"
        self.changed(written)
        with closing(sqlite3.connect(written)) as connection:
            connection.execute("CREATE TRIGGER t AFTER INSERT ON tickets BEGIN SELECT 1; END")
            for ending in ("", "-wal"):
                shutil.copy(f"{written}{ending}", f"{file}{ending}")
        for call in self.CALLS:
            with pytest.raises(StorageFailed, match=r"did not create.*\(t\).*none of them was run"):
                call(str(file))

    @staticmethod
    def changed(file: Path, *statements: str) -> None:
        """Make a study and change its file, which nobody has open then."""
        make(file)
        gc.collect()
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def test_a_version_that_never_ends(self, tmp_path: Path) -> None:
        file = tmp_path / "endless.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(
                "CREATE VIEW oddarms AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL"
                " SELECT x + 1 FROM c) SELECT count(*) AS version FROM c"
            )
        with pytest.raises(StorageFailed, match="none of them was run"):
            list_studies(storage=file)

    def test_another_version_is_not_altered(self, tmp_path: Path) -> None:
        file = tmp_path / "studies.db"
        self.changed(file, "UPDATE oddarms SET version = 9999", "DROP TABLE imports")
        self.changed(file.with_name("other.db"), "UPDATE oddarms SET version = 9999")
        for path in (file, file.with_name("other.db")):
            before = path.read_bytes()
            for call in self.CALLS:
                with pytest.raises(StorageFailed, match=r"another version|other tables"):
                    call(str(path))
            assert path.read_bytes() == before


SECRET = "hunter2"
WITH_SECRET = [
    f"postgresql://me:{SECRET}@127.0.0.1:1/db",
    f"postgresql://me@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://127.0.0.1:1/db?user=me&password={SECRET}&sslpassword={SECRET}",
    f"host=127.0.0.1 port=1 dbname=db user=me password={SECRET}",
    f"password='{SECRET}' host=127.0.0.1 port=1",
    f"postgres://me:{SECRET}@127.0.0.1:port/db",
    f"postgresql://me:{SECRET}@[::1/db",
    f"mysql://me:{SECRET}@127.0.0.1/db",
    f"mysql://127.0.0.1/db?password={SECRET}",
    f"host=127.0.0.1 password={SECRET} nonsense",
    f"host=127.0.0.1 port=none password={SECRET}",
    f"gssencmode=disable host=127.0.0.1 port=1 password={SECRET}",
    f"HOST=127.0.0.1 PASSWORD={SECRET}",
    f"postgresql:/me:{SECRET}@127.0.0.1/db",
    f"me:{SECRET}@127.0.0.1/db",
    f"postgresql://me:p@{SECRET}@127.0.0.1:1/db",
    f"postgresql://domain/me:{SECRET}@127.0.0.1:1/db",
    f"postgresql://127.0.0.1:1/db?conninfo=password%3D{SECRET}",
    f"postgresql://127.0.0.1:1/db?pass={SECRET}",
    f"postgresql://127.0.0.1:1/db?options=-cx%3D{SECRET}",
    f"host=127.0.0.1 port=1 dbname=postgresql://me:{SECRET}@127.0.0.1/db",
    f"postgresql://127.0.0.1:1/db?autocommit=1&password={SECRET}",
]


class TestSecrets:
    @pytest.mark.parametrize("storage", WITH_SECRET)
    def test_no_password_in_any_error(
        self, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for call in TestForeignDatabases.CALLS:
            with pytest.raises(OddarmsError) as caught:
                call(storage)
            said = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
            assert SECRET not in said.replace(storage, "")  # pytest's own lines have the argument
            assert SECRET not in str(caught.value)
            cause = caught.value.__cause__
            while cause is not None:
                assert SECRET not in str(cause)
                cause = cause.__cause__
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("storage", WITH_SECRET)
    @pytest.mark.parametrize("how", ["option", pytest.param("environment", marks=pytest.mark.long)])
    def test_nor_in_what_the_shell_says(
        self, run_command: Run, storage: str, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = ["--storage", storage] if how == "option" else []
        if how == "environment":
            monkeypatch.setenv("ODDARMS_STORAGE", storage)
        commands = [
            ("study", "list"),
            ("study", "show", "s"),
            ("study", "create", "s", "--arms", "a,b"),
        ]
        if how == "option":
            commands.append(("study", "work", "s", "--pull", PULL, "--retry-for", "0s"))
        for command in commands:
            ran = run_command(*command, *words)
            assert ran.code in (1, 2)
            assert ran.err.startswith("error: ")
            assert SECRET not in ran.out + ran.err

    def test_nor_where_it_is_given_in_the_wrong_place(self, run_command: Run) -> None:
        for command in (("study", "list"), ("study", "show"), ("study", "list", "--format"), ()):
            ran = run_command(*command, WITH_SECRET[0])
            assert ran.code in (1, 2)
            assert SECRET not in ran.out + ran.err

    def test_parameters_are_those_of_libpq(self) -> None:
        for parameter in ("row_factory", "autocommit", "prepare_threshold", "x"):
            with pytest.raises(InvalidParameter, match="parameters must be those of libpq"):
                load_study("s", storage=f"postgresql://127.0.0.1:1/db?{parameter}=1")

    def test_a_short_password_mangles_no_sentence(self) -> None:
        with pytest.raises(StorageFailed, match="the server cannot be reached"):
            list_studies(storage="postgresql://me:e@127.0.0.1:1/db")

    def test_nor_of_a_server_that_is_there(self, postgresql: Server, run_command: Run) -> None:
        url = postgresql.new_database()
        user, _, rest = url.removeprefix("postgresql://").partition("@")
        name = rest.partition("/")[2]
        make(url, budget=3)
        forms = [
            f"postgresql://{user}:{SECRET}@{rest}",
            f"{url}?password={SECRET}",
        ]
        for storage in forms:
            study = load_study("s", storage=storage)
            assert SECRET not in f"{study!r} {study.storage} {study.worker()!r}"
            assert name in study.storage
            for command in (
                ("study", "show", "s", "--format", "json"),
                ("study", "show", "s"),
                ("study", "result", "s", "--format", "json"),
                ("study", "show", "nobody"),
                ("study", "work", "s", "--pull", "false {arm}"),
                ("study", "work", "none", "--pull", "false {arm}"),
            ):
                ran = run_command(*command, "--storage", storage)
                assert SECRET not in ran.out + ran.err
