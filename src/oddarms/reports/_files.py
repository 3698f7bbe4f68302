"""A result as files: result.json for programs, and arms.csv for spreadsheets, too."""

from __future__ import annotations

import json
from pathlib import Path

from oddarms.files import writable_folder, write_whole
from oddarms.search import Result
from oddarms.tables import csv_text


def write_results(result: Result, folder: str | Path, *, raw_csv: bool = False) -> list[Path]:
    """Write ``result.json`` and ``arms.csv`` into a folder.

    ``result.json`` is `Result.to_dict`, and ``arms.csv`` has its rows of the arms.

    Parameters
    ----------
    result
        The result.
    folder
        Made if it is missing.
    raw_csv
        Write labels to ``arms.csv`` as they are. Otherwise those that a spreadsheet would run, as
        they begin with =, +, - or @ and are no number, have an apostrophe before them, and texts
        are in quotes.

    Returns
    -------
    list of Path
        The two files.
    """
    place = writable_folder("folder", folder)
    text = result_json(result)
    return [write_whole(place / "result.json", text), write_arms(result, place, raw=raw_csv)]


def write_arms(result: Result, folder: Path, *, raw: bool = False) -> Path:
    """Write ``arms.csv``, a row for each arm."""
    text = arms_csv(result, raw=raw)
    return write_whole(folder / "arms.csv", text.encode("utf-8", "backslashreplace"))


def result_json(result: Result) -> str:
    """Return the result document as text."""
    return json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"


def arms_csv(result: Result, *, raw: bool = True) -> str:
    """Return what is known of each arm as CSV: for programs, or safe to open in a spreadsheet."""
    rows = result.rows()
    cells = (list(row.values()) for row in rows)
    return csv_text(list(rows[0]), cells, for_spreadsheets=not raw)
