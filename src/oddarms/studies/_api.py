"""Create, load, list and delete studies."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddarms.errors import DuplicateStudy, InvalidParameter, MissingExtra, StoreFailed, UnknownStudy
from oddarms.problem import Label, Question
from oddarms.randomness import Rng, seed_of
from oddarms.search import Search
from oddarms.studies._labels import arm_rows
from oddarms.studies._replay import new_search
from oddarms.studies._study import Study

if TYPE_CHECKING:
    from oddarms.studies._database import Database


@dataclass(frozen=True)
class StudySummary:
    """A study as `list_studies` shows it; `handed_out` are tickets, `results` what came back.

    Its question has numbers for labels.
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
        that of all workers together; a pull whose lease ran out counts against it only once its
        late result arrives.

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
    database = _open(storage)
    from oddarms.studies import _records as records

    with database.writing() as connection:
        number = records.add_study(connection, name, asked.to_json(), seed, time.time())
        if number is None:
            raise DuplicateStudy(
                f"name must be new but {database.name} has a study {name!r} already: load it, or"
                " delete it first."
            )
        columns = ["study", "number", "label", "label_key"]
        database.copy(connection, "arms", columns, ((number, *row[1:]) for row in rows))
    return Study(database, number, name, asked, seed)


def load_study(name: str, *, storage: str | Path | None = None) -> Study:
    """Return a study of a storage, as it stands."""
    database = _open(storage)
    from oddarms.studies import _records as records

    with database.reading() as connection:
        found = records.find_study(connection, _check_name(name))
        if found is None:
            known = [row[0] for row in records.studies(connection)]
            raise UnknownStudy(
                f"name must be a study of {database.name} but got {name!r}; it has"
                f" {', '.join(known[:10]) or 'none'}."
            )
    number, question, seed = found
    return Study(database, number, name, _stored(question), seed)


def _stored(text: str) -> Question:
    try:
        return Question.from_json(text)
    except InvalidParameter as error:
        raise StoreFailed(f"a stored question must be whole but is not: {error}") from None


def list_studies(*, storage: str | Path | None = None) -> list[StudySummary]:
    """Return the studies of a storage, by name."""
    database = _open(storage)
    from oddarms.studies import _records as records

    with database.reading() as connection:
        return [
            StudySummary(
                name,
                _stored(question),
                datetime.fromtimestamp(created, UTC),
                tickets,
                results,
            )
            for name, question, created, tickets, results in records.studies(connection)
        ]


def delete_study(name: str, *, storage: str | Path | None = None) -> None:
    """Delete a study with all its results, for good."""
    study = load_study(name, storage=storage)
    from oddarms.studies import _records as records

    with study._database.writing() as connection:
        study._database.exclusive(connection, study._number)
        records.remove_study(connection, study._number)


def upgrade_storage(*, storage: str | Path | None = None) -> None:
    """Bring a storage that an older oddarms wrote to the present version."""
    _open(storage, upgrade=True)


def _open(storage: str | Path | None, *, upgrade: bool = False) -> Database:
    try:
        from oddarms.studies._database import open_database
    except ModuleNotFoundError as error:
        if error.name not in ("sqlalchemy", "alembic"):
            raise
        raise MissingExtra.of("study", "storing a study") from None
    return open_database(storage, upgrade=upgrade)


def _check_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise InvalidParameter(
            f"name must be a text of 1 to 200 printable characters but got {name!r}."
        )
    return name
