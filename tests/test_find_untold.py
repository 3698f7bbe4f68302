"""Results that a storage did not take: ``oddarms find`` keeps them, and the next run tells them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import Ran, Run, assert_refused
from oddarms.errors import StorageFailed
from oddarms.search import Ticket
from oddarms.studies import Study

WORDS = ("--arms", "a,b,c,d,e", "--k", 1, "--seed", 1, "--out", "out", "--retry-for", "0s")
NO_ID = "99.3.204.9f86d081884c7d65"


@pytest.fixture
def find(run_command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs ``oddarms find`` with a function of which only e fails."""
    monkeypatch.setattr("oddarms.report.write_report", lambda *_, **__: None)

    def run(*words: object) -> Ran:
        return run_command("find", *WORDS, "--pull", "test {arm} != e", *words)

    return run


def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let storages take no results any more."""

    def tell_many(self: Study, *_: Any, **__: Any) -> None:
        raise StorageFailed(f"{self.storage}: the disk is full.", passing=True)

    monkeypatch.setattr("oddarms.studies.StoredStudy.tell_many", tell_many, raising=True)


def some(number: int) -> list[tuple[Ticket, float]]:
    """Begin the search, ask for tickets and return results of them."""
    study = oddarms.create_study("find", list("abcde"), k=1, storage="out/study.db", rng=1)
    return [(ticket, place / 16) for place, ticket in enumerate(study.ask(number))]


def lines_of(results: list[tuple[Ticket, float]]) -> str:
    return "".join(f"{ticket.id} {reward!r}\n" for ticket, reward in results)


def stored() -> int:
    return len(list(oddarms.load_study("find", storage="out/study.db").trials()))


def test_results_are_kept_and_told_by_the_next_run(
    find: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        failing(full)
        ran = find()
    assert_refused(ran, 1, "the disk is full", "could not be stored in out/untold-", "resumes")
    (file,) = Path("out").glob("untold-*.txt")
    kept = len(file.read_text().splitlines())
    assert kept > 0
    assert stored() == 0
    again = find()
    assert again.code == 0
    assert f"{kept} result{'s' if kept > 1 else ''} of an earlier run stored" in again.err
    assert not file.exists()


def test_a_folder_that_takes_no_file_sends_them_elsewhere(
    find: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write, elsewhere = oddarms.files.write_whole, tmp_path / "elsewhere"
    elsewhere.mkdir()

    def full(path: Path, content: str | bytes) -> Path:
        if path.name.startswith("untold") and path.parent.name == "out":
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    monkeypatch.setattr("oddarms.cli._sampling.write_whole", full)
    failing(monkeypatch)
    ran = find()
    assert_refused(ran, 1, "for `oddarms study tell find --from`")
    (file,) = elsewhere.glob("untold-*.txt")
    assert file.read_text()


def test_results_that_no_file_takes_are_printed(find: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write = oddarms.files.write_whole

    def full(path: Path, content: str | bytes) -> Path:
        if path.name.startswith("untold"):
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr("oddarms.cli._sampling.write_whole", full)
    failing(monkeypatch)
    ran = find()
    assert_refused(ran, 1, "only in the lines above")
    assert re.search(r"^\d+\.\d+\.\d+\.\w{16} [01]\.0$", ran.err, re.MULTILINE)


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_is_no_regular_file_is_left_alone(find: Run, kind: str) -> None:
    Path("out").mkdir()
    file, elsewhere = Path("out/untold-1.txt"), Path("elsewhere")
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        elsewhere.write_text("mine")
        file.symlink_to(elsewhere.absolute())
    before = file.lstat()
    ran = find("--budget", 5)
    assert "out/untold-1.txt was left as it is" in ran.err
    assert file.lstat().st_ino == before.st_ino
    assert kind != "link" or elsewhere.read_text() == "mine"


def test_a_line_that_is_refused_keeps_no_other_from_being_told(find: Run) -> None:
    Path("out").mkdir()
    results = some(9)
    study = oddarms.load_study("find", storage="out/study.db")
    study.tell_many([results[4]])
    study.skip(results[8][0])  # or the search would wait for its lease
    refused = [f"{NO_ID} 0.5\n", f"{results[8][0].id} 7\n", "one \\xe9 three\n"]
    text = f"{results[4][0].id} 1.0\n{lines_of(results[:8])}{''.join(refused)}"
    file = Path("out/untold-1.txt")
    file.write_bytes(text.encode().replace(b"\\xe9", b"\xe9"))
    ran = find()
    assert ran.code == 0
    assert stored() >= 8
    assert file.read_text().splitlines(keepends=True) == refused
    assert "3 lines of out/untold-1.txt refused: " in ran.err
    assert "1 result of out/untold-1.txt conflicted" in ran.err
    assert len(study.conflicts()) == 1
    assert "8 results of an earlier run stored" in ran.err
