"""What ``oddarms find`` shows while it runs."""

from __future__ import annotations

import math
import time
from collections import deque
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from oddarms.algorithms import Decision
from oddarms.problem import Label
from oddarms.search import Progress
from oddarms.studies import Study
from oddarms.text import elided, shortened, shown

NEWEST = 5
MOST_LINES = 5  # of outliers found at the same moment
TERMINAL_SECONDS, PLAIN_SECONDS = 0.25, 10.0
WORDS = {Decision.NORMAL: "normal", Decision.HIGH: "OUTLIER", Decision.LOW: "OUTLIER below"}


class FindDisplay:
    """Shows a study that is being run: a few lines on a terminal, now and then a line elsewhere."""

    def __init__(self, stream: TextIO, *, shown: bool, first_pulls: int = 0) -> None:
        self._console = Console(file=stream, highlight=False)
        self._terminal = self._console.is_terminal
        self._shown = shown
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._newest: deque[tuple[Label, Decision]] = deque(maxlen=NEWEST)
        self._started = time.monotonic()
        self._due = self._started + (0.0 if self._terminal else PLAIN_SECONDS)
        self._first_pulls = first_pulls

    def __enter__(self) -> Self:
        if self._shown and self._terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def decided(self, study: Study, news: list[tuple[Label, Decision]]) -> None:
        """Take note of newly decided arms."""
        del study
        self._newest.extend(sorted(news, key=lambda item: item[1]))  # outliers last, so they stay
        if self._shown and not self._terminal:
            odd = [(label, decision) for label, decision in news if decision != Decision.NORMAL]
            for label, decision in odd[:MOST_LINES]:
                self._console.out(f"{WORDS[decision]}: {shown(label)}")
            if len(odd) > MOST_LINES:
                self._console.out(f"... and {len(odd) - MOST_LINES:,} more outliers")

    def due(self) -> bool:
        """Return whether it is time to show something again."""
        return self._shown and time.monotonic() >= self._due

    def __call__(self, progress: Progress) -> None:
        """Show how far the search is."""
        now = time.monotonic()
        self._due = now + (TERMINAL_SECONDS if self._terminal else PLAIN_SECONDS)
        lines = self._lines(progress, now)
        if self._terminal:
            self._live.update(Group(*(Text(line, no_wrap=True) for line in lines)), refresh=True)
        else:
            self._console.out(" · ".join(lines[:2]))

    def _lines(self, progress: Progress, now: float) -> list[str]:
        rate = (progress.pulls - self._first_pulls) / max(now - self._started, 1e-3)
        decided = progress.n - progress.undecided
        state = f"{decided:,} of {progress.n:,} arms decided"
        lines = [
            f"{progress.pulls:,} samples ({rate:,.1f}/s) · {state}",
            self._threshold(progress) + self._to_go(progress, rate),
        ]
        newest = [
            f"{WORDS[decision]} {elided(shown(label), 30)}" for label, decision in self._newest
        ]
        if newest:
            lines.append("newest: " + ", ".join(reversed(newest)))
        return [shortened(line, self._console.width - 1) for line in lines]

    def _threshold(self, progress: Progress) -> str:
        low, high = progress.threshold_lower, progress.threshold_upper
        if not (math.isfinite(low) and math.isfinite(high)):
            return "threshold not known yet"
        return f"threshold in [{low:.4g}, {high:.4g}]"

    def _to_go(self, progress: Progress, rate: float) -> str:
        if progress.alike:
            return " · all look alike: --margin 0.05 ends that"
        if progress.pulls_needed is None:
            return ""
        minutes = progress.pulls_needed / rate / 60.0 if rate > 0.0 else math.inf
        time_left = f", {minutes:,.0f} min" if 1.0 <= minutes < 1e5 else ""
        return f" · about {progress.pulls_needed:,.0f} more needed{time_left}"
