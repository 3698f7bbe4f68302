"""A database as a storage of studies: create, load, list and delete them."""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from oddarms.errors import DuplicateStudy, StorageFailed, UnknownStudy
from oddarms.problem import Label, Question, check_plain_label
from oddarms.search import Status
from oddarms.studies._database import Database, open_database, run
from oddarms.studies._rows import RATE, minute_of
from oddarms.studies._stored import StoredStudy, moment, question_of
from oddarms.studies._study import (
    Storage,
    StudyList,
    StudySummary,
    check_name,
    storable,
)

_LISTED = f"""
SELECT s.id, s.name, s.question, s.budgets, s.created, s.tickets,
coalesce(w.results, 0) + s.history AS results, s.stopped,
CASE WHEN s.status IN ('decided', 'budget') THEN s.status
WHEN s.stopped IS NOT NULL THEN 'stopped'
WHEN s.status = 'waiting' AND EXISTS (SELECT 1 FROM tickets t WHERE t.study = s.id
AND t.boot = :boot AND t.expires > :steady) THEN 'waiting' ELSE 'running' END AS status,
s.decided, s.outliers, coalesce(w.seen, s.created) AS seen, coalesce(w.rate, 0.0) AS rate
FROM studies s LEFT JOIN (SELECT study, sum(results) AS results, max(last_seen) AS seen,
sum({RATE}) AS rate FROM workers GROUP BY study) w ON w.study = s.id
WHERE lower(s.name) LIKE lower(:pattern) ESCAPE '!'
"""
"""Rows of the list of studies, without a look at their results, of which there may be millions."""


class DatabaseStorage(Storage):
    """A file, PostgreSQL, or the memory of this process."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def opened(cls, storage: str | Path | None, *, create: bool = False) -> DatabaseStorage:
        """Return the storage at a place, which must exist unless it is to be created."""
        return cls(open_database(storage, create=create))

    @property
    def name(self) -> str:
        return self.database.name

    def create(self, name: str, question: Question, seed: int) -> StoredStudy:
        asked, secret = question.numbered(), secrets.token_bytes(16)
        with self.database.writing() as connection:
            number = run(
                connection,
                "INSERT INTO studies (name, question, seed, secret, budgets, created) VALUES"
                " (:name, :question, :seed, :secret, :budgets, :created)"
                " ON CONFLICT (name) DO NOTHING RETURNING id",
                name=name,
                question=asked.to_json(),
                seed=str(seed),
                secret=secret,
                budgets=json.dumps([asked.budget]),
                created=self.database.now(connection).wall,
            ).scalar()
            if number is None:
                raise DuplicateStudy(
                    f"{self.name} has a study {name!r} already: load it, or delete it first."
                )
            rows = ((number, i, _encoded(label)) for i, label in enumerate(question.labels))
            self.database.insert(connection, "arms", ["study", "number", "label"], rows)
        return StoredStudy(self.database, name, int(number), question, seed, secret)

    def load(self, name: str) -> StoredStudy:
        check_name(name)
        found = StoredStudy.load(self.database, name)
        if found is None:
            with self.database.reading() as connection:
                known = run(connection, "SELECT name FROM studies ORDER BY name LIMIT 10")
                names = ", ".join(known.scalars()) or "none"
            raise UnknownStudy(f"{self.name} has no study {name!r}; it has: {names}.")
        return found

    def _list(self, search: str, most: int | None, skip: int, sort: str, status: str) -> StudyList:
        key = sort.removeprefix("-")
        order = f"{key} DESC, id DESC" if sort.startswith("-") else f"{key}, name"
        pattern = "%" + re.sub("([!%_])", r"!\1", storable(search)) + "%"
        chosen = f"FROM ({_LISTED}) l" + (" WHERE status = :status" if status else "")
        with self.database.reading() as connection:
            now = self.database.now(connection)
            values = {"pattern": pattern, "boot": now.boot, "steady": now.steady}
            values |= {**minute_of(now.wall), **({"status": status} if status else {})}
            rows = run(
                connection,
                f"SELECT * {chosen} ORDER BY {order} LIMIT :most OFFSET :skip",
                most=2**62 if most is None else most,
                skip=skip,
                **values,
            ).all()
            total = run(connection, f"SELECT count(*) {chosen}", **values).scalar_one()
        return StudyList((self._summary(*row[1:]) for row in rows), int(total))

    def _summary(self, name: str, text: str, budgets: str, *row: Any) -> StudySummary:
        created, tickets, results, stopped, status, decided, outliers, seen, rate = row
        question = question_of(text, self.name).but(budget=json.loads(budgets)[-1])
        counts = int(tickets), int(results), stopped, Status(status), int(decided), int(outliers)
        return StudySummary(name, question, moment(created), *counts, moment(seen), float(rate))

    def open_tickets(self) -> int:
        """Return how many tickets of all studies have leases that last."""
        with self.database.reading() as connection:
            now = self.database.now(connection)
            statement = "SELECT count(*) FROM tickets WHERE boot = :boot AND expires > :steady"
            found = run(connection, statement, boot=now.boot, steady=now.steady)
            return int(found.scalar_one())

    def number_of(self, name: str) -> int | None:
        """Return the number of the study that has a name now: one made anew has another."""
        with self.database.reading() as connection:
            statement = "SELECT id FROM studies WHERE name = :name"
            found = run(connection, statement, name=name).scalar()
        return None if found is None else int(found)

    def delete(self, name: str) -> None:
        number = self.number_of(name)
        if number is None:
            self.load(name)  # says which studies there are
            return
        self.database.repeated(lambda: self._delete(number))
        with suppress(StorageFailed):  # it is deleted; the next deletion shrinks the file
            self.database.shrink()

    def _delete(self, number: int) -> None:
        with self.database.writing() as connection:
            self.database.alone(connection, number)
            self.database.appending(connection, number, alone=True)
            run(connection, "DELETE FROM studies WHERE id = :study", study=number)


def _encoded(label: Label) -> str:
    return json.dumps(check_plain_label(label))
