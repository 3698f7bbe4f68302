"""The benchmark of opening a study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import benchmarks.__main__ as command
from benchmarks import _storage as storage
from benchmarks._storage import Place
from oddarms.studies import load_study


def test_all_tickets_of_many_writers_are_asked_for_before_the_first_result(
    tmp_path: Path, postgresql_url: str
) -> None:
    for place in (Place(tmp_path), Place(tmp_path, postgresql_url)):
        url = place.new()
        storage.make_wide_study(url)
        study = load_study(storage.NAME, storage=url)
        assert [len(study.ask(5_000, f"writer {i}")) for i in range(3)] == [5_000] * 3
        del study
        place.remove(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(["--parts", "opening", "--quick", "--json", "report.json"]) == 0
    assert "| SQLite | 1,000 | 2" in capsys.readouterr().out
    report = json.loads(Path("report.json").read_text())
    assert report["opening"][0]["results"] >= 20_000
    assert report["opening"][0]["seconds"] > 0.0
    assert list(tmp_path.iterdir()) == [tmp_path / "report.json"]
