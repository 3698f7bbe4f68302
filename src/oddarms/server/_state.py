"""What all requests of an application share in this process; all that lasts is in the storage.

Requests that wait for work share one look at their study every half second.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import FIRST_COMPLETED
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import prometheus_client as prometheus
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, HTTPConnection, Request

from oddarms import __version__
from oddarms.errors import InvalidParameter, OddarmsError, UnknownStudy
from oddarms.problem import Label, Question
from oddarms.randomness import seed_of
from oddarms.search import Tickets
from oddarms.server._problems import Problem
from oddarms.server._tokens import Token, Tokens
from oddarms.studies import (
    MAX_LEASE,
    DatabaseStorage,
    StoredStudy,
    check_name,
    checked_question,
)

if TYPE_CHECKING:
    from oddarms.server._api import Ask

LOOK_SECONDS = 0.5
SEEN_SECONDS = 30.0
"""Between two notes in the storage of the workers that wait."""
PAUSE_SECONDS = 0.05
"""Between two looks of a request that waits for work, however much changes."""
MAX_WAITING = 1000
"""Requests that wait at a time; further ones are answered at once."""
MAX_ARMS = 100_000
"""Arms of a study that is created over HTTP."""
MAX_OPEN, MAX_OPEN_ARMS = 200, 1_000_000
"""Studies in memory, and the arms of all of them besides the one used last."""
TURN_SECONDS = 0.5

Asking = Callable[[], Tickets]


class Waits:
    """Requests of one process that wait for work; used in its event loop only."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._watches: dict[int, _Watch] = {}
        self._asking: set[asyncio.Task[Tickets]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._asking)

    async def tickets(
        self, request: Request, token: Token, study: StoredStudy, body: Ask, ask: Asking
    ) -> Tickets:
        """Ask a study, and wait for work as long as the body of the request says.

        A wait also ends when the client goes or the server ends.
        """
        watch = self._watches.get(study.number)
        tickets = watch.idle(body.prefetch) if watch and body.wait else None
        if watch and tickets is not None and not await run_in_threadpool(study.knows, body.key):
            watch.unseen.add(body.worker)
        else:
            tickets = await run_in_threadpool(ask)
        if tickets or tickets.done or not body.wait or self._closed or len(self) >= MAX_WAITING:
            return tickets
        request.state.waited = True
        with self._watching(study) as watch:
            asking = asyncio.create_task(watch.work(ask, body.prefetch))
            gone = asyncio.ensure_future(request.receive())
            self._asking.add(asking)
            try:
                await asyncio.wait({asking, gone}, timeout=body.wait, return_when=FIRST_COMPLETED)
            finally:
                self._asking.discard(asking)
                asking.cancel()  # which does not interrupt an `ask`
                await asyncio.wait({asking})
                gone.cancel()
        tickets = tickets if asking.cancelled() else asking.result()
        here = not gone.done() or gone.cancelled()
        if here and await run_in_threadpool(self._tokens.holds, token):
            return tickets
        if tickets:
            await run_in_threadpool(study.skip_many, list(tickets), "the client is gone")
        if here:
            raise Problem(401, "unauthorized", "The token was revoked.")
        raise ClientDisconnect

    @contextmanager
    def _watching(self, study: StoredStudy) -> Iterator[_Watch]:
        watch = self._watches.get(study.number) or _Watch(study)
        self._watches[study.number] = watch
        watch.watchers += 1
        try:
            yield watch
        finally:
            watch.watchers -= 1
            if not watch.watchers:
                watch.task.cancel()
                del self._watches[study.number]

    def changed(self, study: StoredStudy) -> None:
        """Let a request that waits for work look again; any thread may say so."""
        watch = self._watches.get(study.number)
        if watch is not None:
            watch.loop.call_soon_threadsafe(watch.tell)

    def close(self) -> None:
        """End all waits, as the server ends."""
        self._closed = True
        for task in self._asking:
            task.cancel()


class _Turn:
    """One of several requests asks the storage, the others wait."""

    def __init__(self) -> None:
        self.lock, self.news = asyncio.Lock(), asyncio.Event()
        self.empty: tuple[float, Tickets] | None = None
        """The last answer without work, with its prefetch; None once there may be work."""


class _Watch:
    """Looks at one study while requests wait for work there."""

    def __init__(self, study: StoredStudy) -> None:
        self._study = study
        self.loop = asyncio.get_running_loop()
        self.watchers = 0
        self.unseen: set[str | None] = set()
        """Workers that wait; the storage does not know yet that they are alive."""
        self._turns = {ahead: _Turn() for ahead in (True, False)}
        """Of those that take work ahead of the step, and of the others."""
        self.task = asyncio.create_task(self._look())

    def idle(self, prefetch: float) -> Tickets | None:
        """Return the answer to a request for which there is no work, as far as is known."""
        empty = self._turns[prefetch > 0.0].empty
        return empty[1] if empty and empty[0] >= prefetch else None

    def tell(self) -> None:
        """Let requests look again: there may be work."""
        for turn in self._turns.values():
            turn.empty = None
            turn.news.set()

    async def work(self, ask: Asking, prefetch: float) -> Tickets:
        """Ask until there is work; one request asks the storage, the others wait their turn."""
        turn = self._turns[prefetch > 0.0]
        async with turn.lock:
            while True:
                if self.idle(prefetch) is not None:
                    await turn.news.wait()
                turn.news.clear()
                asking = asyncio.create_task(run_in_threadpool(ask))
                try:
                    tickets = await asyncio.shield(asking)
                except asyncio.CancelledError:  # tickets must not be lost
                    return await asking
                if tickets or tickets.done:
                    return tickets
                if not turn.news.is_set():
                    turn.empty = prefetch, tickets
                await asyncio.sleep(PAUSE_SECONDS)

    async def _look(self) -> None:
        """See what other processes change, and note who waits."""
        pulse: str | None = None
        noted = self.loop.time()
        while True:
            before = pulse
            try:
                pulse = await run_in_threadpool(self._study.pulse)
                if self.unseen and self.loop.time() > noted + SEEN_SECONDS:
                    noted, unseen = self.loop.time(), frozenset(self.unseen)
                    await run_in_threadpool(self._study.see, unseen)
                    self.unseen -= unseen
            except OddarmsError:  # the next `ask` says so
                pulse = None
            if pulse is None or pulse != before:
                self.tell()
            await asyncio.sleep(LOOK_SECONDS)


@dataclass(frozen=True)
class Settings:
    """How an application serves a storage.

    Attributes
    ----------
    root_path
        The prefix under which a proxy serves it, such as ``/oddarms``.
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
        self.waits = Waits(self.tokens)
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
        self.waits.changed(study)
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
        self._registry = prometheus.CollectorRegistry()
        self.requests = self._counter(
            "http_requests", "Requests that were answered.", "method", "route", "status"
        )
        self.seconds = self._histogram(
            "http_request_seconds", "Time to answer, without waits for work.", "method", "route"
        )
        self.told = self._counter(
            "results", "Results that clients told: recorded, repeated or in conflict.", "outcome"
        )
        self.leases = self._counter(
            "leases", "Leases of tickets that were granted, renewed, returned or released.", "event"
        )
        storage = self._histogram(
            "storage_seconds", "Time of a transaction, with the wait for its turn.", "kind"
        )
        database = state.storage.database
        database.observe = lambda kind, seconds: storage.labels(kind).observe(seconds)
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "storage_connections": ("Connections in use.", lambda: database.connections),
            "open_tickets": ("Tickets whose leases last.", state.storage.open_tickets),
            "waiting_asks": ("Requests that wait for work.", lambda: len(state.waits)),
            "open_studies": ("Studies in memory.", lambda: len(state.studies)),
            "studies": ("Studies in the storage.", lambda: state.storage.list(most=1).total),
        }
        for name, (said, value) in gauges.items():
            self._gauge(name, said).set_function(value)
        self._gauge("info", "The version.", "version").labels(__version__).set(1)

    def _counter(self, name: str, said: str, *labels: str) -> prometheus.Counter:
        return prometheus.Counter(f"oddarms_{name}", said, labels, registry=self._registry)

    def _histogram(self, name: str, said: str, *labels: str) -> prometheus.Histogram:
        return prometheus.Histogram(f"oddarms_{name}", said, labels, registry=self._registry)

    def _gauge(self, name: str, said: str, *labels: str) -> prometheus.Gauge:
        return prometheus.Gauge(f"oddarms_{name}", said, labels, registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return prometheus.generate_latest(self._registry)


def state_of(connection: HTTPConnection) -> State:
    """Return what all requests share."""
    state: State = connection.app.state.oddarms
    return state
