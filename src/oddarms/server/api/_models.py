"""The bodies of requests and answers; what the words mean is checked by the library itself."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from oddarms.problem import DEFAULT_DELTA
from oddarms.server._limits import MAX_ARMS
from oddarms.studies._base import LEASE, MOST_LEASE
from oddarms.studies._limits import (
    MOST_KEY,
    MOST_RESULTS,
    MOST_TEXT,
    MOST_TICKET_ID,
    MOST_TICKETS,
)

Reward = Annotated[Any, Field(json_schema_extra={"type": "number"})]
"""Checked by the study, which says what is wrong with one."""
Label = StrictStr | StrictInt
Text = Annotated[str, Field(max_length=MOST_TEXT)]
Seconds = Annotated[float, Field(gt=0.0, le=MOST_LEASE.total_seconds(), allow_inf_nan=False)]
TicketId = Annotated[str, Field(max_length=MOST_TICKET_ID)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewStudy(_Body):
    """A study to be created: its arms, and the words of a `Question`."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    arms: Annotated[
        list[Label] | int,
        Field(description=f"Labels, texts or whole numbers, at most {MAX_ARMS:,}; or how many."),
    ]
    k: float | None = None
    delta: float = DEFAULT_DELTA
    bounds: tuple[float, float] = (0.0, 1.0)
    side: str = "upper"
    budget: int | None = None
    rule: str = "sigma"
    margin: float | None = None
    floor: float | None = None
    control: Label | None = None
    quantile: float | None = None
    error: str = "fwer"
    goal: str = "confidence"
    revised: bool = False
    algorithm: str | None = None
    options: Annotated[dict[str, Any], Field(description="Of the algorithm.")] = {}
    seed: Annotated[
        int | str | None,
        Field(description="A whole number, also as a text, as it may be long; drawn if missing."),
    ] = None


class Ask(_Body):
    """How many pulls are wanted, and by whom."""

    n: Annotated[int, Field(ge=1, le=MOST_TICKETS)] = 1
    worker: Text | None = None
    lease: Annotated[Seconds, Field(description="Seconds.")] = LEASE.total_seconds()
    ahead: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    key: Annotated[
        str | None,
        Field(
            max_length=MOST_KEY, description="Repeat the request with it, and get the same tickets."
        ),
    ] = None


class Tell(_Body):
    """One result, as ticket and reward, or several."""

    ticket: TicketId | None = None
    reward: Reward = None
    results: Annotated[
        list[tuple[TicketId, Reward]] | None,
        Field(max_length=MOST_RESULTS, description="Pairs of ticket and reward."),
    ] = None
    worker: Text | None = None


class Skip(_Body):
    """Tickets to be given back, or all that a worker has out."""

    tickets: Annotated[list[TicketId], Field(max_length=MOST_TICKETS)] | None = None
    worker: Text | None = None
    reason: Text = ""


class Renew(_Body):
    """Tickets whose pulls are still under way."""

    tickets: Annotated[list[TicketId], Field(max_length=MOST_TICKETS)]
    lease: Annotated[Seconds, Field(description="Seconds from now.")] = LEASE.total_seconds()


class Import(_Body):
    """Rewards that nobody asked for, by label."""

    rewards: Annotated[
        dict[str, list[Reward]] | list[tuple[Label, list[Reward]]],
        Field(description="By label; or pairs of label and rewards, as labels may be numbers."),
    ]
    key: Annotated[str | None, Field(max_length=MOST_KEY)] = None
    start: Annotated[
        int,
        Field(ge=0, le=2**53, description="Of a part: how many rewards come before, by arm."),
    ] = 0
    digest: Annotated[
        str | None,
        Field(pattern="^[0-9a-f]{64}$", description="Of a part: that of the whole import."),
    ] = None


class Changes(BaseModel):
    """Words of the question that are changed: margin, floor, indifference, budget."""

    model_config = ConfigDict(extra="allow")


class Stop(_Body):
    """Why a study is stopped."""

    reason: Text = ""


# Answers


class TicketOut(BaseModel):
    """A pull to be made."""

    id: str
    arm: Label
    index: int
    place: int
    expires: str


class Asked(BaseModel):
    """Tickets, and where the study stands; done if no more will be handed out."""

    status: str
    done: bool
    decided: int
    tickets: list[TicketOut]


class ToldOut(BaseModel):
    """What became of each result: recorded, repeated, or in conflict with the first one."""

    told: list[str]


class Count(BaseModel):
    """How many."""

    count: int


class Document(BaseModel):
    """A document whose words are those of the library, such as `result.json`."""

    model_config = ConfigDict(extra="allow")


class StudiesOut(BaseModel):
    """A page of studies, and how many there are in all."""

    studies: list[Document]
    total: int


class StatusOut(BaseModel):
    """Where a study stands; done if no more tickets will be handed out."""

    status: str
    done: bool


class PulseOut(BaseModel):
    """A text that is another one once anything has changed."""

    pulse: str


class TrialsOut(BaseModel):
    """Recorded results, and the number to go on behind; null at the end."""

    trials: list[Document]
    next: int | None


class ConflictsOut(BaseModel):
    """Results that were refused, and the number to go on behind; null at the end."""

    conflicts: list[Document]
    next: int | None


class RevisionsOut(BaseModel):
    """Changes of the question."""

    revisions: list[Document]


class WorkersOut(BaseModel):
    """Who has worked on a study."""

    workers: list[Document]


class VerifiedOut(BaseModel):
    """Whether all that is stored follows from the log."""

    ok: bool
    results: int
    chain: str
    problems: list[str]


class ProblemOut(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    code: str
    detail: str
