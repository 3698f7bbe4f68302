"""What commands show while they run: one line on stderr, redrawn on a terminal."""

from __future__ import annotations

import math
import threading
import time
from typing import Self

from oddarms.arms import Command
from oddarms.problem import Label, Question
from oddarms.search import Progress, StatusLine
from oddarms.text import about, counted, elided, shown, terminal_width

HANGING_SECONDS = 30.0
"""A command without a timeout that runs for longer is pointed out."""


class Display(StatusLine):
    """Shows a search: a progress callback for `search.run`."""

    def __init__(self, question: Question, *, command: Command | None = None) -> None:
        super().__init__()
        self._question = question
        self._command = None if command is None or command.timeout is not None else command
        self._before: int | None = None
        self._said: set[Label | None] = set()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if self.terminal:
            self.show("sampling ...")
        if self._command is not None:
            threading.Thread(target=self._watch, args=(self._command,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        super().__exit__()

    def __call__(self, progress: Progress) -> None:
        """Show how far the search is."""
        self._before = progress.pulls if self._before is None else self._before
        rate = (progress.pulls - self._before) / max(time.monotonic() - self.started, 1e-3)
        parts = [
            f"{counted(progress.pulls, 'sample')} ({rate:,.1f}/s)",
            f"{progress.n - progress.undecided:,} of {progress.n:,} decided",
            *_to_go(progress, rate),
        ]
        line = " · ".join(parts)
        if progress.worst:
            arm, mean = progress.worst[0]
            room = max(terminal_width() - len(line) - len(" · worst:  0.123") - 1, 8)
            line += f" · worst: {elided(shown(self._question.labels[arm]), room)} {mean:.3g}"
        self.show(line)

    def waiting(self) -> None:
        """Say once that other workers have all samples that are needed now."""
        if None not in self._said:
            self._said.add(None)
            self.say("waiting: other workers have all samples of this step")

    def _watch(self, command: Command) -> None:
        """Point out commands that run for long, each once."""
        while not self._over.wait(1.0):
            label, seconds = command.longest() or (None, 0.0)
            if seconds >= HANGING_SECONDS and label not in self._said:
                self._said.add(label)
                self.say(f"{shown(label)} has run for {seconds:.0f} s; --timeout ends what hangs")


def _to_go(progress: Progress, rate: float) -> list[str]:
    if progress.alike:
        return ["all look alike: a --margin would end it"]
    if progress.pulls_needed is None or not math.isfinite(progress.pulls_needed):
        return []
    minutes = progress.pulls_needed / rate / 60.0 if rate > 0.0 else math.inf
    time_left = f", {minutes:,.0f} min" if 1.0 <= minutes < 1e5 else ""
    return [f"about {about(progress.pulls_needed)} more{time_left}"]
