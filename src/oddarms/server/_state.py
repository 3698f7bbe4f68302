"""What all requests of an application share in this process; all that lasts is in the storage."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from oddarms.errors import StorageFailed
from oddarms.server._counts import Counts
from oddarms.server._events import Events
from oddarms.server._limits import WrongTokens
from oddarms.server._studies import OpenStudies
from oddarms.server._tokens import Tokens
from oddarms.studies._database_storage import DatabaseStorage


@dataclass(frozen=True)
class Settings:
    """How an application was made; see `oddarms.server.create_app`."""

    root_path: str = ""
    allowed_hosts: frozenset[str] = frozenset()
    open_metrics: bool = False
    tls_elsewhere: bool = False


@dataclass
class State:
    """What routes need: ``state_of(request)`` returns it.

    Attributes
    ----------
    storage
        The studies: `list`, `create`, `delete`.
    studies
        Those that are open: ``studies.get(name)``.
    tokens
        Who may come in.
    settings
        How the application was made.
    wrong_tokens
        Counts those who guess.
    events
        Who is told of changes.
    counts
        What Prometheus wants to know.
    """

    storage: DatabaseStorage
    studies: OpenStudies
    tokens: Tokens
    settings: Settings
    wrong_tokens: WrongTokens = field(default_factory=WrongTokens)
    events: Events = field(init=False)
    counts: Counts = field(default_factory=Counts)
    _file: tuple[int, int] | None = field(init=False)

    def __post_init__(self) -> None:
        """Let streams end with their tokens, and remember the file."""
        self.events = Events(self.tokens)
        self._file = _file_of(self.storage)

    @property
    def hidden(self) -> str:
        """Where the storage is, which errors do not repeat to clients."""
        return "" if self.storage.database.one_connection else self.storage.name

    def check_file(self) -> None:
        """Refuse to call a storage well whose file has gone: who has it open can still read it."""
        if _file_of(self.storage) != self._file:
            raise StorageFailed(
                f"{self.storage.name}: the file was removed or replaced while it was in use: put it"
                " back, with its -wal file, and start the server again."
            )


def _file_of(storage: DatabaseStorage) -> tuple[int, int] | None:
    """Return what tells the file of a storage from any other; None where there is none."""
    file = storage.database.location.file
    try:
        found = os.stat(file) if file is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def state_of(connection: HTTPConnection) -> State:
    """Return what all requests share."""
    state: State = connection.app.state.oddarms
    return state
