"""The figures of the paper, drawn for print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.experiments._crowd import Crowd
from oddarms.experiments._outcomes import Outcomes, Summary, short_number
from oddarms.experiments._paper import CROWD_KS
from oddarms.plotting import drawing, new_figure, plot_intervals, save
from oddarms.search import Result
from oddarms.theory import gaps, threshold

MARKS = {
    "ADE": ("#0072b2", "o", "-"),
    "RR": ("#009e73", "s", "--"),
    "WRR": ("#e69f00", "^", "-."),
    "SPADE": ("#d55e00", "D", "-"),
}
"""Colours of Okabe and Ito, told apart by the colour-blind; markers and dashes say it again."""
OTHER_MARK = ("#444444", "v", ":")
PRINT = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 5.0,
    "errorbar.capsize": 2.5,
    "savefig.dpi": 300,
}
"""What print needs beside the style of all pictures."""
SAMPLES = "samples (mean and 95 % interval)"


def draw_figures(
    outcomes: Outcomes, crowd: Crowd, first: Mapping[str, Result], folder: Path
) -> dict[str, list[Path]]:
    """Draw every figure that was run, as PNG and SVG; return the files by picture.

    `first` has the runs of Figure 1 by algorithm.
    """
    figures = {
        f"fig1_{name}": plot_intervals(found, first_round=True) for name, found in first.items()
    }
    with drawing(PRINT):
        figures |= figures_of(outcomes, crowd)
    return {
        name: [save(figure, folder / f"{name}.{kind}", PRINT) for kind in ("png", "svg")]
        for name, figure in figures.items()
    }


def figures_of(outcomes: Outcomes, crowd: Crowd) -> dict[str, Any]:
    """Return Figures 2 and 3, as far as they were run, by name."""
    there = {row.figure for row in outcomes}
    found: dict[str, Any] = {}
    if "fig2a" in there:
        title, label = "(a) k = 2.5, Δmin in [0.1, 0.2]", "number of arms n"
        found["fig2a"] = _figure_2(outcomes, "fig2a", title, label, "n = ", margin=0.05)
    if "fig2b" in there:
        title, label = "(b) n = 900, k = 2", "smallest gap Δmin (± 0.001)"
        found["fig2b"] = _figure_2(outcomes, "fig2b", title, label, "gap ", margin=0.12)
    if "fig3" in there:
        found["fig3a"] = _figure_3(outcomes, CROWD_KS[0], crowd)
        found["fig3b"] = _figure_3(outcomes, CROWD_KS[1], crowd)
        found["fig3c"] = _figure_3c(crowd)
    return found


def _of(outcomes: Outcomes, figure: str) -> dict[str, list[Summary]]:
    """Return the summaries of a figure by algorithm, in the order of the settings."""
    found: dict[str, list[Summary]] = {}
    for summary in outcomes.summaries():
        if summary.figure == figure:
            found.setdefault(summary.algorithm, []).append(summary)
    return found


def _line(axis: Any, x: Any, summaries: list[Summary], algorithm: str) -> None:
    colour, marker, dashes = MARKS.get(algorithm, OTHER_MARK)
    means = np.maximum([summary.mean for summary in summaries], 1.0)
    widths = np.nan_to_num([summary.half_width for summary in summaries])
    lower = np.where(widths < means, widths, 0.9 * means)  # a log axis has no room for zero
    axis.errorbar(
        x, means, yerr=[lower, widths], color=colour, marker=marker, ls=dashes, label=algorithm
    )


def _figure_2(
    outcomes: Outcomes, name: str, title: str, label: str, prefix: str, *, margin: float
) -> Any:
    figure, axis = new_figure(figsize=(4.6, 3.6))
    found = _of(outcomes, name)
    for algorithm, summaries in found.items():
        x = [float(summary.setting.removeprefix(prefix)) for summary in summaries]
        _line(axis, x, summaries, algorithm)
    axis.set_xlabel(label)
    axis.set_xticks(x)
    axis.margins(x=margin)
    axis.set_yscale("log")
    axis.set_ylabel(SAMPLES)
    axis.set_title(title, loc="left")
    figure.legend(loc="outside lower center", ncols=len(found), frameon=False)
    return figure


def _figure_3(outcomes: Outcomes, k: float, crowd: Crowd) -> Any:
    figure, axis = new_figure(figsize=(4.0, 3.0))
    found = {
        algorithm: summary
        for algorithm, summaries in _of(outcomes, "fig3").items()
        for summary in summaries
        if summary.setting == f"k = {k:g}"
    }
    for x, (algorithm, summary) in enumerate(found.items()):
        _line(axis, [x], [summary], algorithm)
        axis.annotate(
            short_number(summary.mean),
            (x, summary.mean + np.nan_to_num(summary.half_width)),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=8.0,
        )
    axis.set_xticks(range(len(found)), list(found))
    axis.set_xlim(-0.5, len(found) - 0.5)
    axis.set_yscale("log")
    axis.margins(y=0.12)
    axis.set_ylabel(SAMPLES)
    axis.grid(axis="x", visible=False)
    letter = "a" if k == CROWD_KS[0] else "b"
    axis.set_title(f"({letter}) k = {k:g}, {crowd.arms.means.size:,} workers", loc="left")
    figure.supxlabel(_short_name(crowd), fontsize=8.0, color="#555555", parse_math=False)
    return figure


def _figure_3c(crowd: Crowd) -> Any:
    figure, axis = new_figure(figsize=(4.6, 3.2))
    means = crowd.arms.means
    found = {k: gaps(means, k) for k in CROWD_KS}
    edges = np.linspace(0.0, max(gap.max() for gap in found.values()) * 1.0001, 26)
    for (k, gap), colour, hatch in zip(
        found.items(), ("#0072b2", "#d55e00"), ("", "///"), strict=True
    ):
        label = f"k = {k:g} (θ = {threshold(means, k):.3f}, Δmin = {gap.min():.3f})"
        axis.hist(gap, edges, color=colour, alpha=0.55, hatch=hatch, edgecolor="white", label=label)
    axis.set_xlabel("gap Δi between a worker and the threshold")
    axis.set_ylabel("workers")
    axis.set_title(f"(c) Δi, {_short_name(crowd)}", loc="left", parse_math=False)
    figure.legend(loc="outside lower center", ncols=1, frameon=False)
    return figure


def _short_name(crowd: Crowd, most: int = 40) -> str:
    """Return what the workers are; the name of a file may be longer than a picture is wide."""
    name = crowd.description
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most // 2 :]}"
