"""What a storage of studies offers, wherever it is, and which kind an address means."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.problem import Question
from oddarms.studies._base import Study

VARIABLE = "ODDARMS_STORAGE"


@dataclass(frozen=True)
class StudySummary:
    """A study as `list_studies` shows it; `handed_out` are tickets, `results` what came back.

    Its question is the one in force, with numbers for labels; `stopped` says why it is stopped,
    None if it is not.
    """

    name: str
    question: Question
    created: datetime
    handed_out: int
    results: int
    stopped: str | None = None


class StudyList(list[StudySummary]):
    """Some studies of a storage; `total` is how many there are in all."""

    def __init__(self, studies: Iterable[StudySummary], total: int) -> None:
        super().__init__(studies)
        self.total = total


class Storage(ABC):
    """A place with studies: a database, or a server that has one. Any thread may use it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Where it is, without secrets."""

    @abstractmethod
    def create(self, name: str, question: Question, seed: int) -> Study:
        """Create a study."""

    @abstractmethod
    def load(self, name: str) -> Study:
        """Return a study, as it stands."""

    @abstractmethod
    def list(
        self, search: str = "", most: int | None = None, skip: int = 0, *, newest: bool = False
    ) -> StudyList:
        """Return studies, as `list_studies` does."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a study with all its results, for good."""


class NoStorage(StoreFailed):
    """There is no such file, or it has no tables."""


def server_address(storage: str | Path | None) -> str | None:
    """Return the address of the server that a storage is, None for a file or database.

    Examples
    --------
    >>> server_address("http://localhost:8321/"), server_address("studies.db")
    ('http://localhost:8321', None)
    """
    chosen = storage if storage is not None else os.environ.get(VARIABLE)
    if not isinstance(chosen, str) or not chosen.lower().startswith(("http://", "https://")):
        return None
    return chosen.rstrip("/")


def storage_name(storage: str | Path | None) -> str:
    """Return where a storage is, without secrets.

    Examples
    --------
    >>> storage_name("https://example.org/a/"), storage_name("postgresql://ann:secret@host/db")
    ('https://example.org/a', 'postgresql://ann:***@host/db')
    """
    address = server_address(storage)
    if address is not None:
        return address
    from oddarms.studies._location import location_of  # which a client of a server can do without

    return location_of(storage).name


def check_name(name: str) -> str:
    """Return the name of a study, if it can be one."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise InvalidParameter(
            f"name must be a text of 1 to 200 printable characters but got {name!r:.300}."
        )
    if name in (".", ".."):  # addresses of a server cannot have them
        raise InvalidParameter(f"name must not be a folder of every folder but got {name!r}.")
    return name
