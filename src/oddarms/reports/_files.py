"""A result as files for programs: result.json and arms.csv."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.files import writable_folder, write_whole
from oddarms.search import Result
from oddarms.tables import csv_text


def write_results(result: Result, folder: str | Path) -> list[Path]:
    """Write ``result.json`` and ``arms.csv`` into a folder.

    ``result.json`` holds `Result.to_dict` and the history; what is not a finite number is null.
    ``arms.csv`` has a row for each arm: label, decision, mean, lower, upper, pulls, odds.

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
    content = result.to_dict() | {"history": [point._asdict() for point in result.history]}
    for name in ("outliers", "undecided"):
        content[name] = [_json_label(label) for label in content[name]]
    content["arms"] = [row | {"label": _json_label(row["label"])} for row in content["arms"]]
    text = json.dumps(_plain(content), indent=1, allow_nan=False)
    return [write_whole(place / "result.json", text + "\n"), write_arms(result, place)]


def write_arms(result: Result, folder: Path) -> Path:
    """Write ``arms.csv``, a row for each arm."""
    rows = result.to_dict()["arms"]
    odds = result.odds
    names = ("label", "decision", "mean", "lower", "upper", "pulls")
    text = csv_text(
        (*names, "odds"),
        (
            (*(row[name] for name in names), None if odds is None else _plain(odds[i]))
            for i, row in enumerate(rows)
        ),
    )
    return write_whole(folder / "arms.csv", text.encode("utf-8", "backslashreplace"))


def _json_label(label: Any) -> Any:
    """Return a label that JSON has; infinity and NaN as text, for they are names here."""
    return str(label) if isinstance(label, float) and not math.isfinite(label) else label


def _plain(value: Any) -> Any:
    """Return a tree of values in which every number is one that JSON has."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
