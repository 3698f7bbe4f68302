"""Workbooks of Excel: the first sheet is a table like any other; damage and bombs are refused."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.tables import read_rewards, read_totals

pytest.importorskip("pandas")
openpyxl = pytest.importorskip("openpyxl")

HEADER, ROWS = ["arm", "reward"], [["ann", 0], ["ann", 0.5], ["bob", True]]
SHEET = "xl/worksheets/sheet1.xml"


def workbook(path: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("other").append(["arm", "reward", "that nobody asked for"])
    book.save(path)
    return path


def with_part(path: Path, name: str, content: bytes) -> Path:
    """Replace a part of a workbook."""
    old, new = zipfile.ZipFile(path), io.BytesIO()
    with old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as parts:
        for part in old.namelist():
            parts.writestr(part, content if part == name else old.read(part))
    path.write_bytes(new.getvalue())
    return path


def refused(path: Path, rule: str = "", **words: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read_totals(path, **words)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv", "a"])
def test_a_workbook_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    path = workbook(tmp_path / "a.xlsx", HEADER, *ROWS).rename(tmp_path / name)
    found = read_rewards(path)
    assert (found.labels, found.rewards.tolist()) == (["ann", "bob"], [0.0, 0.5, 1.0])


def test_cells_of_other_kinds(tmp_path: Path) -> None:
    labels = ["007", 7, 7.0, 7.5, " x ", True]
    rewards = ["yes", "0.25", 1, False, "no", " 1 "]
    rows = [list(row) for row in zip(labels, rewards, strict=True)]
    found = read_rewards(workbook(tmp_path / "a.xlsx", HEADER, *rows))
    assert found.labels == ["007", "7", "7.5", "x", "True"]
    assert found.rewards.tolist() == [1.0, 0.25, 1.0, 0.0, 0.0, 1.0]


def test_empty_rows_and_columns_do_not_matter(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", [], [*HEADER, "note"], [], *ROWS, [None, None], [" "])
    assert read_totals(path).sums.tolist() == [0.5, 1.0]


def test_what_a_table_is_told_holds_for_a_workbook(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", HEADER, *ROWS, ["ann", None], ["bob", "NA"])
    assert read_totals(path, missing="skip").missing == 2
    assert read_totals(path, missing="worst").sums.tolist() == [1.5, 2.0]
    refused(path, "row 4: reward is missing")
    refused(path, "reward='x' is not a column; the columns are 'arm', 'reward'", reward="x")
    refused(workbook(tmp_path / "b.xlsx"), "is empty")
    refused(workbook(tmp_path / "c.xlsx", HEADER), "has no rows")


def test_a_missing_extra_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "a.xlsx", HEADER, *ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"pip install 'oddarms\[excel\]'"):
        read_totals(path)


class TestHostile:
    def test_damage_anywhere_is_one_line(self, tmp_path: Path) -> None:
        whole = workbook(tmp_path / "a.xlsx", HEADER, *ROWS).read_bytes()
        broken = tmp_path / "b.xlsx"
        for end in (5, 400, len(whole) // 2, len(whole) - 30):
            broken.write_bytes(whole[:end])
            refused(broken, "is a damaged Excel workbook")

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
        path = workbook(tmp_path / "a.xlsx", HEADER, *ROWS)
        refused(with_part(path, SHEET, content))

    def test_other_files(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xlsx"
        with zipfile.ZipFile(path, "w") as parts:
            parts.writestr("a.csv", "arm,reward\na,1\nb,0\n")
        refused(path, "is an archive, not a table")
        path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512))
        refused(path, "is an old Excel workbook: save it as .xlsx or CSV")

    def test_what_inflates_to_a_lot_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.tables._files.MAX_INFLATED", 2**20)
        path = workbook(tmp_path / "a.xlsx", HEADER, *ROWS)
        bomb = with_part(path, SHEET, b" " * 5 * 2**20)
        assert bomb.stat().st_size < 2**15
        refused(bomb, "a compressed file may unpack to 256 MiB plus 100 times its size")

    def test_one_cell_far_away_takes_little_memory(self, tmp_path: Path) -> None:
        path = workbook(tmp_path / "a.xlsx", HEADER, *ROWS)
        book = openpyxl.load_workbook(path)
        book.active["XFD2000"] = "far"
        book.save(path)
        assert read_totals(path).sums.tolist() == [0.5, 1.0]
