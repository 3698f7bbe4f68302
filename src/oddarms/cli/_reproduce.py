"""``oddarms reproduce``: the figures of the ADE paper, and one of the ROAI paper."""

from __future__ import annotations

import math
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from oddarms import experiments
from oddarms.cli._options import QuietOption
from oddarms.cli._terminal import emit, note
from oddarms.errors import InvalidParameter
from oddarms.experiments import (
    AlgorithmProgress,
    Claim,
    GridProgress,
    Reproduction,
    RoaiReproduction,
    reproduce_roai,
)
from oddarms.tables import RecordedArms, read_arms
from oddarms.text import shown

FIGURES = ["fig1", "fig2a", "fig2b", "fig3"]


class Figure(StrEnum):
    """What can be reproduced."""

    fig1 = "fig1"
    fig2a = "fig2a"
    fig2b = "fig2b"
    fig3 = "fig3"
    all = "all"
    roai = "roai"


MAX_SECONDS = 99 * 86_400
"""That the time left is said to be."""


def reproduce(
    context: typer.Context,
    figures: Annotated[
        list[Figure], typer.Argument(help="Which figures; several, or all of the ADE paper.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and report.")] = Path(
        "output/paper"
    ),
    runs: Annotated[
        int | None,
        typer.Option(help="Instances a setting (or runs, for fig3); 10, or 3 if quick."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every instance and reward.")] = 0,
    algorithms: Annotated[
        str, typer.Option(help="Which to compare (but for roai), with commas between.")
    ] = "ade,rr,wrr,spade",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Workers for fig3: SQUARE's responses (`worker item label` a line), or a CSV with"
            " arm,reward or arm,mean or worker,label,gold. Without it a synthetic stand-in is used."
        ),
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(help="SQUARE's gold file for --data: `item label` a line.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Most pulls of one run.")] = 1_000_000_000,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time; by default one per core.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer sizes and runs: a first look.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Reproduce the experiments of the ADE paper (AAAI 2020), with SPADE beside its algorithms.

    Writes a table with a row per run, a PNG and an SVG per figure, and a report that puts the
    paper's claims beside what was measured. Finished runs are kept in the folder: stopped at any
    moment, the same command resumes, with the same result.

    `roai` is Figure 1(b) of "Robust Outlier Arm Identification" (ICML 2020), with LUCB beside its
    algorithms, in a folder of its own.

    \b
    Try:
      oddarms reproduce all --quick
      oddarms reproduce fig3 --data responses.txt --gold gold.txt
      oddarms reproduce roai
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    # compiling the kernels, once, takes 500 MB: loky replaces the worker, and suspects a leak
    warnings.filterwarnings("ignore", "A worker was restarted", UserWarning)
    if gold is not None and data is None:
        raise InvalidParameter("--gold requires --data.")
    recorded = None if data is None else read_arms(data, gold=gold)
    if recorded is not None and not quiet:
        _say_what_was_read(recorded)
    chosen = FIGURES if "all" in figures else [one.value for one in figures if one != "roai"]
    shared: dict[str, Any] = {
        "runs": runs,
        "rng": seed,
        "quick": quick,
        "jobs": jobs,
        "command": shlex.join(["oddarms", *context.obj]),
    }
    if chosen:
        with _progress(out, quiet) as progress:
            found = experiments.reproduce(
                chosen,
                folder=out,
                algorithms=[name.strip() for name in algorithms.split(",")],
                data=recorded,
                budget=budget,
                progress=progress,
                **shared,
            )
        if not quiet:
            _show(found)
    if "roai" in figures:
        with _progress(out / "roai", quiet) as progress:
            again = reproduce_roai(folder=out / "roai", budget=budget, progress=progress, **shared)
        if not quiet:
            _show_roai(again)


@contextmanager
def _progress(out: Path, quiet: bool) -> Iterator[Callable[[GridProgress], None]]:
    """Show how far the runs are; interrupted, say how to resume."""
    with GridDisplay(sys.stderr, shown=not quiet) as display:
        try:
            yield display.update
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_how_to_resume(display, out)) from None


def _say_what_was_read(recorded: RecordedArms) -> None:
    left_out = f", {recorded.left_out:,} rows without gold left out" if recorded.left_out else ""
    note(f"{recorded.source}: {len(recorded.labels):,} arms, read as {recorded.layout}{left_out}")


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
    _show_files(found.files)


def _show_roai(found: RoaiReproduction) -> None:
    emit(f"{found}\n")
    _show_files(found.files)


def _show_files(files: list[Path]) -> None:
    report, *others = files
    emit(f"\nReport: {report} (and {len(others)} other files in {report.parent})\n")


def _line(claim: Claim) -> str:
    return f"{claim.figure}: {claim.paper} -> {claim.verdict}\n"


class GridDisplay:
    """Shows a running comparison: cells, pulls, rate and time left; nothing off a terminal."""

    def __init__(self, stream: TextIO, *, shown: bool) -> None:
        console = Console(file=stream)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=18),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pulls]}"),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not (shown and console.is_terminal),
        )
        self._lines: dict[str, Any] = {}
        self._started = time.monotonic()
        self.done = self.cells = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, progress: GridProgress) -> None:
        """Show how far a comparison is."""
        total = progress.total
        self.done, self.cells = total.done, total.cells
        rate = total.pulls / max(self._seconds, 1e-3)
        self._show("all", total, f"{_short(total.pulls)} pulls, {_short(rate)}/s")
        for name, one in progress.algorithms.items():
            self._show(name, one, f"{_short(one.pulls)} pulls")

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _show(self, name: str, one: AlgorithmProgress, pulls: str) -> None:
        left = self._time_left(one)
        if name not in self._lines:
            self._lines[name] = self._progress.add_task(name, total=one.cells, pulls="", left="")
        self._progress.update(self._lines[name], completed=one.done, pulls=pulls, left=left)

    def _time_left(self, one: AlgorithmProgress) -> str:
        if one.done == one.cells:
            return "done"
        if one.cost_run == 0.0:
            return "? left"
        seconds = min(self._seconds * one.cost_left / one.cost_run, MAX_SECONDS)
        return f"{timedelta(seconds=math.ceil(seconds))} left"


def _short(value: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if value < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000.0
    return f"{value:.3g}P"
