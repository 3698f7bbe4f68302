"""The benchmark's figures as Markdown and as JSON."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks._compare import BASELINES, SMALL, SPADE, Row
from benchmarks._speed import GrowthRow, RunsRow, SpeedRow
from benchmarks._storage import Opening, StorageRow
from oddarms.experiments._paper import DELTA
from oddarms.statistics.binomial import most_errors


def samples_table(figures: list[dict[str, Any]]) -> str:
    """Return the comparison of SPADE and all algorithms that ran beside it, from `samples_json`."""
    names = [one.name for one in BASELINES if one.name in figures[0]["algorithms"]]
    ratios = ["ADE / SPADE", "better of RR, WRR / SPADE"] if names else []
    header = ["family", "n", "SPADE", "wrong", *names, *ratios, "limit", "SPADE / limit"]
    return markdown(header, [_samples_row(family, names) for family in figures])


def _samples_row(family: dict[str, Any], names: list[str]) -> list[str]:
    algorithms = family["algorithms"]
    spade = algorithms[SPADE.name]
    return [
        family["family"],
        f"{family['n']:,}",
        f"{spade['mean_pulls']:,.0f} ± {spade['half_width_95']:,.0f}",
        f"{spade['wrong']} of {spade['runs']}",
        *(_pulls(algorithms[name]) for name in names),
        *([_ratio(algorithms, ("ADE",)), _ratio(algorithms, ("RR", "WRR"))] if names else []),
        f"{family['limit']:,.0f}",
        f"{family['spade_over_limit']:.1f}",
    ]


def _pulls(measured: dict[str, Any]) -> str:
    wrong = f", {measured['wrong']} wrong" if measured["wrong"] else ""
    spread = 100.0 * measured["half_width_95"] / measured["mean_pulls"]
    interval = "" if measured["unfinished"] or math.isnan(spread) else f" ± {spread:.0f} %"
    return f"{_more_than(measured)}{measured['mean_pulls']:.2g}{interval}{wrong}"


def _ratio(algorithms: dict[str, Any], names: tuple[str, ...]) -> str:
    best = min((algorithms[name] for name in names), key=lambda measured: measured["mean_pulls"])
    return f"{_more_than(best)}{best['over_spade_on_the_same_instances']:,.0f}"


def _more_than(measured: dict[str, Any]) -> str:
    return "> " if measured["unfinished"] else ""


def verdict(figures: list[dict[str, Any]]) -> list[str]:
    """Return the sentences that sum the comparison up, from `samples_json`."""
    small = geometric_mean(family["spade_over_limit"] for family in figures if family["n"] <= SMALL)
    lines = [f"Geometric mean of SPADE / limit over n <= {SMALL}: {small:.2f}."]
    for family in figures:
        spade = family["algorithms"][SPADE.name]
        most = most_errors(spade["runs"], DELTA)
        if spade["wrong"] > most:
            lines.append(
                f"{family['family']}: {spade['wrong']} wrong is more than {most}: NOT VALID."
            )
    if len(lines) == 1:
        lines.append(
            f"No family has more wrong answers than delta = {DELTA} allows (exact binomial bound,"
            " false alarm 1e-6)."
        )
    return lines


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def samples_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the comparison as plain values."""
    return [
        {
            "family": row.setting.name,
            "description": row.setting.data,
            "n": row.n,
            "k": row.setting.k,
            "limit": row.limit,
            "spade_over_limit": row.ratio_to_limit,
            "spade_runs": {
                "pulls": [outcome.pulls for outcome in row.spade],
                "limits": row.limits,
                "wrong": [place for place, one in enumerate(row.spade) if not one.correct],
            },
            "algorithms": {
                name: {
                    "runs": summary.runs,
                    "mean_pulls": summary.mean,
                    "half_width_95": summary.half_width,
                    "wrong": summary.wrong,
                    "unfinished": summary.unfinished,
                    "over_spade_on_the_same_instances": row.ratio_to(name),
                }
                for name, summary in row.summaries.items()
            },
        }
        for row in rows
    ]


def report_text(report: dict[str, Any]) -> str:
    """Return a report as JSON, each list of numbers on one line."""
    text = json.dumps(report, indent=1)
    return re.sub(r"\[\n[-+.,\s\de]+\]", lambda found: " ".join(found[0].split()), text) + "\n"


def speed_table(rows: Iterable[SpeedRow]) -> str:
    """Return the speed of the compiled simulation."""
    return markdown(
        ["algorithm, n = 1000", "pulls", "seconds", "million pulls / s", "of numpy's rate"],
        [
            [
                row.name,
                f"{row.pulls:,}",
                f"{row.seconds:.3f}",
                f"{row.pulls / row.seconds / 1e6:,.0f}",
                f"{row.ratio_to_numpy:.3f}",
            ]
            for row in rows
        ],
    )


def runs_table(rows: Iterable[RunsRow]) -> str:
    """Return the time of whole simulated runs."""
    return markdown(
        ["algorithm", "pulls", "steps", "ms a run, compiled", "ms a run, interactive", "ratio"],
        [
            [
                row.name,
                f"{row.pulls:,.0f}",
                f"{row.steps:.0f}",
                f"{1e3 * row.compiled_seconds:.1f}",
                f"{1e3 * row.interactive_seconds:.0f}",
                f"{row.interactive_seconds / row.compiled_seconds:.0f}",
            ]
            for row in rows
        ],
    )


def growth_table(rows: Iterable[GrowthRow]) -> str:
    """Return whole searches of growing size."""
    return markdown(
        ["arms", "pulls", "pulls / arm", "seconds", "ns / pull", "peak memory, MB", "right"],
        [
            [
                f"{row.arms:,}",
                f"{row.pulls:,}",
                f"{row.pulls / row.arms:.1f}",
                f"{row.seconds:.2f}",
                f"{row.seconds / row.pulls * 1e9:.0f}",
                f"{row.peak_megabytes:,.0f}",
                "yes" if row.correct else "NO",
            ]
            for row in rows
        ],
    )


def storage_table(rows: Iterable[StorageRow]) -> str:
    """Return how fast results are recorded, and what they take on the disk."""
    header = ["storage", "writers", "what", "ours", "Optuna", "ours / Optuna", "bare inserts"]
    header += ["ours / bare", "our bytes a result", "Optuna's"]
    return markdown(
        header,
        [
            [
                row.storage,
                str(row.writers),
                row.task,
                _median_and_range(row.ours),
                _median_and_range(row.optuna),
                _or_dash(row.over_optuna, ".1f"),
                _median_and_range(row.bare),
                _or_dash(row.over_bare, ".2f"),
                _or_dash(row.our_bytes, ",.0f"),
                _or_dash(row.optuna_bytes, ",.0f"),
            ]
            for row in rows
        ],
    )


def openings_table(rows: Iterable[Opening]) -> str:
    """Return what it costs to open a study."""
    return markdown(
        ["storage", "arms", "results", "CPU seconds"],
        [[row.storage, f"{row.arms:,}", f"{row.results:,}", f"{row.seconds:.2f}"] for row in rows],
    )


def _median_and_range(values: list[float]) -> str:
    if not values:
        return "-"
    middle = f"{statistics.median(values):,.0f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.0f} to {max(values):,.0f})"


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def markdown(header: list[str], body: list[list[str]]) -> str:
    """Return a table in Markdown."""
    rows = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
