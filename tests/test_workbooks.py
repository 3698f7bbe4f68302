"""Workbooks of Excel are read like the CSV that their first sheet would be saved as."""

from __future__ import annotations

import builtins
import io
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from helpers import Run
from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.tables import _workbooks, read_counts, read_rewards
from oddarms.tables._workbooks import workbook_text

openpyxl = pytest.importorskip("openpyxl")

ROWS: list[list[Any]] = [["ann", 0], ["bob", 1], ["ann", 0.5], ["bob", True]]


def workbook(path: Path, *rows: list[Any], sheets: int = 1) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for number in range(1, sheets):
        book.create_sheet(f"other {number}").append(["arm", "reward"])
    book.save(path)
    return path


def test_the_first_sheet_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", ["Arm", "when", "Reward"], *(
        [arm, date(2026, 1, 2), reward] for arm, reward in ROWS
    ), sheets=3)  # fmt: skip
    found = read_rewards(path)
    assert found.source == "a.xlsx"
    assert {label: x.tolist() for label, x in (found.records or {}).items()} == {
        "ann": [0.0, 0.5], "bob": [1.0, 1.0],
    }  # fmt: skip
    assert found.sha256 == read_rewards(path).sha256 != ""


def test_empty_rows_and_columns_do_not_matter(tmp_path: Path) -> None:
    path = workbook(
        tmp_path / "a.xlsx", [], ["arm", "reward", "note"], [], *ROWS, [None, None], [" "]
    )
    assert read_rewards(path).means.tolist() == [0.25, 1.0]


def test_what_a_table_is_told_holds_for_a_workbook(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", ["arm", "reward"], *ROWS, ["ann", None], ["bob", "NA"])
    assert read_rewards(path, missing="skip").missing == 2
    assert read_rewards(path, missing="worst").means.tolist() == [0.5, 1.0]
    with pytest.raises(InvalidParameter, match="line 6: reward must have a value but is empty"):
        read_rewards(path)
    with pytest.raises(InvalidParameter, match="columns 'arm' and 'x' but the columns are 'arm'"):
        read_rewards(path, reward="x")


def test_counts(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", ["arm", "successes", "trials"], ["a", 1, 4], ["b", 3, 4])
    assert read_counts(path).means.tolist() == [0.25, 0.75]


def test_from_the_shell(run_command: Run, tmp_path: Path) -> None:
    rows = [[label, label == "eve"] for _ in range(60) for label in ("ann", "bob", "cy", "eve")]
    workbook(tmp_path / "answers.xlsx", ["worker", "wrong"], *rows)
    ran = run_command(
        "find", "--table", "answers.xlsx", "--arm", "worker", "--reward", "wrong", "--k", 1
    )
    assert (ran.code, ran.out.splitlines()[0][:31]) == (0, "1 of 4 arms is an outlier (righ"), ran
    assert "answers.xlsx: 240 samples of 4 things" in ran.err


def test_a_missing_extra_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "a.xlsx", ["arm", "reward"], *ROWS)
    real = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name == "openpyxl":
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'oddarms\[excel\]'"):
        read_rewards(path)


class TestHostile:
    def test_damage_anywhere_is_one_line(self, tmp_path: Path) -> None:
        whole = workbook(tmp_path / "a.xlsx", ["arm", "reward"], *ROWS).read_bytes()
        broken = tmp_path / "b.xlsx"
        for end in (5, 400, len(whole) // 2, len(whole) - 30):
            broken.write_bytes(whole[:end])
            with pytest.raises(InvalidParameter) as caught:
                read_rewards(broken)
            assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
            b"<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'>",
            b"\xff\xfe\x00",
        ],
    )
    def test_a_sheet_that_is_none(self, tmp_path: Path, content: bytes) -> None:
        path = workbook(tmp_path / "a.xlsx", ["arm", "reward"], *ROWS)
        with pytest.raises(InvalidParameter) as caught:
            read_rewards(_with_part(path, "xl/worksheets/sheet1.xml", content))
        assert "\n" not in str(caught.value)

    def test_another_zip_file_is_no_workbook(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xlsx"
        with zipfile.ZipFile(path, "w") as parts:
            parts.writestr("a.csv", "arm,reward\na,1\nb,0\n")
        with pytest.raises(InvalidParameter, match=r"save it as CSV, or as a workbook .*\.xlsx"):
            read_rewards(path)

    def test_the_old_format_says_how_to_go_on(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xls"
        path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512))
        with pytest.raises(InvalidParameter, match=r"save it as CSV, or as a workbook .*\.xlsx"):
            read_rewards(path)

    def test_what_inflates_to_a_lot_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_workbooks, "FREE_BYTES", 10**6)
        path = workbook(tmp_path / "a.xlsx", ["arm", "reward"], *ROWS)
        bomb = _with_part(path, "xl/worksheets/sheet1.xml", b" " * 10**7)
        with pytest.raises(InvalidParameter, match="must not inflate to over 100 times its size"):
            read_rewards(bomb)

    def test_one_text_in_many_rows_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = workbook(tmp_path / "a.xlsx", ["arm", "reward"], *[["x" * 30_000, 1]] * 200)
        monkeypatch.setattr(_workbooks, "FREE_BYTES", 10**6)
        with pytest.raises(InvalidParameter, match="must not inflate"):
            workbook_text("a.xlsx", path.read_bytes())


def _with_part(path: Path, name: str, content: bytes) -> Path:
    """Replace a part of a workbook."""
    old, new = zipfile.ZipFile(path), io.BytesIO()
    with old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as parts:
        for part in old.namelist():
            parts.writestr(part, content if part == name else old.read(part))
    path.write_bytes(new.getvalue())
    return path
