"""Searches that many workers share, in a file, in PostgreSQL or behind a server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddarms.errors import MissingExtra, UnknownStudy
from oddarms.problem import Label, Question, check_whole
from oddarms.randomness import Rng, seed_of
from oddarms.studies._study import (
    LEASE,
    MAX_LEASE,
    MEMORY,
    SORTS,
    Conflict,
    Holder,
    Overview,
    Storage,
    Study,
    StudyList,
    StudySummary,
    Told,
    Trial,
    Verification,
    WorkerRecord,
    check_name,
    checked_question,
    server_address,
)
from oddarms.studies._worker import Worker, retried

if TYPE_CHECKING:
    from oddarms.studies._stored import DatabaseStorage, StoredStudy

__all__ = [
    "LEASE",
    "MAX_LEASE",
    "MEMORY",
    "SORTS",
    "Conflict",
    "DatabaseStorage",
    "Holder",
    "Overview",
    "Storage",
    "StoredStudy",
    "Study",
    "StudyList",
    "StudySummary",
    "Told",
    "Trial",
    "Verification",
    "Worker",
    "WorkerRecord",
    "check_name",
    "checked_question",
    "create_study",
    "delete_study",
    "list_studies",
    "load_study",
    "open_storage",
    "retried",
    "server_address",
]


def __getattr__(name: str) -> Any:
    """Load the classes of databases when they are first used: they need SQLAlchemy."""
    if name in ("DatabaseStorage", "StoredStudy"):
        from oddarms.studies import _stored

        globals()[name] = getattr(_stored, name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
        What is asked; or the arms' labels, texts or whole numbers, with the words of a `Question`
        as keywords.
    rng
        Decides the algorithm's random choices, and is stored as a seed.
    storage
        A path or ``sqlite:///FILE``, ``postgresql://USER@HOST/NAME``, "memory", or a server,
        ``http://HOST:8321``, with the token in ODDARMS_TOKEN or in the file that
        ODDARMS_TOKEN_FILE names. By default the environment variable ODDARMS_STORAGE, else the
        file oddarms.db in the working directory.
    **words
        Words of a `Question`, and options of the algorithm, which must be plain values. The budget
        is that of all workers together: it counts results, and tickets that are out.

    Examples
    --------
    >>> study = create_study("crowd", ["ann", "bob", "cy"], k=1, delta=0.1, storage="memory")
    >>> [ticket.arm for ticket in study.ask(4)]
    ['ann', 'ann', 'bob', 'bob']
    >>> delete_study("crowd", storage="memory")
    """
    check_name(name)
    seed = seed_of(rng)
    asked = checked_question(Question.of(question, words), seed)
    return open_storage(storage, create=True).create(name, asked, seed)


def load_study(name: str, *, storage: str | Path | None = None) -> Study:
    """Return a study of a storage; nothing is created."""
    check_name(name)
    try:
        found = open_storage(storage)
    except UnknownStudy as error:
        raise UnknownStudy(f"There is no study {name!r}: {error}") from None
    return found.load(name)


def list_studies(
    *,
    storage: str | Path | None = None,
    search: str = "",
    most: int | None = None,
    skip: int = 0,
    sort: str = "name",
    status: str = "",
) -> StudyList:
    """Return the studies of a storage; `total` of the list is how many there are.

    Parameters
    ----------
    storage
        As for `create_study`.
    search, status
        Only those with this text in their names, in capitals or not, and those that are "running",
        "waiting", "decided", "stopped" or at the end of their "budget".
    most, skip
        At most so many, behind the first so many: a page of a long list.
    sort
        "name", "status", "decided", "outliers", "results", "rate" (results a minute), "seen" (the
        last activity) or "created"; with a minus before it, the largest come first.
    """
    if most is not None:
        check_whole("most", most, least=1)
    check_whole("skip", skip, least=0)
    return open_storage(storage).list(search, most, skip, sort=sort, status=status)


def delete_study(name: str, *, storage: str | Path | None = None) -> None:
    """Delete a study with all its results, for good."""
    open_storage(storage).delete(check_name(name))


def open_storage(storage: str | Path | None, *, create: bool = False) -> Storage:
    """Return a database or a server by its address; a file may be created."""
    address = server_address(storage)
    if address is not None:
        from oddarms.studies._remote import ServerStorage

        return ServerStorage(address)
    try:
        from oddarms.studies._stored import DatabaseStorage
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        extra = "postgresql" if str(storage).startswith("postgres") else "study"
        raise MissingExtra.of(extra, "storing a study") from None
    return DatabaseStorage.opened(storage, create=create)
