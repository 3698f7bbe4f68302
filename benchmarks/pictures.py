"""``python -m benchmarks.pictures FOLDER``: the pictures of the documentation.

`algorithms.png` is drawn from the figures of a benchmark (`benchmark.json` in the folder, its
entries `samples` and `fixed_runs`), `crowd.png` from a search of the simulated crowd.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from oddarms.arms import simulated_crowd
from oddarms.finding import find
from oddarms.plotting import new_figure, plot_intervals, save

MARKS = {
    "ADE": ("#3b78b8", "o"),
    "ADE shared": ("#7fb0dd", "o"),
    "RR": ("#66a182", "s"),
    "WRR": ("#a3c9a8", "s"),
    "SPADE": ("#d1495b", "D"),
}
FIXED_MARKS = {30: "v", 100: "^"}
FIXED_COLOUR = "#6b4c8a"
BELOW = 0.36
"""How far below its family's line a fixed number of runs is drawn, in rows, to hide nothing."""


def draw_comparison(report: dict[str, Any], path: Path) -> None:
    """Draw the mean pulls of every algorithm on every family, and the limit."""
    rows = report["samples"]
    fixed = report["fixed_runs"]
    figure, axis = new_figure(figsize=(10.0, 0.5 * len(rows) + 1.6))
    for name, (colour, marker) in MARKS.items():
        points = [
            (row["algorithms"][name], y) for y, row in enumerate(rows) if name in row["algorithms"]
        ]
        pulls = [measured["mean_pulls"] for measured, _ in points]
        heights = [y for _, y in points]
        if points:
            axis.plot(pulls, heights, marker, color=colour, label=name, ms=7)
        for (measured, y), x in zip(points, pulls, strict=True):
            if measured["unfinished"]:
                axis.annotate(
                    "", (2.2 * x, y), (x, y), arrowprops={"arrowstyle": "->", "color": colour}
                )
    limits = [row["limit"] for row in rows]
    axis.plot(limits, range(len(rows)), "|", color="black", ms=13, label="limit × log(n/δ)")
    _draw_fixed_runs(axis, fixed, [row["family"] for row in rows])
    axis.set_xscale("log")
    axis.set_xlim(right=3.0 * axis.get_xlim()[1])
    axis.set_yticks(range(len(rows)), [row["family"] for row in rows])
    axis.invert_yaxis()
    axis.set_xlabel(
        "pulls until every arm is decided (mean; an arrow: stopped before it was done)\n"
        "per cent: share of instances on which a fixed number of runs is wrong"
    )
    axis.grid(axis="x", alpha=0.3)
    axis.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    save(figure, path)


def _draw_fixed_runs(axis: Any, fixed: list[dict[str, Any]], families: list[str]) -> None:
    """Draw what a fixed number of runs costs, and beside it how often it is wrong."""
    for number, marker in FIXED_MARKS.items():
        own = [row for row in fixed if row["runs_each"] == number and not row["like_spade"]]
        points = [(row, families.index(row["family"]) + BELOW) for row in own]
        if points:
            axis.plot(
                [row["pulls"] for row, _ in points],
                [y for _, y in points],
                marker,
                color=FIXED_COLOUR,
                mfc="none",
                ms=5,
                label=f"{number} runs of each arm",
            )
        for row, y in points:
            axis.annotate(
                f"{100.0 * row['wrong'] / row['runs']:.0f} %",
                (row["pulls"], y),
                (5, 0),
                textcoords="offset points",
                va="center_baseline",
                fontsize=8,
                color=FIXED_COLOUR,
            )


def draw_all(folder: Path) -> None:
    """Draw all pictures into a folder that has the report of a benchmark."""
    report = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    draw_comparison(report, folder / "algorithms.png")
    result = find(simulated_crowd(), k=2, delta=0.1, rng=0)
    plot_intervals(result, folder / "crowd.png", first_round=True)


if __name__ == "__main__":
    draw_all(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
