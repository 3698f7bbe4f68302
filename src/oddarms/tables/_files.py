"""Files of recorded data: CSV read by pandas, Excel by openpyxl, Parquet by pyarrow.

Files are hostile input. What a packed file may inflate to is bounded, and rows stream through.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.problem import IntArray
from oddarms.tables._values import ABSENT, Wrong, factorized, shown

Source = str | PathLike[str]
"""A file, or "-" for stdin."""
STDIN = "-"

MAX_INFLATED = 256 * 2**20
"""Bytes that any packed file may inflate to; each of its own bytes adds `MAX_RATIO`."""
MAX_RATIO = 100
MAX_LINE = 2**20
"""Bytes of a line, and characters of a label."""
PART_ROWS = 2**18
"""Rows that are in memory at a time."""
_HEAD_BYTES = 2**16
_TOO_LARGE = (
    f"a packed file may inflate to {MAX_INFLATED // 2**20} MiB and {MAX_RATIO} times its size"
)
_GZIP, _ZIP, _PARQUET, _OLD_EXCEL = b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"\xd0\xcf\x11\xe0"
_DELIMITERS = ",;\t|"
_USUAL = ("arm", "reward", "trials", "events", "count", "total", "squares")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # begins like that of UTF-16
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError)
"""What openpyxl and pyarrow raise, beside exceptions of their own, for damaged files."""

LabelColumns = list[tuple[IntArray, list[Any]]]
"""Of each column a code for every row, -1 where there is none, and what the codes stand for."""


class Part(NamedTuple):
    """Some rows of a table: columns of labels, and columns of values."""

    labels: LabelColumns
    values: list[Any]


@dataclass(frozen=True)
class Table:
    """Rows under named columns, read in parts.

    Attributes
    ----------
    name
        For messages.
    columns
        Their names.
    parts
        Reads the columns of labels and those of values at these places.
    is_file
        Whether names are compared without regard to case, and blanks around labels are dropped.
    commas
        Whether numbers may have decimal commas.
    index
        The places of columns that are a frame's index.
    """

    name: str
    columns: list[Any]
    parts: Callable[[Sequence[int], Sequence[int]], Iterator[Part]]
    is_file: bool = True
    commas: bool = False
    index: tuple[int, ...] = ()

    def places(self, name: Any) -> list[int]:
        """Return the places of the columns of that name."""
        if self.is_file:
            name = str(name).strip().casefold()
            return [i for i, column in enumerate(self.columns) if column.strip().casefold() == name]
        return [i for i, column in enumerate(self.columns) if column == name]

    def place(self, word: str, name: Any) -> int:
        """Return the place of the one column that a parameter names."""
        places = self.places(name)
        if len(places) == 1:
            return places[0]
        how = "is there twice" if places else f"is not among {self.listed()}"
        raise InvalidParameter(f"{self.name}: {word} must name a column but {name!r} {how}.")

    def listed(self, most: int = 10) -> str:
        """Return the names of the first columns for a message."""
        text = ", ".join(shown(str(column)) for column in self.columns[:most])
        more = len(self.columns) - most
        return text if more <= 0 else f"{text} and {more} more"


# Opening


class Content(io.RawIOBase):
    """The bytes of a stream, of which the first are known and the number is bounded.

    Where `is_text` is set, it refuses the byte 0 and lines of more than `MAX_LINE` bytes.
    """

    def __init__(self, stream: Any, wrong: Wrong, most: float = float("inf")) -> None:
        self.head: bytes = stream.read(_HEAD_BYTES) or b""
        self.is_text = self.has_nul = False
        self._rest, self._stream = self.head, stream
        self._wrong, self._left, self._line = wrong, most, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        piece, self._rest = self._rest[:size], self._rest[size:]
        piece = piece or self._stream.read(size) or b""
        self._left -= len(piece)
        if self._left < 0:
            raise self._wrong(f"{_TOO_LARGE}: unpack this one first if it is what you want")
        if self.is_text:
            self._check_text(piece)
        buffer[: len(piece)] = piece
        return len(piece)

    def check_head(self) -> None:
        """Refuse a file that is no text before anything is made of its first bytes."""
        self._check_text(self.head)
        self._line = 0

    def _check_text(self, piece: bytes) -> None:
        if b"\0" in piece and not self.has_nul:
            raise self._wrong(
                "the file must be text but has the byte 0x00; if it is text in UTF-16, give"
                " encoding='utf-16'"
            )
        end = piece.rfind(b"\n") if b"\n" in piece else piece.rfind(b"\r")
        self._line = len(piece) - end - 1 + (self._line if end < 0 else 0)
        if self._line > MAX_LINE:
            raise self._wrong(f"a line may have {MAX_LINE:,} bytes but one has more")


@contextmanager
def opened_bytes(source: Source) -> Iterator[Content]:
    """Give the bytes of a file or of stdin, inflated where they are gzipped."""
    name = name_of(source)

    def wrong(rule: str) -> InvalidParameter:
        return InvalidParameter(f"{name}: {rule}.")

    with told_with(name), _raw(source) as raw:
        content = Content(raw, wrong)
        if content.head.startswith(_GZIP):
            size = 0 if str(source) == STDIN else Path(source).stat().st_size
            most = MAX_INFLATED + MAX_RATIO * size
            content = Content(gzip.GzipFile(fileobj=io.BufferedReader(content)), wrong, most)
        yield content


@contextmanager
def opened_text(source: Source, encoding: str | None = None) -> Iterator[io.TextIOWrapper]:
    """Give the text of a file or of stdin; it is UTF-8 unless a byte order mark says otherwise."""
    with opened_bytes(source) as content, as_text(content, name_of(source), encoding) as text:
        yield text


@contextmanager
def as_text(content: Content, name: str, encoding: str | None) -> Iterator[io.TextIOWrapper]:
    """Give bytes as text."""
    if content.head.startswith((_ZIP, _OLD_EXCEL)):
        raise InvalidParameter(f"{name} must be text but is an archive or a workbook.")
    known = _encoding_of(content.head, encoding)
    content.is_text, content.has_nul = True, known.startswith(("utf-16", "utf-32"))
    content.check_head()
    try:
        yield io.TextIOWrapper(io.BufferedReader(content, 2**18), known, newline="")
    except UnicodeError as error:
        said = "UTF-8" if known == "utf-8-sig" else known
        remedy = "" if encoding else ": give encoding, such as 'latin-1', 'cp1252' or 'utf-16'"
        raise InvalidParameter(f"{name} must be text in {said} but is not{remedy}.") from error


def name_of(source: Source) -> str:
    """Return what messages call a file."""
    return "stdin" if str(source) == STDIN else str(source)


@contextmanager
def told_with(name: str) -> Iterator[None]:
    """Name the file in errors of reading it."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidParameter(f"{name} does not exist.") from error
    except IsADirectoryError as error:
        raise InvalidParameter(f"{name} must be a file but is a directory.") from error
    except PermissionError as error:
        raise InvalidParameter(f"{name} cannot be read: permission is denied.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidParameter(f"{name} must be a whole gzip file but is damaged.") from error
    except OSError as error:
        raise InvalidParameter(f"{name} cannot be read: {error.strerror or error}.") from error


def _raw(source: Source) -> Any:
    if str(source) == STDIN:
        return nullcontext(sys.stdin.buffer)
    return Path(source).open("rb", 0)


def _encoding_of(head: bytes, encoding: str | None) -> str:
    for mark, marked in _MARKS.items():
        if head.startswith(mark):
            return marked
    if encoding is None:
        return "utf-8-sig"
    try:
        known = codecs.lookup(encoding).name
        "".encode(known)  # which is refused where it is not from text to bytes
    except (LookupError, TypeError, ValueError):
        raise InvalidParameter(
            f"encoding must be one of text, such as 'latin-1' or 'utf-16', but got {encoding!r}."
        ) from None
    return {"utf-8": "utf-8-sig", "utf-16": "utf-16-le"}.get(known, known)


@contextmanager
def opened_table(
    source: Source, wanted: Sequence[str] = (), encoding: str | None = None
) -> Iterator[Table]:
    """Give the table in a file; `wanted` columns help to tell what separates them."""
    name = name_of(source)
    if name.casefold().endswith((".xml", ".xml.gz")):
        raise InvalidParameter(f"{name} is XML: read test reports with oddarms.read_junit.")
    with opened_bytes(source) as content:
        if content.head.startswith(_PARQUET):
            with _opened_parquet(name, content) as table:
                yield table
        elif content.head.startswith(_ZIP):
            yield _workbook(name, io.BytesIO(content.read()))
        elif content.head.startswith(_OLD_EXCEL):
            raise InvalidParameter(f"{name} is an old workbook of Excel: save it as .xlsx or CSV.")
        else:
            pandas_of("reading a table")
            with as_text(content, name, encoding) as text:
                start = codecs.getincrementaldecoder(text.encoding)().decode(content.head)
                yield _csv_table(name, text, start, wanted)


def pandas_of(needed_for: str) -> Any:
    """Return pandas, or say how to install it."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra.of("frame", needed_for) from None
    return pandas


# CSV


def _csv_table(name: str, text: io.TextIOWrapper, start: str, wanted: Sequence[str]) -> Table:
    lines = [line for line in start.splitlines(keepends=True) if line.strip()]
    if not lines:
        raise InvalidParameter(f"{name} must have rows but is empty.")
    columns, delimiter = _header(lines, {word.casefold() for word in (*_USUAL, *wanted)})
    sample = list(islice(csv.reader(lines, delimiter=delimiter), 1, 1001))

    def parts(labels: Sequence[int], values: Sequence[int]) -> Iterator[Part]:
        cells = (row[i].strip() for row in sample for i in values if i < len(row))
        comma = delimiter != "," and any(map(_DECIMAL_COMMA.fullmatch, cells))
        read = pandas_of("reading CSV").read_csv(
            text,
            sep=delimiter,
            header=0,
            names=range(len(columns)),
            index_col=False,
            dtype=dict.fromkeys(labels, _label_type()),
            na_values=dict.fromkeys(values, _SPELLINGS),
            keep_default_na=False,
            decimal="," if comma else ".",
            low_memory=False,
            chunksize=PART_ROWS,
        )
        for frame in _told_by_pandas(name, read):
            yield Part(
                [factorized(frame[i]) for i in labels], [frame[i].to_numpy() for i in values]
            )

    return Table(name, columns, parts, commas=delimiter != ",")


def _label_type() -> Any:
    """Return the type with which pandas keeps labels as they are written, and reads them fast."""
    try:
        import pyarrow
    except ImportError:
        return object
    return pandas_of("reading CSV").ArrowDtype(pyarrow.string())


_SPELLINGS = sorted({how(word) for word in ABSENT for how in (str, str.upper, str.title)} | {"NaN"})


def _header(lines: list[str], wanted: set[str]) -> tuple[list[str], str]:
    """Return the names of the columns and what separates them."""
    found = {
        delimiter: [cell.strip() for cell in next(csv.reader(lines, delimiter=delimiter))]
        for delimiter in _DELIMITERS
    }

    def fit(delimiter: str) -> tuple[int, int]:
        names = [name.casefold() for name in found[delimiter]]
        return len(wanted.intersection(names)), len(names)

    best = max(_DELIMITERS, key=fit)
    return found[best], best


def _told_by_pandas(name: str, read: Any) -> Iterator[Any]:
    """Give the parts that pandas reads, with its errors as ours."""
    from pandas.errors import ParserError, ParserWarning

    frames = iter(read)
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ParserWarning)
                frame = next(frames, None)
        except ParserWarning:
            raise InvalidParameter(
                f"{name}: rows have more fields than the header has columns."
            ) from None
        except ParserError as error:
            said = str(error).strip().rpartition("C error: ")[2]
            raise InvalidParameter(f"{name} must be a well-formed table: {said}.") from error
        if frame is None:
            return
        yield frame


# Excel


def _workbook(name: str, packed: io.BytesIO) -> Table:
    """Return the first sheet of a workbook."""
    try:
        import openpyxl
    except ImportError:
        raise MissingExtra.of("excel", "reading workbooks of Excel") from None
    with _whole_file(name, "workbook of Excel"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like
        _check_inflated(name, packed)
        book = openpyxl.load_workbook(packed, read_only=True, data_only=True, keep_links=False)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # what a file says of its size may be wrong
        rows = (row for row in sheet.iter_rows(values_only=True) if any(map(_is_filled, row)))
        columns = [_cell_text(cell) for cell in next(rows, ())]
    if not columns:
        raise InvalidParameter(f"{name} must have rows but is empty.")

    def parts(labels: Sequence[int], values: Sequence[int]) -> Iterator[Part]:
        places = [*labels, *values]
        while True:
            with _whole_file(name, "workbook of Excel"):
                cells = [
                    [row[i] if i < len(row) else None for i in places]
                    for row in islice(rows, PART_ROWS)
                ]
            if not cells:
                return
            taken = np.empty((len(cells), len(places)), dtype=object)
            taken[:] = cells
            texts = [[_cell_text(cell) for cell in taken[:, i]] for i in range(len(labels))]
            yield Part(
                [factorized(np.array(column, dtype=object)) for column in texts],
                [taken[:, i] for i in range(len(labels), len(places))],
            )

    return Table(name, columns, parts)


def _check_inflated(name: str, packed: io.BytesIO) -> None:
    with zipfile.ZipFile(packed) as archive:
        if "xl/workbook.xml" not in archive.namelist():
            raise InvalidParameter(f"{name} must be text or a table but is another archive.")
        inflated = sum(member.file_size for member in archive.infolist())
    if inflated > MAX_INFLATED + MAX_RATIO * packed.getbuffer().nbytes:
        raise InvalidParameter(
            f"{name}: {_TOO_LARGE}: save the sheet as CSV if it is what you want."
        )


def _is_filled(cell: Any) -> bool:
    return cell is not None and cell != ""


def _cell_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        cell = int(cell)  # as Excel shows it
    return "" if cell is None else str(cell).strip()


@contextmanager
def _whole_file(name: str, kind: str) -> Iterator[None]:
    """Say that a file is damaged where a library fails to read it."""
    try:
        yield
    except (InvalidParameter, MissingExtra):
        raise
    except (zipfile.BadZipFile, SyntaxError, *_DAMAGE) as error:  # that of XML is a SyntaxError
        said = shown(str(error).partition("\n")[0].rstrip("."), 200)[1:-1]
        raise InvalidParameter(f"{name} must be a whole {kind} but is damaged: {said}.") from error


# Parquet


@contextmanager
def _opened_parquet(name: str, content: Content) -> Iterator[Table]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra.of("parquet", "reading Parquet") from None
    pandas_of("reading Parquet")  # tells labels apart faster than we do
    raw: Any = io.BytesIO(content.read()) if name == "stdin" else Path(name).open("rb")  # noqa: SIM115
    with raw, _whole_file(name, "Parquet file"):
        metadata = parquet.read_metadata(raw)
        schema = metadata.schema.to_arrow_schema()
        size = raw.seek(0, io.SEEK_END)
        _check_parquet_size(name, metadata, size)

        def parts(labels: Sequence[int], values: Sequence[int]) -> Iterator[Part]:
            _check_types(name, schema, labels, values)
            texts, numbers = ([schema.names[i] for i in places] for places in (labels, values))
            # A label is kept once and not in every row: a few bytes can stand for gigabytes.
            file = parquet.ParquetFile(
                raw, metadata=metadata, read_dictionary=texts, buffer_size=2**20, pre_buffer=False
            )
            batches = file.iter_batches(PART_ROWS, columns=[*texts, *numbers], use_threads=False)
            for batch in batches:
                yield Part(
                    [_arrow_codes(batch.column(column)) for column in texts],
                    [batch.column(column).to_numpy(zero_copy_only=False) for column in numbers],
                )

        yield Table(name, list(schema.names), parts)


def _arrow_codes(column: Any) -> tuple[IntArray, list[Any]]:
    from pyarrow import DictionaryArray

    encoded = column if isinstance(column, DictionaryArray) else column.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def _check_types(name: str, schema: Any, labels: Sequence[int], values: Sequence[int]) -> None:
    """Refuse columns whose values could be large in every row."""
    from pyarrow import types

    for i in (*labels, *values):
        kind = schema.types[i]
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_nested(kind) or types.is_fixed_size_binary(kind):
            raise InvalidParameter(
                f"{name}: the column {schema.names[i]!r} must be texts or numbers but has the type"
                f" {shown(str(kind))}."
            )


def _check_parquet_size(name: str, metadata: Any, size: int) -> None:
    """Refuse a file that would be far larger in memory, before it is read."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    inflated = sum(group.total_byte_size for group in groups)
    if max(rows, inflated) > MAX_INFLATED + MAX_RATIO * size:
        raise InvalidParameter(
            f"{name}: {_TOO_LARGE}: write this one uncompressed if it is what you want."
        )
