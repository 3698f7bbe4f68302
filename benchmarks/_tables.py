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
from benchmarks._storage import StorageRow
from oddarms.experiments import Summary
from oddarms.paper._settings import DELTA
from oddarms.statistics.binomial import most_errors


def samples_table(rows: list[Row]) -> str:
    """Return the comparison of SPADE and all algorithms that ran beside it."""
    names = [one.name for one in BASELINES if one.name in rows[0].summaries]
    ratios = ["ADE / SPADE", "better of RR, WRR / SPADE"] if names else []
    header = ["family", "n", "SPADE", "wrong", *names, *ratios, "limit", "SPADE / limit"]
    return markdown(header, [_samples_row(row, names) for row in rows])


def _samples_row(row: Row, names: list[str]) -> list[str]:
    spade = row.summaries[SPADE.name]
    return [
        row.setting.name,
        f"{row.n:,}",
        f"{spade.mean:,.0f} ± {spade.half_width:,.0f}",
        f"{spade.wrong} of {spade.runs}",
        *(_pulls(row.summaries[name]) for name in names),
        *([_ratio(row, ("ADE",)), _ratio(row, ("RR", "WRR"))] if names else []),
        f"{row.limit:,.0f}",
        f"{row.ratio_to_limit:.1f}",
    ]


def _pulls(summary: Summary) -> str:
    wrong = f", {summary.wrong} wrong" if summary.wrong else ""
    spread = 100.0 * summary.half_width / summary.mean
    interval = "" if summary.unfinished or math.isnan(spread) else f" ± {spread:.0f} %"
    return f"{_more_than(summary.unfinished)}{summary.mean:.2g}{interval}{wrong}"


def _ratio(row: Row, names: tuple[str, ...]) -> str:
    best = min(names, key=lambda name: row.summaries[name].mean)
    return f"{_more_than(row.summaries[best].unfinished)}{row.ratio_to(best):,.0f}"


def _more_than(unfinished: int) -> str:
    return "> " if unfinished else ""


def verdict(rows: list[Row]) -> list[str]:
    """Return the sentences that sum the comparison up."""
    small = geometric_mean(row.ratio_to_limit for row in rows if row.n <= SMALL)
    lines = [f"Geometric mean of SPADE / limit over n <= {SMALL}: {small:.2f}."]
    for row in rows:
        spade = row.summaries[SPADE.name]
        most = most_errors(spade.runs, DELTA)
        if spade.wrong > most:
            lines.append(f"{row.setting.name}: {spade.wrong} wrong is more than {most}: NOT VALID.")
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
