"""What all requests of an application share in this process; all that lasts is in the storage."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import HTTPConnection

from oddarms import __version__
from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.server._events import Events
from oddarms.server._problems import Problem
from oddarms.server._tokens import Tokens
from oddarms.studies import MAX_LEASE, DatabaseStorage, StoredStudy

MAX_ARMS = 100_000
"""Arms of a study that is created over HTTP."""
MAX_OPEN = 200
MAX_OPEN_ARMS = 2_000_000
"""Arms of all open studies together, besides those of the one used last."""


@dataclass(frozen=True)
class Settings:
    """How an application was made; see `oddarms.server.create_app`."""

    root_path: str = ""
    allowed_hosts: frozenset[str] = frozenset()
    open_metrics: bool = False
    tls_elsewhere: bool = False
    max_lease: timedelta = MAX_LEASE
    forwarded_user: bool = False


class OpenStudies:
    """Keeps the studies used last open, so that not every request replays a log."""

    def __init__(self, storage: DatabaseStorage, max_lease: timedelta) -> None:
        self._storage = storage
        self._max_lease = max_lease
        self._open: OrderedDict[str, StoredStudy] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, name: str) -> StoredStudy:
        """Return the study that has a name now; one deleted and created again is another."""
        number = self._storage.number_of(name)
        if number is None:
            self.forget(name)
            raise UnknownStudy(f"This server has no study {name!r}.")
        known = self._known(name, number)
        if known is not None:
            return known
        study = self._storage.load(name)
        study.max_lease = self._max_lease
        with self._lock:
            other = self._open.get(name)
            if other is not None and other.number == study.number:  # another thread was faster
                return other
            self._open[name] = study
            self._open.move_to_end(name)
            self._close_some()
        return study

    def forget(self, name: str) -> None:
        """Close a study."""
        with self._lock:
            self._open.pop(name, None)

    def _known(self, name: str, number: int) -> StoredStudy | None:
        with self._lock:
            known = self._open.get(name)
            if known is None or known.number != number:
                return None
            self._open.move_to_end(name)
            return known

    def _close_some(self) -> None:
        arms = sum(study.n for study in self._open.values())
        while len(self._open) > 1 and (len(self._open) > MAX_OPEN or arms > MAX_OPEN_ARMS):
            _, study = self._open.popitem(last=False)
            arms -= study.n


class OneAtATime:
    """A ``with`` block that one request enters at a time, while few wait; others get a 503.

    It keeps work that takes seconds from using up all threads.
    """

    def __init__(self, what: str, waiting: int = 0) -> None:
        self._what = what
        self._places = threading.Semaphore(1 + waiting)
        self._turn = threading.Lock()

    def __enter__(self) -> None:
        if not self._places.acquire(blocking=False):
            said = f"{self._what} is under way already: repeat the request later."
            raise Problem(503, "busy", said, {"Retry-After": "5"})
        self._turn.acquire()

    def __exit__(self, *_: object) -> None:
        self._turn.release()
        self._places.release()


@dataclass
class State:
    """What routes need; ``state_of(request)`` returns it.

    Attributes
    ----------
    storage
        The storage: `list`, `create`, `delete`.
    settings
        How the application was made.
    studies
        The open studies: ``studies.get(name)``.
    tokens
        Who may use the server.
    events
        The event streams.
    metrics
        Counters for Prometheus.
    """

    storage: DatabaseStorage
    settings: Settings
    studies: OpenStudies = field(init=False)
    tokens: Tokens = field(init=False)
    events: Events = field(init=False)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        """Create what is made of the storage."""
        self.studies = OpenStudies(self.storage, self.settings.max_lease)
        self.tokens = Tokens(self.storage)
        self.events = Events(self.tokens)
        self.metrics = Metrics(self)

    @property
    def hidden(self) -> str:
        """The location of the storage, which errors do not repeat to clients."""
        return "" if self.storage.database.location.memory else self.storage.name


class Metrics:
    """Counters and gauges for Prometheus, of this application and this process."""

    def __init__(self, state: State) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "oddarms_http_requests",
            "Requests that were answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "oddarms_http_request_seconds",
            "Time to answer a request, without event streams.",
            ["method", "route"],
            registry=self._registry,
        )
        self.told = Counter(
            "oddarms_results",
            "Results that clients told: recorded, repeated or in conflict.",
            ["outcome"],
            registry=self._registry,
        )
        storage = Histogram(
            "oddarms_storage_seconds",
            "Time of a transaction of the storage, with the wait for its turn.",
            ["kind"],
            registry=self._registry,
        )
        database = state.storage.database
        database.observe = lambda kind, seconds: storage.labels(kind).observe(seconds)
        self._gauge("oddarms_storage_connections", "Connections in use.").set_function(
            lambda: database.connections
        )
        self._gauge("oddarms_open_tickets", "Tickets whose leases last.").set_function(
            state.storage.open_tickets
        )
        self._gauge("oddarms_waiting_asks", "Requests that wait for work.").set_function(
            lambda: state.events.waiting
        )
        self._gauge("oddarms_event_streams", "Open event streams.").set_function(
            lambda: state.events.open_streams
        )
        self._gauge("oddarms_open_studies", "Studies in memory.").set_function(
            lambda: len(state.studies)
        )
        self._gauge("oddarms_studies", "Studies in the storage.").set_function(
            lambda: state.storage.list(most=1).total
        )
        version = Gauge(
            "oddarms_info", "The version of oddarms.", ["version"], registry=self._registry
        )
        version.labels(__version__).set(1)

    def _gauge(self, name: str, said: str) -> Gauge:
        return Gauge(name, said, registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def check_arms(count: int) -> None:
    """Refuse a study whose creation would take minutes and gigabytes of the server."""
    if count > MAX_ARMS:
        raise InvalidParameter(
            f"arms must be at most {MAX_ARMS:,} over HTTP but got {count:,}: create the study where"
            " its storage is, with `oddarms study create`, and work on it over HTTP."
        )


def state_of(connection: HTTPConnection) -> State:
    """Return what all requests share."""
    state: State = connection.app.state.oddarms
    return state
