"""Progress of a running search, for callbacks and for a line on the terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Progress:
    """What a progress callback is told.

    `pulls_needed` is a rough guess of the pulls to come at the present estimates, which may be
    several times too high or too low, or None if the algorithm has none.
    """

    pulls: int
    round: int
    n: int
    undecided: int
    threshold_lower: float
    threshold_upper: float
    pulls_needed: float | None


ProgressCallback = Callable[[Progress], None]


class ProgressLine:
    """Shows a search on one terminal line, ten times a second, once it takes over a second.

    Where the stream is not a terminal, a plain line every ten seconds.
    """

    def __init__(self, stream: TextIO | None = None, wait: float = 1.0) -> None:
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self._due = time.monotonic() + wait
        self._width = 0

    def due(self) -> bool:
        """Return whether it is time to show something again."""
        return time.monotonic() >= self._due

    def __call__(self, progress: Progress) -> None:
        """Show the progress if it is due."""
        if not self.due():
            return
        self._due = time.monotonic() + (0.1 if self.terminal else 10.0)
        text = describe(progress)
        if self.terminal:
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self.terminal and self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()


def describe(progress: Progress) -> str:
    """Return the progress as a line of text."""
    needed = progress.pulls_needed
    parts = [
        f"{progress.pulls:,} pulls",
        f"{progress.undecided:,} of {progress.n:,} arms undecided",
    ]
    if math.isfinite(progress.threshold_lower) and math.isfinite(progress.threshold_upper):
        parts.append(
            f"threshold in [{progress.threshold_lower:.3g}, {progress.threshold_upper:.3g}]"
        )
    if needed is not None:
        parts.append(f"about {needed:,.0f} pulls to go")
    return ", ".join(parts)
