"""The core: `Search` (ask and tell), `run` (the one loop), `Result` (the answer)."""

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
from oddarms.search._progress import (
    Progress,
    ProgressCallback,
    ProgressLine,
    StatusLine,
    in_notebook,
    progress_line,
)
from oddarms.search._result import Result, Snapshot, TracePoint
from oddarms.search._rewards import Rewards
from oddarms.search._run import RETRY_FOR, Desk, OnError, Policy, Seconds, run, seconds_of
from oddarms.search._search import (
    PREFETCH,
    Search,
    check_prefetch,
    check_raised,
    history_rows,
    numbers_within,
)
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
    "StatusLine",
    "Subject",
    "Ticket",
    "Tickets",
    "TracePoint",
    "answer",
    "as_html",
    "as_markdown",
    "as_text",
    "check_prefetch",
    "check_raised",
    "facts",
    "guarantee",
    "headline",
    "history_rows",
    "in_notebook",
    "is_proven",
    "number",
    "number_style",
    "numbers_within",
    "odds_text",
    "progress_line",
    "run",
    "seconds_of",
    "status_text",
]
