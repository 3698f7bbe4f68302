"""The storage benchmark records what it counts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import benchmarks.__main__ as command
from benchmarks import _storage as storage
from benchmarks._storage import Place
from oddarms.studies import load_study


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Of a SQLite file that does not exist yet."""
    return Place(tmp_path).new()


@pytest.mark.parametrize(
    ("make", "way", "supply", "counts"),
    [
        (storage.make_study, storage.ask_and_tell, 0, [1, 1, 1]),
        (storage.make_wide_study, storage.tell, 2, [1, 1, 0]),
        (storage.make_wide_study, storage.tell_batches, 150, [100, 50, 0]),
    ],
)
def test_our_ways_record_as_many_results_as_they_say(
    make: Callable[[str], None], way: storage.Way, supply: int, counts: list[int], url: str
) -> None:
    make(url)
    with way(url, supply) as record:
        assert [record() for _ in counts] == counts
    assert load_study(storage.NAME, storage=url).overview().told == sum(counts)


def test_all_tickets_of_many_writers_are_asked_for_before_the_first_result(url: str) -> None:
    storage.make_wide_study(url)
    with ExitStack() as stack:
        records = [stack.enter_context(storage.tell(url, 5_000)) for _ in range(3)]
        assert [record() for record in records] == [1, 1, 1]
    assert load_study(storage.NAME, storage=url).overview().handed_out == 15_000


def rows_of(url: str) -> int:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        (rows,) = connection.execute("SELECT COUNT(*) FROM bare_rows").fetchone()
    connection.close()
    return int(rows)


@pytest.mark.parametrize(("way", "batch"), [(storage.insert, 1), (storage.insert_batches, 100)])
def test_bare_inserts_record_as_many_rows_as_they_say(
    way: storage.Way, batch: int, tmp_path: Path, postgresql_url: str
) -> None:
    for place in (Place(tmp_path), Place(tmp_path, postgresql_url)):
        url = place.new()
        storage.make_bare_table(url)
        with way(url, 0) as record:
            assert [record(), record()] == [batch, batch]
        if place.name == "SQLite":
            assert rows_of(url) == 2 * batch
        place.remove(url)
    assert list(tmp_path.iterdir()) == []


def test_writers_in_processes_of_their_own_have_a_rate(url: str) -> None:
    storage.make_bare_table(url)
    assert storage.rate(storage.insert, url, 2, 0.05, 0) > 0.0
    assert rows_of(url) > 2  # one each before the start


def test_a_writer_that_fails_ends_the_measurement_with_its_reason(url: str) -> None:
    with pytest.raises(RuntimeError, match="1 of 1 writers failed: UnknownStudy: "):
        storage.rate(storage.tell, url, 1, 0.05, 1)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rates = iter([5.0, 10.0] * 6)
    monkeypatch.setattr(storage, "rate", lambda *_: next(rates))
    assert command.main(["--parts", "storage", "--quick", "--json", "report.json"]) == 0
    printed = capsys.readouterr().out
    assert "| SQLite | 1 | tell | 5 | 10 | 0.50 |" in printed
    report = json.loads(Path("report.json").read_text())
    assert report["opening"][0]["results"] >= 20_000
    assert report["opening"][0]["seconds"] > 0.0
    assert list(tmp_path.iterdir()) == [tmp_path / "report.json"]
