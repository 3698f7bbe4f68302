"""Workbooks of Excel (.xlsx): their first sheet as the text of a CSV, which is read like any."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date, time
from typing import Any

from oddarms.errors import InvalidParameter, MissingExtra

FREE_BYTES = 256 * 2**20
"""What any packed file may inflate to."""
RATIO = 100
"""What each byte of it adds; tables of text have about ten."""
_PART = "xl/workbook.xml"
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError)
"""What openpyxl raises, beside errors of zip and XML, where a file is not what it says."""


def workbook_text(name: str, content: bytes) -> io.TextIOWrapper:
    """Return the first sheet of a workbook as CSV; bytes that are no workbook as they are.

    A row of the sheet is a line, so that messages name its number.
    """
    packed = io.BytesIO(content)
    try:
        with zipfile.ZipFile(packed) as parts:
            if _PART not in parts.namelist():
                return _as_text(content)
            inflated = sum(part.file_size for part in parts.infolist())
        size = _Size(name, len(content))
        size.check(inflated)
        table = _table(packed, size)
    except (zipfile.BadZipFile, SyntaxError, *_DAMAGE) as error:  # that of XML is a SyntaxError
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(
            f"{name} must be a whole workbook of Excel but is damaged: save it again, or as CSV."
        ) from error
    return _as_text(table.encode())


def _as_text(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", errors="surrogateescape", newline="")


class _Size:
    """What a packed file may become in memory."""

    def __init__(self, name: str, packed: int) -> None:
        self._name = name
        self._most = FREE_BYTES + RATIO * packed

    def check(self, size: int) -> None:
        """Refuse a file that is larger than that."""
        if size > self._most:
            raise InvalidParameter(
                f"{self._name} must not inflate to over {RATIO} times its size and"
                f" {FREE_BYTES // 2**10:,} KiB but does: if it is what you want, save the sheet as"
                " CSV."
            )


def _table(packed: io.BytesIO, size: _Size) -> str:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise MissingExtra.of("excel", "reading workbooks of Excel") from None
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which nobody asked for
        book = load_workbook(packed, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # what a file says of its size may be wrong
            for row in _rows(sheet.iter_rows(values_only=True)):
                writer.writerow(row)
                size.check(buffer.tell())  # a text is in the file once, and in many rows
        finally:
            book.close()
    return buffer.getvalue()


def _rows(sheet: Iterable[tuple[Any, ...]]) -> Iterator[list[str]]:
    """Return the rows as texts, each at least as wide as the first that is not empty."""
    width = 0
    for row in sheet:
        texts = [_text(value) for value in row]
        while texts and not texts[-1].strip():
            texts.pop()
        if texts:
            width = width or len(texts)
            texts += [""] * (width - len(texts))
        yield texts


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, date | time):
        return value.isoformat()
    return f"{value}"
