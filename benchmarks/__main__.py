"""``python -m benchmarks``, which is ``make bench``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._budget import budget_families, budget_runs
from benchmarks._calibrated import calibrated_families, calibrated_runs
from benchmarks._compare import BASELINES, Effort, bounds_of, compare, with_few_arms
from benchmarks._delta import (
    DELTAS,
    INSTANCES,
    MOST_ARMS,
    QUICK_INSTANCES,
    falling_delta,
)
from benchmarks._fixed import equal_until_decided, fixed_runs
from benchmarks._instances import fresh_families, held_out_families, instance_families
from benchmarks._speed import busy_workers, cost_of_the_loop, growth
from benchmarks._storage import openings, places
from benchmarks._tables import README_FAMILIES, SMALL, TABLES, report_text
from oddarms.errors import InvalidParameter
from oddarms.experiments import Setting
from oddarms.experiments._paper import DELTA
from oddarms.problem import check_whole

FULL = Effort(runs=100, baseline_runs=100, budget=100_000_000)
QUICK = Effort(runs=4, baseline_runs=1, budget=10_000_000)
FAMILIES = {"benchmark": "samples", "held-out": "held_out", "fresh": "fresh"}
"""The sets of families, and where the report has them."""
NOT_PROVEN_RUNS, QUICK_NOT_PROVEN_RUNS = 200, 8
ERROR_DELTAS, ERROR_RUNS, QUICK_ERROR_RUNS = (0.1, 0.5), 2_000, 8
SIZES = (1_000, 10_000, 100_000, 1_000_000)

Report = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.runs is not None:
            check_whole("runs", options.runs, least=1)
        families = matching(_families(options), options.match)
        if not families:
            names = "; ".join(family.name for family in _families(options))
            raise InvalidParameter(
                f"--match {options.match}: no family has that in its name: {names}."
            )
    except InvalidParameter as error:
        parser.error(str(error))
    started = time.monotonic()
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    report: Report = {"seed": options.seed, "machine": machine}
    print(f"# Benchmark\n\nSeed {options.seed}; {machine}; {_effort(options).describe()}.\n")
    for part in options.parts:
        found = PARTS[part](families, options)
        report |= found
        for name in found:
            print(f"## {name.replace('_', ' ').capitalize()}\n")
            print(f"{TABLES[name](report) if name in TABLES else json.dumps(found[name])}\n")
    report["seconds"] = time.monotonic() - started
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(report_text(report), encoding="utf-8")
    print(f"{report['seconds']:.0f} seconds; JSON written to {options.json}")
    return 0


def _families(options: argparse.Namespace) -> list[Setting]:
    if options.families == "held-out":
        return held_out_families()
    return fresh_families() if options.families == "fresh" else instance_families(options.data)


def _effort(options: argparse.Namespace) -> Effort:
    effort = QUICK if options.quick else FULL
    runs = effort.runs if options.runs is None else options.runs
    return replace(effort, runs=runs, baseline_runs=min(runs, effort.baseline_runs))


def matching(families: list[Setting], parts: Sequence[str] | None) -> list[Setting]:
    """Return the families with one of the parts in their name; all of them if none is asked for."""
    return [one for one in families if parts is None or any(part in one.name for part in parts)]


def _samples(families: list[Setting], options: argparse.Namespace) -> Report:
    effort = _effort(options)
    rows = compare(
        families,
        effort,
        seed=options.seed,
        jobs=options.jobs,
        report=_say,
        baselines=() if options.only_spade else BASELINES,
    )
    report: Report = {FAMILIES[options.families]: [row.to_dict() for row in rows]}
    if not options.only_spade:
        report["fixed_runs"] = list(fixed_runs(rows, effort, seed=options.seed))
    return report


def _delta(families: list[Setting], options: argparse.Namespace) -> Report:
    few = with_few_arms(families, MOST_ARMS)
    instances = QUICK_INSTANCES if options.quick else INSTANCES
    return {"delta": _spade(few, options, instances)} if few else {}


def _errors(families: list[Setting], options: argparse.Namespace) -> Report:
    runs = QUICK_ERROR_RUNS if options.quick else ERROR_RUNS
    few = with_few_arms(families, SMALL)
    rows = _spade(few, options, runs, ERROR_DELTAS)
    return {"errors": [{key: row[key] for key in row if key != "pulls"} for row in rows]}


def _fdr(families: list[Setting], options: argparse.Namespace) -> Report:
    """Run the same searches with either guarantee."""
    few = with_few_arms(families, SMALL)
    instances = QUICK_INSTANCES if options.quick else INSTANCES
    own = [replace(family, words={"error": "fdr"}) for family in few]
    fwer, fdr = (_spade(each, options, instances, (DELTA,)) for each in (few, own))
    return {
        "fdr": [
            {"family": one["family"], "fwer": one["pulls"], "fdr": other["pulls"]}
            for one, other in zip(fwer, fdr, strict=True)
        ]
    }


def _spade(
    families: list[Setting],
    options: argparse.Namespace,
    runs: int,
    deltas: Sequence[float] = DELTAS,
) -> list[Report]:
    """Return SPADE's runs alone; `--runs` replaces their number."""
    runs = runs if options.runs is None else options.runs
    words = {"seed": options.seed, "jobs": options.jobs, "report": _say, "deltas": deltas}
    return list(falling_delta(families, runs, **words))


def _bounds(families: list[Setting], options: argparse.Namespace) -> Report:
    return {"bounds": bounds_of(families, _effort(options).runs, seed=options.seed)}


def _not_proven(families: list[Setting], options: argparse.Namespace) -> tuple[list[Setting], int]:
    """Return the families for what is only measured, and how many instances of each."""
    own = matching(calibrated_families(), options.match)
    default = QUICK_NOT_PROVEN_RUNS if options.quick else NOT_PROVEN_RUNS
    runs = default if options.runs is None else options.runs
    return with_few_arms(families, SMALL) + own, runs


def _calibrated(families: list[Setting], options: argparse.Namespace) -> Report:
    chosen, runs = _not_proven(families, options)
    found = calibrated_runs(chosen, runs, seed=options.seed, report=_say)
    return {"calibrated": list(found)}


def _beside(families: list[Setting], options: argparse.Namespace) -> Report:
    """Run what the README sets beside SPADE, on the same instances."""
    chosen = [family for family in families if family.name in README_FAMILIES]
    runs = _effort(options).runs
    equal = equal_until_decided(chosen, runs, seed=options.seed)
    calibrated = calibrated_runs(chosen, runs, seed=options.seed, report=_say)
    rows = [row for row in calibrated if row["delta"] == DELTA]
    return {"equal": list(equal), "calibrated_beside": rows}


def _budget(families: list[Setting], options: argparse.Namespace) -> Report:
    chosen, runs = _not_proven(families, options)
    found = budget_runs(budget_families(chosen), runs, seed=options.seed, report=_say)
    return {"budget": found}


def _speed(families: list[Setting], options: argparse.Namespace) -> Report:  # noqa: ARG001
    _say("a pull of a trivial function: a bare loop of ask and tell, and `find`")
    return {"loop": cost_of_the_loop()}


def _growth(families: list[Setting], options: argparse.Namespace) -> Report:  # noqa: ARG001
    _say("growth with the number of arms")
    return {"growth": list(growth(SIZES[:2] if options.quick else SIZES))}


def _opening(families: list[Setting], options: argparse.Namespace) -> Report:  # noqa: ARG001
    with places(options.storage) as found:
        rows = openings(found, 20_000 if options.quick else 1_000_000, _say)
    return {"opening": rows}


def _workers(families: list[Setting], options: argparse.Namespace) -> Report:  # noqa: ARG001
    _say("how busy many workers are")
    seeds = range(options.seed, options.seed + (1 if options.quick else 8))
    return {"workers": list(busy_workers(seeds))}


PARTS: dict[str, Callable[[list[Setting], argparse.Namespace], Report]] = {
    "samples": _samples,
    "delta": _delta,
    "errors": _errors,
    "fdr": _fdr,
    "bounds": _bounds,
    "beside": _beside,
    "calibrated": _calibrated,
    "budget": _budget,
    "speed": _speed,
    "growth": _growth,
    "opening": _opening,
    "workers": _workers,
}


def _say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure samples, errors, speed and growth; docs/explanation/benchmark.md says"
        " what each part is.",
    )
    parser.add_argument("--quick", action="store_true", help="about two minutes, coarse figures")
    parser.add_argument(
        "--families",
        choices=FAMILIES,
        default="benchmark",
        help="the benchmark's, some that nothing was tuned on but that have been looked at, or"
        " fresh ones, to be looked at once after all choices are made",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="a folder with hyuncatherines_arms.csv; without it a stand-in for that crowd",
    )
    parser.add_argument(
        "--match",
        nargs="+",
        metavar="TEXT",
        help="only families with one of these in their name, such as k=3",
    )
    parser.add_argument(
        "--only-spade",
        action="store_true",
        help="leave out ADE, RR, WRR and what a fixed number of runs gives",
    )
    parser.add_argument("--runs", type=int, help="instances per family")
    parser.add_argument("--seed", type=int, default=0, help="decides instances and rewards")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure"
    )
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="a PostgreSQL to measure beside SQLite, as a user who may make databases",
    )
    parser.add_argument(
        "--json", type=Path, default=Path("output/bench.json"), help="where the figures go"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
