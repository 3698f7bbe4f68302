"""``python -m benchmarks``, which is ``make bench``."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._budget import (
    budget_families,
    budget_means_table,
    budget_runs,
    budget_table,
)
from benchmarks._calibrated import (
    calibrated_families,
    calibrated_note,
    calibrated_runs,
    calibrated_table,
    few_arms_of,
)
from benchmarks._compare import BASELINES, Effort, Limits, compare, run_limits
from benchmarks._delta import (
    INSTANCES,
    MOST_ARMS,
    QUICK_INSTANCES,
    delta_note,
    delta_table,
    falling_delta,
    few_arms,
)
from benchmarks._fixed import fixed_runs, fixed_table
from benchmarks._fresh import fresh_families
from benchmarks._instances import held_out_families, instance_families
from benchmarks._paired import Earlier, paired, paired_table, paired_verdict
from benchmarks._places import MISSING_SERVER, places
from benchmarks._speed import (
    MAX_LOOP_RATIO,
    as_json,
    cost_of_the_loop,
    growth,
    simulation_speed,
    whole_runs,
)
from benchmarks._storage import (
    FULL_STORAGE,
    MISSING_OPTUNA,
    QUICK_STORAGE,
    openings,
    optuna_version,
    storage_rates,
    storage_tasks,
)
from benchmarks._tables import (
    growth_table,
    openings_table,
    report_text,
    runs_table,
    samples_json,
    samples_table,
    speed_table,
    storage_table,
    verdict,
)
from benchmarks._workers import busy_workers, workers_table
from oddarms.errors import InvalidParameter
from oddarms.experiments import Setting
from oddarms.problem import check_whole

FULL = Effort(runs=100, baseline_runs=100, budget=100_000_000)
QUICK = Effort(runs=4, baseline_runs=1, budget=10_000_000)
FAMILIES = ("benchmark", "held-out", "fresh")
PARTS = ("samples", "delta", "calibrated", "budget", "speed", "growth", "storage", "workers")
NOT_PROVEN_RUNS, QUICK_NOT_PROVEN_RUNS = 200, 8
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        plan = _Plan.of(options)
    except InvalidParameter as error:
        parser.error(str(error))
    started = time.monotonic()
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"# Benchmark\n\nSeed {options.seed}; {machine}; {plan.effort.describe()}.\n")
    report: dict[str, Any] = {"seed": options.seed, "machine": machine}
    if "samples" in options.parts:
        report |= _samples(plan, options)
    if "delta" in options.parts:
        report |= _delta(plan, options)
    if "calibrated" in options.parts:
        report |= _calibrated(plan, options)
    if "budget" in options.parts:
        report |= _budget(plan, options)
    if "speed" in options.parts:
        _say("speed of the compiled simulation")
        speeds = list(simulation_speed())
        print(f"## Simulated pulls per second\n\n{speed_table(speeds)}\n")
        report["speed"] = as_json(speeds)
        runs = list(whole_runs())
        print(f"## Whole simulated runs\n\n{runs_table(runs)}\n")
        report["runs"] = as_json(runs)
        loop = cost_of_the_loop()
        print(
            f"## A pull of a trivial function\n\n{loop.bare:.1f} µs in a bare loop of ask and tell,"
            f" {loop.found:.1f} µs by `find`: {loop.ratio:.2f} times (at most {MAX_LOOP_RATIO}).\n"
        )
        report["loop"] = as_json([loop])
    if "growth" in options.parts:
        _say("growth with the number of arms")
        sizes = list(growth(SIZES[:2] if options.quick else SIZES))
        print(f"## Growth of a whole search\n\n{growth_table(sizes)}\n")
        report["growth"] = as_json(sizes)
    if "storage" in options.parts:
        report |= _storage(options)
    if "workers" in options.parts:
        _say("how busy many workers are")
        searches = list(
            busy_workers(range(options.seed, options.seed + (1 if options.quick else 8)))
        )
        print(f"## Many workers, in virtual time\n\n{workers_table(searches)}\n")
        report["workers"] = as_json(searches)
    report["seconds"] = time.monotonic() - started
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(report_text(report), encoding="utf-8")
    print(f"{report['seconds']:.0f} seconds; JSON written to {options.json}")
    return 0


@dataclass(frozen=True)
class _Plan:
    """What the options ask for, found to be possible before anything is measured."""

    families: list[Setting]
    effort: Effort
    earlier: Earlier | None
    limits: Limits | None

    @classmethod
    def of(cls, options: argparse.Namespace) -> _Plan:
        effort = QUICK if options.quick else FULL
        if options.runs is not None:
            effort = effort.with_runs(check_whole("runs", options.runs, least=1))
        families = matching(_families(options), options.match)
        earlier, limits = None, None
        if options.against is not None:
            if "samples" not in options.parts:
                raise InvalidParameter(
                    "--against needs the part samples but --parts leaves it out; add samples."
                )
            earlier = Earlier.read(options.against)
            earlier.check(families, effort.runs, options.seed)
            limits = run_limits(families, effort, seed=options.seed)
            earlier.check_limits(limits)
        return cls(families, effort, earlier, limits)


def _families(options: argparse.Namespace) -> list[Setting]:
    if options.families == "held-out":
        return held_out_families()
    return fresh_families() if options.families == "fresh" else instance_families(options.data)


def matching(families: list[Setting], parts: Sequence[str] | None) -> list[Setting]:
    """Return the families with one of the parts in their name; all of them if none is asked for."""
    if parts is None:
        return families
    found = matching_or_none(families, parts)
    if not found:
        raise InvalidParameter(
            f"--match must be in the name of a family but got {' '.join(parts)!r}; there are"
            f" {'; '.join(family.name for family in families)}."
        )
    return found


def matching_or_none(families: list[Setting], parts: Sequence[str] | None) -> list[Setting]:
    """Return the families with one of the parts in their name, which may be none."""
    return [
        family for family in families if parts is None or any(part in family.name for part in parts)
    ]


def _samples(plan: _Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Measure samples and errors, print them and return them for the report."""
    rows = compare(
        plan.families,
        plan.effort,
        seed=options.seed,
        jobs=options.jobs,
        report=_say,
        baselines=() if options.only_spade else BASELINES,
        limits=plan.limits,
    )
    figures = samples_json(rows)
    print(f"## Samples\n\n{samples_table(figures)}\n")
    print("\n".join(verdict(figures)) + "\n")
    report: dict[str, Any] = {"samples": figures}
    if not options.only_spade:
        fixed = list(fixed_runs(rows, plan.effort, seed=options.seed))
        print(f"## What a fixed number of runs each gives\n\n{fixed_table(fixed)}\n")
        report["fixed_runs"] = as_json(fixed)
    if plan.earlier is not None:
        pairs = paired(rows, plan.earlier)
        print(f"## Against {plan.earlier.path}\n\n{paired_table(pairs)}\n")
        print("\n".join(paired_verdict(pairs, plan.earlier)) + "\n")
        report["against"] = as_json(pairs)
    return report


def _delta(plan: _Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Measure SPADE's pulls as delta falls, print them and return them for the report."""
    families = few_arms(plan.families)
    print("## As delta falls\n")
    if not families:
        print(f"No family chosen has at most {MOST_ARMS} arms.\n")
        return {}
    instances = QUICK_INSTANCES if options.quick else INSTANCES
    rows = list(
        falling_delta(
            families,
            instances if options.runs is None else options.runs,
            seed=options.seed,
            jobs=options.jobs,
            report=_say,
        )
    )
    print(f"{delta_table(rows)}\n\n{delta_note(rows)}\n")
    return {"delta": as_json(rows)}


def _not_proven(plan: _Plan, options: argparse.Namespace) -> tuple[list[Setting], int]:
    """Return the families for what is only measured, and how many instances of each."""
    families = few_arms_of(plan.families) + matching_or_none(calibrated_families(), options.match)
    default = QUICK_NOT_PROVEN_RUNS if options.quick else NOT_PROVEN_RUNS
    return families, default if options.runs is None else options.runs


def _calibrated(plan: _Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the calibrated rule, print it and return it for the report."""
    families, runs = _not_proven(plan, options)
    rows = list(calibrated_runs(families, runs, seed=options.seed, report=_say))
    print(f"## The calibrated rule, which is not proven\n\n{calibrated_table(rows)}\n")
    print(f"{calibrated_note(rows)}\n")
    return {"calibrated": as_json(rows)}


def _budget(plan: _Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Measure guesses at the end of a budget, print them and return them for the report."""
    families, runs = _not_proven(plan, options)
    rows = budget_runs(budget_families(families), runs, seed=options.seed, report=_say)
    print(f"## At the end of a budget: P(any wrong), wrong arms\n\n{budget_table(rows)}\n")
    print(f"Means over families:\n\n{budget_means_table(rows)}\n")
    return {"budget": as_json(rows)}


def _storage(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the storages that can be had here, print it and return it for the report."""
    effort = QUICK_STORAGE if options.quick else FULL_STORAGE
    optuna = optuna_version()
    with places(options.storage) as found:
        versions = [f"{place.name} {place.version()}" for place in found]
        rates = storage_rates(found, storage_tasks(optuna=optuna is not None), effort, _say)
        opened = openings(found, effort.opened, _say)
    versions += [] if optuna is None else [f"Optuna {optuna}"]
    remarks = [f"{', '.join(versions)}. {effort.describe()}"]
    remarks += [MISSING_OPTUNA] if optuna is None else []
    remarks += [MISSING_SERVER] if len(found) == 1 else []
    print(f"## Results recorded per second\n\n{storage_table(rates)}\n")
    print("".join(f"{remark}\n" for remark in remarks))
    print(f"## Opening a study\n\n{openings_table(opened)}\n")
    return {"storage": as_json(rates), "opening": as_json(opened)}


def _say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure samples and errors of all algorithms on the same instances, SPADE's"
        " samples as delta falls (on families of at most 50 arms), the calibrated rule and guesses"
        " at the end of a budget (at most 200 arms, and families of their own), the speed of the"
        " compiled simulation, the growth of a search with the number of arms, how fast studies"
        " record results, and how busy many workers are.",
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
    parser.add_argument(
        "--against",
        type=Path,
        metavar="JSON",
        help="an earlier report of the same seed, families and runs: SPADE is compared with it"
        " run by run",
    )
    parser.add_argument(
        "--runs",
        type=int,
        help=f"instances per family for SPADE (by default {FULL.runs}, for the part delta"
        f" {INSTANCES})",
    )
    parser.add_argument("--seed", type=int, default=0, help="decides instances and rewards")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        default=PARTS,
        help="what to measure",
    )
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="a PostgreSQL to measure beside SQLite, as a user who may make databases; by default"
        " one is started, if it is installed",
    )
    parser.add_argument(
        "--json", type=Path, default=Path("output/bench.json"), help="where the figures go"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
