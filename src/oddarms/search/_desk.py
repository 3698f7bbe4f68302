"""What a driver asks and tells, and whom it shows how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from oddarms.problem import Question
from oddarms.search._progress import Progress, ProgressCallback
from oddarms.search._result import Result
from oddarms.search._search import AHEAD
from oddarms.search._tickets import Ticket, Tickets

POLL_SECONDS = 0.5
PROGRESS_SECONDS = 0.1


class Desk(Protocol):
    """Where tickets are handed out and results taken: a `Search`, or a worker's end of a study.

    One that has to do something meanwhile is a context manager, which `drive` enters.
    """

    @property
    def question(self) -> Question:
        """What is asked."""
        ...

    def ask(self, n: int = 1, *, ahead: float = AHEAD) -> Tickets:
        """Hand out up to n pulls."""
        ...

    def tell_many(self, results: Iterable[tuple[Ticket, float]]) -> Any:
        """Take results; when this returns they are kept.

        One that keeps them in a storage takes the same ones again after a failure.
        """
        ...

    def skip_many(self, tickets: Iterable[Ticket], reason: str = "") -> None:
        """Take tickets back."""
        ...

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        ...

    def has_used(self, ticket: Ticket) -> bool:
        """Return whether a ticket's result need not be kept by the caller any more."""
        ...

    def result(self) -> Result:
        """Return what is known."""
        ...

    def progress(self) -> Progress:
        """Return how far it is."""
        ...

    def wait_for_others(self, seconds: float) -> None:
        """Wait a moment, where all pulls are with others."""
        ...


@dataclass
class Shown:
    """Passes the progress on, not more often than it can be read."""

    progress: Callable[[], Progress]
    callback: ProgressCallback | None
    due: float = 0.0

    def __call__(self, *, every: bool = False) -> None:
        if self.callback is None:
            return
        is_due: Callable[[], bool] | None = getattr(self.callback, "due", None)
        if is_due is not None and not is_due():
            return
        now = time.monotonic()
        if not every and is_due is None and now < self.due:
            return
        self.due = now + PROGRESS_SECONDS
        self.callback(self.progress())

    def waiting(self) -> None:
        """Tell a callback that wants to know it that all pulls are with others."""
        tell: Callable[[], None] | None = getattr(self.callback, "waiting", None)
        if tell is not None:
            tell()
