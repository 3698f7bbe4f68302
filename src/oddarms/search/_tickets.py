"""Tickets, which `ask` hands out, and the status of a search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from oddarms.problem import Label


class Status(StrEnum):
    """Where a search stands; `meaning` says it in words."""

    RUNNING = "running"
    WAITING = "waiting"
    DECIDED = "decided"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    ENDED = "ended"
    STOPPED = "stopped"

    @property
    def meaning(self) -> str:
        """What it means, as half a sentence."""
        return _MEANINGS[self]

    @property
    def final(self) -> bool:
        """True if no more pulls will be handed out."""
        return self not in (Status.RUNNING, Status.WAITING)


_MEANINGS = {
    Status.RUNNING: "it is still running",
    Status.WAITING: "it waits for results that others are getting",
    Status.DECIDED: "everything is decided",
    Status.BUDGET: "the budget does not allow another step",
    Status.INTERRUPTED: "a signal ended it",
    Status.FAILED: "a pull failed",
    Status.ENDED: "there are no more rewards",
    Status.STOPPED: "it was stopped and may be resumed",
}


@dataclass(frozen=True)
class Ticket:
    """A pull to be made: a place in the sequence of an arm's rewards.

    Attributes
    ----------
    id
        `tell` takes the ticket or this text. Ids of a study's tickets are unique among all studies.
    arm, index
        The label of the arm to pull, and its number.
    place
        Its reward is the arm's reward number `place`, counted from 0, whenever it arrives.
    expires
        Of a study: when the lease runs out and another worker may get the place.
    """

    id: str
    arm: Label
    index: int
    place: int
    expires: datetime | None = None


class Tickets(list[Ticket]):
    """The tickets handed out, with the `status` after that, and how many arms are `decided`."""

    def __init__(self, tickets: Iterable[Ticket], status: Status, decided: int) -> None:
        super().__init__(tickets)
        self.status = status
        self.decided = decided

    @property
    def done(self) -> bool:
        """True if nothing more will be handed out."""
        return self.status.final
