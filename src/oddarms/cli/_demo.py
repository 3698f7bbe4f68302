"""``oddarms demo``: find the outliers of a simulated crowd."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from oddarms.arms import simulated_crowd
from oddarms.cli._guard import EXIT_INTERRUPTED, EXIT_USAGE
from oddarms.errors import MissingExtra, SearchError, SearchInterrupted
from oddarms.files import writable_folder, write_whole
from oddarms.plotting import plot_intervals
from oddarms.problem import Problem, check_budget
from oddarms.search import ProgressLine, Result, find
from oddarms.tables import csv_text
from oddarms.theory import outliers


@dataclass(frozen=True)
class _Options:
    k: float
    delta: float
    seed: int
    budget: int | None
    out: Path


def demo(
    k: Annotated[float, typer.Option(help="Standard deviations above the mean.")] = 2.0,
    delta: Annotated[float, typer.Option(help="Permitted probability of an error.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Decides the workers' answers.")] = 0,
    budget: Annotated[int | None, typer.Option(help="Ask at most this many questions.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for picture, JSON and CSV.")] = Path("output"),
) -> None:
    """Find the crowd workers who err abnormally often, in a simulated crowd of 722.

    Asks them as few questions as possible, and says how many sampling everybody equally would
    have taken.
    """
    options = _Options(k, delta, seed, budget, out)
    try:
        _demonstrate(options)
    except SearchInterrupted as error:
        print(f"\ninterrupted after {error.result.pulls:,} samples; so far:", file=sys.stderr)
        _report(error.result, out, "interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from error
    except SearchError as error:
        print(f"error: {error}", file=sys.stderr)
        _report(error.result, out, "failed")
        raise typer.Exit(EXIT_USAGE) from error


def _demonstrate(options: _Options) -> None:
    crowd = simulated_crowd()
    Problem(crowd.labels, k=options.k, delta=options.delta)
    check_budget(options.budget)
    writable_folder("out", options.out)  # better to fail before the first sample
    print(
        f"A simulated crowd of {len(crowd.labels)} workers: who errs abnormally often, that is, at"
        f" or above mean + {options.k:g} standard deviations of all error rates?\n"
        f"Each question asked is one sample. The answer may be wrong with probability at most"
        f" {options.delta:g}.\n"
    )
    line = ProgressLine(wait=0.0)
    try:
        result = find(
            crowd,
            k=options.k,
            delta=options.delta,
            rng=options.seed,
            budget=options.budget,
            progress=line,
        )
    finally:
        line.close()
    _report(result, options.out, "crowd")
    truth = {crowd.labels[i] for i in outliers(crowd.means, options.k)}
    _compare_with_truth(result, truth)
    if result.complete:
        _compare_with_equal_sampling(result, options)


def _report(result: Result, folder: Path, name: str) -> None:
    found = [str(label) for label in result.outliers]
    print(f"Outliers ({len(found)}):")
    for start in range(0, len(found), 7):
        print("  " + " ".join(found[start : start + 7]))
    lower, upper = result.threshold_interval
    print(f"Threshold: {result.threshold:.3f}, within [{lower:.3f}, {upper:.3f}]")
    print(f"Samples: {result.pulls:,} ({result.pulls / result.problem.n:,.0f} a worker)")
    if result.undecided:
        print(f"Undecided: {len(result.undecided)} workers (stopped: {result.stopped})")
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


def _compare_with_equal_sampling(result: Result, options: _Options) -> None:
    print("Sampling every worker equally instead ...", file=sys.stderr)
    line = ProgressLine(wait=0.5)
    try:
        equal = find(
            simulated_crowd(),
            k=options.k,
            delta=options.delta,
            algorithm="rr",
            batch=1000,
            rng=options.seed,
            progress=line,
        )
    except SearchInterrupted:
        print("comparison skipped", file=sys.stderr)
        return
    finally:
        line.close()
    print(
        f"Sampling every worker equally until all are decided (RR, NIPS 2017, run on the same"
        f" crowd): {equal.pulls:,} samples, {equal.pulls / max(result.pulls, 1):,.0f} times"
        " as many."
    )
