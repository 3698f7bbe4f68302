"""What all requests of an application share in this process; all that lasts is in the storage."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import HTTPConnection

from oddarms import __version__
from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.problem import Label, Question
from oddarms.randomness import seed_of
from oddarms.server._events import Events
from oddarms.server._problems import Problem
from oddarms.server._tokens import Tokens
from oddarms.studies import (
    MAX_LEASE,
    DatabaseStorage,
    StoredStudy,
    check_name,
    checked_question,
)

MAX_ARMS = 100_000
"""Arms of a study that is created over HTTP."""
MAX_OPEN, MAX_OPEN_ARMS = 200, 1_000_000
"""Studies in memory, and the arms of all of them besides the one used last."""
TURN_SECONDS = 0.5


@dataclass(frozen=True)
class Settings:
    """How an application serves a storage.

    Attributes
    ----------
    root_path
        The prefix under which a proxy serves it, such as ``/oddarms``; if the application is
        mounted in another one, the path of the mount follows it.
    allowed_hosts
        Names by which clients reach it, besides localhost and IP addresses.
    open_metrics
        Whether ``/metrics`` needs no token.
    tls_elsewhere
        Whether a proxy terminates TLS: cookies are for TLS only, and the proxy is believed about
        clients' addresses.
    max_lease
        The longest lease of a ticket.
    forwarded_user
        Whether the log has the name in ``X-Forwarded-User``, which a proxy that signs people in
        sends.
    """

    root_path: str = ""
    allowed_hosts: Collection[str] = ()
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
        with self._lock:
            known = self._open.get(name)
            if known is not None and known.number == number:
                self._open.move_to_end(name)
                return known
        study = self._storage.load(name)
        study.max_lease = self._max_lease
        with self._lock:
            self._open[name] = study
            self._open.move_to_end(name)
            arms = sum(one.n for one in self._open.values())
            while len(self._open) > 1 and (len(self._open) > MAX_OPEN or arms > MAX_OPEN_ARMS):
                arms -= self._open.popitem(last=False)[1].n
        return study

    def forget(self, name: str) -> None:
        """Close a study."""
        with self._lock:
            self._open.pop(name, None)


@contextmanager
def one_at_a_time(lock: threading.Lock, what: str) -> Iterator[None]:
    """Let one request do what takes seconds, so that it does not use up all threads."""
    if not lock.acquire(timeout=TURN_SECONDS):
        said = f"{what} is under way already: repeat the request later."
        raise Problem(503, "busy", said, {"Retry-After": "5"})
    try:
        yield
    finally:
        lock.release()


class State:
    """What routes need; ``state_of(request)`` returns it."""

    def __init__(self, storage: DatabaseStorage, settings: Settings) -> None:
        self.storage = storage
        self.settings = settings
        self.studies = OpenStudies(storage, settings.max_lease)
        self.tokens = Tokens(storage)
        self.events = Events(self.tokens)
        self.metrics = Metrics(self)

    def create(
        self, name: str, arms: Sequence[Label] | int, words: dict[str, Any], seed: int | None = None
    ) -> StoredStudy:
        """Create a study with the words of its question, unless that would take minutes."""
        check_name(name)
        count = arms if isinstance(arms, int) else len(arms)
        if count > MAX_ARMS:
            raise InvalidParameter(
                f"arms must be at most {MAX_ARMS:,} over HTTP but got {count:,}: create the study"
                " where its storage is, with `oddarms study create`, and work on it over HTTP."
            )
        seed = seed_of(seed)
        return self.storage.create(name, checked_question(Question(arms, **words), seed), seed)

    def release(self, study: StoredStudy, worker: str | None, reason: str) -> int:
        """Take back the tickets of a worker, and let those ask who wait for work."""
        count = study.release(worker, reason)
        self.metrics.leases.labels("released").inc(count)
        self.events.changed(study)
        return count

    def delete(self, study: StoredStudy) -> None:
        """Delete a study with all its results."""
        self.storage.delete(study.name)
        self.studies.forget(study.name)

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
        self.leases = Counter(
            "oddarms_leases",
            "Leases of tickets that were granted, renewed, returned or released.",
            ["event"],
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
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "storage_connections": ("Connections in use.", lambda: database.connections),
            "open_tickets": ("Tickets whose leases last.", state.storage.open_tickets),
            "waiting_asks": ("Requests that wait for work.", lambda: state.events.waiting),
            "event_streams": ("Open event streams.", lambda: state.events.open_streams),
            "open_studies": ("Studies in memory.", lambda: len(state.studies)),
            "studies": ("Studies in the storage.", lambda: state.storage.list(most=1).total),
        }
        for name, (said, value) in gauges.items():
            Gauge(f"oddarms_{name}", said, registry=self._registry).set_function(value)
        version = Gauge("oddarms_info", "The version.", ["version"], registry=self._registry)
        version.labels(__version__).set(1)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


def state_of(connection: HTTPConnection) -> State:
    """Return what all requests share."""
    state: State = connection.app.state.oddarms
    return state
