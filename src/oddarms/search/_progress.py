"""Progress of a running search, for callbacks, terminals, logs and notebooks."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TextIO

import numpy as np

from oddarms.documents import Bar, to_fragment
from oddarms.problem import BoolArray, FloatArray, IntArray
from oddarms.text import about, counted, elided, terminal_width

ENOUGH = 30
"""Pulls of each arm before they are said to look alike."""
MAX_WORST = 3
TERMINAL_SECONDS, NOTEBOOK_SECONDS, PLAIN_SECONDS = 0.25, 0.25, 10.0
"""Between two updates: on a terminal, in a notebook, and between two lines of a log."""


@dataclass(frozen=True)
class Progress:
    """What a progress callback is told.

    `pulls_needed` is a rough guess of the pulls to come at the present estimates, often off by a
    factor of three, or None if the algorithm has none. `alike` says that the averages differ no
    more than chance makes them and nothing but a budget would end the search. `worst` are up to
    three arms that are not known to be normal, as pairs of their number and their average, the
    most abnormal average first.
    """

    pulls: int
    round: int
    n: int
    undecided: int
    threshold_lower: float
    threshold_upper: float
    pulls_needed: float | None
    alike: bool = False
    worst: tuple[tuple[int, float], ...] = ()


def most_abnormal(
    means: FloatArray, candidates: BoolArray, side: str
) -> tuple[tuple[int, float], ...]:
    """Return the arms with the most abnormal averages among the candidates, and these averages."""
    known = np.flatnonzero(candidates & ~np.isnan(means))
    abnormal = means[known] if side != "lower" else -means[known]
    if side == "both" and known.size:
        abnormal = np.abs(means[known] - np.nanmean(means))
    if known.size > MAX_WORST:  # most are of no interest, and there may be a great many
        chosen = np.argpartition(-abnormal, MAX_WORST - 1)[:MAX_WORST]
        known, abnormal = known[chosen], abnormal[chosen]
    order = np.lexsort((known, -abnormal))
    return tuple((int(i), float(means[i])) for i in known[order])


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
"""A function that is called with a `Progress` now and then."""


class StatusLine:
    """A line on stderr: redrawn on a terminal, elsewhere a new one now and then."""

    def __init__(self, stream: TextIO | None = None, wait: float | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.started = time.monotonic()
        self.pause = TERMINAL_SECONDS if self.terminal else PLAIN_SECONDS
        usual = 0.0 if self.terminal else PLAIN_SECONDS
        self._due = self.started + (usual if wait is None else wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.say("")

    def due(self) -> bool:
        """Return whether it is time to show something again."""
        return time.monotonic() >= self._due

    def show(self, text: str) -> None:
        """Show a text instead of the one before."""
        self._due = time.monotonic() + self.pause
        if self.terminal:
            while len(text) >= terminal_width() and ", " in text:
                text = text.rpartition(", ")[0]  # the last part matters least
            self.stream.write(f"\r{elided(text, terminal_width() - 1)}\x1b[K")
            self.stream.flush()
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """Print a text that stays, if there is one, in place of the line."""
        self.stream.write(("\r\x1b[K" if self.terminal else "") + (f"{text}\n" if text else ""))
        self.stream.flush()


class ProgressLine(StatusLine):
    """Shows a search on a line once it takes over a second."""

    def __init__(self, stream: TextIO | None = None, wait: float | None = 1.0) -> None:
        super().__init__(stream, wait)

    def __call__(self, progress: Progress) -> None:
        if self.due():
            self.show(describe(progress))


class NotebookLine(StatusLine):
    """Shows a search as a bar below the cell of a notebook, once it takes over a second."""

    def __init__(self, wait: float = 1.0) -> None:
        super().__init__(io.StringIO(), wait)
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        if self.due():
            self._due = time.monotonic() + NOTEBOOK_SECONDS
            text = describe(progress)
            self._put(text, to_fragment([Bar(progress.n - progress.undecided, progress.n, text)]))

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._put("", "")

    def _put(self, text: str, html: str) -> None:
        from IPython.display import display

        content = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def describe(progress: Progress) -> str:
    """Return the progress as a line of text."""
    needed = progress.pulls_needed
    parts = [
        counted(progress.pulls, "pull"),
        f"{progress.undecided:,} of {progress.n:,} arms undecided",
    ]
    if progress.alike:
        parts.append("all look alike: a margin would end it")
    elif needed is not None:
        parts.append(f"about {about(needed)} to go")
    lower, upper = progress.threshold_lower, progress.threshold_upper
    if math.isfinite(lower) and math.isfinite(upper):
        parts.append(f"threshold {lower:.3g} to {upper:.3g}")
    return ", ".join(parts)


def in_notebook() -> bool:
    """Return whether this runs in the kernel of a notebook, which has imported IPython."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get_shell() if get_shell else None, "kernel", None) is not None


def progress_line(wait: float = 1.0) -> ProgressLine | NotebookLine:
    """Return what shows a search here: on a terminal, in a notebook, or in a log."""
    return NotebookLine(wait) if in_notebook() else ProgressLine(wait=wait)
