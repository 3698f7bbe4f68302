"""What all requests of an application share in this process; all that lasts is in the storage."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

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

    def __post_init__(self) -> None:
        """Let streams end with their tokens."""
        self.events = Events(self.tokens)


def state_of(connection: HTTPConnection) -> State:
    """Return what all requests share."""
    state: State = connection.app.state.oddarms
    return state
