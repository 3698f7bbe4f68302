"""What commands print: tables for people, JSON and CSV for programs, notes on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import typer

from oddarms.cli._guard import EXIT_FAILED
from oddarms.cli._streams import say
from oddarms.tables import csv_text


class Format(StrEnum):
    """How a command prints what it found."""

    table = "table"
    json = "json"
    csv = "csv"


class ResultFormat(StrEnum):
    """How a command prints an answer."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


def json_text(value: Any) -> str:
    """Return a value as JSON in ASCII."""
    return json.dumps(value, indent=1) + "\n"


def emit_rows(how: Format, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows for programs: CSV, or a JSON list of objects."""
    if how is Format.csv:
        emit(csv_text(header, rows))
    else:
        emit(json_text([dict(zip(header, row, strict=True)) for row in rows]))


def emit(*parts: str) -> None:
    """Print on stdout, all of it or else an error; a reader who has gone ends the command."""
    emit_all(parts)


def emit_all(parts: Iterable[str]) -> None:
    """Print the parts of a long text as they come."""
    try:
        for part in parts:
            sys.stdout.write(_encodable(part))
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        raise typer.Exit(EXIT_FAILED) from None
    except OSError:
        _drop_stdout()
        raise


def _encodable(text: str) -> str:
    """Return a text with what the stream has no bytes for written out."""
    if text.isascii():
        return text
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _drop_stdout() -> None:
    """Let Python, when it ends, not try once more to write what could not be written."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Print a remark for people, on stderr."""
    say(text)
