"""What the samples in a folder were made with, so that a change is noticed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from oddarms.cli._printing import note
from oddarms.cli.find._studies import STUDY_FILE
from oddarms.errors import InvalidParameter
from oddarms.files import write_whole
from oddarms.studies import Study
from oddarms.tables import RecordedArms
from oddarms.text import shown

SOURCE_FILE = "source.json"
FOLDER, PROGRAM, VARIABLE = "the working directory", "the program", "PYTHONPATH"
CONTENT = "what is in --table"
_OF_AN_ANSWER = (SOURCE_FILE, "result.json", "arms.csv", "report.html")
_OF_FAILURES = ("--on-error", "--timeout")

Options = dict[str, object]
"""What rewards depend on, by the names of the options; None where an option was not given."""


def sampling(
    out: Path, *, pull: str | None, python: str | None, shell: bool, **options: object
) -> Options:
    """Return what the rewards of a command or function depend on, nothing if there is neither.

    Failures that end the run leave no rewards: ``--on-error stop``, and how long it waits, are
    nothing to remember.

    Parameters
    ----------
    out
        The folder, from which the working directory is told: both may be moved together.
    pull, python, shell, **options
        What was given, with underscores for the dashes of names.
    """
    if pull is None and python is None:
        return {}
    found = {"--pull": pull, "--python": python, "--shell": shell, **_named(options)}
    if found["--on-error"] == "stop":
        found |= dict.fromkeys(_OF_FAILURES)
    return {
        **found,
        FOLDER: os.path.relpath(os.getcwd(), out),
        PROGRAM: None if pull is None or shell else _program(pull),
        VARIABLE: os.environ.get(VARIABLE),
    }


def of_table(recorded: RecordedArms | None, **options: object) -> Options:
    """Return what a table's rewards depend on: options, and a hash of its content."""
    if recorded is None:
        return {}
    return {f"{name} of --table": value for name, value in _named(options).items()} | {
        CONTENT: recorded.sha256
    }


def _named(options: dict[str, object]) -> Options:
    return {f"--{name.replace('_', '-')}": value for name, value in options.items()}


def _program(pull: str) -> str | None:
    """Return where the command's program is, as seen from here if it is in here."""
    with suppress(ValueError, IndexError):
        path = shutil.which(shlex.split(pull)[0])
        if path is not None:
            seen = os.path.relpath(path)
            return path if seen.startswith(os.pardir) else seen
    return None


def check_source(
    study: Study | None, out: Path, made: Options, table: Options, *, same: bool
) -> None:
    """Raise if the samples that are there were made with something else; remember it if not.

    Parameters
    ----------
    study, out
        The study, if there is one, and the folder, which one search at a time works in.
    made, table
        What new samples, and those of a table, depend on; empty where there are none.
    same
        Whether somebody says that what has changed samples the same.
    """
    known, given = _read(out / SOURCE_FILE), made | table
    before: Options = {}
    if study is not None and given:
        overview = study.overview()
        held = (made if overview.told else {}) | (table if overview.imported else {})
        before = {name: known[name] for name in held if name in known}
    for name, value in before.items():
        settled = value is not None or name not in _OF_FAILURES
        if settled and value != given[name] and not same:
            raise _changed(name, value, given[name], out)
    if given and known | given != known:
        write_whole(out / SOURCE_FILE, json.dumps(known | given, indent=2) + "\n")


def _changed(name: str, value: object, given: object, out: Path) -> InvalidParameter:
    if name == CONTENT:
        told = f"{name} must stay as it was where its samples are kept but has changed"
        same = "--same-source counts all its rows in addition, if all of them are new"
    else:
        told = (
            f"{name} must stay as it was where samples are kept, {_told(name, value, out)}, but"
            f" got {_told(name, given, out)}"
        )
        same = "--same-source goes on, if what is measured is the same"
    fresh = "--fresh samples anew and keeps the old search aside"
    return InvalidParameter(f"{told}: {fresh}; {same}.")


def set_aside(out: Path, elsewhere: str | None, *, wanted: bool, quiet: bool) -> None:
    """Move the search in a folder, and its answer, to a folder of its own in there, if wanted."""
    if not wanted:
        return
    if elsewhere is not None:
        raise InvalidParameter(
            "--fresh must be given without --storage, as it is for the search in --out, but got"
            " both: give another --study instead."
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


def _read(path: Path) -> Options:
    """Return what was remembered, nothing where that cannot be read."""
    try:
        known = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _told(name: str, value: object, out: Path) -> str:
    if name == FOLDER and isinstance(value, str):
        value = os.path.normpath(out.absolute() / value)
    return "nothing" if value is None else repr(value) if isinstance(value, str) else str(value)
