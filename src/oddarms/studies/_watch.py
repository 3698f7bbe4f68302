"""A study to look at: as a piece of HTML, and live until it is done."""

from __future__ import annotations

import html
import math
import time
from typing import TYPE_CHECKING, Protocol

from oddarms.documents import Block, Literal, Paragraph, to_fragment, visible
from oddarms.errors import InvalidParameter, OddarmsError
from oddarms.interrupts import pause
from oddarms.problem import check_number
from oddarms.search import PATIENCE, Patience, Progress, ProgressLine, Result, patiently
from oddarms.search._html import result_blocks
from oddarms.search._notebook import Pane, bar, in_notebook
from oddarms.search._progress import describe
from oddarms.search._text import status_text

if TYPE_CHECKING:
    from oddarms.studies import Overview

LIVE_ROWS = 5
"""Of the tables that are shown live."""
LEAST_POLL = 0.05
SHARE = 0.1
"""Of the time that looking may take, however many arms there are."""


class Watched(Protocol):
    """What can be watched: a study, wherever it is stored."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def overview(self) -> Overview:
        """Return where it stands."""
        ...

    def progress(self) -> Progress:
        """Return how far it is."""
        ...


def study_html(study: Watched) -> str:
    """Return what is known of a study, for a notebook; if it does not answer, why."""
    try:
        overview = study.overview()
    except OddarmsError as error:
        reason = html.escape(visible(error), quote=False)
        return f"<p>{html.escape(visible(study.name), quote=False)}: {reason}</p>"
    return to_fragment(
        [_head(study, overview), _tickets(overview), *result_blocks(overview.result)]
    )


def watch(
    study: Watched,
    *,
    timeout: float | None = None,
    poll: float = 1.0,
    patience: Patience = PATIENCE,
) -> Result:
    """Show a study until it is done, the time is over, or Ctrl-C; return what is known then."""
    poll = max(_seconds("poll", poll), LEAST_POLL)
    deadline = math.inf if timeout is None else time.monotonic() + _seconds("timeout", timeout)
    view = _NotebookView(study) if in_notebook() else _TerminalView()
    overview: Overview | None = None
    shown = False
    try:
        while True:
            began = time.monotonic()
            overview = patiently(study.overview, patience)
            if overview.status.final or (shown and began >= deadline):
                break
            view.show(overview, patiently(study.progress, patience))
            shown = True
            took = time.monotonic() - began
            pause(max(min(max(poll, took / SHARE), deadline - time.monotonic()), 0.0))
    except KeyboardInterrupt:
        overview = study.overview()
    finally:
        view.close(overview)
    return overview.result


def _seconds(name: str, value: float) -> float:
    seconds = check_number(name, value)
    if not seconds >= 0.0:
        raise InvalidParameter(f"{name} must be seconds, 0 or more, but got {value}.")
    return seconds


class _TerminalView:
    """A line on a terminal, or now and then a line in a log."""

    def __init__(self) -> None:
        self._line = ProgressLine(wait=0.0)

    def show(self, overview: Overview, progress: Progress) -> None:
        del overview
        self._line(progress)

    def close(self, overview: Overview | None) -> None:
        del overview
        self._line.close()


class _NotebookView:
    """The study and its most interesting arms, in a notebook; in the end its status is left."""

    def __init__(self, study: Watched) -> None:
        self._study = study
        self._pane = Pane()

    def show(self, overview: Overview, progress: Progress) -> None:
        blocks = [
            _head(self._study, overview),
            bar(progress),
            _tickets(overview),
            *result_blocks(overview.result, shown=LIVE_ROWS),
        ]
        self._pane.show(describe(progress), blocks)

    def close(self, overview: Overview | None) -> None:
        if overview is None:
            self._pane.clear()
        else:
            self._pane.show(status_text(overview.status), [_head(self._study, overview)])


def _head(study: Watched, overview: Overview) -> Block:
    name = Literal(visible(study.name))
    return Paragraph(("**Study** ", name, f", {status_text(overview.status)}"))


def _tickets(overview: Overview) -> Block:
    text = f"{overview.told:,} results, {overview.live:,} pulls under way"
    refused = f", {overview.conflicts:,} conflicts" if overview.conflicts else ""
    return Paragraph(f"{text}{refused}")
