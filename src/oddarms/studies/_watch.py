"""A study to look at: as a piece of HTML, and live until it is done."""

from __future__ import annotations

import html
import math
import time
from typing import TYPE_CHECKING

from oddarms.documents import Block, Literal, Paragraph, to_fragment, visible
from oddarms.errors import OddarmsError
from oddarms.search import (
    Pane,
    Progress,
    ProgressLine,
    Result,
    Seconds,
    answer,
    bar,
    describe,
    in_notebook,
    seconds_of,
    status_text,
)
from oddarms.studies._worker import retried

if TYPE_CHECKING:
    from oddarms.studies._study import Overview, Study

LIVE_ROWS = 5
"""Of the tables that are shown live."""
MIN_POLL = 0.05
SHARE = 0.1
"""Of the time that looking may take, however many arms there are."""


def study_html(study: Study) -> str:
    """Return what is known of a study, for a notebook; if it does not answer, why."""
    try:
        overview = study.overview()
    except OddarmsError as error:
        reason = html.escape(visible(error), quote=False)
        return f"<p>{html.escape(visible(study.name), quote=False)}: {reason}</p>"
    return to_fragment([_head(study, overview), _tickets(overview), *answer(overview.result)])


def watch(study: Study, *, timeout: float | None, poll: float, retry_for: Seconds) -> Result:
    """Show a study until it is done, the time is over, or Ctrl-C; return what is known then."""
    poll = max(seconds_of("poll", poll), MIN_POLL)
    retry_for = seconds_of("retry_for", retry_for)
    deadline = math.inf if timeout is None else time.monotonic() + seconds_of("timeout", timeout)
    view = _NotebookView(study) if in_notebook() else _TerminalView()
    overview: Overview | None = None
    shown = False
    try:
        while True:
            began = time.monotonic()
            overview = retried(study.overview, retry_for)
            if overview.status.final or (shown and began >= deadline):
                break
            view.show(overview, retried(study.progress, retry_for))
            shown = True
            took = time.monotonic() - began
            time.sleep(max(min(max(poll, took / SHARE), deadline - time.monotonic()), 0.0))
    except KeyboardInterrupt:
        overview = study.overview()
    finally:
        view.close(overview)
    return overview.result


class _TerminalView:
    """A line on a terminal, or now and then a line in a log."""

    def __init__(self) -> None:
        self._line = ProgressLine(wait=0.0)

    def show(self, overview: Overview, progress: Progress) -> None:
        del overview
        self._line(progress)

    def close(self, overview: Overview | None) -> None:
        del overview
        self._line.__exit__()


class _NotebookView:
    """The study and its most interesting arms, in a notebook; in the end its status is left."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._pane = Pane()

    def show(self, overview: Overview, progress: Progress) -> None:
        blocks = [
            _head(self._study, overview),
            bar(progress),
            _tickets(overview),
            *answer(overview.result, shown=LIVE_ROWS),
        ]
        self._pane.show(describe(progress), blocks)

    def close(self, overview: Overview | None) -> None:
        if overview is None:
            self._pane.clear()
        else:
            self._pane.show(status_text(overview.status), [_head(self._study, overview)])


def _head(study: Study, overview: Overview) -> Block:
    name = Literal(visible(study.name))
    return Paragraph(("**Study** ", name, f", {status_text(overview.status)}"))


def _tickets(overview: Overview) -> Block:
    text = f"{overview.told:,} results, {overview.live:,} pulls under way"
    refused = f", {overview.conflicts:,} conflicts" if overview.conflicts else ""
    return Paragraph(f"{text}{refused}")
