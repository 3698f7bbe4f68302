"""Progress of a running search, for callbacks and for a line on the terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from oddarms.problem import FloatArray, IntArray

ENOUGH = 30
"""Pulls of each arm before they are said to look alike."""


@dataclass(frozen=True)
class Progress:
    """What a progress callback is told.

    `pulls_needed` is a rough guess of the pulls to come at the present estimates, which may be
    several times too high or too low, or None if the algorithm has none. `alike` says that the
    averages differ no more than chance makes them and nothing but a budget would end the search.
    """

    pulls: int
    round: int
    n: int
    undecided: int
    threshold_lower: float
    threshold_upper: float
    pulls_needed: float | None
    alike: bool = False


def look_alike(means: FloatArray, pulls: IntArray) -> bool:
    """Return whether averages of rewards in [0, 1] differ no more than chance makes them.

    Not before `ENOUGH` pulls of each arm; the squared differences in units of the largest variance
    that such an average can have add up to about n then. It steers what is said, nothing else.
    """
    n, mean = means.size, float(means.mean())
    if pulls.min() < ENOUGH:
        return False
    spread = float((pulls * (means - mean) ** 2).sum())
    return spread <= mean * (1.0 - mean) * (n + 3.0 * math.sqrt(2.0 * n)) + 1e-12


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
    if progress.alike:
        parts.append("all look alike: a margin would end it")
    elif needed is not None:
        parts.append(f"about {needed:,.0f} pulls to go")
    return ", ".join(parts)
