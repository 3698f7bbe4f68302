"""A result as files for programs: result.json and arms.csv."""

from __future__ import annotations

import json
from pathlib import Path

from oddarms.files import writable_folder, write_whole
from oddarms.search import Result
from oddarms.tables import csv_text


def write_results(result: Result, folder: str | Path) -> list[Path]:
    """Write ``result.json`` and ``arms.csv`` into a folder.

    ``result.json`` is `Result.to_dict`, and ``arms.csv`` has its rows of the arms.

    Parameters
    ----------
    result
        The result.
    folder
        Made if it is missing.

    Returns
    -------
    list of Path
        The two files.
    """
    place = writable_folder("folder", folder)
    text = result_json(result)
    return [write_whole(place / "result.json", text), write_arms(result, place)]


def write_arms(result: Result, folder: Path) -> Path:
    """Write ``arms.csv``, a row for each arm."""
    return write_whole(folder / "arms.csv", arms_csv(result).encode("utf-8", "backslashreplace"))


def result_json(result: Result) -> str:
    """Return the result document as text."""
    return json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"


def arms_csv(result: Result) -> str:
    """Return what is known of each arm as CSV."""
    rows = result.rows()
    return csv_text(list(rows[0]), (list(row.values()) for row in rows))
