"""A figure that a notebook shows by itself; imported only where something is drawn."""

from __future__ import annotations

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from oddarms.plotting._style import file_content

FINE = 2
"""Dots of the picture for each that it is wide: screens may show them."""


class NotebookFigure(Figure):
    """A figure that pyplot does not know of, so that nothing else shows it a second time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        """Return the picture, and how large and in which words a notebook shows it."""
        width = round(self.get_figwidth() * self.get_dpi())  # as matplotlib's own have it
        shown = {"width": width, "alt": self.get_suptitle()}
        return file_content(
            self, "png", changes={"savefig.dpi": FINE * round(self.get_dpi())}
        ), shown
