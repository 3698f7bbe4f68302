"""Searches: `find` runs one, `Search` lets you run it yourself, `Result` is what comes out."""

from oddarms.search._find import Arms, find
from oddarms.search._progress import Progress, ProgressCallback, ProgressLine, progress_of
from oddarms.search._result import HistoryPoint, Result, Snapshot
from oddarms.search._search import Search

__all__ = [
    "Arms",
    "HistoryPoint",
    "Progress",
    "ProgressCallback",
    "ProgressLine",
    "Result",
    "Search",
    "Snapshot",
    "find",
    "progress_of",
]
