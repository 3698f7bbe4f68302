"""The answer of ``oddarms find``: on the screen and as files."""

from __future__ import annotations

from pathlib import Path

from oddarms.cli._answer import rendered
from oddarms.cli._printing import Format, emit, note
from oddarms.errors import MissingExtra
from oddarms.reports import write_report, write_results
from oddarms.search import Result


def write(result: Result, folder: Path, *, raw_csv: bool) -> None:
    """Write result.json, arms.csv and, where matplotlib is there, report.html."""
    write_results(result, folder, raw_csv=raw_csv)
    try:
        write_report(result, folder, raw_csv=raw_csv)
    except MissingExtra as error:
        note(f"no report: {error}")


def show(result: Result, how: Format, folder: Path, *, quiet: bool) -> None:
    """Print the answer."""
    emit(rendered(result, how))
    if not quiet:
        note(f"report: {folder / 'report.html'} (beside it result.json and arms.csv)")
