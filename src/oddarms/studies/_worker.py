"""A worker's desk at a study: leases, their renewal, retries, and results not yet stored.

`oddarms.search.run` drives it as it drives a `Search`. What is told or skipped is sent to the
study in batches. While the storage is unavailable, results are kept here and sent later.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from oddarms.errors import StorageFailed
from oddarms.interrupts import ended, interruptible, pause
from oddarms.problem import Question
from oddarms.search import (
    PREFETCH,
    RETRY_FOR,
    Progress,
    Result,
    Seconds,
    Ticket,
    Tickets,
    seconds_of,
)
from oddarms.text import counted, duration

if TYPE_CHECKING:
    from oddarms.studies._study import Study

Returned = TypeVar("Returned")

WORKER_LEASE = timedelta(minutes=1)
"""The lease of a worker, which renews it. After its death its pulls wait so long."""
RENEWALS = 4
"""Renewals in the time of a lease."""
FLUSH_SECONDS = 0.5
"""How long results wait to be stored, at most."""
MAX_UNTOLD = 1000
END_SECONDS = 2.0
"""How long the end of a `with` block waits for the thread, which may be waiting for a storage."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0
FIRST_IDLE, MAX_IDLE = 0.02, 0.5
MAX_WAIT = 30.0
"""How many seconds a server waits for work before it answers."""
SAY_SECONDS = 60.0
"""How often a wait that goes on is logged."""

_log = logging.getLogger(__name__)


class Worker:
    """Asks a study and tells it results under one name.

    In a ``with`` block a thread renews the leases of its tickets, and stores results that wait,
    however long a pull takes. The end of the block stores the rest.

    Parameters
    ----------
    study
        The study.
    name
        A name for the log; by default one that identifies this process.
    lease
        How long its pulls wait for another worker if it dies.
    retry_for
        How long to retry while the storage is unavailable.
    waiting
        Called whenever other workers have all pulls.

    Attributes
    ----------
    untold
        Rewards by ticket that the storage does not have, or has not acknowledged.
    """

    def __init__(
        self,
        study: Study,
        name: str | None = None,
        *,
        lease: Seconds = WORKER_LEASE,
        retry_for: Seconds = RETRY_FOR,
        waiting: Callable[[], None] | None = None,
    ) -> None:
        self.study = study
        self.name = this_process() if name is None else name
        self.untold: dict[Ticket, float] = {}
        self._lease = lease
        self._retry_for = seconds_of("retry_for", retry_for)
        self._waiting = waiting
        self._gave_up = False
        self._question: Question | None = None
        self._flushed = time.monotonic()
        self._idle = self._wait = 0.0
        # Two threads use these, but only single operations, which are atomic. What both send
        # counts once.
        self._returned: dict[Ticket, str] = {}
        self._out: dict[Ticket, None] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._meanwhile, args=(self._ended,), name="oddarms-worker", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
            else:
                with suppress(StorageFailed):  # the error on its way has what is not stored
                    self._flush_once()
        finally:
            self._ended.set()
            if self._thread is not None:
                self._thread.join(END_SECONDS)

    # The desk

    @property
    def question(self) -> Question:
        """What is asked; the budget may have grown since."""
        if self._question is None:
            self._question = self._retried(lambda: self.study.question)
        return self._question

    def ask(self, n: int = 1, *, prefetch: float = PREFETCH) -> Tickets:
        """Hand out up to n pulls."""
        self.flush()
        key = secrets.token_urlsafe(16)  # repeated after a lost answer, it gets the same tickets
        began, lease = time.monotonic(), self._lease

        def ask() -> Tickets:
            wait, self._wait = self._wait, 0.0  # if it is repeated, there may be tickets for it
            return self.study.ask(n, self.name, lease, prefetch=prefetch, key=key, wait=wait)

        with interruptible() if self._wait else nullcontext():
            tickets = self._retried(ask)
        self._out.update(dict.fromkeys(tickets))
        if tickets or time.monotonic() - began > MAX_IDLE:
            self._idle = 0.0
        return tickets

    def tell(self, ticket: Ticket, reward: float) -> None:
        """Take a result; in a ``with`` block it is stored within a second."""
        self.untold.setdefault(ticket, self.study.check_reward(reward))
        due = len(self.untold) >= MAX_UNTOLD or time.monotonic() - self._flushed > FLUSH_SECONDS
        if due and not self._gave_up:
            self.flush()

    def skip_many(self, tickets: Iterable[Ticket], reason: str = "") -> None:
        """Take tickets back that will have no result."""
        self._returned.update({t: reason for t in tickets if t not in self.untold})

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a float if it is a number within the bounds."""
        return self.study.check_reward(reward)

    def wait(self) -> None:
        """Wait while other workers have all pulls: each time longer, up to half a second.

        The next `ask` lets a server wait for work, so that there is no need to ask again and again.
        """
        if self._waiting is not None:
            self._waiting()
        self.flush()
        self._wait = MAX_WAIT if self.study.waits else 0.0
        pause(self._idle)
        self._idle = min(max(2.0 * self._idle, FIRST_IDLE), MAX_IDLE)

    def result(self) -> Result:
        """Return what is known, with everything that was told."""
        self.flush()
        return self._retried(self.study.result)

    def progress(self) -> Progress:
        """Return how far the study is."""
        return self._retried(self.study.progress)

    def flush(self) -> None:
        """Store all results, and give back all tickets, that are here."""
        if self.untold or self._returned:
            self._retried(self._flush_once)
        self._flushed = time.monotonic()

    def _flush_once(self) -> None:
        results = list(self.untold.items())
        if results:
            self.study.tell_many(results, worker=self.name)
            for ticket, _ in results:
                self.untold.pop(ticket, None)
                self._out.pop(ticket, None)
        returned = list(self._returned.items())
        for reason in dict.fromkeys(reason for _, reason in returned):
            tickets = [ticket for ticket, said in returned if said == reason]
            self.study.skip_many(tickets, reason)
            for ticket in tickets:
                self._returned.pop(ticket, None)
                self._out.pop(ticket, None)

    # Retries and renewal

    def _retried(self, call: Callable[[], Returned]) -> Returned:
        """Make a call, again and again while the storage is unavailable.

        Once that has taken too long, further calls are made once, until one succeeds.
        """
        retry_for = 0.0 if self._gave_up else self._retry_for
        try:
            answer = retried(call, retry_for, kept=lambda: len(self.untold))
        except StorageFailed:
            self._gave_up = True
            raise
        self._gave_up = False
        return answer

    def _meanwhile(self, ended: threading.Event) -> None:
        """Store results and renew leases while the caller's thread does something else."""
        between = seconds_of("lease", self._lease) / RENEWALS
        process, renewed = os.getpid(), time.monotonic()
        while not ended.wait(min(between, FLUSH_SECONDS)) and os.getpid() == process:
            try:
                now = time.monotonic()
                if self.untold and now - self._flushed > FLUSH_SECONDS:
                    self._flushed = now
                    self._flush_once()
                if self._out and now - renewed >= between:
                    renewed = now
                    self.study.renew(list(self._out), self._lease)
            except Exception as error:  # the caller's next call meets it, too
                _log.debug("%d tickets are not renewed: %s", len(self._out), error)


def retried(
    call: Callable[[], Returned], retry_for: float, *, kept: Callable[[], int] = int
) -> Returned:
    """Return what a call returns; repeat it while the storage is unavailable.

    A signal ends the wait at once.

    Parameters
    ----------
    call
        May be made twice, as its answer can be lost on the way.
    retry_for
        For how many seconds.
    kept
        Returns how many results wait to be stored, for the log.
    """
    began = time.monotonic()
    said, seconds, failed = -SAY_SECONDS, FIRST_PAUSE, False
    while True:
        try:
            answer = call()
        except StorageFailed as error:
            waited = time.monotonic() - began
            if not error.passing or waited >= retry_for or ended():
                raise
            failed = True
            if waited - said >= SAY_SECONDS:
                said = waited
                here = f"; {counted(kept(), 'result')} kept meanwhile" if kept() else ""
                _log.warning("%s Retrying for %s%s.", error, duration(retry_for - waited), here)
        else:
            if failed:
                _log.warning(
                    "The storage is available again after %s.", duration(time.monotonic() - began)
                )
            return answer
        pause(min(seconds, max(retry_for - waited, 0.0)))
        seconds = min(2.0 * seconds, MAX_PAUSE)


# Names of processes

_NAME = re.compile(r"process ([0-9]{1,10}) on (.+)")


def this_process() -> str:
    """Return a name for this process."""
    return f"process {os.getpid()} on {_machine()}"


def _machine() -> str:
    """Return the host's name, with a hash of its boot and of the container's processes if known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        space = hashlib.sha256(f"{boot}{os.readlink('/proc/self/ns/pid')}".encode())
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} ({space.hexdigest()[:10]})"


def is_gone(worker: str) -> bool:
    """Return whether a name is that of a process of this machine that has ended."""
    found = _NAME.fullmatch(worker)
    if found is None or found[2] != _machine():
        return False
    try:
        os.kill(int(found[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it runs as another user
        pass
    return False
