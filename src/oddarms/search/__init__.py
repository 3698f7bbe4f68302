"""The core: `Search` asks and is told, `drive` makes its pulls, `Result` is what comes out."""

from oddarms.search._calls import OnError
from oddarms.search._desk import Desk
from oddarms.search._driver import drive
from oddarms.search._patience import PATIENCE, Patience, patiently
from oddarms.search._progress import Progress, ProgressCallback, ProgressLine
from oddarms.search._result import Result, Snapshot, TracePoint
from oddarms.search._search import AHEAD, Search
from oddarms.search._subject import ARMS, TESTS, Subject
from oddarms.search._text import answer
from oddarms.search._tickets import Status, Ticket, Tickets

__all__ = [
    "AHEAD",
    "ARMS",
    "PATIENCE",
    "TESTS",
    "Desk",
    "OnError",
    "Patience",
    "Progress",
    "ProgressCallback",
    "ProgressLine",
    "Result",
    "Search",
    "Snapshot",
    "Status",
    "Subject",
    "Ticket",
    "Tickets",
    "TracePoint",
    "answer",
    "drive",
    "patiently",
]
