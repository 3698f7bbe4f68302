"""What a command that samples shows while it runs."""

from __future__ import annotations

import math
import threading
import time
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from oddarms.algorithms import Decision
from oddarms.arms import Command
from oddarms.problem import Label
from oddarms.search import Progress, Result
from oddarms.studies import Study
from oddarms.text import about, counted, elided, shortened, shown, width

NEWEST = 5
MOST_LINES = 5  # of outliers found at the same moment
TERMINAL_SECONDS, PLAIN_SECONDS = 0.25, 10.0
WAITING_SECONDS = 120.0
LABEL_COLUMNS = 24
TICK_SECONDS = 1.0
HANGING_SECONDS = 30.0
"""A command that runs for longer, and that nothing would end, is pointed out."""
WORDS = {Decision.NORMAL: "normal", Decision.HIGH: "OUTLIER", Decision.LOW: "OUTLIER below"}


class Display:
    """Shows a study that is being run: a few lines on a terminal, now and then a line elsewhere.

    A thread of its own shows that time passes while nothing comes back.

    Parameters
    ----------
    stream
        Where to.
    study, before
        What is run, and how far it is already.
    wanted
        Whether anything is shown at all.
    command
        What samples, if that is a command: one that hangs is pointed out.
    """

    def __init__(
        self,
        stream: TextIO,
        study: Study,
        before: Progress,
        *,
        wanted: bool,
        command: Command | None = None,
    ) -> None:
        self._console = Console(file=stream, highlight=False)
        self._terminal = self._console.is_terminal
        self._wanted = wanted
        self._labels, self._bounds = study.labels, study.bounds
        self._command = None if command is None or command.timeout is not None else command
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._newest: tuple[tuple[Label, Decision], ...] = ()  # replaced, as the clock reads it
        self._started = time.monotonic()
        self._due = self._started + (0.0 if self._terminal else PLAIN_SECONDS)
        self._first = before.pulls
        self._latest = before
        self._said_line = False
        self._wait_due = self._started
        self._said_hanging: set[Label] = set()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="oddarms-display", daemon=True)

    def __enter__(self) -> Self:
        if self._wanted:
            if self._terminal:
                self._live.start()
                self._draw()
            self._clock.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._clock.is_alive():
            self._clock.join(TICK_SECONDS)
        if self._live.is_started:
            self._live.stop()

    def decided(self, study: Study, news: list[tuple[Label, Decision]]) -> None:
        """Take note of newly decided arms."""
        del study
        by_kind = sorted(news, key=lambda item: item[1])  # outliers last, so they stay
        self._newest = (*self._newest, *by_kind)[-NEWEST:]
        if self._wanted and not self._terminal:
            odd = [(label, decision) for label, decision in news if decision != Decision.NORMAL]
            for label, decision in odd[:MOST_LINES]:
                self._say(f"{WORDS[decision]}: {shown(label)}")
            if len(odd) > MOST_LINES:
                self._say(f"... and {len(odd) - MOST_LINES:,} more outliers")

    def due(self) -> bool:
        """Return whether it is time to show something again."""
        return self._wanted and time.monotonic() >= self._due

    def __call__(self, progress: Progress) -> None:
        """Show how far the search is."""
        self._latest = progress
        self._due = time.monotonic() + (TERMINAL_SECONDS if self._terminal else PLAIN_SECONDS)
        if self._terminal:
            self._draw()
        else:
            self._said_line = True
            self._say(" · ".join(self._lines(progress)[:2]))

    def waiting(self) -> None:
        """Say that other workers have all samples that are wanted: at once, then rarely."""
        now = time.monotonic()
        if self._wanted and not self._terminal and now >= self._wait_due:
            self._wait_due = now + WAITING_SECONDS
            self._say("waiting: other workers have all samples of this step")

    def end(self, result: Result) -> None:
        """Show what the answer says, where lines were shown that stay and say less."""
        samples = counted(result.pulls + result.history, "sample")
        decided = result.question.n - len(result.undecided)
        if self._said_line and not self._terminal:
            self._say(f"{samples} · {decided:,} of {result.question.n:,} arms decided")

    def _tick(self) -> None:
        """Show now and then that time passes, and which command hangs."""
        while not self._over.wait(TICK_SECONDS):
            if self._terminal:
                self._draw()
            elif (hanging := self._hanging()) is not None and hanging[0] not in self._said_hanging:
                self._said_hanging.add(hanging[0])
                self._say(_hint(*hanging))

    def _say(self, line: str) -> None:
        self._console.out(line)

    def _draw(self) -> None:
        lines = self._lines(self._latest)
        hanging = self._hanging()
        if hanging is not None:
            lines.append(_hint(*hanging, most=self._console.width - 1))
        texts = (Text(shortened(line, self._console.width - 1), no_wrap=True) for line in lines)
        self._live.update(Group(*texts), refresh=True)

    def _hanging(self) -> tuple[Label, float] | None:
        longest = None if self._command is None else self._command.longest()
        return longest if longest is not None and longest[1] >= HANGING_SECONDS else None

    def _lines(self, progress: Progress) -> list[str]:
        seconds = max(time.monotonic() - self._started, 1e-3)
        rate = (progress.pulls - self._first) / seconds
        decided = progress.n - progress.undecided
        state = f"{decided:,} of {progress.n:,} arms decided"
        lines = [
            f"{counted(progress.pulls, 'sample')} ({rate:,.1f}/s) · {state}",
            self._threshold(progress) + self._to_go(progress, rate),
        ]
        worst = [f"{self._short(self._labels[arm])} {mean:.3g}" for arm, mean in progress.worst]
        newest = [f"{WORDS[decision]} {self._short(label)}" for label, decision in self._newest]
        named = (("worst so far", worst), ("newest", newest[::-1]))
        return lines + [self._listed(name, parts) for name, parts in named if parts]

    def _short(self, label: Label) -> str:
        return elided(shown(label), LABEL_COLUMNS)

    def _listed(self, name: str, parts: list[str]) -> str:
        """Return a line with as many of the parts as fit."""
        line = f"{name}: {parts[0]}"
        for part in parts[1:]:
            if width(line) + width(part) + 2 > self._console.width - 1:
                break
            line += f", {part}"
        return line

    def _threshold(self, progress: Progress) -> str:
        """Return what is known of the threshold, in terms of rewards that can be."""
        low, high = progress.threshold_lower, progress.threshold_upper
        a, b = self._bounds
        from_below, from_above = a < low < math.inf, -math.inf < high < b
        if from_below and from_above:
            return f"threshold in [{low:.4g}, {high:.4g}]"
        if from_below and low < b:
            return f"threshold at least {low:.4g}"
        if from_below:
            return f"threshold above {b:g}, the largest reward"
        if from_above and high > a:
            return f"threshold at most {high:.4g}"
        if from_above:
            return f"threshold below {a:g}, the smallest reward"
        return "threshold not known yet"

    def _to_go(self, progress: Progress, rate: float) -> str:
        if progress.alike:
            return " · all look alike: --margin 0.05 ends that"
        if progress.pulls_needed is None or not math.isfinite(progress.pulls_needed):
            return ""
        minutes = progress.pulls_needed / rate / 60.0 if rate > 0.0 else math.inf
        time_left = f", {minutes:,.0f} min" if 1.0 <= minutes < 1e5 else ""
        return f" · about {about(progress.pulls_needed)} more needed{time_left}"


def _hint(label: Label, seconds: float, most: int = 100) -> str:
    """Return a line about a command that runs for long, and what would end it."""
    rest = f" has run for {seconds:.0f} s; --timeout SECONDS ends what hangs"
    return elided(shown(label), max(most - len(rest), 12)) + rest


def command_in(function: Any) -> Command | None:
    """Return the command that a function runs, also where its rewards are transformed."""
    inner = getattr(function, "function", function)
    return inner if isinstance(inner, Command) else None
