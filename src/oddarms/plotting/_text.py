"""Names of arms in pictures: what the font has no sign for, and where there is room."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from oddarms.documents import visible
from oddarms.text import BREAKS

LONGEST = 16
"""Characters of a name in a picture."""
MISSING = "\N{WHITE VERTICAL RECTANGLE}"


def drawable(label: object, most: int = LONGEST) -> str:
    """Return a label as text that the font has a sign for; others become a small box."""
    signs = _signs()
    shown = (
        character if ord(character) in signs else _stand_in(character)
        for character in visible(label, most)
    )
    return "".join(shown)


def drawable_names(labels: Sequence[object], most: int = LONGEST) -> list[str]:
    """Return labels as text for a picture; of long ones, what all of them begin with is left out.

    Ids of tests often begin alike, and cut short they would look the same.
    """
    texts = list(map(str, labels))
    if len(texts) > 1 and max(map(len, texts)) > most:
        first, last = min(texts), max(texts)
        alike = next(
            (i for i, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), 0
        )
        while alike and texts[0][alike - 1] not in BREAKS:
            alike -= 1
        texts = [f"\N{HORIZONTAL ELLIPSIS}{text[alike:]}" if alike else text for text in texts]
    return [drawable(text, most) for text in texts]


def _stand_in(character: str) -> str:
    return "" if unicodedata.category(character) in ("Mn", "Me", "Cf") else MISSING


@cache
def _signs() -> frozenset[int]:
    """Return the code points of the font that comes with matplotlib."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


class Note(NamedTuple):
    """A name to be written beside a point, below it or above."""

    text: str
    x: float
    low: float
    high: float
    below: bool
    colour: str


def write_notes(axis: Any, notes: Sequence[Note], most: int) -> None:
    """Write names upright beside their arms, each only where it covers no other.

    The axes must have their final limits; names are no part of the layout.
    """
    if not notes or len(notes) > most:
        return
    axis.figure.draw_without_rendering()
    taken: list[Any] = []
    for note in notes:
        for below in (note.below, not note.below):
            text = _written(axis, note, below)
            box = text.get_window_extent().padded(0.5)
            if _inside(axis.bbox, box) and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def _written(axis: Any, note: Note, below: bool) -> Any:
    text = axis.annotate(
        note.text,
        (note.x, note.low if below else note.high),
        (0.0, -5.0 if below else 5.0),
        textcoords="offset points",
        rotation=90.0,
        ha="center",
        va="top" if below else "bottom",
        fontsize=8.0,
        color=note.colour,
        parse_math=False,
        bbox={"facecolor": "white", "alpha": 0.75, "lw": 0.0, "pad": 0.6},
    )
    text.set_in_layout(False)
    return text


def _inside(outer: Any, inner: Any) -> bool:
    return bool(
        outer.x0 <= inner.x0
        and inner.x1 <= outer.x1
        and outer.y0 <= inner.y0
        and inner.y1 <= outer.y1
    )
