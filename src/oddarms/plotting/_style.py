"""Marks, figures without a window, files and names of arms, for all pictures."""

from __future__ import annotations

import io
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oddarms.algorithms import Decision
from oddarms.documents import visible
from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.files import write_whole

Size = tuple[float, float]
"""Width and height in inches."""

WIDE: Size = (9.0, 4.8)


class Mark(NamedTuple):
    """The marker of a kind of arm; the pale colour and the hatch fill bands."""

    name: str
    colour: str
    pale: str
    marker: str
    hatch: str
    filled: bool = True


MARKS = {
    Decision.NORMAL: Mark("normal", "#0072b2", "#cce3f0", "o", ""),
    Decision.UNDECIDED: Mark("undecided", "#000000", "#dedede", "D", "xxx", filled=False),
    Decision.LOW: Mark("outlier below", "#b85c93", "#f0dbe6", "v", "\\\\\\\\"),
    Decision.HIGH: Mark("outlier above", "#d55e00", "#f7dfcc", "^", "////"),
}
"""Later ones are drawn over earlier ones."""

THRESHOLD_BAND, THRESHOLD_LINE = "#f0e442", "#6b6200"
THRESHOLD_DASHES = {"upper": "-", "lower": "--"}
GREY = "#595959"

STYLE = {
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.0,
    "legend.fontsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "svg.hashsalt": "oddarms",
    "savefig.dpi": 150,
}
CHARACTER = 0.09
"""Inches that a character of a title takes, on average."""


@contextmanager
def drawing(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Draw in our style, with changes, inside the block."""
    try:
        from matplotlib import style
    except ImportError:
        raise MissingExtra.of("plot", "drawing") from None
    with style.context(["default", STYLE, dict(changes or {})]):
        yield


def new_figure(**options: Any) -> tuple[Any, Any]:
    """Return a matplotlib figure and its axes, without a window or global state.

    A notebook shows the figure if a cell ends with it.
    """
    try:
        import matplotlib  # noqa: F401

        from oddarms.plotting._figure import NotebookFigure
    except ImportError:
        raise MissingExtra.of("plot", "drawing") from None
    size = options.pop("figsize", (11.0, 4.6))
    figure = NotebookFigure(figsize=size, layout="constrained")
    return figure, figure.subplots(**options)


def pale(colour: str, alpha: float = 0.4) -> tuple[float, ...]:
    """Return an opaque colour that looks like a transparent one over white."""
    from matplotlib.colors import to_rgb

    return tuple(1.0 - alpha * (1.0 - part) for part in to_rgb(colour))


def set_title(figure: Any, text: str) -> None:
    """Set the title, at the left, in as many lines as it takes."""
    lines = wrapped(figure.get_figwidth(), text)
    figure.suptitle(lines, x=0.01, ha="left", fontsize=11.0, parse_math=False)


def wrapped(width: float, text: str) -> str:
    """Return the text in lines that fit a width in inches."""
    return textwrap.fill(text, max(20, int(width / CHARACTER)))


def width_of(axis: Any) -> float:
    """Return about how many inches of the figure's width an axes has."""
    return float(axis.figure.get_figwidth()) / int(axis.get_gridspec().ncols)


def set_legend(figure: Any, handles: list[Any], column: float) -> None:
    """Set the legend below everything; `column` is the width of an entry in inches."""
    columns = max(1, min(len(handles), int(figure.get_figwidth() / column)))
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, frameon=False)


def count_scale(axis: Any, name: str, low: float, high: float) -> None:
    """Make an axis of counts logarithmic; it includes zero if `low` is below 1."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

    scaled, set_limits = getattr(axis, f"{name}axis"), getattr(axis, f"set_{name}lim")
    if low < 1.0:
        getattr(axis, f"set_{name}scale")("symlog", linthresh=1.0)
    else:
        getattr(axis, f"set_{name}scale")("log")
        steps = (1.0, 2.0, 5.0) if high < 200.0 * low else (1.0,)
        scaled.set_major_locator(LogLocator(subs=steps, numticks=9))
    set_limits(low, high)
    exact = FuncFormatter(lambda value, _: f"{value:,.0f}")
    scaled.set_major_formatter(exact if name == "y" else EngFormatter(sep=""))
    scaled.set_minor_formatter(NullFormatter())


def finish(figure: Any, path: str | Path | None) -> Any:
    """Lay the figure out in our style, save it if there is a path, and return it."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    if path is not None:
        save(figure, path)
    return figure


def file_content(
    figure: Any, kind: str = "svg", *, changes: Mapping[str, Any] | None = None
) -> bytes:
    """Return the bytes of a file with the figure; the same figure gives the same bytes.

    Parameters
    ----------
    figure
        A matplotlib figure.
    kind
        The ending of the file's name: svg, png, pdf or another that matplotlib knows.
    changes
        Changes of the style, such as ``{"savefig.dpi": 300}``.
    """
    if kind not in figure.canvas.get_supported_filetypes():
        known = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise InvalidParameter(f"The file of a picture must end in one of {known}, not {kind!r}.")
    dates = {"svg": "Date", "pdf": "CreationDate", "png": "Software"}
    buffer = io.BytesIO()
    with drawing(changes):
        metadata = {dates[kind]: None} if kind in dates else None
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def save(figure: Any, path: str | Path, changes: Mapping[str, Any] | None = None) -> Path:
    """Write the figure to a file of the kind of its ending; missing folders are made."""
    target = Path(path)
    content = file_content(figure, target.suffix[1:].lower(), changes=changes)
    target.parent.mkdir(parents=True, exist_ok=True)
    return write_whole(target, content)


# Names of arms

LONGEST = 16
"""Characters of a name in a picture."""
MISSING = "\N{WHITE VERTICAL RECTANGLE}"


def drawable(label: object) -> str:
    """Return a label as text; characters that the font does not have become a small box."""
    signs = _signs()
    return "".join(c if ord(c) in signs else _stand_in(c) for c in visible(label, LONGEST))


def _stand_in(character: str) -> str:
    return "" if unicodedata.category(character) in ("Mn", "Me", "Cf") else MISSING


@cache
def _signs() -> frozenset[int]:
    """Return the code points of the font that comes with matplotlib."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())
