"""What a command that samples shows while it runs: a progress callback for `search.run`."""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from oddarms.arms import Command
from oddarms.problem import Label, Question
from oddarms.search import Progress
from oddarms.text import about, counted, elided, shortened, shown, width

TERMINAL_SECONDS, PLAIN_SECONDS = 0.25, 10.0
"""Between two updates: on a terminal, and between two lines of a log."""
TICK_SECONDS = 1.0
HANGING_SECONDS = 30.0
"""A command without a timeout that runs for longer is pointed out."""
LABEL_COLUMNS = 24


class Display:
    """Shows a search: a few lines on a terminal that are redrawn, elsewhere a line now and then.

    A thread shows that time passes while no sample comes back.

    Parameters
    ----------
    question
        What is asked.
    command
        What samples, if it is a command.
    """

    def __init__(self, question: Question, *, command: Command | None = None) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._terminal = self._console.is_terminal
        self._question = question
        self._command = None if command is None or command.timeout is not None else command
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._started = time.monotonic()
        self._due = self._started + (0.0 if self._terminal else PLAIN_SECONDS)
        self._first: Progress | None = None
        self._latest: Progress | None = None
        self._said_hanging: set[Label] = set()
        self._said_waiting = False
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="oddarms-display", daemon=True)

    def __enter__(self) -> Self:
        if self._terminal:
            self._live.start()
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._clock.join(TICK_SECONDS)
        if self._terminal:
            self._live.stop()

    def due(self) -> bool:
        """Return whether it is time to show something again."""
        return time.monotonic() >= self._due

    def __call__(self, progress: Progress) -> None:
        """Show how far the search is."""
        if self._first is None:
            self._first = progress
        self._latest = progress
        self._due = time.monotonic() + (TERMINAL_SECONDS if self._terminal else PLAIN_SECONDS)
        if self._terminal:
            self._draw()
        else:
            self._console.out(" · ".join(self._lines(progress)[:2]))

    def waiting(self) -> None:
        """Say once that other workers have all samples that are needed now."""
        if not self._said_waiting:
            self._said_waiting = True
            self._console.out("waiting: other workers have all samples of this step")

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            if self._terminal:
                self._draw()
            elif (hanging := self._hanging()) is not None and hanging[0] not in self._said_hanging:
                self._said_hanging.add(hanging[0])
                self._console.out(_hint(*hanging))

    def _draw(self) -> None:
        lines = ["sampling ..."] if self._latest is None else self._lines(self._latest)
        if (hanging := self._hanging()) is not None:
            lines.append(_hint(*hanging, columns=self._console.width - 1))
        texts = (Text(shortened(line, self._console.width - 1), no_wrap=True) for line in lines)
        self._live.update(Group(*texts), refresh=True)

    def _hanging(self) -> tuple[Label, float] | None:
        longest = None if self._command is None else self._command.longest()
        return longest if longest is not None and longest[1] >= HANGING_SECONDS else None

    def _lines(self, progress: Progress) -> list[str]:
        before = 0 if self._first is None else self._first.pulls
        rate = (progress.pulls - before) / max(time.monotonic() - self._started, 1e-3)
        decided = f"{progress.n - progress.undecided:,} of {progress.n:,} decided"
        lines = [
            f"{counted(progress.pulls, 'sample')} ({rate:,.1f}/s) · {decided}",
            self._threshold(progress) + _to_go(progress, rate),
        ]
        labels = self._question.labels
        worst = [f"{_short(labels[arm])} {mean:.3g}" for arm, mean in progress.worst]
        return [*lines, self._listed("worst so far", worst)] if worst else lines

    def _listed(self, name: str, parts: list[str]) -> str:
        """Return a line with as many of the parts as fit."""
        line = f"{name}: {parts[0]}"
        for part in parts[1:]:
            if width(line) + width(part) + 2 > self._console.width - 1:
                break
            line += f", {part}"
        return line

    def _threshold(self, progress: Progress) -> str:
        """Return what is known of the threshold, within the bounds."""
        low, high = progress.threshold_lower, progress.threshold_upper
        a, b = self._question.bounds
        from_below, from_above = a < low < math.inf, -math.inf < high < b
        if from_below and from_above:
            return f"threshold in [{low:.4g}, {high:.4g}]"
        if from_below:
            return f"threshold at least {low:.4g}"
        return f"threshold at most {high:.4g}" if from_above else "threshold not known yet"


def _to_go(progress: Progress, rate: float) -> str:
    if progress.alike:
        return " · all look alike: a --margin would end it"
    if progress.pulls_needed is None or not math.isfinite(progress.pulls_needed):
        return ""
    minutes = progress.pulls_needed / rate / 60.0 if rate > 0.0 else math.inf
    time_left = f", {minutes:,.0f} min" if 1.0 <= minutes < 1e5 else ""
    return f" · about {about(progress.pulls_needed)} more needed{time_left}"


def _short(label: Label) -> str:
    return elided(shown(label), LABEL_COLUMNS)


def _hint(label: Label, seconds: float, columns: int = 100) -> str:
    """Return a line about a command that runs for long, and what would end it."""
    rest = f" has run for {seconds:.0f} s; --timeout SECONDS ends what hangs"
    return elided(shown(label), max(columns - len(rest), 12)) + rest
