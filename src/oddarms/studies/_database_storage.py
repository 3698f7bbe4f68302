"""The studies of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddarms.errors import DuplicateStudy, MissingExtra, StoreFailed, UnknownStudy
from oddarms.problem import Question
from oddarms.search import Search
from oddarms.studies import _revision_rows as revision_rows
from oddarms.studies import _study_rows as study_rows
from oddarms.studies._ids import new_secret
from oddarms.studies._labels import arm_rows
from oddarms.studies._receipts import origin
from oddarms.studies._replay import new_search, stored_question
from oddarms.studies._storage import NoStorage, Storage, StudyList, StudySummary, check_name
from oddarms.studies._study import StoredStudy, moment_of

if TYPE_CHECKING:
    from oddarms.studies._database import Database


class DatabaseStorage(Storage):
    """A file, PostgreSQL, or the memory of this process."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def opened(
        cls, storage: str | Path | None, *, create: bool = False, upgrade: bool = False
    ) -> DatabaseStorage:
        """Return the storage at a place, which must be there unless it is to be made."""
        try:
            from oddarms.studies._database import open_database
            from oddarms.studies._location import location_of
        except ModuleNotFoundError as error:
            if error.name not in ("sqlalchemy", "alembic"):
                raise
            if str(storage).startswith("postgres"):
                raise MissingExtra.of("postgresql", "PostgreSQL") from None
            raise MissingExtra.of("study", "storing a study") from None
        database = open_database(storage, create=create, upgrade=upgrade)
        if database is None:
            raise NoStorage(
                f"{location_of(storage).name} must be a storage of studies but is not there, or is"
                " empty; creating a study makes one."
            )
        return cls(database)

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self.database.name

    def create(self, name: str, question: Question, seed: int) -> StoredStudy:
        """Create a study; its question must have been tried by `tried_question`."""
        asked = question.numbered()
        rows = arm_rows(0, question.labels)
        text, secret = asked.to_json(), new_secret()
        begun = origin(text, seed, secret, (row[2] for row in rows))
        with self.database.writing() as connection:
            number = study_rows.add_study(connection, name, text, seed, secret, begun)
            if number is None:
                raise DuplicateStudy(
                    f"name must be new but {self.name} has a study {name!r} already: load it, or"
                    " delete it first."
                )
            columns = ["study", "number", "label", "label_key"]
            self.database.copy(connection, "arms", columns, ((number, *row[1:]) for row in rows))
        row = study_rows.StudyRow(number, text, seed, secret, begun)
        return StoredStudy(self.database, name, row, asked)

    def load(self, name: str) -> StoredStudy:
        """Return a study, as it stands."""
        check_name(name)
        with self.database.reading() as connection:
            found = study_rows.find_study(connection, name)
            if found is None:
                known = study_rows.names(connection, 10)
                raise UnknownStudy(
                    f"name must be a study of {self.name} but got {name!r}: it has"
                    f" {', '.join(known) or 'none'}."
                )
            asked = stored_question(found.question)
            revisions = revision_rows.revision_rows(connection, found.number)
            arms = study_rows.number_of_arms(connection, found.number)
        if arms != asked.n:  # before anything of that size is made
            raise StoreFailed(
                f"{self.name}: it is damaged; the study {name!r} asks about {asked.n} arms but has"
                f" {arms}."
            )
        return StoredStudy(self.database, name, found, asked, revisions)

    def number_of(self, name: str) -> int | None:
        """Return the number of the study that has a name now: one made anew has another."""
        with self.database.reading() as connection:
            return study_rows.number_of(connection, name)

    def number_of_studies(self) -> int:
        """Return how many studies there are."""
        with self.database.reading() as connection:
            return study_rows.number_of_studies(connection, "")

    def list(
        self, search: str = "", most: int | None = None, skip: int = 0, *, newest: bool = False
    ) -> StudyList:
        """Return studies, as `list_studies` does."""
        with self.database.reading() as connection:
            rows = study_rows.studies(connection, search, most, skip, newest=newest)
            whole = most is None and not skip
            total = len(rows) if whole else study_rows.number_of_studies(connection, search)
        return StudyList(map(_summary, rows), total)

    def summary_of(self, number: int) -> StudySummary | None:
        """Return what a list says of one study; None if there is none of that number."""
        with self.database.reading() as connection:
            rows = study_rows.studies(connection, "", 1, 0, newest=False, only=number)
        return _summary(rows[0]) if rows else None

    def delete(self, name: str) -> None:
        """Delete a study with all its results, for good."""
        study = self.load(name)
        with self.database.writing() as connection:
            self.database.exclusive(connection, study._number)
            study_rows.remove_study(connection, study._number)


def _summary(row: Any) -> StudySummary:
    name, text, created, tickets, results, stopped = row
    question, made = stored_question(text), moment_of(created)
    return StudySummary(name, question, made, tickets, results, stopped)


def tried_question(question: Question, seed: int) -> Question:
    """Return a question as it comes back from a storage, if a search can be made of it.

    That checks everything before anything is stored.
    """
    arm_rows(0, question.labels)
    asked = Question.from_json(question.numbered().to_json())
    search = new_search(asked, seed)
    Search.from_bytes(asked, search.to_bytes())  # its state can be stored
    return asked.relabelled(question.labels)
