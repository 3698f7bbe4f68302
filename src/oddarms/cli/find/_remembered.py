"""What the samples in a folder were made with, so that a changed command is noticed."""

from __future__ import annotations

import json
import os
from dataclasses import KW_ONLY, asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from oddarms.cli._printing import note
from oddarms.cli.find._studies import STUDY_FILE
from oddarms.errors import InvalidParameter
from oddarms.files import write_whole
from oddarms.studies import Study
from oddarms.text import shown

SOURCE_FILE = "source.json"
_OF_AN_ANSWER = (SOURCE_FILE, "result.json", "arms.csv", "report.html")


@dataclass(frozen=True)
class Source:
    """The options that say what a command samples; of one without, nothing is remembered."""

    pull: str | None
    reward: str
    failure_codes: str | None
    _: KW_ONLY
    shell: bool


def check_source(study: Study, out: Path, source: Source, *, same: bool) -> None:
    """Raise if the samples that are there were made with something else; remember it if not.

    Parameters
    ----------
    study, out
        The study, and the folder, which one search at a time works in.
    source
        The options that say how to sample.
    same
        Whether somebody says that a changed source samples the same.
    """
    if source.pull is None:
        return
    path, given = out / SOURCE_FILE, asdict(source)
    sampled = any(trial.ticket is not None for trial in study.trials())
    known = _read(path) if sampled else None
    changed = [] if known is None else [name for name in given if known.get(name) != given[name]]
    if changed and not same:
        assert known is not None
        name = changed[0]
        raise InvalidParameter(
            f"--{name.replace('_', '-')} must stay as it was where samples are kept,"
            f" {_told(known.get(name))}, but got {_told(given[name])}: --fresh samples anew and"
            " keeps the old search aside; --same-source goes on, if what is measured is the same."
        )
    if changed or known is None:
        write_whole(path, json.dumps(given, indent=2) + "\n")


def set_aside(out: Path, elsewhere: str | None, *, wanted: bool, quiet: bool) -> None:
    """Move the search in a folder, and its answer, to a folder of its own in there, if wanted."""
    if not wanted:
        return
    if elsewhere is not None:
        raise InvalidParameter(
            "--fresh must be given without --storage, as it is for the search in --out: give"
            " another --study instead."
        )
    storage = [f"{STUDY_FILE}{end}" for end in ("-wal", "-shm", "-journal", "")]
    untold = [path.name for path in out.glob("untold*.txt")]
    old = [name for name in (*_OF_AN_ANSWER, *untold, *storage) if os.path.lexists(out / name)]
    if not old:
        return
    aside = _new_folder(out)
    for name in old:
        (out / name).rename(aside / name)
    if not quiet:
        note(f"the search that was in {shown(out)} is in {shown(aside)} now")


def _new_folder(out: Path) -> Path:
    moment = f"before-{datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    number = 1
    while True:
        aside = out / (moment if number == 1 else f"{moment}-{number}")
        try:
            aside.mkdir()
        except FileExistsError:
            number += 1
        else:
            return aside


def _read(path: Path) -> dict[str, object] | None:
    """Return what was remembered; None where nothing is, as in folders of older versions."""
    try:
        known = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) else None


def _told(value: object) -> str:
    return "nothing" if value is None else repr(value) if isinstance(value, str) else str(value)
