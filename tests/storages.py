"""Storages to be tested alike: a file, a database of PostgreSQL, and a server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

import pytest

from oddarms import delete_study, list_studies
from oddarms.studies import open_storage, retried
from postgresql import Server, fast_folder

DATABASES = ("sqlite", "postgresql")
STORAGES = (pytest.param("sqlite", marks=pytest.mark.long), "postgresql", "http")
"""The server's storage is a file, too."""


@pytest.fixture(scope="module")
def server_address() -> Iterator[str]:
    """The address of a server on a file, whose token is in the environment."""
    from servers import served

    folder = fast_folder("oddarms-server-")
    with served(str(folder / "studies.db")) as server:
        yield server.address
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def shared_database(postgresql: Server) -> str:
    """A database that the tests of a module leave empty."""
    database = postgresql.new_database()
    open_storage(database, create=True)
    return database


def storage_of(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield an empty storage; processes may share it."""
    if kind == "sqlite":
        folder = fast_folder("oddarms-study-")
        yield str(folder / "studies.db")
        shutil.rmtree(folder)
        return
    storage: str = request.getfixturevalue(
        "shared_database" if kind == "postgresql" else "server_address"
    )
    yield storage
    for study in list_studies(storage=storage):  # on a busy machine a test's lock may last
        retried(partial(delete_study, study.name, storage=storage), 60.0)


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty storage of each kind."""
    yield from storage_of(request.param, request)


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty storage of each kind that is a database."""
    yield from storage_of(request.param, request)
