"""The interval picture as an image, for readers without scripts and for paper."""

from __future__ import annotations

from typing import Any

from oddarms.plotting._style import MARKS, THRESHOLD_BAND, THRESHOLD_LINE
from oddarms.server.pages._picture import MARKED, interval_columns
from oddarms.server.pages._view import KINDS, View

WIDTH, HEIGHT, EDGE = 900, 300, 8.0


def interval_svg(view: View) -> str:
    """Return the intervals of all arms as an SVG document."""
    columns = interval_columns(view, WIDTH - 60)
    draw = _Drawing(columns)
    body = [
        draw.thresholds(),
        draw.intervals(),
        draw.means(),
        *map(draw.marks, MARKED),
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

    def thresholds(self) -> str:
        parts = []
        for estimate, low, high in self.columns["thresholds"].values():
            top, bottom, line = self.y(high), self.y(low), self.y(estimate)
            parts.append(
                f'<rect x="50" y="{top:.1f}" width="{WIDTH - 60}" height="{bottom - top:.1f}"'
                f' fill="{THRESHOLD_BAND}" opacity=".5"/>'
                f'<path d="M50 {line:.1f}h{WIDTH - 60}" stroke="{THRESHOLD_LINE}"'
                ' stroke-width="1.500" stroke-dasharray="7 4"/>'
            )
        return "".join(parts)

    def intervals(self) -> str:
        ends = zip(self.columns["lower"], self.columns["upper"], strict=True)
        lines = "".join(
            f"M{self.x(i):.1f} {self.y(low):.1f}V{self.y(high):.1f}"
            for i, (low, high) in enumerate(ends)
        )
        wide = min(max(self.step, 1.0), 3.0)
        return f'<path d="{lines}" stroke="#9cc4de" stroke-width="{wide:.1f}" fill="none"/>'

    def means(self) -> str:
        known = [(i, mean) for i, mean in enumerate(self.columns["least"]) if mean is not None]
        dots = "".join(f"M{self.x(i):.1f} {self.y(mean):.1f}h0" for i, mean in known)
        return f'<path d="{dots}" stroke="#0072b2" stroke-width="4" stroke-linecap="round"/>'

    def marks(self, kind: Any) -> str:
        marks, found = self.columns["marks"][KINDS[kind]], MARKS[kind]
        shape = {"D": "m0 -5l5 5l-5 5l-5 -5z", "v": "m0 5l5 -9h-10z", "^": "m0 -5l5 9h-10z"}
        places, last = [], -99.0
        for column, high in zip(marks["at"], marks["high"], strict=True):
            if self.x(column) - last >= 8.0:
                last = self.x(column)
                places.append(f"M{last:.1f} {self.y(high):.1f}{shape[found.marker]}")
        fill = found.colour if found.filled else "#fff"
        return f'<path d="{"".join(places)}" fill="{fill}" stroke="{found.colour}"/>'

    def axis(self) -> str:
        low, high = self.columns["range"]
        ticks = [low + (high - low) * part / 4.0 for part in range(5)]
        numbers = "".join(
            f'<text x="44" y="{self.y(tick) + 4.0:.1f}" text-anchor="end">{tick:.3g}</text>'
            for tick in ticks
        )
        ends = (
            f'<text x="50" y="{HEIGHT - 4}">lowest mean</text>'
            f'<text x="{WIDTH - 10}" y="{HEIGHT - 4}" text-anchor="end">highest mean</text>'
        )
        return f'<g font-family="sans-serif" font-size="12" fill="#555">{numbers}{ends}</g>'
