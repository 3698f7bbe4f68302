"""The lines of a file or of stdin, plain, gzipped or a workbook, and the form of their errors."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.tables._workbooks import FREE_BYTES, RATIO, workbook_text

Source = str | PathLike[str]
"""A file, or "-" for stdin."""

STDIN = "-"

MOST_CHARACTERS = 2**20
"""Of a line, or of the lines of one row; real ones have a thousandth of that."""

_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1f\udc80-\udcff]")  # the last are undecodable bytes
_GZIP = b"\x1f\x8b"
_ZIP = "PK\x03\x04"
_OLD_EXCEL = "\udcd0\udccf\x11"
_UTF_8 = "utf-8-sig"
_MARKS = {
    codecs.BOM_UTF8: _UTF_8,
    codecs.BOM_UTF32_LE: "utf-32",  # begins like that of UTF-16
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_PIECE = 2**17


class Lines:
    """The lines of a text, checked to be text, with the number of the last one read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.encoding = "UTF-8"
        self.number = 0
        self._text: Iterator[str] = iter(())
        self._held: str | None = None
        self._hash = hashlib.sha256()

    def _read_from(self, text: io.TextIOWrapper, hashed: Hashed) -> None:
        self._text = iter(partial(text.readline, MOST_CHARACTERS + 1), "")
        self._hash = hashed.hash
        self.encoding = "UTF-8" if text.encoding == _UTF_8 else text.encoding

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        if self._held is not None:
            line, self._held = self._held, None
            return line
        line = next(self._text)
        self.number += 1
        if len(line) > MOST_CHARACTERS:
            raise self.wrong(
                f"a line must have at most {MOST_CHARACTERS:,} characters but has more"
            )
        found = _NOT_TEXT.search(line)
        if found is not None:
            raise self._not_text(line, found[0])
        return line

    def _not_text(self, line: str, character: str) -> InvalidParameter:
        byte = f"0x{ord(character) & 0xFF:02x}"
        if self.number == 1 and line.startswith((_ZIP, _OLD_EXCEL)):
            remedy = ": save it as CSV, or as a workbook of Excel (.xlsx)"
        elif self.encoding == "UTF-8" and (character == "\0" or ord(character) > 0xFF):
            likely = "utf-16" if character == "\0" else "latin-1 or cp1252"
            remedy = f": if it is text of another encoding, say which (--encoding {likely})"
        else:
            remedy = ""
        return self.wrong(
            f"the file must be text in {self.encoding} but has the byte {byte}{remedy}"
        )

    def first(self) -> str:
        """Return the next line that is not blank, without taking it; empty if there is none."""
        for line in self:
            if line.strip():
                self._held = line
                return line
        return ""

    def check_not_empty(self) -> None:
        """Refuse a file of blank lines."""
        if not self.first():
            raise InvalidParameter(f"{self.name} must have rows but is empty.")

    def fields(self, form: str) -> Iterator[list[str]]:
        """Return the fields of every line: as many words as the form has, or parts between tabs."""
        width = len(form.split())
        for line in self:
            fields = fields_of(line, width)
            if fields is not None:
                yield fields
            elif line.strip():
                raise self.wrong(
                    f"there must be {width} fields {form!r} but there are {len(line.split())}"
                )

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes of the file, once all lines are read."""
        return self._hash.hexdigest()

    def wrong(self, rule: str) -> InvalidParameter:
        """Return the error for the line that was read last."""
        return InvalidParameter(f"{self.name}, line {self.number}: {rule}.")

    def wrong_somewhere(self, rule: str) -> InvalidParameter:
        """Return the error for a line that is not known any more."""
        return InvalidParameter(f"{self.name}: {rule}.")


def fields_of(line: str, width: int) -> list[str] | None:
    """Return the parts of a line, between tabs or else between spaces, if they are `width`."""
    if "\t" in line:
        between_tabs = [field.strip() for field in line.split("\t")]
        if len(between_tabs) == width and all(between_tabs):
            return between_tabs
    words = line.split()
    return words if len(words) == width else None


@contextmanager
def opened(source: Source, encoding: str | None = None) -> Iterator[Lines]:
    """Give the lines of a file or of stdin; whatever fails meanwhile is told with its name.

    A file that begins with a byte order mark is read as that says, any other in the encoding, by
    default UTF-8.
    """
    name = name_of(source)
    lines = Lines(name)
    try:
        with told_with(name), _raw(source) as raw:
            hashed = Hashed(raw)
            with _text(name, hashed, encoding) as text:
                lines._read_from(text, hashed)
                yield lines
    except UnicodeError as error:
        raise lines.wrong_somewhere(
            f"the file must be text in {lines.encoding} but is not, in or after line"
            f" {lines.number + 1}"
        ) from error
    except csv.Error as error:
        raise lines.wrong(f"the table must be well-formed but is not: {error}") from error


@contextmanager
def opened_bytes(source: Source) -> Iterator[tuple[io.BufferedReader, Hashed]]:
    """Give the bytes of a file or of stdin, inflated if need be, and what hashes those read."""
    name = name_of(source)
    with told_with(name), _raw(source) as raw:
        hashed = Hashed(raw)
        yield _content(name, hashed), hashed


def name_of(source: Source) -> str:
    """Return what messages call a file."""
    return "stdin" if str(source) == STDIN else str(source)


@contextmanager
def told_with(name: str) -> Iterator[None]:
    """Tell with its name what fails when a file is read."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidParameter(f"{name} must be a file but does not exist.") from error
    except IsADirectoryError as error:
        raise InvalidParameter(f"{name} must be a file but is a directory.") from error
    except PermissionError as error:
        raise InvalidParameter(f"{name} must be readable but permission is denied.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidParameter(f"{name} must be a whole gzip file but is damaged.") from error
    except OSError as error:
        raise InvalidParameter(
            f"{name} must be readable but reading failed: {error.strerror or error}."
        ) from error


def _raw(source: Source) -> Any:
    if str(source) == STDIN:
        return nullcontext(sys.stdin.buffer)
    return Path(source).open("rb", 0)


class Hashed(io.RawIOBase):
    """Bytes that are hashed as they are read, as stdin cannot be read twice."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.hash = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._raw.readinto(buffer)
        self.hash.update(memoryview(buffer)[:count])
        self.size += count
        return count


class _Inflated(io.RawIOBase):
    """Bytes of a gzipped file, as many as go with its size."""

    def __init__(self, name: str, hashed: Hashed, packed: Any) -> None:
        self._name, self._hashed = name, hashed
        self._file = gzip.GzipFile(fileobj=packed)
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._size += count
        if self._size > FREE_BYTES + RATIO * self._hashed.size:
            raise InvalidParameter(
                f"{self._name} must not inflate to over {RATIO} times its size and"
                f" {FREE_BYTES // 2**10:,} KiB but does: if it is what you want, gunzip it first."
            )
        return count


def _content(name: str, hashed: Hashed) -> io.BufferedReader:
    buffered: io.BufferedReader = io.BufferedReader(hashed)
    is_gzip = buffered.peek(2)[:2] == _GZIP
    return io.BufferedReader(_Inflated(name, hashed, buffered), _PIECE) if is_gzip else buffered


def _text(name: str, hashed: Hashed, encoding: str | None) -> io.TextIOWrapper:
    content = _content(name, hashed)
    if content.peek(4)[:4] == _ZIP.encode():
        return workbook_text(name, content.read())
    known = _encoding_of(content.peek(4)[:4], encoding)
    errors = "surrogateescape" if known == _UTF_8 else "strict"
    return io.TextIOWrapper(content, known, errors=errors, newline="")


def _encoding_of(start: bytes, encoding: str | None) -> str:
    """Return the encoding of a file that begins so; a byte order mark knows better than anybody."""
    for mark, marked in _MARKS.items():
        if start.startswith(mark):
            return marked
    if encoding is None:
        return _UTF_8
    try:
        known = codecs.lookup(encoding).name
        "".encode(known)  # which is refused where it is not from text to bytes
    except (LookupError, TypeError, ValueError):
        raise InvalidParameter(
            "encoding must be one of text, such as utf-8, latin-1, cp1252 or utf-16, but got"
            f" {encoding!r}."
        ) from None
    return {"utf-8": _UTF_8, "utf-16": "utf-16-le"}.get(known, known)
