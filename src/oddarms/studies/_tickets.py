"""What passes between a study and its workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from oddarms.problem import Label


@dataclass(frozen=True)
class Ticket:
    """A pull to be made.

    Attributes
    ----------
    id
        Its number within the study; `Study.tell` takes the ticket or this number.
    arm
        The label of the arm to pull.
    expires
        When the lease runs out and the pull may be handed to somebody else.
    """

    id: int
    arm: Label
    expires: datetime


class Status(StrEnum):
    """Where a study stands."""

    OPEN = "open"
    """There is work to hand out."""
    WAITING = "waiting"
    """All pulls of the step are out; more may follow when their results are in."""
    DECIDED = "decided"
    """Every arm is decided."""
    BUDGET = "budget"
    """The budget does not allow another step."""


class Tickets(list[Ticket]):
    """The tickets handed out, with the study's `status` after that."""

    def __init__(self, tickets: Iterable[Ticket], status: Status) -> None:
        super().__init__(tickets)
        self.status = status

    @property
    def done(self) -> bool:
        """True if the study will hand out nothing more."""
        return self.status in (Status.DECIDED, Status.BUDGET)


class Told(StrEnum):
    """What became of a result."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    """The same result was there already; it counts once."""
    CONFLICT = "conflict"
    """Another result was there already and stands; this one is listed by `Study.conflicts`."""


@dataclass(frozen=True)
class Trial:
    """A recorded result; times are in UTC.

    Attributes
    ----------
    number
        Its place in the order in which results were recorded.
    ticket, worker, asked, expired
        The ticket it answers, who had it, when it was handed out, and whether the result came
        after the lease; None for results nobody asked for.
    arm, reward, told
        The arm's label, its reward, and when it was recorded.
    """

    number: int
    ticket: int | None
    arm: Label
    reward: float
    worker: str | None
    asked: datetime | None
    told: datetime
    expired: bool


@dataclass(frozen=True)
class Conflict:
    """A second result for a ticket, which differs from the first and was not used."""

    ticket: int
    arm: Label
    first: float
    second: float
    worker: str | None
    told: datetime
