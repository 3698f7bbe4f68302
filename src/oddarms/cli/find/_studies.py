"""The study that ``oddarms find`` goes on with or makes, and the table it imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oddarms.cli._printing import note
from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.finding import STUDY_NAME, open_study
from oddarms.studies import Study, load_study
from oddarms.studies._storage import storage_name
from oddarms.tables import RecordedArms
from oddarms.text import counted, shown

STUDY_FILE = "study.db"


def storage_in(out: Path, storage: str | None) -> str:
    """Return where the study is: as given, or a file in the folder."""
    return storage if storage is not None else str(out / STUDY_FILE)


def stored_study(name: str | None, storage: str) -> Study | None:
    """Return the study to go on with, None if there is none."""
    try:
        return load_study(name or STUDY_NAME, storage=storage)
    except UnknownStudy:
        return None


def opened(
    name: str | None,
    storage: str,
    labels: list[str] | None,
    recorded: RecordedArms | None,
    words: dict[str, Any],
    seed: int | None,
) -> Study:
    """Return the study to go on with, which must ask the same, or a new one."""
    if labels is None and recorded is not None and stored_study(name, storage) is None:
        labels = list(recorded.labels)  # a table may leave out some of a known study's arms
    try:
        return open_study(labels, words, storage=storage, name=name or STUDY_NAME, rng=seed)
    except UnknownStudy:
        raise UnknownStudy(
            "--study must be one that exists, or --arms or --table must say what its things are,"
            f" but there is no study {name or STUDY_NAME!r} in {shown(storage_name(storage))}."
        ) from None


def say_going_on(study: Study, *, here: bool) -> None:
    """Tell of the samples that are there already, in the folder or elsewhere."""
    pulls = study.progress().pulls
    if not pulls:
        return
    samples, where = counted(pulls, "sample"), shown(study.storage)
    if study.done:
        moment = f"{max(trial.told for trial in study.trials()):%Y-%m-%d %H:%M} UTC"
        again = "--fresh" if here else "another --study"
        note(f"this answer is of {moment}, with {samples}; {again} samples again")
    else:
        note(f"going on with {samples} of the study in {where}")


def import_table(study: Study, recorded: RecordedArms, key: str, *, quiet: bool) -> None:
    """Add the samples of a table or of reports, once."""
    try:
        added = study.import_rewards(recorded.records or {}, key=key)
    except InvalidParameter:
        if key == recorded.sha256:
            raise
        raise InvalidParameter(
            f"--{key} must have the runs that it had when this search began, which count once, but"
            " has others: --fresh begins anew with all of them."
        ) from None
    if not added and not quiet:
        note(f"{recorded.source} was imported before; its samples count once")
