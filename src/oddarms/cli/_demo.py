"""``oddarms demo``: find the outliers of a simulated crowd."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from oddarms.arms import SimulatedArms, simulated_crowd
from oddarms.cli._guard import EXIT_SIGNAL, EXIT_USAGE
from oddarms.errors import MissingExtra, SearchError, SearchInterrupted
from oddarms.files import writable_folder, write_whole
from oddarms.finding import find
from oddarms.interrupts import signal_of
from oddarms.plotting import plot_intervals
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K, Question
from oddarms.search import ProgressLine, Result
from oddarms.tables import csv_text
from oddarms.theory import outliers


def demo(
    k: Annotated[float, typer.Option(help="Standard deviations above the mean.")] = DEFAULT_K,
    delta: Annotated[
        float, typer.Option(help="Permitted probability of an error.")
    ] = DEFAULT_DELTA,
    seed: Annotated[int, typer.Option(min=0, help="Decides the workers' answers.")] = 0,
    budget: Annotated[int | None, typer.Option(help="Ask at most this many questions.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for picture, JSON and CSV.")] = Path("output"),
    serve: Annotated[
        bool, typer.Option("--serve", help="Show it as a page that fills, until Ctrl-C.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page; 0 for any free one.")
    ] = 8321,
) -> None:
    """Find the crowd workers who err abnormally often, in a simulated crowd of 722.

    Asks them as few questions as possible, and compares the answer with the true error rates.
    """
    crowd = simulated_crowd()
    question = Question(crowd.labels, k=k, delta=delta, budget=budget)
    if serve:
        from oddarms.cli._demo_serve import serve_demo

        serve_demo(question, simulated_crowd(seed), seed, port)
        return
    try:
        _demonstrate(question, crowd, seed, out)
    except SearchInterrupted as error:
        print(f"\ninterrupted after {error.result.pulls:,} samples; so far:", file=sys.stderr)
        _report(error.result, out, "interrupted")
        raise typer.Exit(EXIT_SIGNAL + signal_of(error)) from error
    except SearchError as error:
        print(f"error: {error}", file=sys.stderr)
        _report(error.result, out, "failed")
        raise typer.Exit(EXIT_USAGE) from error


def _demonstrate(question: Question, crowd: SimulatedArms, seed: int, out: Path) -> None:
    writable_folder("out", out)  # better to fail before the first sample
    print(
        f"A simulated crowd of {len(crowd.labels)} workers: who errs abnormally often, that is, at"
        f" or above mean + {question.k:g} standard deviations of all error rates?\n"
        f"Each question asked is one sample. The answer may be wrong with probability at most"
        f" {question.delta:g}.\n"
    )
    line = ProgressLine(wait=0.0)
    try:
        result = find(
            crowd,
            k=question.k,
            delta=question.delta,
            rng=seed,
            budget=question.budget,
            progress=line,
        )
    finally:
        line.close()
    _report(result, out, "crowd")
    truth = {crowd.labels[i] for i in outliers(crowd.means, question.k)}
    _compare_with_truth(result, truth)
    print(
        "\nTo watch it happen in a browser: `oddarms demo --serve`. To watch studies of your own,"
        " with\nworkers anywhere: `oddarms serve`."
    )


def _report(result: Result, folder: Path, name: str) -> None:
    found = [str(label) for label in result.outliers]
    print(f"Outliers ({len(found)}):")
    for start in range(0, len(found), 7):
        print("  " + " ".join(found[start : start + 7]))
    lower, upper = result.threshold_interval
    print(f"Threshold: {result.threshold:.3f}, within [{lower:.3f}, {upper:.3f}]")
    print(f"Samples: {result.pulls:,} ({result.pulls / result.question.n:,.0f} a worker)")
    if result.undecided:
        print(f"Undecided: {len(result.undecided)} workers ({result.status.meaning})")
    for path in _write(result, folder, name):
        print(f"Written: {path}")


def _write(result: Result, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    table = result.to_dict()
    rows = table["arms"]
    header = list(rows[0])
    json_path = write_whole(folder / f"{name}.json", json.dumps(table, indent=1) + "\n")
    csv_path = write_whole(
        folder / f"{name}.csv", csv_text(header, ([row[key] for key in header] for row in rows))
    )
    written = [json_path, csv_path]
    try:
        picture = folder / f"{name}.png"
        plot_intervals(result, picture, first_round=True)
        written.insert(0, picture)
    except MissingExtra as error:
        print(f"No picture: {error}", file=sys.stderr)
    return written


def _compare_with_truth(result: Result, truth: set[object]) -> None:
    wrong = [label for label in result.outliers if label not in truth]
    wrong += [label for label in result.normal if label in truth]
    verdict = "every decision is right" if not wrong else f"{len(wrong)} decisions are wrong"
    print(f"\nThe simulation knows the true error rates: {verdict}.", flush=True)
