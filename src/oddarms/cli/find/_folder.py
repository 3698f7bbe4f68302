"""The folder of a search that nobody named: it is named after the question."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oddarms.cli._streams import without_passwords
from oddarms.problem import DEFAULT_DELTA, UNIT, USUAL_K
from oddarms.search._revising import REVISABLE

MOST_OF_A_NAME = 40
_USUAL = {
    "delta": DEFAULT_DELTA,
    "side": "upper",
    "rule": "sigma",
    "error": "fwer",
    "goal": "confidence",
}


def usual_folder(
    words: Mapping[str, Any],
    asked: Mapping[str, Any],
    arms: str | None,
    labels: Sequence[str] | None,
    table: Path | None,
) -> Path:
    """Return the folder of a question: the same one for the same question, else another.

    Its name begins with what is sampled and how; the rest is a short hash of all that may not be
    changed on samples that are there.

    Parameters
    ----------
    words
        Of the question; those that may be changed later have no part in the name.
    asked
        How it is sampled, which columns a table has, and which study is gone on with.
    arms, labels
        What ``--arms`` was given, and what it stands for.
    table
        A file.

    Examples
    --------
    >>> asked = {"pull": "pytest -q {arm}", "reward": "exit-code"}
    >>> folder = usual_folder({}, asked, "tests.txt", ["a", "b"], None)
    >>> folder.name[:-7]
    'find-tests-txt-pytest-q'
    >>> usual_folder({"k": 2.0, "budget": 9}, asked, "tests.txt", ["a", "b"], None) == folder
    True
    """
    identity = {
        **{name: value for name, value in asked.items() if value not in (None, False)},
        "words": _fixed(words),
        "arms": list(labels or ()) if arms == "-" else arms and _path(arms),
        "table": table and _path(str(table)),
        "storage": without_passwords(asked.get("storage") or ""),
    }
    text = json.dumps(identity, sort_keys=True, default=str)
    told = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:6]
    return Path("output") / f"{_name(asked, arms, table)}-{told}"


def folders_of(files: Sequence[str]) -> list[str] | None:
    """Return the folders of files that are added to with every run; None if there are no files."""
    return sorted({_folder_of(os.path.normpath(file)) for file in files}) or None


def _folder_of(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path) or "."


def _path(text: str) -> str:
    """Return a file's path as it is seen from here, so that ./a and a are one."""
    return os.path.normpath(text) if os.path.lexists(text) else text


def _fixed(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words that stay, without those that are as if nobody gave them."""
    usual = {**_USUAL, "k": USUAL_K.get(words.get("rule", "sigma")), "bounds": UNIT}
    return {
        word: value
        for word, value in words.items()
        if word not in REVISABLE and value != usual.get(word)
    }


def _name(asked: Mapping[str, Any], arms: str | None, table: Path | None) -> str:
    """Return the part of the name that people read."""
    things = asked.get("study") or ("" if table is None else table.stem)
    if not things and asked.get("junit"):
        things = f"junit {asked['junit'][0]}"
    if not things and arms is not None:
        things = Path(arms).stem if os.path.lexists(arms) else arms
    how = asked.get("pull") or asked.get("python") or ""
    try:
        words = shlex.split(how)
    except ValueError:
        words = how.split()
    columns = [str(asked.get(name) or "") for name in ("arm", "column")] if not how else []
    told = " ".join(["find", things, *(w for w in words if "{arm}" not in w), *columns])
    plain = re.sub(r"[^a-z0-9]+", "-", told.lower()).strip("-")
    return plain if len(plain) <= MOST_OF_A_NAME else plain[:MOST_OF_A_NAME].rstrip("-")
