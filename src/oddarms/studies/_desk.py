"""A worker's end of a study: what `oddarms.search.drive` asks and tells."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from oddarms.problem import Question
from oddarms.search import AHEAD, Progress, Result, Ticket, Tickets
from oddarms.studies._workers import this_process

if TYPE_CHECKING:
    from oddarms.studies._log import Told
    from oddarms.studies._study import Study


class StudyDesk:
    """Asks a study and tells it results under one worker's name."""

    def __init__(self, study: Study, worker: str | None, lease: timedelta) -> None:
        self.study = study
        self.worker = this_process() if worker is None else worker
        self.lease = lease

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.study.question

    def ask(self, n: int = 1, *, ahead: float = AHEAD) -> Tickets:
        """Hand out up to n pulls."""
        return self.study.ask(n, self.worker, self.lease, ahead=ahead)

    def tell_many(self, results: Iterable[tuple[Ticket | str, float]]) -> list[Told]:
        """Record results; when this returns they are stored for good."""
        return self.study.tell_many(results, worker=self.worker)

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """Give tickets back."""
        self.study.skip_many(tickets, reason)

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        return self.study.check_reward(reward)

    def has_used(self, ticket: Ticket) -> bool:
        """Return True: what was told is stored."""
        del ticket
        return True

    def result(self) -> Result:
        """Return what is known."""
        return self.study.result()

    def progress(self) -> Progress:
        """Return how far the study is."""
        return self.study.progress()

    def wait_for_others(self, seconds: float) -> None:
        """Wait a moment, where all pulls are with others."""
        self.study.wait(seconds, poll=seconds)
