"""A worker's end of a study: what `oddarms.search.drive` asks and tells."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from oddarms.problem import Question
from oddarms.search import AHEAD, Progress, Result, Ticket, Tickets
from oddarms.studies._heartbeat import Heartbeat
from oddarms.studies._workers import this_process

if TYPE_CHECKING:
    from oddarms.studies._base import Study
    from oddarms.studies._log import Told

RUN_LEASE = timedelta(minutes=1)
"""The lease of a worker with a heartbeat: for so long its pulls stand still if it dies."""


class StudyDesk:
    """Asks a study and tells it results under one worker's name.

    In a ``with`` block the leases of its tickets are renewed, however long a pull takes. Its calls
    wait for a lock for a moment only: whoever drives it has patience, and says so.
    """

    first: Ticket | None
    """The first ticket that it was given."""

    def __init__(self, study: Study, worker: str | None, lease: timedelta) -> None:
        self.study = study
        self.worker = this_process() if worker is None else worker
        self.lease = lease
        self.first = None
        self._out = Heartbeat(study, lease)

    def __enter__(self) -> Self:
        self._out.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._out.stop()
            return
        with suppress(KeyboardInterrupt):  # the error on its way may have results
            self._out.stop()

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.study.question

    def ask(self, n: int = 1, *, ahead: float = AHEAD) -> Tickets:
        """Hand out up to n pulls."""
        with self.study.hurried():
            tickets = self.study.ask(n, self.worker, self.lease, ahead=ahead)
        self._out.add(tickets)
        if self.first is None and tickets:
            self.first = tickets[0]
        return tickets

    def tell_many(self, results: Iterable[tuple[Ticket, float]]) -> list[Told]:
        """Record results; when this returns they are stored for good."""
        results = list(results)
        with self.study.hurried():
            told = self.study.tell_many(results, worker=self.worker)
        self._out.remove(ticket for ticket, _ in results)
        return told

    def skip_many(self, tickets: Iterable[Ticket], reason: str = "") -> None:
        """Give tickets back."""
        tickets = list(tickets)
        with self.study.hurried():
            self.study.skip_many(tickets, reason)
        self._out.remove(tickets)

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        return self.study.check_reward(reward)

    def has_used(self, ticket: Ticket) -> bool:
        """Return whether a ticket's result is stored."""
        return ticket not in self._out

    def result(self) -> Result:
        """Return what is known."""
        return self.study.result()

    def progress(self) -> Progress:
        """Return how far the study is."""
        return self.study.progress()

    def wait_for_others(self, seconds: float) -> None:
        """Wait a moment, where all pulls are with others."""
        self.study.wait(seconds, poll=seconds)
