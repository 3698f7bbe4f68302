"""``oddarms reproduce``: the figures of the ADE paper, and one of ROAI."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from oddarms.cli._printing import note
from oddarms.cli._progress import GridDisplay
from oddarms.errors import InvalidParameter
from oddarms.experiments import (
    Claim,
    GridProgress,
    Reproduction,
    RoaiReproduction,
    reproduce_roai,
)
from oddarms.experiments import reproduce as reproduce_figures
from oddarms.tables import RecordedArms, read_arms
from oddarms.text import shown


class Figure(StrEnum):
    """What can be reproduced."""

    fig1 = "fig1"
    fig2a = "fig2a"
    fig2b = "fig2b"
    fig3 = "fig3"
    all = "all"
    roai = "roai"


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
        int | None, typer.Option(help="Runs at a time; by default one per core.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer sizes and runs: a first look.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")] = False,
) -> None:
    """Reproduce the experiments of the ADE paper (AAAI 2020), with SPADE beside its algorithms.

    Writes a table with a row per run, a PNG and an SVG per figure, and a report that puts the
    paper's claims beside what was measured. Finished runs are kept in the folder: stopped at any
    moment, the same command goes on where it was, with the same result.

    `roai` is Figure 1(b) of "Robust Outlier Arm Identification" (ICML 2020), with LUCB beside its
    algorithms, in a folder of its own.

    \b
    Try:
      oddarms reproduce all --quick
      oddarms reproduce fig3 --data responses.txt --gold gold.txt
      oddarms reproduce roai
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    if gold is not None and data is None:
        raise InvalidParameter(
            "--gold must go with --data, whose gold labels it has, but got none."
        )
    recorded = None if data is None else read_arms(data, gold=gold)
    if recorded is not None and not quiet:
        _say_what_was_read(recorded)
    wanted = list(Figure) if Figure.all in figures else figures
    chosen = [figure.value for figure in wanted if figure not in (Figure.all, Figure.roai)]
    shared: dict[str, Any] = {
        "runs": runs,
        "rng": seed,
        "quick": quick,
        "jobs": jobs,
        "command": shlex.join(["oddarms", *context.obj]),
    }
    if chosen:
        with _progress(out, quiet) as progress:
            found = reproduce_figures(
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
    if Figure.roai in figures:
        with _progress(out / "roai", quiet) as progress:
            again = reproduce_roai(folder=out / "roai", budget=budget, progress=progress, **shared)
        if not quiet:
            _show_roai(again)


@contextmanager
def _progress(out: Path, quiet: bool) -> Iterator[Callable[[GridProgress], None]]:
    """Show how far the runs are; interrupted, say how to go on."""
    with GridDisplay(sys.stderr, shown=not quiet) as display:
        try:
            yield display.update
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_how_to_go_on(display, out)) from None


def _say_what_was_read(recorded: RecordedArms) -> None:
    left_out = f", {recorded.left_out:,} rows without gold left out" if recorded.left_out else ""
    note(f"{recorded.source}: {len(recorded.labels):,} arms, read as {recorded.layout}{left_out}")


def _how_to_go_on(display: GridDisplay, out: Path) -> str:
    if display.cells == 0:
        return "interrupted before the first run."
    return (
        f"interrupted: {display.done:,} of {display.cells:,} runs are kept in {out}; the same"
        " command goes on from there."
    )


def _show(found: Reproduction) -> None:
    typer.echo(f"{found.outcomes}\n")
    for workers in dict.fromkeys(row.data for row in found.outcomes if row.figure == "fig3"):
        typer.echo(f"Workers of fig3: {shown(workers)}\n")
    for claim in found.claims:
        typer.echo(_line(claim))
    report, *others = found.files
    typer.echo(f"\nReport: {report} (and {len(others)} other files in {report.parent})")


def _show_roai(found: RoaiReproduction) -> None:
    typer.echo(str(found))
    report, *others = found.files
    typer.echo(f"\nReport: {report} (and {len(others)} other files in {report.parent})")


def _line(claim: Claim) -> str:
    return f"{claim.figure}: {claim.paper} -> {claim.verdict}"
