"""The bodies of requests and answers; the library itself checks what the values mean."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from oddarms.problem import DEFAULT_DELTA
from oddarms.search import PREFETCH
from oddarms.server._state import MAX_ARMS
from oddarms.server._tokens import LONGEST, MAX_NOTE, Role
from oddarms.studies import LEASE, wire

Reward = Annotated[Any, Field(json_schema_extra={"type": "number"})]
"""Checked by the study, whose error says what is wrong."""
Label = StrictStr | StrictInt
Text = Annotated[str, Field(max_length=wire.MAX_TEXT)]
Key = Annotated[str, Field(max_length=wire.MAX_KEY)]
Lease = Annotated[float, Field(gt=0.0, le=1e9, allow_inf_nan=False)]
"""The study checks it: how long it may be is a setting of the server."""
TicketId = Annotated[str, Field(max_length=wire.MAX_TICKET_ID)]
TicketIds = Annotated[list[TicketId], Field(max_length=wire.MAX_RESULTS, fail_fast=True)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, values: Any) -> Any:
        """Refuse a great many members at once: Pydantic would make an error of each."""
        if isinstance(values, dict) and len(values) > len(cls.model_fields):
            known = ", ".join(cls.model_fields)
            said = "It has {count} members, and there are only {known}"
            raise PydanticCustomError("members", said, {"count": len(values), "known": known})
        return values


class NewStudy(_Body):
    """A study to create: its arms, and the words of a `Question`."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    arms: Annotated[
        Annotated[list[Label], Field(fail_fast=True)] | int,
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
    algorithm: str | None = None
    options: Annotated[dict[str, Any], Field(description="Options of the algorithm.")] = {}
    seed: Annotated[int | None, Field(description="As a text if it is long; drawn if missing.")] = (
        None
    )


class Ask(_Body):
    """How many pulls are wanted, and by whom."""

    n: Annotated[int, Field(ge=1, le=wire.MAX_RESULTS)] = 1
    worker: Text | None = None
    lease: Annotated[Lease, Field(description="Seconds.")] = LEASE.total_seconds()
    prefetch: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = PREFETCH
    key: Annotated[
        Key | None, Field(description="Repeat the request with it to get the same tickets.")
    ] = None
    wait: Annotated[
        float, Field(ge=0.0, le=wire.MAX_WAIT, description="Seconds to wait while there is none.")
    ] = 0.0


class NewToken(_Body):
    """A token to be made."""

    role: Role
    study: Text | None = None
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    days: Annotated[float | None, Field(gt=0.0, le=LONGEST.days)] = None


class Tell(_Body):
    """Results of tickets."""

    results: Annotated[
        list[tuple[TicketId, Reward]],
        Field(
            max_length=wire.MAX_RESULTS, fail_fast=True, description="Pairs of ticket and reward."
        ),
    ]
    worker: Text | None = None


class Skip(_Body):
    """Tickets to give back."""

    tickets: TicketIds
    reason: Text = ""


class Release(_Body):
    """A worker whose tickets are taken back; null for who asked without a name."""

    worker: Text | None
    reason: Text = ""


class Renew(_Body):
    """Tickets whose pulls are still under way."""

    tickets: TicketIds
    lease: Annotated[Lease, Field(description="Seconds from now.")] = LEASE.total_seconds()


class History(_Body):
    """Rewards from before the study, in their order."""

    rows: Annotated[
        list[tuple[int, Reward]],
        Field(
            max_length=wire.MAX_HISTORY,
            fail_fast=True,
            description="Pairs of an arm's number, from 0, and a reward.",
        ),
    ]
    key: Annotated[
        Key | None, Field(description="A second request with the same key records nothing.")
    ] = None


class Budget(_Body):
    """A larger budget; null for none."""

    budget: int | None


class Stop(_Body):
    """Why a study is stopped."""

    reason: Text = ""


# Answers


class TicketOut(BaseModel):
    """A pull to make."""

    id: str
    arm: Label
    index: int
    place: int
    expires: str


class Asked(BaseModel):
    """Tickets, and the status of the study; `done` if no more will be handed out."""

    status: str
    done: bool
    decided: int
    tickets: list[TicketOut]


class ProblemOut(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
