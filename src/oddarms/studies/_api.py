"""Create, load, list and delete studies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddarms.errors import DuplicateStudy, InvalidParameter, MissingExtra, StoreFailed, UnknownStudy
from oddarms.problem import Label, Question
from oddarms.randomness import Rng, seed_of
from oddarms.search import Search
from oddarms.studies._ids import new_secret
from oddarms.studies._labels import arm_rows
from oddarms.studies._receipts import origin
from oddarms.studies._replay import new_search, stored_question
from oddarms.studies._study import Study, moment_of

if TYPE_CHECKING:
    from oddarms.studies._database import Database


@dataclass(frozen=True)
class StudySummary:
    """A study as `list_studies` shows it; `handed_out` are tickets, `results` what came back.

    Its question is the one in force, with numbers for labels.
    """

    name: str
    question: Question
    created: datetime
    handed_out: int
    results: int


def create_study(
    name: str,
    question: Question | Iterable[Label],
    *,
    rng: Rng = None,
    storage: str | Path | None = None,
    **words: Any,
) -> Study:
    """Create a study in a storage.

    Parameters
    ----------
    name
        A name that the storage does not have yet.
    question
        What is asked; or the arms' labels, texts or whole numbers, with the question's other words
        as keywords.
    rng
        Decides the algorithm's random choices, and is stored as a seed.
    storage
        A path or ``sqlite:///FILE``, ``postgresql://USER@HOST/NAME``, or "memory". By default the
        environment variable ODDARMS_STORAGE, else the file oddarms.db in the working directory.
    **words
        Of a `Question`, and options of the algorithm, which must be plain values. The budget is
        that of all workers together. It counts results, and tickets that are out; one that was
        given back or whose lease ran out counts no more, and its late result again, as long as
        there is room: beyond the budget results are kept in the log and not used.

    Examples
    --------
    >>> study = create_study("crowd", ["ann", "bob", "cy"], k=1, delta=0.1, storage="memory")
    >>> [ticket.arm for ticket in study.ask(4)]
    ['ann', 'ann', 'bob', 'bob']
    >>> delete_study("crowd", storage="memory")
    """
    _check_name(name)
    whole = Question.of(question, words)
    seed = seed_of(rng)
    rows = arm_rows(0, whole.labels)
    asked = Question.from_json(whole.numbered().to_json())
    search = new_search(asked, seed)  # checks everything before anything is stored
    Search.from_bytes(asked, search.to_bytes())  # and that its state can be
    database = _open(storage, create=True)
    from oddarms.studies import _study_rows as study_rows

    text, secret = asked.to_json(), new_secret()
    begun = origin(text, seed, secret, (row[2] for row in rows))
    with database.writing() as connection:
        number = study_rows.add_study(connection, name, text, seed, secret, begun)
        if number is None:
            raise DuplicateStudy(
                f"name must be new but {database.name} has a study {name!r} already: load it, or"
                " delete it first."
            )
        columns = ["study", "number", "label", "label_key"]
        database.copy(connection, "arms", columns, ((number, *row[1:]) for row in rows))
    row = study_rows.StudyRow(number, text, seed, secret, begun)
    return Study(database, name, row, asked)


def load_study(name: str, *, storage: str | Path | None = None) -> Study:
    """Return a study of a storage, as it stands; where there is none, nothing is made."""
    _check_name(name)
    try:
        database = _open(storage)
    except _NoStorage as error:
        raise UnknownStudy(f"name must be a study but got {name!r}: {error}") from None
    from oddarms.studies import _revision_rows as revision_rows
    from oddarms.studies import _study_rows as study_rows

    with database.reading() as connection:
        found = study_rows.find_study(connection, name)
        if found is None:
            known = study_rows.names(connection, 10)
            raise UnknownStudy(
                f"name must be a study of {database.name} but got {name!r}; it has"
                f" {', '.join(known) or 'none'}."
            )
        asked = stored_question(found.question)
        revisions = revision_rows.revision_rows(connection, found.number)
        arms = study_rows.number_of_arms(connection, found.number)
    if arms != asked.n:  # before anything of that size is made
        raise StoreFailed(
            f"{database.name}: it is damaged; the study {name!r} asks about {asked.n} arms but has"
            f" {arms}."
        )
    return Study(database, name, found, asked, revisions)


def list_studies(*, storage: str | Path | None = None) -> list[StudySummary]:
    """Return the studies of a storage, by name."""
    database = _open(storage)
    from oddarms.studies import _study_rows as study_rows

    with database.reading() as connection:
        return [
            StudySummary(
                name,
                stored_question(question),
                moment_of(created),
                tickets,
                results,
            )
            for name, question, created, tickets, results in study_rows.studies(connection)
        ]


def delete_study(name: str, *, storage: str | Path | None = None) -> None:
    """Delete a study with all its results, for good."""
    study = load_study(name, storage=storage)
    from oddarms.studies import _study_rows as study_rows

    with study._database.writing() as connection:
        study._database.exclusive(connection, study._number)
        study_rows.remove_study(connection, study._number)


def upgrade_storage(*, storage: str | Path | None = None) -> None:
    """Bring a storage that an older oddarms wrote to the present version."""
    _open(storage, upgrade=True)


class _NoStorage(StoreFailed):
    """There is no such file, or it has no tables."""


def _open(storage: str | Path | None, *, create: bool = False, upgrade: bool = False) -> Database:
    try:
        from oddarms.studies._database import open_database
        from oddarms.studies._location import location_of
    except ModuleNotFoundError as error:
        if error.name not in ("sqlalchemy", "alembic"):
            raise
        raise MissingExtra.of("study", "storing a study") from None
    database = open_database(storage, create=create, upgrade=upgrade)
    if database is None:
        raise _NoStorage(
            f"{location_of(storage).name} must be a storage of studies but is not there, or is"
            " empty; creating a study makes one."
        )
    return database


def _check_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise InvalidParameter(
            f"name must be a text of 1 to 200 printable characters but got {name!r}."
        )
    return name
