"""The core: `Search` asks and is told, `run` makes its pulls, `Result` is what comes out."""

from oddarms.search._answer import (
    LeftOut,
    answer,
    as_html,
    as_markdown,
    as_text,
    facts,
    guarantee,
    headline,
    is_proven,
    number,
    number_style,
    odds_text,
    status_text,
)
from oddarms.search._progress import Progress, ProgressCallback, ProgressLine
from oddarms.search._result import Result, Snapshot, TracePoint
from oddarms.search._rewards import Rewards
from oddarms.search._run import RETRY_FOR, Desk, OnError, Policy, Seconds, run, seconds_of
from oddarms.search._search import PREFETCH, Search
from oddarms.search._sequences import Place
from oddarms.search._subject import ARMS, TESTS, Subject
from oddarms.search._tickets import Status, Ticket, Tickets

__all__ = [
    "ARMS",
    "PREFETCH",
    "RETRY_FOR",
    "TESTS",
    "Desk",
    "LeftOut",
    "OnError",
    "Place",
    "Policy",
    "Progress",
    "ProgressCallback",
    "ProgressLine",
    "Result",
    "Rewards",
    "Search",
    "Seconds",
    "Snapshot",
    "Status",
    "Subject",
    "Ticket",
    "Tickets",
    "TracePoint",
    "answer",
    "as_html",
    "as_markdown",
    "as_text",
    "facts",
    "guarantee",
    "headline",
    "is_proven",
    "number",
    "number_style",
    "odds_text",
    "run",
    "seconds_of",
    "status_text",
]
