"""The study that ``oddarms find`` goes on with or makes, and the table it imports."""

from __future__ import annotations

from pathlib import Path

from oddarms.cli._printing import counted, note, shown
from oddarms.cli.find._question import Asked, another_question
from oddarms.errors import UnknownStudy
from oddarms.studies import Study, create_study, load_study
from oddarms.tables import RecordedArms, read_labels

STUDY_FILE, STUDY_NAME = "study.db", "find"


def loaded(name: str | None, storage: str | None, out: Path) -> Study | None:
    """Return the study to go on with, if it is there."""
    where = _storage(storage, out)
    if storage is None and not Path(where).exists():
        return None
    try:
        return load_study(name or STUDY_NAME, storage=where)
    except UnknownStudy:
        return None


def _storage(storage: str | None, out: Path) -> str:
    return storage if storage is not None else str(out / STUDY_FILE)


def opened_or_made(
    study: Study | None,
    name: str | None,
    storage: str | None,
    out: Path,
    arms: str | None,
    history: RecordedArms | None,
    asked: Asked,
) -> Study:
    """Return the study to go on with, checked to have the same things, or a new one."""
    labels = _labels(arms, history)
    if study is not None:
        # a table may leave out some of the things
        if arms is not None and list(study.labels) != labels:
            raise another_question(study, "--arms", "has other things")
        return study
    where = _storage(storage, out)
    if labels is None:
        raise UnknownStudy(
            f"--study must be one that exists, or --arms or --table must say what its things are,"
            f" but there is no study {name!r} in {shown(where)}."
        )
    return create_study(
        name or STUDY_NAME,
        arms=labels,
        budget=asked.budget,
        seed=asked.seed,
        storage=where,
        **asked.words(),
    )


def say_going_on(study: Study) -> None:
    """Tell of the samples that are there already."""
    pulls = study.progress().pulls
    if pulls:
        note(f"going on with {counted(pulls, 'sample')} of the study in {shown(study.storage)}")


def import_history(study: Study, history: RecordedArms, *, quiet: bool) -> None:
    """Add the samples of a table, once."""
    added = study.tell_arms(history.records or {}, key=history.sha256)
    if not added and not quiet:
        note(f"{history.source} was imported before; its samples count once")


def _labels(arms: str | None, history: RecordedArms | None) -> list[str] | None:
    if arms is not None:
        return list(read_labels(arms))
    return None if history is None else list(history.labels)
