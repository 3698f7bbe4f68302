"""The storage benchmark records what it counts, and compares like with like."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import benchmarks.__main__ as command
from benchmarks import _places, _storage
from benchmarks import _writers as writers
from benchmarks._places import Databases, Files, Place, file_of
from benchmarks._storage import MISSING_OPTUNA, Method, Opening, StorageEffort, StorageRow, Task
from benchmarks._tables import storage_table
from oddarms.studies import load_study


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a SQLite file that does not exist yet."""
    return Files(tmp_path).new()


def recorded(url: str) -> int:
    return load_study(writers.NAME, storage=url).overview().told


@pytest.mark.parametrize(
    ("make", "way", "supply", "counts"),
    [
        (writers.make_study, writers.ask_and_tell, 0, [1, 1, 1]),
        (writers.make_wide_study, writers.tell, 2, [1, 1, 0]),
        (writers.make_wide_study, writers.tell_batches, 150, [100, 50, 0]),
    ],
)
def test_our_ways_record_as_many_results_as_they_say(
    make: Callable[[str], None], way: writers.Way, supply: int, counts: list[int], url: str
) -> None:
    make(url)
    with way(url, supply) as record:
        assert [record() for _ in counts] == counts
    assert recorded(url) == sum(counts)


def test_all_tickets_of_many_writers_are_asked_for_before_the_first_result(url: str) -> None:
    writers.make_wide_study(url)
    with ExitStack() as stack:
        records = [stack.enter_context(writers.tell(url, 5_000)) for _ in range(3)]
        assert [record() for record in records] == [1, 1, 1]
    assert load_study(writers.NAME, storage=url).overview().handed_out == 15_000


@pytest.mark.parametrize(("way", "batch"), [(writers.insert, 1), (writers.insert_batches, 100)])
def test_bare_inserts_record_as_many_rows_as_they_say(
    way: writers.Way, batch: int, url: str, postgresql_url: str
) -> None:
    writers.make_bare_table(url)
    with way(url, 0) as record:
        assert [record(), record()] == [batch, batch]
    with sqlite3.connect(file_of(url)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM bare_rows").fetchone() == (2 * batch,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    server = Databases(postgresql_url)
    database = server.new()
    writers.make_bare_table(database)
    empty = server.size(database)
    with way(database, 0) as record:
        assert [record(), record()] == [batch, batch]
    assert server.size(database) > empty
    server.remove(database)


class StandIn(ModuleType):
    """As much of Optuna as the benchmark uses; its trials are numbers."""

    def __init__(self) -> None:
        super().__init__("optuna")
        self.asked, self.told = 0, list[int]()
        self.engine: list[dict[str, Any] | None] = []
        nothing = SimpleNamespace
        self.logging = nothing(ERROR=40, set_verbosity=lambda _: None)
        self.samplers = nothing(RandomSampler=lambda seed: seed)
        self.pruners = nothing(NopPruner=lambda: None)
        self.storages = nothing(RDBStorage=self._storage)

    def _storage(self, _url: str, *, engine_kwargs: dict[str, Any] | None) -> object:
        self.engine.append(engine_kwargs)
        return object()

    def load_study(self, **_words: Any) -> StandIn:
        return self

    def ask(self) -> int:
        self.asked += 1
        return self.asked

    def tell(self, trial: int, _value: float) -> None:
        self.told.append(trial)


def test_trials_of_optuna_are_asked_for_before_or_as_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optuna = StandIn()
    monkeypatch.setitem(sys.modules, "optuna", optuna)
    with writers.optuna_ask_and_tell("sqlite:///x.db", 7) as record:
        assert (record(), record(), optuna.asked, optuna.told) == (1, 1, 2, [1, 2])
    with writers.optuna_tell("postgresql://x", 2) as record:
        assert optuna.asked == 4
        assert ([record() for _ in range(3)], optuna.told) == ([1, 1, 0], [1, 2, 3, 4])
    assert optuna.engine == [{"connect_args": {"timeout": writers.LOCK_SECONDS}}, None]


@pytest.mark.parametrize("way", [writers.optuna_ask_and_tell, writers.optuna_tell])
@pytest.mark.filterwarnings("default")
def test_real_optuna_stores_what_is_told(way: writers.Way, url: str) -> None:
    optuna = pytest.importorskip("optuna", reason="Optuna is not installed: the extra `bench`")
    writers.make_optuna_study(url)
    with way(url, 2) as record:
        assert [record(), record()] == [1, 1]
    trials = optuna.load_study(study_name=writers.NAME, storage=url).trials
    assert [trial.value for trial in trials] == [writers.REWARD] * 2


def test_a_study_is_opened_with_all_its_results(tmp_path: Path) -> None:
    said: list[str] = []
    (row,) = _storage.openings([Files(tmp_path)], 2000, said.append)
    assert (row.storage, row.arms) == ("SQLite", 1000)
    assert row.results >= 2000
    assert row.seconds > 0.0
    assert said == ["opening a study with 2,000 results: SQLite"]


def test_writers_in_processes_of_their_own_have_a_rate(url: str) -> None:
    writers.make_bare_table(url)
    assert writers.rate(writers.insert, url, 2, 0.05, 0) > 0.0
    with sqlite3.connect(file_of(url)) as connection:
        (rows,) = connection.execute("SELECT COUNT(*) FROM bare_rows").fetchone()
    connection.close()
    assert rows > 2  # one each before the start


def test_a_writer_that_fails_ends_the_measurement_with_its_reason(url: str) -> None:
    with pytest.raises(
        RuntimeError, match="1 of 1 writers failed: UnknownStudy: There is no study"
    ):
        writers.rate(writers.tell, url, 1, 0.05, 1)


def test_the_size_of_a_file_has_what_was_still_in_the_log(tmp_path: Path) -> None:
    files = Files(tmp_path)
    url = files.new()
    writers.make_bare_table(url)
    empty = files.size(url)
    with writers.insert_batches(url, 0) as record:
        for _ in range(10):
            record()
        assert files.size(url) - empty > 1000 * 20
    files.remove(url)
    assert list(tmp_path.iterdir()) == []


def nothing(_url: str) -> None:
    """Needs nothing made."""


@contextmanager
def one_at_a_time(url: str, _supply: int) -> Iterator[writers.Record]:
    def record() -> int:
        with open(file_of(url), "ab") as file:
            file.write(b"0123456789")
        return 1

    yield record


class PlainFiles(Files):
    """Files that need not be SQLite's."""

    def new(self) -> str:
        url = super().new()
        file_of(url).touch()
        return url

    def size(self, url: str) -> int:
        return file_of(url).stat().st_size


def test_all_of_a_row_are_measured_in_turn_and_every_other_time_in_reverse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs, bare = (Method(nothing, one_at_a_time, most) for most in (300, 200, 100))
    calls: list[tuple[int, int]] = []

    def rate(way: writers.Way, _url: str, number: int, seconds: float, supply: int) -> float:
        assert (way, seconds) == (one_at_a_time, 1.0)
        calls.append((number, supply))
        return float(supply * len(calls))

    monkeypatch.setattr(writers, "rate", rate)
    tasks = [Task("both", ours, theirs, bare), Task("ours only", ours, None, bare)]
    effort = StorageEffort(seconds=1.0, repeats=2, writers=(1, 8), results=5)
    said: list[str] = []
    rows = _storage.storage_rates([PlainFiles(tmp_path)], tasks, effort, said.append)
    supplies = [supply for _, supply in calls]
    assert supplies[:5] == [300, 200, 100, 300, 100]
    assert supplies[10:15] == [100, 200, 300, 100, 300]
    assert [(row.writers, row.task) for row in rows] == [
        (1, "both"),
        (1, "ours only"),
        (8, "both"),
        (8, "ours only"),
    ]
    assert rows[0].ours == [300.0 * 1, 300.0 * 13]
    assert rows[0].optuna == [200.0 * 2, 200.0 * 12]
    assert (rows[1].optuna, rows[1].over_optuna) == ([], None)
    assert (rows[0].our_bytes, rows[0].optuna_bytes) == (10.0, 10.0)
    assert {row.our_bytes for row in rows[1:]} == {None}
    assert said[0] == ("1 of 2: SQLite, writers 1, both: ours 300, optuna 400, bare 300 a second")
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_medians_ranges_and_dashes() -> None:
    whole = StorageRow("SQLite", 8, "tell", [900.0, 1000.0, 2000.0], [90.0, 50.0, 80.0], [1e4] * 3)
    alone = StorageRow("SQLite", 1, "tell by 100", [5.0], [], [10.0], our_bytes=200.4)
    assert whole.over_optuna == 20.0  # of 10, 20, 25: pairs, not medians
    lines = storage_table([whole, alone]).splitlines()[2:]
    assert lines[0] == (
        "| SQLite | 8 | tell | 1,000 (900 to 2,000) | 80 (50 to 90) | 20.0 |"
        " 10,000 (10,000 to 10,000) | 0.10 | - | - |"
    )
    assert lines[1] == "| SQLite | 1 | tell by 100 | 5 | - | - | 10 | 0.50 | 200 | - |"


def test_without_optuna_only_ours_and_bare_inserts_are_measured() -> None:
    for task in _storage.storage_tasks(optuna=False):
        assert list(task.methods) == ["ours", "bare"]
    both = [task.name for task in _storage.storage_tasks(optuna=True) if task.optuna]
    assert both == ["ask + tell", "tell"]


def test_without_a_server_there_is_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postgresql.find_binaries", lambda: None)
    monkeypatch.chdir(tmp_path)
    with _places.places(None) as found:
        assert [place.name for place in found] == ["SQLite"]
    with _places.places("postgresql://nobody@localhost/x") as found:
        assert [place.name for place in found] == ["SQLite", "PostgreSQL"]
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def only_files(_url: str | None) -> Iterator[list[Place]]:
        yield [Files(tmp_path)]

    row = StorageRow("SQLite", 1, "tell", [5.0], [], [10.0])
    monkeypatch.setattr(command, "places", only_files)
    monkeypatch.setattr(command, "optuna_version", lambda: None)
    monkeypatch.setattr(command, "storage_rates", lambda *_: [row])
    opened = Opening("SQLite", 1000, 20_000, 0.25)
    monkeypatch.setattr(command, "openings", lambda *_: [opened])
    report = tmp_path / "report.json"
    assert command.main(["--parts", "storage", "--quick", "--json", str(report)]) == 0
    printed = capsys.readouterr().out
    assert "| SQLite | 1 | tell | 5 | - |" in printed
    assert "| SQLite | 1,000 | 20,000 | 0.25 |" in printed
    assert f"SQLite {sqlite3.sqlite_version}. Results a second" in printed
    assert MISSING_OPTUNA in printed
    assert _places.MISSING_SERVER in printed
    assert '"ours"' in report.read_text()
