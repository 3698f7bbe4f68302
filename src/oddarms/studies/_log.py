"""What a study's log is made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from oddarms.problem import Label, Question


class Told(StrEnum):
    """What became of a result."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    """The same result was there already; it counts once."""
    CONFLICT = "conflict"
    """Another result was there already and stands; this one is listed by `Study.conflicts`."""


@dataclass(frozen=True)
class ResultRow:
    """A recorded result: its number, ticket and place (None: nobody asked), arm, reward, import."""

    number: int
    ticket: int | None
    arm: int
    place: int | None
    reward: float
    batch: int | None = None


@dataclass(frozen=True)
class RevisionRow:
    """A recorded change of the question.

    Attributes
    ----------
    number, position
        Its own number, and that of the last result before it; 0 if there was none.
    question
        The question from there on, as JSON.
    chain
        The chain of the log up to and with it.
    made
        The time of day.
    """

    number: int
    position: int
    question: str
    chain: bytes
    made: float


@dataclass(frozen=True)
class Revision:
    """A change of the question.

    Attributes
    ----------
    number, position
        Its own number, and that of the last result before it (`Trial.number`), 0 if there was none.
    question
        What was asked from there on.
    made
        When, in UTC.
    """

    number: int
    position: int
    question: Question
    made: datetime


@dataclass(frozen=True)
class Trial:
    """A recorded result; times are in UTC.

    Attributes
    ----------
    number
        Its position in the order in which results were recorded.
    ticket, place, worker, asked, late
        The id of the ticket it answers, its place in the arm's sequence, who had it, when it was
        handed out, and whether the result came after the lease; None for imported results.
    arm, reward, told
        The arm's label, its reward, and when it was recorded.
    """

    number: int
    ticket: str | None
    arm: Label
    place: int | None
    reward: float
    worker: str | None
    asked: datetime | None
    told: datetime
    late: bool


@dataclass(frozen=True)
class Conflict:
    """A second result for a ticket, which differs from the first and was not used."""

    ticket: str
    arm: Label
    first: float
    second: float
    worker: str | None
    told: datetime


@dataclass(frozen=True)
class Worker:
    """Somebody who works on a study, or has; times are in UTC.

    Attributes
    ----------
    name
        As it was given to `ask`; None for all tickets that were asked for without a name.
    handed_out, pulls, live
        Tickets it was given, results told of them, and tickets whose results may still be on the
        way.
    last_told, last_seen
        When its last result was recorded, and when it last asked or told; None for never.
    rate
        Results a second between its first and its last one; None with fewer than two.
    """

    name: str | None
    handed_out: int
    pulls: int
    live: int
    last_told: datetime | None
    last_seen: datetime | None
    rate: float | None
