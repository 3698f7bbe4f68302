"""Create, load, list and delete studies."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddarms.errors import DuplicateStudy, InvalidParameter, MissingExtra, UnknownStudy
from oddarms.problem import (
    Label,
    Side,
    check_bounds,
    check_budget,
    check_delta,
    check_k,
    check_side,
    check_whole,
)
from oddarms.studies._labels import arm_rows
from oddarms.studies._machine import Machine
from oddarms.studies._question import Question
from oddarms.studies._study import Study

if TYPE_CHECKING:
    from oddarms.studies._database import Database


@dataclass(frozen=True)
class StudySummary:
    """A study as `list_studies` shows it; `handed_out` are tickets, `results` what came back."""

    name: str
    question: Question
    created: datetime
    handed_out: int
    results: int


def create_study(
    name: str,
    *,
    arms: Iterable[Label],
    k: float,
    delta: float,
    algorithm: str = "spade",
    bounds: tuple[float, float] = (0.0, 1.0),
    side: Side = "upper",
    budget: int | None = None,
    seed: int | None = None,
    storage: str | Path | None = None,
    **options: Any,
) -> Study:
    """Create a study in a storage.

    Parameters
    ----------
    name
        A name that the storage does not have yet.
    arms
        The labels, texts or whole numbers.
    k, delta, algorithm, bounds, side, budget
        As for `oddarms.find`. The budget is that of all workers together; a pull whose lease ran
        out counts against it only once its late result arrives.
    seed
        Decides the algorithm's random choices; drawn and stored if not given.
    storage
        A path or ``sqlite:///FILE``, ``postgresql://USER@HOST/NAME``, or "memory". By default the
        environment variable ODDARMS_STORAGE, else the file oddarms.db in the working directory.
    **options
        Options of the algorithm, such as ``indifference=0.01``; they must be plain values.

    Examples
    --------
    >>> study = create_study("crowd", arms=["ann", "bob", "cy"], k=1, delta=0.1, storage="memory")
    >>> [ticket.arm for ticket in study.ask(4)]
    ['ann', 'ann', 'bob', 'bob']
    >>> delete_study("crowd", storage="memory")
    """
    _check_name(name)
    try:
        labels = list(arms)
    except TypeError:
        raise InvalidParameter(f"arms must be the arms' labels but got {arms!r}.") from None
    seed = secrets.randbits(63) if seed is None else check_whole("seed", seed, least=0)
    question = Question(
        n=len(labels),
        k=check_k(k),
        delta=check_delta(delta),
        algorithm=algorithm,
        bounds=check_bounds(bounds),
        side=check_side(side),
        budget=check_budget(budget),
        seed=seed,
        options=options,
    )
    question = Question.from_json(_plain(question))
    machine = Machine(question)  # checks everything before anything is stored
    Machine.from_bytes(question, machine.to_bytes())  # and that its state can be
    rows = arm_rows(0, labels)
    database = _open(storage)
    from oddarms.studies import _records as records

    with database.writing() as connection:
        number = records.add_study(connection, name, question.to_json(), time.time())
        if number is None:
            raise DuplicateStudy(
                f"name must be new but {database.name} has a study {name!r} already: load it, or"
                " delete it first."
            )
        columns = ["study", "number", "label", "label_key"]
        database.copy(connection, "arms", columns, ((number, *row[1:]) for row in rows))
    return Study(database, number, name, question)


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
    number, question = found
    return Study(database, number, name, Question.from_json(question))


def list_studies(*, storage: str | Path | None = None) -> list[StudySummary]:
    """Return the studies of a storage, by name."""
    database = _open(storage)
    from oddarms.studies import _records as records

    with database.reading() as connection:
        return [
            StudySummary(
                name,
                Question.from_json(question),
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


def _plain(question: Question) -> str:
    try:
        if not isinstance(question.algorithm, str):
            raise TypeError
        return question.to_json()
    except TypeError:
        raise InvalidParameter(
            "options of a stored study must be plain values, and algorithm a name, but got"
            f" {question.algorithm!r} and {question.options!r}."
        ) from None
