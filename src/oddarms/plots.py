"""Pictures of a search, drawn with matplotlib (``pip install 'oddarms[plot]'``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oddarms.algorithms import Decision
from oddarms.errors import MissingExtra
from oddarms.search import Result, Snapshot

COLOURS = {
    Decision.UNDECIDED: ("#9a9a9a", "undecided"),
    Decision.NORMAL: ("#3b78b8", "normal"),
    Decision.HIGH: ("#d1495b", "outlier above"),
    Decision.LOW: ("#8e5ea2", "outlier below"),
}
THRESHOLD_COLOUR = "#edae49"


def new_figure(**options: Any) -> tuple[Any, Any]:
    """Return a matplotlib figure with axes that no window and no global state belongs to."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.of("plot", "drawing") from None
    size = options.pop("figsize", (11.0, 4.6))
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**options)


def plot_intervals(result: Result, path: str | Path | None = None) -> Any:
    """Draw the intervals of all arms and of the threshold at the first and at the last round.

    Figure 1 of the ADE paper. Arms are in the order of their final means.

    Parameters
    ----------
    result
        A result of `oddarms.find`.
    path
        Where to save the picture; its ending gives the format.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    figure, axes = new_figure(ncols=2, sharey=True)
    last = result.last
    if last is None or result.first is None:
        return figure
    order = np.argsort(np.nan_to_num(last.means), kind="stable")
    for axis, snapshot, name in zip(axes, (result.first, last), ("First", "Last"), strict=True):
        _draw_snapshot(axis, snapshot, order)
        axis.set_title(f"{name} round ({snapshot.round:,})", loc="left")
        axis.set_xlabel("arms, by final mean")
    ends = [end for bound in last.thresholds.values() for end in bound if np.isfinite(end)]
    lowest, highest = min(*result.problem.bounds, *ends), max(*result.problem.bounds, *ends)
    margin = 0.05 * (highest - lowest)
    axes[0].set_ylim(lowest - margin, highest + margin)
    axes[0].set_ylabel("mean reward and its interval")
    known = {
        name: handle
        for axis in axes
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(known.values()),
        list(known),
        loc="outside lower center",
        ncols=len(known),
        markerscale=6,
        frameon=False,
    )
    figure.suptitle(
        f"{result.algorithm.upper()}: {len(result.outliers)} outliers among {result.problem.n:,}"
        f" arms, {result.pulls:,} pulls, k = {result.problem.k:g}, delta = {result.problem.delta:g}"
    )
    if path is not None:
        save(figure, path)
    return figure


def _draw_snapshot(axis: Any, snapshot: Snapshot, order: Any) -> None:
    x = np.arange(order.size)
    width = float(np.clip(400.0 / order.size, 0.6, 4.0))
    decisions = snapshot.decisions[order]
    for decision, (colour, name) in COLOURS.items():
        mine = decisions == decision
        if mine.any():
            arms = order[mine]
            axis.vlines(
                x[mine], snapshot.lower[arms], snapshot.upper[arms], colour, lw=width, alpha=0.6
            )
            axis.plot(x[mine], snapshot.means[arms], ".", color=colour, ms=2.0 * width, label=name)
    for side, (estimate, lower, upper) in snapshot.thresholds.items():
        if not np.isfinite([estimate, lower, upper]).all():
            continue
        label = f"{side} threshold"
        axis.axhspan(lower, upper, color=THRESHOLD_COLOUR, alpha=0.3, lw=0, label=label)
        axis.axhline(estimate, color=THRESHOLD_COLOUR, lw=1.5)
    axis.spines[["top", "right"]].set_visible(False)


def save(figure: Any, path: str | Path) -> Path:
    """Write the figure to a file, making the folders that are missing."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=150)
    return target
