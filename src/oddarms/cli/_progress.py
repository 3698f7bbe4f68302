"""Progress on the terminal: a line per algorithm."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from oddarms.experiments import AlgorithmProgress, GridProgress

MAX_SECONDS = 99 * 86_400


class GridDisplay:
    """Shows a running comparison: cells, pulls, rate and time left; nothing off a terminal."""

    def __init__(self, stream: TextIO, *, shown: bool) -> None:
        console = Console(file=stream)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=18),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pulls]}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._lines: dict[str, Any] = {}
        self._started = time.monotonic()
        self.done = self.cells = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def update(self, progress: GridProgress) -> None:
        """Show how far a comparison is."""
        total = progress.total
        self.done, self.cells = total.done, total.cells
        rate = total.pulls / max(self._seconds, 1e-3)
        self._show("all", total, f"{_short(total.pulls)} pulls, {_short(rate)}/s")
        for name, one in progress.algorithms.items():
            self._show(name, one, f"{_short(one.pulls)} pulls")

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _show(self, name: str, one: AlgorithmProgress, pulls: str) -> None:
        left = self._time_left(one)
        if name not in self._lines:
            self._lines[name] = self._progress.add_task(name, total=one.cells, pulls="", left="")
        self._progress.update(self._lines[name], completed=one.done, pulls=pulls, left=left)

    def _time_left(self, one: AlgorithmProgress) -> str:
        if one.done == one.cells:
            return "done"
        if one.cost_run == 0.0:
            return "? left"
        seconds = min(self._seconds * one.cost_left / one.cost_run, MAX_SECONDS)
        return f"{timedelta(seconds=math.ceil(seconds))} left"


def _short(value: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if value < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000.0
    return f"{value:.3g}P"
