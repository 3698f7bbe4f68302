"""``oddarms reproduce``: the figures of the ADE paper."""

from __future__ import annotations

import math
import shlex
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from oddarms import experiments
from oddarms.cli._options import (
    CONTEXT,
    QUIET,
    Given,
    argument,
    flag,
    option,
    seed_option,
    takes,
)
from oddarms.cli._terminal import emit, note
from oddarms.experiments import Claim, Crowd, GridProgress, Reproduction, read_crowd
from oddarms.search import StatusLine
from oddarms.text import about, shown

MAX_SECONDS = 99 * 86_400
"""The longest time left that is shown."""
FIGURES = ["fig1", "fig2a", "fig2b", "fig3"]


class Figure(StrEnum):
    """What can be reproduced."""

    fig1 = "fig1"
    fig2a = "fig2a"
    fig2b = "fig2b"
    fig3 = "fig3"
    all = "all"


@takes(
    context=CONTEXT,
    figures=argument(list[Figure], "FIGURE", "fig1, fig2a, fig2b, fig3, or all of these."),
    out=option(
        Path, "Folder for tables, pictures and report.", default=Path("output/paper"), metavar="DIR"
    ),
    runs=option(int, "Instances per setting (runs, for fig3).", "10; 3 with --quick"),
    seed=seed_option("Seed for all instances and rewards.", 0),
    algorithms=option(
        str,
        "Algorithms to compare, separated by commas.",
        default="ade,rr,wrr,spade",
        metavar="A,B,C",
    ),
    data=option(
        Path,
        "Workers for fig3: a table with the columns arm,reward or arm,mean or worker,label,gold.",
        "simulated workers",
    ),
    budget=option(int, "At most this many pulls per run.", default=1_000_000_000),
    jobs=option(int, "Runs in parallel.", "one per core", min=1),
    quick=flag("Fewer sizes and runs, for a first look."),
    quiet=QUIET,
)
def reproduce(given: Given) -> None:
    """Reproduce the experiments of the ADE paper (AAAI 2020), with SPADE beside its algorithms.

    Writes a table with a row per run, a PNG and an SVG per figure, and a report that puts the
    paper's claims beside what was measured. Finished runs are kept in the folder: stopped at any
    moment, the same command resumes, with the same result.

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
    with _progress(out, quiet) as progress:
        found = experiments.reproduce(
            FIGURES if "all" in figures else [one.value for one in figures],
            folder=out,
            runs=given.runs,
            rng=given.seed,
            algorithms=[name.strip() for name in given.algorithms.split(",")],
            data=crowd,
            budget=given.budget,
            quick=given.quick,
            jobs=given.jobs,
            progress=progress,
            command=shlex.join(["oddarms", *given.context.obj]),
        )
    if not quiet:
        _show(found)


@contextmanager
def _progress(out: Path, quiet: bool) -> Iterator[Callable[[GridProgress], None]]:
    """Show how far the runs are; interrupted, say how to resume."""
    with GridDisplay(quiet=quiet) as display:
        try:
            yield display
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_how_to_resume(display, out)) from None


def _say_what_was_read(crowd: Crowd) -> None:
    left_out = f", {crowd.left_out:,} rows without gold left out" if crowd.left_out else ""
    columns = ",".join(crowd.columns)
    note(f"{crowd.description}: {crowd.arms.means.size:,} workers, read as {columns}{left_out}")


def _how_to_resume(display: GridDisplay, out: Path) -> str:
    if display.cells == 0:
        return "interrupted before the first run."
    return (
        f"interrupted: {display.done:,} of {display.cells:,} runs are kept in {out}; the same"
        " command resumes from there."
    )


def _show(found: Reproduction) -> None:
    emit(f"{found.outcomes}\n\n")
    for workers in dict.fromkeys(row.data for row in found.outcomes if row.figure == "fig3"):
        emit(f"Workers of fig3: {shown(workers)}\n\n")
    for claim in found.claims:
        emit(_line(claim))
    report, *others = found.files
    emit(f"\nReport: {report} (and {len(others)} other files in {report.parent})\n")


def _line(claim: Claim) -> str:
    return f"{claim.figure}: {claim.paper} -> {claim.verdict}\n"


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
