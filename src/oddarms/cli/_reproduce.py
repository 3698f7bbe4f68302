"""``oddarms reproduce``: the figures of the ADE paper."""

from __future__ import annotations

import math
import shlex
import time
import warnings
from datetime import timedelta
from pathlib import Path

import click

from oddarms import experiments
from oddarms.cli._options import QUIET, Argument, Given, command, flag, option, seed_option
from oddarms.cli._terminal import emit, note
from oddarms.experiments import Crowd, GridProgress, Reproduction, read_crowd
from oddarms.search import StatusLine
from oddarms.text import about, shown

MAX_SECONDS = 99 * 86_400
"""The longest time left that is shown."""
FIGURES = ["fig1", "fig2a", "fig2b", "fig3"]


@command(
    None,
    "reproduce",
    Argument(
        "figures",
        "fig1, fig2a, fig2b, fig3, or all of these.",
        metavar="FIGURE...",
        nargs=-1,
        required=True,
        type=click.Choice([*FIGURES, "all"]),
    ),
    option("--out DIR", Path, "Folder for tables, pictures and report.", default="output/paper"),
    option("--runs N", int, "Instances per setting (runs, for fig3).", "10; 3 with --quick"),
    seed_option("Seed for all instances and rewards.", 0),
    option(
        "--algorithms A,B,C",
        str,
        "Algorithms to compare, separated by commas.",
        default="ade,rr,wrr,spade",
    ),
    option(
        "--data FILE",
        Path,
        "Workers for fig3: a table with the columns arm,reward or arm,mean or worker,label,gold.",
        "simulated workers",
    ),
    option("--budget N", int, "Make at most this many pulls per run.", default=1_000_000_000),
    option("--jobs N", click.IntRange(min=1), "Runs in parallel.", "one per core"),
    flag("--quick", "Fewer sizes and runs, for a first look."),
    QUIET,
)
def reproduce(given: Given) -> None:
    """Reproduce the experiments of the ADE paper (AAAI 2020), with SPADE beside its algorithms.

    Writes a table with a row per run, a PNG and an SVG per picture, and a report. Finished runs are
    kept in the folder: stopped at any moment, the same command resumes, with the same result.

    \b
    Try:
      oddarms reproduce all --quick
      oddarms reproduce fig3 --data responses.csv
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    # compiling the kernels, once, takes 500 MB: loky replaces the worker, and suspects a leak
    warnings.filterwarnings("ignore", "A worker was restarted", UserWarning)
    figures, out, quiet = given.figures, given.out, given.quiet
    crowd = None if given.data is None else read_crowd(given.data)
    if crowd is not None and not quiet:
        _say_what_was_read(crowd)
    with GridDisplay(quiet=quiet) as display:
        try:
            found = experiments.reproduce(
                FIGURES if "all" in figures else list(figures),
                folder=out,
                runs=given.runs,
                rng=given.seed,
                algorithms=[name.strip() for name in given.algorithms.split(",")],
                data=crowd,
                budget=given.budget,
                quick=given.quick,
                jobs=given.jobs,
                progress=display,
                command=shlex.join(["oddarms", *click.get_current_context().obj]),
            )
        except KeyboardInterrupt:
            if not display.cells:
                raise KeyboardInterrupt("interrupted before the first run.") from None
            raise KeyboardInterrupt(
                f"interrupted: {display.done:,} of {display.cells:,} runs are kept in {out}; the"
                " same command resumes from there."
            ) from None
    if not quiet:
        _show(found)


def _say_what_was_read(crowd: Crowd) -> None:
    left_out = f", {crowd.left_out:,} rows without gold left out" if crowd.left_out else ""
    columns = ",".join(crowd.columns)
    note(f"{crowd.description}: {crowd.arms.means.size:,} workers, read as {columns}{left_out}")


def _show(found: Reproduction) -> None:
    emit(f"{found.outcomes}\n\n")
    for workers in dict.fromkeys(row.data for row in found.outcomes if row.figure == "fig3"):
        emit(f"Workers of fig3: {shown(workers)}\n\n")
    report, *others = found.files
    emit(f"Report: {report} (and {len(others)} other files in {report.parent})\n")


class GridDisplay(StatusLine):
    """Shows a running comparison of algorithms, on a terminal only."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._hidden = quiet or not self.terminal
        self.done = self.cells = 0

    def __call__(self, progress: GridProgress) -> None:
        """Show how far a comparison is."""
        self.done, self.cells = progress.done, progress.cells
        if self._hidden or not self.due():
            return
        seconds, left = time.monotonic() - self.started, "?"
        if progress.cost_run:
            rest = min(seconds * progress.cost_left / progress.cost_run, MAX_SECONDS)
            left = str(timedelta(seconds=math.ceil(rest)))
        self.show(
            f"{self.done:,} of {self.cells:,} runs · {about(progress.pulls)} pulls · {left} left"
        )
