"""``python -m oddarms``: find the outlier workers of a simulated crowd."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from oddarms.arms import simulated_crowd
from oddarms.errors import MissingExtra, OddarmsError, SearchError, SearchInterrupted
from oddarms.plots import plot_intervals
from oddarms.problem import Problem, check_budget, outliers
from oddarms.search import ProgressLine, Result, find

EXIT_ERROR, EXIT_INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _demonstrate(options)
    except SearchInterrupted as error:
        print(f"\ninterrupted after {error.result.pulls:,} samples; so far:", file=sys.stderr)
        _report(error.result, options.output, "interrupted")
        return EXIT_INTERRUPTED
    except SearchError as error:
        print(f"error: {error}", file=sys.stderr)
        _report(error.result, options.output, "failed")
        return EXIT_ERROR
    except (OddarmsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m oddarms",
        description="Find the crowd workers whose error rate is abnormally high, in a simulated"
        " crowd of 722 workers, by asking them as few questions as possible.",
    )
    parser.add_argument("--k", type=float, default=2.0, help="standard deviations (default 2)")
    parser.add_argument(
        "--delta", type=float, default=0.1, help="permitted probability of an error (default 0.1)"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides the workers' answers")
    parser.add_argument("--budget", type=int, help="ask at most this many questions")
    parser.add_argument(
        "--output", type=Path, default=Path("output"), help="folder for picture, JSON and CSV"
    )
    return parser


def _demonstrate(options: argparse.Namespace) -> int:
    crowd = simulated_crowd()
    Problem(crowd.labels, k=options.k, delta=options.delta)
    check_budget(options.budget)
    options.output.mkdir(parents=True, exist_ok=True)  # better to fail before the first sample
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
    _report(result, options.output, "crowd")
    truth = {crowd.labels[i] for i in outliers(crowd.means, options.k)}
    _compare_with_truth(result, truth)
    if result.complete:
        _compare_with_equal_sampling(result, options)
    return 0


def _report(result: Result, folder: Path, name: str) -> None:
    found = [str(label) for label in result.outliers]
    print(f"Outliers ({len(found)}):")
    for start in range(0, len(found), 8):
        print("  " + " ".join(found[start : start + 8]))
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
    json_path, csv_path = folder / f"{name}.json", folder / f"{name}.csv"
    json_path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    with csv_path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(table["arms"][0]))
        writer.writeheader()
        writer.writerows(table["arms"])
    written = [json_path, csv_path]
    try:
        picture = folder / f"{name}.png"
        plot_intervals(result, picture)
        written.insert(0, picture)
    except MissingExtra as error:
        print(f"No picture: {error}", file=sys.stderr)
    return written


def _compare_with_truth(result: Result, truth: set[object]) -> None:
    wrong = [label for label in result.outliers if label not in truth]
    wrong += [label for label in result.normal if label in truth]
    verdict = "every decision is right" if not wrong else f"{len(wrong)} decisions are wrong"
    print(f"\nThe simulation knows the true error rates: {verdict}.", flush=True)


def _compare_with_equal_sampling(result: Result, options: argparse.Namespace) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
