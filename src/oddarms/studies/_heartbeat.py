"""Leases that are renewed while somebody is at work, so that they can be short."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from oddarms.search import Ticket

BEATS_IN_A_LEASE = 4
SOONER = 3
"""By so much the next renewal comes sooner after one that failed."""
STOP_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Renewing(Protocol):
    """What a heartbeat needs of a study."""

    def renew(self, tickets: Iterable[Ticket | str], lease: timedelta) -> int:
        """Let leases run from now; return how many."""
        ...

    def hurried(self) -> AbstractContextManager[None]:
        """Return a block in which calls wait for others for a moment only."""
        ...


class Heartbeat:
    """Renews the leases of a worker's tickets, in a thread that keeps no process alive.

    A renewal waits for nobody: one that hung would outlast the lease. One that fails is left to the
    next one, which comes sooner then. In a lease of a minute there is time for eight that find a
    lock, and for three that get no answer from a server; a result that comes after the lease still
    counts. A forked process has no heartbeat.
    """

    def __init__(self, study: Renewing, lease: timedelta) -> None:
        self._study = study
        self._lease = lease
        self._tickets: dict[Ticket, None] = {}  # one call changes or copies it: needs no lock
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._tickets

    def add(self, tickets: Iterable[Ticket]) -> None:
        """Renew these, too."""
        self._tickets.update(dict.fromkeys(tickets))

    def remove(self, tickets: Iterable[Ticket]) -> None:
        """Renew these no more."""
        for ticket in tickets:
            self._tickets.pop(ticket, None)

    def start(self) -> None:
        """Begin to renew."""
        self._ended = threading.Event()
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=self._beat, args=(self._ended,), name="oddarms heartbeat", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; one renewal that is under way is given a moment to end."""
        if self._thread is None or self._process != os.getpid():
            return
        self._ended.set()
        self._thread.join(STOP_SECONDS)
        self._thread = None

    def _beat(self, ended: threading.Event) -> None:
        usual = self._lease.total_seconds() / BEATS_IN_A_LEASE
        renewed = True
        while not ended.wait(usual if renewed else usual / SOONER):
            renewed = self._renewed()

    def _renewed(self) -> bool:
        """Renew all leases; return False if that failed."""
        tickets = list(self._tickets)
        try:
            if tickets:
                with self._study.hurried():
                    self._study.renew(tickets, self._lease)
        except Exception as error:
            _log.debug("leases of %d tickets were not renewed: %s", len(tickets), error)
            return False
        return True
