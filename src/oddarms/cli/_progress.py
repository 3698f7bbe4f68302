"""Progress on the terminal: a line per algorithm."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from oddarms.experiments import GridProgress


class GridDisplay:
    """Shows a running comparison: cells, pulls, rate and time left; nothing off a terminal."""

    def __init__(self, stream: TextIO, *, shown: bool) -> None:
        console = Console(file=stream)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=18),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pulls]}"),
            TimeRemainingColumn(),
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
        self.done, self.cells = progress.done, progress.cells
        self._line("all", f"all ({progress.executor})", progress.done, progress.cells)
        seconds = max(time.monotonic() - self._started, 1e-3)
        rate = f"{_short(progress.pulls)} pulls, {_short(progress.pulls / seconds)}/s"
        self._progress.update(self._lines["all"], pulls=rate)
        for name, one in progress.algorithms.items():
            self._line(name, name, one.done, one.cells)
            self._progress.update(self._lines[name], pulls=f"{_short(one.pulls)} pulls")

    def _line(self, key: str, description: str, done: int, cells: int) -> None:
        if key not in self._lines:
            self._lines[key] = self._progress.add_task(description, total=cells, pulls="")
        self._progress.update(self._lines[key], completed=done, description=description)


def _short(value: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if value < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000.0
    return f"{value:.3g}P"
