"""The interval picture as an image, for readers without scripts and for paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from oddarms.algorithms import Decision
from oddarms.plotting._style import MARKS, THRESHOLD_BAND, THRESHOLD_LINE
from oddarms.server.pages._picture import MARKED, interval_columns
from oddarms.server.pages._view import KINDS, View

WIDTH, HEIGHT, EDGE = 900, 300, 8.0


def interval_svg(view: View) -> str:
    """Return the intervals of all arms as an SVG document."""
    columns = interval_columns(view, WIDTH - 60)
    draw = _Drawing(columns)
    body = [
        *map(draw.intervals, MARKS),
        draw.bands(),
        draw.means(),
        *map(draw.marks, MARKED),
        draw.lines(),
        draw.axis(),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f"{''.join(body)}</svg>"
    )


class _Drawing:
    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns
        self.n = len(columns["starts"])
        self.step = (WIDTH - 60) / self.n

    def x(self, column: int) -> float:
        return 50.0 + (column + 0.5) * self.step

    def y(self, value: float) -> float:
        low, high = self.columns["range"]
        return float(EDGE + (HEIGHT - 30.0) * (1.0 - (value - low) / ((high - low) or 1.0)))

    def bands(self) -> str:
        return "".join(
            f'<rect x="50" y="{self.y(high):.1f}" width="{WIDTH - 60}"'
            f' height="{self.y(low) - self.y(high):.1f}" fill="{THRESHOLD_BAND}" opacity=".5"/>'
            for _, low, high in self.columns["thresholds"].values()
        )

    def lines(self) -> str:
        return "".join(
            f'<path d="M50 {self.y(estimate):.1f}h{WIDTH - 60}" stroke="{THRESHOLD_LINE}"'
            ' stroke-width="1.500" stroke-dasharray="7 4"/>'
            for estimate, _, _ in self.columns["thresholds"].values()
        )

    def kind(self, column: int) -> str:
        """Return what is drawn of a column: the most remarkable kind of its arms."""
        return next(kind for kind in KINDS.values() if self.columns["counts"][kind][column])

    def intervals(self, decision: Decision) -> str:
        ends = zip(self.columns["lower"], self.columns["upper"], strict=True)
        lines = "".join(
            f"M{self.x(i):.1f} {self.y(low):.1f}V{self.y(high):.1f}"
            for i, (low, high) in enumerate(ends)
            if self.kind(i) == KINDS[decision]
        )
        wide, colour = min(max(self.step, 1.0), 3.0), MARKS[decision].colour
        opacity = 0.45 if self.step >= 5.0 else 0.2  # where they touch, what is below is to be seen
        style = f'stroke="{colour}" stroke-opacity="{opacity}" stroke-width="{wide:.1f}"'
        return f'<path d="{lines}" {style} fill="none"/>'

    def means(self) -> str:
        normal = self.columns["counts"]["normal"]
        known = [
            (self.x(i), mean)
            for i, mean in enumerate(self.columns["least"])
            if mean is not None and normal[i]
        ]
        return self.dots(known, MARKS[Decision.NORMAL].colour)

    def dots(self, places: list[tuple[float, float]], colour: str) -> str:
        dots = "".join(f"M{x:.1f} {self.y(mean):.1f}h0" for x, mean in places)
        return f'<path d="{dots}" stroke="{colour}" stroke-width="4" stroke-linecap="round"/>'

    def marks(self, decision: Decision) -> str:
        """Return a dot for every column with arms of a kind, and shapes where there is room."""
        marks, found = self.columns["marks"][KINDS[decision]], MARKS[decision]
        every = [(self.x(i), high) for i, high in zip(marks["at"], marks["high"], strict=True)]
        shape = {"D": "m0 -5l5 5l-5 5l-5 -5z", "v": "m0 5l5 -9h-10z", "^": "m0 -5l5 9h-10z"}
        places, last = [], -99.0
        for x, high in every:
            if x - last >= 8.0:
                last = x
                places.append(f"M{x:.1f} {self.y(high):.1f}{shape[found.marker]}")
        fill = found.colour if found.filled else "#fff"
        shapes = f'<path d="{"".join(places)}" fill="{fill}" stroke="{found.colour}"/>'
        return self.dots(every, found.colour) + shapes

    def axis(self) -> str:
        numbers = "".join(
            f'<text x="44" y="{self.y(tick) + 4.0:.1f}" text-anchor="end">{tick:.4g}</text>'
            for tick in round_ticks(*self.columns["range"])
        )
        ends = (
            f'<text x="50" y="{HEIGHT - 4}">lowest mean</text>'
            f'<text x="{WIDTH - 10}" y="{HEIGHT - 4}" text-anchor="end">highest mean</text>'
        )
        return f'<g font-family="sans-serif" font-size="12" fill="#555">{numbers}{ends}</g>'


def round_ticks(low: float, high: float) -> Iterator[float]:
    """Yield about five round numbers of a range.

    Examples
    --------
    >>> list(round_ticks(0.03, 0.95))
    [0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / 5.0
    if not rough > 0.0:
        yield low
        return
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= rough * (1 - 1e-9))
    for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield round(place * step, 12 - math.floor(math.log10(step)))
