"""Results that ``oddarms find`` could not store: they are kept, and told by the next run."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

import oddarms
from oddarms.cli._printing import Format
from oddarms.cli.sampling import Output, _run, _untold
from oddarms.cli.sampling._untold import keep_untold, tell_left_over
from oddarms.errors import StorageFailed
from oddarms.search import Ticket
from oddarms.studies import Study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    storage = tmp_path / "study.db"
    return oddarms.create_study("find", list("abcde"), k=1.0, storage=str(storage), rng=1)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def some(study: Study, number: int) -> list[tuple[Ticket, float]]:
    return [(ticket, place / 16) for place, ticket in enumerate(study.ask(number))]


def stored(study: Study) -> int:
    return len(list(study.trials()))


@pytest.mark.parametrize("before", [b"\xe9 \xff\n", b"\xe9 without an end", b"\0"])
def test_untold_results_are_kept_whatever_is_in_the_file(
    study: Study, out: Path, before: bytes
) -> None:
    (out / "untold.txt").write_bytes(before)
    results = some(study, 3)
    assert keep_untold(out, results) == out / "untold.txt"
    content = (out / "untold.txt").read_bytes()
    assert content.startswith(before.rstrip(b"\n") + b"\n")
    assert content.endswith(_untold.lines_of(results).encode())
    tell_left_over(study, out, quiet=True)
    assert stored(study) == 3
    assert (out / "untold.txt").read_bytes() == before.rstrip(b"\n") + b"\n"


@pytest.mark.parametrize("kind", ["fifo", "link", "dangling link", "folder", "large file"])
def test_what_is_no_file_of_ours_is_left_alone(
    study: Study, out: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, elsewhere = out / "untold.txt", out / "elsewhere"
    if kind == "fifo":
        os.mkfifo(first)
    elif kind == "folder":
        first.mkdir()
    elif kind == "large file":
        monkeypatch.setattr(_untold, "MOST_BYTES", 1000)
        first.write_bytes(b"\0" * 1001)
    else:
        first.symlink_to(elsewhere)
        if kind == "link":
            elsewhere.write_text("mine")
    before = first.lstat()
    results = some(study, 2)
    assert keep_untold(out, results[:1]) == out / "untold-2.txt"
    assert keep_untold(out, results[1:]) == out / "untold-2.txt"
    tell_left_over(study, out, quiet=True)
    assert stored(study) == 2
    assert not (out / "untold-2.txt").exists()
    assert (first.lstat().st_ino, first.lstat().st_size) == (before.st_ino, before.st_size)
    assert elsewhere.exists() == (kind == "link")
    assert kind != "link" or elsewhere.read_text() == "mine"


def test_a_file_that_is_left_alone_is_said(
    study: Study, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(out / "untold.txt")
    tell_left_over(study, out, quiet=True)
    assert "was left as it is: it must be a regular file" in capsys.readouterr().err


def test_a_line_that_is_refused_keeps_no_other_from_being_told(
    study: Study, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = some(study, 9)
    study.tell_many([results[4]])
    conflict = f"{results[4][0].id} 1.0\n"
    unknown = "99-mzxw6ytboi4dgnbt 0.5\n"
    beyond = f"{results[8][0].id} 7\n"
    path = keep_untold(out, results[:5])
    path.write_text(conflict + path.read_text() + unknown + beyond)
    keep_untold(out, results[5:8])
    tell_left_over(study, out, quiet=False)
    assert stored(study) == 8
    assert sorted(path.read_text().splitlines(True)) == sorted([unknown, beyond])
    said = capsys.readouterr().err
    assert "2 lines of" in said
    assert "1 result of" in said
    assert len(study.conflicts()) == 1
    assert "8 results of an earlier run stored" in said
    tell_left_over(study, out, quiet=False)
    assert len(path.read_text().splitlines()) == 2


def run_of(study: Study, out: Path) -> _run.Run:
    patience = timedelta(0)
    output = Output(out, Format.table, quiet=True)
    return _run.Run(study, 1, _run.OnErrorName.stop, patience, output, batch=False)


def test_a_run_begins_with_what_an_earlier_one_left_over(
    study: Study, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = _untold.lines_of(some(study, 3)).encode()
    (out / "untold.txt").write_bytes(b"one \xe9 three\n" + lines)
    run_of(study, out).until_done(None)
    assert stored(study) == 3
    assert (out / "untold.txt").read_bytes() == b"one \xe9 three\n"
    assert "a line must be a ticket and a reward but has 3 words." in capsys.readouterr().err


def failing(monkeypatch: pytest.MonkeyPatch, results: list[tuple[Ticket, float]]) -> None:
    def run(study: Study, *_: object, **__: object) -> None:
        error = StorageFailed("the storage is away.")
        error.untold = results
        error.result = study.result()
        raise error

    def no_room(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Study, "run", run)
    monkeypatch.setattr(Output, "write", no_room)


def test_untold_results_are_written_before_the_answer(
    study: Study, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = some(study, 3)
    failing(monkeypatch, results)
    with pytest.raises(StorageFailed, match=r"away.*3 results that could not be stored in .*untold"):
        run_of(study, out).until_done(lambda _: 0.0)
    assert (out / "untold.txt").read_text() == _untold.lines_of(results)


def test_untold_results_that_no_file_takes_are_said(
    study: Study, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = some(study, 3)
    failing(monkeypatch, results)
    monkeypatch.setattr(_run, "keep_untold", Output.write)
    with pytest.raises(StorageFailed, match=r"3 results .* are only in the lines above"):
        run_of(study, out).until_done(lambda _: 0.0)
    said = capsys.readouterr().err
    assert all(line in said for line in _untold.lines_of(results).splitlines())


def test_a_full_disk_sends_them_to_another_one(
    study: Study, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = some(study, 3)
    failing(monkeypatch, results)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(_run.tempfile, "tempdir", str(elsewhere))
    keep = _run.keep_untold

    def only_elsewhere(folder: Path, given: list[tuple[Ticket, float]]) -> Path:
        if folder == out:
            raise OSError(28, "No space left on device")
        return keep(folder, given)

    monkeypatch.setattr(_run, "keep_untold", only_elsewhere)
    with pytest.raises(StorageFailed, match=r"could not be stored in .*for `oddarms study tell"):
        run_of(study, out).until_done(lambda _: 0.0)
    (file,) = elsewhere.glob("*/untold.txt")
    assert file.read_text() == _untold.lines_of(results)
