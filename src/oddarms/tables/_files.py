"""Files: tables read by pandas, openpyxl and pyarrow, labels and results by line; CSV written.

Files are hostile input: the unpacked size and the length of a line are limited.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import os
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.json_text import parsed
from oddarms.problem import brief

Source = str | PathLike[str]
"""A file, or "-" for stdin."""
STDIN = "-"

MAX_INFLATED = 256 * 2**20
"""Bytes that any compressed file may unpack to; each of its own bytes adds `MAX_RATIO`."""
MAX_RATIO = 100
MAX_LINE = 2**20
"""Bytes of a line, and characters of a label."""
MAX_RESULTS = 10_000_000
"""Results in one file."""
PART_ROWS = 2**18
"""Rows of a CSV or Parquet file that are in memory at a time."""
_HEAD_BYTES = 2**16
_TOO_LARGE = (
    f"a compressed file may unpack to {MAX_INFLATED // 2**20} MiB plus {MAX_RATIO} times its size"
)
_GZIP, _ZIP, _PARQUET, _OLD_EXCEL = b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"\xd0\xcf\x11\xe0"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # begins like that of UTF-16
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


# Bytes and text


def name_of(source: Source) -> str:
    """Return the name of a file in messages."""
    return "stdin" if _is_stdin(source) else str(source)


def _is_stdin(source: Source) -> bool:
    return str(source) == STDIN


class Content(io.RawIOBase):
    """The bytes of a stream, whose `head` is known, with a limit on their number."""

    def __init__(self, stream: Any, name: str, most: float = math.inf) -> None:
        self.head: bytes = stream.read(_HEAD_BYTES) or b""
        self._rest, self._stream, self._name = self.head, stream, name
        self._left, self._line = most, 0
        self._is_text = self._has_nul = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        piece, self._rest = self._rest[:size], self._rest[size:]
        piece = piece or self._stream.read(size) or b""
        self._left -= len(piece)
        if self._left < 0:
            raise InvalidParameter(f"{self._name}: {_TOO_LARGE}. Unpack it first.")
        if self._is_text:
            self._check_text(piece)
        buffer[: len(piece)] = piece
        return len(piece)

    def refuse_binary(self, *, has_nul: bool) -> None:
        """From here on, refuse lines longer than `MAX_LINE` and, unless `has_nul`, the byte 0."""
        self._is_text, self._has_nul = True, has_nul
        self._check_text(self.head)
        self._line = 0

    def _check_text(self, piece: bytes) -> None:
        if b"\0" in piece and not self._has_nul:
            raise InvalidParameter(
                f"{self._name} must be text, but it contains the byte 0x00. If it is text in"
                " UTF-16, set encoding='utf-16'."
            )
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
        self._line = len(piece) - end - 1 + (self._line if end < 0 else 0)
        if self._line > MAX_LINE:
            raise InvalidParameter(f"{self._name}: a line has more than {MAX_LINE:,} bytes.")


@contextmanager
def opened_bytes(source: Source) -> Iterator[Content]:
    """Give the bytes of a file or of stdin, unpacked if they are gzipped."""
    name, path = name_of(source), Path(source)
    try:
        stdin = _is_stdin(source)
        with nullcontext(sys.stdin.buffer) if stdin else path.open("rb", 0) as raw:
            content = Content(raw, name)
            if content.head.startswith(_GZIP):
                most = MAX_INFLATED + MAX_RATIO * (0 if stdin else path.stat().st_size)
                content = Content(gzip.GzipFile(fileobj=io.BufferedReader(content)), name, most)
            yield content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidParameter(f"{name} is a damaged or incomplete gzip file.") from error
    except OSError as error:
        reason = error.strerror or brief(str(error), 200)
        raise InvalidParameter(f"{name} cannot be read: {reason}.") from error


@contextmanager
def _as_text(
    content: Content, name: str, encoding: str | None = None
) -> Iterator[io.TextIOWrapper]:
    """Give bytes as text, which is UTF-8 unless a byte order mark says otherwise."""
    if content.head.startswith((_ZIP, _OLD_EXCEL)):
        raise InvalidParameter(f"{name} must be text, but it is an archive or a workbook.")
    known = _encoding_of(content.head, encoding)
    content.refuse_binary(has_nul=known.startswith(("utf-16", "utf-32")))
    try:
        yield io.TextIOWrapper(io.BufferedReader(content, 2**18), known, newline="")
    except UnicodeError as error:
        said = "UTF-8" if known == "utf-8-sig" else known
        remedy = "" if encoding else ": set encoding, such as 'latin-1', 'cp1252' or 'utf-16'"
        raise InvalidParameter(f"{name} is not text in {said}{remedy}.") from error


def _encoding_of(head: bytes, encoding: str | None) -> str:
    for mark, marked in _MARKS.items():
        if head.startswith(mark):
            return marked
    try:
        known = codecs.lookup(encoding or "utf-8").name
        "".encode(known)  # refused for codecs such as rot13
    except (LookupError, TypeError, ValueError):
        raise InvalidParameter(
            f"encoding must be a text encoding such as 'latin-1' or 'utf-16', but got {encoding!r}."
        ) from None
    return {"utf-8": "utf-8-sig", "utf-16": "utf-16-le"}.get(known, known)


# Tables


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    Attributes
    ----------
    name
        What messages call it.
    columns
        The names of the columns.
    frames
        Called with the places of columns of labels and of values, gives these columns as pandas
        frames, whose index counts the rows and whose columns are the places.
    is_file
        Whether labels are texts, and the case of columns' names does not matter.
    commas
        Whether numbers may have decimal commas.
    index
        The places of the levels of a frame's index.
    """

    name: str
    columns: list[Any]
    frames: Callable[[Sequence[int], Sequence[int]], Iterable[Any]]
    is_file: bool = True
    commas: bool = False
    index: tuple[int, ...] = ()

    def places(self, name: Any) -> list[int]:
        """Return the places of the columns of that name."""
        columns = self.columns
        if self.is_file:
            name = str(name).strip().casefold()
            columns = [column.strip().casefold() for column in columns]
        return [i for i, column in enumerate(columns) if column == name]

    def place(self, word: str, name: Any) -> int:
        """Return the place of the one column that a parameter names."""
        places = self.places(name)
        if len(places) == 1:
            return places[0]
        how = "names two columns" if places else f"is not a column; the columns are {self.listed()}"
        raise InvalidParameter(f"{self.name}: {word}={name!r} {how}.")

    def listed(self, most: int = 10) -> str:
        """Return the names of the first columns for a message."""
        text = ", ".join(brief(str(column)) for column in self.columns[:most])
        more = len(self.columns) - most
        return text if more <= 0 else f"{text} and {more} more"


def pandas_of(needed_for: str) -> Any:
    """Return pandas, or say how to install it."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra.of("frame", needed_for) from None
    return pandas


@contextmanager
def opened_table(
    source: Source, wanted: Sequence[str] = (), encoding: str | None = None
) -> Iterator[Table]:
    """Give the table in a file; `wanted` columns help to tell what separates them."""
    name = name_of(source)
    if name.casefold().endswith((".xml", ".xml.gz")):
        raise InvalidParameter(f"{name} is XML: read JUnit reports with oddarms.read_junit.")
    with opened_bytes(source) as content:
        if content.head.startswith(_PARQUET):
            stdin = _is_stdin(source)
            packed = io.BytesIO(content.read()) if stdin else Path(source).open("rb")  # noqa: SIM115
            with packed, _damage_told(name, "Parquet file"):
                yield _parquet(name, packed)
        elif content.head.startswith(_ZIP):
            yield _workbook(name, io.BytesIO(content.read()))
        elif content.head.startswith(_OLD_EXCEL):
            raise InvalidParameter(f"{name} is an old Excel workbook: save it as .xlsx or CSV.")
        else:
            with _as_text(content, name, encoding) as text:
                start = codecs.getincrementaldecoder(text.encoding)().decode(content.head)
                yield _csv_table(name, text, start, wanted)


@contextmanager
def _damage_told(name: str, kind: str) -> Iterator[None]:
    """Turn errors of openpyxl and pyarrow, which raise almost anything, into one sentence."""
    try:
        yield
    except (InvalidParameter, MissingExtra):
        raise
    except Exception as error:
        said = brief(str(error).rstrip("."), 200)
        raise InvalidParameter(f"{name} is a damaged {kind}: {said}.") from error


def _check_inflated(name: str, inflated: int, size: int) -> None:
    if inflated > MAX_INFLATED + MAX_RATIO * size:
        raise InvalidParameter(f"{name}: {_TOO_LARGE}. Save it as an uncompressed CSV.")


ABSENT = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
"""What stands for a missing value, in lower case."""
_SPELLINGS = (*ABSENT, *map(str.upper, ABSENT), "NaN")
_USUAL = ("arm", "reward", "trials", "events", "count", "total", "squares")


def _csv_table(name: str, text: Any, start: str, wanted: Sequence[str]) -> Table:
    pandas = pandas_of("reading a table")
    lines = [line for line in start.splitlines(keepends=True) if line.strip()]
    if not lines:
        raise InvalidParameter(f"{name} is empty.")
    known = {word.casefold() for word in (*_USUAL, *wanted)}
    headers = {mark: next(csv.reader(lines, delimiter=mark)) for mark in ",;\t|"}

    def fit(mark: str) -> tuple[int, int]:
        names = {column.strip().casefold() for column in headers[mark]}
        return len(known & names), len(headers[mark])

    delimiter = max(headers, key=fit)

    def frames(labels: Sequence[int], values: Sequence[int]) -> Iterator[Any]:
        try:
            for frame in pandas.read_csv(
                text,
                sep=delimiter,
                header=0,
                names=range(len(headers[delimiter])),
                dtype=dict.fromkeys(labels, str),
                na_values=dict.fromkeys(values, _SPELLINGS),
                keep_default_na=False,
                low_memory=False,
                chunksize=PART_ROWS,
            ):
                if not isinstance(frame.index, pandas.RangeIndex):
                    raise pandas.errors.ParserError("rows have more fields than the header")
                yield frame
        except pandas.errors.ParserError as error:
            said = str(error).strip().rpartition("C error: ")[2]
            raise InvalidParameter(f"{name} is not a well-formed table: {said}.") from error

    return Table(
        name, [column.strip() for column in headers[delimiter]], frames, commas=delimiter != ","
    )


def _workbook(name: str, packed: io.BytesIO) -> Table:
    """Return the first sheet of a workbook."""
    try:
        import openpyxl
        import pandas
    except ImportError:
        raise MissingExtra.of("excel", "reading Excel workbooks") from None
    with _damage_told(name, "Excel workbook"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like
        with zipfile.ZipFile(packed) as archive:
            if "xl/workbook.xml" not in archive.namelist():
                raise InvalidParameter(f"{name} is an archive, not a table: unpack it first.")
            inflated = sum(member.file_size for member in archive.infolist())
        _check_inflated(name, inflated, packed.getbuffer().nbytes)
        book = openpyxl.load_workbook(packed, read_only=True, data_only=True, keep_links=False)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # what a file says of its size may be wrong
        filled = (
            row
            for row in sheet.iter_rows(values_only=True)
            if any(cell is not None and cell != "" for cell in row)
        )
        columns = [_cell_text(cell) for cell in next(filled, ())]
    if not columns:
        raise InvalidParameter(f"{name} is empty.")

    def frames(labels: Sequence[int], values: Sequence[int]) -> Iterator[Any]:
        places = list(dict.fromkeys((*labels, *values)))  # a sheet may have 16,384 columns
        with _damage_told(name, "Excel workbook"):
            rows = [[row[i] if i < len(row) else None for i in places] for row in filled]
        frame = pandas.DataFrame(rows, columns=places, dtype=object)
        for i in labels:
            frame[i] = frame[i].map(_cell_text)
        yield frame

    return Table(name, columns, frames)


def _cell_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        cell = int(cell)  # as Excel shows it
    return "" if cell is None else str(cell).strip()


def _parquet(name: str, packed: Any) -> Table:
    try:
        import pandas  # noqa: F401 - which `to_pandas` needs
        from pyarrow import parquet, types
    except ImportError:
        raise MissingExtra.of("parquet", "reading Parquet") from None
    metadata = parquet.read_metadata(packed)
    schema = metadata.schema.to_arrow_schema()
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows, inflated = (sum(getattr(g, of) for g in groups) for of in ("num_rows", "total_byte_size"))
    _check_inflated(name, max(rows, inflated), packed.seek(0, io.SEEK_END))

    def frames(labels: Sequence[int], values: Sequence[int]) -> Iterator[Any]:
        places = list(dict.fromkeys((*labels, *values)))
        for i in places:
            kind = schema.types[i]
            kind = kind.value_type if types.is_dictionary(kind) else kind
            if types.is_nested(kind) or types.is_fixed_size_binary(kind):  # large in every row
                raise InvalidParameter(
                    f"{name}: the column {schema.names[i]!r} must have texts or numbers, but its"
                    f" type is {brief(str(kind))}."
                )
        # A label is kept once and not in every row: a few bytes can stand for gigabytes.
        once = [schema.names[i] for i in labels]
        file = parquet.ParquetFile(
            packed, metadata=metadata, read_dictionary=once, buffer_size=2**20, pre_buffer=False
        )
        names = [schema.names[i] for i in places]
        first = 0
        for batch in file.iter_batches(PART_ROWS, columns=names, use_threads=False):
            frame = batch.select(names).to_pandas(ignore_metadata=True)
            frame.columns, frame.index = places, range(first, first + len(frame))
            first += len(frame)
            yield frame

    return Table(name, list(schema.names), frames)


# Labels and results, line by line


def _lines(source: Source) -> Iterator[tuple[str, str]]:
    """Yield the place of each line that is not blank, for messages, and the line."""
    name = name_of(source)
    with opened_bytes(source) as content, _as_text(content, name) as text:
        for number, line in enumerate(text, 1):
            if line := line.strip():
                yield f"{name}, line {number:,}", line


def read_labels(arms: str) -> list[str]:
    """Return labels: one per line of a file or stdin, or those of a list with commas.

    Examples
    --------
    >>> read_labels("ann, bob")
    ['ann', 'bob']
    """
    if arms != STDIN and not os.path.exists(arms):
        if "," not in arms:
            raise InvalidParameter(
                "arms must be a file with a label per line, - for stdin, or labels separated by"
                f" commas; there is no file {brief(arms)}."
            )
        return [label.strip() for label in arms.split(",") if label.strip()]
    found: dict[str, None] = {}
    for place, line in _lines(arms):
        if line in found:
            raise InvalidParameter(f"{place}: the label {brief(line)} appears twice.")
        found[line] = None
    return list(found)


def read_results(source: Source, bounds: tuple[float, float]) -> list[tuple[str, float]]:
    """Return pairs of ticket and reward.

    Lines ``ticket reward``, a CSV with the columns ``ticket`` (or ``id``) and ``reward``, or a
    JSON object with these keys per line; at most ten million of them.
    """
    results: list[tuple[str, float]] = []
    names: list[str] | None = None
    for place, line in _lines(source):
        mark = next((mark for mark in ",;\t" if mark in line), None)
        fields = next(csv.reader([line], delimiter=mark)) if mark else line.split()
        fields = [field.strip() for field in fields]
        if names is None:
            names = [name.casefold() for name in fields]
            if "reward" in names and {"ticket", "id"} & set(names):
                continue
            names = ["ticket", "reward"]
        try:
            found = parsed(line) if line.startswith("{") else dict(zip(names, fields, strict=True))
            results.append(_result(found, bounds))
        except ValueError as error:
            raise InvalidParameter(
                f"{place}: expected a ticket and a reward, but got {brief(line)}: {error}."
            ) from None
        if len(results) > MAX_RESULTS:
            raise InvalidParameter(f"{place}: the file has more than {MAX_RESULTS:,} results.")
    return results


def _result(found: dict[str, Any], bounds: tuple[float, float]) -> tuple[str, float]:
    ticket, reward = found.get("ticket", found.get("id")), found.get("reward")
    if not re.fullmatch(r"([0-9]{1,19}\.){3}[0-9a-f]{16}", str(ticket)):
        raise ValueError("a ticket is an id from ask, such as 17.3.204.9f86d081884c7d65")
    if not isinstance(reward, bool | int | float | str) or "_" in str(reward):
        raise ValueError("the reward must be a number")
    value = float(reward)
    if not bounds[0] <= value <= bounds[1]:
        raise ValueError(f"the reward must lie within [{bounds[0]:g}, {bounds[1]:g}]")
    return str(ticket), value


# CSV

_BETWEEN = re.compile(r"([;,|\t\r\n])")
"""Where programs split a line, or may."""
_RUN = re.compile(r"'*[\s\"]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""The beginning of a text that a spreadsheet runs, or that was neutralised; the last four are
full-width characters."""
_BLANK = re.compile(r"'*[\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")


def csv_text(
    header: Sequence[str], rows: Iterable[Sequence[Any]], *, for_spreadsheets: bool = False
) -> str:
    """Return a table as CSV with Unix line ends; None is an empty field.

    Parameters
    ----------
    header, rows
        The names of the columns, and the cells.
    for_spreadsheets
        Neutralise texts that a spreadsheet would run, see `neutralised`, and quote all cells but
        numbers, as a spreadsheet may split lines at semicolons or tabs.

    Examples
    --------
    >>> print(csv_text(["arm", "odds"], [["ann", 2.5], ["bob", None]]), end="")
    arm,odds
    ann,2.5
    bob,
    """
    lines = _UnixLines()
    writer = csv.writer(
        lines, quoting=csv.QUOTE_NONNUMERIC if for_spreadsheets else csv.QUOTE_MINIMAL
    )
    writer.writerow(header)
    for row in rows:
        safe = (neutralised(c) if for_spreadsheets and isinstance(c, str) else c for c in row)
        writer.writerow(safe)
    return "".join(lines)


class _UnixLines(list[str]):
    """Collects lines that the csv module ends with CR LF, with LF alone."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


def neutralised(text: str) -> str:
    """Return a text that a spreadsheet shows instead of running it.

    An apostrophe goes before a text that begins with =, +, -, @, a tab or a line end, also after
    blanks and quotes, but not before a number; and within a text after a comma, a semicolon, a
    bar, a tab or a line end, where a program may split it. Apostrophes before such a character get
    one more, so the original is restored by removing the first.

    Examples
    --------
    >>> [neutralised(text) for text in ("=1+1", "'=1+1", "-1", "ann", "a;=1+1")]
    ["'=1+1", "''=1+1", '-1', 'ann', "a;'=1+1"]
    """
    parts = [
        f"'{part}" if _RUN.match(part) and not _NUMBER.fullmatch(part) else part
        for part in _BETWEEN.split(text)
    ]
    return ("'" if _BLANK.match(text) else "") + "".join(parts)
