"""Results that a storage did not take: ``oddarms find`` keeps them, and says how to store them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import Ran, Run, assert_refused
from oddarms.errors import StorageFailed
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


def stored() -> int:
    return len(list(oddarms.load_study("find", storage="out/study.db").trials()))


def test_results_are_kept_for_a_command_that_stores_them(
    find: Run, run_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        failing(full)
        ran = find()
    assert_refused(ran, 1, "the disk is full", "could not be stored in a file", "resumes")
    (file,) = Path("out").glob("untold-*.txt")
    kept = len(file.read_text().splitlines())
    assert kept > 0
    assert stored() == 0
    (command,) = re.findall("`oddarms (study tell .*?)`", ran.err)
    assert run_command(*shlex.split(command)).code == 0
    assert stored() == kept
    assert find().code == 0


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
