"""What is shown while something runs in a notebook: one place in a cell's output, kept current."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from oddarms.documents import Bar, Block, to_fragment
from oddarms.search._progress import Progress, ProgressLine, describe

SECONDS = 0.25
"""Between two updates: each is a message, which a notebook keeps until the cell is done."""


def in_notebook() -> bool:
    """Return whether this runs in the kernel of a notebook: Jupyter's, VS Code's, Colab's.

    IPython is not imported for it: where it is not there already, this is no notebook.
    """
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get_shell() if get_shell else None, "kernel", None) is not None


class Pane:
    """A place in the output of a notebook's cell, whose content is replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, blocks: Sequence[Block]) -> None:
        """Show blocks, or the text where there is no HTML."""
        self._put({"text/plain": text, "text/html": to_fragment(blocks)})

    def clear(self) -> None:
        """Show nothing any more."""
        if self._handle is not None:
            self._put({"text/plain": "", "text/html": ""})

    def _put(self, content: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class NotebookLine:
    """Shows a search as a bar in a notebook, once it takes over a second: a `ProgressLine`."""

    def __init__(self, wait: float = 1.0) -> None:
        self._pane = Pane()
        self._due = time.monotonic() + wait

    def due(self) -> bool:
        """Return whether it is time to show something again."""
        return time.monotonic() >= self._due

    def __call__(self, progress: Progress) -> None:
        """Show the progress if it is due."""
        if self.due():
            self._due = time.monotonic() + SECONDS
            self._pane.show(describe(progress), [bar(progress)])

    def close(self) -> None:
        """Clear the line."""
        self._pane.clear()


def bar(progress: Progress) -> Bar:
    """Return how many arms are decided, and how far the search is in words."""
    return Bar(progress.n - progress.undecided, progress.n, describe(progress))


def progress_line(wait: float = 1.0) -> ProgressLine | NotebookLine:
    """Return what shows a search here: on a terminal, in a notebook, or in a log."""
    return NotebookLine(wait) if in_notebook() else ProgressLine(wait=wait)
